"""Check captions against a tracked run: which words and groups they share, and how these correlate."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.errors import InputError
from src.stimuli import taxonomy
from src.storage import results
from src.studies.sobit.captions import associations, cli, output
from src.tracking import Tracker
from tests.studies.sobit.captions.examples import write_captions

WORDS = 60


def draw_ratios(seed=0, groups=(("race", "Black"), ("race", "White"), ("gender", "Men"))):
    """Draw rows of ratios.csv; each word is also in a second category."""
    rng = np.random.default_rng(seed)
    rows = [
        {"category": "one", "word": f"word{number}", "type": "noun", "axis": axis, "group": group,
         "captions": 100_000, "n_word": 400 if number else 3, "n_group": 10_000,
         "n_both": int(rng.binomial(400, 0.1 * math.exp(rng.normal(0, 0.4))))}
        for number in range(WORDS) for axis, group in groups
    ]  # fmt: skip
    result = pd.DataFrame(rows)
    return pd.concat([result, result.assign(category="two")], ignore_index=True)


def draw_analyses(ratios, noise=0.2, seed=1, **renamed):
    """Draw rows of analyses.csv in which associations follow the ratios."""
    rng = np.random.default_rng(seed)
    result = ratios[["category", "word", "type", "axis", "group"]].copy()
    expected = np.log((ratios["n_both"] + 0.5) / 40)
    by_word = dict.fromkeys(zip(result["word"], result["group"], strict=True))
    noises = dict(zip(by_word, rng.normal(0, noise, len(by_word)), strict=True))
    keys = zip(result["word"], result["group"], strict=True)
    result["association"] = expected + [noises[key] for key in keys]
    fields = {"exp": "sobit_association", "paper": "So-B-IT", "model": "toy", "dataset": "demo"}
    fields |= {"debias": "none", "protocol": "paper", "seed": 0, "config": "c", "run": "r"}
    return result.assign(**fields).replace({"group": renamed})


def test_a_planted_correlation_is_detected_and_an_absent_correlation_is_not():
    ratios, analyses = draw_ratios(), draw_analyses(draw_ratios())
    result = associations.correlate(ratios, analyses, 0).set_index("group")
    association_of = analyses.drop_duplicates(associations.KEYS).set_index(["word", "group"])["association"]
    for group in ("Black", "White", "Men"):
        item = result.loc[group]
        subset = ratios[(ratios["group"] == group) & (ratios["category"] == "one") & (ratios["n_word"] >= 20)]
        expected = stats.spearmanr(
            np.log((subset["n_both"] + 0.5) / 40.5), [association_of[word, group] for word in subset["word"]]
        )
        assert item["rho"] == pytest.approx(expected.statistic)
        assert item["rho_low"] < item["rho"] < item["rho_high"]
        assert item["rho"] > item["placebo_q95"]
        assert item["p"] == pytest.approx(1 / 1001)
        assert item["q"] == pytest.approx(1 / 1001)
        assert item[["n", "n_rare", "n_unmatched"]].tolist() == [WORDS - 1, 1, 0]
    again = associations.correlate(ratios, draw_analyses(ratios), 0).set_index("group")
    pd.testing.assert_frame_equal(result, again)
    absent = associations.correlate(ratios, draw_analyses(ratios, noise=50), 0)
    assert (absent["p"] > 0.01).all()
    assert absent["placebo_q95"].between(0.2, 0.32).all()


def test_groups_and_words_of_a_single_side_are_reported():
    ratios = draw_ratios()
    analyses = draw_analyses(ratios, Men="Male")
    result = associations.correlate(ratios, analyses[analyses["word"] != "word5"], 0).set_index("group")
    assert result.loc["Men", "reason"] == "the run has no group of this name on this axis"
    assert result.loc["Male", "reason"] == "the label words include none for this group on this axis"
    assert result.loc[["Men", "Male"], ["rho", "p", "q"]].isna().all(axis=None)
    assert result.loc["Black", "n"] == WORDS - 2
    fewer = associations.correlate(ratios[ratios["word"] != "word5"], analyses, 0).set_index("group")
    assert fewer.loc["Black", "n_unmatched"] == 1
    without_group = associations.correlate(ratios.assign(n_group=0), draw_analyses(ratios), 0)
    assert set(without_group["reason"]) == {"no caption names the group"}
    rare = associations.correlate(ratios.assign(n_word=5), draw_analyses(ratios), 0)
    assert set(rare["reason"]) == {"0 words: at least 3 are needed"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Store two finished runs, a failed one, and one of another experiment; return tracker, ids and URI.

    The digest of the second run is wrong, so that its results count as altered.
    """
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder}/mlflow.db"
    tracker = Tracker(uri)
    analyses = draw_analyses(draw_ratios()).drop(columns="run")
    ids = {}
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
        run.end(status)
        ids[name] = run.id
    return tracker, ids, uri


def test_an_audit_writes_correlations_with_a_run(store, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    words = pd.DataFrame(
        {"category": "one", "word": [f"word{number}" for number in range(WORDS)], "type": "noun"}
    )
    monkeypatch.setattr(taxonomy, "words", lambda cfg: words)
    monkeypatch.setattr(output, "drawings", lambda ratios: [])
    drawn = rng.choice(words["word"], 4000)
    people = rng.choice(["black", "white man", "men", "sea"], 4000)
    path = write_captions(
        tmp_path / "in.parquet", [f"{word} {person}" for word, person in zip(drawn, people, strict=True)]
    )
    _, ids, uri = store
    arguments = [f"path={path}", f"run={ids['first'][:20]}", f"tracking.uri={uri}", f"output={tmp_path}/out"]
    assert cli.main(arguments) == 0
    result = pd.read_csv(tmp_path / "out" / "correlations.csv").set_index("group")
    assert set(result["run"]) == {ids["first"]}
    assert result.loc[["Black", "White", "Men"], "n"].tolist() == [WORDS] * 3
    assert result.loc[["Black", "White", "Men"], "rho"].abs().max() < 0.5
    assert result.loc["Asian", "reason"] == "the run has no group of this name on this axis"
    message = " ".join(capsys.readouterr().out.split())
    assert f"against run {ids['first']}" in message.replace("\n", " ")


def test_runs_that_cannot_serve_are_refused(store):
    tracker, ids, _ = store
    for name in ("failed", "other"):
        with pytest.raises(InputError, match="no finished run of sobit_association has this id") as error:
            associations.find_run(tracker, ids[name])
        assert ids["first"] in str(error.value)
        assert ids[name] not in str(error.value).partition(". ")[2]
    with pytest.raises(InputError, match="cannot read its results .other content than was written"):
        associations.load_analyses(tracker, associations.find_run(tracker, ids["second"]))
    with pytest.raises(InputError, match="begins the ids of 2 runs"):
        associations.find_run(tracker, "")
