"""Check rates and Kendall's tau of choices against counting and scipy, also on repeated rows."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import choice_rates, choice_tables, kendall_tau_b, rate_gaps, resampled_tables, stuart_tau_c

pytestmark = pytest.mark.filterwarnings("error")

# Polarity, answer (None: unmatched), cluster.
answers = st.lists(
    st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, -1, 0, None]), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)
varied = answers.filter(
    lambda rows: len({x for x, _, _ in rows}) == 2 and len({y or 0 for _, y, _ in rows}) > 1 and len(rows) > 2
)


def arrays(rows):
    x = np.array([x for x, _, _ in rows])
    y = np.array([y or 0 for _, y, _ in rows])
    matched = np.array([y is not None for _, y, _ in rows])
    return x, y, matched, np.array([cluster for _, _, cluster in rows])


def complete(rows):
    x, y, matched, _ = arrays(rows)
    return choice_tables(x, y, matched, np.zeros(len(x), dtype=int))[0]


def naive_rate(rows, polarity, answer):
    requested = [y for x, y, _ in rows if x == polarity and y is not None]
    return 100 * sum(y == answer for y in requested) / len(requested) if requested else np.nan


@given(rows=answers)
def test_rates_are_shares_of_the_matched_answers_of_a_polarity(rows):
    table = complete(rows)
    expected = [[naive_rate(rows, x, y) for y in (1, -1, 0)] for x in (1, -1)]
    assert choice_rates(table) == pytest.approx(np.array(expected), nan_ok=True)
    assert rate_gaps(table) == pytest.approx(np.subtract(*expected), nan_ok=True)


@given(rows=varied)
def test_tau_c_is_scipys_with_the_unmatched_at_0(rows):
    x, y, _, _ = arrays(rows)
    assert stuart_tau_c(complete(rows)) == pytest.approx(
        stats.kendalltau(x, y, variant="c").statistic, abs=1e-12
    )


@given(rows=varied)
def test_tau_b_and_the_p_of_both_are_scipys(rows):
    x, y, _, _ = arrays(rows)
    tau_b, p = kendall_tau_b(x, y)
    assert tau_b == pytest.approx(stats.kendalltau(x, y, variant="b").statistic, abs=1e-12)
    of_c = stats.kendalltau(x, y, variant="c", method="asymptotic")
    assert p == pytest.approx(of_c.pvalue, rel=1e-9)


@given(rows=answers)
def test_always_the_same_answer_is_no_association(rows):
    assume(len({x for x, _, _ in rows}) == 2)
    same = complete([(x, 0, cluster) for x, _, cluster in rows])
    assert stuart_tau_c(same) == 0
    assert choice_rates(same).tolist() == [[0, 0, 100], [0, 0, 100]]
    assert np.isnan(kendall_tau_b(arrays(rows)[0], np.zeros(len(rows)))).all()


@pytest.mark.parametrize("y", [(), (1,), (1, -1), (1, 0, -1, 1)])
def test_a_single_polarity_has_rates_but_no_gaps(y):
    x, y = np.ones(len(y), dtype=int), np.array(y, dtype=int)
    table = choice_tables(x, y, np.ones(len(y), dtype=bool), np.zeros(len(y), dtype=int)).sum(axis=0)
    assert np.isnan(choice_rates(table)[1]).all()
    assert np.isnan(choice_rates(table)[0]).all() == (len(y) == 0)
    assert np.isnan(rate_gaps(table)).all()
    assert np.isnan(stuart_tau_c(table))
    assert np.isnan(kendall_tau_b(x, y)).all()


def test_two_answers_have_no_asymptotic_p():
    assert kendall_tau_b(np.array([1, -1]), np.array([1, 0])) == pytest.approx((1, 1))


@given(rows=answers, drawn=st.lists(st.integers(0, 10**6), min_size=5, max_size=5))
def test_weights_are_clusters_written_out_again(rows, drawn):
    x, y, matched, cluster = arrays(rows)
    tables = choice_tables(x, y, matched, cluster)
    sample = np.array(drawn) % len(tables)
    weights = np.bincount(sample, minlength=len(tables))[None]
    again = np.concatenate([np.flatnonzero(cluster == number) for number in sample])
    (table,) = resampled_tables(tables, weights)
    literal = [(rows[i][0], rows[i][1], 0) for i in again]
    for number in (1, -1):
        for column, answer in enumerate((1, -1, 0)):
            result = choice_rates(table)[0 if number == 1 else 1, column]
            assert result == pytest.approx(naive_rate(literal, number, answer), nan_ok=True)
    if len(set(x[again])) == 2 and len(set(y[again])) > 1:
        expected = stats.kendalltau(x[again], y[again], variant="c").statistic
        assert stuart_tau_c(table) == pytest.approx(expected, abs=1e-12)
