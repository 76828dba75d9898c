"""Items composed of a domain's YAML: balanced, seeded, and of words that give no answer away."""

import copy
import io
import logging
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from src.errors import InputError
from src.studies.subtler.domains import read
from src.studies.subtler.item_composition import PUBLISHED, compose
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
# Beside a template: SAI 2 pairs of stimuli × 4 triples, ASA 2 pairs of attributes × 6 triples.
MOST = 12 * 2 * 8


def edited(*path, to):
    """SMALL with one entry, given by its keys, replaced (`...`: deleted)."""
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
    return request.param, read(request.param)


class TestShipped:
    def test_the_domains(self):
        assert [f"{path.parent.name}/{path.stem}" for path in SHIPPED] == [
            *(
                "en/ageism",
                "en/beauty",
                "en/beauty_profession",
                "en/institution",
                "en/nationality",
                "zh/ageism",
            )
        ]

    def test_a_few_hundred_items_that_are_fit_to_be_asked(self, shipped):
        path, domain = shipped
        items = compose(domain, count=1200, seed=0)
        fit(items, 1200)
        assert set(items["bias_type"]) == {path.stem}
        assert items["template"].nunique() == 12

    def test_language_and_full_stops(self, shipped):
        path, domain = shipped
        items = compose(domain, count=1200, seed=1)
        assert items["context"].str.endswith("。" if path.parent.name == "zh" else ".").all()
        assert not items["context"].str.contains(r"  | [.,;:]|\b(?:he|she) (?:are|have|look)\b").any()
        assert not items["context"].str.contains(r"\b[Tt]hey (?:is|has|was|\w+s)\b").any()

    @pytest.mark.skipif(not (SHARED / "subtler").exists(), reason="the published items are not at hand")
    def test_no_published_sentence(self, shipped):
        path, domain = shipped
        file = "dataset_zh.csv" if path.parent.name == "zh" else "dataset_en.csv"
        published = pd.read_csv(SHARED / "subtler" / file, encoding="utf-8-sig")
        assert published.columns.tolist() == PUBLISHED
        items = compose(domain, count=1200, seed=0)
        assert not set(items["context"].str.casefold()) & set(published["context"].str.strip().str.casefold())


def fit(items, count):
    """What holds for composed items whatever they are about."""
    assert len(items) == count
    assert items.columns.tolist() == [*PUBLISHED, "template"]
    assert not items.isna().any(axis=None)
    assert not items.duplicated(["context", *OPTIONS]).any()
    sizes = items.groupby(["type_category", "item_category", "target_gender"]).size()
    assert len(sizes) == 12
    assert (sizes == count // 12).all()
    # Whatever is asked beside a template is asked as often of every gender and of both polarities.
    told = [" / ".join(sorted(row)) for row in items[OPTIONS].itertuples(index=False)]
    keys = ["type_category", "template", "told", "item_category", "target_gender"]
    cells = items.assign(told=told).groupby(keys).size().unstack(keys[-2:])
    assert cells.shape[1] == 6
    assert cells.eq(cells.iloc[:, 0], axis=0).all(axis=None)
    assert (items["context"].str.count("BLANK") == 1).all()
    assert not items["context"].str.contains(r"[{}…]").any()
    assert not items[OPTIONS].apply(lambda column: column.str.contains("BLANK")).any(axis=None)
    for row in items.itertuples():
        assert len({row.anti_stereotype.casefold(), row.stereotype.casefold(), row.unrelated.casefold()}) == 3


class TestCompose:
    def test_one_unit_by_hand(self):
        domain = edited("templates", "so", to=...)
        domain["stimuli"] = {"positive": ["sun"], "negative": ["rain"], "neutral": ["wind"]}
        domain["attributes"] = {"pairs": [["warm", "cold"]], "neutral": ["tall"]}
        items = compose(domain, count=12, seed=5)
        rows = items.set_index(["type_category", "item_category", "target_gender"])
        assert rows.loc[("type1", "positive", "female"), ["context", *OPTIONS]].tolist() == [
            *("She likes sun: she is BLANK.", "cold", "warm", "tall")
        ]
        assert rows.loc[("type1", "negative", "not_specified"), ["context", *OPTIONS]].tolist() == [
            *("They like rain: they are BLANK.", "warm", "cold", "tall")
        ]
        assert rows.loc[("type2", "positive", "male"), ["context", *OPTIONS]].tolist() == [
            *("He likes BLANK: he is warm.", "rain", "sun", "wind")
        ]
        assert rows.loc[("type2", "negative", "male"), ["context", *OPTIONS]].tolist() == [
            *("He likes BLANK: he is cold.", "sun", "rain", "wind")
        ]
        assert set(items["template"]) == {"weather/likes"}

    def test_all_that_a_domain_makes(self):
        fit(compose(SMALL, count=MOST, seed=0), MOST)
        with pytest.raises(InputError, match=rf"count={MOST + 12}: .*weather makes {MOST} balanced items"):
            compose(SMALL, count=MOST + 12, seed=0)

    def test_every_word_of_the_longer_list_is_given(self):
        items = compose(SMALL, count=MOST, seed=0)
        given_rain = items[(items["type_category"] == "type1") & (items["item_category"] == "negative")]
        assert all(given_rain["context"].str.contains(word).any() for word in ("rain", "frost", "hail"))

    def test_pairs_stay_together_as_options(self):
        items = compose(SMALL, count=MOST, seed=0)
        asked = items[items["type_category"] == "type1"]
        pairs = {frozenset(pair) for pair in asked[["stereotype", "anti_stereotype"]].itertuples(index=False)}
        assert pairs == {frozenset({"warm", "cold"}), frozenset({"merry", "sad"})}

    def test_templates_take_turns(self):
        items = compose(SMALL, count=36, seed=0)
        sizes = items.groupby("type_category")["template"].value_counts()
        assert sorted(sizes) == [6, 6, 12, 12]

    def test_rounded_down_and_said(self, caplog):
        caplog.set_level(logging.WARNING)
        assert len(compose(SMALL, count=35, seed=0)) == 24
        assert "weather: 24 items, the most below 35 that are balanced" in caplog.text
        caplog.clear()
        assert len(compose(SMALL, count=24, seed=0)) == 24
        assert not caplog.text

    def test_too_few(self):
        for count in (11, 0, -12):
            with pytest.raises(InputError, match=f"count={count}: a balanced set has 12 items at least"):
                compose(SMALL, count=count, seed=0)

    def test_seeds(self):
        first = compose(SMALL, count=48, seed=0)
        pd.testing.assert_frame_equal(first, compose(SMALL, count=48, seed=0))
        assert not first.equals(compose(SMALL, count=48, seed=1))

    def test_the_same_in_another_process(self):
        path = SHIPPED[0]
        script = (
            "import sys; from pathlib import Path; from src.studies.subtler.item_composition import compose; "
            "from src.studies.subtler.domains import read; "
            "sys.stdout.buffer.write(compose(read(Path(sys.argv[1])), count=96, seed=7).to_csv().encode())"
        )
        written = [
            subprocess.run(
                [sys.executable, "-c", script, str(path)],
                env={"PYTHONHASHSEED": hashed, "PYTHONPATH": str(CHECKOUT)},
                cwd=CHECKOUT,
                capture_output=True,
                check=True,
            ).stdout.decode()
            for hashed in ("1", "2")
        ]
        assert written == [compose(read(path), count=96, seed=7).to_csv()] * 2

    def test_reads_back_as_the_published_layout(self, shipped):
        items = compose(shipped[1], count=300, seed=0)
        file = io.StringIO(items.to_csv(index=False))
        back = pd.read_csv(file, dtype=str)
        assert back.columns.tolist()[:8] == PUBLISHED
        pd.testing.assert_frame_equal(back, items, check_dtype=False)

    def test_own_forms_come_first(self):
        domain = edited("templates", to={"a": "{They} who {nod} like{s} {stimulus} and {attribute}."})
        domain["forms"] = {"They": ["Il", "Elle", "On"], "nod": ["nods", "nods", "nod"]}
        contexts = compose(domain, count=12, seed=0)["context"]
        assert contexts.str.match("Il who nods|Elle who nods|On who nod ").all()


WORDS = st.text("abcdxyz äé中文 ,.'", min_size=1, max_size=6).map(lambda word: " ".join(word.split()))


@st.composite
def domains(draw):
    """A small domain, without sentences that its words could stand in."""

    def role(mark):
        def listed(name, size):
            return [f"{mark}{name}{n}{draw(WORDS)}".strip() for n in range(size)]

        sizes = [draw(st.integers(1, 4)) for _ in range(3)]
        positive, negative, neutral = (listed(name, size) for name, size in zip("pnu", sizes, strict=True))
        if draw(st.booleans()):
            pairs = [list(pair) for pair in zip(positive, negative, strict=False)]
            return {"pairs": pairs, "neutral": neutral}
        return {"positive": positive, "negative": negative, "neutral": neutral}

    templates = {
        f"t{n}": f"{n} {{They}} 是 {{stimulus}}, {{attribute}}." for n in range(draw(st.integers(1, 3)))
    }
    return {
        "domain": "made-up",
        "language": "en",
        "stimuli": role("Q"),
        "attributes": role("Z"),
        "templates": templates,
    }


def capacity(domain):
    """Counted naively: of each direction, templates × words given × options."""
    sizes = []
    for given_name, asked_name in (("stimuli", "attributes"), ("attributes", "stimuli")):
        given_lists, asked = domain[given_name], domain[asked_name]
        told = (
            len(given_lists["pairs"])
            if "pairs" in given_lists
            else min(len(given_lists["positive"]), len(given_lists["negative"]))
        )
        twos = len(asked["pairs"]) if "pairs" in asked else len(asked["positive"]) * len(asked["negative"])
        sizes.append(len(domain["templates"]) * told * twos * len(asked["neutral"]))
    return 12 * min(sizes)


class TestProperties:
    @settings(max_examples=60)
    @given(domains(), st.integers(12, 700), st.integers(0, 2**32))
    def test_whatever_is_composed_is_fit(self, domain, count, seed):
        most = capacity(domain)
        if count // 12 * 12 > most:
            with pytest.raises(InputError, match=f"makes {most} balanced items"):
                compose(domain, count=count, seed=seed)
            count = most
        items = compose(domain, count=count, seed=seed)
        fit(items, count // 12 * 12)
        pd.testing.assert_frame_equal(items, compose(domain, count=count, seed=seed))

    @settings(max_examples=60)
    @given(domains(), st.integers(0, 99))
    def test_a_word_of_the_right_list_stands_in_each_cell(self, domain, seed):
        items = compose(domain, count=12, seed=seed)
        for row in items.itertuples():
            mark = {"type1": "Z", "type2": "Q"}[row.type_category]
            sides = "pn" if row.item_category == "positive" else "np"
            assert row.stereotype.startswith(mark + sides[0])
            assert row.anti_stereotype.startswith(mark + sides[1])
            assert row.unrelated.startswith(mark + "u")
            told = {"type1": "Q", "type2": "Z"}[row.type_category]
            assert f"{told}{sides[0]}" in row.context
            assert f"{told}{sides[1]}" not in row.context
            assert f" {PRONOUNS[row.target_gender]} " in row.context

    @settings(max_examples=40)
    @given(domains(), st.data())
    def test_a_word_twice_is_refused_wherever(self, domain, data):
        lists = domain[data.draw(st.sampled_from(["stimuli", "attributes"]))]
        assume("pairs" not in lists)
        one, other = (data.draw(st.sampled_from(["positive", "negative", "neutral"])) for _ in range(2))
        lists[other].append(lists[one][0].swapcase())
        with pytest.raises(InputError, match="stands there already"):
            compose(domain, count=12, seed=0)


MISTAKES = {
    "missing section": (edited("stimuli", to=...), "no section 'stimuli'"),
    "unknown section": (edited("stimulus", to={}), "no section is called 'stimulus'; did you mean stimuli"),
    "unknown language": (edited("language", to="eng"), "no language is called 'eng'; did you mean en"),
    "no list": (edited("stimuli", "neutral", to="wind"), "stimuli.neutral: no list of words"),
    "no lists": (edited("stimuli", to=["wind"]), "stimuli: .'wind'. where names"),
    "empty list": (edited("attributes", "neutral", to=[]), "attributes.neutral: .*three different options"),
    "two of three lists": (
        edited("stimuli", "negative", to=...),
        "stimuli.negative: .*three different options",
    ),
    "unknown list": (edited("stimuli", "neutrals", to=["a"]), "called 'neutrals'; did you mean neutral"),
    "pairs and lists": (
        edited("attributes", "positive", to=["a"]),
        "attributes: no list is called",
    ),
    "no pair": (edited("attributes", "pairs", to=[["warm"]]), r"attributes.pairs: not all are pairs"),
    "no word": (edited("stimuli", "neutral", to=[False]), "stimuli.neutral: False is no text.*quote it"),
    "empty word": (edited("stimuli", "neutral", to=["  "]), "stimuli.neutral: an empty text"),
    "BLANK as a word": (edited("stimuli", "neutral", to=["a Blank"]), "BLANK marks"),
    "a word in two lists": (edited("stimuli", "neutral", to=["Sun"]), "'Sun' stands there already, as 'sun'"),
    "a word in two pairs": (
        edited("attributes", "pairs", to=[["warm", "cold"], ["kind", "cold"]]),
        "attributes: 'cold' stands there already",
    ),
    "an option in a sentence": (
        edited("stimuli", "neutral", to=["THINKS of"]),
        r"stimuli: 'THINKS of' also stands in 'He is so … that he thinks of …\.' \(templates.so\)",
    ),
    "an option in what is given": (
        edited("attributes", "neutral", to=["frost"]),
        r"attributes: 'frost' also stands in 'frost' \(the other list\)",
    ),
    "no templates": (edited("templates", to={}), "templates: {}"),
    "no name of templates": (edited("templates", to=["{They}"]), "templates: .'{They}'. where names"),
    "a template without a slot": (
        edited("templates", "so", to="{They} {are} {attribute}."),
        r"templates.so: .* has {stimulus} 0 times",
    ),
    "a slot twice": (
        edited("templates", "so", to="{They} {attribute} {stimulus} {stimulus}"),
        r"templates.so: .* has {stimulus} 2 times",
    ),
    "an unknown form": (
        edited("templates", "so", to="{Thay} {are} {attribute}, {stimulus}."),
        r"templates.so: no slot or form is called 'Thay'; did you mean They",
    ),
    "an open brace": (edited("templates", "so", to="{They} {stimulus"), "templates.so: .*expected '}'"),
    "a brace": (
        edited("templates", "so", to="{They} {{ {attribute} {stimulus}"),
        "between braces stands a name",
    ),
    "a format": (
        edited("templates", "so", to="{They:>9} {attribute} {stimulus}"),
        "between braces stands a name",
    ),
    "an attribute of a form": (edited("templates", "so", to="{They.x} {attribute} {stimulus}"), "'They.x'"),
    "no form": (
        edited("templates", "so", to="Who {are} {attribute} likes {stimulus}."),
        "templates.so: 'Who is .*' is what templates.so reads for a gender already.*that tells male,",
    ),
    "a template twice": (
        edited("templates", "again", to=SMALL["templates"]["so"]),
        "templates.again: .* is what templates.so reads",
    ),
    "two forms": (edited("forms", to={"nod": ["nods", "nod"]}), r"forms.nod: .*three texts"),
    "a number as a form": (edited("forms", to={"nod": [1, 2, 3]}), r"forms.nod: .*three texts"),
    "a slot within a form": (edited("forms", to={"nod": ["a", "b", "{c}"]}), r"forms.nod: .*three texts"),
    "a form like a slot": (
        edited("forms", to={"stimulus": ["a", "b", "c"]}),
        r"forms.stimulus: .*something else",
    ),
    "forms that are none": (edited("forms", to=["nod"]), "forms: .'nod'. where names"),
}


class TestMistakes:
    @pytest.mark.parametrize(("domain", "message"), MISTAKES.values(), ids=MISTAKES)
    def test_in_a_domain(self, domain, message):
        with pytest.raises(InputError, match=message):
            compose(domain, count=12, seed=0)

    def test_in_a_file_which_is_named(self, tmp_path):
        path = tmp_path / "own.yaml"
        for content, message in [
            (b"domain: a", "no section 'language'"),
            (b"", "where names with contents"),
            (b"- a", "where names with contents"),
            (b"a: [", "Correct it"),
            (b"domain: a\ndomain: b", "duplicate key domain"),
            (b"domain: \xff", "utf-8"),
        ]:
            path.write_bytes(content)
            with pytest.raises(InputError, match=rf"own\.yaml.*{message}"):
                read(path)
        with pytest.raises(InputError, match=r"nowhere\.yaml: there is no such file"):
            read(Path(tmp_path / "nowhere.yaml"))

    def test_a_byte_order_mark_is_none(self, tmp_path):
        path = tmp_path / "own.yaml"
        path.write_text(SHIPPED[0].read_text("utf-8"), "utf-8-sig")
        assert read(path) == read(SHIPPED[0])

    def test_whole_words_only_but_any_chinese_ones(self):
        compose(
            edited("stimuli", "neutral", to=["he"])
            | {"templates": {"a": "The {person} {stimulus} {attribute}"}},
            count=12,
            seed=0,
        )
        domain = edited("templates", to={"a": "{They}很勤快，{stimulus}，{attribute}。"})
        domain["stimuli"]["neutral"] = ["勤"]
        with pytest.raises(InputError, match="'勤' also stands in"):
            compose(domain, count=12, seed=0)
