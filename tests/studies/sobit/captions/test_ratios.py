"""Check ratios of captions by hand, simulation and permutation, and their correlation with a tracked run."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from src.errors import InputError
from src.stimuli import taxonomy
from src.storage import results
from src.studies.sobit.captions import associations, cli, output, ratios
from src.studies.sobit.captions.counting import count_captions, create_counts
from src.tracking import Tracker
from tests.studies.sobit.captions.examples import LEXICON, WORDS, write_captions


def table(captions):
    import polars as pl

    return ratios.build_table(count_captions(pl.Series(captions), LEXICON), LEXICON, WORDS)


def row(result, word, group, category=None):
    rows = result[(result["word"] == word) & (result["group"] == group)]
    return (rows if category is None else rows[rows["category"] == category]).iloc[0]


def test_a_table_by_hand():
    captions = (
        ["calm black man"] * 3 + ["calm"] * 5 + ["calm white man"] * 2 + ["white man"] * 8 + ["sea"] * 22
    )
    result = table(captions)
    assert len(result) == len(WORDS) * len(LEXICON.groups)
    assert result["word"].tolist() == WORDS["word"].repeat(len(LEXICON.groups)).tolist()
    item = row(result, "calm", "Black")
    assert item[["captions", "n_word", "n_group", "n_both"]].tolist() == [40, 10, 3, 3]
    assert item[["share", "base", "ratio"]].tolist() == pytest.approx([0.3, 3 / 40, 4.0])
    assert item[["n_named", "n_word_named"]].tolist() == [13, 5]
    assert item[["share_named", "base_named"]].tolist() == pytest.approx([3 / 5, 3 / 13])
    assert item["ratio_named"] == pytest.approx(13 / 5)
    assert item["ratio_low"] < 4 < item["ratio_high"]
    assert item["p"] == pytest.approx(2 * math.comb(10, 3) / math.comb(40, 3))
    assert item["note"] == ""
    again = row(result, "calm", "Black", "behaviour").drop("category")
    pd.testing.assert_series_equal(
        again, row(result, "calm", "Black", "health").drop("category"), check_names=False
    )


def test_absent_words_and_groups_have_no_ratio_but_a_note():
    result = table(["calm", "white man", "sea"])
    numbers = ["ratio", "ratio_low", "ratio_high", "placebo_low", "placebo_high", "p", "q"]
    for word, group, note in (("savage", "White", ratios.NO_WORD), ("calm", "Black", ratios.NO_GROUP)):
        item = row(result, word, group)
        assert item[numbers].isna().all()
        assert item["note"] == note
    zero = row(result, "calm", "White")
    assert zero["ratio"] == zero["ratio_low"] == 0
    assert 1 < zero["ratio_high"] < math.inf
    assert ratios.build_table(create_counts(LEXICON), LEXICON, WORDS)["ratio"].isna().all()


def test_q_is_over_words_within_axis_and_group_each_word_once():
    rng = np.random.default_rng(0)
    words = rng.choice(["calm", "savage", "a criminal", "homemaker", "sea"], 3000)
    people = np.where(
        words == "savage", "white woman", rng.choice(["black man", "white", "men", "dog"], 3000)
    )
    result = table([f"{word} {person}" for word, person in zip(words, people, strict=True)])
    rows = result[result["group"] == "Black"].drop_duplicates(["word", "type"]).dropna(subset=["p"])
    assert len(rows) == 4
    np.testing.assert_allclose(rows["q"], stats.false_discovery_control(rows["p"]))


@given(st.integers(1, 10_000_000), st.floats(0, 1))
def test_wilson_is_scipy_s(trials, share):
    successes = round(share * trials)
    low, high = ratios.compute_wilson_interval(np.array([successes]), np.array([trials]))
    expected = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


# Number of captions, share with the word, share with the group, and ratio: rare and frequent, more and less,
# and a group that is hardly named without the word.
POPULATIONS = [
    *((20_000, 0.01, 0.05, 1), (20_000, 0.01, 0.05, 0.3), (20_000, 0.002, 0.002, 400), (2_000, 0.01, 0.1, 3)),
    *((2_000, 0.9, 0.1, 1.05), (1_000_000, 0.0001, 0.1, 1.5)),
]


@pytest.mark.parametrize(("captions", "word", "group", "ratio"), POPULATIONS)
def test_the_interval_covers_the_truth_19_times_in_20(captions, word, group, ratio):
    both = word * group * ratio
    rng = np.random.default_rng(1)
    cells = rng.multinomial(captions, [both, word - both, group - both, 1 - word - group + both], size=8000)
    low, high = ratios.compute_ratio_interval(
        cells[:, 0], cells[:, :2].sum(axis=1), cells[:, [0, 2]].sum(axis=1), cells.sum(axis=1)
    )
    assert 0.94 < np.mean((low <= ratio) & (ratio <= high)) < 0.975


def test_p_and_placebo_are_those_of_permuted_groups_and_of_fisher_s_test():
    rng = np.random.default_rng(0)
    word, group = np.arange(200) < 30, np.arange(200) >= 155
    group[:12] = True
    sizes = [np.array([number]) for number in (int((word & group).sum()), 30, int(group.sum()), 200)]
    permuted = rng.permuted(np.broadcast_to(group, (40_000, 200)), axis=1)[:, :30].sum(axis=1)
    tail = min((permuted <= sizes[0]).mean(), (permuted >= sizes[0]).mean())
    assert ratios.p_value(*sizes)[0] == pytest.approx(2 * tail, abs=0.01)
    low, high = ratios.compute_placebo_range(*sizes[1:])
    expected = np.quantile(permuted, [0.025, 0.975]) / (30 * group.mean())
    assert [low[0], high[0]] == pytest.approx(expected.tolist(), abs=1e-9)
    # Where the distribution is symmetric, twice the smaller tail is the p of Fisher's exact test.
    for both in range(21):
        expected = stats.fisher_exact([[both, 20 - both], [20 - both, both]]).pvalue
        result = ratios.p_value(*(np.array([n]) for n in (both, 20, 20, 40)))
        assert result[0] == pytest.approx(expected, rel=1e-9)


N_WORDS = 60


def draw_ratios(seed=0, groups=(("race", "Black"), ("race", "White"), ("gender", "Men"))):
    """Draw rows of ratios.csv; each word is also in a second category."""
    rng = np.random.default_rng(seed)
    rows = [
        {"category": "one", "word": f"word{number}", "type": "noun", "axis": axis, "group": group,
         "captions": 100_000, "n_word": 400 if number else 3, "n_group": 10_000,
         "n_both": int(rng.binomial(400, 0.1 * math.exp(rng.normal(0, 0.4))))}
        for number in range(N_WORDS) for axis, group in groups
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
    fields |= {"debias": "none", "perturb": "none", "protocol": "paper", "seed": 0, "config": "c", "run": "r"}
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
        assert item[["n", "n_rare", "n_unmatched"]].tolist() == [N_WORDS - 1, 1, 0]
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
    assert result.loc["Male", "reason"] == "the labels have no words for this group on this axis"
    assert result.loc[["Men", "Male"], ["rho", "p", "q"]].isna().all(axis=None)
    assert result.loc["Black", "n"] == N_WORDS - 2
    fewer = associations.correlate(ratios[ratios["word"] != "word5"], analyses, 0).set_index("group")
    assert fewer.loc["Black", "n_unmatched"] == 1
    without_group = associations.correlate(ratios.assign(n_group=0), draw_analyses(ratios), 0)
    assert set(without_group["reason"]) == {"no caption names the group"}
    rare = associations.correlate(ratios.assign(n_word=5), draw_analyses(ratios), 0)
    assert set(rare["reason"]) == {"expected at least 3 words, got 0"}


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
        run = tracker.start_run("demo", name)
        results.write(folder / name, analyses, {})
        digest = results.compute_digest(folder / name) if name != "second" else "other"
        run.log(tags={"kind": "job", "exp": exp, "model": "toy", "results": digest})
        run.log_artifacts(folder / name / "results", "results")
        run.end(status)
        ids[name] = run.id
    return tracker, ids, uri


def test_an_audit_writes_correlations_with_a_run(store, tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    words = pd.DataFrame(
        {"category": "one", "word": [f"word{number}" for number in range(N_WORDS)], "type": "noun"}
    )
    monkeypatch.setattr(taxonomy, "load_words", lambda cfg: words)
    monkeypatch.setattr(output, "draw_ratios", lambda ratios: [])
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
    assert result.loc[["Black", "White", "Men"], "n"].tolist() == [N_WORDS] * 3
    assert result.loc[["Black", "White", "Men"], "rho"].abs().max() < 0.5
    assert result.loc["Asian", "reason"] == "the run has no group of this name on this axis"
    message = " ".join(capsys.readouterr().out.split())
    assert f"associations of run {ids['first']}" in message.replace("\n", " ")


def test_runs_that_cannot_serve_are_refused(store):
    tracker, ids, _ = store
    for name in ("failed", "other"):
        with pytest.raises(InputError, match="no finished run of sobit_association has this id") as error:
            associations.find_run(tracker, ids[name])
        assert ids["first"] in str(error.value)
        assert ids[name] not in str(error.value).partition(". ")[2]
    with pytest.raises(InputError, match="cannot read its results .their content differs"):
        associations.load_analyses(tracker, associations.find_run(tracker, ids["second"]))
    with pytest.raises(InputError, match="2 runs have ids that begin with this"):
        associations.find_run(tracker, "")
