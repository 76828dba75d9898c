"""The manual: what is cited is there, links lead somewhere, and layers are those of the import contract."""

import re
import tomllib

import pytest

from tests.paths import CHECKOUT

FOLDERS = {"src": "*.py", "benchmarks": "*.py", "validation": "*.py", "tests": "*.py", "conf": "*.yaml"}
SECTION = re.compile(r"docs/methods\.md, sections? (\d+(?:\.\d+)?)(?: and (\d+))?(?:, \"([^\"]+)\")?")
HEADING = re.compile(r"docs/architecture\.md, \"([^\"]+)\"")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]


def headings(page):
    """Headings of a page, outside code blocks."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)


def anchors(page):
    """Names that GitHub gives the headings of a page."""
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings(page)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def sources():
    for folder, pattern in FOLDERS.items():
        for path in (CHECKOUT / folder).rglob(pattern):
            yield path, re.sub(r"\s*\n\s*#?\s*", " ", path.read_text("utf-8"))


def test_what_code_cites_is_there():
    methods = headings(CHECKOUT / "docs" / "methods.md")
    numbers = {heading.split(" ")[0].rstrip(".") for heading in methods}
    architecture = headings(CHECKOUT / "docs" / "architecture.md")
    cited, absent = 0, []
    for path, text in sources():
        for first, second, title in SECTION.findall(text):
            cited += 1
            if not {first, second} - {""} <= numbers or (title and title not in methods):
                absent.append(f"{path}: section {first} {second} {title}")
        absent += [f"{path}: {title}" for title in HEADING.findall(text) if title not in architecture]
    assert cited > 40
    assert not absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    lost = []
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


def test_layers_are_those_of_the_import_contract():
    importlinter = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = importlinter["contracts"][0]["layers"]
    wanted = [{name.strip().removeprefix("src.") for name in layer.split("|")} for layer in layers]
    page = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    listed = [{*row.split(", ")} for row in re.findall(r"^\| \d+ \| (.+) \|$", page, flags=re.MULTILINE)]
    assert listed == wanted


def test_no_page_leads_to_data_beside_the_checkout():
    code = [(path, text) for path, text in sources() if path.is_relative_to(CHECKOUT / "src")]
    pages = [(page, page.read_text("utf-8")) for page in PAGES]
    assert not [str(path) for path, text in [*code, *pages] if "../shared" in text]
