"""Check sentence, figure and table of the dose–response against chosen remaining shares."""

import numpy as np
import pandas as pd
import pytest

from src.report import page
from src.studies.propagation import dose_response
from src.studies.propagation.intervention import SUMMARY_COLUMNS
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, pictures, texts

MODELS = ("toy_s", factory.HOSTILE)
FEW = {exp: factory.PAPER[exp] for exp in ("faces_to_words", "scenes_to_labels")}
DRAWS = {"level": 39, "placebo": 39, "property": 20, "attributes": 5}
LEFT = {"faces_to_words": 0.2, "scenes_to_labels": 0.4}


def rows_of(left, controls=60):
    doses = [("measured", 0, alpha, 1 - alpha, 1 - alpha * (1 - left)) for alpha in (0, 0.25, 0.5, 0.75, 1)]
    random = [("random", draw, 1.0, 1.0, 0.9 + 0.002 * draw) for draw in range(controls)]
    columns = ["kind", "draw", "alpha", "measured", "level"]
    return pd.DataFrame([*doses, *random, ("leace", 0, 1.0, 0.0, 0.01)], columns=columns)


def summary_of(left, **values):
    row = dict.fromkeys(SUMMARY_COLUMNS, np.nan) | {"left": left, "n": 120, "controls": 60, "reason": ""}
    row |= {"left_random_median": 0.96, "left_p": 1 / 61, "left_leace": 0.01}
    return pd.DataFrame([row | values])


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Draw findings with two specifications.

    In the first, two jobs have an intervention, one is refused and one has none. Those of the second have
    shares of 9, which must not be read.
    """
    folder = tmp_path_factory.mktemp("jobs")
    options = {"models": MODELS, "experiments": FEW, "draws": DRAWS, "size": 20}
    drawn = factory.draw(folder, **options, groups=["Men", "Women"], protocols=("k_100", "paper"))
    jobs = drawn.of("propagation").drop_duplicates("config")
    for job in jobs.itertuples():
        left = 9.0 if job.protocol == "k_100" else LEFT[job.exp]
        tables = {"intervention": rows_of(left), "intervention_summary": summary_of(left)}
        if (job.model, job.exp) == ("toy_s", "scenes_to_labels"):
            continue
        if (job.model, job.exp) == (factory.HOSTILE, "faces_to_words") and job.protocol == "paper":
            refused = {"left_p": np.nan, "left_leace": np.nan, "reason": "nothing to remove: <b>"}
            tables["intervention_summary"] = summary_of(np.nan, **refused)
            tables["intervention"] = rows_of(left).iloc[:0]
        for name, table in tables.items():
            table.to_parquet(drawn.folders[job.config] / f"{name}.parquet", index=False)
    return drawn


def test_tables_are_of_the_first_specification_and_of_jobs_with_an_intervention(findings):
    summaries = dose_response.read_summaries(findings)
    assert summaries["left"].dropna().tolist() == [0.2, 0.4]
    assert len(summaries) == 3
    curves = dose_response.read_doses(findings)
    assert set(curves.loc[curves["kind"] == "measured", "level"]) == {
        *(1 - alpha * (1 - left) for alpha in (0, 0.25, 0.5, 0.75, 1) for left in LEFT.values())
    }


def test_the_sentence_has_median_range_and_counts(findings):
    (sentence,) = dose_response.state_conclusion(dose_response.read_summaries(findings))
    assert sentence == (
        "With the measured directions removed from the targets, 30% of the level remains (median of 2 jobs, "
        "20% to 40%); with random subspaces of equal variance removed instead, 96%; the former is smaller "
        "(p ≤ .05) in 2 of 2 jobs. The remaining share ranks experiments; it does not estimate other paths "
        "of the bias."
    )


def test_the_sentence_of_a_single_job_has_its_interval():
    row = summary_of(0.124, left_low=-0.01, left_high=0.3, left_random_median=np.nan, left_p=np.nan)
    (sentence,) = dose_response.state_conclusion(row.assign(exp="faces_to_words", model="m"))
    assert sentence.startswith(
        "With the measured directions removed from the targets, 12% [−1%, 30%] of the level remains in "
        "faces_to_words of m. The"
    )


def test_without_an_intervention_there_is_no_sentence_and_no_figure(tmp_path):
    options = {"models": ("toy_s",), "experiments": FEW, "draws": DRAWS, "size": 20}
    plain = factory.draw(tmp_path, **options, groups=["Men", "Women"], protocols=("paper",))
    assert [*dose_response.state_conclusion(dose_response.read_summaries(plain))] == []
    assert dose_response.plot_doses(dose_response.read_doses(plain), ["toy_s"]) is None
    refused = summary_of(np.nan, reason="nothing to remove").assign(exp="faces_to_words", model="toy_s")
    assert [*dose_response.state_conclusion(refused)] == []


def test_the_figure_has_a_panel_per_experiment_and_names_what_remains(findings):
    curves = dose_response.read_doses(findings)
    drawing = dose_response.plot_doses(curves, MODELS)
    panels = [axes for axes in drawing.figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["faces to words", "scenes to labels"]
    (line,) = [line for line in panels[0].lines if len(line.get_xdata()) == 5]
    assert line.get_xdata().tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert line.get_ydata()[-1] == pytest.approx(0.2)
    assert "faces_to_words: toy_s 0.20 (random 0.96)" in drawing.alt_text
    assert {"random", "LEACE"} <= set(texts(drawing.figure))


def test_the_page_has_the_section_only_if_a_job_intervened(findings, tmp_path):
    path = page.write(findings, tmp_path)
    html = ParsedPage(path.read_text("utf-8"))
    check_page(path, html)
    assert "intervention" in pictures(tmp_path)
    assert (
        "directions removed from the targets, 30% of the level remains"
        in html.text[: html.text.index("Main table")]
    )
    assert "nothing to remove: <b>" in html.text
    summaries = dose_response.read_summaries(findings)
    written = pd.read_csv(tmp_path / "tables" / "intervention.csv", dtype={"config": str})
    pd.testing.assert_frame_equal(written.fillna({"reason": ""}), summaries, check_dtype=False)
    doses = pd.read_csv(tmp_path / "tables" / "intervention-doses.csv")
    assert len(doses) == len(dose_response.read_doses(findings)) == 2 * 66
