"""Check all intrinsic measures and extrinsic outcomes, their null scores, shortcuts and blocks."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from src.configs import ProtocolConfig
from src.errors import NotApplicable
from src.metrics import sc_eat, similarity
from src.stimuli import CARRIES
from src.studies.propagation import experiment, measures, nearest_class
from src.studies.propagation import similarity_blocks as blocks_module
from src.studies.propagation.attributes import Pool
from src.studies.propagation.combined import LEVEL, UNCERTAINTY
from src.studies.propagation.cosine_difference import DIFFERENCE
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.propagation.scores import Associations, Outcomes
from src.studies.propagation.similarity_blocks import similarity_blocks
from src.studies.propagation.top_k import TopK
from src.studies.shared.exchange_units import build_exchange
from tests import reference
from tests.studies.propagation.test_uncertainty import (
    PROTOCOL,
    inputs,
    load_folder,
    result,
    scores_of,
    select_rhos,
)

NO_NULLS = {"placebo": 0, "attribute_draws": 0, "property_draws": 0}
ALTERNATIVES = [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}]
VALENCE = [exp for exp in reference.EXPERIMENTS if CARRIES[exp.rpartition("_")[2]] == "valence"]
GROUP = [exp for exp in reference.EXPERIMENTS if exp not in VALENCE]
VALENCE_AND_GROUP = ("faces_to_words", "labels_to_faces")


def naive(exp, folder, choice, **options):
    fields = {f"{score}_by": name for score, name in choice.items()}
    return reference.propagate(exp, *load_folder(folder), **PROTOCOL, seed=5, **fields, **options)


@pytest.mark.parametrize(
    ("exp", "choice"),
    [
        pytest.param(
            exp, choice, marks=pytest.mark.exhaustive if choice and exp not in VALENCE_AND_GROUP else []
        )
        for exp in reference.EXPERIMENTS
        for choice in ({}, *ALTERNATIVES)
    ],
    ids=str,
)
def test_scores_and_permutations_equal_the_naive_loop(exp, choice, folder):
    outputs = result(folder, exp, **choice, property_draws=0)
    analyses, scores = naive(exp, folder, choice)
    expected = {key: pytest.approx(pair, abs=1e-10) for key, pair in scores.items()}
    assert scores_of(outputs.targets) == expected
    for column in ("rho", "p", "rho_all"):
        expected = [row[column] for row in analyses]
        assert outputs.analyses[column].tolist() == pytest.approx(expected, abs=1e-12, nan_ok=True)
    exchange = build_exchange(inputs(folder, exp)[1], 5)
    for number, permutation in enumerate(exchange.draw_permutations(1)):
        replacements = dict(zip(exchange.names, exchange.names[permutation], strict=True))
        for row in naive(exp, folder, choice, moved=replacements)[0]:
            drawn = select_rhos(outputs, "placebo", row["stratum"])[number]
            assert drawn == pytest.approx(row["rho"], abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_uncertainty_is_defined_for_other_scores(exp, single):
    outputs = result(single, exp, **ALTERNATIVES[0], **ALTERNATIVES[1])
    kinds = {"placebo", "attributes"} | ({"property"} if exp in VALENCE else set())
    rows = outputs.analyses
    assert set(outputs.draws["kind"]) == kinds
    assert (rows["placebo_n"] > 0).all()
    assert (rows["p_placebo"] >= 1 / 20).all()
    assert ((rows["ci_low"] <= rows["rho"]) & (rows["rho"] <= rows["ci_high"])).all()
    assert (rows["sd_attributes"] >= 0).all()
    assert rows["intrinsic_label"].unique() == ["difference of mean cosines"]
    is_nearer = rows["extrinsic_label"].str.startswith("share of templates nearer")
    assert is_nearer.all() == (exp in VALENCE)


@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_faces"])
@pytest.mark.parametrize("measure", [SC_EAT, DIFFERENCE], ids=["sc_eat", "difference"])
def test_shortcuts_leave_null_models_unchanged(exp, measure, folder, monkeypatch):
    results = []
    for variant in (measure, replace(measure, by_sums=None, by_vectors=None)):
        monkeypatch.setattr(experiment, "intrinsic_of", lambda _, variant=variant: variant)
        results.append(result(folder, exp))
    pd.testing.assert_frame_equal(results[0].draws, results[1].draws, rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(results[0].targets, results[1].targets, rtol=0, atol=1e-11)


@pytest.mark.parametrize("choice", [{}, *ALTERNATIVES], ids=str)
@pytest.mark.parametrize("exp", ["labels_to_faces", "faces_to_words"])
def test_scores_do_not_depend_on_null_models(choice, exp, folder):
    full, scores_only = (result(folder, exp, **choice, **off) for off in ({}, NO_NULLS))
    pd.testing.assert_frame_equal(full.targets, scores_only.targets, rtol=0, atol=1e-11)
    pd.testing.assert_frame_equal(full.level_units, scores_only.level_units, rtol=0, atol=1e-11)
    known = ["validity", "ci_low", "ci_high", "clusters", "movable", "log10_placements"]
    columns = {*LEVEL, *UNCERTAINTY} & {*scores_only.analyses} - {*known}
    is_null = [name for name in columns if name in UNCERTAINTY or name in ("level_p", "level_z")]
    assert len(is_null) == 13
    assert scores_only.analyses[is_null].isna().all(axis=None)
    assert scores_only.draws.empty
    assert scores_only.level_draws.empty


@pytest.mark.parametrize("exp", VALENCE)
def test_extremes_outside_the_corpus_cannot_be_classes(exp, single):
    message = r"attributes=held_out removes A and B.*Set protocol.attributes=corpus"
    with pytest.raises(NotApplicable, match=message):
        result(single, exp, extrinsic="zero_shot", attributes="held_out")


@pytest.mark.parametrize("exp", GROUP)
def test_classes_of_split_groups_do_not_depend_on_the_other_half(exp, single):
    arguments = inputs(single, exp, extrinsic="zero_shot", attributes="held_out")
    outputs = experiment.run(*arguments)
    assert any("attributes are held out: classes consist of" in note for note in outputs.notes)
    targets, corpus, target_vectors, items, *options = arguments
    (pool,) = experiment.check(targets, corpus, *options).pools
    flipped = items.clone()
    # Reverse every item that cannot be retrieved.
    flipped[np.setdiff1d(np.arange(len(items)), pool.rows[pool.retrievable])] *= -1
    flipped_outputs = experiment.run(targets, corpus, target_vectors, flipped, *options)
    pd.testing.assert_series_equal(outputs.targets["extrinsic"], flipped_outputs.targets["extrinsic"])
    assert not outputs.targets["intrinsic"].equals(flipped_outputs.targets["intrinsic"])


@given(seed=st.integers(0, 2**32 - 1), has_several=st.booleans(), order=st.permutations(range(3)))
def test_shares_sum_to_1_in_any_order_of_classes(seed, has_several, order):
    rng = np.random.default_rng(seed)
    # Few directions: ties are the rule.
    x, classes = (
        torch.from_numpy(rng.integers(-1, 2, shape).astype(float)) + 1e-9
        for shape in ((5, 2, 3) if has_several else (5, 3), (4, 3, 2, 3))
    )
    x, classes = (torch.nn.functional.normalize(vectors, dim=-1) for vectors in (x, classes))
    shares = nearest_class.compute_shares(x, classes)
    assert shares.sum(dim=1).numpy() == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(
        nearest_class.compute_shares(x, classes[:, list(order)]), shares[:, list(order)]
    )
    for draw in range(2):
        means = {t: dict(enumerate(classes[t, :, draw].tolist())) for t in range(4)}
        for row, vector in zip(shares[..., draw].tolist(), x.tolist(), strict=True):
            expected = reference.share_nearest(vector, means)
            assert row == pytest.approx([expected[name] for name in range(3)], abs=1e-9)


def test_versions_are_of_scores_other_than_the_first():
    first = ProtocolConfig()
    assert measures.versions_of(first) == {}
    other = replace(first, intrinsic="difference", extrinsic="zero_shot")
    assert measures.versions_of(other) == {"intrinsic.difference": 3, "extrinsic.zero_shot": 3}
    name = "src.studies.propagation.cosine_difference:DIFFERENCE"
    assert measures.versions_of(replace(first, intrinsic=name)) == {f"intrinsic.{name}": 1}


WIDTH = 3


def vectors(rng, count, has_several):
    """Draw vectors of few directions, so that ties are the rule; two per item where `has_several`."""
    drawn = rng.integers(-1, 2, (count, 2 if has_several else 1, WIDTH)).astype(np.float32)
    drawn[(drawn == 0).all(axis=-1)] = 1
    drawn *= rng.uniform(1, 1 + 1e-7, (count, drawn.shape[1], 1)).astype(np.float32)
    return torch.from_numpy(drawn if has_several else drawn[:, 0])


def pools_of(rng, count, held_out):
    """Build two interleaved pools of two properties each: A differs between properties, B is the same."""
    pools = []
    for start in (0, 1):
        rows = np.arange(start, count, 2)
        a, other, b = (rng.permutation(len(rows))[: len(rows) // 2] for _ in range(3))
        retrievable = np.sort(rng.permutation(len(rows))[1:]) if held_out else None
        outcomes, k = rng.uniform(size=(len(rows), 2)), int(rng.integers(1, len(rows) - 1))
        pools.append(Pool(rows, None, [a, other], [b, b], outcomes, k, retrievable))
    return pools


def score(targets, corpus, pools, **options):
    """Return scores, and the positions of the items retrieved from each pool."""
    top_k = TopK(pools, np.empty(0, int), np.empty((0, 1), int))
    intrinsic = Associations(targets, corpus, pools, SC_EAT, ProtocolConfig(ddof=1))
    extrinsic = Outcomes(len(targets), pools, top_k)
    nearest = [[] for _ in pools]
    for block in similarity_blocks(targets, corpus, pools, **options):
        if options.get("with_similarities", True):
            assert block.similarities is not None
        intrinsic.add(block)
        extrinsic.add(block)
        nearest[block.pool_index].append(block.nearest)
    return intrinsic.scores, extrinsic.scores, [torch.cat(tensors) for tensors in nearest]


@pytest.mark.parametrize("several", ["targets", "corpus", "neither"])
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    block=st.sampled_from([1, 30, 2**20]),
    held_out=st.booleans(),
    tile=st.sampled_from([None, 1, 5, 2**20]),
)
def test_scores_equal_brute_force(several, seed, block, held_out, tile):
    rng = np.random.default_rng(seed)
    targets, corpus = vectors(rng, 7, several == "targets"), vectors(rng, 24, several == "corpus")
    pools = pools_of(rng, len(corpus), held_out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks_module, "BLOCK_SIZE", block)
        # About three targets per pass.
        patch.setattr(blocks_module, "NEAREST_BYTES", 16 * 3 * pools[0].k)
        if tile:
            patch.setattr(blocks_module, "MAX_TILE_ITEMS", tile)
        x, y, retrieved = score(targets, corpus, pools, with_similarities=tile is None, max_bytes=0)

    sides = targets.tolist(), corpus.tolist()
    similarities = [[round(reference.cosine(x, y), 12) for y in sides[1]] for x in sides[0]]
    intrinsic, extrinsic = np.zeros((7, 2)), np.zeros((7, 2))
    for pool, nearest in zip(pools, retrieved, strict=True):
        rows = [[row[item] for item in pool.rows] for row in similarities]
        items = range(len(pool.rows)) if pool.retrievable is None else pool.retrievable.tolist()
        best = [sorted(items, key=lambda i, row=row: (-row[i], i))[: pool.k] for row in rows]
        assert nearest.tolist() == [sorted(positions) for positions in best]
        table = torch.tensor(rows, dtype=torch.float64)
        for column in range(2):
            intrinsic[:, column] += sc_eat(table[:, pool.a[column]], table[:, pool.b[column]]).numpy() / 2
        extrinsic += pool.outcomes[nearest.numpy()].mean(axis=1) / 2
    assert x == pytest.approx(intrinsic, rel=1e-10, abs=1e-12, nan_ok=True)
    assert y == pytest.approx(extrinsic, rel=1e-12)


def test_small_deviations_have_exact_effect_sizes():
    rng = np.random.default_rng(0)
    corpus = torch.from_numpy(rng.normal(size=(40, 4)))
    corpus[:, 0] = 0
    # Targets with cosines of 0, with deviations of 1e-5, and with deviations of any size.
    targets = torch.from_numpy(np.stack([[1, 0, 0, 0], [1, 1e-5, 1e-5, 0], *rng.normal(size=(3, 4))]))
    pools = [Pool(np.arange(40), None, [np.arange(15)], [np.arange(10, 40)], np.zeros((40, 1)), 3)]
    scores, _, _ = score(targets, corpus, pools, with_similarities=False)
    expected = sc_eat(similarity(targets, corpus[:15]), similarity(targets, corpus[10:]))
    assert math.isnan(scores[0, 0])
    assert scores[1, 0] == pytest.approx(expected[1].item(), rel=1e-12)
    assert scores[2:, 0] == pytest.approx(expected[2:].numpy(), rel=0, abs=2e-12)
