"""The ranking of models is the paper's: sums of average ranks, lower first, and nobody falls out unsaid."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.report import zoo
from tests.report import audited


def brute(values):
    """Average ranks, told by counting."""
    return [sum(other < one for other in values) + (sum(other == one for other in values) + 1) / 2 for one in values]


def table(rng, size):
    # Two digits: ties there are.
    return pd.DataFrame(
        {
            "model": [f"m{number}" for number in range(size)],
            "competence": rng.uniform(0, 0.3, size).round(2),
            "emotions": rng.uniform(0, 0.3, size).round(2),
            "iat": rng.integers(0, 60, size) / 3,
        }
    )


@pytest.fixture
def ninety():
    """The shape of the paper's table 2: 90 models of 56 pretraining sets."""
    rng = np.random.default_rng(0)
    sets = np.concatenate([np.arange(56), rng.choice(12, 34)])
    return table(rng, 90).assign(pretraining=[f"set{number}" for number in rng.permutation(sets)])


def test_the_rank_is_the_sum_of_average_ranks(ninety):
    found = zoo.ranking(ninety).set_index("model")
    ranks = {name: brute(ninety[name].tolist()) for name in zoo.MEASURES}
    sums = [sum(ranks[name][row] for name in zoo.MEASURES) for row in range(90)]
    for name in zoo.MEASURES:
        assert found.loc[ninety["model"], f"{name}_rank"].tolist() == ranks[name]
    assert found.loc[ninety["model"], "rank_sum"].tolist() == sums
    assert found["rank_sum"].is_monotonic_increasing
    assert found.loc[ninety["model"], "place"].tolist() == [1 + sum(other < one for other in sums) for one in sums]
    assert len(set(ninety["competence"])) < 90


def test_sets_of_the_shape_of_the_paper_s_table_2(ninety):
    found = zoo.by_pretraining(ninety)
    assert len(found) == 56
    assert found["models"].sum() == 90
    assert found["models"].max() > 1
    assert not found["incomplete"].any()
    by_hand = {}
    for row in ninety.to_dict("records"):
        by_hand.setdefault(row["pretraining"], []).append(row)
    means = {
        name: {one: sum(row[one] for row in rows) / len(rows) for one in zoo.MEASURES} for name, rows in by_hand.items()
    }
    order = list(means)
    ranks = {one: brute([round(means[name][one], 12) for name in order]) for one in zoo.MEASURES}
    keyed = found.set_index("pretraining")
    for number, name in enumerate(order):
        row = keyed.loc[name]
        assert row["models"] == len(by_hand[name])
        assert row["rank_sum"] == sum(ranks[one][number] for one in zoo.MEASURES)
        for one in zoo.MEASURES:
            assert row[one] == pytest.approx(means[name][one], abs=1e-15)
            spread = [other[one] for other in by_hand[name]]
            sd = np.std(spread, ddof=1) if len(spread) > 1 else np.nan
            assert row[f"{one}_sd"] == pytest.approx(sd, nan_ok=True)
    assert found["rank_sum"].is_monotonic_increasing


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=12), st.randoms())
def test_ranks_do_not_depend_on_the_order_or_the_scale_of_rows(rows, random):
    models = pd.DataFrame(rows, columns=list(zoo.MEASURES), dtype=float).assign(model=range(len(rows)))
    found = zoo.ranking(models).set_index("model")["rank_sum"]
    other = list(range(len(rows)))
    random.shuffle(other)
    shuffled = models.iloc[other].reset_index(drop=True)
    shuffled["iat"] = shuffled["iat"] * 7 + 1
    pd.testing.assert_series_equal(zoo.ranking(shuffled).set_index("model")["rank_sum"].loc[found.index], found)
    assert found.sum() == 3 * len(rows) * (len(rows) + 1) / 2


def test_a_model_without_a_measure_is_listed_and_not_ranked(ninety):
    gone = ninety.copy()
    gone.loc[[3, 50], "iat"] = np.nan
    found = zoo.ranking(gone)
    assert len(found) == 90
    assert set(found["model"].tail(2)) == {"m3", "m50"}
    assert found[["rank_sum", "place", "competence_rank", "iat_rank"]].tail(2).isna().all(axis=None)
    expected = zoo.ranking(ninety.drop([3, 50]).reset_index(drop=True))
    pd.testing.assert_frame_equal(found.head(88), expected)
    sets = zoo.by_pretraining(gone)
    assert sets["models"].sum() == 88
    assert sets["incomplete"].sum() == 2
    alone = gone["pretraining"].value_counts()
    alone = [name for name in gone.loc[[3, 50], "pretraining"] if alone[name] == 1]
    assert sets.loc[sets["place"].isna(), "pretraining"].tolist() == alone


def test_nobody_can_be_ranked_or_nobody_is_there(ninety):
    assert zoo.ranking(ninety.assign(iat=np.nan))["place"].isna().all()
    assert zoo.ranking(ninety.head(0)).empty
    assert zoo.by_pretraining(ninety.head(0)).empty


@pytest.fixture
def audits(tmp_path):
    return audited.audited(tmp_path, models=("a", "b"), groups=["x", "y", "z"], debias=("none", "gone")).audits


def test_measures_are_means_over_pairs_of_what_was_not_debiased(audits):
    found = zoo.measures(audits).set_index("model")
    assert list(found.index) == ["a", "b"]
    for model, row in found.iterrows():
        own = audits[(audits["model"] == model) & (audits["debias"] == "none")]
        for attribute in ("competence", "emotions"):
            gaps = own.loc[own["attribute"] == attribute, "cles_gap"].tolist()
            assert row[attribute] == pytest.approx(sum(gaps) / 3)
        scores = own.loc[own["exp"] == "iat_semantic", "iat"].tolist()
        assert row["iat"] == pytest.approx(sum(scores) / 3)
        nulls = own.loc[own["exp"] == "iat_semantic", "null_mean"].tolist()
        assert row["iat_null"] == pytest.approx(sum(nulls) / 3)
        assert row["groups"] == "x, y, z"
        assert row["iat_n"] == 12


def test_another_run_of_a_config_counts_once_and_the_later(audits):
    later = audits.assign(cles_gap=audits["cles_gap"] / 2)
    found = zoo.measures(pd.concat([audits, later], ignore_index=True))
    expected = zoo.measures(audits)
    assert len(found) == 2
    np.testing.assert_allclose(found["competence"], expected["competence"] / 2)
    # Another config of the same audit: the later one, not a mean of both.
    other = audits.assign(config=audits["config"] + "b", cles_gap=audits["cles_gap"] * 3)
    found = zoo.measures(pd.concat([other, audits], ignore_index=True))
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize(
    ("column", "value"), [("protocol", "ties_strict"), ("seed", 1), ("dataset", "paper"), ("faces", "ff")]
)
def test_readings_are_never_mixed(audits, column, value):
    audits = audits.assign(faces="00")
    other = audits[audits["exp"] == "cles_competence"].assign(**{column: value, "config": "c"}).head(3)
    measured = zoo.measures(pd.concat([other, audits], ignore_index=True))
    assert len(measured) == 3
    parts = zoo.readings(measured)
    pd.testing.assert_frame_equal(parts[0].reset_index(drop=True), zoo.measures(audits))
    assert parts[1][column].tolist() == [value]
    assert not zoo.complete(parts[1]).any()


def test_other_groups_are_another_reading(audits):
    two = audits[(audits["model"] == "a") & (audits["group_b"] == "y")]
    measured = zoo.measures(pd.concat([audits[audits["model"] == "b"], two], ignore_index=True))
    assert measured["groups"].tolist() == ["x, y, z", "x, y"]
    assert len(zoo.readings(measured)) == 2


def test_of_equal_readings_the_paper_s_is_shown(audits):
    other = audits.assign(protocol="ties_strict", config=audits["config"] + "b")
    measured = zoo.measures(pd.concat([other, audits], ignore_index=True))
    assert zoo.readings(measured)[0]["protocol"].tolist() == ["paper", "paper"]


def test_a_pair_without_a_number_leaves_its_model_unranked(audits):
    row = audits.index[(audits["model"] == "a") & (audits["attribute"] == "competence")][0]
    audits.loc[row, "cles_gap"] = np.nan
    measured = zoo.measures(audits)
    assert zoo.complete(measured).tolist() == [False, True]


def test_no_audits_give_no_rows():
    assert zoo.measures(pd.DataFrame()).empty
    assert zoo.readings(zoo.measures(pd.DataFrame())) == []


def test_the_set_of_a_model_that_nobody_knows_is_unknown(audits):
    measured = zoo.measures(audits)
    models = pd.DataFrame({"model": ["b"], "pretraining": ["openai"]})
    assert zoo.with_pretraining(measured, models)["pretraining"].tolist() == ["unknown", "openai"]
    assert set(zoo.with_pretraining(measured, models[["model"]])["pretraining"]) == {"unknown"}
