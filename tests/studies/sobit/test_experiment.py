"""So-B-IT against loops (docs/methods.md, section 4), its nulls against relabelled faces, and its errors."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from src.errors import InputError, NotApplicable
from src.stimuli import PROMPTS, Table
from src.studies.protocol import study_of
from src.studies.sobit.axes import faces_of
from src.studies.sobit.caption_retrieval import Nearest, resampled
from src.studies.sobit.measures import corrected
from src.studies.sobit.prompts import baseline

RACES, GENDERS = ("Alpha", "Beta", "Gamma"), ("Men", "Women")
WORDS = {
    "tempers": {"adjective": ["brisk", "odd"], "noun": ["hero"]},
    "trades": {"activity": ["reading"], "noun": ["hero"]},
}
FAST = ["protocol.permutations=99", "protocol.bootstrap=60", "protocol.vocabulary=40", "protocol.top_k=7"]


def faces(count=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": [f"f{i:03d}" for i in range(count)]})
    # Every cell has somebody, and they are not of one size.
    cells = np.concatenate([np.arange(6), rng.choice(6, count - 6, p=[0.3, 0.1, 0.2, 0.1, 0.2, 0.1])])
    frame["race"] = [RACES[cell // 2] for cell in cells]
    frame["gender"] = [GENDERS[cell % 2] for cell in cells]
    return Table("faces", frame.assign(group=frame["race"] + " " + frame["gender"]), count)


@pytest.fixture
def sobit(job):
    """Makes an experiment of random vectors."""

    def make(measure, *overrides, table=None, seed=0, q=0, words=WORDS):
        cfg = job(f"exp=sobit_{measure}", "dataset=photos", *FAST, *overrides).cfg
        cfg.taxonomy.categories = words
        shown = table or faces()
        rng = np.random.default_rng(seed)
        own = study_of(cfg.exp).prompts(cfg)
        vectors = {"faces": (len(shown.frame), *([q] if q else []), 8), PROMPTS: (len(own.frame), 8)}
        made = {}
        for role, shape in vectors.items():
            values = torch.from_numpy(rng.normal(size=shape)).float()
            made[role] = torch.nn.functional.normalize(values, dim=-1)
        return cfg, {"faces": shown, PROMPTS: own}, made

    return make


def cosines(tables, vectors):
    """caption -> cosine with each face, float64."""
    x, y = vectors["faces"].double().numpy(), vectors[PROMPTS].double().numpy()
    x, y = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y))
    found = np.einsum("...d,pd->p...", x, y)
    found = found.max(axis=2) if found.ndim == 3 else found
    return dict(zip(tables[PROMPTS].frame["sentence"], found, strict=True))


def groups(frame, axis):
    return frame["race"] + " " + frame["gender"] if axis == "both" else frame[axis]


def c(row, inside):
    return (row[inside].mean() - row[~inside].mean()) / row.std(ddof=1)


@pytest.mark.parametrize("q", [0, 3])
def test_association_is_its_definition(sobit, q):
    cfg, tables, vectors = sobit("association", q=q)
    found, seen = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    assert len(found) == 5 * (3 + 2 + 6)
    words = {("brisk", "a photo of a brisk person"), ("odd", "a photo of an odd person")}
    words |= {("hero", "a photo of a hero"), ("reading", "a photo of a person who is reading")}
    assert {*zip(found["word"], found["caption"], strict=True)} == words
    for row in found.itertuples():
        inside = (groups(frame, row.axis) == row.group).to_numpy()
        assert (row.n, row.n_rest) == (inside.sum(), (~inside).sum())
        assert row.association == pytest.approx(c(seen[row.caption], inside), abs=1e-9)
        assert row.association_low <= row.association_high
        assert 0 < row.p <= row.q <= 1


def test_the_baseline_is_of_the_largest_association_of_each_axis(sobit):
    cfg, tables, vectors = sobit("association")
    found, seen = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    held = baseline(cfg)
    assert len(held) == 40
    for (caption, axis), rows in found.groupby(["caption", "axis"]):
        whose = groups(frame, axis)

        def largest(name, whose=whose):
            return max(abs(c(seen[name], (whose == group).to_numpy())) for group in set(whose))

        expected = np.mean([largest(name) >= largest(caption) - 1e-12 for name in held])
        assert rows["baseline_share"].to_numpy() == pytest.approx(expected, abs=1e-12)


def test_retrieval_is_its_definition(sobit):
    cfg, tables, vectors = sobit("retrieval")
    result, seen = study_of(cfg.exp).run(cfg, tables, vectors), cosines(tables, vectors)
    frame, k = tables["faces"].frame, 7
    for (caption, axis), rows in result.analyses.drop_duplicates(["caption", "axis", "group"]).groupby(
        ["caption", "axis"]
    ):
        whose = groups(frame, axis).to_numpy()
        top = whose[np.argsort(-seen[caption], kind="stable")[:k]]
        p = {g: np.mean(top == g) for g in set(whose)}
        base = {g: np.mean(whose == g) for g in set(whose)}
        by_group = rows.set_index("group")
        for g in p:
            assert by_group.loc[g, "share_topk"] == pytest.approx(p[g])
            assert by_group.loc[g, "base_share"] == pytest.approx(base[g])
            assert by_group.loc[g, "ratio"] == pytest.approx(p[g] / base[g])
        one = rows.iloc[0]
        assert one["kl"] == pytest.approx(stats.entropy([p[g] for g in p], [base[g] for g in p]))
        assert one["entropy"] == pytest.approx(stats.entropy([*p.values()]) / math.log(len(p)))
        skews = [math.log(max(p[g], 1 / k) / base[g]) for g in p]
        assert one["maxskew"] == pytest.approx(max(skews))
        terms = [
            (stats.entropy([np.mean(top[:i] == g) for g in p], [base[g] for g in p]), 1 / math.log2(i + 1))
            for i in range(1, k + 1)
        ]
        assert one["ndkl"] == pytest.approx(sum(d * w for d, w in terms) / sum(w for _, w in terms))
        assert by_group["share_topk"].sum() == pytest.approx(1)
    nearest = result.tables["nearest"]
    own = nearest[nearest["caption"] == "a photo of a hero"]
    order = np.argsort(-seen["a photo of a hero"], kind="stable")[:k]
    assert list(own["id"]) == list(frame["id"].iloc[order])
    assert list(own["rank"]) == [*range(1, k + 1)]


def test_strength_is_the_share_of_frequent_words_that_are_no_stronger(sobit):
    cfg, tables, vectors = sobit("strength")
    found, seen = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    s = {caption: np.sort(row)[-7:].mean() for caption, row in seen.items()}
    held = [s[caption] for caption in baseline(cfg)]
    assert len(found) == 5
    assert found["axis"].isna().all()
    for row in found.itertuples():
        assert row.similarity == pytest.approx(s[row.caption], abs=1e-9)
        assert row.strength == pytest.approx(np.mean([value <= s[row.caption] + 1e-12 for value in held]))
        assert row.similarity_low <= row.similarity_high


def test_a_sample_in_which_each_face_stands_once_is_the_faces_themselves(sobit, monkeypatch):
    cfg, tables, vectors = sobit("association")
    monkeypatch.setattr(
        "src.studies.sobit.axes.weights",
        lambda rows, draws, seed: np.ones((draws, len(rows)), dtype=np.int16),
    )
    found = study_of(cfg.exp).run(cfg, tables, vectors)
    rows = found.analyses
    for name in ("association_low", "association_high"):
        assert rows[name].to_numpy() == pytest.approx(rows["association"].to_numpy(), abs=1e-5)
    largest = rows["association"].abs().groupby([rows["caption"], rows["axis"]]).max()
    drawn = found.tables["draws"].groupby(["caption", "axis"])["largest"].mean()
    assert drawn.loc[largest.index].to_numpy() == pytest.approx(largest.to_numpy(), abs=1e-5)


def test_a_bootstrap_sample_is_the_faces_repeated(sobit):
    _, tables, vectors = sobit("association")
    seen = cosines(tables, vectors)["a photo of a hero"]
    shown = faces_of(tables["faces"], ["both"])
    weights = np.empty((60, 5), dtype=int)
    for rows, drawn in shown.weights(5, 0):
        weights[rows] = drawn.T
        assert (drawn.sum(axis=1) == len(rows)).all()  # each cell keeps its size
    order = np.argsort(-seen, kind="stable")
    shares, similar = resampled(Nearest(order[None], seen[order][None], 7), shown, 5, 0)
    whose = groups(tables["faces"].frame, "both").to_numpy()
    for draw in range(5):
        repeated = np.repeat(order, weights[order, draw])[:7]
        assert similar[0, draw] == pytest.approx(seen[repeated].mean())
        expected = [np.mean(whose[repeated] == group) for group in shown.axes[0].groups]
        assert shares[0, draw] == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["association", "retrieval"])
def test_randomly_relabelled_faces_reject_as_often_as_asked(sobit, measure):
    # p <= .05 of the corrected test, word by word: within the 99.9% binomial band over all of them.
    worlds, rejected = 300, np.zeros((5, 3))
    cfg, tables, vectors = sobit(
        measure, "protocol.bootstrap=0", "protocol.vocabulary=0", "protocol.top_k=15"
    )
    frame, rng = tables["faces"].frame, np.random.default_rng(5)
    for _ in range(worlds):
        labels = frame[["race", "gender", "group"]].iloc[rng.permutation(len(frame))].to_numpy()
        relabelled = replace(
            tables["faces"],
            frame=frame.assign(**dict(zip(["race", "gender", "group"], labels.T, strict=True))),
        )
        rows = study_of(cfg.exp).run(cfg, {**tables, "faces": relabelled}, vectors).analyses
        rows = rows.assign(number=rows.groupby(["axis", "group"]).cumcount())
        least = rows.groupby(["number", "axis"])["p"].min().unstack()
        rejected += least.to_numpy() <= 0.05
    most = stats.binom(worlds, 0.05).ppf(1 - 0.001 / rejected.size)
    assert rejected.max() <= most
    if measure == "association":  # shares come in steps, so that their test rejects less
        assert rejected.min() >= stats.binom(worlds, 0.05).ppf(0.001 / rejected.size)


def test_a_planted_word_is_found_and_the_others_are_not(sobit):
    cfg, tables, vectors = sobit("association", "protocol.permutations=999")
    frame = tables["faces"].frame
    place = list(tables[PROMPTS].frame["sentence"]).index("a photo of a hero")
    planted = (
        vectors["faces"]
        + 0.8 * torch.tensor((frame["gender"] == "Women").to_numpy())[:, None] * vectors[PROMPTS][place]
    )
    vectors["faces"] = torch.nn.functional.normalize(planted, dim=-1)
    found = study_of(cfg.exp).run(cfg, tables, vectors).analyses
    own = found[(found["word"] == "hero") & (found["axis"] == "gender") & (found["group"] == "Women")]
    assert (own["association"] > 1).all()
    assert (own["q"] < 0.01).all()
    assert (own["association_low"] > 0).all()
    assert (own["association"] > own["null_q95"]).all()
    assert (own["baseline_share"] < 0.1).all()


def test_draws_hang_on_the_faces_alone(sobit):
    # Other words, other vectors, other order of rows: the same samples and permutations.
    cfg, tables, vectors = sobit("association")
    found = study_of(cfg.exp).run(cfg, tables, vectors).analyses
    fewer, other, seen = sobit("association", words={"tempers": {"noun": ["hero"]}})
    rows = [
        list(tables[PROMPTS].frame["sentence"]).index(sentence)
        for sentence in other[PROMPTS].frame["sentence"]
    ]
    seen = {"faces": vectors["faces"], PROMPTS: vectors[PROMPTS][rows]}
    again = study_of(fewer.exp).run(fewer, other, seen).analyses
    same = found[(found["word"] == "hero") & (found["category"] == "tempers")]
    for name in ("association", "association_low", "association_high", "p", "null_q95"):
        assert again[name].to_numpy() == pytest.approx(same[name].to_numpy(), abs=1e-6)


def test_q_is_of_benjamini_and_hochberg_over_words():
    p = np.array([[0.01, 0.5], [0.02, np.nan], [0.9, 0.001]])
    expected = stats.false_discovery_control(p[:, 0])
    assert corrected(p)[:, 0] == pytest.approx(expected)
    assert np.isnan(corrected(p)[1, 1])
    assert corrected(p)[2, 1] == pytest.approx(0.002)


def test_without_draws_columns_are_empty_and_the_rest_stands(sobit):
    off = ["protocol.permutations=0", "protocol.bootstrap=0"]
    for measure, columns in (
        ("association", ["p", "q", "null_q95", "association_low"]),
        ("retrieval", ["p", "maxskew_p", "share_low"]),
    ):
        cfg, tables, vectors = sobit(measure, *off)
        rows = study_of(cfg.exp).run(cfg, tables, vectors).analyses
        assert rows[columns].isna().all(axis=None)
        assert rows["association" if measure == "association" else "share_topk"].notna().all()
    cfg, tables, vectors = sobit("association", *off, "protocol.vocabulary=0")
    assert study_of(cfg.exp).run(cfg, tables, vectors).analyses["baseline_share"].isna().all()


def test_a_caption_that_tells_no_faces_apart_has_no_association(sobit):
    cfg, tables, vectors = sobit("association")
    vectors["faces"] = vectors["faces"][:1].expand(60, -1).contiguous()
    rows = study_of(cfg.exp).run(cfg, tables, vectors).analyses
    assert rows[["association", "p", "q", "baseline_share"]].isna().all(axis=None)


def table(**columns):
    frame = faces().frame.assign(**columns)
    return Table(
        "faces", frame.drop(columns=[name for name, value in columns.items() if value is None]), len(frame)
    )


@pytest.mark.parametrize(
    ("shown", "overrides", "error", "said"),
    [
        (table(race=None), [], NotApplicable, "no column race"),
        (table(gender=None), [], NotApplicable, "no column gender"),
        (table(gender="Men"), [], NotApplicable, "all are of one gender, 'Men'"),
        (
            table(gender=["", *["Men", "Women"] * 29, "Men"]),
            [],
            InputError,
            "1 of 60 have no gender, first 'f000'",
        ),
        (faces(), ["exp.axes=[age]"], InputError, "'age' is no axis"),
        (faces(), ["exp.axes=[race,race]"], InputError, "each once"),
        (faces(), ["exp.axes=[]"], InputError, "at least one"),
        (faces(), ["exp.measure=retrieval", "protocol.top_k=60"], NotApplicable, "Set it to 59 or less"),
    ],
)
def test_what_cannot_be_compared_is_said_before_any_work(job, shown, overrides, error, said):
    cfg = job("exp=sobit_association", *overrides).cfg
    with pytest.raises(error, match=said) as raised:
        study_of(cfg.exp).check(cfg, {"faces": shown})
    assert isinstance(raised.value, NotApplicable) == (error is NotApplicable)


def test_one_axis_needs_one_column(job):
    cfg = job("exp=sobit_association", "exp.axes=[gender]").cfg
    study_of(cfg.exp).check(cfg, {"faces": table(race=None)})


def test_strength_needs_a_baseline(job):
    with pytest.raises(InputError, match="vocabulary=0"):
        baseline(job("exp=sobit_strength", "protocol.vocabulary=0").cfg)
