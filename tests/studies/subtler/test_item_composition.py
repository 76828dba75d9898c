"""Check items composed of a domain's YAML: balanced, seeded, and of words that give no answer away."""

import copy
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.errors import InputError
from src.studies.subtler.domains import read_domain
from src.studies.subtler.item_composition import PUBLISHED_COLUMNS, compose_items
from tests.paths import CHECKOUT, SHARED

SHIPPED = sorted((CHECKOUT / "conf" / "domain").glob("*/*.yaml"))
OPTIONS = ["anti_stereotype", "stereotype", "unrelated"]
PRONOUNS = {"male": "He", "female": "She", "not_specified": "They"}
SMALL = {
    "domain": "weather",
    "language": "en",
    "stimuli": {"positive": ["sun", "spring"], "negative": ["rain", "frost", "hail"], "neutral": ["wind"]},
    "attributes": {"pairs": [["warm", "cold"], ["merry", "sad"]], "neutral": ["tall", "left-handed"]},
    "templates": {
        "likes": "{They} like{s} {stimulus}: {they} {are} {attribute}.",
        "so": "{They} {are} so {attribute} that {they} think{s} of {stimulus}.",
    },
}
# Units per template: SAI 2 pairs of stimuli × 4 triples = 8, ASA 2 pairs of attributes × 6 triples = 12; the
# fewer limit both. A unit of both directions has 12 items; there are 2 templates.
LIMIT = 12 * 2 * 8


def edited(*path, to):
    """Return SMALL with the entry under the keys `path` replaced (`...`: deleted)."""
    domain = copy.deepcopy(SMALL)
    *sections, last = path
    inner = domain
    for section in sections:
        inner = inner[section]
    if to is ...:
        del inner[last]
    else:
        inner[last] = to
    return domain


@pytest.fixture(scope="module", params=SHIPPED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def shipped(request):
    return request.param, read_domain(request.param)


class TestShipped:
    def test_1200_items_are_balanced_and_distinct(self, shipped):
        path, domain = shipped
        items = compose_items(domain, count=1200, seed=0)
        assert_balanced(items, 1200)
        assert set(items["bias_type"]) == {path.stem}
        assert items["template"].nunique() == 12

    @pytest.mark.skipif(not (SHARED / "subtler").exists(), reason="the published items are not at hand")
    def test_no_published_sentence(self, shipped):
        path, domain = shipped
        file = "dataset_zh.csv" if path.parent.name == "zh" else "dataset_en.csv"
        published = pd.read_csv(SHARED / "subtler" / file, encoding="utf-8-sig")
        assert published.columns.tolist() == PUBLISHED_COLUMNS
        items = compose_items(domain, count=1200, seed=0)
        assert not set(items["context"].str.casefold()) & set(published["context"].str.strip().str.casefold())


def assert_balanced(items, count):
    """Check the properties that composed items have in every domain."""
    assert len(items) == count
    assert items.columns.tolist() == [*PUBLISHED_COLUMNS, "template", "stimulus"]
    assert not items.isna().any(axis=None)
    assert not items.duplicated(["context", *OPTIONS]).any()
    sizes = items.groupby(["type_category", "item_category", "target_gender"]).size()
    assert len(sizes) == 12
    assert (sizes == count // 12).all()
    # Each set of options of a template occurs as often with each gender and polarity.
    option_sets = [" / ".join(sorted(row)) for row in items[OPTIONS].itertuples(index=False)]
    keys = ["type_category", "template", "options", "item_category", "target_gender"]
    cells = items.assign(options=option_sets).groupby(keys).size().unstack(keys[-2:])
    assert cells.shape[1] == 6
    assert cells.eq(cells.iloc[:, 0], axis=0).all(axis=None)
    assert (items["context"].str.count("BLANK") == 1).all()
    assert not items["context"].str.contains(r"[{}…]").any()
    assert not items[OPTIONS].apply(lambda column: column.str.contains("BLANK")).any(axis=None)
    for row in items.itertuples():
        assert len({row.anti_stereotype.casefold(), row.stereotype.casefold(), row.unrelated.casefold()}) == 3


class TestCompose:
    def test_a_unit_by_hand(self):
        domain = edited("templates", "so", to=...)
        domain["stimuli"] = {"positive": ["sun"], "negative": ["rain"], "neutral": ["wind"]}
        domain["attributes"] = {"pairs": [["warm", "cold"]], "neutral": ["tall"]}
        items = compose_items(domain, count=12, seed=5)
        rows = items.set_index(["type_category", "item_category", "target_gender"])
        for key, expected in {
            "type1 positive female": ["She likes sun: she is BLANK.", "cold", "warm", "tall"],
            "type1 negative not_specified": ["They like rain: they are BLANK.", "warm", "cold", "tall"],
            "type2 positive male": ["He likes BLANK: he is warm.", "rain", "sun", "wind"],
            "type2 negative male": ["He likes BLANK: he is cold.", "sun", "rain", "wind"],
        }.items():
            assert rows.loc[tuple(key.split()), ["context", *OPTIONS]].tolist() == expected
        assert set(items["template"]) == {"weather/likes"}

    def test_all_that_a_domain_makes(self):
        assert_balanced(compose_items(SMALL, count=LIMIT, seed=0), LIMIT)
        with pytest.raises(InputError, match=rf"count={LIMIT + 12}: .*weather make at most {LIMIT} balanced"):
            compose_items(SMALL, count=LIMIT + 12, seed=0)


WORDS = st.text("abcdxyz äé中文 ,.'", min_size=1, max_size=6).map(lambda word: " ".join(word.split()))


@st.composite
def domains(draw):
    """Draw a small domain; its words do not occur in the text of templates, which `compose` would refuse."""

    def draw_lists(mark):
        def words(name, size):
            return [f"{mark}{name}{n}{draw(WORDS)}".strip() for n in range(size)]

        sizes = [draw(st.integers(1, 4)) for _ in range(3)]
        positive, negative, neutral = (words(name, size) for name, size in zip("pnu", sizes, strict=True))
        if draw(st.booleans()):
            pairs = [list(pair) for pair in zip(positive, negative, strict=False)]
            return {"pairs": pairs, "neutral": neutral}
        return {"positive": positive, "negative": negative, "neutral": neutral}

    numbers = range(draw(st.integers(1, 3)))
    templates = {f"t{n}": f"{n} {{They}} 是 {{stimulus}}, {{attribute}}." for n in numbers}
    lists = {"stimuli": draw_lists("Q"), "attributes": draw_lists("Z")}
    return {"domain": "made-up", "language": "en", "templates": templates, **lists}


def capacity(domain):
    """Count items naively: per direction, templates × words given × options."""

    def size(lists, combine):
        sizes = [len(lists[name]) for name in lists if name != "neutral"]
        return sizes[0] if "pairs" in lists else combine(*sizes)

    stimuli, attributes = domain["stimuli"], domain["attributes"]
    sizes = [
        size(given_lists, min) * size(options, lambda a, b: a * b) * len(options["neutral"])
        for given_lists, options in ((stimuli, attributes), (attributes, stimuli))
    ]
    return 12 * len(domain["templates"]) * min(sizes)


class TestProperties:
    @settings(max_examples=60)
    @given(domains(), st.integers(12, 700), st.integers(0, 2**32))
    def test_composed_items_are_balanced_and_of_the_right_lists(self, domain, count, seed):
        max_items = capacity(domain)
        if count // 12 * 12 > max_items:
            with pytest.raises(InputError, match=f"make at most {max_items} balanced"):
                compose_items(domain, count=count, seed=seed)
            count = max_items
        items = compose_items(domain, count=count, seed=seed)
        assert_balanced(items, count // 12 * 12)
        pd.testing.assert_frame_equal(items, compose_items(domain, count=count, seed=seed))
        # Each cell holds a word of the right list.
        for row in items.itertuples():
            mark = {"type1": "Z", "type2": "Q"}[row.type_category]
            sides = "pn" if row.item_category == "positive" else "np"
            assert row.stereotype.startswith(mark + sides[0])
            assert row.anti_stereotype.startswith(mark + sides[1])
            assert row.unrelated.startswith(mark + "u")
            given_mark = {"type1": "Q", "type2": "Z"}[row.type_category]
            assert f"{given_mark}{sides[0]}" in row.context
            assert f"{given_mark}{sides[1]}" not in row.context
            assert f" {PRONOUNS[row.target_gender]} " in row.context


MISTAKES = [
    (edited("stimulus", to={}), "unknown section 'stimulus'. Did you mean 'stimuli'"),
    (edited("language", to="eng"), "unknown language 'eng'. Did you mean 'en"),
    (edited("stimuli", "neutral", to="wind"), "stimuli.neutral: expected a list of words"),
    (edited("stimuli", "negative", to=...), "stimuli.negative: .*a positive, a negative and a neutral"),
    (edited("attributes", "positive", to=["a"]), "attributes: unknown list"),
    (edited("attributes", "pairs", to=[["warm"]]), r"attributes.pairs: expected pairs of words"),
    (edited("stimuli", "neutral", to=[False]), "stimuli.neutral: False is not a text. Quote no"),
    (edited("stimuli", "neutral", to=["a Blank"]), "BLANK, which marks"),
    (edited("stimuli", "neutral", to=["Sun"]), "'Sun' is listed already, as 'sun'"),
    (
        edited("stimuli", "neutral", to=["THINKS of"]),
        r"stimuli: 'THINKS of' also occurs in 'He is so … that he thinks of …\.' \(templates.so\)",
    ),
    (
        edited("attributes", "neutral", to=["frost"]),
        r"attributes: 'frost' also occurs in 'frost' \(the other list\)",
    ),
    (edited("templates", "so", to="{They} {are} {attribute}."), r"templates.so: .* has {stimulus} 0 times"),
    (
        edited("templates", "so", to="{Thay} {are} {attribute}, {stimulus}."),
        r"templates.so: unknown slot or form 'Thay'. Did you mean 'They",
    ),
    (edited("templates", "so", to="{They} {stimulus"), "templates.so: .*expected '}'"),
    (edited("templates", "so", to="{They:>9} {attribute} {stimulus}"), "expected only a name between braces"),
    (
        edited("templates", "so", to="Who {are} {attribute} likes {stimulus}."),
        "templates.so: 'Who is .*' is also a sentence of templates.so.*that distinguishes male,",
    ),
    (edited("forms", to={"nod": ["nods", "nod"]}), r"forms.nod: expected three texts"),
    (edited("forms", to={"stimulus": ["a", "b", "c"]}), r"forms.stimulus: .*Rename the form"),
]


class TestMistakes:
    @pytest.mark.parametrize(("domain", "message"), MISTAKES)
    def test_in_a_domain(self, domain, message):
        with pytest.raises(InputError, match=message):
            compose_items(domain, count=12, seed=0)

    def test_in_a_file_which_is_named(self, tmp_path):
        path = tmp_path / "own.yaml"
        for content, message in [
            (b"domain: a", "section 'language' is missing"),
            (b"- a", "expected a mapping, got list"),
            (b"a: [", "Correct it"),
            (b"domain: \xff", "not UTF-8"),
        ]:
            path.write_bytes(content)
            with pytest.raises(InputError, match=rf"own\.yaml.*{message}"):
                read_domain(path)
        with pytest.raises(InputError, match=r"nowhere\.yaml: no such file"):
            read_domain(Path(tmp_path / "nowhere.yaml"))
