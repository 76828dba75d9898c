"""Check the intervention against loops over Python floats, in all experiments, and where it is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.studies.propagation import experiment, intervention
from src.studies.propagation.study import STUDY
from src.studies.shared.spreads import estimate_spreads
from tests import reference
from tests.studies.propagation.world import PROTOCOL, SEED, World

# With one of a hundred permutations at most as far, several analyses can be significant together.
SMALL = replace(PROTOCOL, placebo=99, attribute_draws=0)


def with_several_vectors(world):
    """Give each image three vectors around its single one."""
    rng = np.random.default_rng(1)
    for role in ("faces", "scenes"):
        single = world.vectors[role].numpy()
        vectors = single[:, None] + 0.2 * rng.normal(size=(len(single), 3, single.shape[1]))
        world.vectors[role] = torch.from_numpy(vectors / np.linalg.norm(vectors, axis=2, keepdims=True))
    return world


def intervene(world, exp, protocol=SMALL, max_targets=0):
    targets, corpus = exp.split("_to_")
    tables, vectors = ([side[role] for role in (targets, corpus)] for side in (world.tables, world.vectors))
    return experiment.run(*tables, *vectors, protocol, SEED, max_intervened=max_targets)


def sets_of(result):
    """Return the ids of A and B by (property, template), from the job's table."""
    table = result.attributes.astype(object).where(result.attributes.notna(), None)
    grouped = table.groupby(["group", "template", "set"], dropna=False)["id"]
    sets = {}
    for (group, template, name), ids in grouped:
        key = None if pd.isna(group) else group, None if pd.isna(template) else template
        sets.setdefault(key, {})[name] = [*ids]
    return sets


def every_vector(vector):
    return vector if isinstance(vector[0], list) else [vector]


def mean_of(vectors):
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def scale(vector):
    length = sum(value * value for value in vector) ** 0.5
    return [value / length for value in vector]


def naive_shares(world, exp, result, erase):
    """Compute the shares of measure and level that remain, from the definitions, by loops.

    `erase`: (vectors of all targets, concept of each vector, measured directions) -> other vectors.
    """
    target_role, corpus_role = exp.split("_to_")
    items = world.tables[corpus_role].frame
    item_vectors = dict(zip(items["id"], world.vectors[corpus_role].tolist(), strict=True))
    valued = "valence" in items
    templates = items["template"] if corpus_role == "words" else pd.Series([None] * len(items))
    pools = {template: [*items["id"][(templates == template) | templates.isna()]] for template in templates}
    sets = sets_of(result)
    properties = sorted({group for group, _ in sets}, key=str)
    directions = []
    for group in properties:
        differences = []
        for template in pools:
            key = group, template if valued else None
            if key not in sets:  # labels: one pool, whose sets are listed by template
                merged = {"A": [], "B": []}
                for (name, _), pair in sets.items():
                    if name == group:
                        merged["A"] += pair["A"]
                        merged["B"] += pair["B"]
                sets[key] = merged
            a, b = (
                mean_of([vector for name in sets[key][side] for vector in every_vector(item_vectors[name])])
                for side in "AB"
            )
            differences.append([x - y for x, y in zip(a, b, strict=True)])
        directions.append(mean_of(differences))
    targets = world.tables[target_role].frame
    counts = [len(every_vector(vector)) for vector in world.vectors[target_role].tolist()]
    flat = [each for vector in world.vectors[target_role].tolist() for each in every_vector(vector)]
    column = "group" if "group" in targets else "valence"
    concept = [value for value, count in zip(targets[column], counts, strict=True) for _ in range(count)]
    statistics = []
    for vectors in (flat, erase(np.array(flat), concept, np.array(directions).T).tolist()):
        vectors = iter(map(scale, vectors))
        scores = {}
        for row, count in zip(targets.itertuples(), counts, strict=True):
            target = [next(vectors) for _ in range(count)]
            target = target if count > 1 else target[0]
            of_row = np.zeros((len(properties), 2))
            for template, ids in pools.items():
                cosines = {name: reference.cosine(target, item_vectors[name]) for name in ids}
                near = set(sorted(ids, key=lambda name: (-round(cosines[name], 12), ids.index(name)))[:11])
                for place, group in enumerate(properties):
                    pair = sets[group, template if valued else None]
                    a, b = (sum(cosines[name] for name in pair[side]) / len(pair[side]) for side in "AB")
                    outcomes = items["valence"] if valued else items["group"] == group
                    retrieved = outcomes[items["id"].isin(near)].mean()
                    of_row[place] += np.array([a - b, retrieved]) / len(pools)
            unit = row.word if hasattr(row, "word") else row.id
            scores.setdefault((unit, getattr(row, column)), []).append(of_row)
        averages = {key: np.mean(values, axis=0) for key, values in scores.items()}
        statistics.append([*levels(averages, properties, column, result)])
    before, after = np.array(statistics)
    return [float(after[:, n] @ before[:, n] / (before[:, n] @ before[:, n])) for n in range(2)]


def levels(averages, properties, column, result):
    """Yield measured level and level of each analysis."""
    values = np.array([*averages.values()])
    carried = np.array([carried for _, carried in averages])
    for row in result.analyses.itertuples():
        place = 0 if properties == [None] else properties.index(row.stratum)
        scores = values[:, place]
        if column == "group":
            yield scores[carried == row.group].mean(axis=0) - scores[carried != row.group].mean(axis=0)
        else:
            ratings = carried.astype(float)
            yield (((ratings - ratings.mean()) / ratings.std())[:, None] * scores).mean(axis=0)


def project(share):
    def erase(vectors, _, directions):
        basis, values, _ = np.linalg.svd(directions, full_matrices=False)
        basis = basis[:, values > 1e-6 * values[0]]
        return vectors - share * (vectors - vectors.mean(axis=0)) @ basis @ basis.T

    return erase


def closed_form_leace(vectors, concept, _):
    """Return x - W⁺ P W (x - x̄) from matrix roots."""
    z = pd.get_dummies(pd.Series(concept)) if isinstance(concept[0], str) else pd.DataFrame(concept)
    z, x = (side - side.mean(axis=0) for side in (z.to_numpy(dtype=float), vectors))
    values, axes = np.linalg.eigh(x.T @ x / len(x))
    root, inverse = (axes * np.sqrt(values) @ axes.T, axes / np.sqrt(values) @ axes.T)
    whitened = inverse @ x.T @ z / len(x)
    projection = whitened @ np.linalg.pinv(whitened, rcond=1e-8)
    return vectors - x @ (root @ projection @ inverse).T


ERASERS = {("measured", share): project(share) for share in (0.25, 1.0)} | {("leace", 1.0): closed_form_leace}


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.mark.parametrize("exp", reference.EXPERIMENTS)
def test_shares_are_those_of_loops(exp, world):
    result = intervene(world, exp)
    rows = result.intervention.rows.set_index(["kind", "alpha"])
    assert rows.loc[("measured", 0.0), ["measured", "level"]].tolist() == pytest.approx([1, 1], abs=1e-12)
    for key, erase in ERASERS.items():
        shares = rows.loc[[key], ["measured", "level"]].iloc[0].tolist()
        assert shares == pytest.approx(naive_shares(world, exp, result, erase), abs=1e-9)


@pytest.mark.parametrize("exp", ["faces_to_words", "words_to_faces"])
def test_several_vectors_of_an_image_are_each_moved(exp):
    world = with_several_vectors(World())
    result = intervene(world, exp)
    rows = result.intervention.rows.set_index(["kind", "alpha"])
    for key, erase in ERASERS.items():
        shares = rows.loc[[key], ["measured", "level"]].iloc[0].tolist()
        assert shares == pytest.approx(naive_shares(world, exp, result, erase), abs=1e-9)


def test_the_summary_is_that_of_the_rows(world):
    result = intervene(world, "faces_to_words")
    rows, summary = result.intervention.rows, result.intervention.summary.iloc[0]
    measured, random = (rows[rows["kind"] == kind] for kind in ("measured", "random"))
    assert measured["alpha"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert summary["left"] == measured["level"].iloc[-1]
    assert summary["left_leace"] == rows[rows["kind"] == "leace"]["level"].item()
    assert (summary["controls"], summary["n"], summary["reason"]) == (len(random), 48, "")
    assert random["level"].quantile(0.05) == pytest.approx(summary["left_random_q05"])
    assert random["level"].median() == pytest.approx(summary["left_random_median"])
    reached = sum(level <= summary["left"] for level in random["level"])
    assert summary["left_p"] == (1 + reached) / (1 + len(random)) < 0.05
    dose = 1 - measured["measured"].to_numpy()
    slope = (dose * (1 - measured["level"])).sum() / (dose**2).sum()
    assert summary["dose_slope"] == pytest.approx(slope)
    names = set(result.tables)
    assert {"intervention", "intervention_summary"} <= names
    assert STUDY.metrics(result)["left"] == summary["left"]
    assert STUDY.metrics(result)["left_p"] == summary["left_p"]
    assert "intervention on 48 of 48 targets" in result.notes


def test_the_interval_is_the_ratio_of_spreads_of_the_outcome(world):
    summary = intervene(world, "faces_to_words").intervention.summary.iloc[0]
    faces, vectors = world.tables["faces"].frame, world.vectors["faces"]
    outcomes = []
    basis = np.linalg.svd(measured_columns(world), full_matrices=False)[0]
    for moved in (vectors, vectors - (vectors - vectors.mean(dim=0)) @ basis @ basis.T):
        copy = World()
        copy.vectors["faces"] = moved / moved.norm(dim=1, keepdim=True)
        outcomes.append(copy.run("faces_to_words").targets.set_index("id")["extrinsic"])
    columns = {"stratum": faces["group"], "id": faces["id"], "cluster": faces["cluster"]}
    for when, outcome in zip(("before", "after"), outcomes, strict=True):
        columns[f"extrinsic_{when}"] = [*outcome.loc[faces["id"]]]
    ratio = estimate_spreads(pd.DataFrame(columns), "extrinsic").ratio
    assert (summary["left_low"], summary["left_high"]) == pytest.approx((ratio.low, ratio.high))
    assert summary["left_low"] < summary["left"] < summary["left_high"]


def measured_columns(world):
    """Return the mean of the highest less that of the lowest words, averaged over templates, [D, 1]."""
    words, vectors = world.tables["words"].frame, world.vectors["words"].numpy()
    differences = []
    for _, rows in words.groupby("template"):
        order = rows.sort_values(["valence", "word"]).index
        differences.append(vectors[order[-5:]].mean(axis=0) - vectors[order[:5]].mean(axis=0))
    return np.mean(differences, axis=0)[:, None]


@pytest.mark.parametrize("exp", ["scenes_to_labels", "faces_to_labels"])
def test_targets_with_ratings_or_several_outcomes_have_no_interval(exp, world):
    summary = intervene(world, exp).intervention.summary.iloc[0]
    assert np.isfinite(summary["left"])
    assert summary[["left_low", "left_high"]].isna().all()


def test_a_sample_has_so_many_targets_of_each_group_and_its_controls_are_reproducible(world):
    first, again = (intervene(world, "faces_to_words", max_targets=6) for _ in range(2))
    assert first.intervention.summary["n"].item() == 24
    pd.testing.assert_frame_equal(first.intervention.rows, again.intervention.rows)
    assert first.intervention.summary["left"].item() != pytest.approx(
        intervene(world, "faces_to_words").intervention.summary["left"].item()
    )
    # Both sentences of a word are drawn, or neither; of extremes, the sample is of all words.
    words = intervene(world, "words_to_scenes", max_targets=20)
    assert words.intervention.summary["n"].item() == 20
    assert "intervention on 20 of 30 targets" in words.notes


def test_without_a_p_of_the_level_a_note_says_so(world):
    protocol = replace(SMALL, attributes="held_out", k=6, placebo=0)
    result = intervene(world, "labels_to_scenes", protocol)
    assert np.isfinite(result.intervention.summary["left"].item())
    assert "no level has a p: the intervention may remove nothing of interest" in result.notes


def test_everything_else_stays_as_it_is(world):
    plain, intervened = world.run("faces_to_words", SMALL), intervene(world, "faces_to_words")
    assert plain.intervention is None
    assert set(intervened.tables) - set(plain.tables) == {"intervention", "intervention_summary"}
    pd.testing.assert_frame_equal(plain.analyses, intervened.analyses)
    for name, table in plain.tables.items():
        pd.testing.assert_frame_equal(table, intervened.tables[name])


# Refusals.


def refusal(result):
    assert result.intervention.rows.empty
    summary = result.intervention.summary.iloc[0]
    assert summary[["left", "left_p", "left_leace", "dose_slope"]].isna().all()
    assert summary["reason"] in result.notes
    return summary["reason"]


def test_without_a_significant_level_there_is_nothing_to_remove():
    world = World()
    world.vectors["faces"] = world.vectors["faces"][torch.randperm(48, generator=torch.Generator())]
    reason = refusal(intervene(world, "faces_to_words"))
    assert reason == "nothing to remove: level_p_max is above .05 in every analysis"


@pytest.mark.parametrize(("levels", "expected"), [((0.9, 0.5), True), ((0.5, 0.5), False), ((), True)])
def test_the_largest_level_of_a_permutation_decides(levels, expected):
    """The 39 permuted levels are at most .6: only a level beyond them is significant after adjustment."""
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame({"stratum": str(n), "draw": range(40), "level": [level, *rng.uniform(-0.6, 0.6, 39)]})
        for n, level in enumerate(levels)
    ]
    draws = pd.concat([pd.DataFrame({"stratum": [], "draw": [], "level": []}), *frames])
    assert intervention.is_any_significant(draws) is expected


def test_equal_sets_or_equal_outcomes_leave_nothing_to_remove():
    world = World()
    world.vectors["words"] = world.vectors["words"][:1].repeat(len(world.vectors["words"]), 1)
    protocol = replace(SMALL, placebo=0)
    reason = refusal(intervene(world, "faces_to_words", protocol))
    assert reason == "nothing to remove: the measure or the level is 0 or undefined"


def test_no_p_where_few_random_subspaces_reach_the_variance(world):
    summary = intervene(world, "scenes_to_words").intervention.summary.iloc[0]
    assert summary["controls"] < intervention.MIN_CONTROLS
    assert np.isnan(summary["left_p"])
    assert summary["reason"].startswith(f"no left_p: {summary['controls']} random subspaces have")


def test_no_random_subspace_is_drawn_where_the_measured_directions_fill_the_space():
    world = World()
    narrow = {role: vectors[:, :3] for role, vectors in world.vectors.items()}
    world.vectors = {role: vectors / vectors.norm(dim=1, keepdim=True) for role, vectors in narrow.items()}
    result = intervene(world, "labels_to_faces", replace(SMALL, placebo=0))
    summary = result.intervention.summary.iloc[0]
    assert (summary["controls"], summary["left"]) == (0, pytest.approx(0, abs=1e-9))
    assert summary["reason"] == "no left_p: 0 random subspaces have the measured variance"
    assert summary["reason"] in result.notes


def job(*overrides):
    return Job.of(*configs.compose(["exp=faces_to_words", *overrides]), "")


def test_an_outcome_without_retrieval_is_refused_before_any_work():
    cfg = job("exp.intervene=true", "protocol.extrinsic=zero_shot").cfg
    with pytest.raises(
        NotApplicable, match=r"expected an outcome that retrieves items.*Use protocol.extrinsic=top_k"
    ):
        STUDY.check(cfg, {})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["exp.intervene_targets=-1"], "exp.intervene_targets=-1: must be at least 0"),
        (["exp=cles_warmth", "exp.intervene=true"], "intervene"),
    ],
)
def test_wrong_options_are_refused(overrides, message):
    with pytest.raises(InputError, match=message):
        job(*overrides)


def test_jobs_that_do_not_intervene_have_the_key_and_the_parts_of_before():
    plain, intervened = job(), job("exp.intervene=true")
    exp = {name: value for name, value in plain.resolved["exp"].items() if not name.startswith("intervene")}
    assert set(plain.resolved["exp"]) - set(exp) == {"intervene", "intervene_targets"}
    older = replace(plain, resolved={**plain.resolved, "exp": exp})
    assert older.config_hash == plain.config_hash != intervened.config_hash
    assert job("exp.intervene=true", "exp.intervene_targets=9").config_hash != intervened.config_hash
    assert "intervention" not in STUDY.versions(plain.cfg)
    assert STUDY.versions(intervened.cfg) == STUDY.versions(plain.cfg) | {"intervention": 1}
