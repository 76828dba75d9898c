"""A stand-in for the drawing of the report: it keeps what it was given."""

import sys
import types
from dataclasses import dataclass, field

import src.report


@dataclass
class Page:
    """`src.report.page`, but for the drawing."""

    seen: list = field(default_factory=list)
    fails: Exception | None = None

    def write(self, findings, folder):
        assert list(folder.iterdir()) == []
        if self.fails:
            raise self.fails
        self.seen.append(findings)
        (folder / "figures").mkdir()
        (folder / "figures" / "one.svg").write_text("<svg/>")
        (folder / "index.html").write_text(f"<h1>{findings.sweep}</h1>")
        return folder / "index.html"


def stand_in(monkeypatch):
    page = Page()
    module = types.ModuleType("src.report.page")
    module.write = page.write
    monkeypatch.setitem(sys.modules, "src.report.page", module)
    monkeypatch.setattr(src.report, "page", module, raising=False)
    return page
