"""Check changes with debiasing against naive recomputation from the tables of the jobs."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from src.report.folder import Folder
from src.studies.debiasing.changes import COLUMNS, changes
from src.studies.debiasing.estimates import ALL, estimates, first_specification
from src.studies.debiasing.study import section
from src.studies.shared.resampling import weights
from tests.report.conftest import check_page
from tests.studies.debiasing import debiased

SPREADS = {"spread_intrinsic": "intrinsic", "spread_outcome": "extrinsic"}
GROUPED = ("faces_to_words", "labels_to_scenes", "words_to_faces")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return debiased.sweep(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def reported(findings):
    return changes(findings)[COLUMNS]


@pytest.fixture(scope="module")
def result(findings):
    return estimates(first_specification(changes(findings)))


def _read(findings, config, name, kind=None):
    frame = pd.read_parquet(findings.folders[config] / f"{name}.parquet")
    return frame if kind is None else frame[frame["kind"] == kind].sort_values("draw")


def test_each_job_meets_its_counterpart_once(reported):
    assert not reported["reason"].any()
    # 4 experiments' rho, 3 with groups' two spreads, 5 attributes' CLES, one IAT, the accuracy.
    counts = reported.groupby(["model", "debias"])["measure"].value_counts().unstack()
    assert (counts == [1, 5, 1, 4, 3, 3]).all(axis=None), counts
    assert not reported.duplicated(["model", "debias", "measure", "exp", "attribute"]).any()
    semantic = reported[reported["attribute"] == "semantic"]
    assert {*zip(semantic["measure"], semantic["exp"], strict=True)} == {
        ("iat", "iat_semantic"), ("cles_gap", "cles_semantic")
    }  # fmt: skip


def test_spreads_and_their_intervals_are_those_of_resampled_targets(findings, reported):
    rows = reported[reported["measure"].isin(SPREADS)]
    assert set(rows["exp"]) == set(GROUPED)
    for row in rows.to_dict("records"):
        jobs = findings.of("propagation").set_index(["model", "exp", "debias"])["config"]
        configs = [jobs[row["model"], row["exp"], method].iloc[0] for method in ("none", row["debias"])]
        assert configs == [row["config_before"], row["config_after"]]
        spreads, drawn, alike = [], [], []
        for config in configs:
            targets = _read(findings, config, "targets")
            score, means, samples = SPREADS[row["measure"]], [], []
            for _, subset in targets.groupby("stratum"):
                members = pd.DataFrame({"name": subset["id"]})
                if row["exp"].startswith("labels"):
                    words = subset["id"].str.rsplit(" ", n=1)
                    members = members.assign(race_word=words.str[0], gender_word=words.str[1])
                times = weights(members, debiased.DRAWS["bootstrap"], 0)
                values = subset[score].to_numpy()
                means.append(values.mean())
                samples.append([np.repeat(values, item).mean() for item in times])
            spreads.append(np.sqrt(np.mean((np.array(means) - np.mean(means)) ** 2)))
            drawn.append(np.std(samples, axis=0))
            by_chance = np.array(samples) - np.mean(samples, axis=1)[:, None]
            alike.append(np.sqrt(np.mean(np.var(by_chance, axis=0))))
        low, high = np.percentile(drawn[1] - drawn[0], [2.5, 97.5])
        ratio = np.percentile(drawn[1] / drawn[0], [2.5, 97.5])
        expected = [*spreads, spreads[1] - spreads[0], low, high, spreads[1] / spreads[0], *ratio, *alike]
        names = ["before", "after", "difference", "ci_low", "ci_high", "ratio", "ratio_low", "ratio_high"]
        names += ["chance_before", "chance_after"]
        assert [row[name] for name in names] == pytest.approx(expected, rel=1e-9)
        assert (row["n"], row["over"]) == (targets["id"].nunique(), 3)


def test_changes_of_rho_are_those_of_paired_draws(findings, reported):
    for row in reported[reported["measure"] == "rho"].to_dict("records"):
        subset = findings.of("propagation").set_index("config")
        rho, drawn, placebo, observed = [], [], [], []
        for config in (row["config_before"], row["config_after"]):
            rho.append(subset.loc[[config], "rho"].mean())
            observed.append(subset.loc[[config], "rho_placebo_units"].mean())
            for kind, into in (("bootstrap", drawn), ("placebo", placebo)):
                frame = _read(findings, config, "draws", kind)
                into.append(frame.groupby("draw")["rho"].mean().to_numpy())
        reached = np.abs(placebo[1] - placebo[0]) >= abs(observed[1] - observed[0]) - 1e-12
        expected = [*rho, rho[1] - rho[0], *np.percentile(drawn[1] - drawn[0], [2.5, 97.5])]
        names = ["before", "after", "difference", "ci_low", "ci_high", "p_placebo"]
        assert [row[name] for name in names] == pytest.approx([*expected, (1 + reached.sum()) / 100])
        assert row["over"] == len(subset.loc[[row["config_before"]]])


@pytest.mark.parametrize("measure", ["cles_gap", "iat"])
def test_audits_differ_by_the_mean_over_pairs_of_groups(findings, reported, measure):
    for row in reported[reported["measure"] == measure].to_dict("records"):
        values, drawn = [], []
        for config in (row["config_before"], row["config_after"]):
            audits = findings.of("implicit")
            subset = audits[(audits["config"] == config) & (audits["attribute"] == row["attribute"])]
            assert len(subset) == len([*combinations(debiased.GROUPS, 2)])
            values.append(subset[measure].mean())
            frame = _read(findings, config, "draws", "bootstrap")
            frame = frame[frame["attribute"] == row["attribute"]]
            drawn.append(frame.assign(size=frame[measure].abs()).groupby("draw")["size"].mean().to_numpy())
        expected = [*values, values[1] - values[0], *np.percentile(drawn[1] - drawn[0], [2.5, 97.5])]
        names = ["before", "after", "difference", "ci_low", "ci_high"]
        assert [row[name] for name in names] == pytest.approx(expected)
        assert (row["n"], row["over"]) == (3 * debiased.FACES, 3)
        # The null is of the measure that the experiment is for.
        assert row["chance_after"] == (2.0 if measure == "iat" else 0.02)


def test_estimates_count_every_comparison_alike(reported, result):
    for item in result.itertuples():
        rows = reported[(reported["measure"] == item.measure) & (reported["debias"] == item.debias)]
        rows = rows if item.model == ALL else rows[rows["model"] == item.model]
        if item.measure in SPREADS:
            expected = np.prod(rows["ratio"]) ** (1 / len(rows)) - 1
        else:
            # Emotions count once, as the mean of both sets.
            complete = ~rows["attribute"].isin(["emotions_positive", "emotions_negative"])
            expected = rows.loc[complete, "difference"].mean()
        assert item.value == pytest.approx(expected)
        assert item.models == (2 if item.model == ALL else 1)
        assert item.ci_low <= item.value <= item.ci_high
    assert {*result["model"]} == {ALL, "toy_s", "toy_m"}


def test_planted_changes_are_recovered(result):
    """Check that orth_proj removes four fifths of the intrinsic spread and nothing of the retrieved one."""
    subset = {(item.model, item.debias, item.measure): item for item in result.itertuples()}
    intrinsic, outcome = (subset[ALL, "orth_proj", measure] for measure in SPREADS)
    assert intrinsic.value == pytest.approx(-0.8, abs=0.04)
    assert intrinsic.ci_high < -0.7
    assert outcome.value == pytest.approx(0, abs=0.03)
    assert outcome.ci_low < 0 < outcome.ci_high
    both = [subset[ALL, "orth_proj_scm", measure] for measure in SPREADS]
    assert [item.value for item in both] == pytest.approx([-0.5, -0.4], abs=0.03)
    assert (intrinsic.lower, intrinsic.models) == (2, 2)
    accuracy = subset[ALL, "orth_proj", "accuracy"]
    assert [accuracy.before, accuracy.after, accuracy.chance] == pytest.approx([0.5, 0.45, 0.2])


def test_equal_groups_are_distinguished_from_different_groups(tmp_path, monkeypatch):
    monkeypatch.setitem(debiased.PLANTED, "orth_proj", (0, 0, 1, 1))
    findings = debiased.sweep(tmp_path, experiments=GROUPED)
    rows = changes(findings)
    equal = rows[(rows["debias"] == "orth_proj") & rows["measure"].isin(SPREADS)]
    # No spread is zero, but it is what chance gives.
    assert (equal["after"] > 0).all()
    assert equal["after"].mean() == pytest.approx(equal["chance_after"].mean(), rel=0.5)
    assert (equal["before"] > 3 * equal["chance_before"]).all()
    result = estimates(rows).set_index(["model", "debias", "measure"])
    assert (result.loc[ALL, "orth_proj"].loc[[*SPREADS], "at_chance"] > 0).all()
    assert (result.loc[ALL, "orth_proj_scm"].loc[[*SPREADS], "at_chance"] == 0).all()


def test_nothing_is_dropped_silently(tmp_path):
    missing = [("toy_s", "orth_proj", "faces_to_words"), ("toy_m", "none", "cles_competence")]
    missing += [(model, "orth_proj_scm", exp) for model in ("toy_s", "toy_m") for exp in debiased.EXPERIMENTS]
    findings = debiased.sweep(tmp_path / "jobs", without=missing)
    rows = changes(findings)
    lost = rows[rows["reason"] != ""].set_index(["model", "debias", "exp"])
    without = "no results with debias=none (failed: disk full)"
    method = "no results with debias={} (failed: disk full)"
    assert lost.loc[("toy_s", "orth_proj", "faces_to_words"), "reason"] == method.format("orth_proj")
    assert lost.loc[("toy_m", "orth_proj", "cles_competence"), "reason"] == without
    both = f"{without}; {method.format('orth_proj_scm')}"
    assert lost.loc[("toy_m", "orth_proj_scm", "cles_competence"), "reason"] == both
    assert len(lost) == 20
    assert lost["difference"].isna().all()
    given, _ = _section(findings, tmp_path)
    assert "orth_proj_scm" not in str(given["estimates"])
    assert [row["reason"] for row in given["lacking"]] == [*lost["reason"]]


def test_without_a_bootstrap_there_are_points_and_no_intervals(tmp_path):
    findings = debiased.sweep(tmp_path / "jobs", draws={})
    given, reported = _section(findings, tmp_path)
    assert set(reported["reason"]) == {"no interval: no bootstrap"}
    assert reported[["before", "after", "difference"]].notna().all(axis=None)
    assert reported[["ci_low", "ci_high", "p_placebo", "ratio_low"]].isna().all(axis=None)
    assert {row["interval"] for rows in given["estimates"].values() for row in rows} == {"–"}


def test_undefined_values_are_left_out_and_counted(tmp_path):
    findings = debiased.sweep(tmp_path, models=("toy_s",))
    analyses = findings.of("propagation").copy()
    subset = (analyses["exp"] == "faces_to_words") & (analyses["debias"] == "orth_proj")
    analyses.loc[subset & (analyses["stratum"] == "Black Men"), "rho"] = np.nan
    config = analyses.loc[subset, "config"].iloc[0]
    targets = _read(findings, config, "targets")
    targets.loc[[0, 5], "intrinsic"] = np.nan
    targets.to_parquet(findings.folders[config] / "targets.parquet")
    rows = changes(findings.with_frame("propagation", analyses))
    rows = rows[(rows["exp"] == "faces_to_words") & (rows["debias"] == "orth_proj")].set_index("measure")
    assert rows.loc["rho", "reason"] == "2 of 3 analyses have a ρ in both jobs"
    left = analyses[analyses["config"].eq(config) & analyses["rho"].notna()]
    assert rows.loc["rho", "after"] == pytest.approx(left["rho"].mean())
    assert rows.loc["rho", "ci_low"] < rows.loc["rho", "difference"] < rows.loc["rho", "ci_high"]
    for measure, score in SPREADS.items():
        assert rows.loc[measure, "reason"] == "118 of 120 targets have both scores before and after"
        complete = _read(findings, rows.loc[measure, "config_before"], "targets").drop(index=[0, 5])
        # Both jobs over the same targets.
        assert rows.loc[measure, "before"] == pytest.approx(
            complete.groupby("stratum")[score].mean().std(ddof=0)
        )


def test_other_targets_faces_or_scenes_are_not_paired(tmp_path):
    experiments = ["faces_to_words", "cles_competence", "scenes_zero_shot"]
    findings = debiased.sweep(
        tmp_path, models=("toy_s",), methods=("none", "orth_proj"), experiments=experiments
    )
    for exp, name in zip(experiments, ("targets", "attributes", "targets"), strict=True):
        job = findings.jobs[(findings.jobs["exp"] == exp) & (findings.jobs["debias"] == "orth_proj")]
        config = job["config"].iloc[0]
        frame = _read(findings, config, name)
        frame.loc[frame.index[0], "id"] = "another"
        frame.to_parquet(findings.folders[config] / f"{name}.parquet")
    rows = changes(findings).set_index("measure")
    assert rows.loc["rho", "reason"] == "no interval: the targets, or A and B, differ"
    assert rows.loc["cles_gap", "reason"] == "no interval: the faces differ"
    assert rows.loc["accuracy", "reason"] == "no interval: the scenes differ"
    assert rows.loc[["rho", "cles_gap", "accuracy"], ["ci_low", "p_placebo"]].isna().all(axis=None)
    assert rows["difference"].notna().all()
    # A spread is of the targets that both have, and resamples these.
    assert rows.loc["spread_intrinsic", "n"] == 119
    assert rows.loc["spread_intrinsic", "ci_high"] < 0


def test_a_single_group_has_no_spread(tmp_path):
    experiments = ["faces_to_words", "scenes_zero_shot"]
    rows = changes(debiased.sweep(tmp_path, models=("toy_s",), groups=["Black Men"], experiments=experiments))
    spread = rows[rows["measure"].isin(SPREADS)]
    assert set(spread["reason"]) == {"a spread needs targets of two groups or more"}
    assert spread["difference"].isna().all()
    comparisons = estimates(rows).set_index(["debias", "measure"])["comparisons"].loc["orth_proj"]
    assert (comparisons["spread_outcome"], comparisons["rho"]) == (0, 1)


def test_the_page_shows_the_numbers_of_the_table(findings, reported, result, read, written):
    check_page(written, read)
    table = _table(written.parent)
    # The page has the paper's experiments in its order.
    keys = ["model", "debias", "measure", "exp", "attribute"]
    both = [
        frame.fillna({"attribute": ""}).sort_values(keys, ignore_index=True) for frame in (table, reported)
    ]
    pd.testing.assert_frame_equal(*both, check_exact=True, check_dtype=False)
    met = [cell for _, cell, _ in read.cells if cell["data-column"] in ("difference", "ratio")]
    numbers = {float(cell["data-value"]) for cell in met if cell["data-value"]}
    assert {*reported["difference"], *reported["ratio"].dropna()} <= numbers
    displayed = {float(cell["data-value"]) for _, cell, _ in read.cells if cell["data-column"] == "value"}
    assert displayed == {*result["value"]}
    assert "#debiasing" in [attributes.get("href") for _, attributes in read.tags]


def _section(findings, folder):
    (folder / "report").mkdir()
    given = section(findings, Folder(folder / "report")).context["debiasing"]
    return given, _table(folder / "report")


def _table(folder):
    texts = {"config_before": str, "config_after": str}
    return pd.read_csv(folder / "tables" / "debiasing.csv", dtype=texts).fillna({"reason": ""})


def test_distinguishability_of_groups_is_not_a_spread_between_them(tmp_path):
    findings = debiased.sweep(tmp_path, models=("toy_s",))
    rows = findings.of("propagation")
    # A ρ over all targets is reported where a group has its strata.
    grouped = rows["exp"].eq("words_to_faces") & rows["group"].notna()
    other = changes(findings.with_frame("propagation", rows.assign(n_all=np.where(grouped, 40, np.nan))))
    every, fewer = estimates(changes(findings)), estimates(other)
    spread = every["measure"].isin(SPREADS)
    assert (every.loc[spread, "experiments"] == 3).all()
    assert (fewer.loc[spread, "experiments"] == 2).all()
    assert (every.loc[~spread, "experiments"] == fewer.loc[~spread, "experiments"]).all()
    assert "words_to_faces" in {*other.query("measure == 'spread_outcome'")["exp"]}
