"""Write and parse report pages, check the rules for every page, and replace the page writer by a fake."""

import base64
import hashlib
import re
import sys
import types
from dataclasses import dataclass, field
from html.parser import HTMLParser

import matplotlib.text
import numpy as np
import pandas as pd
import pytest
from PIL import Image

import src.report
from src.storage import results


def frame_of(table):
    """Return the cells of a table of the terminal."""
    return pd.DataFrame({str(column.header): list(map(str, column.cells)) for column in table.columns})


@dataclass
class FakePage:
    """Replace `src.report.page`: record the findings instead of drawing them, or raise `error`."""

    findings: list = field(default_factory=list)
    error: Exception | None = None

    def write(self, findings, folder):
        assert list(folder.iterdir()) == []
        if self.error:
            raise self.error
        self.findings.append(findings)
        (folder / "figures").mkdir()
        (folder / "figures" / "one.svg").write_text("<svg/>")
        (folder / "index.html").write_text(f"<h1>{findings.sweep}</h1>")
        return folder / "index.html"


@pytest.fixture
def page(monkeypatch):
    page = FakePage()
    module = types.ModuleType("src.report.page")
    module.write = page.write
    monkeypatch.setitem(sys.modules, "src.report.page", module)
    monkeypatch.setattr(src.report, "page", module, raising=False)
    return page


class ParsedPage(HTMLParser):
    """Parse a page: `tags` as (tag, attributes), `cells` of data as [row's attributes, attributes, text]."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.row, self.cell, self.fragments = [], [], None, None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.fragments.append("" if tag == "wbr" else " ")
        if tag == "tr":
            self.row = attributes
        elif tag == "td" and "data-column" in attributes:
            self.cell = [self.row, attributes, ""]
            self.cells.append(self.cell)

    def handle_endtag(self, tag):
        if tag == "td":
            self.cell = None

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] not in ("style", "script"):
            self.fragments.append(data)
        if self.cell:
            self.cell[2] += data

    @property
    def text(self):
        return " ".join("".join(self.fragments).split())


@pytest.fixture(scope="module")
def page_path(findings, tmp_path_factory):
    """Return the path of the page of the module's findings."""
    from src.report import page

    return page.write(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def html(page_path):
    return ParsedPage(page_path.read_text(encoding="utf-8"))


def pictures(folder):
    """Return file stem -> alt text of each picture of a page."""
    return {path.stem: Image.open(path).info["Description"] for path in (folder / "figures").glob("*.png")}


def texts(figure):
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def check_page(page_path, html):
    """Check that a page loads nothing, links to its own files only, and names no CFD face; return images.

    Its scripts are those that its policy allows by their hash.
    """
    links = {attributes["href"] for _, attributes in html.tags if "href" in attributes}
    ids = {"#" + attributes["id"] for _, attributes in html.tags if "id" in attributes}
    assert all(link in ids or (page_path.parent / link).is_file() for link in links), links - ids
    assert not {"link", "iframe", "object", "embed"} & {tag for tag, _ in html.tags}
    assert not any(name.startswith("on") for _, attributes in html.tags for name in attributes)
    images = [attributes for tag, attributes in html.tags if tag == "img"]
    assert all(image["src"].startswith("data:image/") and len(image["alt"]) > 40 for image in images)
    assert {image["alt"] for image in images} == set(pictures(page_path.parent).values())
    text = page_path.read_text("utf-8")
    for script in re.findall(r"<script>(.*?)</script>", text, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = re.search(r'Content-Security-Policy" content="([^"]*)', text)[1]
        assert f"'sha256-{digest}'" in policy.replace("&#39;", "'")
    embedded = r'(?s)src="data:[^"]*"|<script( type="application/json"[^>]*)?>.*?</script>'
    text = re.sub(embedded, "", text)
    assert not re.search(r"https?:|//|@import|url\(", text)
    tables = [path.read_text("utf-8") for path in (page_path.parent / "tables").iterdir()]
    assert not any("CFD" in content for content in (text, *tables))
    return images


def check_rows(findings, page_path, study, table):
    """Check that the CSV of a study's analyses reads back exactly."""
    rows = results.read_csv(page_path.parent / "tables" / f"{table}.csv").drop(columns="study")
    frames = [frame.replace("", np.nan).dropna(axis=1, how="all") for frame in (rows, findings.of(study))]
    pd.testing.assert_frame_equal(*frames, check_dtype=False, check_exact=True)
