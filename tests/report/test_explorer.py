"""Check the explorer of a page: its data, its samples of units, and what a browser does with them."""

import base64
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from src.report import page
from src.report.explorer import MAX_NAMED, MAX_UNITS, STEPS, build_explorer, sample_units
from src.report.format import COLUMNS
from src.studies.propagation.page_tables import list_contributors
from src.studies.propagation.section import build_explorer_rows
from tests.report import factory
from tests.report.test_page import SMALL

MODELS = ("toy_s", "toy_m", "a <b> & 'c'")
SCORES = arrays.arrays(float, st.tuples(st.just(2), st.integers(1, 300)), elements=st.floats(-9, 9, width=32))


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    return factory.draw(folder, models=MODELS, protocols=("k_100", "paper"), **SMALL)


def test_its_data_are_the_rounded_analyses_with_the_units_of_their_jobs(findings):
    rows = build_explorer_rows(findings)
    values = build_explorer([rows])
    data = json.loads(values["data"])
    analyses = findings.of("propagation")
    analyses = analyses.sort_values("protocol", key=lambda names: names != "paper", kind="stable")
    assert data["count"] == values["count"] == len(analyses)
    for column in COLUMNS:
        for value, exact in zip(data["numbers"][column.name]["values"], analyses[column.name], strict=True):
            assert value == (None if pd.isna(exact) else pytest.approx(exact, abs=0.5 * 10**-column.digits))
    for name, source in (("model", "model"), ("exp", "exp"), ("group", "stratum"), ("reason", "reason")):
        texts = data["texts"][name]
        assert [texts["values"][code] for code in texts["codes"]] == analyses[source].fillna("").tolist()
    assert "<b>" not in values["data"]
    statuses = data["texts"]["status"]
    expected = np.where(analyses["level_q"] <= 0.05, "level: q ≤ .05", "level: q > .05")
    expected = np.where(analyses["rho"].isna(), "no ρ", expected)
    assert [statuses["values"][code] for code in statuses["codes"]] == expected.tolist()
    # Units of faces have no names.
    for row in rows.to_dict("records"):
        targets = findings.read(row["config"], "targets")
        scores = targets[targets["stratum"] == row["group"]][["intrinsic", "extrinsic"]].dropna()
        assert row["units"]["n"] == len(scores)
        assert bool(row["units"]["far"]) == (not row["exp"].startswith("faces_to_"))


def test_no_face_is_named_whatever_the_name_of_the_experiment(findings):
    analyses = findings.of("propagation")
    renamed = analyses.assign(exp=analyses["exp"].str.replace("_to_", " near "))
    renamed_findings = findings.with_frame("propagation", renamed)
    for row in build_explorer_rows(renamed_findings).to_dict("records"):
        assert bool(row["units"]["far"]) == (not row["exp"].startswith("faces"))
    contributors = list_contributors(renamed_findings).set_index("exp")["item"]
    assert contributors["words near faces"].str.fullmatch(r"face no\. \d+").all()
    assert contributors["faces near words"].str.startswith("word").all()


def test_units_and_items_of_a_job_without_its_sets_are_not_named(tmp_path):
    findings = factory.draw(tmp_path, models=MODELS[:2], protocols=("paper",), **SMALL)
    for path in tmp_path.rglob("attributes.parquet"):
        path.unlink()
    rows = build_explorer_rows(findings).set_index("exp")["units"]
    assert not any(units["far"] for units in rows["labels_to_scenes"])
    assert list_contributors(findings)["item"].str.startswith("face no.").all()


def test_q_keeps_its_side_of_05_and_a_missing_reason_is_empty(findings):
    rows = build_explorer_rows(findings).assign(level_q=0.0504).drop(columns="reason")
    values = build_explorer([rows])
    numbers = json.loads(values["data"])["numbers"]["level_q"]
    assert {*numbers["values"]} == {0.0504}
    assert numbers["digits"] == 3
    assert {row["reason"] for row in values["rows"]} == {""}


@given(SCORES)
def test_a_sample_is_quantised_and_names_the_units_furthest_from_the_line(scores):
    x, y = scores
    sample = sample_units(*map(pd.Series, scores), pd.Series([f"unit {number}" for number in range(len(x))]))
    steps = np.frombuffer(base64.b64decode(sample["points"]), np.uint8).reshape(-1, 2) / STEPS
    assert len(steps) == min(len(x), MAX_UNITS)
    widths = scores.max(axis=1) - scores.min(axis=1)
    restored = scores.min(axis=1) + steps * widths
    # Each point of the sample is a unit, to within half a step.
    distances = np.abs(restored[:, None] - scores.T[None])
    assert (distances <= widths * 0.5001 / STEPS + 1e-9).all(axis=2).any(axis=1).all()
    if widths[0] > 1e-3:
        slope, start = np.polyfit(x, y, 1)
        ends = [start + slope * end for end in (x.min(), x.max())]
        assert sample["line"] == pytest.approx(ends, rel=2e-3, abs=2e-3)
        residuals = np.abs(y - start - slope * x)
        named = {int(name.split()[1]) for name, _, _ in sample["far"]}
        others = [*set(range(len(x))) - named]
        assert len(named) == min(len(x), MAX_NAMED)
        assert max(residuals[others], default=0) <= residuals[[*named]].min() + 1e-6


def test_undefined_units_are_left_out_and_the_sample_is_seeded():
    rng = np.random.default_rng(0)
    x, y = map(pd.Series, rng.normal(size=(2, 500)))
    x[3] = np.nan
    first, second = (sample_units(x, y, None) for _ in range(2))
    assert first == second
    assert first["n"] == 499
    assert first["far"] == []
    assert sample_units(x * np.nan, y, None) is None


@pytest.fixture(scope="module")
def browser(findings, tmp_path_factory, chromium):
    path = page.write(findings, tmp_path_factory.mktemp("report"))
    chromium.get(path.as_uri())
    return chromium


LISTED = """
const rows = [...document.querySelectorAll('#explorer tbody tr')];
return rows.map((row) => [...row.cells].map((cell) => cell.textContent));
"""
CHOOSE = """
const form = document.querySelector('#explorer form');
form.reset();
const [models, filters] = arguments;
for (const input of form.querySelectorAll('input[name=model]'))
  input.checked = models.includes(input.value);
for (const select of form.querySelectorAll('select[data-filter]'))
  select.value = filters[select.dataset.filter] ?? '';
form.dispatchEvent(new Event('input'));
return new Promise((done) => setTimeout(done, 300));
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("models", "filters"),
    [
        ([], {}),
        (["toy_s", MODELS[2]], {"exp": "faces_to_words", "specification": "protocol paper, seed 0"}),
        (["toy_m"], {"group": "Black Women", "status": "level: q > .05"}),
    ],
)
def test_analyses_are_chosen_by_model_and_filter(findings, browser, models, filters):
    rows = build_explorer_rows(findings)
    names = {"exp": "exp", "specification": "specification", "group": "group", "status": "status"}
    for name, column in names.items():
        rows = rows[rows[column] == filters[name]] if name in filters else rows
    rows = rows[rows["model"].isin(models)] if models else rows
    browser.execute_script(CHOOSE, models, filters)
    listed = [line[:3] for line in browser.execute_script(LISTED)]
    assert sorted(listed) == sorted(rows[["model", "exp", "group"]].to_numpy().tolist())
    output = browser.find_element("css selector", "#explorer output").text
    assert output == f"{len(rows)} of {len(build_explorer_rows(findings))} analyses"
    # The forest plot follows the filter: a point per analysis with a level, of at most 40.
    points = browser.find_elements("css selector", "#explorer .forest .mark-symbol.role-mark path")
    assert len(points) == min(40, rows["level"].notna().sum())
    assert not browser.get_log("browser")


@pytest.mark.thorough
def test_analyses_are_sorted_and_plotted_by_keyboard(browser):
    from selenium.webdriver.common.keys import Keys

    browser.execute_script(CHOOSE, [], {})
    head = browser.find_element("css selector", "#explorer th[data-column=level]")
    index = browser.execute_script("return arguments[0].cellIndex", head)
    for order in ("descending", "ascending"):
        head.find_element("tag name", "button").send_keys(Keys.ENTER)
        values = [float(line[index].replace("−", "-")) for line in browser.execute_script(LISTED)]
        assert head.get_attribute("aria-sort") == order
        assert values == sorted(values, reverse=order == "descending")
    button = browser.find_elements("css selector", "#explorer tbody th button")[2]
    line = browser.execute_script(LISTED)[2]
    button.send_keys(Keys.ENTER)
    caption = browser.find_element("css selector", "#explorer .units").text
    assert caption.startswith(" · ".join(line[:3]))
    assert "units" in caption


@pytest.mark.thorough
def test_without_its_script_the_page_has_the_table(findings, tmp_path, chromium):
    path = page.write(findings, tmp_path)
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        chromium.get(path.as_uri())
        box = chromium.find_element("css selector", "#explorer")
        assert len(box.find_elements("css selector", "tbody tr")) == len(build_explorer_rows(findings))
        assert not box.find_element("css selector", "form").is_displayed()
        assert not box.find_element("css selector", ".plots").is_displayed()
    finally:
        chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
