"""Find what is English by accident in src: stemmers, nouns, articles, glued phrases and names of months.

The places where English is meant are in accidental_english.yaml, each with its reason.
"""

import ast
from collections.abc import Iterator

import pytest
import yaml

from tests.paths import CHECKOUT

ALLOWED = yaml.safe_load((CHECKOUT / "tests" / "accidental_english.yaml").read_text("utf-8"))
NOUNS = {"person", "people", "woman", "women", "man", "men"}
ARTICLES = {"a ", "an ", "a/an"}
MONTHS = ("%B", "%b", "%A", "%a ")
SPLITS = ("rpartition", "rsplit")
# Folders whose texts are embedded, or split into words.
TEXT_ROOMS = ("stimuli", "debias", "demo", "studies")


def find_english(tree: ast.AST, room: str) -> Iterator[str]:
    """Yield the kind of each place that is English by accident."""
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value="english"):
                yield "stemmer"
            case ast.Constant(value=str(text)) if text in ARTICLES:
                yield "article"
            case ast.Constant(value=str(text)) if any(month in text for month in MONTHS):
                yield "date"
            case ast.Name(id="choose_article") | ast.Attribute(attr="choose_article"):
                yield "article"
            case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str(noun))]):
                if noun.strip() in NOUNS and noun != noun.strip():
                    yield "noun"
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=" "), attr="join"), args=[glued]):
                is_whitespace = ast.unparse(glued).endswith(".split()")
                if room in TEXT_ROOMS and not is_whitespace:
                    yield "glue"
                if any(isinstance(each, ast.Constant) and each.value in NOUNS for each in ast.walk(glued)):
                    yield "noun"
            case ast.Call(
                func=ast.Attribute(attr="rpartition" | "rsplit"), args=[ast.Constant(value=" "), *_]
            ):
                yield "split"


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        ("stemmer('english')", {"stemmer"}),
        ("f'{adjective} person'", {"noun"}),
        ("f'no row of a person: {row}'", set()),
        ("' '.join([*words, 'woman'])", {"glue", "noun"}),
        ("' '.join(text.split())", set()),
        ("'a ' + noun", {"article"}),
        ("taxonomy.choose_article(noun)", {"article"}),
        ("phrase.rpartition(' ')", {"split"}),
        ("phrase.str.rsplit(' ', n=1)", {"split"}),
        ("date.strftime('%d %B %Y')", {"date"}),
    ],
)
def test_each_kind_is_recognised(code, kinds):
    assert {*find_english(ast.parse(code), "stimuli")} == kinds


def test_nothing_is_english_by_accident():
    places = set()
    for path in (CHECKOUT / "src").rglob("*.py"):
        name = path.relative_to(CHECKOUT).as_posix()
        room = path.relative_to(CHECKOUT / "src").parts[0]
        tree = ast.parse(path.read_text("utf-8"))
        places |= {(kind, name) for kind in find_english(tree, room)}
    allowed = {(kind, name) for kind, reasons in ALLOWED.items() for name in reasons}
    assert places - allowed == set()  # use the language of the job, or state why English is meant
    assert allowed - places == set()  # no longer English: delete the entry
    assert all(reason for reasons in ALLOWED.values() for reason in reasons.values())
