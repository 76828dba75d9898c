"""Page of a report: one file that needs nothing beside it, and its figures and tables as files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from src import configs
from src.report import format
from src.report.findings import Findings
from src.report.folder import Folder
from src.report.study import Section, report_of

PAGE = "index.html"
TEMPLATES = Path(__file__).with_name("templates")


def write(findings: Findings, folder: Path) -> Path:
    """Write `index.html`, `figures/` and `tables/` into an empty folder that is there.

    Args:
        findings: of the sweep; it may be unfinished, or have no analysis at all.
        folder: where to.

    Returns:
        The path of the page.
    """
    place = Folder(folder)
    context, sections = contexts(findings, place)
    rendered = [_rendered(section, context) for section in sections]
    return render("page.html", {**context, "sections": rendered, "tables": place.tables}, folder)


def contexts(findings: Findings, folder: Folder) -> tuple[dict[str, Any], list[Section]]:
    """Write all figures and tables; return values for the templates of the page, and its sections."""
    arranged = {name: report_of(name).arrange(frame) for name, frame in findings.frames.items() if len(frame)}
    findings = replace(findings, frames=arranged)
    sections = []
    for name in configs.studies.in_order([*findings.frames, *configs.studies.OVER_OTHERS]):
        section = report_of(name).section(findings, folder)
        if section:
            sections.append(section)
    jobs = findings.jobs
    if "seed" in jobs:  # a job that could not be named has none, which would make floats of the others
        jobs = jobs.astype({"seed": "Int64"})
    folder.table("jobs", jobs, "every job that ended, with its run")
    context = {
        "findings": findings,
        "head": _head(findings, sections),
        "lacking": _lacking(findings),
        "columns": format.COLUMNS,
        "longest": format.LONGEST,
        "jobs": format.records(jobs),
    }
    return context, sections


def render(template: str, context: Mapping[str, Any], folder: Path, templates: Sequence[Path] = ()) -> Path:
    """Write a page.

    Args:
        template: name of its template.
        context: values of the template.
        folder: where to.
        templates: folders of templates besides this room's.

    Returns:
        Its path.
    """
    path = folder / PAGE
    path.write_text(_environment(templates).get_template(template).render(context), encoding="utf-8")
    return path


def _environment(templates: Sequence[Path]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, *templates]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": format.number, "exact": format.exact, "short": format.short}
    return environment


def _rendered(section: Section, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a section as HTML, with its links."""
    environment = _environment([section.templates] if section.templates else [])
    values = {**context, **section.context}

    def html(name: str) -> Markup:
        return Markup(environment.get_template(name).render(values)) if name else Markup("")

    parts = {name: html(getattr(section, name)) for name in ("facts", "guide", "missing")}
    return {
        **parts,
        "body": Markup("").join(map(html, section.body)),
        "links": section.links,
        "link_lists": section.link_lists,
        "script": section.script,
    }


def _head(findings: Findings, sections: Sequence[Section]) -> dict[str, Any]:
    """Return the counts that the page starts with, of the shown readings."""
    every = [section.rows for section in sections if len(section.rows)]
    return {
        "analyses": sum(map(len, every)),
        "models": len({name for rows in every for name in rows["model"]}),
        "experiments": len({name for rows in every for name in rows["exp"]}),
        "date": findings.started.replace("T", " ")[:16],
    }


def _lacking(findings: Findings) -> dict[str, Any]:
    """Return the jobs without numbers, by reason."""
    jobs = findings.jobs.reindex(columns=["status", "reason", "overrides", "model", "exp", "protocol"])
    without = {
        "failed": jobs["status"] == "failed",
        "not_applicable": jobs["status"] == "not_applicable",
        "lost": ~jobs["status"].isin(["failed", "not_applicable", "finished", "taken_over"]),
    }
    return {
        **{name: _by_reason(jobs[chosen]) for name, chosen in without.items()},
        "never": list(findings.missing),
        "unfinished": findings.status != "FINISHED",
    }


def _by_reason(jobs: pd.DataFrame) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for job in format.records(jobs):
        found.setdefault(str(job["reason"] or "no reason recorded"), []).append(_named(job))
    return found


def _named(job: Mapping[str, Any]) -> str:
    if job["overrides"]:
        return str(job["overrides"])
    parts = [str(job[name]) for name in ("model", "exp", "protocol") if job[name]]
    return " ".join(parts) or "unnamed job"
