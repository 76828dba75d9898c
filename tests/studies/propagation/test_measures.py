"""Other intrinsic measures and extrinsic outcomes than SC-EAT and top-k."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from src.configs import ProtocolConfig
from src.errors import InputError, NotApplicable
from src.stimuli import CARRIES
from src.studies.propagation import experiment, measures, nearest_class
from src.studies.propagation.cosine_difference import DIFFERENCE
from src.studies.propagation.measures import Sums
from src.studies.propagation.sc_eat import SC_EAT
from src.studies.shared.exchange_units import Exchange, exchange_of
from tests import reference
from tests.conftest import precomputed
from tests.studies.propagation.test_experiment import PROTOCOL, loaded
from tests.studies.propagation.test_uncertainty import draws, inputs, result

CHOICES = [{"intrinsic": "difference"}, {"extrinsic": "zero_shot"}]
VALENCE = [exp for exp in reference.EXPERIMENTS if CARRIES[exp.rpartition("_")[2]] == "valence"]
GROUP = [exp for exp in reference.EXPERIMENTS if exp not in VALENCE]


@pytest.fixture(scope="module", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=request.param, q=request.param)


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=1)


def naive(exp, folder, choice, **more):
    by = {f"{score}_by": name for score, name in choice.items()}
    return reference.propagate(exp, *loaded(folder), **PROTOCOL, seed=5, **by, **more)


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_scores_and_permutations_are_the_naive_loop(exp, choice, folder):
    found = result(folder, exp, **choice, bootstrap=0, property_draws=0)
    analyses, scores = naive(exp, folder, choice)
    given_scores = {
        (row.stratum, row.id): (row.intrinsic, row.extrinsic) for row in found.targets.itertuples()
    }
    assert set(given_scores) == set(scores)
    for key, pair in scores.items():
        assert given_scores[key] == pytest.approx(pair, abs=1e-10), key
    for column in ("rho", "p", "rho_all"):
        wanted = [row[column] for row in analyses]
        assert found.analyses[column].tolist() == pytest.approx(wanted, abs=1e-12, nan_ok=True)
    exchange = exchange_of(inputs(folder, exp)[1], 5)
    for number, places in enumerate(exchange.permutations(2)):
        put = dict(zip(exchange.names, exchange.names[places], strict=True))
        for row in naive(exp, folder, choice, moved=put)[0]:
            drawn = draws(found, "placebo", row["stratum"])[number]
            assert drawn == pytest.approx(row["rho"], abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
@pytest.mark.parametrize("choice", [CHOICES[0] | CHOICES[1]], ids=str)
def test_placebo_interval_and_draws_serve_every_choice(exp, choice, single):
    found = result(single, exp, **choice)
    kinds = {"placebo", "attributes", "bootstrap"} | ({"property"} if exp in VALENCE else set())
    kinds |= {"family"} if exp.endswith("words") else set()
    assert set(found.draws["kind"]) == kinds
    for row in found.analyses.itertuples():
        assert row.placebo_n > 0
        assert row.p_placebo >= 1 / 20
        assert row.ci_low <= row.rho <= row.ci_high
        assert row.sd_attributes >= 0
    assert found.analyses["intrinsic_label"].unique() == ["difference of mean cosines"]
    assert found.analyses["extrinsic_label"].str.startswith("share of templates nearer").all() == (
        exp in VALENCE
    )


@pytest.mark.parametrize("exp", ["scenes_to_words", "words_to_scenes", "faces_to_labels", "words_to_faces"])
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_a_permutation_that_moves_nothing_gives_what_is_measured(exp, choice, folder, monkeypatch):
    def unmoved(self, count, *more):
        return np.tile(np.arange(len(self.grid), dtype=np.int32), (count, 1))

    monkeypatch.setattr(Exchange, "permutations", unmoved)
    found = result(folder, exp, **choice)
    for row in found.analyses.itertuples():
        assert draws(found, "placebo", row.stratum) == pytest.approx(row.rho, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_faces"])
@pytest.mark.parametrize("measure", [SC_EAT, DIFFERENCE], ids=["sc_eat", "difference"])
def test_a_measure_without_shortcuts_has_the_same_nulls(exp, measure, folder, monkeypatch):
    plain = replace(measure, by_sums=None, by_vectors=None)
    both = []
    for chosen in (measure, plain):
        monkeypatch.setattr(experiment, "intrinsic_of", lambda _, chosen=chosen: chosen)
        both.append(result(folder, exp))
    pd.testing.assert_frame_equal(both[0].draws, both[1].draws, rtol=0, atol=1e-12)
    pd.testing.assert_frame_equal(both[0].targets, both[1].targets, rtol=0, atol=1e-11)


def test_what_a_score_does_without_decides_nothing(single):
    off = {"placebo": 0, "attribute_draws": 0, "property_draws": 0}
    for exp in ("faces_to_labels", "words_to_scenes"):
        by_class, other = (result(single, exp, extrinsic="zero_shot", k=k, **off) for k in (11, 10_000))
        pd.testing.assert_frame_equal(by_class.analyses, other.analyses, check_exact=True)
        assert "retrieved" not in by_class.tables
    apart, other = (result(single, "faces_to_labels", intrinsic="difference", ddof=ddof) for ddof in (0, 1))
    pd.testing.assert_frame_equal(apart.draws, other.draws, check_exact=True)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("exp", ["labels_to_faces", "faces_to_words"])
def test_scores_are_the_same_whether_all_similarities_are_asked_for_or_not(choice, exp, folder):
    off = {"placebo": 0, "attribute_draws": 0, "property_draws": 0}
    for sizes in ({}, {"set_size": 6, "extremes": 3}):
        every, few = result(folder, exp, **choice, **sizes), result(folder, exp, **choice, **sizes, **off)
        pd.testing.assert_frame_equal(every.targets, few.targets, rtol=0, atol=1e-11)


@pytest.mark.parametrize("exp", VALENCE)
def test_held_out_extremes_are_no_classes(exp, single):
    with pytest.raises(NotApplicable, match=r"zero_shot are A and B.*Set protocol.attributes=corpus"):
        result(single, exp, extrinsic="zero_shot", attributes="held_out")


@pytest.mark.parametrize("exp", GROUP)
def test_held_out_groups_have_classes_of_the_other_half(exp, single):
    found = result(single, exp, extrinsic="zero_shot", attributes="held_out")
    assert any("attributes are held out: classes are of" in note for note in found.notes)
    targets, corpus, target_vectors, items, protocol, seed = inputs(
        single, exp, extrinsic="zero_shot", attributes="held_out"
    )
    (pool,) = experiment.check(targets, corpus, protocol, seed).pools
    moved = items.clone()
    moved[np.setdiff1d(np.arange(len(items)), pool.rows[pool.retrievable])] *= -1
    other = experiment.run(targets, corpus, target_vectors, moved, protocol, seed)
    pd.testing.assert_series_equal(found.targets["extrinsic"], other.targets["extrinsic"])
    assert not found.targets["intrinsic"].equals(other.targets["intrinsic"])


# Properties.

SIZES = st.tuples(*(st.integers(1, 6) for _ in range(3)))


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES, shift=st.floats(-1, 1))
def test_a_difference_is_that_of_means_by_every_way(seed, sizes, shift):
    rng = np.random.default_rng(seed)
    n, n_a, n_b = sizes
    x, items = (torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(m, 4)))) for m in (n, 12))
    a, other, b = (rng.permutation(12)[:size] for size in (n_a, n_a, n_b))
    near, protocol = x @ items.T, ProtocolConfig()
    scores = DIFFERENCE.score(near, [a, other], b, protocol)
    for row, target in zip(near.tolist(), scores.tolist(), strict=True):
        assert target == pytest.approx([reference.difference(row, one, b) for one in (a, other)], abs=1e-14)
    torch.testing.assert_close(DIFFERENCE.score(near + shift, [a, other], b, protocol), scores)
    torch.testing.assert_close(DIFFERENCE.score(near, [b], a, protocol)[:, 0], -scores[:, 0])
    torch.testing.assert_close(DIFFERENCE.by_vectors(items, [a, other], [b, b], protocol)(x), scores)
    sums = [torch.stack([near[:, one].sum(dim=1) for one in sets]) for sets in ((a, other), (b, b))]
    by_sums = DIFFERENCE.by_sums(Sums(sums[0], n_a, sums[1], n_b, lambda: None), protocol)
    torch.testing.assert_close(by_sums.T, scores)


@given(seed=st.integers(0, 2**32 - 1), several=st.booleans(), order=st.permutations(range(3)))
def test_shares_of_templates_sum_to_one_and_do_not_know_the_order_of_classes(seed, several, order):
    rng = np.random.default_rng(seed)
    # Few directions: ties are the rule.
    x, classes = (
        torch.from_numpy(rng.integers(-1, 2, shape).astype(float)) + 1e-9
        for shape in ((5, 2, 3) if several else (5, 3), (4, 3, 2, 3))
    )
    x, classes = (torch.nn.functional.normalize(vectors, dim=-1) for vectors in (x, classes))
    shares = nearest_class.shares(x, classes)
    assert shares.sum(dim=1).numpy() == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close(nearest_class.shares(x, classes[:, list(order)]), shares[:, list(order)])
    for draw in range(2):
        means = {t: dict(enumerate(classes[t, :, draw].tolist())) for t in range(4)}
        for row, vector in zip(shares[..., draw].tolist(), x.tolist(), strict=True):
            near = reference.share_nearest(vector, means)
            assert row == pytest.approx([near[name] for name in range(3)], abs=1e-9)


# Names.


def test_what_is_no_measure_is_named():
    with pytest.raises(InputError, match=r"intrinsic=math:pi: expected IntrinsicMeasure, got float"):
        measures.intrinsic_of(ProtocolConfig(intrinsic="math:pi"))
    with pytest.raises(InputError, match="extrinsic: unknown name 'zero_shoot'. Did you mean 'zero_shot'"):
        measures.extrinsic_of(ProtocolConfig(extrinsic="zero_shoot"))


def test_versions_are_those_of_what_is_not_the_first():
    first = ProtocolConfig()
    assert measures.versions(first) == {}
    other = replace(first, intrinsic="difference", extrinsic="zero_shot")
    assert measures.versions(other) == {"intrinsic.difference": 1, "extrinsic.zero_shot": 1}
    own = "src.studies.propagation.cosine_difference:DIFFERENCE"
    assert measures.versions(replace(first, intrinsic=own)) == {f"intrinsic.{own}": 1}
