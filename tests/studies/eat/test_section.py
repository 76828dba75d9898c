"""Check the figure, the sentences and the page of association tests."""

import numpy as np
import pandas as pd
import pytest

from src.report import page
from src.studies.eat import figures, section
from src.studies.eat.config import ORDERS
from src.studies.eat.study import STUDY, build_terminal_tables
from src.studies.protocol import AnalysisTables
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, check_rows, frame_of, texts

TESTS = ["flower, insect", factory.HOSTILE]
REFUSED = "no p: targets share clusters; no interval: fewer than 5 clusters"


def build_rows(*, tests=TESTS, models=("toy_s", "toy_m"), protocols=("paper", "pooling_mean")):
    rng, rows = np.random.default_rng(0), []
    for protocol in protocols:
        for model in models:
            config = f"{protocol} {model}"
            common = {
                "exp": "eat_ieat",
                "paper": "iEAT",
                "model": model,
                "dataset": "demo",
                "debias": "none",
                "perturb": "none",
            }
            common |= {"protocol": protocol, "seed": 0, "config": config}
            for test in tests:
                for order in ORDERS:
                    d = rng.uniform(-1.5, 1.5)
                    row = {"test": test, "order": order, "n_x": 6, "n_y": 7, "n_a": 55, "n_b": 54, "d": d}
                    row |= dict(zip(["set_x", "set_y", "set_a", "set_b"], ["x", "y", "a", "b"], strict=True))
                    row |= {"d_low": d - 0.5, "d_high": d + 0.5, "df": 5, "p": rng.uniform()}
                    row |= {"partitions": 1716, "p_method": "exact", "null_low": -1.1, "null_high": 1.1}
                    rows.append({**common, **row, "reason": ""})
    frame = pd.DataFrame(rows)
    refused = ["d_low", "d_high", "df", "p", "null_low", "null_high"]
    frame.loc[2, refused], frame.loc[2, "reason"] = np.nan, REFUSED
    return frame


@pytest.fixture(scope="module")
def findings():
    rows = build_rows()
    jobs = rows[["exp", "model", "protocol", "config"]].drop_duplicates().assign(status="finished", run="r")
    jobs = jobs.assign(reason="", dataset="demo", debias="none", seed=0, paper="iEAT")
    models = pd.DataFrame({"model": ["toy_s", "toy_m"], "pretraining": "captions"})
    return factory.build(eat=rows, jobs=jobs, models=models, status="FINISHED", missing=[])


def test_the_page_shows_each_test_of_the_first_specification(findings, html, page_path):
    rows = findings.of("eat")
    first = rows[rows["protocol"] == "paper"]
    cells = [(row, cell) for row, cell, _ in html.cells if row and "data-test" in row]
    assert len({id(row) for row, _ in cells}) == len(first)
    expected = first[first["model"] == "toy_s"].set_index(["test", "order"])
    values = {
        (row["data-test"], row["data-order"], cell["data-column"]): cell["data-value"]
        for row, cell in cells[::-1]
        if cell.get("data-value")
    }
    for test in TESTS:
        assert float(values[test, "image_text", "d"]) == expected.loc[(test, "image_text"), "d"]
    assert "built-in" not in page_path.read_text("utf-8")
    assert "other specifications are in tables/association-tests.csv (1)" in html.text
    assert "the 95% interval of d excludes 0 in" in html.text
    check_page(page_path, html)
    check_rows(findings, page_path, "eat", "association-tests")


def test_the_figure_has_a_point_per_test_order_and_model(findings):
    rows = findings.of("eat").query("protocol == 'paper'")
    drawing = figures.draw_tests(rows, title="t", models=["toy_s", "toy_m"])
    numbers = [text for text in texts(drawing.figure) if text.lstrip("−").replace(".", "").isdigit()]
    written = [figures.format_digits(d) for d in rows["d"]]
    assert all(numbers.count(text) >= written.count(text) for text in written)
    assert all(label in drawing.alt_text for label in figures.ORDER_LABELS.values())
    assert "flower, insect: images to images, toy_s" in drawing.alt_text


def test_of_many_tests_the_largest_are_drawn():
    rows = build_rows(tests=[f"t{number}" for number in range(40)], models=["m"], protocols=["paper"])
    drawing = figures.draw_tests(rows, title="t", models=["m"])
    assert "the 15 of 40 tests with the largest |d|" in drawing.caption
    sizes = rows.assign(d=rows["d"].abs()).groupby("test")["d"].mean().nlargest(15)
    assert {
        block.split(":")[0]
        for block in drawing.alt_text.removeprefix(f"Forest plot of d. {drawing.title}. ").split("; ")
    } == {*sizes.index}


def test_sentences_give_d_interval_n_and_null():
    rows = build_rows(models=["m"], protocols=["paper"]).assign(d=0.1)
    rows.loc[1, ["d", "d_low", "d_high"]] = -1.3, -1.8, -0.8
    rows.loc[rows.index != 1, ["d_low", "d_high"]] = [-0.4, 0.6]
    rows.loc[2, ["d_low", "d_high"]] = np.nan
    assert section.draw_conclusions(rows) == [
        "The largest |d| of 8 association tests of eat_ieat: d = −1.30 [−1.80, −0.80] (n = 6 + 7 targets; "
        "random partitions: −1.10 to 1.10), x against y, a against b, images to texts, m.",
        "eat_ieat: the 95% interval of d excludes 0 in 1 of 7 tests with an interval (by chance about 0.4).",
    ]
    assert section.draw_conclusions(rows.loc[[2]]) == [
        f"The only association test of eat_ieat: d = 0.10 ({REFUSED}) (n = 6 + 7 targets), x against y, "
        "a against b, texts to images, m."
    ]
    assert section.draw_conclusions(rows.assign(d=np.nan)) == [
        "eat_ieat: d is undefined in all 8 association tests."
    ]
    assert section.draw_conclusions(rows.iloc[:0]) == []


def test_metrics_and_terminal():
    rows = build_rows(models=["m"], protocols=["paper"])
    values = STUDY.metrics(AnalysisTables(rows, {}))
    assert values["d.flower, insect, image_text"] == rows["d"][1]
    assert values["mean_abs_d.text_text"] == pytest.approx(rows["d"][[3, 7]].abs().mean())
    assert values["share_excluding_zero.text_image"] in (0, 1)
    (table,) = build_terminal_tables(rows, "demo")
    assert len(frame_of(table)) == 8
    (table,) = build_terminal_tables(
        build_rows(tests=[f"t{number}" for number in range(13)], models=["m"]), "demo"
    )
    frame = frame_of(table)
    assert len(frame) == 8  # orders x specifications
    assert frame.iloc[0, 0] == "eat_ieat, image_image: mean of 13 tests"


def test_a_single_model_without_intervals_has_a_page(tmp_path):
    rows = build_rows(models=["m"], protocols=["paper"]).assign(d_low=np.nan, d_high=np.nan, null_low=np.nan)
    single = factory.build(eat=rows.assign(null_high=np.nan, p=np.nan), status="FINISHED", missing=[])
    html = ParsedPage(page.write(single, tmp_path).read_text("utf-8"))
    assert "No interval with fewer than five clusters" in html.text
    assert "excludes 0" not in html.text
