"""Check the reliability of scores, and A and B from disjoint halves, against naive loops."""

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.stimuli import CARRIES, build_table
from src.studies.propagation import experiment, reliability
from src.studies.propagation.attributes import corpus_of
from src.studies.propagation.combined import RELIABILITY
from src.studies.propagation.corpus_halves import FIRST, SECOND, split_units
from src.studies.shared.exchange_units import build_exchange
from src.tracking import Tracker, find_children, find_sweeps
from tests import reference
from tests.commands import SMALL, command
from tests.studies.propagation.world import PROTOCOL, SEED, SIZES, World, clusters_of

WORLD = World()
NO_NULLS = replace(PROTOCOL, placebo=0, attribute_draws=0)
FEW_SPLITS = 3
CHOICES = [{}, {"intrinsic": "difference"}, {"extrinsic": "zero_shot"}]


def unit_name(row):
    return row.get("word", row["id"])


def deal(names, rng):
    """Return the names of the first and of the second half."""
    order = rng.permutation(len(names))
    first = {names[i] for i in order[: len(names) // 2]}
    return first, {*names} - first


def halves(role, rows, split):
    """Return both halves of the rows of a corpus: whole clusters of each group, or of a valence corpus."""
    ways = len(clusters_of(unit_name(rows[0])))
    of_cluster = [defaultdict(set) for _ in range(ways)]
    for row in rows:
        for way, name in enumerate(clusters_of(unit_name(row))):
            of_cluster[way][name].add(row.get("group", ""))
    sides = []
    for way in range(ways):
        first, second = set(), set()
        signatures = sorted({tuple(sorted(groups)) for groups in of_cluster[way].values()})
        for index, signature in enumerate(signatures):
            names = sorted(
                name for name, groups in of_cluster[way].items() if tuple(sorted(groups)) == signature
            )
            dealt = deal(names, np.random.default_rng([SEED, index, split, 1 + way]))
            first, second = first | dealt[0], second | dealt[1]
        sides.append((first, second))
    templates = sorted({row["template"] for row in rows}) if role in ("words", "labels") else []
    of_template = deal(templates, np.random.default_rng([SEED, 0, split, 4]))
    return [
        [
            number
            for number, row in enumerate(rows)
            if all(name in sides[way][half] for way, name in enumerate(clusters_of(unit_name(row))))
            and (not templates or row["template"] in of_template[half])
        ]
        for half in (0, 1)
    ]


def spearman(x, y):
    return stats.spearmanr(x, y).statistic


def expected_rows(world, exp, choice, splits=FEW_SPLITS):
    """Score halves of the corpus by loops; return rows by stratum, and the scores of the first split."""
    targets, corpus = exp.split("_to_")
    rows = {role: reference.rows_of(table.frame) for role, table in world.tables.items()}
    vectors = {role: values.tolist() for role, values in world.vectors.items()}
    sizes = {name: SIZES[name] // 2 for name in ("k", "extremes", "set_size")}
    names = {f"{field}_by": name for field, name in choice.items()}
    per_stratum = defaultdict(list)
    for split in range(1, splits + 1):
        scored = []
        for half in halves(corpus, rows[corpus], split):
            tables = {**rows, corpus: [rows[corpus][i] for i in half]}
            half_vectors = {**vectors, corpus: [vectors[corpus][i] for i in half]}
            scored.append(
                reference.unit_scores(
                    exp, tables, half_vectors, **sizes, ddof=SIZES["ddof"], seed=SEED, **names
                )
            )
        for content, units in scored[0].items():
            for stratum, members, _ in reference.strata(targets, units, content, SIZES["extremes"]):
                pairs = [[half[content][unit][:2] for unit in members] for half in scored]
                (x, y), (other_x, other_y) = (zip(*pair, strict=True) for pair in pairs)
                per_stratum[stratum].append((members, x, y, other_x, other_y))
    expected = {}
    for stratum, scores in per_stratum.items():
        measured = np.mean([spearman(x, other_x) for _, x, _, other_x, _ in scores])
        retrieved = np.mean([spearman(y, other_y) for _, _, y, _, other_y in scores])
        cross = np.mean(
            [(spearman(x, other_y) + spearman(other_x, y)) / 2 for _, x, y, other_x, other_y in scores]
        )
        expected[stratum] = {
            "rho_cross": cross,
            "reliability_measured": 2 * measured / (1 + measured),
            "reliability_retrieved": 2 * retrieved / (1 + retrieved),
            "noise_ceiling": math.sqrt(measured * retrieved) if min(measured, retrieved) > 0 else math.nan,
        }
        if min(expected[stratum][f"reliability_{name}"] for name in ("measured", "retrieved")) >= 0.2:
            expected[stratum]["rho_true"] = cross / math.sqrt(measured * retrieved)
    return expected, {stratum: scores[0] for stratum, scores in per_stratum.items()}


def run(world, exp, protocol=NO_NULLS, **options):
    targets, corpus = exp.split("_to_")
    tables, vectors = ([side[role] for role in (targets, corpus)] for side in (world.tables, world.vectors))
    return experiment.run(*tables, *vectors, protocol, SEED, **options)


@pytest.fixture
def few_splits(monkeypatch):
    monkeypatch.setattr(reliability, "SPLITS", FEW_SPLITS)


@pytest.mark.filterwarnings("ignore:An input array is constant")
@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_reliability_equals_the_naive_loop(exp, choice, few_splits):
    result = run(WORLD, exp, replace(NO_NULLS, **choice), with_reliability=True)
    expected, _ = expected_rows(WORLD, exp, choice)
    assert result.analyses["stratum"].tolist() == [*expected]
    for row in result.analyses.to_dict("records"):
        columns = expected[row["stratum"]]
        # A constant score of a half leaves all undefined that it enters.
        for name, value in columns.items():
            assert row[name] == pytest.approx(value, abs=1e-9, nan_ok=True)
        assert math.isnan(row["rho_true"]) == bool(row["reliability_reason"])
        assert "rho_true" in columns or row["reliability_reason"]
    assert len(result.reliability) == FEW_SPLITS * len(expected)
    means = result.reliability.groupby("stratum")["cross"].mean()
    for stratum, columns in expected.items():
        if not math.isnan(columns["rho_cross"]):
            assert means[stratum] == pytest.approx(columns["rho_cross"], abs=1e-9)


@pytest.mark.parametrize("exp", ["faces_to_words", "labels_to_scenes", "scenes_to_words"])
def test_the_interval_is_the_jackknife_of_the_first_split(exp, few_splits):
    result = run(WORLD, exp, with_reliability=True)
    _, first = expected_rows(WORLD, exp, {}, splits=1)
    compared = 0
    for row in result.analyses.itertuples():
        members, *scores = first[row.stratum]
        x, y, other_x, other_y = map(np.array, scores)

        def corrected(remain, x=x, y=y, other_x=other_x, other_y=other_y):
            measured, retrieved = spearman(x[remain], other_x[remain]), spearman(y[remain], other_y[remain])
            across = spearman(x[remain], other_y[remain]) + spearman(other_x[remain], y[remain])
            return across / 2 / math.sqrt(measured * retrieved) if min(measured, retrieved) > 0 else math.nan

        ways = [*zip(*map(clusters_of, members), strict=True)]
        variance = reference.jackknife_variance(corrected, ways)
        if math.isnan(variance) or row.reliability_reason:
            assert math.isnan(row.rho_true_low)
            continue
        compared += 1
        df = min(len(set(names)) for names in ways) - 1
        low, high = reference.t_interval(row.rho_true, variance, df)
        assert (row.rho_true_low, row.rho_true_high) == pytest.approx((low, high), abs=1e-9)
    assert compared


@pytest.mark.parametrize("exp", ["faces_to_words", "words_to_faces"])
def test_images_of_several_vectors(exp, few_splits):
    world = World()
    rng = np.random.default_rng(3)
    faces = world.vectors["faces"].numpy()[:, None] + 0.5 * rng.normal(
        size=(len(world.vectors["faces"]), 3, 8)
    )
    world.vectors["faces"] = torch.from_numpy(faces / np.linalg.norm(faces, axis=-1, keepdims=True))
    result = run(world, exp, with_reliability=True)
    expected, _ = expected_rows(world, exp, {})
    for row in result.analyses.to_dict("records"):
        for name, value in expected[row["stratum"]].items():
            assert row[name] == pytest.approx(value, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("role", ["faces", "scenes", "words", "labels"])
def test_halves_share_no_cluster_and_no_template(role):
    table = WORLD.tables[role]
    frame = table.frame
    names = frame["word" if "word" in frame else "id"].to_numpy()
    exchange = build_exchange(table, SEED)
    first_halves = []
    for split in (1, 2, 1):
        used = []
        sizes = {"k": 4, "extremes": 3, "set_size": 12}
        for half in reliability.halves_of(table, exchange, replace(NO_NULLS, **sizes), SEED, split):
            rows = np.concatenate([pool.rows for pool in half.pools])
            assert len({*rows}) == len(rows)
            for pool in half.pools:
                assert pool.outcomes.shape == (len(pool.rows), len(half.properties))
                if CARRIES[role] == "valence":
                    assert (frame["valence"].to_numpy()[pool.rows] == pool.outcomes[:, 0]).all()
                else:
                    groups = frame["group"].to_numpy()[pool.rows]
                    assert (np.array(half.properties)[pool.outcomes.argmax(axis=1)] == groups).all()
            used.append(rows)
        for way in range(len(clusters_of(names[0]))):
            first, second = ({clusters_of(names[row])[way] for row in rows} for rows in used)
            assert not first & second
        if "template" in frame:
            first, second = ({*frame["template"].to_numpy()[rows]} for rows in used)
            assert not first & second
        first_halves.append(sorted(used[0].tolist()))
    assert first_halves[0] == first_halves[2] != first_halves[1]


@given(sizes=st.lists(st.integers(1, 6), min_size=4, max_size=20), split=st.integers(0, 9))
def test_halves_of_clusters_of_any_sizes_split_none(sizes, split):
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    group = np.where(cluster % 2, "g", "h")
    frame = pd.DataFrame({"group": group, "cluster": cluster.astype(str)})
    table = build_table("faces", frame.assign(id=[f"f{i:03d}" for i in range(len(frame))]), "t")
    among = np.arange(len(frame)) % 3 > 0
    for mask in (None, among):
        _, halved = split_units(table, build_exchange(table, 0), 0, split, mask)
        rows = np.ones(len(frame), dtype=bool) if mask is None else mask
        assert (halved[~rows] == 0).all()
        for name in np.unique(group):
            numbers = [{*cluster[rows & (group == name) & (halved == half)]} for half in (FIRST, SECOND)]
            total = len({*cluster[rows & (group == name)]})
            assert not numbers[0] & numbers[1]
            assert [len(half) for half in numbers] == [total // 2, (total + 1) // 2]


# A and B from disjoint halves.


def sets_by_loops(role, rows, split):
    """Return A and B by property from both halves of a split; of valence, by template."""
    if CARRIES[role] == "group":
        both = halves("faces", rows, split)  # templates are not halved
        groups, result = sorted({row["group"] for row in rows}), []
        smallest = min(sum(rows[i]["group"] == group for i in half) for half in both for group in groups)
        size = max(
            n
            for n in range(len(groups), SIZES["set_size"] + 1, len(groups))
            if n + (n // len(groups) if role == "faces" else 0) <= smallest
        )
        for number, half in enumerate(both, 1):
            sets = reference.group_sets([rows[i] for i in half], False, size, SEED, 2 * split + number)
            result.append({g: [([half[i] for i in a], [half[i] for i in b])] for g, (a, b) in sets.items()})
        return result
    order = sorted(
        {unit_name(row): row["valence"] for row in rows}.items(), key=lambda item: (item[1], item[0])
    )
    low, high = (
        [name for name, _ in order[place]]
        for place in (slice(SIZES["extremes"]), slice(-SIZES["extremes"], None))
    )
    signature = defaultdict(lambda: [False, False])
    for place, names in enumerate((high, low)):
        for name in names:
            signature[clusters_of(name)[0]][place] = True
    sides = [set(), set()]
    kinds = sorted({tuple(kind) for kind in signature.values()})
    for index, kind in enumerate(kinds):
        members = sorted(name for name in signature if tuple(signature[name]) == kind)
        for side, dealt in zip(
            sides, deal(members, np.random.default_rng([SEED, index, split, 1])), strict=True
        ):
            side |= dealt
    templates = sorted({row.get("template", "") for row in rows})
    return [
        {
            None: [
                tuple(
                    [
                        i
                        for i, row in enumerate(rows)
                        if unit_name(row) in names
                        and row.get("template", "") == template
                        and clusters_of(unit_name(row))[0] in side
                    ]
                    for names in (high, low)
                )
                for template in templates
            ]
        }
        for side in sides
    ]


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_sd_attributes_equals_the_naive_loop(exp):
    targets, corpus = exp.split("_to_")
    result = WORLD.run(exp, replace(PROTOCOL, placebo=0))
    rows = {role: reference.rows_of(table.frame) for role, table in WORLD.tables.items()}
    cosines = [
        [reference.cosine(x, y) for y in WORLD.vectors[corpus].tolist()]
        for x in WORLD.vectors[targets].tolist()
    ]
    contents = WORLD.naive(exp)
    rhos = defaultdict(list)
    for split in range(1, PROTOCOL.attribute_draws + 1):
        drawn = sets_by_loops(corpus, rows[corpus], split)
        for content, units in contents.items():
            for stratum, members, _ in reference.strata(targets, units, content, SIZES["extremes"]):
                y = [units[name][1] for name in members]
                for half in drawn:
                    per_unit = defaultdict(list)
                    for row, to_items in zip(rows[targets], cosines, strict=True):
                        effects = [reference.effect(to_items, a, b, SIZES["ddof"]) for a, b in half[content]]
                        per_unit[unit_name(row)].append(math.fsum(effects) / len(effects))
                    x = [round(math.fsum(per_unit[name]) / len(per_unit[name]), 12) for name in members]
                    rhos[stratum].append(spearman(x, y))
    for row in result.analyses.itertuples():
        pairs = np.array(rhos[row.stratum]).reshape(-1, 2)
        expected = math.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2) / 2)
        assert row.sd_attributes == pytest.approx(expected, abs=1e-9)
        drawn = result.draws[
            (result.draws["kind"] == "attributes") & (result.draws["stratum"] == row.stratum)
        ]
        assert drawn.sort_values("draw")["rho"].tolist() == pytest.approx(rhos[row.stratum], abs=1e-9)


@pytest.mark.parametrize("intrinsic", ["sc_eat", "difference"])
def test_sets_of_unequal_sizes_by_sums_and_singly(intrinsic, monkeypatch):
    """Themes of several scenes leave halves of the extremes of unequal sizes."""
    protocol = replace(PROTOCOL, extremes=9, intrinsic=intrinsic)
    drawn = corpus_of(WORLD.tables["scenes"], protocol, SEED).redraw(1)
    assert len({len(sets[0]) for half in drawn for sets in half[0]}) > 1
    by_sums = WORLD.run("labels_to_scenes", protocol)
    measure = experiment.intrinsic_of(protocol)
    monkeypatch.setattr(experiment, "intrinsic_of", lambda _: replace(measure, by_sums=None))
    singly = WORLD.run("labels_to_scenes", protocol)
    pd.testing.assert_frame_equal(by_sums.draws, singly.draws, rtol=0, atol=1e-12)


def test_a_single_cluster_has_no_halves():
    frame = WORLD.tables["faces"].frame
    table = build_table("faces", frame.assign(cluster=frame["group"]), "t")
    words = WORLD.tables["words"]
    vectors = WORLD.vectors["words"], WORLD.vectors["faces"]
    result = experiment.run(words, table, *vectors, replace(PROTOCOL, placebo=0), SEED)
    assert result.analyses["sd_attributes"].isna().all()
    assert "no sd_attributes, since half of the faces are too few for A and B" in result.notes
    with pytest.raises(NotApplicable, match="Split 1: faces: the smallest of 4 groups has 0 items, too few"):
        experiment.check(words, table, NO_NULLS, SEED, with_reliability=True)


# Refusals, and jobs that do not ask.


@pytest.mark.parametrize(
    ("exp", "changes", "message"),
    [
        ("labels_to_scenes", {"k": 1}, "none would be retrieved. Set protocol.k to 2"),
        ("labels_to_scenes", {"extremes": 1}, "protocol.extremes=1 cannot be halved. Set it to 2 or more"),
        ("labels_to_scenes", {"extremes": 20, "k": 3}, "at least 20 scenes.* got 1"),
        ("words_to_faces", {"set_size": 7}, "protocol.set_size=3: .*4, .* Raise protocol.set_size"),
        ("faces_to_words", {"k": 29}, "all would be retrieved"),
    ],
)
def test_halves_that_are_too_small_are_refused_before_work(exp, changes, message):
    targets, corpus = (WORLD.tables[role] for role in exp.split("_to_"))
    protocol = replace(NO_NULLS, **changes)
    experiment.check(targets, corpus, protocol, SEED)
    with pytest.raises(NotApplicable, match=f"exp.reliability=true halves the corpus.*{message}"):
        experiment.check(targets, corpus, protocol, SEED, with_reliability=True)


def summarise(x, y, **options):
    scores = np.stack([np.stack([first, second], axis=1) for first, second in zip(x, y, strict=True)])
    ways = pd.DataFrame({"cluster": [f"c{i:03d}" for i in range(scores.shape[-1])]})
    return reliability.summarise_splits(scores, ways, np.zeros(scores.shape[-1]), **options)[0]


def half_scores(rng, n=60, splits=2, noise=0.5):
    truth = rng.normal(size=n)
    return tuple(truth + noise * rng.normal(size=(splits, 2, n)) for _ in range(2))


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_order_of_units_and_monotone_transforms_change_nothing(seed):
    rng = np.random.default_rng(seed)
    x, y = half_scores(rng)
    row = summarise(x, y)
    order = rng.permutation(x.shape[-1])
    for other in (
        summarise(np.exp(x), y**3),
        summarise(x, np.stack([y[:, 0], 7 * y[:, 1] - 3], axis=1)),
        summarise(x[:, ::-1], y[:, ::-1]),
    ):
        assert other == pytest.approx(row, abs=1e-12)
    permuted = summarise(x[..., order], y[..., order])
    for name in ("rho_cross", "reliability_measured", "reliability_retrieved", "noise_ceiling", "rho_true"):
        assert permuted[name] == pytest.approx(row[name], abs=1e-12)
    swapped = summarise(y, x)
    assert swapped["rho_true"] == pytest.approx(row["rho_true"], abs=1e-12)
    assert swapped["reliability_measured"] == row["reliability_retrieved"]
    assert summarise(-x, y)["rho_true"] == pytest.approx(-row["rho_true"], abs=1e-12)


def test_scores_without_noise_are_not_corrected():
    rng = np.random.default_rng(0)
    x, y = (np.broadcast_to(rng.normal(size=40), (2, 2, 40)) for _ in range(2))
    row = summarise(x, y)
    assert row["rho_true"] == pytest.approx(spearman(x[0, 0], y[0, 0]))
    assert row["reliability_measured"] == row["reliability_retrieved"] == row["noise_ceiling"] == 1


def test_unreliable_and_undefined_scores_are_refused_with_a_reason():
    rng = np.random.default_rng(0)
    x, y = half_scores(rng)
    unreliable = summarise(rng.normal(size=x.shape), y)
    assert unreliable["reliability_measured"] < 0.2
    assert unreliable["reliability_reason"].startswith("the reliability of the intrinsic score, ")
    assert unreliable["reliability_reason"].endswith(" is below 0.2")
    assert math.isnan(unreliable["rho_true"])
    assert not math.isnan(unreliable["rho_cross"])
    constant = y.copy()
    constant[1, 0] = 0.5
    row = summarise(x, constant)
    assert row["reliability_reason"] == "half of the corpus: every unit has the same outcome"
    assert all(math.isnan(row[name]) for name in ("rho_cross", "rho_true", "noise_ceiling"))
    undefined = np.full_like(x, math.nan)
    assert summarise(undefined, y)["reliability_reason"].startswith("half of the corpus: 0 units")


def test_a_unit_without_a_score_in_a_half_leaves_the_split():
    rng = np.random.default_rng(0)
    x, y = half_scores(rng, splits=1)
    without = x.copy()
    without[0, 1, 7] = math.nan
    remaining = np.arange(60) != 7
    expected = summarise(x[..., remaining], y[..., remaining])
    assert summarise(without, y)["rho_true"] == pytest.approx(expected["rho_true"], abs=1e-12)


def test_few_clusters_have_no_interval():
    rng = np.random.default_rng(0)
    x, y = half_scores(rng)
    scores = np.stack([x, y], axis=2)
    ways = pd.DataFrame({"cluster": np.arange(60) % 4}).astype(str)
    row, _ = reliability.summarise_splits(scores, ways, np.zeros(60))
    assert math.isfinite(row["rho_true"])
    assert math.isnan(row["rho_true_low"])


def test_jobs_that_do_not_ask_keep_their_key_and_columns():
    def job(*overrides):
        return Job.of(*configs.compose(["exp=faces_to_words", *overrides]), "")

    default, changed = job(), job("exp.reliability=true")
    exp = dict(default.resolved["exp"])
    assert exp.pop("reliability") is False
    older = replace(default, resolved={**default.resolved, "exp": exp})
    assert older.config_hash == default.config_hash != changed.config_hash
    plain, full = (run(WORLD, "faces_to_words", with_reliability=choice) for choice in (False, True))
    assert not {*RELIABILITY} & {*plain.analyses}
    assert "reliability" not in plain.tables
    pd.testing.assert_frame_equal(plain.analyses, full.analyses.drop(columns=[*RELIABILITY]))
    for name, table in plain.tables.items():
        pd.testing.assert_frame_equal(table, full.tables[name])


def test_other_values_are_refused():
    with pytest.raises(InputError, match="exp.reliability"):
        configs.compose(["exp=faces_to_words", "exp.reliability=maybe"])


@pytest.mark.thorough
def test_a_sweep_reports_and_logs_reliability(single, tmp_path):
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    exps = "exp=scenes_to_words,faces_to_labels"
    arguments = ["-m", "model=precomputed", f"model.path={single}", f"tracking.uri={uri}", exps, *SMALL]
    swept = command(tmp_path / "out", *arguments, "exp.reliability=true")
    assert swept.code == 0
    rows, report = swept.analyses(), swept.output / "report"
    text = (report / "index.html").read_text()
    assert '<section id="reliability">' in text
    assert "ρ across halves of the corpus is" in text
    table = pd.read_csv(report / "tables" / "reliability.csv")
    assert len(table) == len(rows)
    merged = table.merge(rows, on=["exp", "model", "stratum"], suffixes=("", "_of_job"))
    for name in ("rho_cross", "rho_true", "rho_true_low"):
        assert merged[name].tolist() == pytest.approx(merged[f"{name}_of_job"].tolist(), nan_ok=True)
    assert len([*report.glob("figures/reliability-*.png")]) == 2
    assert (swept.results("scenes_to_words") / "reliability.parquet").is_file()
    tracker = Tracker(uri)
    for run in find_children(tracker, find_sweeps(tracker)[0]):
        means = rows[rows["exp"] == run.tags["exp"]].mean(numeric_only=True)
        for name in RELIABILITY[:5]:
            expected = means[name]
            assert run.metrics.get(name, math.nan) == pytest.approx(expected, nan_ok=True)
    assert command(tmp_path / "plain", *arguments).code == 0
    assert "Reliability" not in (tmp_path / "plain" / "report" / "index.html").read_text()
