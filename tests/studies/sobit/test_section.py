"""Tests of the section So-B-IT: its numbers, the changes by debiasing (by brute force), and no face shown."""

import base64
import hashlib
import html
import re
from dataclasses import replace

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.report import format, page
from src.studies.sobit import debiasing_changes, heatmap, word_figures, word_rows
from src.studies.sobit.study import terminal_table
from tests.report import made
from tests.report.conftest import Read, check_page, check_rows, texts
from tests.studies.sobit import sobit

RACES, GENDERS = ("Black", "Latino_Hispanic", "White"), ("Women", "Men")
MODELS = ("toy_s", made.HOSTILE)
SMALL = {"races": RACES, "genders": GENDERS, "draws": 60}


def tables(text):
    """Return the rows of each table that names its model, as texts under the names of its columns."""
    result = {}
    for model, body in re.findall(r'<table data-model="([^"]*)">(.*?)</table>', text, re.DOTALL):
        columns = re.findall(r'<th[^>]* data-column="(\w+)"', body)
        rows = [re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL) for row in body.split("<tr>")[2:]]
        titled = [[re.search(r'<span[^>]* title="([^"]*)"', cell) for cell in row] for row in rows]
        result[html.unescape(model)] = [
            {
                column: html.unescape(title[1] if title else re.sub("<[^>]*>", "", cell))
                for column, title, cell in zip(columns, titles, row, strict=True)
            }
            for titles, row in zip(titled, rows, strict=True)
        ]
    return result


def few(each=8):
    every = sobit.taxonomy(each=each, odd=(made.HOSTILE,))
    return every[every["category"].isin(sobit.CATEGORIES[:2])].reset_index(drop=True)


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    place = tmp_path_factory.mktemp("jobs")
    return sobit.swept(place, models=MODELS, words=few(), **SMALL)


def of(findings, model="toy_s"):
    rows = word_rows.completed(findings.of("sobit"))
    return rows[(rows["model"] == model) & (rows["debias"] == "none")]


def test_every_number_of_the_words_is_that_of_analyses_csv(findings, written):
    result = tables(written.read_text(encoding="utf-8"))
    every = findings.of("sobit")[findings.of("sobit")["debias"] == "none"]
    assert {*result} == {*MODELS}
    for model, rows in result.items():
        subset = every[every["model"] == model]
        assert len(rows) == len(few()) * 3
        for row in rows:
            axis = "both" if row["axis"] == "race × gender" else row["axis"]
            mine = subset[(subset["category"] == row["category"]) & (subset["word"] == row["word"])]
            # By hand: the group with the largest |C|, and that with the largest ratio.
            groups = {
                item["group"]: item
                for item in mine[mine["axis"] == axis].dropna(subset=["association"]).to_dict("records")
            }
            largest = max(groups.values(), key=lambda item: abs(item["association"]))
            assert row["group"] == largest["group"]
            shares = mine[mine["axis"] == axis].dropna(subset=["share_topk"]).to_dict("records")
            over = max(shares, key=lambda item: item["ratio"])
            assert row["overrepresented"] == over["group"]
            (strength,) = mine["strength"].dropna()
            for column in word_rows.ASSOCIATION_COLUMNS:
                assert row[column.name] == format.number(float(largest[column.name]), column.digits)
            for column in word_rows.RETRIEVAL_COLUMNS:
                value = strength if column.name == "strength" else over[column.name]
                assert row[column.name] == format.number(float(value), column.digits)


def test_in_short_a_row_per_axis_and_specification_a_column_per_model(findings):
    result = terminal_table(findings.of("sobit"))
    assert list(result.columns) == ["", "debias", "protocol", "seed", *MODELS]
    assert len(result) == 2 * 3 * 2
    rows = of(findings)
    for kind, column in (("association", "association"), ("retrieval", "share_topk")):
        subset = rows[rows["axis"] == "race"].dropna(subset=[column])
        by_word = [piece for _, piece in subset.groupby(["category", "word"])]
        small = sum((piece["q"] <= 0.05).any() for piece in by_word)
        top = [piece.loc[piece["association"].abs().idxmax()] for piece in by_word if kind == "association"]
        names = ("association", "null_q95") if top else ("maxskew", "maxskew_q95")
        size, null = (pd.DataFrame(top or subset)[name].abs().mean() for name in names)
        (cell,) = result.loc[(result[""] == f"{kind}: race") & (result["debias"] == "none"), "toy_s"]
        assert cell == f"{small} of {len(by_word)}; {size:.2f} ({null:.2f})"


def test_the_page_allows_only_its_script(written, tmp_path):
    text = written.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(about["content"] for _, about in Read(text).tags if about.get("http-equiv"))
    assert policy.endswith(f"; script-src 'sha256-{digest}'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    # Without it the forms stay hidden.
    assert text.count("<form hidden") == len(MODELS)
    bare = page.write(made.findings_of(), tmp_path).read_text(encoding="utf-8")
    assert not re.search("<script|script-src|So-B-IT", bare)


def test_the_page_keeps_the_contract_and_has_its_pictures(findings, read, written):
    check_rows(findings, written, "sobit", "sobit")
    # Of each model: two categories, three axes twice, and strength.
    assert len(check_page(written, read)) == len(MODELS) * (2 + 6 + 1)


def test_the_heatmap_has_each_value_once_on_the_same_scale(findings):
    rows = of(findings)
    end = heatmap.limit(rows)
    assert end == rows["association"].abs().max()
    drawn = heatmap.heatmaps(rows, end, 1)
    assert len(drawn) == 2
    for drawing, category in zip(drawn, sobit.CATEGORIES, strict=False):
        subset = rows[rows["category"] == category].dropna(subset=["association"])
        panels = [axes for axes in drawing.figure.get_axes() if axes.images][:3]
        for panel, axis in zip(panels, word_rows.AXIS_LABELS, strict=True):
            assert panel.images[0].get_clim() == (-end, end)
            grid = np.asarray(panel.images[0].get_array())
            mine = subset[subset["axis"] == axis]
            listed, groups = [*dict.fromkeys(mine["word"])], [*dict.fromkeys(mine["group"])]
            for row in mine.to_dict("records"):
                at = listed.index(row["word"]), groups.index(row["group"])
                assert grid[at] == row["association"]
                # The number is in its cell, grey where q says nothing.
                (displayed,) = (
                    text for text in panel.texts
                    if (text.get_position(), text.get_rotation(), text.get_fontsize()) == (at[::-1], 0, 6)
                )  # fmt: skip
                assert displayed.get_text() == heatmap.brief_number(row["association"])
                grey = matplotlib.colors.to_hex(displayed.get_color()) == "#666666"
                assert grey == (row["q"] > 0.05)
            hollow = panel.collections[-1].get_paths()
            assert len(hollow) == (mine["q"] > 0.05).sum()
        assert f"{(subset['q'] <= 0.05).sum()} of {len(subset)} cells have q ≤ .05" in drawing.alternative
        assert "q > .05" in texts(drawing.figure)


@pytest.mark.parametrize("axis", ["race", "gender", "both"])
def test_skewed_words_are_those_with_the_largest_c(findings, axis):
    rows = of(findings)
    drawing = word_figures.skewed(rows, axis, 1)
    known = rows[(rows["axis"] == axis)].dropna(subset=["association"])
    for group, subset in known.groupby("group", sort=False):
        if axis == "gender" and group == "Men":
            assert "For Men, C has the opposite sign" in drawing.caption
            continue
        count = 12 if axis == "gender" else 6
        largest = (
            subset.assign(size=subset["association"].abs())
            .nlargest(count, "size")
            .sort_values("association", ascending=False)
        )
        n, rest = int(subset["n"].iloc[0]), int(subset["n_rest"].iloc[0])
        start = f"{group} (n = {n:,} of {n + rest:,} faces): "
        assert start in drawing.alternative
        reported = drawing.alternative.split(start)[1]
        first = largest.iloc[0]
        assert reported.startswith(f"{first['word']} {first['association']:.2f}".replace("-", "−"))
        assert reported.split(";")[0].count(", ") >= len(largest) - 1


def test_what_debiasing_changed_is_that_of_brute_force(findings):
    result = debiasing_changes.changes(findings)
    assert len(result) == len(MODELS) * few()["caption"].nunique() * 3
    every = findings.of("sobit").dropna(subset=["association"])
    for row in result.to_dict("records"):
        drawn = []
        for config, column in ((row["config_before"], "before"), (row["config_after"], "after")):
            subset = every[
                (every["config"] == config)
                & (every["caption"] == row["caption"])
                & (every["axis"] == row["axis"])
            ]
            assert row[column] == max(abs(c) for c in subset["association"])
            table = findings.read(config, "draws")
            table = table[(table["caption"] == row["caption"]) & (table["axis"] == row["axis"])]
            drawn.append({item["draw"]: float(item["largest"]) for item in table.to_dict("records")})
        between = sorted(drawn[1][draw] - drawn[0][draw] for draw in range(60))
        low, high = np.quantile(between, [0.025, 0.975])
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high))
        assert row["direction"] == ("fell" if high < 0 else "rose" if low > 0 else "unclear")
    reported = debiasing_changes.verdicts(result)
    for row in reported.to_dict("records"):
        subset = result[(result["model"] == row["model"]) & (result["caption"] == row["caption"])]
        ways = subset["direction"].tolist()
        by_hand = (
            debiasing_changes.MIXED if "fell" in ways and "rose" in ways
            else debiasing_changes.ALL_FELL if ways.count("fell") == 3
            else debiasing_changes.ALL_ROSE if ways.count("rose") == 3
            else debiasing_changes.SOME_FELL if "fell" in ways
            else debiasing_changes.SOME_ROSE if "rose" in ways
            else debiasing_changes.UNCHANGED
        )  # fmt: skip
        assert row["verdict"] == by_hand
    counted = debiasing_changes.counts(reported)
    assert (counted[[*debiasing_changes.VERDICTS]].sum(axis=1) == counted["words"]).all()
    is_mixed = reported["verdict"] == debiasing_changes.MIXED
    mixed = [(is_mixed & (reported["model"] == model)).sum() for model in MODELS]
    assert sum(mixed) > 0
    assert counted.set_index("model").loc[[*MODELS], debiasing_changes.MIXED].tolist() == mixed


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
    result = debiasing_changes.verdict(ways)
    assert debiasing_changes.verdict([turned[way] for way in ways]) == pairs.get(result, result)
    assert debiasing_changes.verdict([*ways, ""]) == debiasing_changes.UNKNOWN


def test_without_draws_or_with_other_faces_nothing_fell_or_rose(findings, tmp_path):
    bare = replace(findings, folders={})
    result = debiasing_changes.changes(bare)
    assert set(result["direction"]) == {""}
    assert set(result["reason"]) == {"no bootstrap"}
    counted = debiasing_changes.counts(debiasing_changes.verdicts(result))
    assert (counted[debiasing_changes.UNKNOWN] == counted["words"]).all()
    text = Read(page.write(bare, tmp_path).read_text(encoding="utf-8")).text
    assert "No interval: no bootstrap." in text
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
    assert set(moved["reason"]) == {"the faces differ"}


@pytest.mark.parametrize("exp", sobit.EXPERIMENTS)
def test_a_single_experiment_has_a_page(findings, tmp_path, exp):
    alone = findings.with_frame("sobit", of(findings)[lambda rows: rows["exp"] == exp])
    text = page.write(alone, tmp_path).read_text(encoding="utf-8")
    (rows,) = tables(text).values()
    assert len(rows) == len(few()) * (1 if exp == "sobit_strength" else 3)
    assert (rows[0]["association"] == "–") == (exp != "sobit_association")
    assert (rows[0]["share_topk"] == "–") == (exp != "sobit_retrieval")
    assert terminal_table(alone.of("sobit")).empty == (exp == "sobit_strength")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Write a page of 400 words, and so 1,200 rows, of a single model, which stays light."""
    place = tmp_path_factory.mktemp("full")
    (place / "report").mkdir()
    written = page.write(sobit.swept(place / "jobs", models=("toy_s",), debias=("none",)), place / "report")
    text = written.read_text(encoding="utf-8")
    assert len(text) < 3e6
    assert len(re.sub(r'src="data:[^"]*"', "", text)) < 1e6
    return written


@pytest.fixture(scope="module")
def opened(full, chromium):
    """The page in a headless browser, its table of words open."""
    chromium.get(full.as_uri())
    chromium.execute_script("document.querySelector('.words').closest('details').open = true")
    return chromium


DISPLAYED = """
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
        ({"text": "KASALD", "category": "health"},
         lambda row: "kasald" in row["word"] and row["category"] == "health"),
        ({"axis": "race × gender", "q": "0.01"},
         lambda row: row["axis"] == "race × gender" and float(row["q"]) <= 0.01),
    ],
)  # fmt: skip
def test_words_can_be_searched_and_filtered(full, opened, chosen, holds):
    (rows,) = tables(full.read_text(encoding="utf-8")).values()
    opened.execute_script(FILTER, chosen)
    wanted = [[cell.strip() for cell in row.values()] for row in rows if holds(row)]
    result = opened.execute_script(DISPLAYED)
    assert len(result) == len(wanted)
    assert {tuple(row[:3]) for row in result} == {tuple(row[:3]) for row in wanted}
    message = opened.find_element("css selector", ".words output").text
    assert message == f"{len(wanted)} of 1200 rows"
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
            values = [row[at].replace("−", "-") for row in opened.execute_script(DISPLAYED)]
            values = [float(value) for value in values] if numeric else values
            way = head.get_attribute("aria-sort")
            assert way in ("ascending", "descending")
            if numeric:
                assert values == sorted(values, reverse=way == "descending")
            else:
                assert values[0] == (min if way == "ascending" else max)(values)
        assert len(opened.find_elements("css selector", ".words th[aria-sort]")) == 1


def test_a_word_counts_with_whichever_group_reaches_q():
    about = {"model": "m", "category": "c", "axis": "race", "caption": "a w", "word": "w"}
    rows = pd.DataFrame(
        [
            {**about, "group": "a", "association": -0.9, "q": 0.2},
            {**about, "group": "b", "association": 0.5, "q": 0.01},
            {**about, "group": "c", "association": 0.4, "q": 0.9},
        ]
    )
    (result,) = word_rows.by_word(word_rows.completed(rows)).to_dict("records")
    assert (result["group"], result["q"], result["smallest_q"]) == ("a", 0.2, 0.01)
    (reported,) = word_rows.summary(word_rows.by_word(word_rows.completed(rows))).to_dict("records")
    assert (reported["significant"], reported["words"], reported["largest"]) == (1, 1, 0.9)
