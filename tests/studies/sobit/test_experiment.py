"""So-B-IT against loops (docs/methods.md, section 4), its nulls against relabelled faces, and its errors."""

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
from src.studies.sobit.prompts import baseline
from tests.metrics.test_groups import naive

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
        displayed = table or faces()
        rng = np.random.default_rng(seed)
        subset = study_of(cfg.exp).prompts(cfg)
        vectors = {"faces": (len(displayed.frame), *([q] if q else []), 8), PROMPTS: (len(subset.frame), 8)}
        made = {}
        for role, shape in vectors.items():
            values = torch.from_numpy(rng.normal(size=shape)).float()
            made[role] = torch.nn.functional.normalize(values, dim=-1)
        return cfg, {"faces": displayed, PROMPTS: subset}, made

    return make


def cosines(tables, vectors):
    """caption -> cosine with each face, float64."""
    x, y = vectors["faces"].double().numpy(), vectors[PROMPTS].double().numpy()
    x, y = (v / np.linalg.norm(v, axis=-1, keepdims=True) for v in (x, y))
    outcome = np.einsum("...d,pd->p...", x, y)
    outcome = outcome.max(axis=2) if outcome.ndim == 3 else outcome
    return dict(zip(tables[PROMPTS].frame["sentence"], outcome, strict=True))


def groups(frame, axis):
    return frame["race"] + " " + frame["gender"] if axis == "both" else frame[axis]


def c(row, inside):
    return (row[inside].mean() - row[~inside].mean()) / row.std(ddof=1)


@pytest.mark.parametrize("q", [0, 3])
def test_association_is_its_definition(sobit, q):
    cfg, tables, vectors = sobit("association", q=q)
    outcome, observed = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    assert len(outcome) == 5 * (3 + 2 + 6)
    words = {("brisk", "a photo of a brisk person"), ("odd", "a photo of an odd person")}
    words |= {("hero", "a photo of a hero"), ("reading", "a photo of a person who is reading")}
    assert {*zip(outcome["word"], outcome["caption"], strict=True)} == words
    for row in outcome.itertuples():
        inside = (groups(frame, row.axis) == row.group).to_numpy()
        assert (row.n, row.n_rest) == (inside.sum(), (~inside).sum())
        assert row.association == pytest.approx(c(observed[row.caption], inside), abs=1e-9)
        assert row.association_low <= row.association_high
        assert 0 < row.p <= row.q <= 1


def test_the_baseline_is_of_the_largest_association_of_each_axis(sobit):
    cfg, tables, vectors = sobit("association")
    outcome, observed = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    frame = tables["faces"].frame
    in_memory = baseline(cfg)
    assert len(in_memory) == 40
    for (caption, axis), rows in outcome.groupby(["caption", "axis"]):
        whose = groups(frame, axis)

        def largest(name, whose=whose):
            return max(abs(c(observed[name], (whose == group).to_numpy())) for group in set(whose))

        expected = np.mean([largest(name) >= largest(caption) - 1e-12 for name in in_memory])
        assert rows["baseline_share"].to_numpy() == pytest.approx(expected, abs=1e-12)


def test_retrieval_is_its_definition(sobit):
    cfg, tables, vectors = sobit("retrieval")
    result, observed = study_of(cfg.exp).run(cfg, tables, vectors), cosines(tables, vectors)
    frame, k = tables["faces"].frame, 7
    every = result.analyses.drop_duplicates(["caption", "axis", "group"])
    for (caption, axis), rows in every.groupby(["caption", "axis"]):
        whose = groups(frame, axis).to_numpy()
        names, numbers = np.unique(whose, return_inverse=True)
        top = numbers[np.argsort(-observed[caption], kind="stable")[:k]]
        p, base = (np.array([np.mean(of == g) for g in range(len(names))]) for of in (top, numbers))
        by_group = rows.set_index("group").loc[names]
        assert by_group["share_topk"].to_numpy() == pytest.approx(p)
        assert by_group["base_share"].to_numpy() == pytest.approx(base)
        assert by_group["ratio"].to_numpy() == pytest.approx(p / base)
        expected = naive(top, base)
        assert rows.iloc[0][[*expected]].to_dict() == pytest.approx(expected)
    nearest = result.tables["nearest"]
    subset = nearest[nearest["caption"] == "a photo of a hero"]
    order = np.argsort(-observed["a photo of a hero"], kind="stable")[:k]
    assert list(subset["id"]) == list(frame["id"].iloc[order])
    assert list(subset["rank"]) == [*range(1, k + 1)]


def test_strength_is_the_share_of_frequent_words_that_are_no_stronger(sobit):
    cfg, tables, vectors = sobit("strength")
    outcome, observed = study_of(cfg.exp).run(cfg, tables, vectors).analyses, cosines(tables, vectors)
    s = {caption: np.sort(row)[-7:].mean() for caption, row in observed.items()}
    in_memory = [s[caption] for caption in baseline(cfg)]
    assert len(outcome) == 5
    assert outcome["axis"].isna().all()
    for row in outcome.itertuples():
        assert row.similarity == pytest.approx(s[row.caption], abs=1e-9)
        assert row.strength == pytest.approx(
            np.mean([value <= s[row.caption] + 1e-12 for value in in_memory])
        )
        assert row.similarity_low <= row.similarity_high


def test_a_sample_in_which_each_face_stands_once_is_the_faces_themselves(sobit, monkeypatch):
    cfg, tables, vectors = sobit("association")
    once = lambda rows, draws, seed: np.ones((draws, len(rows)), dtype=np.int16)  # noqa: E731
    monkeypatch.setattr("src.studies.sobit.axes.weights", once)
    outcome = study_of(cfg.exp).run(cfg, tables, vectors)
    rows = outcome.analyses
    for name in ("association_low", "association_high"):
        assert rows[name].to_numpy() == pytest.approx(rows["association"].to_numpy(), abs=1e-5)
    largest = rows["association"].abs().groupby([rows["caption"], rows["axis"]]).max()
    drawn = outcome.tables["draws"].groupby(["caption", "axis"])["largest"].mean()
    assert drawn.loc[largest.index].to_numpy() == pytest.approx(largest.to_numpy(), abs=1e-5)


def test_a_bootstrap_sample_is_the_faces_repeated(sobit):
    _, tables, vectors = sobit("association")
    observed = cosines(tables, vectors)["a photo of a hero"]
    displayed = faces_of(tables["faces"], ["both"])
    weights = np.empty((60, 5), dtype=int)
    for rows, drawn in displayed.weights(5, 0):
        weights[rows] = drawn.T
        assert (drawn.sum(axis=1) == len(rows)).all()  # each cell keeps its size
    order = np.argsort(-observed, kind="stable")
    shares, similar = resampled(Nearest(order[None], observed[order][None], 7), displayed, 5, 0)
    whose = groups(tables["faces"].frame, "both").to_numpy()
    for draw in range(5):
        repeated = np.repeat(order, weights[order, draw])[:7]
        assert similar[0, draw] == pytest.approx(observed[repeated].mean())
        expected = [np.mean(whose[repeated] == group) for group in displayed.axes[0].groups]
        assert shares[0, draw] == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["association", "retrieval"])
def test_randomly_relabelled_faces_reject_at_the_nominal_rate(sobit, measure):
    # p <= .05 of the corrected test, word by word: within the 99.9% binomial band over all of them.
    null_models, rejected = 300, np.zeros((5, 3))
    off = ("protocol.bootstrap=0", "protocol.vocabulary=0")
    cfg, tables, vectors = sobit(measure, *off, "protocol.top_k=15")
    frame, rng = tables["faces"].frame, np.random.default_rng(5)
    for _ in range(null_models):
        labels = frame[["race", "gender", "group"]].iloc[rng.permutation(len(frame))].to_numpy()
        columns = dict(zip(["race", "gender", "group"], labels.T, strict=True))
        relabelled = replace(tables["faces"], frame=frame.assign(**columns))
        rows = study_of(cfg.exp).run(cfg, {**tables, "faces": relabelled}, vectors).analyses
        rows = rows.assign(number=rows.groupby(["axis", "group"]).cumcount())
        minimum = rows.groupby(["number", "axis"])["p"].min().unstack()
        rejected += minimum.to_numpy() <= 0.05
    assert rejected.max() <= stats.binom(null_models, 0.05).ppf(1 - 0.001 / rejected.size)
    if measure == "association":  # shares come in steps, so that their test rejects less
        assert rejected.min() >= stats.binom(null_models, 0.05).ppf(0.001 / rejected.size)


def test_draws_hang_on_the_faces_alone(sobit):
    # Other words, other vectors, other order of rows: the same samples and permutations.
    cfg, tables, vectors = sobit("association")
    outcome = study_of(cfg.exp).run(cfg, tables, vectors).analyses
    fewer, other, observed = sobit("association", words={"tempers": {"noun": ["hero"]}})
    rows = [
        list(tables[PROMPTS].frame["sentence"]).index(sentence)
        for sentence in other[PROMPTS].frame["sentence"]
    ]
    observed = {"faces": vectors["faces"], PROMPTS: vectors[PROMPTS][rows]}
    again = study_of(fewer.exp).run(fewer, other, observed).analyses
    same = outcome[(outcome["word"] == "hero") & (outcome["category"] == "tempers")]
    for name in ("association", "association_low", "association_high", "p", "null_q95"):
        assert again[name].to_numpy() == pytest.approx(same[name].to_numpy(), abs=1e-6)


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
    cfg, tables, vectors = sobit("association")
    vectors["faces"] = vectors["faces"][:1].expand(60, -1).contiguous()  # no caption tells faces apart
    rows = study_of(cfg.exp).run(cfg, tables, vectors).analyses
    assert rows[["association", "p", "q", "baseline_share"]].isna().all(axis=None)
    cfg, tables, vectors = sobit("association", *off, "protocol.vocabulary=0")
    assert study_of(cfg.exp).run(cfg, tables, vectors).analyses["baseline_share"].isna().all()
    with pytest.raises(InputError, match="vocabulary=0"):
        sobit("strength", "protocol.vocabulary=0")


def table(**columns):
    frame = faces().frame.assign(**columns)
    return Table(
        "faces", frame.drop(columns=[name for name, value in columns.items() if value is None]), len(frame)
    )


@pytest.mark.parametrize(
    ("displayed", "overrides", "error", "message"),
    [
        (table(gender=None), [], NotApplicable, "no column gender"),
        (table(gender="Men"), [], NotApplicable, "all are of one gender, 'Men'"),
        (table(gender=["", *["Men", "Women"] * 29, "Men"]), [], InputError, "1 of 60 have no gender, first"),
        (faces(), ["exp.axes=[age]"], InputError, "unknown axis 'age'"),
        (faces(), ["exp.axes=[race,race]"], InputError, "each once"),
        (faces(), ["exp.measure=retrieval", "protocol.top_k=60"], NotApplicable, "Set it to 59 or less"),
    ],
)
def test_faces_that_cannot_be_compared_are_refused_before_any_work(job, displayed, overrides, error, message):
    cfg = job("exp=sobit_association", *overrides).cfg
    with pytest.raises(error, match=message) as raised:
        study_of(cfg.exp).check(cfg, {"faces": displayed})
    assert isinstance(raised.value, NotApplicable) == (error is NotApplicable)
    cfg = job("exp=sobit_association", "exp.axes=[gender]").cfg
    study_of(cfg.exp).check(cfg, {"faces": table(race=None)})  # which needs no race
