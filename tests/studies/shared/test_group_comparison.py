"""Check draws of two groups' faces: people, sets and linked morphs move whole, single faces singly."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from src.stimuli import build_table
from src.studies.shared.group_comparison import (
    draw_group_weights,
    draw_pair_partitions,
    draw_partitions,
    sample_rows,
)
from src.studies.shared.resampling import draw_weights


def table_of(rows):
    """Build faces from (group, further columns) with ids in another order than the rows."""
    frame = pd.DataFrame([{"group": group, **columns} for group, columns in rows])
    frame["id"] = [f"f{37 * place % 1009:04d}" for place in range(len(frame))]
    return build_table("faces", frame, "t")


def people(sizes, *, column="person"):
    """Build faces from group -> number of faces of each of its people."""
    return table_of(
        (group, {column: f"{group}{number}"})
        for group, counts in sizes.items()
        for number, count in enumerate(counts)
        for _ in range(count)
    )


def rows_of(table):
    groups = table.frame["group"].to_numpy()
    return {group: np.flatnonzero(groups == group) for group in table.groups}


def draw_masks(table, draws=400, seed=0):
    rows = rows_of(table)
    masks, reason = draw_pair_partitions(table, rows["a"], rows["b"], draws, seed)
    assert reason == ""
    assert masks.shape == (draws, len(table.frame))
    # In the order of the table.
    ordered = np.empty_like(masks)
    ordered[:, np.concatenate([rows["a"], rows["b"]])] = masks
    return ordered


def by_name(values, names):
    """Return the value of each name, in order, [draws, names]; faces of a name must share it, [draws, n]."""
    columns = [values[:, (names == name)] for name in sorted(set(names))]
    assert all((column == column[:, :1]).all() for column in columns)
    return np.column_stack([column[:, 0] for column in columns])


def refusal(table):
    rows = rows_of(table)
    masks, reason = draw_pair_partitions(table, rows["a"], rows["b"], 50, 0)
    assert masks.shape == (0, len(table.frame))
    return reason


SHARED_PEOPLE = table_of((group, {"person": f"p{n:02d}"}) for n in range(20) for group in "ab")
SINGLE = {
    "ids": [(group, {}) for group in "abab" * 5],
    "people": [(group, {"person": f"p{number}"}) for number, group in enumerate("abab" * 5)],
    "clusters": [(group, {"cluster": f"p{number}"}) for number, group in enumerate("abab" * 5)],
    "unknown": [(group, {"person": None if number else "p"}) for number, group in enumerate("abab" * 5)],
    "empty sets": [(group, {"set": None}) for group in "abab" * 5],
}


@pytest.mark.parametrize("name", SINGLE)
def test_faces_of_different_people_draw_as_single_faces(name):
    table = table_of(SINGLE[name])
    rows = rows_of(table)
    ids = {group: table.frame["id"].iloc[group_rows].tolist() for group, group_rows in rows.items()}
    masks, reason = draw_pair_partitions(table, rows["b"], rows["a"], 60, 3)
    assert (reason, masks.tolist()) == ("", draw_partitions(ids["b"] + ids["a"], 10, 60, 3).tolist())
    weights = draw_group_weights(table, rows, 60, 3)
    for group in "ab":
        expected = draw_weights(pd.DataFrame({"name": ids[group]}), 60, 3)
        assert weights[group].tolist() == expected.tolist()


def test_morphs_without_common_parents_are_permuted_singly_and_drawn_by_parents():
    table = table_of((group, {"parent_a": f"p{n}", "parent_b": f"q{n}"}) for n, group in enumerate("ab" * 6))
    rows = rows_of(table)
    masks, reason = draw_pair_partitions(table, rows["a"], rows["b"], 40, 1)
    ids = [table.frame["id"].iloc[row] for group in "ab" for row in rows[group]]
    assert (reason, masks.tolist()) == ("", draw_partitions(ids, 6, 40, 1).tolist())
    weights = draw_group_weights(table, rows, 40, 1)
    for group in "ab":
        units = table.frame.iloc[rows[group]].assign(name=lambda frame: frame["id"])
        assert weights[group].tolist() == draw_weights(units, 40, 1).tolist()


@pytest.mark.parametrize("column", ["person", "cluster"])
def test_people_change_places_with_people_of_as_many_faces(column):
    sizes = {"a": [1] * 5 + [2] * 3 + [3], "b": [1] * 5 + [2] * 3 + [3, 4]}
    table = people(sizes, column=column)
    masks, names = draw_masks(table, 4000), table.frame[column]
    people_in_a = by_name(masks, names)
    counts = names.value_counts()
    for size, n_a in ((1, 5), (2, 3), (3, 1), (4, 0)):
        is_size = counts.sort_index().eq(size).to_numpy()
        drawn = Counter(map(tuple, people_in_a[:, is_size].astype(int)))
        # Brute force: all choices of as many people, equally often.
        chosen = [*combinations(range(sum(is_size)), n_a)]
        placements = {tuple(int(i in members) for i in range(sum(is_size))) for members in chosen}
        assert set(drawn) == placements
        assert len(placements) == 1 or stats.chisquare([*drawn.values()]).pvalue > 1e-4
    assert (masks.sum(axis=1) == 14).all()


def test_people_change_places_within_their_sets_and_keep_a_group():
    # Twelve sets of two people, then two people who meet in two sets.
    rows = [(group, {"set": f"s{n}", "person": f"{group}{n}"}) for n in range(12) for group in "ab"]
    rows += [(group, {"set": f"t{n}", "person": f"{group}-both"}) for n in range(2) for group in "ab"]
    table = table_of(rows)
    masks = draw_masks(table, 3000)
    in_a = pd.DataFrame(masks.T.astype(int)).groupby(table.frame["set"].to_numpy()).sum()
    assert (in_a == 1).all(axis=None)
    is_linked = (table.frame["person"] == "a-both").to_numpy()
    first, second = masks[:, is_linked].T
    assert (first == second).all()
    # Brute force: every one of the 2^13 placements is equally likely, so that sets are independent coins.
    places = masks[:, [np.flatnonzero(table.frame["person"] == f"a{n}")[0] for n in range(12)]]
    coins = np.column_stack([places, first])
    patterns = Counter(map(tuple, coins[:, [0, 5, 12]].astype(int)))
    assert set(patterns) == {*product((0, 1), repeat=3)}
    assert stats.chisquare([*patterns.values()]).pvalue > 1e-4
    assert np.abs(np.corrcoef(coins.T.astype(float)) - np.eye(13)).max() < 0.1


def test_families_of_morphs_change_places():
    rows = [
        (group, {"parent_a": f"{group}{n}{first}", "parent_b": f"{group}{n}{second}"})
        for group in "ab"
        for n in range(7)
        for first, second in combinations("xyz", 2)
    ]
    table = table_of(rows)
    masks = draw_masks(table)
    families = pd.DataFrame(masks.T.astype(int)).groupby(table.frame["parent_a"].str[:2].to_numpy()).sum()
    assert set(np.unique(families)) == {0, 3}
    assert (families.eq(3).sum() == 7).all()
    assert len(families.T.drop_duplicates()) > 300


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (people({"a": [3] * 5, "b": [3] * 5}), "fewer than 1,000 placements"),
        (people({"a": [1] * 9 + [10], "b": [1] * 9 + [20]}), "less than half of the items can change place"),
        # Each person has a face in both groups: to exchange people changes nothing.
        (
            table_of((group, {"person": n}) for n in range(20) for group in "ab"),
            "fewer than 1,000 placements",
        ),
        (
            table_of((group, {"set": f"{group}{n // 2}"}) for group in "ab" for n in range(20)),
            "less than half of the faces are in a set with people of other groups",
        ),
        (
            table_of(
                (group, {"parent_a": f"{group}{n}", "parent_b": f"{group}{n + 1}"})
                for group in "ab"
                for n in range(30)
            ),
            "fewer than 1,000 placements",
        ),
    ],
    ids=["few people", "unequal people", "people of both groups", "sets of a group", "a chain of morphs"],
)
def test_pairs_that_cannot_be_permuted_have_a_reason(table, reason):
    assert refusal(table) == reason
    # Without draws nothing is refused.
    rows = rows_of(table)
    masks, missing = draw_pair_partitions(table, rows["a"], rows["b"], 0, 0)
    assert (len(masks), missing) == (0, "")


def test_people_are_resampled_with_all_their_faces():
    table = people({"a": [1, 2, 4, 1], "b": [3, 3, 1]})
    weights = draw_group_weights(table, rows_of(table), 300, 0)
    for group, rows in rows_of(table).items():
        names = table.frame["person"].iloc[rows].to_numpy()
        counts = by_name(weights[group], names)
        # As many people as there are, each with probability 1 / n.
        assert (counts.sum(axis=1) == counts.shape[1]).all()
        assert counts.mean(axis=0) == pytest.approx(1, abs=0.25)


def test_groups_that_share_people_or_parents_are_resampled_together():
    rows = rows_of(SHARED_PEOPLE)
    weights = draw_group_weights(SHARED_PEOPLE, rows, 50, 0)
    people_of = [SHARED_PEOPLE.frame["person"].iloc[rows[group]].to_numpy() for group in "ab"]
    first, second = (weights[g][:, np.argsort(names)] for g, names in zip("ab", people_of, strict=True))
    assert (first == second).all()
    assert (first.sum(axis=1) == 20).all()
    parents = table_of(
        (group, {"parent_a": f"p{n}", "parent_b": f"q{n}"}) for n in range(6) for group in "ab"
    )
    rows = rows_of(parents)
    weights = draw_group_weights(parents, rows, 50, 0)
    by_parent = [weights[group][:, np.argsort(parents.frame["parent_a"].iloc[rows[group]])] for group in "ab"]
    assert (by_parent[0] == by_parent[1]).all()


def test_groups_draw_faces_of_the_same_sets():
    table = table_of((group, {"set": f"s{n}"}) for n in range(30) for group in "ab")
    sampled = sample_rows(table, ["a", "b"], 7, 0)
    sets = [set(table.frame["set"].iloc[rows]) for rows in sampled.values()]
    assert sets[0] == sets[1]
    assert len(sets[0]) == 7
    assert sets[0] != set(table.frame["set"].iloc[sample_rows(table, ["a", "b"], 7, 1)["a"]])
