"""The report: one page that needs nothing beside it, and its figures and tables as files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jinja2

from src.report import cells, sections
from src.report.findings import Findings
from src.report.parts import Parts

PAGE = "index.html"
TEMPLATES = Path(__file__).with_name("templates")


def write(findings: Findings, folder: Path) -> Path:
    """Write `index.html`, `figures/` and `tables/` into an empty folder that is there.

    Args:
        findings: what the sweep found; it may be unfinished, or have no analysis at all.
        folder: where to.

    Returns:
        The path of the page.
    """
    findings = replace(findings, analyses=sections.ordered(sections.completed(findings.analyses)))
    return render("page.html", Parts(findings, folder).context(), folder)


def render(template: str, context: Mapping[str, Any], folder: Path) -> Path:
    """Write a page.

    Returns:
        Its path.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": cells.number, "exact": cells.exact, "short": cells.short}
    path = folder / PAGE
    path.write_text(environment.get_template(template).render(context), encoding="utf-8")
    return path
