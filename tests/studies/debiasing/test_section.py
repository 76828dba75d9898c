"""What debiasing changes, held against naive recomputation from the tables that the jobs left."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

from src.report import page
from src.report.folder import Folder
from src.storage import results
from src.studies.debiasing.answer import ALL, estimates, further, shown
from src.studies.debiasing.answer_figure import MODELS, PANELS, figures
from src.studies.debiasing.change import table
from src.studies.debiasing.comparisons import changes
from src.studies.debiasing.improved import improved
from src.studies.debiasing.job_pairs import pairs
from src.studies.debiasing.section import context
from src.studies.debiasing.sentences import change, sentence, signed
from src.studies.propagation import experiment
from src.studies.shared.resampling import weights
from tests.conftest import precomputed
from tests.report.test_page import Read
from tests.studies.debiasing import debiased
from tests.studies.propagation.test_uncertainty import inputs

SPREADS = {"spread_intrinsic": "intrinsic", "spread_outcome": "extrinsic"}
GROUPED = ("faces_to_words", "labels_to_scenes", "words_to_faces")


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return debiased.world(tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def told(findings):
    return table(changes(findings))


@pytest.fixture(scope="module")
def found(findings):
    return estimates(shown(changes(findings)))


def _read(findings, config, name, kind=None):
    frame = pd.read_parquet(findings.folders[config] / f"{name}.parquet")
    return frame if kind is None else frame[frame["kind"] == kind].sort_values("draw")


def _configs(frame, **about):
    """The configs without and with debiasing."""
    method = about.pop("debias")
    for name, value in about.items():
        frame = frame[frame[name] == value]
    return [frame.loc[frame["debias"] == one, "config"].iloc[0] for one in ("none", method)]


def test_each_job_meets_its_counterpart_once(told):
    assert not told["reason"].any()
    # 4 experiments' rho, 3 with groups' two spreads, 5 attributes' CLES, one IAT, the accuracy.
    counts = told.groupby(["model", "debias"])["measure"].value_counts().unstack()
    assert (counts == [1, 5, 1, 4, 3, 3]).all(axis=None), counts
    assert not told.duplicated(["model", "debias", "measure", "exp", "attribute"]).any()
    assert set(told.loc[told["measure"] == "iat", "exp"]) == {"iat_semantic"}
    assert set(told.loc[told["attribute"].eq("semantic") & told["measure"].eq("cles_gap"), "exp"]) == {
        "cles_semantic"
    }


def test_spreads_and_their_intervals_are_those_of_resampled_targets(findings, told):
    rows = told[told["measure"].isin(SPREADS)]
    assert set(rows["exp"]) == set(GROUPED)
    for row in rows.to_dict("records"):
        about = {name: row[name] for name in ("model", "exp", "debias")}
        configs = _configs(findings.of("propagation"), **about)
        assert configs == [row["config_before"], row["config_after"]]
        spreads, drawn, alike = [], [], []
        for config in configs:
            targets = _read(findings, config, "targets")
            score, means, samples = SPREADS[row["measure"]], [], []
            for _, own in targets.groupby("stratum"):
                members = pd.DataFrame({"name": own["id"]})
                if row["exp"].startswith("labels"):
                    words = own["id"].str.rsplit(" ", n=1)
                    members = members.assign(race_word=words.str[0], gender_word=words.str[1])
                times = weights(members, debiased.DRAWS["bootstrap"], 0)
                values = own[score].to_numpy()
                means.append(values.mean())
                samples.append([np.repeat(values, one).mean() for one in times])
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


def test_rho_differs_by_what_its_paired_draws_say(findings, told):
    for row in told[told["measure"] == "rho"].to_dict("records"):
        own = findings.of("propagation").set_index("config")
        rho, drawn, placebo, observed = [], [], [], []
        for config in (row["config_before"], row["config_after"]):
            rho.append(own.loc[[config], "rho"].mean())
            observed.append(own.loc[[config], "rho_placebo_units"].mean())
            for kind, into in (("bootstrap", drawn), ("placebo", placebo)):
                frame = _read(findings, config, "draws", kind)
                into.append(frame.groupby("draw")["rho"].mean().to_numpy())
        reached = np.abs(placebo[1] - placebo[0]) >= abs(observed[1] - observed[0]) - 1e-12
        expected = [*rho, rho[1] - rho[0], *np.percentile(drawn[1] - drawn[0], [2.5, 97.5])]
        names = ["before", "after", "difference", "ci_low", "ci_high", "p_placebo"]
        assert [row[name] for name in names] == pytest.approx([*expected, (1 + reached.sum()) / 100])
        assert row["over"] == len(own.loc[[row["config_before"]]])


@pytest.mark.parametrize("measure", ["cles_gap", "iat"])
def test_audits_differ_by_the_mean_over_pairs_of_groups(findings, told, measure):
    for row in told[told["measure"] == measure].to_dict("records"):
        values, drawn = [], []
        for config in (row["config_before"], row["config_after"]):
            audits = findings.of("implicit")
            own = audits[(audits["config"] == config) & (audits["attribute"] == row["attribute"])]
            assert len(own) == len([*combinations(debiased.GROUPS, 2)])
            values.append(own[measure].mean())
            frame = _read(findings, config, "draws", "bootstrap")
            frame = frame[frame["attribute"] == row["attribute"]]
            drawn.append(frame.assign(size=frame[measure].abs()).groupby("draw")["size"].mean().to_numpy())
        expected = [*values, values[1] - values[0], *np.percentile(drawn[1] - drawn[0], [2.5, 97.5])]
        names = ["before", "after", "difference", "ci_low", "ci_high"]
        assert [row[name] for name in names] == pytest.approx(expected)
        assert (row["n"], row["over"]) == (3 * debiased.FACES, 3)
        # The null is of the measure that the experiment is for.
        assert row["chance_after"] == (2.0 if measure == "iat" else 0.02)


def test_accuracy_differs_by_its_paired_draws(findings, told):
    for row in told[told["measure"] == "accuracy"].to_dict("records"):
        drawn = [
            _read(findings, row[config], "draws", "bootstrap")["accuracy"].to_numpy()
            for config in ("config_before", "config_after")
        ]
        assert [row["ci_low"], row["ci_high"]] == pytest.approx(
            np.percentile(drawn[1] - drawn[0], [2.5, 97.5])
        )
        assert row["difference"] == pytest.approx(0.5 * debiased.PLANTED[row["debias"]][3] - 0.5)
        assert (row["chance_before"], row["n"]) == (0.2, 40)


def test_estimates_count_every_comparison_alike(told, found):
    for one in found:
        rows = told[(told["measure"] == one.measure) & (told["debias"] == one.debias)]
        rows = rows if one.model == ALL else rows[rows["model"] == one.model]
        if one.measure in SPREADS:
            expected = np.prod(rows["ratio"]) ** (1 / len(rows)) - 1
        else:
            # Emotions count once, as the mean of both sets.
            whole = ~rows["attribute"].isin(["emotions_positive", "emotions_negative"])
            expected = rows.loc[whole, "difference"].mean()
        assert one.value == pytest.approx(expected)
        assert one.models == (2 if one.model == ALL else 1)
        assert one.ends[0] <= one.value <= one.ends[1]
    assert {one.model for one in found} == {ALL, "toy_s", "toy_m"}


def test_what_is_planted_is_what_is_answered(found):
    """orth_proj takes four fifths of what is measured and nothing of what is retrieved."""
    own = {(one.model, one.debias, one.measure): one for one in found}
    intrinsic, outcome = (own[ALL, "orth_proj", measure] for measure in SPREADS)
    assert intrinsic.value == pytest.approx(-0.8, abs=0.04)
    assert intrinsic.ends[1] < -0.7
    assert outcome.value == pytest.approx(0, abs=0.03)
    assert outcome.ends[0] < 0 < outcome.ends[1]
    gap, low, high = further(found, "orth_proj")
    assert gap == outcome.value - intrinsic.value
    assert 0.7 < low < gap < high
    both = [own[ALL, "orth_proj_scm", measure] for measure in SPREADS]
    assert [one.value for one in both] == pytest.approx([-0.5, -0.4], abs=0.03)
    said = sentence(found, "orth_proj")
    fell = f"{-100 * intrinsic.value:.0f}"
    assert said.startswith(
        f"Over 2 models, orth_proj changed the spread of SC-EAT between groups by −{fell}%"
    )
    assert "zero-shot accuracy by −0.05 (95% interval −0.0" in said
    assert "from 0.50 to 0.45; chance 0.20)" in said
    assert said.count(". ") == 0
    assert "|CLES − ½| by +0.0" in sentence(found, "orth_proj_scm")


def test_groups_that_are_alike_are_told_from_groups_that_are_not(tmp_path, monkeypatch):
    monkeypatch.setitem(debiased.PLANTED, "orth_proj", (0, 0, 1, 1))
    findings = debiased.world(tmp_path, experiments=GROUPED)
    every = changes(findings)
    rows = table(every)
    gone = rows[(rows["debias"] == "orth_proj") & rows["measure"].isin(SPREADS)]
    # No spread is zero, but it is what chance gives.
    assert (gone["after"] > 0).all()
    assert gone["after"].mean() == pytest.approx(gone["chance_after"].mean(), rel=0.5)
    assert (gone["before"] > 3 * gone["chance_before"]).all()
    assert "end no wider than alike groups would" in sentence(estimates(every), "orth_proj")


def test_counts_of_models_stand_beside_the_published(findings, told):
    counts = improved(shown(changes(findings))).set_index(["debias", "against", "measure", "attribute"])
    for (debias, against, measure, attribute), row in counts.iterrows():
        rows = told[(told["debias"] == debias) & (told["measure"] == measure)]
        if attribute == "all attributes":
            whole = rows[~rows["attribute"].str.startswith("emotions_")]
            less = whole.groupby("model")["difference"].mean()
        else:
            less = rows[rows["attribute"] == attribute].set_index("model")["difference"]
        assert (row["improved"], row["models"]) == ((less < 0).sum(), len(less))
        assert against == "none"
    theirs = counts.dropna(subset=["published"])
    assert [*theirs.index] == [("orth_proj_scm", "none", "cles_gap", "all attributes")]
    assert theirs[["published", "published_models"]].to_numpy().tolist() == [[47, 90]]


def test_two_methods_are_counted_against_one_another_where_theirs_were(tmp_path, monkeypatch):
    monkeypatch.setitem(debiased.PLANTED, "orth_proj_calibrated", (1, 1, 1.6, 1))
    methods = ("none", "orth_proj_calibrated", "orth_proj_scm")
    findings = debiased.world(tmp_path, methods=methods, experiments=["cles_emotions", "cles_competence"])
    counts = improved(changes(findings))
    found = counts[counts["attribute"] == "all attributes"]
    columns = ["debias", "against", "improved", "models", "published", "published_models"]
    assert found[columns].to_numpy().tolist() == [
        ["orth_proj_calibrated", "none", 0, 2, 33, 90],
        ["orth_proj_scm", "none", 0, 2, 47, 90],
        ["orth_proj_scm", "orth_proj_calibrated", 2, 2, 64, 90],
    ]


def test_nothing_is_dropped_silently(tmp_path):
    gone = [("toy_s", "orth_proj", "faces_to_words"), ("toy_m", "none", "cles_competence")]
    gone += [(model, "orth_proj_scm", exp) for model in ("toy_s", "toy_m") for exp in debiased.EXPERIMENTS]
    findings = debiased.world(tmp_path / "jobs", without=gone)
    rows = table(changes(findings))
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
    assert given["sentences"][1] == "orth_proj_scm: nothing to compare it with."
    assert [row["reason"] for row in given["lacking"]] == [*lost["reason"]]


def test_without_a_job_that_was_not_debiased_it_says_so(tmp_path):
    findings = debiased.world(tmp_path / "jobs", methods=("orth_proj",), experiments=["faces_to_words"])
    assert {pair.reason for pair in pairs(findings)} == {"no results with debias=none"}
    given, told = _section(findings, tmp_path)
    assert given["sentences"] == ["orth_proj: nothing to compare it with."]
    assert given["pictures"] == []
    assert told["difference"].isna().all()


@pytest.mark.parametrize(
    ("experiments", "silent"),
    [
        (["faces_to_words"], "|CLES − ½| and zero-shot accuracy"),
        (["scenes_to_words"], "the spread of SC-EAT between groups, the spread between groups of what is "
                              "retrieved, |CLES − ½| and zero-shot accuracy"),
        (["cles_emotions"], "the spread of SC-EAT between groups, the spread between groups of what is "
                            "retrieved, ρ and zero-shot accuracy"),
        (["scenes_zero_shot"], "the spread of SC-EAT between groups, the spread between groups of what is "
                               "retrieved, |CLES − ½| and ρ"),
    ],
)  # fmt: skip
def test_a_sweep_of_some_experiments_and_one_model_says_what_it_cannot(tmp_path, experiments, silent):
    findings = debiased.world(tmp_path / "jobs", models=("toy_s",), experiments=experiments)
    given, told = _section(findings, tmp_path)
    assert given["sentences"][0].startswith("Over 1 model, orth_proj changed ")
    assert given["sentences"][0].endswith(f" Nothing here says what it does to {silent}.")
    assert len(given["pictures"]) == 1
    assert len(told)


def test_another_intrinsic_score_is_called_by_its_name(tmp_path):
    findings = debiased.world(tmp_path / "jobs", experiments=["faces_to_words"])
    rows = findings.of("propagation").assign(intrinsic_label="difference of mean cosines")
    given, _ = _section(findings.with_frame("propagation", rows), tmp_path)
    assert "the spread of difference of mean cosines between groups" in given["sentences"][0]
    alternative = str(given["pictures"])
    assert "spread of difference of mean cosines between groups" in alternative
    assert "SC-EAT" not in str(given)


def test_without_a_bootstrap_there_are_points_and_no_intervals(tmp_path):
    findings = debiased.world(tmp_path / "jobs", draws={})
    given, told = _section(findings, tmp_path)
    assert set(told["reason"]) == {"no interval: no bootstrap"}
    assert told[["before", "after", "difference"]].notna().all(axis=None)
    assert told[["ci_low", "ci_high", "p_placebo", "ratio_low"]].isna().all(axis=None)
    assert "(no interval; 6 comparisons" in given["sentences"][0]
    assert "95% interval" not in given["sentences"][0]


def test_what_is_undefined_leaves_with_its_count(tmp_path):
    findings = debiased.world(tmp_path, models=("toy_s",))
    analyses = findings.of("propagation").copy()
    own = (analyses["exp"] == "faces_to_words") & (analyses["debias"] == "orth_proj")
    analyses.loc[own & (analyses["stratum"] == "Black Men"), "rho"] = np.nan
    config = analyses.loc[own, "config"].iloc[0]
    targets = _read(findings, config, "targets")
    targets.loc[[0, 5], "intrinsic"] = np.nan
    targets.to_parquet(findings.folders[config] / "targets.parquet")
    rows = table(changes(findings.with_frame("propagation", analyses)))
    rows = rows[(rows["exp"] == "faces_to_words") & (rows["debias"] == "orth_proj")].set_index("measure")
    assert rows.loc["rho", "reason"] == "a ρ before and after in 2 of 3 analyses"
    left = analyses[analyses["config"].eq(config) & analyses["rho"].notna()]
    assert rows.loc["rho", "after"] == pytest.approx(left["rho"].mean())
    assert rows.loc["rho", "ci_low"] < rows.loc["rho", "difference"] < rows.loc["rho", "ci_high"]
    for measure, score in SPREADS.items():
        assert rows.loc[measure, "reason"] == "118 of 120 targets have both scores before and after"
        whole = _read(findings, rows.loc[measure, "config_before"], "targets").drop(index=[0, 5])
        # Both jobs over the same targets.
        assert rows.loc[measure, "before"] == pytest.approx(
            whole.groupby("stratum")[score].mean().std(ddof=0)
        )


def test_other_targets_faces_or_scenes_are_not_paired(tmp_path):
    experiments = ["faces_to_words", "cles_competence", "scenes_zero_shot"]
    findings = debiased.world(
        tmp_path, models=("toy_s",), methods=("none", "orth_proj"), experiments=experiments
    )
    for exp, name in (
        ("faces_to_words", "targets"),
        ("cles_competence", "attributes"),
        ("scenes_zero_shot", "targets"),
    ):
        job = findings.jobs[(findings.jobs["exp"] == exp) & (findings.jobs["debias"] == "orth_proj")]
        config = job["config"].iloc[0]
        frame = _read(findings, config, name)
        frame.loc[frame.index[0], "id"] = "another"
        frame.to_parquet(findings.folders[config] / f"{name}.parquet")
    rows = table(changes(findings)).set_index("measure")
    assert rows.loc["rho", "reason"] == "no interval: other targets, or other A and B"
    assert rows.loc["cles_gap", "reason"] == "no interval: other faces"
    assert rows.loc["accuracy", "reason"] == "no interval: other scenes"
    assert rows.loc[["rho", "cles_gap", "accuracy"], ["ci_low", "p_placebo"]].isna().all(axis=None)
    assert rows["difference"].notna().all()
    # A spread is of the targets that both have, and resamples these.
    assert rows.loc["spread_intrinsic", "n"] == 119
    assert rows.loc["spread_intrinsic", "ci_high"] < 0


def test_jobs_without_a_table_of_targets_have_no_spread(tmp_path):
    findings = debiased.world(tmp_path, models=("toy_s",), experiments=["faces_to_words"])
    for place in findings.folders.values():
        (place / "targets.parquet").unlink()
    rows = table(changes(findings)).set_index("measure")
    assert rows.loc["rho", "difference"].notna().all()
    assert rows.loc["spread_outcome", "difference"].isna().all()


def test_what_experiments_leave_is_understood(tmp_path):
    """Real jobs, before and after one direction is taken from the texts."""
    lab = precomputed(tmp_path / "lab", seed=1)
    frames, folders = [], {}
    for exp in ("labels_to_faces", "words_to_faces", "faces_to_labels", "scenes_to_words"):
        targets, corpus, *vectors, protocol, seed = inputs(lab, exp)
        for method in ("none", "orth_proj"):
            side = 0 if targets.role in ("words", "labels") else 1
            if method != "none":
                direction = torch.nn.functional.normalize(vectors[side].mean(0), dim=0)
                left = vectors[side] - vectors[side] @ direction[:, None] * direction
                vectors[side] = torch.nn.functional.normalize(left, dim=-1)
            config = f"{exp}-{method}"
            ran = experiment.run(targets, corpus, *vectors, protocol, seed)
            common = {"exp": exp, "paper": "", "model": "lab", "dataset": "lab", "debias": method}
            common |= {"protocol": "paper", "seed": seed, "config": config}
            folders[config] = tmp_path / config
            results.write(folders[config], ran.analyses.assign(**common), ran.tables)
            folders[config] /= results.FOLDER
            frames.append(results.read_csv(folders[config] / results.ANALYSES))
    whole = debiased.world(tmp_path / "jobs", models=("toy_s",), experiments=["scenes_zero_shot"])
    findings = replace(whole, frames={"propagation": pd.concat(frames)}, folders=folders)
    rows = table(changes(replace(findings, jobs=pd.DataFrame())))
    assert not rows["reason"].any(), rows["reason"].tolist()
    assert len(rows) == 4 + 3 * 2
    assert rows[["ci_low", "ci_high", "difference", "n"]].notna().all(axis=None)
    assert rows.loc[rows["measure"] == "rho", "p_placebo"].between(0, 1).all()
    assert "Over 1 model, orth_proj changed" in sentence(estimates(changes(findings)), "orth_proj")


def test_one_group_has_no_spread(tmp_path):
    findings = debiased.world(
        tmp_path, models=("toy_s",), groups=["Black Men"], experiments=["faces_to_words", "scenes_zero_shot"]
    )
    rows = table(changes(findings))
    spread = rows[rows["measure"].isin(SPREADS)]
    assert set(spread["reason"]) == {"a spread needs targets of two groups or more"}
    assert spread["difference"].isna().all()
    assert "Over 1 model, orth_proj changed ρ by" in sentence(estimates(changes(findings)), "orth_proj")


def test_a_spread_that_was_none_has_no_ratio(tmp_path, monkeypatch):
    findings = debiased.world(tmp_path, experiments=["faces_to_words", "words_to_faces"], models=("toy_s",))
    for config in findings.folders:
        targets = _read(findings, config, "targets")
        if targets["id"].str.contains("faces").all():
            targets.assign(extrinsic=0.5).to_parquet(findings.folders[config] / "targets.parquet")
    rows = table(changes(findings))
    none = rows[(rows["measure"] == "spread_outcome") & (rows["exp"] == "faces_to_words")]
    assert (none["after"] == 0).all()
    assert none["ratio"].isna().all()
    one = next(one for one in estimates(changes(findings)) if one.measure == "spread_outcome")
    assert (one.comparisons, one.left) == (1, 1)


def test_one_reading_is_shown_and_all_are_in_the_table(tmp_path):
    readings = (("k_100", 0), ("paper", 1), ("paper", 0))
    findings = debiased.world(
        tmp_path / "jobs", readings=readings, models=("toy_s",), experiments=["faces_to_words"]
    )
    every = changes(findings)
    assert {(one.pair.job["protocol"], one.pair.job["seed"]) for one in shown(every)} == {("paper", 0)}
    given, told = _section(findings, tmp_path)
    assert len(told) == 3 * 2 * 3
    assert (given["reading"], given["readings"]) == ("protocol paper, seed 0", 3)


def test_the_page_shows_the_numbers_of_the_table(findings, told, found, tmp_path):
    read, written = _page(findings, tmp_path)
    # The page has the paper's experiments in its order.
    keys = ["model", "debias", "measure", "exp", "attribute"]
    both = [frame.fillna({"attribute": ""}).sort_values(keys, ignore_index=True) for frame in (written, told)]
    pd.testing.assert_frame_equal(*both, check_exact=True, check_dtype=False)
    for method in ("orth_proj", "orth_proj_scm"):
        assert sentence(found, method) in read.text
    met = [cell for _, cell, _ in read.cells if cell["data-column"] in ("difference", "ratio")]
    numbers = {float(cell["data-value"]) for cell in met if cell["data-value"]}
    assert {*told["difference"], *told["ratio"].dropna()} <= numbers
    assert "#debiasing" in [attributes.get("href") for _, attributes in read.tags]
    (said,) = [alt for _, tag in read.tags if "Change with debiasing" in (alt := tag.get("alt", ""))]
    for one in found:
        name = "all models" if one.model == ALL else one.model
        told_so = f"{name}, {one.debias}, {PANELS[one.measure]} {change(one)} ("
        assert told_so.replace("\n", " ") in said


def test_a_sweep_of_audits_alone_has_the_section_and_what_is_lacking(tmp_path):
    gone = [("toy_s", "orth_proj", "cles_competence")]
    audits = ["cles_competence", "cles_emotions"]
    read, _ = _page(debiased.world(tmp_path / "jobs", experiments=audits, without=gone), tmp_path)
    assert "orth_proj: toy_s, cles_competence (protocol paper, seed 0): no results with" in read.text
    assert "|CLES − ½|, all attributes 0 of 2 47 of 90" in read.text
    assert "#debiasing" in [attributes.get("href") for _, attributes in read.tags]


def test_a_sweep_without_debiasing_has_no_such_section(tmp_path):
    small = {"models": ("toy_s",), "methods": ("none",), "experiments": ["scenes_zero_shot"]}
    (tmp_path / "report").mkdir()
    path = page.write(debiased.world(tmp_path / "jobs", **small), tmp_path / "report")
    read = Read(path.read_text(encoding="utf-8"))
    assert "debiasing" not in [attributes.get("id") for _, attributes in read.tags]
    assert "#debiasing" not in [attributes.get("href") for _, attributes in read.tags]
    assert not [*(tmp_path / "report" / "tables").glob("debiasing*")]


def test_many_models_share_several_figures(found):
    many = [replace(one, model=f"model {number}") for one in found[:3] for number in range(MODELS + 2)]
    assert [drawing.name for drawing in figures(many)] == ["debiasing-1", "debiasing-2"]
    (one,) = figures(found)
    panels = one.figure.axes
    assert len(panels) == 5
    for axes in panels:
        low, high = axes.get_xlim()
        assert low < 0 < high
    # What is measured and what is retrieved are drawn on one scale.
    assert panels[0].get_xlim() == panels[1].get_xlim()


@pytest.mark.parametrize(
    ("value", "text"), [(0.004, "0.00"), (-0.004, "0.00"), (0.126, "+0.13"), (-0.126, "−0.13"), (np.nan, "–")]
)
def test_a_change_bears_its_sign(value, text):
    assert signed(value) == text


def _section(findings, folder):
    (folder / "report").mkdir()
    given = context(findings, Folder(folder / "report"))
    return given, _written(folder)


def _page(findings, folder):
    (folder / "report").mkdir()
    path = page.write(findings, folder / "report")
    return Read(path.read_text(encoding="utf-8")), _written(folder)


def _written(folder):
    texts = {"config_before": str, "config_after": str}
    return pd.read_csv(folder / "report" / "tables" / "debiasing.csv", dtype=texts).fillna({"reason": ""})


def test_how_well_groups_are_told_apart_is_no_spread_between_them(tmp_path):
    found = debiased.world(tmp_path, models=("toy_s",))
    every = estimates(shown(changes(found)))
    told = found.of("propagation")["exp"].eq("words_to_faces") & found.of("propagation")["group"].notna()
    # The reading over all targets, which is there where a group has its own.
    own = found.with_frame("propagation", found.of("propagation").assign(n_all=np.where(told, 40, np.nan)))
    fewer = estimates(shown(changes(own)))
    for before, after in zip(every, fewer, strict=True):
        spread = before.measure in SPREADS
        assert (before.experiments, after.experiments) == ((3, 2) if spread else (before.experiments,) * 2)
    assert "words_to_faces" in {*table(changes(own)).query("measure == 'spread_outcome'")["exp"]}
