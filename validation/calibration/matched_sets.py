"""Measure the level and the power of tests within sets of matched pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from src import metrics
from src.configs import RunConfig
from src.stimuli import Table
from src.studies.matched import carry_over
from src.studies.matched.exchange import build_exchange
from src.studies.matched.pool import Pool
from src.studies.matched.retrieval import compute_statistics, permute_statistics, retrieve
from src.studies.matched.retrieval_intervals import compute_order_intervals, compute_share_intervals
from validation.calibration import bounds, worlds

GROUPS, SUBJECTS, SETS, WIDTH = 3, 2, 12, 16  # sets of each subject
TOP_K, PERMUTATIONS = 18, 199
# Words that pictures retrieve, of which as many are extreme, and as many retrieved.
WORDS, EXTREMES, RETRIEVED = 40, 5, 10
# SD of the scenes, of which the people have SD 1; and effects of a group, of one of which power is asked.
SCENE, EFFECTS, STRONG = 3.0, (0.0, 0.25, 1.0), 1.0
MIN_POWER = 0.9
# Interval coverage of the mean rank and share over captions, without effect: their truths are .5 and 1/3.
COVERAGE = (0.89, 0.995)


@dataclass(frozen=True)
class World:
    """Results of a world: p of share, rank and level of words, and whether intervals hold the truth."""

    share_p: float
    rank_p: float
    level_p: float
    share_covers: bool
    rank_covers: bool
    level_covers: bool


def analyse(effect: float, number: int) -> World:
    """Draw sets of a scene with three people; the first is nearer to captions and words by `effect` SD."""
    rng = bounds.generator(f"matched sets, {effect:g}", number)
    subjects = rng.standard_normal((SUBJECTS, WIDTH))
    pull = rng.standard_normal(WIDTH)
    scenes = np.repeat(subjects, SETS, axis=0) + SCENE * rng.standard_normal((SUBJECTS * SETS, WIDTH))
    group_of = np.tile(np.arange(GROUPS), len(scenes))
    vectors = np.repeat(scenes, GROUPS, axis=0) + rng.standard_normal((len(group_of), WIDTH))
    vectors[group_of == 0] += effect * pull
    pool = _build_pool(group_of)
    captions = pd.DataFrame({"subject": pool.subjects, "caption": pool.subjects})
    texts, pictures = (metrics.normalise(torch.from_numpy(each)) for each in (subjects + pull, vectors))
    retrieved = retrieve(pool, captions, texts, pictures, TOP_K)
    observed = compute_statistics(pool, retrieved, pool.group_of[None], [])
    null = permute_statistics(pool, retrieved, build_exchange(pool), [], PERMUTATIONS, number)
    p = [
        metrics.joint_permutation_p(permuted[:, -1], values[0, -1]).min()
        for permuted, values in ((null.shares, observed.shares), (null.ranks, observed.ranks))
    ]
    level = _measure_words(pool, pictures, pull, rng, number).iloc[0]
    shares = compute_share_intervals(pool, retrieved, [], np.full(SUBJECTS, -1))
    ranks = compute_order_intervals(pool, retrieved)
    return World(
        float(p[0]),
        float(p[1]),
        float(level["level_p"]),
        bool(shares.low[-1, 0] <= 1 / GROUPS <= shares.high[-1, 0]),
        bool(ranks.low[-1, 0] <= 0.5 <= ranks.high[-1, 0]),
        bool(level["level_low"] <= 0 <= level["level_high"]),
    )


def _measure_words(
    pool: Pool, pictures: torch.Tensor, pull: np.ndarray, rng: np.random.Generator, number: int
) -> pd.DataFrame:
    """Measure levels of pictures that retrieve words, which follow `pull` by valence; p is the smallest."""
    valence = (np.arange(WORDS) + 0.5) / WORDS
    vectors = np.outer((valence - 0.5) * np.sqrt(12), pull) + rng.standard_normal((WORDS, WIDTH))
    names = [f"w{word:02d}" for word in range(WORDS)]
    frame = pd.DataFrame(
        {"id": names, "word": names, "template": "{}", "sentence": names, "valence": valence}
    )
    protocol = replace(worlds.PROTOCOL, k=RETRIEVED, extremes=EXTREMES, permutations=PERMUTATIONS)
    cfg = RunConfig(protocol=protocol, seed=number)
    rows, _ = carry_over.measure(
        cfg,
        pool,
        build_exchange(pool),
        pictures,
        Table("words", frame, WORDS),
        metrics.normalise(torch.from_numpy(vectors)),
    )
    return rows.assign(level_p=rows["level_p"].min())


def _build_pool(group_of: np.ndarray) -> Pool:
    set_of = np.arange(len(group_of)) // GROUPS
    ids = np.array([f"p{number:03d}" for number in range(len(group_of))])
    names = [f"s{number:02d}" for number in range(set_of.max() + 1)]
    return Pool(
        rows=np.arange(len(ids)),
        ids=ids,
        groups=[f"g{number}" for number in range(GROUPS)],
        group_of=group_of,
        set_names=names,
        set_of=set_of,
        subjects=[f"subject {number}" for number in range(SUBJECTS)],
        subject_of=set_of // SETS,
        persons=ids,
        units=np.array(names)[set_of],
        notes=(),
    )


def tabulate(measured: Sequence[tuple[float, Sequence[World]]], few: bool) -> pd.DataFrame:
    """Summarise the shares of worlds with p at most 5%, and of intervals that hold the truth, by effect."""
    rows = []
    for effect, analysed in measured:
        count = len(analysed)
        for name in ("share", "rank", "level"):
            rejected = float(np.mean([getattr(world, f"{name}_p") <= bounds.ALPHA for world in analysed]))
            low, high = bounds.of_false_positive_rate(count) if not effect else (0.0, 1.0)
            if effect == STRONG:
                low = bounds.limits(MIN_POWER, 1, count, few)[0]
            row = {"test": f"p of {name}", "effect": effect, "worlds": count, "low": low, "high": high}
            rows.append(row | {"share": rejected})
            if not effect:
                low, high = bounds.limits(*COVERAGE, count, few)
                covered = float(np.mean([getattr(world, f"{name}_covers") for world in analysed]))
                row = {"test": f"interval of {name}", "effect": effect, "worlds": count}
                rows.append(row | {"low": low, "high": high, "share": covered})
    table = pd.DataFrame(rows)
    return table.assign(holds=table["share"].between(table["low"], table["high"]))
