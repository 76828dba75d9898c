"""Check cited sections, links, layers, the config reference and the built site of the manual."""

import importlib.util
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from src.storage import results
from src.studies.propagation import tables
from src.studies.propagation.combined import combine
from src.studies.propagation.conclusions import conclusions
from tests.paths import CHECKOUT

FOLDERS = {"src": "*.py", "benchmarks": "*.py", "validation": "*.py", "tests": "*.py", "conf": "*.yaml"}
SECTION = re.compile(r"docs/methods\.md, sections? (\d+(?:\.\d+)?)(?: and (\d+))?(?:, \"([^\"]+)\")?")
HEADING = re.compile(r"docs/architecture\.md, \"([^\"]+)\"")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]


def headings(page):
    """List the headings of a page outside code blocks."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)


def anchors(page):
    """Return the anchors that GitHub gives the headings of a page."""
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings(page)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_cited_sections_exist():
    methods = headings(CHECKOUT / "docs" / "methods.md")
    numbers = {heading.split(" ")[0].rstrip(".") for heading in methods}
    architecture = headings(CHECKOUT / "docs" / "architecture.md")
    cited, absent = 0, []
    for path in (path for folder, pattern in FOLDERS.items() for path in (CHECKOUT / folder).rglob(pattern)):
        text = re.sub(r"\s*\n\s*#?\s*", " ", path.read_text("utf-8"))
        for first, second, title in SECTION.findall(text):
            cited += 1
            if not {first, second} - {""} <= numbers or (title and title not in methods):
                absent.append(f"{path}: section {first} {second} {title}")
        absent += [f"{path}: {title}" for title in HEADING.findall(text) if title not in architecture]
    assert cited > 40
    assert not absent


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(CHECKOUT).as_posix())
def test_links_have_targets(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for link in LINK.findall(text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if "://" in link or link.startswith("mailto:"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_layers_are_those_of_the_import_contract():
    importlinter = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = importlinter["contracts"][0]["layers"]
    wanted = [{name.strip().removeprefix("src.") for name in layer.split("|")} for layer in layers]
    page = (CHECKOUT / "docs" / "architecture.md").read_text("utf-8")
    listed = [{*row.split(", ")} for row in re.findall(r"^\| \d+ \| (.+) \|$", page, flags=re.MULTILINE)]
    assert listed == wanted


def test_no_page_links_to_data_outside_the_checkout():
    paths = [*PAGES, *(CHECKOUT / "src").rglob("*.py")]
    assert not [path for path in paths if "../shared" in path.read_text("utf-8")]


def test_the_config_reference_explains_every_key():
    spec = importlib.util.spec_from_file_location("site_hook", CHECKOUT / ".ci" / "site.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    rows = [line for line in hook.config_reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 250
    assert not [row for row in rows if row.endswith("|  |")]
    assert "`store.dir`" in "".join(rows)
    k_row = next(row for row in rows if row.startswith("| `k` |"))
    assert "int, at least 1" in k_row
    assert "500" in k_row


@pytest.mark.thorough
def test_the_site_builds_without_warnings_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    pages = [*tmp_path.rglob("*.html")]
    assert len(pages) > 25
    for page in pages:
        loaded = re.findall(
            r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)", page.read_text("utf-8")
        )
        assert not loaded, page


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), ([], 1), (["sqlite:///nowhere.db"], 1)])
def test_the_pictures_name_the_store_that_they_need(tmp_path, arguments, code):
    command = [sys.executable, str(CHECKOUT / ".ci" / "pictures.py"), *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert "make demo" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_readme_quotes_the_table_and_the_opening_sentences_of_the_demo():
    """Compare with the results of the pipeline, which runs the jobs of the demo."""
    readme = (CHECKOUT / "README.md").read_text("utf-8").replace("\\*", "*")
    models = yaml.safe_load((CHECKOUT / "params.yaml").read_text("utf-8"))["models"]
    analyses = combine([results.read_csv(CHECKOUT / "docs" / "repro" / results.ANALYSES)])
    order = analyses["model"].map(models.index)
    analyses = analyses.iloc[order.argsort(kind="stable")].reset_index(drop=True)
    table = tables.build_main_table(analyses)
    quoted = [line.strip("| ").split(" | ") for line in readme.splitlines() if line.startswith("| ")]
    start = quoted.index([*table.columns])
    assert quoted[start + 1 : start + 1 + len(table)] == table.to_numpy().tolist()
    text = " ".join(readme.split())
    sentences = conclusions(analyses)
    assert len(sentences) >= 5
    assert "- " + " - ".join(sentences) in text
