"""Check audits of faces that show the same person, set or parents: p, intervals and their level."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src.metrics import delta_gap, partition_gaps, permutation_p
from src.stimuli import Table, build_table
from src.studies.shared.group_comparison import draw_group_weights, draw_pair_partitions, draw_partitions
from tests import reference as naive
from tests.studies.implicit import test_experiment as audits

EXP = replace(audits.EXP, sets={"good": audits.EXP.sets["good"]})
protocol = audits.protocol


def people(persons, pictures, **columns):
    """Build faces of two groups, with `pictures` of each of `persons` people per group."""
    rows = [
        {"id": f"{group}{n:02d}-{m}", "group": group, "person": f"{group}{n}"}
        for group in ("Ada", "Bea")
        for n in range(persons)
        for m in range(pictures)
    ]
    return build_table("faces", pd.DataFrame(rows).assign(**columns), "t")


def draw_vectors(rng, linked, spread=3.0, width=6):
    """Draw unit vectors of faces whose directions are those of `linked` items, with noise; and of prompts."""
    directions = rng.normal(size=(linked.max() + 1, width))
    faces = spread * directions[linked] + rng.normal(size=(len(linked), width))
    vectors = [torch.from_numpy(values) for values in (faces, rng.normal(size=(6, width)))]
    return [torch.nn.functional.normalize(values, dim=-1) for values in vectors]


def test_p_and_interval_are_those_of_people_by_a_naive_loop(protocol):
    faces = people(9, 2)
    protocol = replace(protocol, faces_per_group=18)
    vectors = draw_vectors(np.random.default_rng(0), np.arange(36) // 2)
    result = audits.run_audit(protocol, EXP, faces, vectors=vectors)
    row = result.analyses.iloc[0]
    cosines = audits.cosines_of(faces, EXP, vectors)
    ids = faces.frame["id"].to_numpy()
    rows = {"Ada": np.arange(18), "Bea": np.arange(18, 36)}
    masks, _ = draw_pair_partitions(faces, *rows.values(), 60, 3)
    null = [audits.statistics(cosines, ids[mask], ids[~mask], EXP.sets["good"], "half") for mask in masks]
    assert {tuple(pair) for pair in masks.reshape(-1, 2)} == {(True, True), (False, False)}
    n_extreme = sum(values["cles_gap"] >= row["cles_gap"] - 1e-9 for values in null)
    assert row["p_null"] == pytest.approx((1 + n_extreme) / 61)
    assert row["null_mean"] == pytest.approx(naive.mean([values["cles_gap"] for values in null]))
    weights = draw_group_weights(faces, rows, 40, 3)
    samples = [
        audits.statistics(cosines, np.repeat(ids[:18], a), np.repeat(ids[18:], b), EXP.sets["good"], "half")[
            "cles"
        ]
        for a, b in zip(weights["Ada"], weights["Bea"], strict=True)
    ]
    assert [row["cles_low"], row["cles_high"]] == pytest.approx([*np.percentile(samples, [2.5, 97.5])])
    assert result.notes == []
    assert {*result.tables["attributes"]["cluster"]} == {*faces.frame["person"]}


def test_a_person_with_a_single_picture_changes_nothing(protocol):
    with_people = people(9, 1)
    without = replace(with_people, frame=with_people.frame.drop(columns="person"))
    vectors = draw_vectors(np.random.default_rng(1), np.arange(18))
    results = [audits.run_audit(protocol, EXP, faces, vectors=vectors) for faces in (with_people, without)]
    for name in ("analyses", "draws", "similarities"):
        first, second = (result.analyses if name == "analyses" else result.tables[name] for result in results)
        pd.testing.assert_frame_equal(first, second, check_exact=True)


def test_linked_morphs_have_an_interval_but_no_p(protocol):
    chain = [f"p{n:02d}" for n in range(19)]
    faces = people(9, 1, parent_a=chain[:18], parent_b=chain[1:])
    vectors = draw_vectors(np.random.default_rng(2), np.arange(18))
    result = audits.run_audit(protocol, EXP, faces, vectors=vectors)
    assert result.analyses[["p_null", "p_null_delta", "null_mean", "null_q95"]].isna().all(axis=None)
    assert result.analyses[["cles", "cles_low", "iat_low"]].notna().all(axis=None)
    assert result.notes == ["no p of Ada and Bea, since fewer than 1,000 placements"]
    assert {"parent_a", "parent_b"} <= {*result.tables["attributes"]}
    # Without partitions, a missing p has no note.
    assert audits.run_audit(replace(protocol, partitions=0), EXP, faces, vectors=vectors).notes == []


def test_sampled_faces_of_groups_are_of_the_same_sets(protocol):
    frame = people(14, 1).frame.drop(columns="person")
    frame["set"] = frame["id"].str[3:]
    faces = Table("faces", frame, len(frame))
    rows = audits.check(protocol, EXP, faces, 0)
    sets = [{*frame["set"].iloc[members]} for members in rows.values()]
    assert sets[0] == sets[1]
    assert len(sets[0]) == 9


@pytest.mark.parametrize(
    ("measure", "link"),
    [
        pytest.param("cles", "set", marks=pytest.mark.thorough),
        *(
            pytest.param(*each, marks=pytest.mark.exhaustive)
            for each in [("cles", "person"), ("cles", "family"), ("iat", "person")]
        ),
    ],
)
def test_the_level_is_nominal_where_faces_are_linked(protocol, measure, link):
    """Check the level of p where faces of a person, set or family are alike; not that of single faces."""
    exp, small = replace(EXP, measure=measure), replace(protocol, partitions=99, bootstrap=0)
    small = replace(small, faces_per_group=45)
    count, p_values = 200, []
    for seed in range(count):
        faces = people(15, 3)
        linked = np.arange(90) // 3
        frame = faces.frame
        if link == "set":
            # The n-th picture of Ada and that of Bea show the same scene.
            linked = np.arange(90) % 45
            frame = frame.drop(columns="person").assign(set=[f"s{n:02d}" for n in linked])
        if link == "family":
            for name, parents in (("parent_a", "xxy"), ("parent_b", "yzz")):
                frame[name] = [
                    f"{family}{parent}" for family, parent in zip(linked, parents * 30, strict=True)
                ]
        faces = Table("faces", frame, 90)
        vectors = draw_vectors(np.random.default_rng([11, seed]), linked)
        row = audits.run_audit(small, exp, faces, seed, vectors).analyses.iloc[0]
        words = audits.prompts_of(exp).frame["word"].isin(EXP.sets["good"]).to_numpy()
        cosines = (vectors[0] @ vectors[1].T).numpy()[:, words]
        masks = draw_partitions([*frame["id"]], 45, 99, seed)
        single = permutation_p(partition_gaps(cosines, masks), delta_gap(cosines[:45], cosines[45:]))
        p_values.append([row["p_null"], row["p_null_delta"], single])
    low, high = stats.binom.ppf([0.0005, 0.9995], count, 0.05)
    rejected = (np.array(p_values, dtype=float) <= 0.05).sum(axis=0)
    assert (rejected[:2] <= high).all()
    # The IAT sums signs: ties with the observed value make its test conservative.
    assert (rejected[1:2] if measure == "iat" else rejected[:2] >= low).all()
    # Of single faces: too many with people and families, too few with sets.
    assert rejected[2] < low if link == "set" else rejected[2] > high
