"""Check audits and their draws against naive loops (docs/methods.md, section 3), and their errors."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.stimuli import checked
from src.studies.implicit import experiment
from src.studies.implicit.config import AuditConfig
from src.studies.shared import group_comparison
from src.studies.shared.resampling import weights
from tests import implicit as naive
from tests import reference

EXP = AuditConfig(
    paper="t",
    attribute="morals",
    template="a {} face",
    sets={"good": ["kind", "warm", "true"], "bad": ["cruel", "cold"]},
    pairs=[["kind", "cruel"], ["warm", "cold"], ["sweet", "cold"]],
)
COSINES = ("delta_gap", "delta_signed", "cohens_d", "z", "upper_tail", "cles_mcgraw_wong", "cles", "cles_gap")


@pytest.fixture(scope="module")
def protocol():
    small = ("faces_per_group=9", "partitions=60", "bootstrap=40")
    composed = configs.compose(["model=toy_s", *(f"protocol.{choice}" for choice in small)])
    return Job.of(*composed, "unused").cfg.protocol


def faces_of(**sizes):
    rows = [{"id": f"{group}{i:03d}", "group": group} for group, size in sizes.items() for i in range(size)]
    return checked("faces", pd.DataFrame(rows), "t")


FACES = faces_of(Ada=7, Bea=9, Cyd=8)


def observed(faces, exp=EXP, seed=0, width=5, q=0):
    """Draw vectors of few different coordinates: many cosines are tied."""
    rng = np.random.default_rng(seed)
    shape = (len(faces.frame), *([q] if q else []), width)
    texts = rng.integers(-1, 2, size=(len(experiment.prompts(exp).frame), width)) + 0.5
    return torch.from_numpy(rng.integers(-1, 2, size=shape) + 0.5), torch.from_numpy(texts)


def made(protocol, exp=EXP, faces=FACES, seed=3, vectors=None):
    return experiment.run(
        exp, faces, experiment.prompts(exp), *(vectors or observed(faces, exp)), protocol, seed
    )


def cosines_of(faces, exp, vectors):
    """Return id -> word -> cosine."""
    words = experiment.prompts(exp).frame["word"]
    images, texts = (side.tolist() for side in vectors)
    return {
        name: {
            word: round(reference.cosine(image, text), 12) for word, text in zip(words, texts, strict=True)
        }
        for name, image in zip(faces.frame["id"], images, strict=True)
    }


def statistics(near, a, b, words, ties):
    to_a, to_b = ([[near[name][word] for word in words] for name in side] for side in (a, b))
    z, share = naive.z(to_a, to_b), naive.cles(to_a, to_b, ties)
    return {
        "delta_gap": naive.delta_gap(to_a, to_b),
        "delta_signed": naive.mean(naive.gaps(to_a, to_b)),
        "cohens_d": naive.cohens_d(to_a, to_b),
        "z": z,
        "upper_tail": naive.above(z),
        "cles_mcgraw_wong": naive.cles_mcgraw_wong(to_a, to_b),
        "cles": share,
        "cles_gap": abs(share - 0.5),
    }


def associated(near, a, b, pairs, definition):
    sums = [
        naive.iat_sums(*([[near[name][pair[side]] for pair in pairs] for name in group] for side in (0, 1)))
        for group in (a, b)
    ]
    return {"iat": naive.iat(*sums, definition), "iat_signed": sum(sums[0]) - sum(sums[1])}


def means(parts):
    return {name: naive.mean(piece[name] for piece in parts) for name in parts[0]}


def all_of(near, a, b, ties, definition):
    """Return attribute -> statistics."""
    result = {name: statistics(near, a, b, words, ties) for name, words in EXP.sets.items()}
    result[EXP.attribute] = means([result["good"], result["bad"]])
    return {name: piece | associated(near, a, b, EXP.pairs, definition) for name, piece in result.items()}


def chosen(faces, size, seed):
    result = {}
    for i, group in enumerate(sorted(set(faces.frame["group"]))):
        ids = sorted(faces.frame["id"][faces.frame["group"] == group])
        order = np.random.default_rng([seed, i]).permutation(len(ids))
        result[group] = sorted(ids[j] for j in order[:size])
    return result


@pytest.mark.parametrize(
    ("ties", "definition", "measure", "q"),
    [("half", "total", "cles", 0), ("strict", "by_pair", "iat", 3), ("strict", "total", "cles", 0)],
)
def test_an_audit_is_the_naive_loop(protocol, ties, definition, measure, q):
    protocol = replace(protocol, ties=ties, iat=definition)
    exp, vectors = replace(EXP, measure=measure), observed(FACES, q=q)
    result = made(protocol, exp, vectors=vectors)
    near = cosines_of(FACES, exp, vectors)
    used = chosen(FACES, 7, 3)
    rows = result.analyses.set_index(["group_a", "group_b", "attribute"])
    assert list(result.analyses.columns) == list(experiment.COLUMNS)
    assert len(rows) == 3 * 3
    assert (rows[["n_a", "n_b"]] == 7).all(axis=None)
    for a, b in combinations(["Ada", "Bea", "Cyd"], 2):
        members = group_comparison.partitions([*used[a], *used[b]], 7, 60, 3)
        null = [
            all_of(near, [x for x, i in named if i], [x for x, i in named if not i], ties, definition)
            for named in (list(zip([*used[a], *used[b]], row, strict=True)) for row in members)
        ]
        drawn = [weights(pd.DataFrame({"name": used[group]}), 40, 3) for group in (a, b)]
        samples = [
            all_of(near, np.repeat(used[a], of_a), np.repeat(used[b], of_b), ties, definition)
            for of_a, of_b in zip(*drawn, strict=True)
        ]
        for attribute, expected in all_of(near, used[a], used[b], ties, definition).items():
            row = rows.loc[a, b, attribute]
            of_null = {name: [item[attribute][name] for item in null] for name in expected}
            measured = "iat" if measure == "iat" else "cles_gap"
            expected["iat_rate"] = expected["iat"] / (2 * 7 * 3)
            expected["null_mean"] = naive.mean(of_null[measured])
            expected["null_q95"] = np.quantile(of_null[measured], 0.95)
            for p, statistic in (("p_null", measured), ("p_null_delta", "delta_gap")):
                reached = sum(value >= expected[statistic] - 1e-9 for value in of_null[statistic])
                expected[p] = (1 + reached) / 61
            for name, statistic in (("cles", "cles"), ("iat", "iat_signed")):
                sampled = [item[attribute][statistic] for item in samples]
                expected[f"{name}_low"], expected[f"{name}_high"] = np.percentile(sampled, [2.5, 97.5])
            assert row[list(expected)].astype(float).to_dict() == pytest.approx(expected, abs=1e-10)

            draws = result.tables["draws"].query(
                "attribute == @attribute and group_a == @a and group_b == @b"
            )
            for kind, sampled in (("null", null), ("bootstrap", samples)):
                of_kind = draws[draws["kind"] == kind]
                assert of_kind["draw"].tolist() == list(range(len(sampled)))
                for name in ("cles", "cles_gap", "iat"):
                    message = [item[attribute][name] for item in sampled]
                    assert of_kind[name].to_numpy() == pytest.approx(message, abs=1e-10), (kind, name)


def test_tables_hold_the_faces_used(protocol):
    vectors = observed(FACES)
    result = made(protocol, vectors=vectors)
    near, used = cosines_of(FACES, EXP, vectors), chosen(FACES, 7, 3)
    attributes = result.tables["attributes"]
    assert {name: sorted(piece["id"]) for name, piece in attributes.groupby("group")} == used
    displayed = result.tables["similarities"]
    for row in displayed.itertuples():
        assert row.cosine == pytest.approx(near[row.id][row.word], abs=1e-12)
    words = displayed.drop_duplicates(["set", "word"])
    pairs = [f"{row.set} {row.word}" for row in words.fillna("-").itertuples()]
    assert pairs == ["good kind", "good warm", "good true", "bad cruel", "bad cold", "- sweet"]
    assert len(displayed) == 3 * 7 * 6
    assert result.notes == ["7 faces of each of 3 groups, 9 asked for"]


def test_a_single_set_has_no_mean_and_no_pairs_have_no_iat(protocol):
    exp = replace(EXP, sets={"good": ["kind", "warm"]}, pairs=[])
    result = made(protocol, exp, faces_of(Ada=9, Bea=9))
    assert result.analyses["attribute"].tolist() == ["good"]
    undefined = result.analyses.columns[result.analyses.isna().all()]
    assert list(undefined) == ["iat", "iat_signed", "iat_low", "iat_high", "iat_rate"]
    assert result.tables["draws"]["iat"].isna().all()
    assert result.notes == []


def test_without_draws_nothing_is_drawn(protocol):
    result = made(replace(protocol, partitions=0, bootstrap=0))
    undefined = result.analyses.columns[result.analyses.isna().all()]
    requested = "null_mean null_q95 p_null p_null_delta cles_low cles_high iat_low iat_high"
    assert set(undefined) == set(requested.split())
    assert result.tables["draws"].empty
    assert result.tables["draws"].dtypes.equals(made(protocol).tables["draws"].dtypes)


def test_equal_faces_are_undefined_not_an_error(protocol):
    vectors = torch.ones(len(FACES.frame), 5), observed(FACES)[1]
    rows = made(protocol, vectors=vectors).analyses
    assert rows[["cohens_d"]].isna().all(axis=None)
    assert rows[["cles", "cles_low", "cles_high"]].eq(0.5).all(axis=None)
    assert rows[["p_null", "p_null_delta"]].eq(1).all(axis=None)


def test_several_vectors_are_pooled_as_the_protocol_says(protocol):
    images, texts = observed(FACES, q=4)
    unit = torch.nn.functional.normalize(images.double(), dim=-1)
    mean = made(replace(protocol, pooling="mean"), vectors=(unit, texts))
    single = torch.nn.functional.normalize(unit.mean(dim=1), dim=-1)
    pd.testing.assert_frame_equal(mean.analyses, made(protocol, vectors=(single, texts)).analyses)
    assert not mean.analyses["cles"].equals(made(protocol, vectors=(unit, texts)).analyses["cles"])


def test_draws_depend_on_names_and_seed_not_on_order_or_other_groups(protocol):
    names = [f"f{i}" for i in range(12)]
    members = group_comparison.partitions(names, 4, 6000, 0)
    assert np.array_equal(members, group_comparison.partitions(names[::-1], 4, 6000, 0))
    for other, seed in ((names, 1), ([*names[1:], "g"], 0)):
        assert not np.array_equal(members, group_comparison.partitions(other, 4, 6000, seed))
    few, ids = replace(protocol, faces_per_group=4), FACES.frame["id"]
    subsets = (
        experiment.check(replace(EXP, groups=groups), FACES, few, 3) for groups in (None, ["Cyd", "Bea"])
    )
    every, some = ({name: ids[rows].tolist() for name, rows in subset.items()} for subset in subsets)
    assert every == chosen(FACES, 4, 3)
    assert some == {name: every[name] for name in ("Bea", "Cyd")}


def test_morphs_have_the_weights_of_their_parents(protocol):
    parents = [tuple(pair) for pair in combinations("pqrst", 2)]
    rows = [
        {"id": f"{group}{a}~{b}", "group": group, "parent_a": group + a, "parent_b": group + b}
        for group in ("Ada", "Bea")
        for a, b in parents
    ]
    morphs = checked("faces", pd.DataFrame(rows), "t")
    singly = checked("faces", pd.DataFrame(rows)[["id", "group"]], "t")
    vectors = observed(morphs)
    wide, narrow = (
        made(replace(protocol, bootstrap=400), faces=faces, vectors=vectors).analyses
        for faces in (morphs, singly)
    )
    assert ((wide["cles_high"] - wide["cles_low"]) > 1.2 * (narrow["cles_high"] - narrow["cles_low"])).all()
    pd.testing.assert_series_equal(wide["p_null"], narrow["p_null"])


@pytest.mark.parametrize("measure", ["cles", "iat"])
def test_exchangeable_faces_are_rejected_at_the_nominal_rate(protocol, measure):
    """Check the level of the permutation test."""
    exp = replace(EXP, measure=measure, sets={"good": EXP.sets["good"]})
    faces, small = faces_of(Ada=12, Bea=12), replace(protocol, faces_per_group=12, partitions=99, bootstrap=0)
    count = 200
    result = []
    for seed in range(count):
        rng = np.random.default_rng([7, seed])
        vectors = [torch.from_numpy(rng.normal(size=(n, 6))) for n in (24, 6)]
        rows = made(small, exp, faces, seed, vectors).analyses
        result.append(rows.loc[0, ["p_null", "p_null_delta"]].to_numpy(dtype=float))
    low, high = stats.binom.ppf([0.0005, 0.9995], count, 0.05)
    reached = (np.array(result) <= 0.05).sum(axis=0)
    assert (reached <= high).all()
    # Sums of signs are coarse: ties with the observed make the IAT's test conservative.
    assert (reached[1:] if measure == "iat" else reached >= low).all()
    assert np.mean(result) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"template": "{} and {}"}, "expected the word's place"),
        ({"sets": {}}, "exp.sets: no set of words"),
        ({"sets": {"good": ["kind"], "bad": []}}, "exp.sets.bad: expected words, got no word"),
        ({"sets": {"good": ["kind", " "]}}, "exp.sets.good: expected words, got an empty word"),
        ({"pairs": [["kind", "cruel"], ["warm"]]}, r"exp.pairs: \['warm'\] is not a pair"),
        ({"pairs": [["kind", "kind"]]}, "'kind' occurs 2 times"),
        ({"pairs": [], "measure": "iat"}, "exp.measure=iat: no pairs of words"),
        ({"attribute": "good"}, "exp.attribute=good: a set has this name too. Choose another"),
    ],
)
def test_invalid_experiments_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        experiment.prompts(replace(EXP, **wrong))


@pytest.mark.parametrize(
    ("groups", "faces", "message", "error"),
    [
        (["Ada", "Bee"], FACES, r"no faces of 'Bee'. Did you mean 'Bea'\? There are: Ada", InputError),
        (["Ada", "Bea", "Ada"], FACES, "'Ada' occurs twice", InputError),
        (None, faces_of(Ada=4, Bea=1), "1 face of 'Bea'; an audit needs two of each group", InputError),
        ([], FACES, "an audit compares two groups or more", NotApplicable),
        (None, faces_of(Ada=5), "an audit compares two groups or more", NotApplicable),
    ],
)
def test_groups_that_cannot_be_compared(protocol, groups, faces, message, error):
    with pytest.raises(InputError, match=message) as caught:
        experiment.check(replace(EXP, groups=groups), faces, protocol, 0)
    assert type(caught.value) is error
