"""Check shares, gaps and differences against naive loops and fairlearn, intervals, nulls and refusals."""

import itertools
import math
from collections import defaultdict

import fairlearn.metrics as fairlearn
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from src.errors import InputError, NotApplicable
from src.metrics.jackknife import compute_t_interval
from src.stimuli import PROMPTS, build_table
from src.studies.harms import experiment
from src.studies.harms.intervals import Units, compute_share_interval
from src.studies.harms.outcomes import ALL_GROUPS, FPR, SHARE
from src.studies.harms.study import compute_metrics
from src.studies.shared.exchange_units import build_exchange
from src.studies.shared.jackknife_table import TABLE
from tests.studies.harms import face_world

OUTCOMES = [("non_human", SHARE), ("crime", SHARE), ("harm", SHARE)]
OUTCOMES += [("group", name) for name in ("accuracy", "tpr", "fpr")]


def classify_naively(tables, vectors):
    """Return the class of each face, by id: kind and group; among all classes, and among those of groups."""
    prompts = tables[PROMPTS].frame
    by_class = defaultdict(list)
    for row, text in zip(prompts.itertuples(), vectors[PROMPTS].tolist(), strict=True):
        by_class[row.position, row.kind, row.group].append(text)
    classes = sorted(by_class)
    results = {}
    for name, face in zip(tables["faces"].frame["id"], vectors["faces"].tolist(), strict=True):
        scores = {}
        for key in classes:
            cosines = []
            for text in by_class[key]:
                length = math.sqrt(sum(a * a for a in face) * sum(b * b for b in text))
                cosines.append(round(sum(a * b for a, b in zip(face, text, strict=True)) / length, 12))
            scores[key] = round(sum(cosines) / len(cosines), 12)
        best = max(classes, key=lambda key: (scores[key], -key[0]))
        best_group = max((key for key in classes if key[2]), key=lambda key: (scores[key], -key[0]))
        results[name] = best[1], best[2], best_group[2]
    return results


def shares_naively(tables, vectors, compared=None):
    """Return the share of each outcome and group; `compared`: id -> compared group, if not the table's."""
    classes = classify_naively(tables, vectors)
    frame = tables["faces"].frame
    groups = dict(zip(frame["id"], frame["group"], strict=True))
    compared = compared or groups
    shares = {}
    for group in [*sorted({*compared.values()}), ALL_GROUPS]:
        inside = [name for name in compared if group in (compared[name], ALL_GROUPS)]
        outside = [name for name in compared if compared[name] != group]
        for kind in ("non_human", "crime"):
            shares[kind, SHARE, group] = np.mean([classes[name][0] == kind for name in inside])
        shares["harm", SHARE, group] = np.mean([classes[name][0] != "group" for name in inside])
        shares["group", "accuracy", group] = np.mean([classes[name][2] == groups[name] for name in inside])
        shares["group", "tpr", group] = np.mean([classes[name][1] == groups[name] for name in inside])
        wrong = [
            classes[name][1] == group if group != ALL_GROUPS else classes[name][1] not in ("", groups[name])
            for name in outside
        ]
        shares["group", FPR, group] = np.mean(wrong)
    return shares


def shares_of(result):
    rows = result.analyses
    keys = zip(rows["kind"], rows["measure"], rows["group"], strict=True)
    return dict(zip(keys, rows["share"], strict=True))


@pytest.mark.parametrize("pictures", [1, 3])
def test_shares_equal_those_of_a_naive_loop(pictures):
    cfg = face_world.compose()
    cfg.classes.templates = ["a photo of {word}", "this is {article} {word}"]
    result, tables, vectors = face_world.run(cfg, face_world.draw_faces(pictures=pictures), harm=0.1)
    expected = shares_naively(tables, vectors)
    assert shares_of(result) == pytest.approx(expected, abs=1e-12)
    assert 0 < expected["harm", SHARE, ALL_GROUPS] < 1
    for row in result.analyses.query("group != @ALL_GROUPS and measure != @FPR").itertuples():
        others = [key for key in expected if key[:2] == (row.kind, row.measure)]
        others = [key[2] for key in others if key[2] not in (row.group, ALL_GROUPS)]
        # Groups are equally large.
        gap = row.share - np.mean([expected[row.kind, row.measure, other] for other in others])
        assert row.gap == pytest.approx(gap)
    classified = result.tables["classified"].set_index("id")
    naive = classify_naively(tables, vectors)
    assert {name: (row["kind"], row["nearest_group"]) for name, row in classified.iterrows()} == {
        name: (kind, nearest) for name, (kind, _, nearest) in naive.items()
    }


def test_an_axis_compares_other_groups_by_the_same_classes():
    cfg = face_world.compose()
    cfg.exp.axis = "age"
    result, tables, vectors = face_world.run(cfg, harm=0.1)
    frame = tables["faces"].frame
    expected = shares_naively(tables, vectors, dict(zip(frame["id"], frame["age"], strict=True)))
    assert FPR not in {*result.analyses["measure"]}
    expected = {key: value for key, value in expected.items() if key[1] != FPR}
    assert shares_of(result) == pytest.approx(expected, abs=1e-12)


def test_differences_ratios_and_worst_groups_are_those_of_the_shares():
    rows = face_world.run(face_world.compose(), harm=0.15)[0].analyses
    for _, outcome in rows.groupby(["kind", "measure"]):
        total, groups = outcome.iloc[-1], outcome.iloc[:-1].set_index("group")["share"]
        assert total["difference"] == pytest.approx(groups.max() - groups.min())
        assert total["ratio"] == pytest.approx(groups.min() / groups.max(), nan_ok=True)
        worst = groups.max() if total["kind"] != "group" or total["measure"] == FPR else groups.min()
        assert total["worst"] == ", ".join(groups.index[groups == worst])
        assert outcome.iloc[:-1]["difference"].isna().all()


def test_shares_equal_those_of_fairlearn():
    result, tables, vectors = face_world.run(face_world.compose(), harm=0.1)
    classes = classify_naively(tables, vectors)
    frame = tables["faces"].frame
    harm = np.array([classes[name][0] != "group" for name in frame["id"]])
    rows = result.analyses.query("kind == 'harm'").set_index("group")
    # Nobody is of a harmful class: the share is the false-positive rate.
    metric = fairlearn.MetricFrame(
        metrics=fairlearn.false_positive_rate,
        y_true=np.zeros(len(harm), dtype=int),
        y_pred=harm.astype(int),
        sensitive_features=frame["group"],
    )
    assert rows["share"].drop(ALL_GROUPS).to_dict() == pytest.approx(metric.by_group.to_dict())
    assert rows["difference"][ALL_GROUPS] == pytest.approx(metric.difference())
    assert rows["ratio"][ALL_GROUPS] == pytest.approx(metric.ratio())
    nearest = np.array([classes[name][1] for name in frame["id"]])
    for name, function in (("tpr", fairlearn.true_positive_rate), ("fpr", fairlearn.false_positive_rate)):
        rows = result.analyses[result.analyses["measure"] == name].set_index("group")
        for group in face_world.GROUPS:
            score = fairlearn.MetricFrame(
                metrics=function,
                y_true=(frame["group"] == group).astype(int),
                y_pred=(nearest == group).astype(int),
                sensitive_features=np.zeros(len(frame)),
            )
            assert rows["share"][group] == pytest.approx(score.overall)


@settings(max_examples=3)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_order_of_faces_and_names_of_groups_change_nothing(seed, harm):
    cfg = face_world.compose()
    cfg.protocol.permutations = 0
    frame = face_world.draw_faces(seed, people=6)
    tables, vectors = face_world.build(cfg, frame, seed, harm=harm / 10)
    rows = experiment.run(cfg, tables, vectors).analyses
    # Ids in another order make another order of rows.
    order = np.random.default_rng(seed).permutation(len(frame))
    renamed = tables["faces"].frame.iloc[order].assign(id=[f"x{number:04d}" for number in range(len(frame))])
    table = build_table("faces", renamed, "test")
    moved = {"faces": vectors["faces"][torch.from_numpy(order)], PROMPTS: vectors[PROMPTS]}
    permuted = experiment.run(cfg, {**tables, "faces": table}, moved).analyses
    pd.testing.assert_frame_equal(rows, permuted, atol=1e-12)
    shares = rows.query("measure != @FPR")["share"]
    assert shares.between(0, 1).all()
    harms = rows.query("kind == 'harm'")["share"].to_numpy()
    assert harms == pytest.approx(
        sum(rows.query("kind == @kind")["share"].to_numpy() for kind in ("crime", "non_human"))
    )


@pytest.mark.parametrize("harm", [50.0, -50.0])
def test_all_and_no_harm(harm):
    """Let all faces, or none, be nearest to harmful classes: shares are 1 or 0, with an interval."""
    cfg = face_world.compose()
    tables, vectors = face_world.build(cfg, face_world.draw_faces())
    texts, is_harmful = vectors[PROMPTS], tables[PROMPTS].frame["is_harmful"].to_numpy(dtype=bool, copy=True)
    rng = np.random.default_rng(0)
    target = texts[is_harmful if harm > 0 else ~is_harmful][:1]
    vectors["faces"] = target.clone() + 0.01 * torch.from_numpy(
        rng.normal(size=(len(tables["faces"].frame), face_world.WIDTH))
    )
    rows = experiment.run(cfg, tables, vectors).analyses.query("kind == 'harm'")
    share = float(harm > 0)
    assert (rows["share"] == share).all()
    total = rows.iloc[-1]
    assert total["difference"] == 0
    assert total["worst"] == ""
    assert math.isnan(total["difference_low"])
    assert rows["p"].isna().all()  # nothing changes under permutations
    n = 12
    bound = 0.025 ** (1 / n)
    ends = (bound, 1.0) if harm > 0 else (0.0, 1 - bound)
    assert tuple(rows.iloc[0][["share_low", "share_high"]]) == pytest.approx(ends)


def test_intervals_of_single_pictures_are_exact_binomial_ones():
    for hits, n in itertools.product((0, 3, 10, 20), (20,)):
        share = hits / n
        variance = share * (1 - share) / (n - 1)
        expected = stats.binomtest(hits, n).proportion_ci(method="exact")
        # The jackknife's variance has n - 1 where the binomial one has n.
        effective = n - 1 if 0 < hits < n else n
        exact = stats.beta.ppf(0.025, share * effective, effective * (1 - share) + 1) if hits else 0.0
        low, high = compute_share_interval(share, variance, Units(n, n, n - 1, ""))
        assert low == pytest.approx(exact)
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.02)
    assert compute_share_interval(0.2, 0.01, Units(9, 3, 2, "fewer than 5 clusters")) == pytest.approx(
        (math.nan, math.nan), nan_ok=True
    )


def test_pictures_of_a_person_are_not_independent():
    """Show each picture of a person many times: the interval stays, and is not that of more people."""
    frame = face_world.draw_faces(people=12)
    copies = pd.concat([frame.assign(id=frame["id"] + f"-{copy}") for copy in range(5)], ignore_index=True)
    cfg = face_world.compose()
    tables, vectors = face_world.build(cfg, frame, harm=0.1)
    repeated = build_table("faces", copies, "test")
    positions = pd.Index(tables["faces"].frame["id"]).get_indexer(repeated.frame["id"].str.partition("-")[0])
    single = experiment.run(cfg, tables, vectors).analyses
    faces = vectors["faces"][torch.from_numpy(positions)]
    several = experiment.run(cfg, {**tables, "faces": repeated}, {**vectors, "faces": faces}).analyses
    assert several["n"].tolist() == (5 * single["n"]).tolist()
    assert several["n_units"].tolist() == single["n_units"].tolist()
    for name in ("share", "gap", "gap_low", "gap_high", "difference_low", "ratio_high"):
        assert several[name].tolist() == pytest.approx(single[name].tolist(), abs=1e-9, nan_ok=True)
    # Permutations have other random numbers, and move as many people.
    assert several["null_high"].tolist() == pytest.approx(single["null_high"].tolist(), abs=0.1, nan_ok=True)
    # t of n - 1 faces is another.
    widths = [rows["share_high"] - rows["share_low"] for rows in (single, several)]
    assert (widths[1] / widths[0]).between(0.9, 1.15).all()


def test_gaps_have_the_interval_of_the_jackknife():
    result, tables, _ = face_world.run(face_world.compose(), face_world.draw_faces(pictures=2), harm=0.1)
    classified = result.tables["classified"].merge(tables["faces"].frame[["id", "person"]])
    harm = (classified["kind"] == "crime").to_numpy()
    inside = (classified["group"] == "Black Women").to_numpy()
    people = classified["person"].to_numpy()

    def gap(chosen):
        return harm[chosen & inside].mean() - harm[chosen & ~inside].mean()

    left_out = np.array([gap(people != name) for name in np.unique(people)])
    count = len(left_out)
    variance = (count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()
    expected = compute_t_interval(gap(people == people), variance, 11)  # 12 people of the group
    row = result.analyses.query("kind == 'crime' and group == 'Black Women'").iloc[0]
    assert (row["gap_low"], row["gap_high"]) == pytest.approx(expected)


def test_permutations_move_people_with_all_their_pictures():
    cfg = face_world.compose()
    cfg.protocol.permutations = 99
    frame = face_world.draw_faces(people=8, pictures=3)
    result, tables, _ = face_world.run(cfg, frame, harm=1.5)
    classified = result.tables["classified"].set_index("id").loc[tables["faces"].frame["id"]]
    harm = classified["kind"].isin(["non_human", "crime"]).to_numpy(dtype=float)
    exchange = build_exchange(tables["faces"], cfg.seed)
    groups = tables["faces"].frame["group"].to_numpy()
    null = []
    for permutation in exchange.draw_permutations(99):
        labels = groups[permutation]
        by_person = pd.Series(labels).groupby(tables["faces"].frame["person"]).nunique()
        assert (by_person == 1).all()
        null.append([harm[labels == name].mean() for name in face_world.GROUPS])
    null, observed = np.array(null), [harm[groups == name].mean() for name in face_world.GROUPS]
    rows = result.analyses.query("kind == 'harm'")
    assert rows["null_low"].tolist()[:-1] == pytest.approx(np.quantile(null, 0.025, axis=0))
    spread = np.ptp(null, axis=1)
    total = rows.iloc[-1]
    p = (1 + (spread >= np.ptp(observed) - 1e-12).sum()) / 100
    assert total["difference_p"] == pytest.approx(p)
    assert total["difference_q95"] == pytest.approx(np.quantile(spread, 0.95))
    assert rows["p"].min() < 0.05  # planted


def test_sets_exchange_people_within_sets():
    """Shift whole sets: shares differ by set, and permutations within sets do not mix them."""
    cfg = face_world.compose()
    result, tables, _ = face_world.run(cfg, face_world.draw_faces(people=12, sets=True), harm=0.1)
    people = build_exchange(tables["faces"], 0).factors[0].people
    assert people is not None
    assert (result.analyses["n_units"] == 12).all()  # sets
    assert result.analyses["p"].notna().any()


def test_several_vectors_of_a_picture_take_the_largest_cosine_or_the_mean():
    cfg = face_world.compose()
    tables, vectors = face_world.build(cfg, face_world.draw_faces(), harm=0.1)
    single = experiment.run(cfg, tables, vectors).analyses
    repeated = {**vectors, "faces": vectors["faces"][:, None].repeat(1, 3, 1)}
    for pooling in ("max", "mean"):
        cfg.protocol.pooling = pooling
        pd.testing.assert_frame_equal(experiment.run(cfg, tables, repeated).analyses, single)


def test_statistics_are_stored_for_comparisons_of_perturbed_pictures():
    result = face_world.run(face_world.compose(), harm=0.1)[0]
    table = result.tables[TABLE]
    assert {"share: crime", "gap of share: crime", "accuracy: group", "fpr: group"} <= {*table["measure"]}
    rows = result.analyses[result.analyses["group"] != ALL_GROUPS]
    for row in rows.itertuples():
        stored = table[
            (table["measure"] == f"{row.measure}: {row.kind}") & (table["item"] == row.group)
        ].iloc[0]
        assert stored["values"][0] == pytest.approx(row.share)
        assert stored["null"] == pytest.approx(
            0 if row.kind != "group" or row.measure == FPR else math.nan, nan_ok=True
        )
    assert (table["reason"] == "").all()


def test_small_groups_have_no_interval_and_are_not_extremes():
    cfg = face_world.compose()
    frame = face_world.draw_faces(people=12)
    few = frame[(frame["group"] != "Black Men") | frame["person"].str.fullmatch(r".* [01]")]
    result = face_world.run(cfg, few, harm=0.3)[0]
    row = result.analyses.query("kind == 'harm' and group == 'Black Men'").iloc[0]
    assert row["n_units"] == 2
    assert row[["share_low", "gap_low", "p"]].isna().all()
    assert row["reason"] == "no interval: fewer than 5 clusters; no p: fewer than 1,000 placements"
    total = result.analyses.query("kind == 'harm'").iloc[-1]
    assert "Black Men" not in total["worst"]
    assert math.isfinite(total["difference_p"])
    assert any("no interval of Black Men" in note for note in result.notes)
    cfg.exp.groups = ["Black Men", "White Men"]
    with pytest.raises(
        NotApplicable, match="two or more groups with 5 people each, got Black Men 2, White Men 12"
    ):
        face_world.run(cfg, few)


def test_no_permutations_leave_p_out():
    cfg = face_world.compose()
    cfg.protocol.permutations = 0
    result = face_world.run(cfg)[0]
    assert result.analyses[["p", "null_low", "difference_p"]].isna().all(axis=None)
    assert not any("no p" in note for note in result.notes)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["Black Man", "White Men"], r"exp.groups: no faces of 'Black Man'. Did you mean"),
        (["White Men", "White Men"], "exp.groups: 'White Men' occurs twice"),
    ],
)
def test_unknown_and_repeated_groups_are_refused(groups, message):
    cfg = face_world.compose()
    cfg.exp.groups = groups
    with pytest.raises(InputError, match=message):
        face_world.run(cfg)


def test_vectors_of_several_widths_are_refused():
    cfg = face_world.compose()
    tables, vectors = face_world.build(cfg, face_world.draw_faces())
    with pytest.raises(InputError, match="several widths"):
        experiment.run(cfg, tables, {**vectors, "faces": vectors["faces"][:, 1:]})


def test_metrics_have_every_group_and_difference():
    result = face_world.run(face_world.compose("harms_child"))[0]
    values = compute_metrics(result)
    assert {"child.share", "harm.share.difference", "crime.share.Black Men", "group.accuracy"} <= {*values}
    total = result.analyses.query("kind == 'child'").iloc[-1]
    assert total["worst"] == ""
    assert values["child.share"] == total["share"]
