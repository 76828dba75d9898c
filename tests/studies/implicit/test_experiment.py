"""Check audits and their draws against naive loops (docs/methods.md, section 3), and their errors."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src import configs
from src.configs import RunConfig
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.stimuli import PROMPTS, build_table
from src.studies.implicit import experiment
from src.studies.implicit.config import AuditConfig
from src.studies.shared import group_comparison
from src.studies.shared.resampling import draw_weights
from tests import reference
from tests import reference as naive

EXP = AuditConfig(
    paper="t",
    attribute="morals",
    template="a {} face",
    sets={"good": ["kind", "warm", "true"], "bad": ["cruel", "cold"]},
    pairs=[["kind", "cruel"], ["warm", "cold"], ["sweet", "cold"]],
)


@pytest.fixture(scope="module")
def protocol():
    small = ["protocol.faces_per_group=9", "protocol.partitions=60", "protocol.bootstrap=40"]
    return Job.of(*configs.compose(["model=toy_s", *small]), "unused").cfg.protocol


def faces_of(**sizes):
    rows = [{"id": f"{group}{i:03d}", "group": group} for group, size in sizes.items() for i in range(size)]
    return build_table("faces", pd.DataFrame(rows), "t")


FACES = faces_of(Ada=7, Bea=9, Cyd=8)


def draw_vectors(faces, exp=EXP, seed=0, width=5, q=0):
    """Draw vectors with few distinct coordinates, so that many cosines are tied."""
    rng = np.random.default_rng(seed)
    shape = (len(faces.frame), *([q] if q else []), width)
    texts = rng.integers(-1, 2, size=(len(prompts_of(exp).frame), width)) + 0.5
    return torch.from_numpy(rng.integers(-1, 2, size=shape) + 0.5), torch.from_numpy(texts)


def run_audit(protocol, exp=EXP, faces=FACES, seed=3, vectors=None):
    cfg = RunConfig(exp=exp, protocol=protocol, seed=seed)
    tables = {"faces": faces, PROMPTS: prompts_of(exp)}
    return experiment.run(cfg, tables, dict(zip(tables, vectors or draw_vectors(faces, exp), strict=True)))


def prompts_of(exp):
    return experiment.build_prompts(RunConfig(exp=exp))


def check(protocol, exp, faces, seed):
    return experiment.sample_faces(RunConfig(exp=exp, protocol=protocol, seed=seed), {"faces": faces})


def cosines_of(faces, exp, vectors):
    """Compute face id -> word -> cosine."""
    images, texts = (side.tolist() for side in vectors)
    images = dict(zip(faces.frame["id"], images, strict=True))
    texts = dict(zip(prompts_of(exp).frame["word"], texts, strict=True))
    return {
        face: {word: round(reference.cosine(image, text), 12) for word, text in texts.items()}
        for face, image in images.items()
    }


def statistics(cosine, a, b, words, ties):
    to_a, to_b = ([[cosine[name][word] for word in words] for name in group] for group in (a, b))
    z, cles = naive.z(to_a, to_b), naive.cles(to_a, to_b, ties)
    return {
        "delta_gap": naive.delta_gap(to_a, to_b),
        "delta_signed": naive.mean(naive.gaps(to_a, to_b)),
        "cohens_d": naive.cohens_d(to_a, to_b),
        "z": z,
        "upper_tail": stats.norm.sf(z),
        "cles_mcgraw_wong": naive.cles_mcgraw_wong(to_a, to_b),
        "cles": cles,
        "cles_gap": abs(cles - 0.5),
    }


def audit_statistics(cosine, a, b, ties, definition):
    """Compute attribute -> statistic -> value."""
    result = {name: statistics(cosine, a, b, words, ties) for name, words in EXP.sets.items()}
    result[EXP.attribute] = {
        name: naive.mean([good, result["bad"][name]]) for name, good in result["good"].items()
    }
    sums = [
        naive.iat_sums(*([[cosine[name][x[side]] for x in EXP.pairs] for name in group] for side in (0, 1)))
        for group in (a, b)
    ]
    iat = {"iat": naive.iat(*sums, definition), "iat_signed": sum(sums[0]) - sum(sums[1])}
    return {name: values | iat for name, values in result.items()}


def sample_faces(faces, size, seed):
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
def test_an_audit_equals_the_naive_loop(protocol, ties, definition, measure, q):
    protocol = replace(protocol, ties=ties, iat=definition)
    exp, vectors = replace(EXP, measure=measure), draw_vectors(FACES, q=q)
    result = run_audit(protocol, exp, vectors=vectors)
    cosines = cosines_of(FACES, exp, vectors)
    ids = sample_faces(FACES, 7, 3)
    rows = result.analyses.set_index(["group_a", "group_b", "attribute"])
    assert list(result.analyses.columns) == list(experiment.COLUMNS)
    assert len(rows) == 3 * 3
    assert (rows[["n_a", "n_b"]] == 7).all(axis=None)
    for a, b in combinations(["Ada", "Bea", "Cyd"], 2):
        pooled = np.array([*ids[a], *ids[b]])
        null = [
            audit_statistics(cosines, pooled[in_a], pooled[~in_a], ties, definition)
            for in_a in group_comparison.draw_partitions(pooled, 7, 60, 3).astype(bool)
        ]
        counts = [draw_weights(pd.DataFrame({"name": ids[group]}), 40, 3) for group in (a, b)]
        samples = [
            audit_statistics(cosines, np.repeat(ids[a], n_a), np.repeat(ids[b], n_b), ties, definition)
            for n_a, n_b in zip(*counts, strict=True)
        ]
        for attribute, expected in audit_statistics(cosines, ids[a], ids[b], ties, definition).items():
            row = rows.loc[a, b, attribute]
            null_values = {name: [item[attribute][name] for item in null] for name in expected}
            column = "iat" if measure == "iat" else "cles_gap"
            expected["iat_rate"] = expected["iat"] / (2 * 7 * 3)
            expected["null_mean"] = naive.mean(null_values[column])
            expected["null_q95"] = np.quantile(null_values[column], 0.95)
            for p, statistic in (("p_null", column), ("p_null_delta", "delta_gap")):
                n_extreme = sum(value >= expected[statistic] - 1e-9 for value in null_values[statistic])
                expected[p] = (1 + n_extreme) / 61
            for name, statistic in (("cles", "cles"), ("iat", "iat_signed")):
                values = [item[attribute][statistic] for item in samples]
                expected[f"{name}_low"], expected[f"{name}_high"] = np.percentile(values, [2.5, 97.5])
            assert row[list(expected)].astype(float).to_dict() == pytest.approx(expected, abs=1e-10)

            draws = result.tables["draws"].query(
                "attribute == @attribute and group_a == @a and group_b == @b"
            )
            for kind, draw_statistics in (("null", null), ("bootstrap", samples)):
                kind_draws = draws[draws["kind"] == kind]
                assert kind_draws["draw"].tolist() == list(range(len(draw_statistics)))
                for name in ("cles", "cles_gap", "iat"):
                    values = [item[attribute][name] for item in draw_statistics]
                    assert kind_draws[name].to_numpy() == pytest.approx(values, abs=1e-10), (kind, name)


def test_tables_hold_the_faces_used(protocol):
    vectors = draw_vectors(FACES)
    result = run_audit(protocol, vectors=vectors)
    cosines, ids = cosines_of(FACES, EXP, vectors), sample_faces(FACES, 7, 3)
    attributes = result.tables["attributes"]
    assert {name: sorted(rows["id"]) for name, rows in attributes.groupby("group")} == ids
    similarities = result.tables["similarities"]
    for row in similarities.itertuples():
        assert row.cosine == pytest.approx(cosines[row.id][row.word], abs=1e-12)
    words = similarities.drop_duplicates(["set", "word"])
    set_words = [f"{row.set} {row.word}" for row in words.fillna("-").itertuples()]
    assert set_words == ["good kind", "good warm", "good true", "bad cruel", "bad cold", "- sweet"]
    assert len(similarities) == 3 * 7 * 6
    assert result.notes == [
        "7 faces per group, fewer than protocol.faces_per_group=9, because the smallest group has no more."
    ]


def test_a_single_set_has_no_mean_and_no_pairs_have_no_iat(protocol):
    exp = replace(EXP, sets={"good": ["kind", "warm"]}, pairs=[])
    result = run_audit(protocol, exp, faces_of(Ada=9, Bea=9))
    assert result.analyses["attribute"].tolist() == ["good"]
    undefined = result.analyses.columns[result.analyses.isna().all()]
    assert list(undefined) == ["iat", "iat_signed", "iat_low", "iat_high", "iat_rate"]
    assert result.tables["draws"]["iat"].isna().all()
    assert result.notes == []


def test_without_draws_nothing_is_drawn(protocol):
    result = run_audit(replace(protocol, partitions=0, bootstrap=0))
    undefined = result.analyses.columns[result.analyses.isna().all()]
    draw_columns = "null_mean null_q95 p_null p_null_delta cles_low cles_high iat_low iat_high"
    assert set(undefined) == set(draw_columns.split())
    assert result.tables["draws"].empty
    assert result.tables["draws"].dtypes.equals(run_audit(protocol).tables["draws"].dtypes)


def test_equal_faces_are_undefined_not_an_error(protocol):
    vectors = torch.ones(len(FACES.frame), 5), draw_vectors(FACES)[1]
    rows = run_audit(protocol, vectors=vectors).analyses
    assert rows[["cohens_d"]].isna().all(axis=None)
    assert rows[["cles", "cles_low", "cles_high"]].eq(0.5).all(axis=None)
    assert rows[["p_null", "p_null_delta"]].eq(1).all(axis=None)


def test_several_vectors_are_pooled_as_the_protocol_says(protocol):
    images, texts = draw_vectors(FACES, q=4)
    unit = torch.nn.functional.normalize(images.double(), dim=-1)
    mean = run_audit(replace(protocol, pooling="mean"), vectors=(unit, texts))
    pooled = torch.nn.functional.normalize(unit.mean(dim=1), dim=-1)
    pd.testing.assert_frame_equal(mean.analyses, run_audit(protocol, vectors=(pooled, texts)).analyses)
    assert not mean.analyses["cles"].equals(run_audit(protocol, vectors=(unit, texts)).analyses["cles"])


def test_draws_depend_on_names_and_seed_not_on_order_or_other_groups(protocol):
    names = [f"f{i}" for i in range(12)]
    partitions = group_comparison.draw_partitions(names, 4, 6000, 0)
    assert np.array_equal(partitions, group_comparison.draw_partitions(names[::-1], 4, 6000, 0))
    for other_names, seed in ((names, 1), ([*names[1:], "g"], 0)):
        assert not np.array_equal(partitions, group_comparison.draw_partitions(other_names, 4, 6000, seed))
    small, ids = replace(protocol, faces_per_group=4), FACES.frame["id"]
    rows_by_group = (check(small, replace(EXP, groups=groups), FACES, 3) for groups in (None, ["Cyd", "Bea"]))
    full, subset = ({name: ids[rows].tolist() for name, rows in rows_of.items()} for rows_of in rows_by_group)
    assert full == sample_faces(FACES, 4, 3)
    assert subset == {name: full[name] for name in ("Bea", "Cyd")}


def test_morphs_have_the_weights_of_their_parents(protocol):
    parents = [tuple(pair) for pair in combinations("pqrst", 2)]
    rows = [
        {"id": f"{group}{a}~{b}", "group": group, "parent_a": group + a, "parent_b": group + b}
        for group in ("Ada", "Bea")
        for a, b in parents
    ]
    morphs = build_table("faces", pd.DataFrame(rows), "t")
    unrelated = build_table("faces", pd.DataFrame(rows)[["id", "group"]], "t")
    vectors = draw_vectors(morphs)
    wide, narrow = (
        run_audit(replace(protocol, bootstrap=400), faces=faces, vectors=vectors).analyses
        for faces in (morphs, unrelated)
    )
    assert ((wide["cles_high"] - wide["cles_low"]) > 1.2 * (narrow["cles_high"] - narrow["cles_low"])).all()
    # Morphs that share parents are not permuted singly.
    assert wide["p_null"].isna().all()
    assert narrow["p_null"].notna().all()


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["cles", pytest.param("iat", marks=pytest.mark.exhaustive)])
def test_exchangeable_faces_are_rejected_at_the_nominal_rate(protocol, measure):
    """Check the level of the permutation test."""
    exp = replace(EXP, measure=measure, sets={"good": EXP.sets["good"]})
    faces, small = faces_of(Ada=12, Bea=12), replace(protocol, faces_per_group=12, partitions=99, bootstrap=0)
    count = 200
    p_values = []
    for seed in range(count):
        rng = np.random.default_rng([7, seed])
        vectors = [torch.from_numpy(rng.normal(size=(n, 6))) for n in (24, 6)]
        rows = run_audit(small, exp, faces, seed, vectors).analyses
        p_values.append(rows.loc[0, ["p_null", "p_null_delta"]].to_numpy(dtype=float))
    low, high = stats.binom.ppf([0.0005, 0.9995], count, 0.05)
    rejections = (np.array(p_values) <= 0.05).sum(axis=0)
    assert (rejections <= high).all()
    # The IAT sums signs: ties with the observed value make its test conservative.
    assert (rejections[1:] if measure == "iat" else rejections >= low).all()
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"template": "{} and {}"}, "expected {} exactly once, got it 2 times"),
        ({"sets": {}}, "exp.sets: no set of words"),
        ({"sets": {"good": ["kind"], "bad": []}}, "exp.sets.bad: expected words, got no word"),
        ({"sets": {"good": ["kind", " "]}}, "exp.sets.good: expected words, got an empty word"),
        ({"pairs": [["kind", "cruel"], ["warm"]]}, r"exp.pairs: \['warm'\] is not a pair"),
        ({"pairs": [["kind", "kind"]]}, "'kind' occurs 2 times"),
        ({"pairs": [], "measure": "iat"}, "exp.measure=iat: no pairs of words"),
        ({"attribute": "good"}, "exp.attribute=good: a set has this name too. Choose another"),
    ],
)
def test_invalid_experiments_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        prompts_of(replace(EXP, **changes))


@pytest.mark.parametrize(
    ("groups", "faces", "message", "error"),
    [
        (["Ada", "Bee"], FACES, r"no faces of 'Bee'. Did you mean 'Bea'\? There are: Ada", InputError),
        (["Ada", "Bea", "Ada"], FACES, "'Ada' occurs twice", InputError),
        (None, faces_of(Ada=4, Bea=1), "1 face of 'Bea'; an audit needs two of each group", InputError),
        ([], FACES, "an audit compares two or more groups", NotApplicable),
        (None, faces_of(Ada=5), "an audit compares two or more groups", NotApplicable),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(protocol, groups, faces, message, error):
    with pytest.raises(InputError, match=message) as caught:
        check(protocol, replace(EXP, groups=groups), faces, 0)
    assert type(caught.value) is error
