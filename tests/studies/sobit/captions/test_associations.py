"""Captions against a tracked run: which words, which groups, and what a correlation is worth."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.errors import InputError
from src.stimuli import taxonomy
from src.storage import results
from src.studies.sobit.captions import associations, figures
from src.studies.sobit.captions import cli as entry
from src.tracking import Tracker
from tests.studies.sobit.captions.made import written

WORDS = 60


def counted(seed=0, groups=(("race", "Black"), ("race", "White"), ("gender", "Men"))):
    """Rows of ratios.csv; each word also stands in a second category."""
    rng = np.random.default_rng(seed)
    rows = [
        {"category": "one", "word": f"word{number}", "type": "noun", "axis": axis, "group": group,
         "captions": 100_000, "n_word": 400 if number else 3, "n_group": 10_000,
         "n_both": int(rng.binomial(400, 0.1 * math.exp(rng.normal(0, 0.4))))}
        for number in range(WORDS) for axis, group in groups
    ]  # fmt: skip
    found = pd.DataFrame(rows)
    return pd.concat([found, found.assign(category="two")], ignore_index=True)


def measured(ratios, noise=0.2, seed=1, **renamed):
    """Rows of analyses.csv in which associations follow the ratios."""
    rng = np.random.default_rng(seed)
    found = ratios[["category", "word", "type", "axis", "group"]].copy()
    wanted = np.log((ratios["n_both"] + 0.5) / 40)
    by_word = dict.fromkeys(zip(found["word"], found["group"], strict=True))
    noises = dict(zip(by_word, rng.normal(0, noise, len(by_word)), strict=True))
    keys = zip(found["word"], found["group"], strict=True)
    found["association"] = wanted + [noises[key] for key in keys]
    about = {"exp": "sobit_association", "paper": "So-B-IT", "model": "toy", "dataset": "demo"}
    about |= {"debias": "none", "protocol": "paper", "seed": 0, "config": "c", "run": "r"}
    return found.assign(**about).replace({"group": renamed})


def test_a_planted_correlation_is_found_and_an_absent_one_is_not():
    ratios = counted()
    found = associations.correlate(ratios, measured(ratios), 0).set_index("group")
    for group in ("Black", "White", "Men"):
        one = found.loc[group]
        own = ratios[(ratios["group"] == group) & (ratios["category"] == "one") & (ratios["n_word"] >= 20)]
        beside = (
            measured(ratios).drop_duplicates(associations.KEYS).set_index(["word", "group"])["association"]
        )
        wanted = stats.spearmanr(
            np.log((own["n_both"] + 0.5) / 40.5), [beside[word, group] for word in own["word"]]
        )
        assert one["rho"] == pytest.approx(wanted.statistic)
        assert one["rho_low"] < one["rho"] < one["rho_high"]
        assert one["rho"] > one["placebo_q95"]
        assert one["p"] == pytest.approx(1 / 1001)
        assert one["q"] == pytest.approx(1 / 1001)
        assert one[["n", "n_rare", "n_unmatched"]].tolist() == [WORDS - 1, 1, 0]
    absent = associations.correlate(ratios, measured(ratios, noise=50), 0)
    assert (absent["p"] > 0.01).all()
    assert absent["placebo_q95"].between(0.2, 0.32).all()


def test_the_same_seed_gives_the_same_draws():
    ratios = counted()
    one, same, other = (associations.correlate(ratios, measured(ratios), seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one, same)
    assert not np.allclose(one["rho_low"], other["rho_low"])


def test_groups_and_words_of_one_side_are_said():
    ratios = counted()
    analyses = measured(ratios, Men="Male")
    found = associations.correlate(ratios, analyses[analyses["word"] != "word5"], 0).set_index("group")
    assert found.loc["Men", "reason"] == "the run has no group of this name on this axis"
    assert found.loc["Male", "reason"] == "the labels' words name no group of this name on this axis"
    assert found.loc[["Men", "Male"], ["rho", "p", "q"]].isna().all(axis=None)
    assert found.loc["Black", "n"] == WORDS - 2
    fewer = associations.correlate(ratios[ratios["word"] != "word5"], analyses, 0).set_index("group")
    assert fewer.loc["Black", "n_unmatched"] == 1
    nobody = associations.correlate(ratios.assign(n_group=0), measured(ratios), 0)
    assert set(nobody["reason"]) == {"no caption names the group"}
    rare = associations.correlate(ratios.assign(n_word=5), measured(ratios), 0)
    assert set(rare["reason"]) == {"0 words: at least 3 are needed"}


def test_the_logarithm_is_defined_where_no_caption_says_both():
    rows = pd.DataFrame(
        {"n_both": [0, 10], "n_word": [100, 100], "n_group": [50, 50], "captions": [500, 500]}
    )
    assert associations.log_ratio(rows).tolist() == pytest.approx([math.log(0.5 / 10.5), 0])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Two finished runs of the experiment, one that failed and one of another experiment; ids."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder}/mlflow.db"
    tracker = Tracker(uri)
    analyses = measured(counted()).drop(columns="run")
    found = {}
    for name, exp, status in [
        ("first", "sobit_association", "FINISHED"),
        ("second", "sobit_association", "FINISHED"),
        ("failed", "sobit_association", "FAILED"),
        ("other", "sobit_retrieval", "FINISHED"),
    ]:
        run = tracker.open("demo", name)
        results.write(folder / name, analyses, {})
        digest = results.digest(folder / name) if name != "second" else "other"
        run.log(tags={"kind": "job", "exp": exp, "model": "toy", "results": digest})
        run.artifacts(folder / name / "results", "results")
        tracker.close(run, status)
        found[name] = run.id
    return tracker, found, uri


def test_a_run_is_had_by_the_beginning_of_its_id(store):
    tracker, ids, _ = store
    run = associations.chosen(tracker, ids["first"][:16])
    assert run.id == ids["first"]
    found = associations.fetched(tracker, run)
    assert set(found["run"]) == {ids["first"]}
    ratios = counted()
    assert associations.correlate(ratios, found, 0)["rho"].notna().all()


def test_an_audit_writes_what_the_run_says_of_its_words(store, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    listed = pd.DataFrame(
        {"category": "one", "word": [f"word{number}" for number in range(WORDS)], "type": "noun"}
    )
    monkeypatch.setattr(taxonomy, "words", lambda cfg: listed)
    monkeypatch.setattr(figures, "drawings", lambda ratios: [])
    chosen = rng.choice(listed["word"], 4000)
    people = rng.choice(["black", "white man", "men", "sea"], 4000)
    path = written(
        tmp_path / "in.parquet", [f"{word} {whom}" for word, whom in zip(chosen, people, strict=True)]
    )
    _, ids, uri = store
    asked = [f"path={path}", f"run={ids['first'][:20]}", f"tracking.uri={uri}", f"output={tmp_path}/out"]
    assert entry.main(asked) == 0
    found = pd.read_csv(tmp_path / "out" / "correlations.csv").set_index("group")
    assert set(found["run"]) == {ids["first"]}
    assert found.loc[["Black", "White", "Men"], "n"].tolist() == [WORDS] * 3
    assert found.loc[["Black", "White", "Men"], "rho"].abs().max() < 0.5
    assert found.loc["Asian", "reason"] == "the run has no group of this name on this axis"
    said = " ".join(capsys.readouterr().out.split())
    assert f"against run {ids['first']}" in said.replace("\n", " ")


def test_runs_that_cannot_serve_are_refused(store):
    tracker, ids, _ = store
    for name in ("failed", "other"):
        with pytest.raises(InputError, match="no finished run of sobit_association has this id") as said:
            associations.chosen(tracker, ids[name])
        assert ids["first"] in str(said.value)
        assert ids[name] not in str(said.value).partition(". ")[2]
    with pytest.raises(InputError, match="results cannot be read .other content than was written"):
        associations.fetched(tracker, associations.chosen(tracker, ids["second"]))
    with pytest.raises(InputError, match="begins the ids of 2 runs"):
        associations.chosen(tracker, "")
