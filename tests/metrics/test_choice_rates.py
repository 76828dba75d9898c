"""Check choice rates and Kendall's tau against counts and scipy, with and without resampling weights."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from src.metrics import choice_rates, choice_tables, kendall_tau_b, rate_gaps, resampled_tables, stuart_tau_c

pytestmark = pytest.mark.filterwarnings("error")

# Polarity, answer (None: matches no option), cluster.
answers = st.lists(
    st.tuples(st.sampled_from([1, -1]), st.sampled_from([1, -1, 0, None]), st.integers(0, 4)),
    min_size=1,
    max_size=40,
)
varied = answers.filter(
    lambda rows: len({x for x, _, _ in rows}) == 2 and len({y or 0 for _, y, _ in rows}) > 1 and len(rows) > 2
)


def to_arrays(rows):
    x = np.array([x for x, _, _ in rows])
    y = np.array([y or 0 for _, y, _ in rows])
    matched = np.array([y is not None for _, y, _ in rows])
    return x, y, matched, np.array([cluster for _, _, cluster in rows])


def count_table(rows):
    x, y, matched, _ = to_arrays(rows)
    return choice_tables(x, y, matched, np.zeros(len(x), dtype=int))[0]


def naive_rate(rows, polarity, answer):
    matched = [y for x, y, _ in rows if x == polarity and y is not None]
    return 100 * sum(y == answer for y in matched) / len(matched) if matched else np.nan


@given(rows=answers)
def test_rates_are_shares_of_the_matched_answers_of_a_polarity(rows):
    table = count_table(rows)
    expected = [[naive_rate(rows, x, y) for y in (1, -1, 0)] for x in (1, -1)]
    assert choice_rates(table) == pytest.approx(np.array(expected), nan_ok=True)
    assert rate_gaps(table) == pytest.approx(np.subtract(*expected), nan_ok=True)


@given(rows=varied)
def test_tau_c_is_scipys_with_the_unmatched_at_0(rows):
    x, y, _, _ = to_arrays(rows)
    assert stuart_tau_c(count_table(rows)) == pytest.approx(
        stats.kendalltau(x, y, variant="c").statistic, abs=1e-12
    )


@given(rows=varied)
def test_tau_b_and_its_asymptotic_p_are_scipys(rows):
    x, y, _, _ = to_arrays(rows)
    tau_b, p = kendall_tau_b(x, y)
    assert tau_b == pytest.approx(stats.kendalltau(x, y, variant="b").statistic, abs=1e-12)
    reference = stats.kendalltau(x, y, variant="c", method="asymptotic")
    assert p == pytest.approx(reference.pvalue, rel=1e-9)


@given(rows=answers)
def test_always_the_same_answer_is_no_association(rows):
    assume(len({x for x, _, _ in rows}) == 2)
    constant = count_table([(x, 0, cluster) for x, _, cluster in rows])
    assert stuart_tau_c(constant) == 0
    assert choice_rates(constant).tolist() == [[0, 0, 100], [0, 0, 100]]
    assert np.isnan(kendall_tau_b(to_arrays(rows)[0], np.zeros(len(rows)))).all()


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


@given(rows=answers, positions=st.lists(st.integers(0, 10**6), min_size=5, max_size=5))
def test_weights_repeat_clusters(rows, positions):
    x, y, matched, cluster = to_arrays(rows)
    tables = choice_tables(x, y, matched, cluster)
    sample = np.array(positions) % len(tables)
    weights = np.bincount(sample, minlength=len(tables))[None]
    repeated = np.concatenate([np.flatnonzero(cluster == number) for number in sample])
    (table,) = resampled_tables(tables, weights)
    repeated_rows = [(rows[i][0], rows[i][1], 0) for i in repeated]
    for polarity in (1, -1):
        for column, answer in enumerate((1, -1, 0)):
            result = choice_rates(table)[0 if polarity == 1 else 1, column]
            assert result == pytest.approx(naive_rate(repeated_rows, polarity, answer), nan_ok=True)
    if len(set(x[repeated])) == 2 and len(set(y[repeated])) > 1:
        expected = stats.kendalltau(x[repeated], y[repeated], variant="c").statistic
        assert stuart_tau_c(table) == pytest.approx(expected, abs=1e-12)
