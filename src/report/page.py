"""Render the page of a report as one self-contained file, with its figures and tables as files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from src import configs
from src.report import explorer, format
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.study import Section, load_report, withhold

PAGE = "index.html"
TEMPLATES = Path(__file__).with_name("templates")


def write(findings: Findings, folder: Path) -> Path:
    """Write `index.html`, `figures/` and `tables/` into an existing empty folder; return the page's path.

    The sweep may be unfinished, or have no analysis at all.
    """
    arranged = {
        name: load_report(name).arrange(frame) for name, frame in findings.frames.items() if len(frame)
    }
    findings, report_folder = replace(findings, frames=arranged), ReportFolder(folder)
    names = configs.studies.sort_names([*findings.frames, *configs.studies.WITHOUT_JOBS])
    interpreted, sections = withhold(findings), []
    for report in map(load_report, names):
        if section := report.section(findings if report.withhold else interpreted, report_folder):
            sections.append(section)
    jobs = findings.jobs
    if "seed" in jobs:  # an unidentified job has no seed, which would turn the others into floats
        jobs = jobs.astype({"seed": "Int64"})
    report_folder.write_table("jobs", jobs, "every job that ended, with its run")
    frames = [section.rows for section in sections if len(section.rows)]
    context = {
        "findings": findings,
        "head": {  # numbers of the first specification
            "analyses": sum(map(len, frames)),
            "models": len({name for rows in frames for name in rows["model"]}),
            "experiments": len({name for rows in frames for name in rows["exp"]}),
            "date": findings.started.replace("T", " ")[:16],
        },
        "lacking": _list_missing_results(findings),
        "columns": format.COLUMNS,
        "max_rows": format.MAX_ROWS,
        "jobs": format.to_records(jobs),
        "models": format.to_records(findings.models),
    }
    rendered = [_render_section(section, context) for section in sections]
    explorer_rows = [section.explorer_rows for section in sections if section.explorer_rows is not None]
    scripts = explorer.load_scripts() if explorer_rows else []
    context |= {
        "sections": rendered,
        "tables": report_folder.tables,
        "explorer": explorer.build_explorer(explorer_rows) if explorer_rows else None,
        "scripts": scripts,
        "digests": [
            *(section.script_hash for section in sections if section.script_hash),
            *(digest for _, digest in scripts),
        ],
    }
    return render("page.html", context, folder)


def render(template: str, context: Mapping[str, Any], folder: Path, templates: Sequence[Path] = ()) -> Path:
    """Write a page from a template of the report or of the folders `templates`; return its path."""
    path = folder / PAGE
    path.write_text(_create_environment(templates).get_template(template).render(context), encoding="utf-8")
    return path


def _create_environment(templates: Sequence[Path]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, *templates]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": format.format_number,
        "exact": format.format_exactly,
        "short": format.shorten_cell,
    }
    return environment


def _render_section(section: Section, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a section, with its templates rendered as HTML."""
    environment = _create_environment([section.templates] if section.templates else [])
    values = {**context, **section.context}

    def render_template(name: str) -> Markup:
        return Markup(environment.get_template(name).render(values)) if name else Markup("")

    parts = {
        name: render_template(getattr(section, name))
        for name in ("table", "specification", "guide", "missing")
    }
    return {**vars(section), **parts, "body": Markup("").join(map(render_template, section.body))}


def _list_missing_results(findings: Findings) -> dict[str, Any]:
    """List the jobs without results, by kind and reason, and the requested jobs that never ended."""
    jobs = findings.jobs.reindex(columns=["status", "reason", "overrides", "model", "exp", "protocol"])
    is_without_results = {
        "failed": jobs["status"] == "failed",
        "not_applicable": jobs["status"] == "not_applicable",
        "lost": ~jobs["status"].isin(["failed", "not_applicable", "finished", "taken_over"]),
    }
    return {
        **{name: _group_by_reason(jobs[chosen]) for name, chosen in is_without_results.items()},
        "never": list(findings.missing),
        "unfinished": findings.status != "FINISHED",
    }


def _group_by_reason(jobs: pd.DataFrame) -> dict[str, list[str]]:
    reasons = jobs["reason"].astype(object).fillna("").replace("", "no reason recorded")
    texts: dict[str, list[str]] = {}
    for job in format.to_records(jobs.assign(reason=reasons)):
        names = " ".join(str(job[name]) for name in ("model", "exp", "protocol") if job[name])
        texts.setdefault(job["reason"], []).append(str(job["overrides"] or names or "unnamed job"))
    return texts
