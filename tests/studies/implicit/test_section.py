"""Check figures of audits, their alt texts, and the page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from src.report import page
from src.report.folder import ReportFolder
from src.studies.implicit import figures, section
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, check_rows, texts
from tests.studies.implicit import audit_jobs

GROUPS = ["Black Women", "White Men", factory.HOSTILE]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    path = tmp_path_factory.mktemp("jobs")
    models = "toy_s", factory.HOSTILE
    return audit_jobs.sweep(path, models=models, groups=GROUPS, debias=("none", "orth_proj"))


def audit_rows(findings, exp="cles_competence"):
    rows = findings.of("implicit")
    rows = rows[(rows["model"] == "toy_s") & (rows["exp"] == exp) & (rows["debias"] == "none")]
    return rows, rows["config"].iloc[0]


def test_the_heatmap_writes_each_mean_cosine_into_its_cell(findings):
    _, config = audit_rows(findings, "cles_emotions")
    similarities = findings.read(config, "similarities")
    figure, alt = figures.draw_heatmap(similarities, title="t")
    for (name, word, group), cosines in similarities.groupby(["set", "word", "group"])["cosine"]:
        mean = sum(cosines) / len(cosines)
        panel = next(axes for axes in figure.get_axes() if axes.get_title() == name.replace("_", " "))
        words = [label.get_text() for label in panel.get_xticklabels()]
        position = words.index(word), sorted(GROUPS).index(group)
        cell_text = next(text.get_text() for text in panel.texts if text.get_position() == position)
        assert cell_text == f"{mean:.3f}".replace("0.", ".", 1)
    # Words are in the order of their set.
    assert words == audit_jobs.SETS["cles_emotions"][name]
    mean_cosines = similarities.groupby(["word", "group"])["cosine"].mean()
    note = f"colours span {mean_cosines.min():.3f} to {mean_cosines.max():.3f}, not 0 to 1"
    assert any(note in text for text in texts(figure))
    assert "(12 of each)" in alt


def test_a_pair_is_plotted_against_the_quantiles_of_its_null(findings):
    rows, config = audit_rows(findings)
    draws = findings.read(config, "draws")
    result = figures._add_bands(draws, rows, "cles_gap")
    for row in result.to_dict("records"):
        pair_draws = draws[(draws["group_a"] == row["group_a"]) & (draws["group_b"] == row["group_b"])]
        null = pair_draws.loc[pair_draws["kind"] == "null", "cles_gap"]
        boot = pair_draws.loc[pair_draws["kind"] == "bootstrap", "cles_gap"]
        quantiles = [*np.quantile(null, [0.05, 0.5, 0.95])]
        assert [row["null_low"], row["null_median"], row["null_high"]] == quantiles
        assert [row["low"], row["high"]] == list(np.quantile(boot, [0.025, 0.975]))
    figure, alt = figures.plot_against_null(draws, rows, title="t")
    labels = [text for text in texts(figure) if text.startswith("0.") and len(text) == 5]
    assert labels == [f"{gap:.3f}" for gap in sorted(rows["cles_gap"], reverse=True)]
    order = rows.sort_values("cles_gap", ascending=False)
    positions = [alt.index(f"{a} – {b} ") for a, b in zip(order["group_a"], order["group_b"], strict=True)]
    assert positions == sorted(positions)


def test_the_table_is_of_means_over_pairs(findings):
    rows, config = audit_rows(findings)
    (row,) = section.average_pairs(findings, rows).to_dict("records")
    assert row["mean"] == pytest.approx(np.mean(rows["cles_gap"]))
    assert (row["pairs"], row["compared"], row["n_low"], row["n_high"]) == (3, 3, 12, 12)
    assert row["above"] == sum(
        gap > high for gap, high in zip(rows["cles_gap"], rows["null_q95"], strict=True)
    )
    assert row["null_mean"] == pytest.approx(np.mean(rows["null_mean"]))
    draws = findings.read(config, "draws")
    boot = draws[draws["kind"] == "bootstrap"]
    # By hand: the mean over the pairs in each draw, then percentiles of these means.
    averaged = [boot.loc[boot["draw"] == draw, "cles_gap"].mean() for draw in range(audit_jobs.DRAWS)]
    assert [row["low"], row["high"]] == pytest.approx(list(np.quantile(averaged, [0.025, 0.975])))
    rows, _ = audit_rows(findings, "iat_semantic")
    (row,) = section.average_pairs(findings, rows).to_dict("records")
    assert row["measure"] == "iat"
    assert row["mean"] == pytest.approx(rows["iat"].mean())


def test_the_page_shows_the_table_without_debiasing_and_does_not_mention_rho(findings, html, page_path):
    undebiased = findings.of("implicit")[findings.of("implicit")["debias"] == "none"]
    expected = section.average_pairs(findings, undebiased).set_index(["config", "attribute"])
    cells = [(row, cell) for row, cell, _ in html.cells if row and "data-audit" in row]
    assert {(row["data-audit"], row["data-attribute"]) for row, _ in cells} == set(expected.index)
    for row, cell in cells:
        if cell["data-value"]:
            number = expected.loc[(row["data-audit"], row["data-attribute"]), cell["data-column"]]
            assert float(cell["data-value"]) == number
    assert "protocol paper, seed 0; other specifications are in tables/audits.csv (1)" in html.text
    assert "Groups that look different are never exchangeable" in html.text
    # This report has no such file.
    assert "tables/analyses.csv" not in html.text
    assert "Unrounded: the files in tables/, listed below." in html.text
    assert "No job of this sweep has a result" not in html.text
    assert "mean ρ" not in html.text
    assert "2 models, 4 experiments, 36 analyses" in html.text
    files = {attributes.get("href") for _, attributes in html.tags}
    assert {"tables/audits.csv", "tables/audits-means.csv", "tables/ranking-models.csv"} <= files
    check_page(page_path, html)
    check_rows(findings, page_path, "implicit", "audits")


def test_models_are_ranked_where_two_have_every_measure(findings, html, tmp_path):
    assert "Models ranked" in html.text
    assert "the dataset's captions" in html.text
    for query in ("model == 'toy_s'", "exp != 'iat_semantic'"):
        (report_folder := tmp_path / query).mkdir()
        subset = findings.with_frame("implicit", findings.of("implicit").query(query))
        assert section.build_ranking_context(subset, ReportFolder(report_folder), min_models=2) is None


def test_audits_without_draws_or_similarities_have_a_page(findings, tmp_path):
    without_tables = replace(findings, folders={})
    result = ParsedPage(page.write(without_tables, tmp_path).read_text(encoding="utf-8"))
    assert "Pairs of groups" in result.text
    assert "95% interval" not in (tmp_path / "figures" / "null-1-1.svg").read_text(encoding="utf-8")
    assert not {path.name for path in (tmp_path / "figures").iterdir() if path.name.startswith("cosines")}


@pytest.mark.parametrize(("count", "numbered"), [(1, True), (20, True), (21, False)])
def test_bubbles_are_numbered_while_there_is_room(count, numbered):
    rng = np.random.default_rng(0)
    models = pd.DataFrame(rng.uniform(0, 0.3, (count + 1, 3)), columns=["competence", "emotions", "iat"])
    models = models.assign(
        model=[f"m{i}" for i in range(count + 1)], pretraining=[f"p{i % 30}" for i in range(count + 1)]
    )
    models.loc[count, "iat"] = np.nan
    drawing = figures.draw_bubbles(models)
    labels = texts(drawing.figure)
    assert (f"{count} m" in " ".join(labels)) == numbered
    assert f"1 of {count + 1} models lack a measure" in drawing.caption
    assert f"m{count} (" not in drawing.alt_text
    # The area is the measure.
    axes = drawing.figure.get_axes()[0]
    circles = [line for line in axes.lines if line.get_alpha() == 0.25]
    areas = {line.get_xdata()[0]: line.get_markersize() ** 2 for line in circles}
    drawn = np.array([areas[x] for x in models["competence"][:-1]])
    np.testing.assert_allclose(drawn / max(drawn), models["iat"][:-1] / models["iat"].max())
