"""Check changes by debiasing against naive recomputation from the tables of the jobs."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.report.folder import ReportFolder
from src.studies.debiasing.changes import COLUMNS, compute_changes
from src.studies.debiasing.conclusions import draw_conclusions
from src.studies.debiasing.estimates import ALL, estimate_changes, select_first_specification
from src.studies.debiasing.study import build_section
from tests import reference
from tests.report.conftest import check_page
from tests.studies.debiasing import debias_jobs

SPREADS = {"spread_intrinsic": "intrinsic", "spread_outcome": "extrinsic"}
GROUPED = ("faces_to_words", "labels_to_scenes", "words_to_faces")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return debias_jobs.sweep(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def change_rows(findings):
    return compute_changes(findings)[COLUMNS]


@pytest.fixture(scope="module")
def result(findings):
    return estimate_changes(select_first_specification(compute_changes(findings)))


def _read(findings, config, name, kind=None):
    frame = pd.read_parquet(findings.folders[config] / f"{name}.parquet")
    return frame if kind is None else frame[frame["kind"] == kind].sort_values("draw")


def test_each_job_is_paired_once_with_its_undebiased_job(change_rows):
    assert not change_rows["reason"].any()
    # ρ of 4 experiments, 2 spreads of the 3 with groups, CLES of 5 attributes, one IAT, one accuracy.
    counts = change_rows.groupby(["model", "debias"])["measure"].value_counts().unstack()
    assert (counts == [1, 5, 1, 4, 3, 3]).all(axis=None), counts
    assert not change_rows.duplicated(["model", "debias", "measure", "exp", "attribute"]).any()
    semantic = change_rows[change_rows["attribute"] == "semantic"]
    assert {*zip(semantic["measure"], semantic["exp"], strict=True)} == {
        ("iat", "iat_semantic"), ("cles_gap", "cles_semantic")
    }  # fmt: skip


def test_spreads_and_ratios_are_those_of_brute_force(findings, change_rows):
    rows = change_rows[change_rows["measure"].isin(SPREADS)]
    assert set(rows["exp"]) == set(GROUPED)
    for row in rows.to_dict("records"):
        jobs = findings.of("propagation").set_index(["model", "exp", "debias"])["config"]
        configs = [jobs[row["model"], row["exp"], method].iloc[0] for method in ("none", row["debias"])]
        assert configs == [row["config_before"], row["config_after"]]
        tables = [_read(findings, config, "targets") for config in configs]
        values, covariance, df = _reference_spreads(tables, SPREADS[row["measure"]])
        before, after = np.sqrt(values[1:])
        expected = [before, after, after - before, values[0] / values[1]]
        names = ["before", "after", "difference", "ratio"]
        assert [row[name] for name in names] == pytest.approx(expected, rel=1e-9)
        for r in (row["ratio_low"], row["ratio_high"]):
            error = np.sqrt([1, -r] @ covariance @ [1, -r])
            assert abs(values[0] - r * values[1]) / error == pytest.approx(stats.t.ppf(0.975, df), rel=1e-6)
        t_low, t_high = (
            (values[0] - r * values[1]) / np.sqrt([1, -r] @ covariance @ [1, -r]) for r in (0.9, 1.1)
        )
        limit = stats.t.ppf(0.95, df)
        assert row["equivalent"] == (t_low >= limit and t_high <= -limit)
        margin_verdict = "equivalent" if row["equivalent"] else "undecided"
        clear_verdict = "reduced" if row["ratio_high"] < 1 else "increased" if row["ratio_low"] > 1 else ""
        assert row["verdict"] == (clear_verdict or margin_verdict)
        assert (row["n"], row["over"], row["df"]) == (tables[0]["id"].nunique(), 3, df)


def _reference_spreads(tables, score):
    """Return the mean product before x after and both squared spreads, the first two's covariance, and df."""
    before = tables[0]
    strata = sorted(before["stratum"].unique())

    def means(remaining):
        return np.array(
            [[table.loc[remaining & (table["stratum"] == name), score].mean() for table in tables]
             for name in strata]
        )  # fmt: skip

    def moments(group_means):
        b, a = (group_means - group_means.mean(axis=0)).T
        return np.array([(a * b).mean(), (b * b).mean(), (a * a).mean()])

    centring = np.eye(len(strata)) - 1 / len(strata)
    noise, covariances, of_cells = np.zeros((2, 2)), np.zeros((2, 2)), None
    for sign, masks in _leave_out(before):
        replicates = [means(remaining) for remaining in masks]
        factor = (len(masks) - 1) / len(masks)
        deviations = np.array(replicates) - np.mean(replicates, axis=0)
        for row, column in product(range(2), repeat=2):
            covariance = factor * np.einsum("gi,gj->ij", deviations[..., row], deviations[..., column])
            noise[row, column] += sign * np.trace(centring @ covariance) / len(strata)
        pairs = np.array([moments(each)[:2] for each in replicates])
        of_pairs = factor * (pairs - pairs.mean(axis=0)).T @ (pairs - pairs.mean(axis=0))
        covariances, of_cells = covariances + sign * of_pairs, of_pairs
    excess, axes = np.linalg.eigh(covariances - of_cells)
    values = moments(means(np.ones(len(before), dtype=bool)))
    values -= [noise[0, 1], noise[0, 0], noise[1, 1]]
    return values, of_cells + axes @ np.diag(np.maximum(excess, 0)) @ axes.T, _df(before)


def _leave_out(targets):
    """Return sign and leave-one-out masks of each way of clustering; the last entry leaves out cells."""
    ways = _ways(targets)
    cells = targets[ways].agg("\0".join, axis=1)
    keys = [(1, targets[name]) for name in ways] + [(-1, cells)] * (len(ways) > 1)
    result = []
    for sign, names in keys:
        numbers_of = {name: number % 100 for number, name in enumerate(sorted(names.unique()))}
        numbers = names.map(numbers_of).to_numpy()
        result.append((sign, [numbers != number for number in range(numbers.max() + 1)]))
    return result


def _ways(targets):
    return [name for name in ("cluster", "race_lemma", "gender_lemma") if name in targets]


def _df(targets):
    sizes = [rows[name].nunique() for _, rows in targets.groupby("stratum") for name in _ways(targets)]
    return min(*sizes, 100) - 1


def test_changes_of_rho_are_those_of_a_brute_force_jackknife(findings, change_rows):
    for row in change_rows[change_rows["measure"] == "rho"].to_dict("records"):
        subset = findings.of("propagation").set_index("config")
        configs = row["config_before"], row["config_after"]
        before, after = (subset.loc[[config], "rho"].mean() for config in configs)
        tables = [_read(findings, config, "targets") for config in configs]

        def changes_of(remaining, tables=tables):
            strata = [table[remaining].groupby("stratum")[["intrinsic", "extrinsic"]] for table in tables]
            rhos = np.array([np.mean([stats.spearmanr(x).statistic for _, x in groups]) for groups in strata])
            return np.concatenate([np.diff(rhos), np.diff(np.arctanh(rhos))])

        variances = reference.jackknife_variance(changes_of, [tables[0][name] for name in _ways(tables[0])])
        half = stats.t.ppf(0.975, _df(tables[0])) * np.sqrt(variances[0])
        t = (np.arctanh(after) - np.arctanh(before)) / np.sqrt(variances[1])
        p = 2 * stats.t.sf(abs(t), _df(tables[0]))
        difference = after - before
        expected = [before, after, difference, difference - half, difference + half, p]
        names = ["before", "after", "difference", "ci_low", "ci_high", "delta_p"]
        assert [row[name] for name in names] == pytest.approx(expected)
        assert row["over"] == len(subset.loc[[row["config_before"]]])


def test_changes_of_a_mean_of_rho_over_templates_leave_clusters_out_of_all_templates(tmp_path):
    """Use a protocol of any name, as a user's own YAML has."""
    findings = debias_jobs.sweep(
        tmp_path, models=("m",), methods=("none", "orth_proj"), experiments=("words_to_faces",),
        specifications=(("mine", 0),), size=20,
    )  # fmt: skip
    frame, tables = findings.of("propagation").copy(), []
    for config in frame["config"].unique():
        targets = _read(findings, config, "targets")
        # Scores differ between templates, so that ρ over both templates together is not the mean.
        noise = np.random.default_rng(1).normal(size=len(targets)) / 30
        other = targets.assign(intrinsic=targets["intrinsic"] + 9, extrinsic=targets["extrinsic"] + noise)
        by_template = targets.assign(template="a {}"), other.assign(template="b {}")
        targets = pd.concat(by_template, ignore_index=True)
        targets.to_parquet(findings.folders[config] / "targets.parquet")
        tables.append(targets)
        is_job = frame["config"] == config
        frame.loc[is_job, "rho"] = [
            _mean_rho(targets[targets["stratum"] == name]) for name in frame.loc[is_job, "stratum"]
        ]
        frame.loc[is_job, "p"] = np.nan
    changes = compute_changes(findings.with_frame("propagation", frame)).set_index("measure").loc["rho"]

    def change_of(remaining):
        means = [table[remaining].groupby("stratum").apply(_mean_rho).mean() for table in tables]
        return np.array([means[1] - means[0]])

    (variance,) = reference.jackknife_variance(change_of, [tables[0][name] for name in _ways(tables[0])])
    difference = change_of(np.ones(len(tables[0]), dtype=bool))[0]
    half = stats.t.ppf(0.975, _df(tables[0])) * np.sqrt(variance)
    expected = [difference, difference - half, difference + half]
    assert [changes[name] for name in ("difference", "ci_low", "ci_high")] == pytest.approx(expected)


def _mean_rho(targets):
    by_template = targets.groupby("template")[["intrinsic", "extrinsic"]]
    return np.mean([stats.spearmanr(scores).statistic for _, scores in by_template])


@pytest.mark.parametrize("measure", ["cles_gap", "iat"])
def test_audits_differ_by_the_mean_over_pairs_of_groups(findings, change_rows, measure):
    for row in change_rows[change_rows["measure"] == measure].to_dict("records"):
        values, draws = [], []
        for config in (row["config_before"], row["config_after"]):
            audits = findings.of("implicit")
            subset = audits[(audits["config"] == config) & (audits["attribute"] == row["attribute"])]
            assert len(subset) == len([*combinations(debias_jobs.GROUPS, 2)])
            values.append(subset[measure].mean())
            frame = _read(findings, config, "draws", "bootstrap")
            frame = frame[frame["attribute"] == row["attribute"]]
            draws.append(frame.assign(size=frame[measure].abs()).groupby("draw")["size"].mean().to_numpy())
        expected = [*values, values[1] - values[0], *np.percentile(draws[1] - draws[0], [2.5, 97.5])]
        names = ["before", "after", "difference", "ci_low", "ci_high"]
        assert [row[name] for name in names] == pytest.approx(expected)
        assert (row["n"], row["over"]) == (3 * debias_jobs.FACES, 3)
        # The null is that of the experiment's own measure.
        assert row["chance_after"] == (2.0 if measure == "iat" else 0.02)


def test_the_measure_of_an_audit_decides_which_null_it_has(tmp_path):
    """Use an audit of the user, whose paper does not tell its measure."""
    findings = debias_jobs.sweep(
        tmp_path, models=("m",), methods=("none", "orth_proj"), experiments=("iat_semantic",)
    )
    audits = findings.of("implicit").assign(paper="CLES", measure="iat")
    changes = compute_changes(findings.with_frame("implicit", audits)).set_index("measure")
    chances = changes[["chance_before", "chance_after"]]
    assert chances.loc["iat"].tolist() == [2, 2]
    assert chances.loc["cles_gap"].isna().all()


def test_two_audits_of_an_attribute_are_both_compared(tmp_path, monkeypatch):
    monkeypatch.setitem(debias_jobs.AUDITS, "my_competence", ("CLES", ["competence"]))
    monkeypatch.setattr(debias_jobs, "EXPERIMENTS", (*debias_jobs.EXPERIMENTS, "my_competence"))
    experiments = ("cles_competence", "my_competence")
    changes = compute_changes(
        debias_jobs.sweep(tmp_path, models=("m",), methods=("none", "orth_proj"), experiments=experiments)
    )
    assert changes["exp"].tolist() == [*experiments]


def test_estimates_weight_all_comparisons_equally(change_rows, result):
    for item in result.itertuples():
        rows = change_rows[(change_rows["measure"] == item.measure) & (change_rows["debias"] == item.debias)]
        rows = rows if item.model == ALL else rows[rows["model"] == item.model]
        if item.measure in SPREADS:
            expected = rows["ratio"].mean() - 1
        else:
            # Emotions count once, as the mean of both sets.
            complete = ~rows["attribute"].isin(["emotions_positive", "emotions_negative"])
            expected = rows.loc[complete, "difference"].mean()
        assert item.value == pytest.approx(expected)
        assert item.models == (2 if item.model == ALL else 1)
        assert item.ci_low <= item.value <= item.ci_high
    assert {*result["model"]} == {ALL, "toy_s", "toy_m"}


def test_planted_changes_are_recovered_and_clearly_lower_models_are_counted(result):
    """Check that orth_proj removes 80% of the intrinsic spread and leaves the extrinsic spread unchanged."""
    estimate_of = {(item.model, item.debias, item.measure): item for item in result.itertuples()}
    intrinsic, outcome = (estimate_of[ALL, "orth_proj", measure] for measure in SPREADS)
    assert intrinsic.value == pytest.approx(-0.8, abs=0.04)
    assert intrinsic.ci_high < -0.7
    assert outcome.value == pytest.approx(0, abs=0.03)
    assert outcome.ci_low < 0 < outcome.ci_high
    scm_estimates = [estimate_of[ALL, "orth_proj_scm", measure] for measure in SPREADS]
    assert [item.value for item in scm_estimates] == pytest.approx([-0.5, -0.4], abs=0.03)
    assert (intrinsic.lower, intrinsic.models) == (2, 2)
    accuracy = estimate_of[ALL, "orth_proj", "accuracy"]
    assert [accuracy.before, accuracy.after, accuracy.chance] == pytest.approx([0.5, 0.45, 0.2])
    rows = result.set_index(["model", "debias", "measure"]).sort_index()
    total = rows.loc[ALL, "orth_proj"]
    assert total.loc["spread_intrinsic", ["lower", "clearly_lower"]].tolist() == [2, 2]
    assert total.loc["spread_outcome", "clearly_lower"] == 0
    assert total.loc["spread_outcome", "equivalent"]
    assert not total.loc["spread_intrinsic", "equivalent"]
    assert total.loc[[*SPREADS], "verdict"].tolist() == ["reduced", "equivalent"]
    is_spread = rows.index.isin(SPREADS, level="measure")
    assert rows["verdict"].ne("").eq(is_spread).all()
    assert (rows["verdict"] == "reduced").eq((rows["ci_high"] < 0) & is_spread).all()
    assert rows["equivalent"].notna().eq(rows.index.isin(SPREADS, level="measure")).all()
    by_model = result[result["model"] != ALL].groupby(["debias", "measure"])[["lower", "clearly_lower"]].sum()
    for method, measure in by_model.index:
        counts = rows.loc[(ALL, method, measure), ["lower", "clearly_lower"]]
        assert counts.tolist() == by_model.loc[(method, measure)].tolist()


def test_equal_groups_have_no_ratio(tmp_path, monkeypatch):
    monkeypatch.setitem(debias_jobs.PLANTED, "none", (0, 0, 1, 1))
    findings = debias_jobs.sweep(tmp_path, experiments=GROUPED)
    rows = compute_changes(findings)
    spreads = rows[rows["measure"].isin(SPREADS)]
    weak = "no ratio: the squared spread before is below 3 standard errors"
    assert (spreads["reason"] == weak).mean() > 0.9
    assert spreads.loc[spreads["reason"] == weak, ["ratio", "ratio_low", "ratio_high"]].isna().all(axis=None)
    assert spreads.loc[spreads["reason"] == weak, "equivalent"].isna().all()
    assert (spreads["verdict"] == "refused").equals(spreads["reason"] == weak)
    assert spreads[["before", "after"]].notna().all(axis=None)
    result = estimate_changes(rows).set_index(["model", "debias", "measure"]).sort_index()
    assert (result.loc[ALL].loc[:, [*SPREADS], :]["left"] >= 5).all()
    # A measure whose comparisons are all refused has a row in the table of the page.
    context, _ = _section(findings, tmp_path)
    spread_rows = [row for measure in SPREADS for row in context["estimates"][measure]]
    assert len(spread_rows) == 2 * 2 * 3
    assert all((row["verdict"] == "refused") == (row["comparisons"] == 0) for row in spread_rows)
    assert {row["interval"] for row in spread_rows if row["comparisons"] == 0} == {"–"}


def test_the_conclusion_counts_the_verdicts(change_rows, findings, html):
    (sentence,) = draw_conclusions(select_first_specification(compute_changes(findings)), "a score")
    clauses = sentence.split(" (reduced: ")[0].split("; ")
    starts = ["With debiasing, the groups' differences in a score are", "in what is retrieved they are"]
    names = ["reduced", "equivalent", "undecided", "increased", "refused"]
    for clause, measure, start in zip(clauses, SPREADS, starts, strict=True):
        verdicts = [*change_rows.loc[change_rows["measure"] == measure, "verdict"]]
        a, b, c, d, e = map(verdicts.count, names)
        assert len(verdicts) == 12
        assert clause == (
            f"{start} reduced in {a} of 12 comparisons, equivalent in {b}, undecided in {c}, "
            f"increased in {d} and refused in {e}"
        )
    assert "are reduced in 12 of 12 comparisons, equivalent in 0, undecided in 0" in clauses[0]
    assert "in what is retrieved they are reduced in" in html.text
    assert draw_conclusions(compute_changes(findings).query("measure == 'rho'"), "a score") == []


def test_targets_of_older_jobs_have_no_clusters(tmp_path):
    findings = debias_jobs.sweep(tmp_path, models=("toy_s",), experiments=["faces_to_words"])
    for config in findings.folders:
        _read(findings, config, "targets").drop(columns="cluster").to_parquet(
            findings.folders[config] / "targets.parquet"
        )
    rows = compute_changes(findings).set_index("measure")
    reason = "the targets were written by an older version, without clusters"
    assert set(rows.loc["rho", "reason"]) == {f"no interval: {reason}"}
    assert rows.loc["rho", "difference"].notna().all()
    assert set(rows.loc[[*SPREADS], "reason"]) == {f"no spread: {reason}"}
    assert rows[["before", "ratio"]].loc[[*SPREADS]].isna().all(axis=None)
    assert (
        estimate_changes(compute_changes(findings)).set_index("measure").loc[[*SPREADS], "left"].eq(1).all()
    )


def test_a_group_of_few_targets_is_refused(tmp_path):
    exps = ["faces_to_words"]
    rows = compute_changes(debias_jobs.sweep(tmp_path, models=("toy_s",), experiments=exps, size=4))
    rows = rows.set_index("measure")
    assert set(rows.loc["rho", "reason"]) == {"no interval: fewer than 5 clusters"}
    assert set(rows.loc[[*SPREADS], "reason"]) == {"no spread: fewer than 5 clusters of a group's targets"}
    assert rows[["ci_low", "delta_p", "ratio"]].isna().all(axis=None)


def test_nothing_is_dropped_silently(tmp_path):
    lost = [("toy_s", "orth_proj", "faces_to_words"), ("toy_m", "none", "cles_competence")]
    lost += [(model, "orth_proj_scm", exp) for model in ("toy_s", "toy_m") for exp in debias_jobs.EXPERIMENTS]
    findings = debias_jobs.sweep(tmp_path / "jobs", failed_jobs=lost)
    rows = compute_changes(findings)
    unpaired = rows[rows["reason"] != ""].set_index(["model", "debias", "exp"])
    no_baseline = "no results with debias=none (failed: disk full)"
    no_method = "no results with debias={} (failed: disk full)"
    assert unpaired.loc[("toy_s", "orth_proj", "faces_to_words"), "reason"] == no_method.format("orth_proj")
    assert unpaired.loc[("toy_m", "orth_proj", "cles_competence"), "reason"] == no_baseline
    reasons = f"{no_baseline}; {no_method.format('orth_proj_scm')}"
    assert unpaired.loc[("toy_m", "orth_proj_scm", "cles_competence"), "reason"] == reasons
    assert len(unpaired) == 20
    assert unpaired["difference"].isna().all()
    context, _ = _section(findings, tmp_path)
    assert "orth_proj_scm" not in str(context["estimates"])
    assert [row["reason"] for row in context["missing"]] == [*unpaired["reason"]]


def test_a_model_is_counted_once_if_the_job_of_another_failed(tmp_path):
    lost = [("toy_m", "orth_proj_scm", "cles_competence")]
    findings = debias_jobs.sweep(tmp_path / "jobs", experiments=("cles_competence",), failed_jobs=lost)
    context, _ = _section(findings, tmp_path)
    assert [(row["lower"], row["models"]) for row in context["counts"]] == [(0, 1)]


def test_without_a_bootstrap_audits_have_points_and_no_intervals(tmp_path):
    findings = debias_jobs.sweep(tmp_path / "jobs", draws={})
    context, change_rows = _section(findings, tmp_path)
    is_jackknife = change_rows["measure"].isin(["rho", *SPREADS])
    assert set(change_rows.loc[~is_jackknife, "reason"]) == {"no interval: no bootstrap"}
    assert not change_rows.loc[is_jackknife, "reason"].any()
    assert change_rows[["before", "after", "difference"]].notna().all(axis=None)
    assert change_rows.loc[~is_jackknife, ["ci_low", "ci_high", "delta_p", "ratio_low"]].isna().all(axis=None)
    rows = [row for rows in context["estimates"].values() for row in rows]
    assert all((row["interval"] == "–") == (row["measure"] not in ("rho", *SPREADS)) for row in rows)


def test_undefined_values_are_left_out_and_counted(tmp_path):
    findings = debias_jobs.sweep(tmp_path, models=("toy_s",))
    analyses = findings.of("propagation").copy()
    subset = (analyses["exp"] == "faces_to_words") & (analyses["debias"] == "orth_proj")
    analyses.loc[subset & (analyses["stratum"] == "Black Men"), "rho"] = np.nan
    config = analyses.loc[subset, "config"].iloc[0]
    targets = _read(findings, config, "targets")
    targets.loc[[0, 5], "intrinsic"] = np.nan
    targets.to_parquet(findings.folders[config] / "targets.parquet")
    rows = compute_changes(findings.with_frame("propagation", analyses))
    rows = rows[(rows["exp"] == "faces_to_words") & (rows["debias"] == "orth_proj")].set_index("measure")
    assert rows.loc["rho", "reason"] == "2 of 3 analyses have a ρ in both jobs"
    defined = analyses[analyses["config"].eq(config) & analyses["rho"].notna()]
    assert rows.loc["rho", "after"] == pytest.approx(defined["rho"].mean())
    assert rows.loc["rho", "ci_low"] < rows.loc["rho", "difference"] < rows.loc["rho", "ci_high"]
    for measure, score in SPREADS.items():
        assert rows.loc[measure, "reason"] == "118 of 120 targets have both scores before and after"
        complete = _read(findings, rows.loc[measure, "config_before"], "targets").drop(index=[0, 5])
        # Both jobs over the same targets.
        others = _read(findings, rows.loc[measure, "config_after"], "targets").drop(index=[0, 5])
        tables = [table.reset_index(drop=True) for table in (complete, others)]
        values, _, _ = _reference_spreads(tables, score)
        assert rows.loc[measure, "before"] == pytest.approx(np.sqrt(values[1]))


def test_jobs_on_different_targets_faces_or_scenes_are_not_paired(tmp_path):
    experiments = ["faces_to_words", "cles_competence", "scenes_zero_shot"]
    findings = debias_jobs.sweep(
        tmp_path, models=("toy_s",), methods=("none", "orth_proj"), experiments=experiments
    )
    for exp, name in zip(experiments, ("targets", "attributes", "targets"), strict=True):
        job = findings.jobs[(findings.jobs["exp"] == exp) & (findings.jobs["debias"] == "orth_proj")]
        config = job["config"].iloc[0]
        frame = _read(findings, config, name)
        frame.loc[frame.index[0], "id"] = "another"
        frame.to_parquet(findings.folders[config] / f"{name}.parquet")
    rows = compute_changes(findings).set_index("measure")
    assert rows.loc["rho", "reason"] == "no interval: the targets, or A and B, differ"
    assert rows.loc["cles_gap", "reason"] == "no interval: the faces differ"
    assert rows.loc["accuracy", "reason"] == "no interval: the scenes differ"
    assert rows.loc[["rho", "cles_gap", "accuracy"], ["ci_low", "delta_p"]].isna().all(axis=None)
    assert rows["difference"].notna().all()
    # A spread is computed over the targets common to both jobs.
    assert rows.loc["spread_intrinsic", "n"] == 119
    assert rows.loc["spread_intrinsic", "ratio_high"] < 1


def test_a_single_group_has_no_spread(tmp_path):
    exps = ["faces_to_words", "scenes_zero_shot"]
    rows = compute_changes(
        debias_jobs.sweep(tmp_path, models=("toy_s",), groups=["Black Men"], experiments=exps)
    )
    spread = rows[rows["measure"].isin(SPREADS)]
    assert set(spread["reason"]) == {"a spread needs targets of two or more groups"}
    assert spread["difference"].isna().all()
    comparisons = estimate_changes(rows).set_index(["debias", "measure"])["comparisons"].loc["orth_proj"]
    assert (comparisons["spread_outcome"], comparisons["rho"]) == (0, 1)


def test_the_page_shows_the_numbers_of_the_table(findings, change_rows, result, html, page_path):
    check_page(page_path, html)
    table = _table(page_path.parent)
    # The page lists experiments in the paper's order.
    keys = ["model", "debias", "measure", "exp", "attribute"]
    sorted_frames = [
        frame.fillna({"attribute": ""}).sort_values(keys, ignore_index=True) for frame in (table, change_rows)
    ]
    for frame in sorted_frames:
        frame["equivalent"] = frame["equivalent"].astype("boolean")
        frame["df"] = frame["df"].astype("Int64")
    pd.testing.assert_frame_equal(*sorted_frames, check_exact=True, check_dtype=False)
    change_cells = [cell for _, cell, _ in html.cells if cell["data-column"] in ("difference", "ratio")]
    numbers = {float(cell["data-value"]) for cell in change_cells if cell["data-value"]}
    assert {*change_rows["difference"], *change_rows["ratio"].dropna()} <= numbers
    values = [float(cell["data-value"]) for _, cell, _ in html.cells if cell["data-column"] == "value"]
    assert sorted(values) == pytest.approx(sorted(result["value"]))
    assert "#debiasing" in [attributes.get("href") for _, attributes in html.tags]


def _section(findings, folder):
    (folder / "report").mkdir()
    context = build_section(findings, ReportFolder(folder / "report")).context["debiasing"]
    return context, _table(folder / "report")


def _table(folder):
    texts = {"config_before": str, "config_after": str}
    return pd.read_csv(folder / "tables" / "debiasing.csv", dtype=texts).fillna({"reason": ""})


def test_distinguishability_of_groups_is_not_a_spread_between_them(tmp_path):
    findings = debias_jobs.sweep(tmp_path, models=("toy_s",))
    rows = findings.of("propagation")
    # Where each group has separate targets, ρ over all targets is in `n_all`.
    grouped = rows["exp"].eq("words_to_faces") & rows["group"].notna()
    separate = compute_changes(
        findings.with_frame("propagation", rows.assign(n_all=np.where(grouped, 40, np.nan)))
    )
    all_estimates, fewer_estimates = estimate_changes(compute_changes(findings)), estimate_changes(separate)
    spread = all_estimates["measure"].isin(SPREADS)
    assert (all_estimates.loc[spread, "experiments"] == 3).all()
    assert (fewer_estimates.loc[spread, "experiments"] == 2).all()
    assert (all_estimates.loc[~spread, "experiments"] == fewer_estimates.loc[~spread, "experiments"]).all()
    assert "words_to_faces" in {*separate.query("measure == 'spread_outcome'")["exp"]}
