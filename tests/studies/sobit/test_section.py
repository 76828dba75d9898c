"""Check the section So-B-IT: its numbers, changes by debiasing (brute force), and that it shows no face."""

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
from src.studies.sobit.study import build_terminal_tables
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, check_rows, frame_of, texts
from tests.studies.sobit import sobit_jobs

RACES, GENDERS = ("Black", "Latino_Hispanic", "White"), ("Women", "Men")
MODELS = ("toy_s", factory.HOSTILE)
SMALL = {"races": RACES, "genders": GENDERS, "draws": 60}


def parse_tables(text):
    """Parse the tables that name their model: model -> rows of column -> text."""
    result = {}
    for model, body in re.findall(r'<table data-model="([^"]*)">(.*?)</table>', text, re.DOTALL):
        columns = re.findall(r'<th[^>]* data-column="(\w+)"', body)
        rows = [re.findall(r"<t[hd][ >].*?</t[hd]>", row, re.DOTALL) for row in body.split("<tr>")[2:]]
        titles_of_rows = [[re.search(r'<span[^>]* title="([^"]*)"', cell) for cell in row] for row in rows]
        result[html.unescape(model)] = [
            {
                column: html.unescape(title[1] if title else re.sub("<[^>]*>", "", cell))
                for column, title, cell in zip(columns, titles, row, strict=True)
            }
            for titles, row in zip(titles_of_rows, rows, strict=True)
        ]
    return result


def few_words(per_category=8):
    words = sobit_jobs.taxonomy(per_category=per_category, extra=(factory.HOSTILE,))
    return words[words["category"].isin(sobit_jobs.CATEGORIES[:2])].reset_index(drop=True)


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    return sobit_jobs.sweep(folder, models=MODELS, words=few_words(), **SMALL)


def undebiased_rows(findings, model="toy_s"):
    rows = word_rows.fill_columns(findings.of("sobit"))
    return rows[(rows["model"] == model) & (rows["debias"] == "none")]


def test_every_number_of_the_words_is_that_of_analyses_csv(findings, page_path):
    result = parse_tables(page_path.read_text(encoding="utf-8"))
    undebiased = findings.of("sobit")[findings.of("sobit")["debias"] == "none"]
    assert {*result} == {*MODELS}
    for model, rows in result.items():
        subset = undebiased[undebiased["model"] == model]
        assert len(rows) == len(few_words()) * 3
        for row in rows:
            axis = "both" if row["axis"] == "race × gender" else row["axis"]
            source = subset[(subset["category"] == row["category"]) & (subset["word"] == row["word"])]
            # By hand: the groups with the largest |C| and with the largest ratio.
            groups = {
                item["group"]: item
                for item in source[source["axis"] == axis].dropna(subset=["association"]).to_dict("records")
            }
            largest = max(groups.values(), key=lambda item: abs(item["association"]))
            assert row["group"] == largest["group"]
            shares = source[source["axis"] == axis].dropna(subset=["share_topk"]).to_dict("records")
            top = max(shares, key=lambda item: item["ratio"])
            assert row["overrepresented"] == top["group"]
            (strength,) = source["strength"].dropna()
            for column in word_rows.ASSOCIATION_COLUMNS:
                assert row[column.name] == format.format_number(float(largest[column.name]), column.digits)
            for column in word_rows.RETRIEVAL_COLUMNS:
                value = strength if column.name == "strength" else top[column.name]
                assert row[column.name] == format.format_number(float(value), column.digits)


def test_the_page_has_the_exact_q_of_each_word(findings, page_path):
    values = re.findall(r'<td data-value="([^"]*)">', page_path.read_text(encoding="utf-8"))
    words = pd.concat([word_rows.combine_groups(undebiased_rows(findings, model)) for model in MODELS])
    assert values == [format.format_exactly(q) for q in words["q"]]


def test_the_terminal_table_has_a_row_per_axis_and_specification(findings):
    (table,) = build_terminal_tables(findings.of("sobit"), "demo")
    result = frame_of(table)
    assert list(result.columns) == ["", "debias", "protocol", "seed", *MODELS]
    assert len(result) == 2 * 3 * 2
    rows = undebiased_rows(findings)
    for kind, column in (("association", "association"), ("retrieval", "share_topk")):
        subset = rows[rows["axis"] == "race"].dropna(subset=[column])
        by_word = [piece for _, piece in subset.groupby(["category", "word"])]
        significant = sum((piece["q"] <= 0.05).any() for piece in by_word)
        top = [piece.loc[piece["association"].abs().idxmax()] for piece in by_word if kind == "association"]
        names = ("association", "null_q95") if top else ("maxskew", "maxskew_q95")
        size, null = (pd.DataFrame(top or subset)[name].abs().mean() for name in names)
        (cell,) = result.loc[(result[""] == f"{kind}: race") & (result["debias"] == "none"), "toy_s"]
        assert cell == f"{significant} of {len(by_word)}; {size:.2f} ({null:.2f})"


def test_the_page_allows_only_its_script(page_path, tmp_path):
    text = page_path.read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = next(about["content"] for _, about in ParsedPage(text).tags if about.get("http-equiv"))
    assert policy.endswith(f"; script-src 'sha256-{digest}'")
    assert "unsafe-inline" not in policy.partition("script-src")[2]
    # Without it the forms stay hidden.
    assert text.count("<form hidden") == len(MODELS)
    bare = page.write(factory.build(), tmp_path).read_text(encoding="utf-8")
    assert not re.search("<script|script-src|So-B-IT", bare)


def test_the_page_passes_the_common_checks_and_has_its_pictures(findings, html, page_path):
    check_rows(findings, page_path, "sobit", "sobit")
    # Of each model: two categories, three axes twice, and strength.
    assert len(check_page(page_path, html)) == len(MODELS) * (2 + 6 + 1)


def test_the_heatmap_has_each_value_once_on_the_same_scale(findings):
    rows = undebiased_rows(findings)
    limit = heatmap.find_colour_limit(rows)
    assert limit == rows["association"].abs().max()
    drawings = heatmap.draw_heatmaps(rows, limit, 1)
    assert len(drawings) == 2
    for drawing, category in zip(drawings, sobit_jobs.CATEGORIES, strict=False):
        subset = rows[rows["category"] == category].dropna(subset=["association"])
        panels = [axes for axes in drawing.figure.get_axes() if axes.images][:3]
        for panel, axis in zip(panels, word_rows.FIRST_AXES, strict=True):
            assert panel.images[0].get_clim() == (-limit, limit)
            grid = np.asarray(panel.images[0].get_array())
            panel_rows = subset[subset["axis"] == axis]
            words, groups = [*dict.fromkeys(panel_rows["word"])], [*dict.fromkeys(panel_rows["group"])]
            for row in panel_rows.to_dict("records"):
                cell = words.index(row["word"]), groups.index(row["group"])
                assert grid[cell] == row["association"]
                # Each cell shows its number, grey where q > .05.
                (cell_text,) = (
                    text for text in panel.texts
                    if (text.get_position(), text.get_rotation(), text.get_fontsize()) == (cell[::-1], 0, 6)
                )  # fmt: skip
                assert cell_text.get_text() == heatmap.format_briefly(row["association"])
                is_grey = matplotlib.colors.to_hex(cell_text.get_color()) == "#666666"
                assert is_grey == (row["q"] > 0.05)
            hollow = panel.collections[-1].get_paths()
            assert len(hollow) == (panel_rows["q"] > 0.05).sum()
        assert f"{(subset['q'] <= 0.05).sum()} of {len(subset)} cells have q ≤ .05" in drawing.alt_text
        assert "q > .05 or none" in texts(drawing.figure)


@pytest.mark.parametrize("axis", ["race", "gender", "both"])
def test_words_of_a_group_are_those_with_the_largest_c(findings, axis):
    rows = undebiased_rows(findings)
    drawing = word_figures.draw_associations(rows, axis, 1)
    defined = rows[(rows["axis"] == axis)].dropna(subset=["association"])
    for group, subset in defined.groupby("group", sort=False):
        if axis == "gender" and group == "Men":
            assert "For Men, C has the opposite sign" in drawing.caption
            continue
        count = 12 if axis == "gender" else 6
        largest = subset.loc[subset["association"].abs().nlargest(count).index]
        largest = largest.sort_values("association", ascending=False)
        n, n_rest = int(subset["n"].iloc[0]), int(subset["n_rest"].iloc[0])
        start = f"{group} (n = {n:,} of {n + n_rest:,} faces): "
        assert start in drawing.alt_text
        group_text = drawing.alt_text.split(start)[1]
        first = largest.iloc[0]
        assert group_text.startswith(f"{first['word']} {first['association']:.2f}".replace("-", "−"))
        assert group_text.split(";")[0].count(", ") >= len(largest) - 1


def test_changes_by_debiasing_equal_brute_force(findings):
    result = debiasing_changes.compute_changes(findings)
    assert len(result) == len(MODELS) * few_words()["caption"].nunique() * 3
    associations = findings.of("sobit").dropna(subset=["association"])
    for row in result.to_dict("records"):
        draws = []
        for config, column in ((row["config_before"], "before"), (row["config_after"], "after")):
            same = "caption == @row['caption'] and axis == @row['axis']"
            subset = associations.query(f"config == @config and {same}")
            assert row[column] == max(abs(c) for c in subset["association"])
            table = findings.read(config, "draws").query(same)
            draws.append({item["draw"]: float(item["largest"]) for item in table.to_dict("records")})
        differences = sorted(draws[1][draw] - draws[0][draw] for draw in range(60))
        low, high = np.quantile(differences, [0.025, 0.975])
        assert (row["ci_low"], row["ci_high"]) == pytest.approx((low, high))
        assert row["direction"] == ("fell" if high < 0 else "rose" if low > 0 else "unclear")
    verdict_rows = debiasing_changes.classify_words(result)
    for row in verdict_rows.to_dict("records"):
        subset = result[(result["model"] == row["model"]) & (result["caption"] == row["caption"])]
        directions = subset["direction"].tolist()
        expected = (
            debiasing_changes.MIXED if "fell" in directions and "rose" in directions
            else debiasing_changes.ALL_FELL if directions.count("fell") == 3
            else debiasing_changes.ALL_ROSE if directions.count("rose") == 3
            else debiasing_changes.SOME_FELL if "fell" in directions
            else debiasing_changes.SOME_ROSE if "rose" in directions
            else debiasing_changes.ALL_UNCLEAR
        )  # fmt: skip
        assert row["verdict"] == expected
    counts = debiasing_changes.count_verdicts(verdict_rows)
    assert (counts[[*debiasing_changes.VERDICTS]].sum(axis=1) == counts["words"]).all()
    is_mixed = verdict_rows["verdict"] == debiasing_changes.MIXED
    mixed = [(is_mixed & (verdict_rows["model"] == model)).sum() for model in MODELS]
    assert sum(mixed) > 0
    assert counts.set_index("model").loc[[*MODELS], debiasing_changes.MIXED].tolist() == mixed


@given(st.lists(st.sampled_from(["fell", "rose", "unclear"]), min_size=1, max_size=4), st.randoms())
def test_a_verdict_does_not_depend_on_order_and_is_mirrored_with_its_signs(directions, random):
    shuffled = [*directions]
    random.shuffle(shuffled)
    assert debiasing_changes.classify_directions(directions) == debiasing_changes.classify_directions(
        shuffled
    )
    mirror = {"fell": "rose", "rose": "fell", "unclear": "unclear"}
    pairs = {
        debiasing_changes.ALL_FELL: debiasing_changes.ALL_ROSE,
        debiasing_changes.SOME_FELL: debiasing_changes.SOME_ROSE,
    }
    pairs |= {value: key for key, value in pairs.items()}
    result = debiasing_changes.classify_directions(directions)
    assert debiasing_changes.classify_directions([mirror[x] for x in directions]) == pairs.get(result, result)
    assert debiasing_changes.classify_directions([*directions, ""]) == debiasing_changes.UNKNOWN


@pytest.mark.thorough
def test_without_draws_or_with_other_faces_nothing_fell_or_rose(findings, tmp_path):
    without_draws = replace(findings, folders={})
    result = debiasing_changes.compute_changes(without_draws)
    assert set(result["direction"]) == {""}
    assert set(result["reason"]) == {"no bootstrap"}
    counts = debiasing_changes.count_verdicts(debiasing_changes.classify_words(result))
    assert (counts[debiasing_changes.UNKNOWN] == counts["words"]).all()
    text = ParsedPage(page.write(without_draws, tmp_path).read_text(encoding="utf-8")).text
    assert "No interval: no bootstrap." in text
    # Draws of jobs with other faces are not paired.
    undebiased = findings.of("sobit")[
        (findings.of("sobit")["exp"] == "sobit_association") & (findings.of("sobit")["debias"] == "none")
    ]
    config = undebiased["config"].iloc[0]
    other = tmp_path / "other"
    other.mkdir()
    for name in ("draws", "attributes"):
        table = findings.read(config, name)
        table = table.assign(id=table["id"] + "x") if name == "attributes" else table
        table.to_parquet(other / f"{name}.parquet")
    unpaired = debiasing_changes.compute_changes(
        replace(findings, folders={**findings.folders, config: other})
    )
    unpaired = unpaired[unpaired["config_before"] == config]
    assert set(unpaired["reason"]) == {"the faces differ"}


@pytest.mark.parametrize("exp", sobit_jobs.EXPERIMENTS)
def test_a_single_experiment_has_a_page(findings, tmp_path, exp):
    single = findings.with_frame("sobit", undebiased_rows(findings)[lambda rows: rows["exp"] == exp])
    text = page.write(single, tmp_path).read_text(encoding="utf-8")
    (rows,) = parse_tables(text).values()
    assert len(rows) == len(few_words()) * (1 if exp == "sobit_strength" else 3)
    assert (rows[0]["association"] == "–") == (exp != "sobit_association")
    assert (rows[0]["share_topk"] == "–") == (exp != "sobit_retrieval")
    assert len(build_terminal_tables(single.of("sobit"), "demo")) == (exp != "sobit_strength")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Write a page of 400 words (1,200 rows) of one model, and check that it is small."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "report").mkdir()
    findings = sobit_jobs.sweep(folder / "jobs", models=("toy_s",), debias=("none",))
    rows = findings.of("sobit")
    # A q above .01 that is displayed as .010.
    is_planted = (rows["word"] == rows["word"].iloc[0]) & rows["q"].notna()
    findings = findings.with_frame("sobit", rows.assign(q=rows["q"].mask(is_planted, 0.0104)))
    written = page.write(findings, folder / "report")
    text = written.read_text(encoding="utf-8")
    assert len(text) < 3e6
    assert len(re.sub(r'src="data:[^"]*"', "", text)) < 1e6
    return written


@pytest.fixture(scope="module")
def browser(full, chromium):
    """Open the page in a headless browser, with its table of words unfolded."""
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
    ("filters", "matches"),
    [
        ({}, lambda row: True),
        ({"text": "KASALD", "category": "health"},
         lambda row: "kasald" in row["word"] and row["category"] == "health"),
        ({"axis": "race × gender", "q": "0.01"},
         lambda row: row["axis"] == "race × gender" and row["exact_q"] <= 0.01),
    ],
)  # fmt: skip
def test_words_can_be_searched_and_filtered(full, browser, filters, matches):
    (rows,) = parse_tables(full.read_text(encoding="utf-8")).values()
    words = pd.read_csv(full.parent / "tables" / "sobit-words.csv", float_precision="round_trip")
    assert (words["q"] == 0.0104).any()
    browser.execute_script(FILTER, filters)
    expected = [
        [cell.strip() for cell in row.values()]
        for row, q in zip(rows, words["q"], strict=True)
        if matches({**row, "exact_q": q})
    ]
    result = browser.execute_script(DISPLAYED)
    assert len(result) == len(expected)
    assert {tuple(row[:3]) for row in result} == {tuple(row[:3]) for row in expected}
    message = browser.find_element("css selector", ".words output").text
    assert message == f"{len(expected)} of 1200 rows"
    assert not browser.get_log("browser")


@pytest.mark.thorough
def test_words_can_be_sorted_by_keyboard(browser):
    from selenium.webdriver.common.keys import Keys

    browser.execute_script(FILTER, {})
    for column, numeric in (("association", True), ("word", False)):
        head = browser.find_element("css selector", f".words th[data-column={column}]")
        index = browser.execute_script("return arguments[0].cellIndex", head)
        for _ in range(2):
            head.find_element("tag name", "button").send_keys(Keys.ENTER)
            values = [row[index].replace("−", "-") for row in browser.execute_script(DISPLAYED)]
            values = [float(value) for value in values] if numeric else values
            order = head.get_attribute("aria-sort")
            assert order in ("ascending", "descending")
            if numeric:
                assert values == sorted(values, reverse=order == "descending")
            else:
                assert values[0] == (min if order == "ascending" else max)(values)
        assert len(browser.find_elements("css selector", ".words th[aria-sort]")) == 1


def test_a_word_counts_with_whichever_group_reaches_q():
    fields = {"model": "m", "category": "c", "axis": "race", "caption": "a w", "word": "w"}
    numbers = {"association": [-0.9, 0.5, 0.4], "q": [0.2, 0.01, 0.9]}
    rows = pd.DataFrame({**fields, "group": list("abc"), **numbers})
    (result,) = word_rows.combine_groups(word_rows.fill_columns(rows)).to_dict("records")
    assert (result["group"], result["q"], result["smallest_q"]) == ("a", 0.2, 0.01)
    (summary,) = word_rows.summarise_models(word_rows.combine_groups(word_rows.fill_columns(rows))).to_dict(
        "records"
    )
    assert (summary["significant"], summary["words"], summary["largest"]) == (1, 1, 0.9)
