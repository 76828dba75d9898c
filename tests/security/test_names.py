"""Check that names that would be code in a page, a table or a picture are escaped."""

import csv
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest

from src.report import latex, page
from src.storage import results
from tests.report import factory
from tests.report.conftest import ParsedPage
from tests.studies.implicit import audit_jobs
from tests.studies.sobit import sobit_jobs

SCRIPT = "<script>alert(1)</script>"
NAMES = (
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</style></svg></title><svg onload=alert(1)>",
    "&lt;b&gt; & javascript:alert(1)",
)
TAME = ("Ann", "Bob", "Cid", "Dee", "Eve", "Fay")
FEW = {exp: factory.PAPER[exp] for exp in ("scenes_to_words", "faces_to_words")}
DRAWS = {"level": 39, "placebo": 39, "property": 20, "attributes": 5}


def propagation(folder, names):
    return factory.draw(
        folder, models=names[:2], groups=[*names[2:5]], experiments=FEW, protocols=("paper",), size=12,
        draws=DRAWS, dataset=names[5],
    )  # fmt: skip


def audits(folder, names):
    return audit_jobs.sweep(folder, models=names[:2], groups=list(names[2:6]), audits=("cles_warmth",))


def loaded_words(folder, names):
    words = sobit_jobs.taxonomy(6)
    first = words["category"].unique()[:2]
    words = words[words["category"].isin(first)].reset_index(drop=True)
    words["category"] = words["category"].replace(dict(zip(first, names, strict=False)))
    words.loc[: len(names) - 1, "word"] = list(names)
    words["caption"] = "a photo of a " + words["word"] + " person"
    words["taxonomy"] = names[0]
    return sobit_jobs.sweep(
        folder, models=names[:2], debias=("none",), words=words, races=names[2:4], genders=names[4:6],
        faces=60, draws=20, experiments=("sobit_association",),
    )  # fmt: skip


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.thorough) for kind in (propagation, loaded_words)), audits],
    ids=lambda kind: kind.__name__,
)
def test_a_page_of_hostile_names_has_the_tags_of_a_page_of_tame_ones(tmp_path, kind):
    pages = []
    for place, names in (("tame", TAME), ("hostile", NAMES)):
        (tmp_path / place).mkdir()
        (tmp_path / "report" / place).mkdir(parents=True)
        pages.append(page.write(kind(tmp_path / place, names), tmp_path / "report" / place))
    tame, hostile = (ParsedPage(path.read_text(encoding="utf-8")) for path in pages)
    # `span` (the title of a shortened name) and `wbr` (a possible break after `_`) depend on the letters and
    # the length of names, so they are not compared.
    tags = [[tag for tag, _ in parsed.tags if tag not in ("wbr", "span")] for parsed in (tame, hostile)]
    assert Counter(tags[0]) == Counter(tags[1])
    for _, attributes in hostile.tags:
        assert not [name for name in attributes if name.startswith("on")]
        values = [attributes.get(name) or "" for name in ("href", "src", "action", "style")]
        assert not [value for value in values if "alert" in value and not value.startswith("data:image/")]
    assert SCRIPT in hostile.text
    for path in pages[1].parent.rglob("*.svg"):
        svg = ElementTree.parse(path)
        svg_tags = {element.tag.rpartition("}")[2] for element in svg.iter()}
        assert not svg_tags & {"script", "foreignObject", "iframe"}, path
        attributes = [name for element in svg.iter() for name in element.attrib]
        assert not [name for name in attributes if name.startswith("on")], path
    for path in pages[1].parent.rglob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
        assert {len(row) for row in rows} == {len(rows[0])}, path
    if kind is propagation:
        analyses = results.read_csv(pages[1].parent / "tables" / "analyses.csv")
        assert set(analyses["model"]) == set(NAMES[:2])
        assert set(analyses["group"].dropna()) == set(NAMES[2:5])
    for path in pages[1].parent.rglob("*.tex"):
        check_latex(path.read_text(encoding="utf-8"))


def check_latex(text):
    """Check that a table has no foreign commands, and no special characters but `&`, `$`, `{` and `}`."""
    letters = "backslash|asciitilde|asciicircum|less|greater|bar|quotedbl"
    commands = f"begin|end|toprule|midrule|bottomrule|pm|text({letters})|multicolumn|cmidrule|emph"
    known = rf"\\(({commands})(?![a-zA-Z])|[&%$#_{{}}\\])"
    rest = re.sub(known, "", re.sub(r"(?m)^%.*$", "", text))
    assert "\\" not in rest, rest
    assert not set("%#~^<>|_") & set(rest), rest


def unescape(text):
    """Replace the commands of special characters by the characters that LaTeX prints."""
    characters = {
        "textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", "textless": "<",
        "textgreater": ">", "textbar": "|", "textquotedbl": '"',
    }  # fmt: skip
    return re.sub(
        r"\\(?:(text[a-z]+)\{\}|([&%$#_{}]))", lambda match: characters.get(match[1]) or match[2], text
    )


@pytest.mark.parametrize("name", [*NAMES, '&%$#_{}\\~^<>|"', r"\write18{ls}", "a\n%b"])
def test_latex_prints_every_name_and_runs_none(name):
    escaped = latex.escape(name)
    check_latex(escaped)
    assert not set('&$"') & set(re.sub(r"\\.", "", escaped))
    assert "\n" not in escaped
    assert unescape(escaped) == " ".join(name.split())
