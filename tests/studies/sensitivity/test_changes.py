"""Check changes by perturbations against brute force, and what is said of them."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report import findings as report_findings
from src.report.folder import ReportFolder
from src.storage import results
from src.studies.sensitivity import overview
from src.studies.sensitivity.changes import compute_changes
from src.studies.sensitivity.study import build_comparison, build_section
from src.studies.shared import jackknife_table, paired_changes
from src.studies.shared.jackknife_table import Block, build_jackknife_table
from src.studies.shared.paired_changes import CHANGES, EXCEEDS, UNCLEAR
from tests.report import factory

ITEMS = ("a", "b", "c")


def write_job(
    folder, perturb, scores, clusters, *, null=0.0, exp="exp", study="probe", units=None, **further
):
    """Write a job whose statistics are mean scores, one per column; return its analyses.csv and config.

    `further`: names of the job besides the usual ones, or in their place.
    """
    config = "-".join([study, exp, perturb, *further.values()])
    names = {"study": study, "exp": exp, "paper": "", "model": "m", "dataset": "d", "debias": "none"}
    names |= {"perturb": perturb, "protocol": "paper", "seed": 0, "config": config, **further}
    frame = pd.DataFrame({"id": units if units is not None else np.arange(len(scores)), "cluster": clusters})

    def compute(masks):
        return (masks @ scores) / masks.sum(axis=1, keepdims=True)

    statistics = [("mean", item, null) for item in ITEMS[: scores.shape[1]]]
    table = build_jackknife_table([Block(frame, statistics, compute)])
    results.write(folder / config, pd.DataFrame([names]), {jackknife_table.TABLE: table})
    return pd.DataFrame([names]), config, folder / config / results.FOLDER


def write_pair(folder, before, after, clusters, perturb="grey", **options):
    """Write a job without and one with a perturbation."""
    scores = (("none", before), (perturb, after))
    return [write_job(folder, name, values, clusters, **options) for name, values in scores]


def build(folder, *jobs, failed=()):
    rows = [job[0] for job in jobs]
    table = pd.DataFrame([{**row.iloc[0], "status": "finished", "reason": ""} for row in rows] + [*failed])
    built = factory.build(jobs=table, folders={job[1]: job[2] for job in jobs})
    return replace(built, frames={"probe": pd.concat(rows, ignore_index=True)})


@pytest.fixture
def scored():
    """Return scores of 60 faces of 20 persons before and after, and the persons."""
    rng = np.random.default_rng(1)
    persons = np.repeat(np.arange(20), 3)
    person_effects = rng.normal(0, 0.3, (20, 3))[persons]
    before = person_effects + rng.normal([0.5, -0.4, 0.02], 0.3, (60, 3))
    after = before * [0.4, 1.0, 1.0] + rng.normal([0, 0.05, 0.4], 0.1, (60, 3))
    return before, after, [f"person{number:02d}" for number in persons]


def leave_out(values, persons):
    """Compute the jackknife variance of a mean by leaving out persons in a plain loop."""
    replicates = [
        np.mean([value for value, person in zip(values, persons, strict=True) if person != name])
        for name in sorted(set(persons))
    ]
    count = len(replicates)
    return (count - 1) / count * sum((each - np.mean(replicates)) ** 2 for each in replicates), count - 1


def test_changes_and_intervals_are_those_of_a_loop_over_persons(tmp_path, scored):
    before, after, persons = scored
    jobs = write_pair(tmp_path, before, after, persons)
    table, summary = compute_changes(build(tmp_path, *jobs))
    assert table["perturb"].tolist() == ["grey"] * 3
    for index, row in enumerate(table.to_dict("records")):
        b, a = before[:, index], after[:, index]
        variance, df = leave_out(a - b, persons)
        low, high = stats.t.interval(0.95, df, loc=(a - b).mean(), scale=math.sqrt(variance))
        assert [row[name] for name in ("before", "after", "change")] == pytest.approx(
            [b.mean(), a.mean(), (a - b).mean()]
        )
        assert [row["change_low"], row["change_high"], row["df"]] == pytest.approx([low, high, df])
        assert row["p"] == pytest.approx(2 * stats.t.sf(abs((a - b).mean()) / math.sqrt(variance), df))
        variance_before, _ = leave_out(b, persons)
        assert row["half_width"] == pytest.approx(stats.t.ppf(0.975, df) * math.sqrt(variance_before))
        excess = np.sign((a - b).mean()) * (a - b) - np.sign(b.mean()) * b
        excess_variance, _ = leave_out(excess, persons)
        assert row["excess"] == pytest.approx(abs((a - b).mean()) - abs(b.mean()))
        assert row["excess_low"] == pytest.approx(
            excess.mean() - stats.t.ppf(0.975, df) * math.sqrt(excess_variance)
        )
    assert table["verdict"].tolist() == [CHANGES, CHANGES, EXCEEDS]
    (row,) = summary.to_dict("records")
    signs = np.sign(before.mean(axis=0))
    assert row["relative"] == pytest.approx(
        (after.mean(axis=0) @ signs) / np.abs(before.mean(axis=0)).sum() - 1
    )
    assert row["relative_low"] < row["relative"] < row["relative_high"]
    assert (row["items"], row["intervals"], row["excluding_zero"], row["exceeding"]) == (3, 3, 3, 1)


def test_nothing_changes_if_the_pictures_do_not(tmp_path, scored):
    before, _, persons = scored
    jobs = [write_job(tmp_path, name, before, persons) for name in ("none", "flip")]
    table, summary = compute_changes(build(tmp_path, *jobs))
    assert (table["change"] == 0).all()
    assert (table[["change_low", "change_high"]] == 0).all(axis=None)
    assert (table["p"] == 1).all()
    assert table["verdict"].tolist() == [UNCLEAR] * 3
    assert summary[["relative", "relative_low", "relative_high"]].iloc[0].tolist() == pytest.approx([0, 0, 0])


def test_a_measure_that_vanishes_or_is_small_does_not_move_more_than_it_measures(tmp_path, scored):
    before, _, persons = scored
    jobs = write_pair(tmp_path, before, 0 * before, persons, "jpeg")
    table, _ = compute_changes(build(tmp_path, *jobs))
    assert table["excess"].tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    assert EXCEEDS not in {*table["verdict"]}


def test_the_size_of_a_measure_is_its_distance_from_its_value_without_bias(tmp_path, scored):
    before, after, persons = scored
    jobs = write_pair(tmp_path, before + 0.5, after + 0.5, persons, null=0.5)
    shifted, _ = compute_changes(build(tmp_path, *jobs))
    jobs = write_pair(tmp_path / "x", before, after, persons)
    table, _ = compute_changes(build(tmp_path, *jobs))
    columns = ["change", "change_low", "excess", "excess_low", "excess_high"]
    assert np.allclose(shifted[columns], table[columns])


def test_jobs_that_cannot_be_compared_are_listed_with_the_reason(tmp_path, scored):
    before, after, persons = scored
    none = write_job(tmp_path, "none", before, persons)
    other = write_job(tmp_path, "grey", after, persons, units=np.arange(60) + 1)
    old = write_job(tmp_path, "flip", after, persons)
    (old[2] / f"{jackknife_table.TABLE}.parquet").unlink()
    failed = {**none[0].iloc[0], "perturb": "jpeg", "status": "failed", "reason": "disk full"}
    table, summary = compute_changes(build(tmp_path, none, other, old, failed=[failed]))
    assert dict(zip(table["perturb"], table["reason"], strict=True)) == {
        "grey": paired_changes.OTHER_UNITS,
        "flip": paired_changes.NO_TABLE,
        "jpeg": "no results with perturb=jpeg (failed: disk full)",
    }
    assert summary.empty


def test_few_persons_give_no_interval_and_no_statement(tmp_path, scored):
    before, after, _ = scored
    persons = np.repeat([*"abcd"], 15)
    jobs = write_pair(tmp_path, before, after, persons)
    table, summary = compute_changes(build(tmp_path, *jobs))
    assert table["change"].notna().all()
    assert table[["change_low", "p", "half_width", "excess_low"]].isna().all(axis=None)
    assert {*table["verdict"]} == {""}
    assert {*table["reason"]} == {"no interval: fewer than 5 clusters"}
    assert summary["reason"].tolist() == ["no relative change: fewer than 5 clusters"]


def test_a_statement_is_rarely_made_of_a_change_as_large_as_the_measure():
    """Draw worlds in which the change is exactly as large as the measure, or both are 0."""
    rng, df, worlds = np.random.default_rng(0), 39, 4000
    for size in (0.0, 0.1, 1.0):
        before = rng.normal(size, 1, (worlds, 40))
        after = before + rng.normal(size, 0.7, (worlds, 40))
        values = np.stack([before.mean(axis=1), after.mean(axis=1)])
        signs = np.sign(values[1] - values[0])[:, None], np.sign(values[0])[:, None]
        excess = signs[0] * (after - before) - signs[1] * before
        error = excess.std(axis=1, ddof=1) / math.sqrt(40)
        is_stated = excess.mean(axis=1) - stats.t.ppf(0.975, df) * error > 0
        assert is_stated.mean() <= 0.035


def test_sentences_name_perturbation_median_and_range(tmp_path, scored):
    before, after, persons = scored
    jobs = write_pair(tmp_path, before, after, persons)
    _, summary = compute_changes(build(tmp_path, *jobs))
    (sentence,) = overview.draw_conclusions(summary)
    relative = overview.format_share(summary["relative"].iloc[0])
    assert sentence == (
        f"With perturb=grey, what is measured changes by {relative}; 1 of 3 measures move more than they "
        "measure."
    )
    selected, name, n_others = overview.select_first_specification(summary)
    assert (len(selected), name, n_others) == (1, "protocol paper, seed 0", 0)
    assert report_findings.SPECIFICATION[-1] == "perturb"


def build_context(folder, findings):
    (folder / "report").mkdir()
    return build_section(findings, ReportFolder(folder / "report")).context["sensitivity"]


def test_measures_that_exceed_are_those_of_the_first_specification(tmp_path, scored):
    before, after, persons = scored
    jobs = write_pair(tmp_path, before, 0.5 * before, persons)
    other_jobs = write_pair(tmp_path, before, after, persons, protocol="k_100")
    context = build_context(tmp_path, build(tmp_path, *jobs, *other_jobs))
    assert (context["specification"], context["n_others"]) == ("protocol paper, seed 0", 1)
    assert context["exceeding"] == {}


def test_lists_of_words_are_compared_and_named_apart(tmp_path, scored):
    before, after, persons = scored
    names = ["sobit", "mine"]
    jobs = [job for name in names for job in write_pair(tmp_path, before, after, persons, taxonomy=name)]
    findings = build(tmp_path, *jobs)
    main_measures = overview.select_main_measures(compute_changes(findings)[1])
    assert main_measures["taxonomy"].tolist() == names
    rows = build_context(tmp_path, findings)["summary"]["grey"]
    assert [row["exp"] for row in rows] == ["exp, sobit", "exp, mine"]


def test_the_terminal_has_a_row_per_perturbation_and_nothing_without_any(tmp_path, scored):
    before, after, persons = scored
    findings = build(tmp_path, *write_pair(tmp_path, before, after, persons))
    (table,) = build_comparison(findings)
    assert [column.header for column in table.columns] == ["perturb", "all"]
    relative = overview.format_share(compute_changes(findings)[1]["relative"].iloc[0])
    (cell,) = table.columns[1].cells
    assert str(cell) == f"{relative} ({relative} to {relative}); 1 of 1; 1 of 3"
    plain = build(tmp_path, write_job(tmp_path / "plain", "none", before, persons))
    assert build_comparison(plain) == []
    assert build_section(plain, None) is None
