"""What a reader sees of So-B-IT: the table's numbers, what debiasing did by brute force, and no face."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from src.report import format, page
from src.storage import results
from src.studies.sobit import (
    composition_figure,
    debiasing_changes,
    heatmap,
    skewed_words,
    strong_words,
    word_rows,
)
from src.studies.sobit.terminal import short
from tests.report import made
from tests.report.test_page import Read
from tests.studies.sobit import sobit
from tests.ui.conftest import BROWSER, DRIVER

RACES, GENDERS = ("Black", "Latino_Hispanic", "White"), ("Women", "Men")
MODELS = ("toy_s", made.HOSTILE)
SMALL = {"races": RACES, "genders": GENDERS, "draws": 60}


class Tables(HTMLParser):
    """The rows of each table that names its model, as texts under the names of its columns."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.columns, self.own, self.cell = {}, [], None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        about = dict(attrs)
        if tag == "table":
            self.own = self.tables.setdefault(about["data-model"], []) if "data-model" in about else None
            self.columns = []
        elif self.own is not None and tag == "tr":
            self.row = []
        elif self.own is not None and tag in ("td", "th"):
            self.cell, self.titled = "", ""
            if "data-column" in about:
                self.columns.append(about["data-column"])
        elif self.own is not None and tag == "span" and "title" in about:
            self.titled = about["title"]

    def handle_endtag(self, tag):
        if tag == "table":
            self.own = None
        elif self.own is not None and tag in ("td", "th"):
            self.row.append(self.titled or self.cell)
            self.cell = None
        elif self.own is not None and tag == "tr" and self.row != [] and len(self.columns) == len(self.row):
            self.own.append(dict(zip(self.columns, self.row, strict=True)))

    def handle_data(self, data):
        if self.cell is not None:
            self.cell += data


def few(each=8):
    every = sobit.taxonomy(each=each, odd=(made.HOSTILE,))
    return every[every["category"].isin(sobit.CATEGORIES[:2])].reset_index(drop=True)


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    place = tmp_path_factory.mktemp("jobs")
    return sobit.swept(place, models=MODELS, words=few(), **SMALL)


@pytest.fixture(scope="module")
def written(findings, tmp_path_factory):
    return page.write(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def read(written):
    return Read(written.read_text(encoding="utf-8"))


def of(findings, model="toy_s"):
    rows = word_rows.completed(findings.of("sobit"))
    return rows[(rows["model"] == model) & (rows["debias"] == "none")]


def texts(figure):
    import matplotlib.text

    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


def test_every_number_of_the_words_is_that_of_analyses_csv(findings, written):
    found = Tables(written.read_text(encoding="utf-8")).tables
    every = findings.of("sobit")[findings.of("sobit")["debias"] == "none"]
    assert {*found} == {*MODELS}
    for model, rows in found.items():
        own = every[every["model"] == model]
        assert len(rows) == 1 + len(few()) * 3
        for row in rows[1:]:
            axis = "both" if row["axis"] == "race × gender" else row["axis"]
            mine = own[(own["category"] == row["category"]) & (own["word"] == row["word"])]
            # By hand: the group with the largest |C|, and that with the largest ratio.
            groups = {
                one["group"]: one
                for one in mine[mine["axis"] == axis].dropna(subset=["association"]).to_dict("records")
            }
            largest = max(groups.values(), key=lambda one: abs(one["association"]))
            assert row["group"] == largest["group"]
            shares = mine[mine["axis"] == axis].dropna(subset=["share_topk"]).to_dict("records")
            over = max(shares, key=lambda one: one["ratio"])
            assert row["over"] == over["group"]
            (strength,) = mine["strength"].dropna()
            for column in word_rows.COLUMNS:
                assert row[column.name] == format.number(float(largest[column.name]), column.digits)
            for column in word_rows.SHARES:
                value = strength if column.name == "strength" else over[column.name]
                assert row[column.name] == format.number(float(value), column.digits)


def test_the_table_of_all_rows_comes_back_to_the_last_bit(findings, written):
    found = results.read_csv(written.parent / "tables" / "sobit.csv").drop(columns="study")
    columns = [name for name in found if found[name].notna().any()]
    pd.testing.assert_frame_equal(
        found[columns].fillna({"axis": "", "group": ""}),
        findings.of("sobit")[columns],
        check_dtype=False,
        check_exact=True,
    )


def test_the_summary_counts_words_by_hand(findings, read):
    every = findings.of("sobit")[findings.of("sobit")["debias"] == "none"]
    met = set()
    for row, cell, text in read.cells:
        if row and "data-sobit" in row and cell["data-column"] == "largest":
            own = every[(every["model"] == row["data-sobit"]) & (every["axis"] == row["data-axis"])]
            largest = own.dropna(subset=["association"]).groupby(["category", "word"])["association"]
            assert float(cell["data-value"]) == pytest.approx(
                largest.apply(lambda c: max(map(abs, c))).mean()
            )
            met.add((row["data-sobit"], row["data-axis"]))
            assert text == format.number(float(cell["data-value"]))
    assert met == {(model, axis) for model in MODELS for axis in ("race", "gender", "both")}


def test_in_short_a_row_per_axis_and_reading_a_column_per_model(findings):
    found = short(findings.of("sobit"))
    assert list(found.columns) == ["", "debias", "protocol", "seed", *MODELS]
    assert len(found) == 2 * 3 * 2
    every = findings.of("sobit")
    for row in found.to_dict("records"):
        kind, axis = row[""].split(": ")
        axis = "both" if axis == "race × gender" else axis
        column = "association" if kind == "association" else "share_topk"
        own = every[
            (every["debias"] == row["debias"]) & (every["axis"] == axis) & (every["model"] == "toy_s")
        ]
        own = own.dropna(subset=[column])
        by_word = [part for _, part in own.groupby(["category", "word"])]
        small = sum((part["q"] <= 0.05).any() for part in by_word)
        if kind == "association":
            top = [part.loc[part["association"].abs().idxmax()] for part in by_word]
            means = (
                np.mean([abs(one["association"]) for one in top]),
                np.mean([one["null_q95"] for one in top]),
            )
        else:
            means = own["maxskew"].mean(), own["maxskew_q95"].mean()
        assert row["toy_s"] == f"{small} of {len(by_word)}; {means[0]:.2f} ({means[1]:.2f})"


def test_strength_alone_or_nothing_at_all_has_no_line_in_short(findings):
    assert short(findings.of("sobit")[findings.of("sobit")["exp"] == "sobit_strength"]).empty
    assert short(pd.DataFrame()).empty


def test_the_section_starts_with_what_the_words_are(read):
    start = "So-B-IT: loaded words These words are probes, not claims"
    assert start in read.text
    assert f"{few()['caption'].nunique()} captions, " in read.text
    assert "1 more reading is in tables/sobit.csv" in read.text


def test_the_one_script_is_the_one_that_the_page_allows(written):
    import base64
    import hashlib

    text = written.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(about["content"] for _, about in Read(text).tags if about.get("http-equiv"))
    assert policy.endswith(f"; script-src 'sha256-{digest}'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    # Without it the forms stay hidden.
    assert text.count("<form hidden") == len(MODELS)


def test_a_page_without_so_b_it_has_neither_section_nor_script(tmp_path):
    text = page.write(made.nothing(), tmp_path).read_text(encoding="utf-8")
    assert "<script" not in text
    assert "script-src" not in text
    assert "So-B-IT" not in text


def test_no_face_is_named_and_every_picture_has_its_words(findings, read, written):
    assert "CFD" not in read.text
    for path in (written.parent / "tables").iterdir():
        assert "CFD" not in path.read_text(encoding="utf-8")
    pictures = [about for tag, about in read.tags if tag == "img"]
    told = set()
    for path in (written.parent / "figures").glob("*.png"):
        with Image.open(path) as picture:
            told.add(picture.info["Description"])
    assert {about["alt"] for about in pictures} == told
    assert all(len(about["alt"]) > 40 for about in pictures)
    # Of each model: two categories, three axes twice, strength; and the change with debiasing.
    assert len(pictures) == len(MODELS) * (2 + 6 + 1 + 1)
    links = {about["href"][1:] for _, about in read.tags if about.get("href", "").startswith("#")}
    assert links <= {about["id"] for _, about in read.tags if "id" in about}
    files = [about["href"] for _, about in read.tags if about.get("href", "").startswith("tables")]
    assert all((written.parent / name).is_file() for name in files)


def test_the_page_of_so_b_it_alone_says_nothing_of_other_experiments(read):
    assert "No job of this sweep has a result" not in read.text
    assert "nothing to compare it with" not in read.text
    assert "2 models, 3 experiments" in read.text


def test_the_heatmap_has_each_value_once_on_one_scale(findings):
    rows = of(findings)
    end = heatmap.limit(rows)
    assert end == rows["association"].abs().max()
    drawn = heatmap.heatmaps(rows, end, 1)
    assert len(drawn) == 2
    for drawing, category in zip(drawn, sobit.CATEGORIES, strict=False):
        own = rows[rows["category"] == category].dropna(subset=["association"])
        panels = [axes for axes in drawing.figure.get_axes() if axes.images][:3]
        for panel, axis in zip(panels, word_rows.AXES, strict=True):
            assert panel.images[0].get_clim() == (-end, end)
            grid = np.asarray(panel.images[0].get_array())
            mine = own[own["axis"] == axis]
            listed, groups = [*dict.fromkeys(mine["word"])], [*dict.fromkeys(mine["group"])]
            for row in mine.to_dict("records"):
                at = listed.index(row["word"]), groups.index(row["group"])
                assert grid[at] == row["association"]
                # The number stands in its cell, grey where q says nothing.
                (shown,) = (
                    text
                    for text in panel.texts
                    if text.get_position() == at[::-1]
                    and text.get_rotation() == 0
                    and text.get_fontsize() == 6
                )
                assert shown.get_text() == heatmap.brief_number(row["association"])
                grey = matplotlib.colors.to_hex(shown.get_color()) == "#666666"
                assert grey == (row["q"] > 0.05)
            hollow = panel.collections[-1].get_paths()
            assert len(hollow) == (mine["q"] > 0.05).sum()
        assert f"{(own['q'] <= 0.05).sum()} of {len(own)} cells have q ≤ .05" in drawing.alternative
        assert "q > .05" in texts(drawing.figure)


def test_a_long_category_goes_on_in_another_figure(findings, monkeypatch):
    monkeypatch.setattr(heatmap, "WORDS", 5)
    drawn = heatmap.heatmaps(of(findings), 1.0, 1)
    assert [drawing.name for drawing in drawn] == ["sobit-1-1-1", "sobit-1-1-2", "sobit-1-2-1", "sobit-1-2-2"]


@pytest.mark.parametrize("axis", ["race", "gender", "both"])
def test_the_most_skewed_words_are_those_with_the_largest_c(findings, axis):
    rows = of(findings)
    drawing = skewed_words.skewed(rows, axis, 1)
    known = rows[(rows["axis"] == axis)].dropna(subset=["association"])
    for group, own in known.groupby("group", sort=False):
        if axis == "gender" and group == "Men":
            assert "Of Men they are the same with the sign turned" in drawing.caption
            continue
        count = 12 if axis == "gender" else 6
        largest = (
            own.assign(size=own["association"].abs())
            .nlargest(count, "size")
            .sort_values("association", ascending=False)
        )
        n, rest = int(own["n"].iloc[0]), int(own["n_rest"].iloc[0])
        start = f"{group} (n = {n:,} of {n + rest:,} faces): "
        assert start in drawing.alternative
        told = drawing.alternative.split(start)[1]
        first = largest.iloc[0]
        assert told.startswith(f"{first['word']} {first['association']:.2f}".replace("-", "−"))
        assert told.split(";")[0].count(", ") >= len(largest) - 1


def test_composition_is_of_the_words_with_the_largest_maxskew(findings):
    rows = of(findings)
    known = rows[rows["axis"] == "race"].dropna(subset=["share_topk"])
    top = known.drop_duplicates("caption").nlargest(composition_figure.WORDS, "maxskew")["word"].tolist()
    drawing = composition_figure.composition(rows, "race", 1)
    places = [drawing.alternative.index(f"{word} (MaxSkew") for word in top]
    assert places == sorted(places)
    (row,) = known[(known["word"] == top[0]) & (known["group"] == "White")].to_dict("records")
    assert f"White {row['share_topk']:.2f} of {row['base_share']:.2f}" in drawing.alternative
    shown = [text for text in texts(drawing.figure) if text.startswith("× ")]
    assert shown == [f"× {ratio:.1f}" for word in top for ratio in known.loc[known["word"] == word, "ratio"]]


def test_strong_and_weak_words_are_the_ends_of_strength(findings):
    rows = of(findings)
    drawing = strong_words.strong(rows, 1)
    order = rows.dropna(subset=["strength"]).sort_values("strength", ascending=False)["word"].tolist()
    said = re.search(r"strongest: (.*); weakest: (.*)\.$", drawing.alternative)
    assert said[1].startswith(order[0])
    assert order[-1] in said[2].split(", ")[-1]
    assert skewed_words.skewed(rows[rows["exp"] == "sobit_strength"], "race", 1) is None
    assert strong_words.strong(rows[rows["exp"] == "sobit_retrieval"], 1) is None


def test_what_debiasing_changed_is_that_of_brute_force(findings):
    found = debiasing_changes.changes(findings)
    assert len(found) == len(MODELS) * few()["caption"].nunique() * 3
    every = findings.of("sobit").dropna(subset=["association"])
    for row in found.to_dict("records"):
        drawn = []
        for config, column in ((row["config_before"], "before"), (row["config_after"], "after")):
            own = every[
                (every["config"] == config)
                & (every["caption"] == row["caption"])
                & (every["axis"] == row["axis"])
            ]
            assert row[column] == max(abs(c) for c in own["association"])
            table = findings.read(config, "draws")
            table = table[(table["caption"] == row["caption"]) & (table["axis"] == row["axis"])]
            drawn.append({one["draw"]: float(one["largest"]) for one in table.to_dict("records")})
        between = sorted(drawn[1][draw] - drawn[0][draw] for draw in range(60))
        low, high = np.quantile(between, [0.025, 0.975])
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high))
        assert row["direction"] == ("fell" if high < 0 else "rose" if low > 0 else "unclear")
    told = debiasing_changes.verdicts(found)
    for row in told.to_dict("records"):
        own = found[(found["model"] == row["model"]) & (found["caption"] == row["caption"])]
        ways = own["direction"].tolist()
        by_hand = (
            debiasing_changes.MIXED if "fell" in ways and "rose" in ways
            else debiasing_changes.ALL_FELL if ways.count("fell") == 3
            else debiasing_changes.ALL_ROSE if ways.count("rose") == 3
            else debiasing_changes.SOME_FELL if "fell" in ways
            else debiasing_changes.SOME_ROSE if "rose" in ways
            else debiasing_changes.NOTHING
        )  # fmt: skip
        assert row["verdict"] == by_hand
    counted = debiasing_changes.counts(told)
    assert (counted[[*debiasing_changes.VERDICTS]].sum(axis=1) == counted["words"]).all()
    mixed = [(told[told["model"] == model]["verdict"] == debiasing_changes.MIXED).sum() for model in MODELS]
    assert sum(mixed) > 0
    total = few()["caption"].nunique()
    said = debiasing_changes.sentence(counted, "orth_proj")
    for model, number in zip(MODELS, mixed, strict=True):
        assert f"of {total} words, {number} fell on one axis and rose on another ({model})" in said


def test_the_changes_on_the_page_are_those_of_the_words_that_are_mixed(findings, read):
    found = debiasing_changes.changes(findings)
    told = debiasing_changes.verdicts(found)
    mixed = told[told["verdict"] == debiasing_changes.MIXED]
    wanted = found.set_index(["config_after", "caption", "axis"])
    met = set()
    for row, cell, text in read.cells:
        if row and "data-change" in row:
            key = row["data-change"], row["data-caption"], row["data-axis"]
            assert float(cell["data-value"]) == wanted.loc[key, cell["data-column"]]
            assert text == format.number(
                float(cell["data-value"]), 3 if cell["data-column"].startswith("ci") else 2
            )
            met.add((row["data-change"], row["data-caption"]))
    assert len(met) == len(mixed) > 0


@given(st.lists(st.sampled_from(["fell", "rose", "unclear"]), min_size=1, max_size=4), st.randoms())
def test_a_verdict_does_not_depend_on_order_and_turns_with_its_signs(ways, random):
    shuffled = [*ways]
    random.shuffle(shuffled)
    assert debiasing_changes.verdict(ways) == debiasing_changes.verdict(shuffled)
    turned = {"fell": "rose", "rose": "fell", "unclear": "unclear"}
    pairs = {
        debiasing_changes.ALL_FELL: debiasing_changes.ALL_ROSE,
        debiasing_changes.SOME_FELL: debiasing_changes.SOME_ROSE,
    }
    pairs |= {value: key for key, value in pairs.items()}
    found = debiasing_changes.verdict(ways)
    assert debiasing_changes.verdict([turned[way] for way in ways]) == pairs.get(found, found)
    assert debiasing_changes.verdict([*ways, ""]) == debiasing_changes.UNKNOWN


def test_without_draws_or_with_other_faces_nothing_fell_or_rose(findings, tmp_path):
    bare = replace(findings, folders={})
    found = debiasing_changes.changes(bare)
    assert set(found["direction"]) == {""}
    assert set(found["reason"]) == {"no bootstrap"}
    counted = debiasing_changes.counts(debiasing_changes.verdicts(found))
    assert (counted[debiasing_changes.UNKNOWN] == counted["words"]).all()
    assert (
        debiasing_changes.sentence(counted, "orth_proj")
        == "orth_proj: no word has an interval of its change."
    )
    text = Read(page.write(bare, tmp_path).read_text(encoding="utf-8")).text
    assert "No interval: no bootstrap." in text
    assert "no word has an interval of its change" in text
    # Other faces: draw i of the one is not draw i of the other.
    first = findings.of("sobit")[
        (findings.of("sobit")["exp"] == "sobit_association") & (findings.of("sobit")["debias"] == "none")
    ]
    config = first["config"].iloc[0]
    other = tmp_path / "other"
    other.mkdir()
    for name in ("draws", "attributes"):
        table = findings.read(config, name)
        table = table.assign(id=table["id"] + "x") if name == "attributes" else table
        table.to_parquet(other / f"{name}.parquet")
    moved = debiasing_changes.changes(replace(findings, folders={**findings.folders, config: other}))
    moved = moved[moved["config_before"] == config]
    assert set(moved["reason"]) == {"other faces"}


@pytest.mark.parametrize("exp", sobit.EXPERIMENTS)
def test_one_experiment_alone_has_a_page(findings, tmp_path, exp):
    alone = findings.with_frame("sobit", of(findings)[lambda rows: rows["exp"] == exp])
    text = page.write(alone, tmp_path).read_text(encoding="utf-8")
    (rows,) = Tables(text).tables.values()
    assert len(rows[1:]) == len(few()) * (1 if exp == "sobit_strength" else 3)
    assert (rows[1]["association"] == "–") == (exp != "sobit_association")
    assert (rows[1]["share_topk"] == "–") == (exp != "sobit_retrieval")


def test_a_word_without_any_c_is_a_row_of_dashes(findings, tmp_path):
    rows = of(findings).copy()
    word = rows["word"].iloc[-1]
    numbers = ["association", "association_low", "association_high", "null_q95", "p", "q"]
    rows.loc[(rows["word"] == word) & (rows["exp"] == "sobit_association"), numbers] = math.nan
    found = word_rows.by_word(rows)
    assert len(found) == len(few()) * 3
    assert found.loc[found["word"] == word, "association"].isna().all()
    assert "–" in page.write(findings.with_frame("sobit", rows), tmp_path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A page of 400 words, and so 1,200 rows, of one model."""
    place = tmp_path_factory.mktemp("full")
    (place / "report").mkdir()
    found = sobit.swept(place / "jobs", models=("toy_s",), debias=("none",))
    return page.write(found, place / "report")


def test_four_hundred_words_stay_light(full):
    text = full.read_text(encoding="utf-8")
    assert len(text) < 3e6
    assert len(re.sub(r'src="data:[^"]*"', "", text)) < 1e6
    (rows,) = Tables(text).tables.values()
    assert len(rows[1:]) == 1200


@pytest.fixture(scope="module")
def opened(full):
    """The page in a headless browser, its table of words open."""
    if not (BROWSER and DRIVER):
        pytest.skip("chromium or chromedriver is not installed: make system")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.get(full.as_uri())
    driver.execute_script("document.querySelector('.words').closest('details').open = true")
    yield driver
    driver.quit()


SHOWN = """
const rows = [...document.querySelectorAll('.words tbody tr')].filter((row) => !row.hidden);
return rows.map((row) => [...row.cells].map((cell) => cell.textContent.trim()));
"""
FILTER = """
const form = document.querySelector('.words form');
form.reset();
for (const [name, value] of Object.entries(arguments[0])) form.elements[name].value = value;
form.dispatchEvent(new Event('input'));
return new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done)), 50));
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("chosen", "holds"),
    [
        ({}, lambda row: True),
        ({"text": "KASALD"}, lambda row: "kasald" in row["word"]),
        ({"category": "health"}, lambda row: row["category"] == "health"),
        (
            {"axis": "race × gender", "q": "0.01"},
            lambda row: row["axis"] == "race × gender" and float(row["q"]) <= 0.01,
        ),
        ({"text": "no such word"}, lambda row: False),
    ],
)  # fmt: skip
def test_words_can_be_searched_and_filtered(full, opened, chosen, holds):
    (rows,) = Tables(full.read_text(encoding="utf-8")).tables.values()
    opened.execute_script(FILTER, chosen)
    wanted = [[cell.strip() for cell in row.values()] for row in rows[1:] if holds(row)]
    found = opened.execute_script(SHOWN)
    assert len(found) == len(wanted)
    assert {tuple(row[:3]) for row in found} == {tuple(row[:3]) for row in wanted}
    said = opened.find_element("css selector", ".words output").text
    assert said == f"{len(wanted)} of 1200 rows"
    assert not opened.get_log("browser")


@pytest.mark.thorough
def test_words_can_be_sorted_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    opened.execute_script(FILTER, {})
    for column, numeric in (("association", True), ("word", False)):
        head = opened.find_element("css selector", f".words th[data-column={column}]")
        at = opened.execute_script("return arguments[0].cellIndex", head)
        for _ in range(2):
            head.find_element("tag name", "button").send_keys(Keys.ENTER)
            values = [row[at].replace("−", "-") for row in opened.execute_script(SHOWN)]
            values = [float(value) for value in values] if numeric else values
            way = head.get_attribute("aria-sort")
            assert way in ("ascending", "descending")
            if numeric:
                assert values == sorted(values, reverse=way == "descending")
            else:
                assert values[0] == (min if way == "ascending" else max)(values)
        assert len(opened.find_elements("css selector", ".words th[aria-sort]")) == 1


def test_a_search_takes_no_time(opened):
    taken = opened.execute_script(
        "const form = document.querySelector('.words form'), start = performance.now();"
        "form.elements.text.value = 'ka'; form.dispatchEvent(new Event('input'));"
        "return new Promise((done) => requestAnimationFrame(() => {"
        "document.body.offsetHeight; done(performance.now() - start); }));"
    )
    assert taken < 1000


def test_a_word_counts_with_whichever_group_reaches_q():
    about = {"model": "m", "category": "c", "axis": "race", "caption": "a w", "word": "w"}
    rows = pd.DataFrame(
        [
            {**about, "group": "a", "association": -0.9, "q": 0.2},
            {**about, "group": "b", "association": 0.5, "q": 0.01},
            {**about, "group": "c", "association": 0.4, "q": 0.9},
        ]
    )
    (found,) = word_rows.by_word(word_rows.completed(rows)).to_dict("records")
    assert (found["group"], found["q"], found["q_least"]) == ("a", 0.2, 0.01)
    (told,) = word_rows.summary(word_rows.by_word(word_rows.completed(rows))).to_dict("records")
    assert (told["significant"], told["words"], told["largest"]) == (1, 1, 0.9)
