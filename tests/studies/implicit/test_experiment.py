"""An audit against loops (docs/methods.md, section 3), its draws against what they say, and its errors."""

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
from src.stimuli import Table, checked
from src.storage import results
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


def seen(faces, exp=EXP, seed=0, width=5, q=0):
    """Vectors of few different coordinates: many cosines are tied."""
    rng = np.random.default_rng(seed)
    shape = (len(faces.frame), *([q] if q else []), width)
    texts = rng.integers(-1, 2, size=(len(experiment.prompts(exp).frame), width)) + 0.5
    return torch.from_numpy(rng.integers(-1, 2, size=shape) + 0.5), torch.from_numpy(texts)


def made(protocol, exp=EXP, faces=FACES, seed=3, vectors=None):
    return experiment.run(exp, faces, experiment.prompts(exp), *(vectors or seen(faces, exp)), protocol, seed)


def cosines_of(faces, exp, vectors):
    """Id -> word -> cosine."""
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


def associated(near, a, b, pairs, reading):
    sums = [
        naive.iat_sums(*([[near[name][pair[side]] for pair in pairs] for name in group] for side in (0, 1)))
        for group in (a, b)
    ]
    return {"iat": naive.iat(*sums, reading), "iat_signed": sum(sums[0]) - sum(sums[1])}


def means(parts):
    return {name: naive.mean(part[name] for part in parts) for name in parts[0]}


def all_of(near, a, b, ties, reading):
    """Attribute -> each statistic."""
    found = {name: statistics(near, a, b, words, ties) for name, words in EXP.sets.items()}
    found[EXP.attribute] = means([found["good"], found["bad"]])
    return {name: part | associated(near, a, b, EXP.pairs, reading) for name, part in found.items()}


def chosen(faces, size, seed):
    found = {}
    for i, group in enumerate(sorted(set(faces.frame["group"]))):
        ids = sorted(faces.frame["id"][faces.frame["group"] == group])
        order = np.random.default_rng([seed, i]).permutation(len(ids))
        found[group] = sorted(ids[j] for j in order[:size])
    return found


@pytest.mark.parametrize(
    ("ties", "reading", "measure", "q"),
    [("half", "total", "cles", 0), ("strict", "by_pair", "iat", 3), ("strict", "total", "cles", 0)],
)
def test_an_audit_is_the_naive_loop(protocol, ties, reading, measure, q):
    protocol = replace(protocol, ties=ties, iat=reading)
    exp, vectors = replace(EXP, measure=measure), seen(FACES, q=q)
    found = made(protocol, exp, vectors=vectors)
    near = cosines_of(FACES, exp, vectors)
    used = chosen(FACES, 7, 3)
    rows = found.analyses.set_index(["group_a", "group_b", "attribute"])
    assert list(found.analyses.columns) == list(experiment.COLUMNS)
    assert len(rows) == 3 * 3
    assert (rows[["n_a", "n_b"]] == 7).all(axis=None)
    for a, b in combinations(["Ada", "Bea", "Cyd"], 2):
        members = group_comparison.partitions([*used[a], *used[b]], 7, 60, 3)
        null = [
            all_of(near, [x for x, i in named if i], [x for x, i in named if not i], ties, reading)
            for named in (list(zip([*used[a], *used[b]], row, strict=True)) for row in members)
        ]
        drawn = [weights(pd.DataFrame({"name": used[group]}), 40, 3) for group in (a, b)]
        samples = [
            all_of(near, np.repeat(used[a], of_a), np.repeat(used[b], of_b), ties, reading)
            for of_a, of_b in zip(*drawn, strict=True)
        ]
        for attribute, expected in all_of(near, used[a], used[b], ties, reading).items():
            row = rows.loc[a, b, attribute]
            of_null = {name: [one[attribute][name] for one in null] for name in expected}
            measured = "iat" if measure == "iat" else "cles_gap"
            expected["iat_rate"] = expected["iat"] / (2 * 7 * 3)
            expected["null_mean"] = naive.mean(of_null[measured])
            expected["null_q95"] = np.quantile(of_null[measured], 0.95)
            for p, statistic in (("p_null", measured), ("p_null_delta", "delta_gap")):
                reached = sum(value >= expected[statistic] - 1e-9 for value in of_null[statistic])
                expected[p] = (1 + reached) / 61
            for name, statistic in (("cles", "cles"), ("iat", "iat_signed")):
                sampled = [one[attribute][statistic] for one in samples]
                expected[f"{name}_low"], expected[f"{name}_high"] = np.percentile(sampled, [2.5, 97.5])
            assert row[list(expected)].astype(float).to_dict() == pytest.approx(expected, abs=1e-10)

            draws = found.tables["draws"].query("attribute == @attribute and group_a == @a and group_b == @b")
            for kind, worlds in (("null", null), ("bootstrap", samples)):
                of_kind = draws[draws["kind"] == kind]
                assert of_kind["draw"].tolist() == list(range(len(worlds)))
                for name in ("cles", "cles_gap", "iat"):
                    said = [one[attribute][name] for one in worlds]
                    assert of_kind[name].to_numpy() == pytest.approx(said, abs=1e-10), (kind, name)


def test_tables_hold_the_faces_used(protocol, tmp_path):
    vectors = seen(FACES)
    found = made(protocol, vectors=vectors)
    near, used = cosines_of(FACES, EXP, vectors), chosen(FACES, 7, 3)
    attributes = found.tables["attributes"]
    assert attributes["template"].isna().all()
    assert (attributes["set"] == attributes["group"]).all()
    assert {name: sorted(part["id"]) for name, part in attributes.groupby("group")} == used
    shown = found.tables["similarities"]
    for row in shown.itertuples():
        assert row.cosine == pytest.approx(near[row.id][row.word], abs=1e-12)
    words = shown.drop_duplicates(["set", "word"])
    assert list(zip(words["set"].fillna("-"), words["word"], strict=True)) == [
        *[("good", "kind"), ("good", "warm"), ("good", "true"), ("bad", "cruel"), ("bad", "cold")],
        ("-", "sweet"),
    ]
    assert len(shown) == 3 * 7 * 6
    assert found.notes == ["7 faces of each of 3 groups, 9 asked for"]
    results.write(tmp_path, found.analyses, found.tables)
    for name, table in found.tables.items():
        kept = pd.read_parquet(tmp_path / "results" / f"{name}.parquet")
        pd.testing.assert_frame_equal(kept.astype(table.dtypes), table)


def test_one_set_has_no_mean_and_without_pairs_there_is_no_iat(protocol):
    exp = replace(EXP, sets={"good": ["kind", "warm"]}, pairs=[])
    found = made(protocol, exp, faces_of(Ada=9, Bea=9))
    assert found.analyses["attribute"].tolist() == ["good"]
    undefined = found.analyses.columns[found.analyses.isna().all()]
    assert list(undefined) == ["iat", "iat_signed", "iat_low", "iat_high", "iat_rate"]
    assert found.tables["draws"]["iat"].isna().all()
    assert found.notes == []


def test_nothing_is_drawn_where_nothing_is_asked(protocol):
    found = made(replace(protocol, partitions=0, bootstrap=0))
    undefined = found.analyses.columns[found.analyses.isna().all()]
    asked = "null_mean null_q95 p_null p_null_delta cles_low cles_high iat_low iat_high"
    assert set(undefined) == set(asked.split())
    assert found.tables["draws"].empty
    assert found.tables["draws"].dtypes.equals(made(protocol).tables["draws"].dtypes)


def test_equal_faces_are_undefined_not_an_error(protocol):
    vectors = torch.ones(len(FACES.frame), 5), seen(FACES)[1]
    rows = made(protocol, vectors=vectors).analyses
    assert rows[["cohens_d"]].isna().all(axis=None)
    assert rows[["cles", "cles_low", "cles_high"]].eq(0.5).all(axis=None)
    assert rows[["p_null", "p_null_delta"]].eq(1).all(axis=None)


def test_several_vectors_are_pooled_as_the_protocol_says(protocol):
    images, texts = seen(FACES, q=4)
    unit = torch.nn.functional.normalize(images.double(), dim=-1)
    mean = made(replace(protocol, pooling="mean"), vectors=(unit, texts))
    single = torch.nn.functional.normalize(unit.mean(dim=1), dim=-1)
    pd.testing.assert_frame_equal(mean.analyses, made(protocol, vectors=(single, texts)).analyses)
    assert not mean.analyses["cles"].equals(made(protocol, vectors=(unit, texts)).analyses["cles"])


def test_draws_hang_on_names_and_seed_alone(protocol):
    """Two models, and any set of words, see the same partitions and samples."""
    texts = torch.eye(2, dtype=torch.float64)
    exp = AuditConfig(attribute="kind", template="{}", sets={"kind": ["kind"], "odd": ["odd"]})
    angle = np.random.default_rng(0).uniform(0.1, 1.4, size=len(FACES.frame))
    one = torch.from_numpy(np.stack([np.cos(angle), np.sin(angle)], axis=1))
    first = made(protocol, replace(exp, attribute="both"), vectors=(one, texts)).tables["draws"]
    # Nearer to one word is farther from the other; so says each draw.
    kind, odd = (first[first["attribute"] == name]["cles"].to_numpy() for name in ("kind", "odd"))
    assert kind + odd == pytest.approx(np.ones(len(kind)), abs=1e-12)
    assert first[first["attribute"] == "both"]["cles"].to_numpy() == pytest.approx(0.5, abs=1e-12)
    mirrored = made(protocol, replace(exp, attribute="both"), vectors=(one.flip(1), texts)).tables["draws"]
    assert mirrored[mirrored["attribute"] == "odd"]["cles"].to_numpy() == pytest.approx(kind, abs=1e-12)
    other = made(protocol, replace(exp, attribute="both"), vectors=(one, texts), seed=4).tables["draws"]
    assert not np.allclose(other[other["attribute"] == "kind"]["cles"], kind)


def test_partitions_are_fair():
    names = [f"f{i}" for i in range(12)]
    members = group_comparison.partitions(names, 4, 6000, 0)
    assert (members.sum(axis=1) == 4).all()
    assert members.mean(axis=0) == pytest.approx(np.full(12, 1 / 3), abs=0.03)
    # Neighbours are as likely as any to stand together.
    together = (members[:, :-1] & members[:, 1:]).mean(axis=0)
    assert together == pytest.approx(np.full(11, 4 / 12 * 3 / 11), abs=0.02)
    assert np.array_equal(members, group_comparison.partitions(names, 4, 6000, 0))
    # The names decide, not their order.
    assert np.array_equal(members, group_comparison.partitions(names[::-1], 4, 6000, 0))
    for chosen, seed in ((names, 1), ([*names[1:], "g"], 0)):
        others = group_comparison.partitions(chosen, 4, 6000, seed)
        assert not np.array_equal(members, others)


def test_groups_of_faces_hang_on_no_other_choice(protocol):
    few = replace(protocol, faces_per_group=4)
    every = experiment.check(EXP, FACES, few, 3)
    assert {len(rows) for rows in every.values()} == {4}
    some = experiment.check(replace(EXP, groups=["Cyd", "Bea"]), FACES, few, 3)
    assert list(some) == ["Bea", "Cyd"]
    assert all((some[name] == every[name]).all() for name in some)
    assert not all((experiment.check(EXP, FACES, few, 4)[name] == every[name]).all() for name in every)
    ids = FACES.frame["id"].to_numpy()
    assert {name: ids[rows].tolist() for name, rows in every.items()} == chosen(FACES, 4, 3)


def test_morphs_weigh_what_their_parents_were_drawn(protocol):
    parents = [tuple(pair) for pair in combinations("pqrst", 2)]
    rows = [
        {"id": f"{group}{a}~{b}", "group": group, "parent_a": group + a, "parent_b": group + b}
        for group in ("Ada", "Bea")
        for a, b in parents
    ]
    morphs = checked("faces", pd.DataFrame(rows), "t")
    singly = checked("faces", pd.DataFrame(rows)[["id", "group"]], "t")
    vectors = seen(morphs)
    wide, narrow = (
        made(replace(protocol, bootstrap=400), faces=faces, vectors=vectors).analyses
        for faces in (morphs, singly)
    )
    assert ((wide["cles_high"] - wide["cles_low"]) > 1.2 * (narrow["cles_high"] - narrow["cles_low"])).all()
    pd.testing.assert_series_equal(wide["p_null"], narrow["p_null"])


@pytest.mark.parametrize("measure", ["cles", "iat"])
def test_exchangeable_faces_are_told_apart_as_often_as_chance_has_it(protocol, measure):
    """The level of the permutation test."""
    exp = replace(EXP, measure=measure, sets={"good": EXP.sets["good"]})
    faces, small = faces_of(Ada=12, Bea=12), replace(protocol, faces_per_group=12, partitions=99, bootstrap=0)
    worlds = 200
    found = []
    for seed in range(worlds):
        rng = np.random.default_rng([7, seed])
        vectors = [torch.from_numpy(rng.normal(size=(n, 6))) for n in (24, 6)]
        rows = made(small, exp, faces, seed, vectors).analyses
        found.append(rows.loc[0, ["p_null", "p_null_delta"]].to_numpy(dtype=float))
    low, high = stats.binom.ppf([0.0005, 0.9995], worlds, 0.05)
    reached = (np.array(found) <= 0.05).sum(axis=0)
    assert (reached <= high).all()
    # Sums of signs are coarse: ties with the observed make the IAT's test conservative.
    assert (reached[1:] if measure == "iat" else reached >= low).all()
    assert np.mean(found) == pytest.approx(0.5, abs=0.1)


def test_prompts_of_an_audit():
    found = experiment.prompts(EXP)
    assert isinstance(found, Table)
    assert (found.role, found.expected, found.items) == ("prompts", 6, 6)
    assert list(found.frame.columns) == ["id", "sentence", "word"]
    words = ["cold", "cruel", "kind", "sweet", "true", "warm"]
    assert found.frame["word"].tolist() == words
    assert found.frame["id"].tolist() == found.frame["sentence"].tolist() == [f"a {w} face" for w in words]


def test_every_audit_of_conf_has_prompts():
    for exp, count in {"competence": 3, "warmth": 3, "emotions": 12, "semantic": 12}.items():
        cfg = Job.of(*configs.compose([f"exp=cles_{exp}", "model=toy_s"]), "unused").cfg
        assert len(experiment.prompts(cfg.exp).frame) == count
        assert cfg.exp.template.replace("{}", "warm") == "A photo of a warm looking face"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"template": "a face"}, "exp.template='a face'.* must stand in it once"),
        ({"template": "{} and {}"}, "must stand in it once"),
        ({"sets": {}}, "exp.sets: no set of words"),
        ({"sets": {"good": ["kind"], "bad": []}}, "exp.sets.bad: no word: an attribute list with an empty"),
        ({"sets": {"good": ["kind", " "]}}, "exp.sets.good: an empty word: an attribute list with an empty"),
        ({"sets": {"good": ["kind", "warm", "kind"]}}, "exp.sets.good: 'kind' stands in it 2 times"),
        ({"pairs": [["kind", "cruel"], ["warm"]]}, r"exp.pairs: \['warm'\] is not a pair"),
        ({"pairs": [["kind", "cruel", "cold"]]}, "is not a pair"),
        ({"pairs": [["kind", ""]]}, "an empty word: an attribute list with an empty side"),
        ({"pairs": [["kind", "kind"]]}, "'kind' stands in it 2 times"),
        ({"pairs": [], "measure": "iat"}, "exp.measure=iat: no pairs of words"),
        ({"attribute": "good"}, "exp.attribute=good: names the mean of all sets, and one of them too"),
    ],
)
def test_prompts_that_cannot_be(wrong, said):
    with pytest.raises(InputError, match=said):
        experiment.prompts(replace(EXP, **wrong))


@pytest.mark.parametrize(
    ("groups", "faces", "said"),
    [
        (["Ada", "Bee"], FACES, "no faces of 'Bee'. Did you mean 'Bea'\\? There are: Ada, Bea, Cyd"),
        (["Ada", "Zoological"], FACES, "no faces of 'Zoological'. There are: Ada, Bea, Cyd"),
        (["Ada", "Bea", "Ada"], FACES, "'Ada' stands in it twice"),
        (None, faces_of(Ada=4, Bea=1), "1 face of 'Bea'; an audit needs two of each group"),
    ],
)
def test_groups_that_cannot_be_compared(protocol, groups, faces, said):
    with pytest.raises(InputError, match=said) as caught:
        experiment.check(replace(EXP, groups=groups), faces, protocol, 0)
    assert not isinstance(caught.value, NotApplicable)


@pytest.mark.parametrize(("groups", "faces"), [(["Ada"], FACES), ([], FACES), (None, faces_of(Ada=5))])
def test_one_group_is_not_applicable(protocol, groups, faces):
    with pytest.raises(NotApplicable, match="an audit compares two groups or more"):
        experiment.check(replace(EXP, groups=groups), faces, protocol, 0)


def test_vectors_of_two_models_do_not_meet(protocol):
    images, texts = seen(FACES)
    with pytest.raises(InputError, match="faces have vectors of width 5, prompts of width 4"):
        made(protocol, vectors=(images, texts[:, :4]))
