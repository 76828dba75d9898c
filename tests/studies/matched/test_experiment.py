"""Check measures of matched pictures against naive loops, their null, and what is refused."""

import copy
import functools
import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from scipy import stats

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.stimuli import PROMPTS, build_table
from src.studies.matched import experiment
from src.studies.matched.captions import ALL_CAPTIONS, ALL_GROUPS, compose_prompts
from src.studies.matched.exchange import build_exchange
from src.studies.matched.pool import select_pool
from src.studies.matched.study import STUDY, compute_metrics
from tests.studies.matched import set_world

K, EXTREMES, WORDS_K = 9, 5, 7
PAIR = ("Men", "Women")
OPTIONS = [f"protocol.top_k={K}", f"protocol.k={WORDS_K}", f"protocol.extremes={EXTREMES}"]
OPTIONS += ["protocol.permutations=199", "protocol.article=literal"]


@pytest.fixture(scope="module")
def configurations():
    names = ("matched", "matched_words")
    return {name: Job.of(*configs.compose([f"exp={name}", *OPTIONS]), "").cfg for name in names}


@pytest.fixture
def compose(configurations):
    """Return a function that changes fields of an experiment's config, by overrides."""

    def change(exp="matched", *options):
        cfg = copy.deepcopy(configurations[exp])
        for option in options:
            path, _, text = option.partition("=")
            *groups, name = path.removeprefix("+").split(".")
            node = functools.reduce(lambda node, group: getattr(node, group), groups, cfg)
            (node.__setitem__ if isinstance(node, dict) else node.__setattr__)(name, yaml.safe_load(text))
        return cfg

    return change


def table_of(frame, role="faces"):
    return build_table(role, frame, "test")


def run(cfg, seed=0, frame=None, **options):
    """Run an experiment on a world, whose faces may be changed; return its result, tables and vectors."""
    tilt = options.pop("tilt", 0)
    drawn, vectors, captions, caption_vectors = set_world.draw(seed, **options)
    words, texts, vectors = set_world.draw_words(seed, vectors.shape[1], drawn, vectors, tilt)
    frame = drawn if frame is None else frame(drawn)
    by_id = dict(zip(drawn["id"], vectors, strict=True))
    tables = {"faces": table_of(frame)}
    arrays = {"faces": np.array([by_id[name] for name in tables["faces"].frame["id"]])}
    if cfg.exp.measure == "retrieval":
        tables[PROMPTS] = compose_prompts(cfg, tables["faces"])
        by_caption = dict(zip(captions["sentence"], caption_vectors, strict=True))
        arrays[PROMPTS] = np.array([by_caption[name] for name in tables[PROMPTS].frame["sentence"]])
    else:
        tables["words"] = table_of(words, "words")
        by_sentence = dict(zip(words["id"], texts, strict=True))
        arrays["words"] = np.array([by_sentence[name] for name in tables["words"].frame["id"]])
    result = experiment.run(cfg, tables, {name: torch.from_numpy(array) for name, array in arrays.items()})
    return result, tables, arrays


def naive_caption(faces, cosines, subject, groups):
    """Measure a caption by loops over its K first pictures and its sets."""
    order = sorted(range(len(faces)), key=lambda i: (-round(cosines[i], 12), faces["id"][i]))
    nearest = order[:K]
    counts = Counter(faces["group"][i] for i in nearest)
    base = Counter(faces["group"])
    skews = {g: math.log(max(counts[g] / K, 1 / K) / (base[g] / len(faces))) for g in groups}
    divergences = []
    for depth in range(1, K + 1):
        top = Counter(faces["group"][i] for i in nearest[:depth])
        terms = [top[g] / depth * math.log(top[g] / depth / (base[g] / len(faces))) for g in groups if top[g]]
        divergences.append(sum(terms))
    weights = [1 / math.log2(depth + 1) for depth in range(1, K + 1)]
    right = [i for i in range(len(faces)) if faces["occupation"][i] == subject]
    ranks, firsts = {g: [] for g in groups}, {g: [] for g in groups}
    for name in sorted({faces["set"][i] for i in right}):
        members = sorted((i for i in right if faces["set"][i] == name), key=lambda i: -cosines[i])
        for place, i in enumerate(members):
            ranks[faces["group"][i]].append(place / (len(members) - 1))
            firsts[faces["group"][i]].append(place == 0)
    return {
        "share_topk": {g: counts[g] / K for g in groups},
        "skew": skews,
        "maxskew": max(skews.values()),
        "ndkl": np.dot(divergences, weights) / sum(weights),
        "bias": (counts[groups[0]] - counts[groups[1]]) / (counts[groups[0]] + counts[groups[1]]),
        "recall": len({*nearest} & {*right}) / len(right),
        "rank": {g: np.mean(ranks[g]) for g in groups},
        "first": {g: np.mean(firsts[g]) for g in groups},
    }


def test_measures_equal_naive_loops(compose):
    result, tables, arrays = run(compose(), groups=PAIR, person=0.3)
    faces, captions = tables["faces"].frame, tables[PROMPTS].frame
    rows = result.analyses.set_index(["caption", "group"])
    naive = []
    for caption, vector in zip(captions.itertuples(), arrays[PROMPTS], strict=True):
        naive.append(naive_caption(faces, arrays["faces"] @ vector, caption.word, PAIR))
        for name, group in itertools.product(naive[-1], PAIR):
            expected = naive[-1][name]
            expected = expected[group] if isinstance(expected, dict) else expected
            assert rows.loc[(caption.sentence, group), name] == pytest.approx(expected), (name, group)
    for name, group in itertools.product(naive[0], PAIR):
        values = [each[name][group] if isinstance(each[name], dict) else each[name] for each in naive]
        assert rows.loc[(ALL_CAPTIONS, group), name] == pytest.approx(np.mean(values)), name
    assert {*rows["recall_random"]} == {K / len(faces)}
    assert {*rows["recall_max"]} == {K / 12}
    assert len(result.tables["nearest"]) == 4 * K
    orders = result.tables["orders"].groupby(["caption", "group"])["rank"].mean()
    assert orders.to_numpy() == pytest.approx(rows["rank"].sort_index().drop(ALL_CAPTIONS).to_numpy())


def test_an_interval_is_the_jackknife_over_sets(compose):
    result, tables, arrays = run(compose("matched", "protocol.top_k=20"), groups=PAIR, sets=7)
    faces, caption = tables["faces"].frame, tables[PROMPTS].frame.iloc[0]
    cosines = arrays["faces"] @ arrays[PROMPTS][0]
    top = faces.iloc[np.argsort(-cosines, kind="stable")[:20]]
    right = faces.assign(cosine=cosines)[faces["occupation"] == caption["word"]]
    right = right.assign(rank=1 - right.groupby("set")["cosine"].rank().sub(1))

    def share(rows):
        return (rows["group"] == "Men").mean()

    def rank(rows):
        return rows["rank"][rows["group"] == "Men"].mean()

    row = result.analyses.set_index(["caption", "group"]).loc[(caption["sentence"], "Men")]
    for name, frame, statistic in (("share", top, share), ("rank", right, rank)):
        sets = sorted({*frame["set"]})
        without = np.array([statistic(frame[frame["set"] != each]) for each in sets])
        error = math.sqrt((len(sets) - 1) / len(sets) * ((without - without.mean()) ** 2).sum())
        half_width = stats.t.ppf(0.975, len(sets) - 1) * error
        ends = np.clip(statistic(frame) + np.array([-1, 1]) * half_width, 0, 1)
        assert [row[f"{name}_low"], row[f"{name}_high"]] == pytest.approx(ends)


def test_overall_intervals_leave_a_set_out_of_all_captions(compose):
    result, tables, arrays = run(compose(), groups=PAIR, sets=3)
    faces = tables["faces"].frame
    tops = [
        faces.iloc[np.argsort(-(arrays["faces"] @ vector), kind="stable")[:K]] for vector in arrays[PROMPTS]
    ]

    def mean(left_out):
        return np.mean([(top["group"][top["set"] != left_out] == "Men").mean() for top in tops])

    sets = sorted({*faces["set"]})
    without = np.array([mean(name) for name in sets])
    error = math.sqrt((len(sets) - 1) / len(sets) * ((without - without.mean()) ** 2).sum())
    row = result.analyses.set_index(["caption", "group"]).loc[(ALL_CAPTIONS, "Men")]
    low = row["share_topk"] - stats.t.ppf(0.975, len(sets) - 1) * error
    assert row["share_low"] == pytest.approx(max(0, low))


# The null.


def pool_of(frame, compose, *options):
    return select_pool(table_of(frame), compose("matched", *options).exp)


def test_groups_are_permuted_within_sets_and_uniformly(compose):
    frame, *_ = set_world.draw(sets=2, occupations=("actor",))
    pool = pool_of(frame, compose)
    exchange = build_exchange(pool)
    (positions,) = exchange.draw(6000, 0, 6000)
    assert (pool.set_of[positions] == pool.set_of).all()
    assert (np.sort(positions, axis=1) == np.arange(6)).all()
    orders = Counter(map(tuple, pool.group_of[positions]))
    # Each of the 36 assignments occurs as often as any other.
    assert len(orders) == 36
    assert stats.chisquare([*orders.values()]).pvalue > 1e-4
    assert [*map(len, exchange.draw(7, 0, 3))] == [3, 3, 1]
    assert (np.concatenate([*exchange.draw(50, 0, 7)]) == positions[:50]).all()


def test_sets_of_the_same_people_are_permuted_alike_and_others_stay(compose):
    frame, *_ = set_world.draw(sets=2, occupations=("actor", "baker"))
    person = frame["set"].str.split().str[0].where(frame["occupation"] == "actor") + frame["group"]
    pool = pool_of(frame.assign(person=person), compose)
    exchange = build_exchange(pool)
    (positions,) = exchange.draw(200, 0, 200)
    (a, b), groups = [np.flatnonzero(pool.set_of == number) for number in (0, 1)], pool.group_of[positions]
    by_person = [np.argsort(pool.persons[rows]) for rows in (a, b)]
    assert (groups[:, a[by_person[0]]] == groups[:, b[by_person[1]]]).all()
    assert len({*pool.units}) == 3
    assert exchange.n_fixed == 0
    # One of the actors is in one set only: the two others, who are in both, change places.
    person[frame.index[0]] = None
    pool = pool_of(frame.assign(person=person), compose)
    exchange = build_exchange(pool)
    (positions,) = exchange.draw(20, 0, 20)
    assert exchange.n_fixed == 2
    is_fixed = (positions == np.arange(12)).all(axis=0)
    assert (pool.groups[pool.group_of[is_fixed][0]], is_fixed.sum()) == (frame["group"].iloc[0], 2)
    assert "fewer than 1,000 ways" in exchange.explain_missing_p(np.ones(12, dtype=bool))


def test_pictures_of_people_who_share_their_sets_with_nobody_have_no_p(compose):
    frame, *_ = set_world.draw(sets=2, occupations=("actor", "baker"), groups=PAIR)
    is_first = frame["group"] == frame["group"].iloc[0]
    person = ("star of " + frame["occupation"]).where(is_first & (frame["occupation"] == "actor"))
    pool = pool_of(frame.assign(person=person), compose)
    exchange = build_exchange(pool)
    actors = pool.subject_of == 0
    assert exchange.n_fixed == 4
    assert "fewer than half" in exchange.explain_missing_p(actors)
    assert "fewer than 1,000 ways" in exchange.explain_missing_p(~actors)


def test_p_is_the_joint_share_of_permutations(compose):
    cfg = compose("matched", "protocol.permutations=99", "protocol.top_k=20")
    result, tables, arrays = run(cfg, groups=PAIR, person=0.4)
    pool = select_pool(tables["faces"], cfg.exp)
    caption = tables[PROMPTS].frame["sentence"][2]
    cosines = arrays["faces"] @ arrays[PROMPTS][2]
    top = np.argsort(-cosines, kind="stable")[:20]
    (positions,) = build_exchange(pool).draw(99, cfg.seed, 99)
    shares = np.array([(pool.group_of[order][top] == 0).mean() for order in [np.arange(48), *positions]])
    rows = result.analyses.set_index(["caption", "group"])
    distance = np.abs(shares - shares.mean())
    assert rows.loc[(caption, "Men"), "p"] == pytest.approx((distance >= distance[0] - 1e-9).mean())
    assert rows.loc[(caption, "Men"), "null_high"] == pytest.approx(np.percentile(shares[1:], 97.5))


@pytest.mark.parametrize(("person", "is_detected"), [(0.0, False), (1.0, True)])
def test_a_planted_person_is_detected_and_scenes_are_not(compose, person, is_detected):
    result, *_ = run(compose(), seed=3, person=person, scene=4.0, sets=10)
    overall = result.analyses.query("caption == @ALL_CAPTIONS").set_index("group")
    assert (overall["rank_p"].min() <= 0.01) == is_detected
    if is_detected:
        assert overall["rank"].idxmin() == "Men"
        assert overall.loc["Men", "rank_high"] < 0.5


@pytest.mark.thorough
def test_results_depend_on_neither_order_of_rows_nor_block_sizes(compose, monkeypatch):
    first, *_ = run(compose())
    second, *_ = run(compose(), frame=lambda frame: frame.sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(first.analyses, second.analyses)
    monkeypatch.setattr("src.studies.matched.retrieval.MAX_MEMBERS", 1000)
    monkeypatch.setattr("src.studies.shared.cosine_blocks.MAX_COSINES", 100)
    third, *_ = run(compose())
    pd.testing.assert_frame_equal(first.analyses, third.analyses, rtol=1e-12)


# Sets.


def drop_rows(*keep):
    return lambda frame: frame[np.logical_and.reduce([rule(frame) for rule in keep])]


def test_incomplete_sets_are_counted_and_left_out_or_used(compose):
    def change(frame):
        frame = frame[(frame["set"] != "actor 0") | (frame["group"] != "Men")]
        frame = frame[(frame["set"] != "baker 1") | (frame["group"] == "Men")]
        return frame.assign(set=frame["set"].mask(frame["set"] == "driver 3"))

    result, *_ = run(compose(), frame=change)
    notes = "; ".join(result.notes)
    assert (
        "3 pictures have no set: left out; 1 sets show a single group: left out; 1 of 22 sets lack" in notes
    )
    assert "(first 'actor 0': Men): left out; exp.incomplete=use uses them" in notes
    assert {*result.analyses.query("caption == @ALL_CAPTIONS")["sets"]} == {21}
    used, *_ = run(compose("matched", "exp.incomplete=use"), frame=change)
    overall = used.analyses.query("caption == @ALL_CAPTIONS").set_index("group")
    assert {*overall["sets"]} == {22}
    assert overall["n"].to_dict() == {"Men": 21, "Nonbinary": 22, "Women": 22}
    assert overall["rank_p"].notna().all()


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (
            lambda f: f.drop(columns="set"),
            [],
            NotApplicable,
            "expected a column set.*Add it to the table of faces",
        ),
        (lambda f: f.assign(set=None), [], NotApplicable, "expected a column set"),
        (lambda f: f.rename(columns={"occupation": "ocupation"}), [], NotApplicable, "mean 'ocupation'"),
        (lambda f: f[f["group"] == "Men"], [], NotApplicable, "compares two groups or more, got Men"),
        (
            lambda f: f.assign(set=f["id"]),
            [],
            NotApplicable,
            "no set of the 72 pictures with a set shows two",
        ),
        (lambda f: f, ["exp.groups=[Man,Women]"], InputError, "no faces of 'Man'. Did you mean 'Men'"),
        (
            lambda f: f.assign(occupation=f["group"]),
            [],
            InputError,
            "24 sets have several values of occupation",
        ),
        (lambda f: f.assign(occupation=""), [], InputError, "72 of 72 pictures of sets have no occupation"),
        (lambda f: f, ["protocol.top_k=72"], NotApplicable, "Set it to 71 or less"),
        (lambda f: f, ["exp.sides=[[Men],[Woman]]"], InputError, "no group 'Woman'. Did you mean 'Women'"),
        (lambda f: f, ["exp.sides=[[Men],[Men]]"], InputError, "expected two lists of groups"),
        (lambda f: f, ["exp.templates=['a {}']"], InputError, "expected {word} once"),
        (lambda f: f, ["exp.templates=[]"], InputError, "at least one"),
        (lambda f: f, ["+exp.captions.bakr=[a]"], InputError, "'bakr'. Did you mean 'baker'"),
        (
            lambda f: f,
            ["+exp.captions={actor: [x], baker: [x]}"],
            InputError,
            "'x' occurs 2 times, of actor, baker",
        ),
        (lambda f: f, ["+exp.captions.baker=[]"], InputError, "'baker' has no caption"),
    ],
)
def test_unsuitable_faces_and_settings_are_refused(compose, change, options, error, message):
    frame, *_ = set_world.draw()
    with pytest.raises(error, match=message) as caught:
        experiment.check(compose("matched", *options), {"faces": table_of(change(frame))})
    assert isinstance(caught.value, NotApplicable) == (error is NotApplicable)


def test_sets_that_all_lack_a_group_are_refused_with_the_remedy(compose):
    frame, *_ = set_world.draw()
    frame = frame[(frame["group"] != "Men") | (frame["set"].str[-1] == "9")]
    more = frame.iloc[:1].assign(id="z", group="Men", set="alone", occupation="actor")
    tables = {"faces": table_of(pd.concat([frame, more]))}
    with pytest.raises(NotApplicable, match=r"24 of 24 sets lack a group.*Set exp.incomplete=use"):
        experiment.check(compose(), tables)
    pool = experiment.check(compose("matched", "exp.incomplete=use"), tables)
    assert pool.groups == ["Nonbinary", "Women"]


@pytest.mark.thorough  # choosing articles takes a slow import
def test_captions_are_composed_from_templates_or_given(compose):
    frame, *_ = set_world.draw()
    options = ["exp.templates=['{article} {word}', 'the {word}']", "+exp.captions.baker=[someone who bakes]"]
    right = compose("matched", *options, "protocol.article=right")
    prompts = compose_prompts(right, table_of(frame)).frame
    captions = prompts.groupby("word")["sentence"].agg(sorted).to_dict()
    assert captions["actor"] == ["an actor", "the actor"]
    assert captions["baker"] == ["someone who bakes"]
    literal = compose_prompts(compose("matched", *options), table_of(frame)).frame
    assert "a/an actor" in {*literal["sentence"]}


def test_a_caption_that_a_projection_removed_is_left_out(compose):
    cfg = compose()
    frame, vectors, *_ = set_world.draw()
    tables = {"faces": table_of(frame)}
    prompts = compose_prompts(cfg, tables["faces"])
    tables[PROMPTS] = replace(prompts, frame=prompts.frame.iloc[1:].reset_index(drop=True))
    texts = torch.randn(3, vectors.shape[1], generator=torch.Generator().manual_seed(0)).double()
    result = experiment.run(cfg, tables, {"faces": torch.from_numpy(vectors), PROMPTS: texts})
    assert result.analyses["caption"].nunique() == 3 + 1


# Real shares.


def write_shares(path, rows, columns=("occupation", "group", "real_share")):
    pd.DataFrame(rows, columns=columns).to_csv(path, index=False)
    return [f"exp.shares={path}"]


REAL = [("actor", "Men", 0.5), ("actor", "Women", 0.5), ("baker", "Men", 0.9), ("baker", "Women", 0.1)]
REAL += [("chemist", "Men", 0.35), ("chemist", "Women", 0.65)]


def test_shares_are_compared_with_real_ones(compose, tmp_path):
    options = write_shares(tmp_path / "real.csv", REAL)
    result, *_ = run(compose("matched", "protocol.top_k=16", *options), groups=PAIR, sets=8)
    rows = result.analyses.set_index(["caption", "group"])
    baker, chemist = (rows.loc[set_world.compose(name)] for name in ("baker", "chemist"))
    assert baker["real_share"].to_dict() == {"Men": 0.9, "Women": 0.1}
    for frame, group, real in ((baker, "Men", 0.9), (chemist, "Women", 0.65)):
        row = frame.loc[group]
        assert row["excess"] == pytest.approx(row["share_topk"] - real)
        assert [*frame["amplification"]] == pytest.approx([row["excess"]] * 2)
        assert row["amplification_low"] == pytest.approx(row["share_low"] - real)
        assert row["excess_high"] == pytest.approx(row["share_high"] - real)
    assert rows.loc[set_world.compose("actor"), "amplification"].isna().all()  # no majority
    assert rows.loc[set_world.compose("driver"), "real_share"].isna().all()
    overall = rows.loc[(ALL_CAPTIONS, "Men")]
    expected = np.mean([baker["amplification"].iloc[0], chemist["amplification"].iloc[0]])
    assert overall["amplification"] == pytest.approx(expected)
    assert overall["amplification_low"] < expected < overall["amplification_high"]
    assert baker["verdict"].iloc[0] == "reduces"  # a balanced pool is far below 90%


@pytest.mark.thorough
def test_a_verdict_needs_an_interval(compose, tmp_path):
    real = [
        (name, group, 0.55 if group == "Men" else 0.45) for name in set_world.OCCUPATIONS for group in PAIR
    ]
    options = write_shares(tmp_path / "real.csv", real)
    verdicts = {}
    for person, k in ((2.0, 16), (0.0, 16), (0.0, 2)):
        cfg = compose("matched", f"protocol.top_k={k}", *options)
        result, *_ = run(cfg, groups=PAIR, sets=12, person=person, seed=1)
        rows = result.analyses.drop_duplicates("caption")
        verdicts[person, k] = [*rows["verdict"]]
        has_interval = rows["amplification_low"].notna()
        assert ((rows["verdict"] != "") == has_interval).all()
        assert ((rows["verdict"] == "amplifies") == (rows["amplification_low"] > 0)).all()
    assert verdicts[2.0, 16][-1] == "amplifies"
    assert "amplifies" not in verdicts[0.0, 16]
    assert verdicts[0.0, 2][:4] == [""] * 4  # two retrieved pictures: fewer than 5 sets


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("aktor", "Men", 0.5)], "line 2: no picture of a set has occupation 'aktor'. Did you mean 'actor'"),
        ([*REAL[:2], ("baker", "Man", 1)], "line 4: no picture of a set has group 'Man'. Did you mean 'Men'"),
        (
            [("actor", "Men", 50), ("actor", "Women", 50)],
            "line 2: real_share is '50', expected a number from 0 to 1",
        ),
        ([("actor", "Men", ""), ("actor", "Women", 1)], "line 2: real_share is ''"),
        ([*REAL[:2], REAL[0]], "line 4: subject and group occur twice"),
        (REAL[:1], "'actor' has no share of Women"),
        ([("actor", "Men", 0.5), ("actor", "Women", 0.4)], "the shares of 'actor' sum to 0.900, expected 1"),
    ],
)
def test_wrong_shares_are_refused_by_line(compose, tmp_path, rows, message):
    frame, *_ = set_world.draw(groups=PAIR)
    cfg = compose("matched", *write_shares(tmp_path / "real.csv", rows))
    with pytest.raises(InputError, match=message):
        experiment.check(cfg, {"faces": table_of(frame)})


def test_a_file_without_columns_or_a_missing_file_is_refused(compose, tmp_path):
    tables = {"faces": table_of(set_world.draw(groups=PAIR)[0])}
    cfg = compose("matched", *write_shares(tmp_path / "real.csv", REAL, ("job", "group", "share")))
    with pytest.raises(InputError, match="no column occupation, real_share; got job, group, share"):
        experiment.check(cfg, tables)
    with pytest.raises(InputError, match="not a readable csv"):
        experiment.check(compose("matched", f"exp.shares={tmp_path}/none.csv"), tables)


# Words.


def test_levels_and_rho_within_sets_equal_naive_loops(compose):
    result, tables, arrays = run(compose("matched_words"), tilt=0.4)
    faces, words = tables["faces"].frame, tables["words"].frame
    ordered = sorted({*zip(words["valence"], words["word"], strict=True)})
    high, low = ([word for _, word in items] for items in (ordered[-EXTREMES:], ordered[:EXTREMES]))
    scores = []
    for vector in arrays["faces"]:
        by_template = []
        for template in set_world.TEMPLATES:
            rows = words[words["template"] == template]
            cosines = pd.Series(arrays["words"][rows.index] @ vector, rows["word"])
            both = np.concatenate([cosines[high], cosines[low]])
            difference = cosines[high].mean() - cosines[low].mean()
            nearest = cosines.sort_values(ascending=False).index[:WORDS_K]
            valence = rows.set_index("word")["valence"]
            by_template.append((difference / both.std(ddof=1), difference, valence[nearest].mean()))
        scores.append(np.mean(by_template, axis=0))
    frame = faces.assign(**dict(zip(["es", "s", "y"], np.transpose(scores), strict=True)))
    rows = result.analyses.set_index("group")
    for group in set_world.GROUPS:
        group_rows = frame[frame["group"] == group].set_index("set")
        rest = frame[frame["group"] != group].groupby("set")[["s", "y"]].mean()
        assert rows.loc[group, "level"] == pytest.approx((group_rows["y"] - rest["y"]).mean())
        assert rows.loc[group, "measured"] == pytest.approx((group_rows["s"] - rest["s"]).mean())
        centred = group_rows[["es", "y"]] - frame.groupby("set")[["es", "y"]].mean()
        assert rows.loc[group, "rho"] == pytest.approx(
            stats.spearmanr(*centred.round(10).to_numpy().T).statistic
        )
    centred = frame[["es", "s", "y"]] - frame.groupby("set")[["es", "s", "y"]].transform("mean")
    total = rows.loc[ALL_GROUPS]
    assert total["rho"] == pytest.approx(
        stats.spearmanr(*centred[["es", "y"]].round(10).to_numpy().T).statistic
    )
    assert total["slope"] == pytest.approx((centred["s"] * centred["y"]).sum() / (centred["s"] ** 2).sum())
    assert (rows["level_low"].dropna() < rows["level"].dropna()).all()
    assert rows.loc["Men", "level_p"] <= 0.02
    assert compute_metrics(result)["level.Men"] == rows.loc["Men", "level"]


def test_extremes_can_leave_the_corpus_and_few_words_are_refused(compose):
    plain, *_ = run(compose("matched_words"))
    without, *_ = run(compose("matched_words", "protocol.attributes=held_out"))
    assert (plain.tables["targets"]["measured"] == without.tables["targets"]["measured"]).all()
    assert (plain.tables["targets"]["extrinsic"] != without.tables["targets"]["extrinsic"]).any()
    for option, message in (("extremes=21", "extremes=20 or less"), ("k=40", "Set it to 39 or less")):
        with pytest.raises(NotApplicable, match=message):
            run(compose("matched_words", f"protocol.{option}"))


def test_protocol_fields_and_roles_follow_the_measure(compose):
    for exp, roles, field in (("matched", ("faces",), "top_k"), ("matched_words", ("faces", "words"), "k")):
        cfg = compose(exp)
        assert STUDY.roles(cfg.exp) == roles
        assert field in STUDY.protocol_fields(cfg.exp, cfg.protocol)


def test_several_vectors_per_picture_and_widths(compose):
    cfg = compose()
    frame, vectors, *_ = set_world.draw()
    tables = {"faces": table_of(frame)}
    tables[PROMPTS] = compose_prompts(cfg, tables["faces"])
    several = torch.from_numpy(np.stack([vectors, vectors], axis=1))
    texts = torch.from_numpy(vectors[:4])
    single = experiment.run(cfg, tables, {"faces": several[:, 0], PROMPTS: texts})
    both = experiment.run(cfg, tables, {"faces": several, PROMPTS: texts})
    pd.testing.assert_frame_equal(single.analyses, both.analyses)
    with pytest.raises(InputError, match="several widths"):
        experiment.run(cfg, tables, {"faces": several, PROMPTS: texts[:, :3]})
