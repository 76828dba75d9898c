"""Measure the level of carry-over within sets: pictures retrieve words (docs/methods.md, section 8.4)."""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from scipy.stats import rankdata
from torch import Tensor

from src import metrics
from src.configs import ProtocolConfig, RunConfig
from src.errors import NotApplicable
from src.metrics.jackknife import compute_rho_interval, fisher_transform, replicate
from src.stimuli import Table, clusters
from src.studies.matched.captions import ALL_GROUPS
from src.studies.matched.exchange import SetExchange
from src.studies.matched.intervals import average_sets, compute_intervals
from src.studies.matched.pool import Pool
from src.studies.shared.cluster_jackknife import build_subsamples

# Number of pictures whose similarities with all words are computed at a time.
BLOCK_SIZE = 256
# Maximum number of permuted values in memory.
MAX_PERMUTED = 10**7
# Decimals of scores, and of their distances from the mean of their set, which sum the roundings of scores.
DECIMALS, CENTRED_DECIMALS = 12, 10
MIN_RHO = 3  # minimum number of sets for a rho
COLUMNS = (
    *(
        "group",
        "n",
        "sets",
        "level",
        "level_low",
        "level_high",
        "null_low",
        "null_high",
        "level_p",
        "level_q",
    ),
    *("measured", "measured_low", "measured_high", "slope", "slope_low", "slope_high"),
    *("rho", "ci_low", "ci_high", "rho_p", "reason"),
)


@dataclass(frozen=True)
class Corpus:
    """Words that pictures retrieve.

    Attributes:
        rows: for each template, the rows of the table from which words are retrieved.
        high: for each template, the rows of A, the words of highest valence.
        low: for each template, the rows of B, the words of lowest valence.
    """

    rows: list[np.ndarray]
    high: list[np.ndarray]
    low: list[np.ndarray]


@dataclass(frozen=True)
class Scores:
    """Scores of each picture, [N] each: SC-EAT, difference of mean cosines, and retrieved valence."""

    intrinsic: np.ndarray
    measured: np.ndarray
    extrinsic: np.ndarray


def check_words(words: Table, protocol: ProtocolConfig) -> Corpus:
    """Check that there are enough words, and return them.

    Raises:
        NotApplicable: there are too few words for the extremes, or to retrieve `protocol.k` of.
    """
    frame, count = words.frame, protocol.extremes
    items = frame.drop_duplicates("word").sort_values(["valence", "word"], kind="stable")["word"]
    if len(items) < 2 * count:
        raise NotApplicable(
            f"words: {len(items)}; the {count} of highest and of lowest valence need {2 * count}. Set "
            f"protocol.extremes={len(items) // 2} or less."
        )
    extremes = items.tail(count), items.head(count)
    is_retrieved = np.ones(len(frame), dtype=bool)
    if protocol.attributes == "held_out":
        names = clusters.merge_linked(clusters.assign_clusters(words))
        is_extreme = frame["word"].isin(pd.concat(extremes))
        is_retrieved = ~names.isin(names[is_extreme]).to_numpy()
    templates = [frame["template"] == template for template in sorted(frame["template"].unique())]
    rows = [np.flatnonzero(is_in & is_retrieved) for is_in in templates]
    if protocol.k >= (available := min(map(len, rows))):
        raise NotApplicable(
            f"protocol.k={protocol.k} of {available} words: every picture would retrieve all. Set it to "
            f"{max(1, available - 1)} or less."
        )
    high, low = (
        [np.flatnonzero(is_in & frame["word"].isin(each)) for is_in in templates] for each in extremes
    )
    return Corpus(rows, high, low)


def score_pictures(
    faces: Tensor, vectors: Tensor, words: Table, corpus: Corpus, protocol: ProtocolConfig
) -> Scores:
    """Score pictures [N, D] or [N, Q, D] by their cosines with words [M, D]; means over templates."""
    valence = words.frame["valence"].to_numpy(dtype=float)
    scores = np.empty((3, len(faces), len(corpus.rows)))
    for template, (rows, high, low) in enumerate(zip(corpus.rows, corpus.high, corpus.low, strict=True)):
        for start in range(0, len(faces), BLOCK_SIZE):
            block = slice(start, start + BLOCK_SIZE)
            to_high, to_low, cosines = (
                metrics.similarity(faces[block], vectors[each.tolist()]) for each in (high, low, rows)
            )
            nearest = metrics.retrieve(cosines, protocol.k).numpy()
            scores[0, block, template] = metrics.sc_eat(to_high, to_low, protocol.ddof)
            scores[1, block, template] = to_high.mean(dim=1) - to_low.mean(dim=1)
            scores[2, block, template] = valence[rows][nearest].mean(axis=1)
    # As in propagation, rounding leaves no differences that are rounding errors.
    return Scores(*scores.mean(axis=2).round(DECIMALS))


def measure(
    cfg: RunConfig, pool: Pool, exchange: SetExchange, faces: Tensor, words: Table, vectors: Tensor
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Compute the level and rho of each group within sets; return rows of analyses.csv and further tables."""
    scores = score_pictures(faces, vectors, words, check_words(words, cfg.protocol), cfg.protocol)
    groups = [*pool.groups, ALL_GROUPS]
    n_sets = [len(np.unique(pool.set_of[pool.group_of == group])) for group in range(len(pool.groups))]
    sizes = np.bincount(pool.group_of, minlength=len(pool.groups))
    rows = pd.DataFrame(
        {"group": groups, "n": [*sizes, len(pool.ids)], "sets": [*n_sets, len(pool.set_names)]}
    )
    levels, level_reason = _compute_levels(pool, scores)
    rhos, rho_reason = _correlate(pool, scores)
    rows = rows.join(levels).join(rhos)
    reasons = {"level": level_reason, "rho": rho_reason}
    if cfg.protocol.permutations:
        reasons["p"] = exchange.explain_missing_p(np.ones(len(pool.ids), dtype=bool))
        rows = rows.join(_permute(pool, exchange, scores, rows, cfg))
        if reasons["p"]:
            rows[["level_p", "level_q", "rho_p"]] = np.nan
    rows["reason"] = "; ".join(f"{name}: {text}" for name, text in reasons.items() if text)
    targets = {"id": pool.ids, "group": np.array(pool.groups)[pool.group_of]}
    targets |= {"set": np.array(pool.set_names)[pool.set_of], "stratum": ALL_GROUPS, **vars(scores)}
    return rows.reindex(columns=[*COLUMNS]), {"targets": pd.DataFrame(targets)}


def _compute_levels(pool: Pool, scores: Scores) -> tuple[pd.DataFrame, str]:
    """Compute `level`, `measured` and `slope` with their intervals, by group; the last row has the slope."""
    g = len(pool.groups)
    values = np.stack([scores.extrinsic, scores.measured])
    y, s = metrics.centre(values, pool.set_of)
    contrasts = np.hstack([*metrics.set_means(values, pool.group_of, pool.set_of, g, against_others=True)])
    products = np.stack([np.bincount(pool.set_of, each) for each in (s * y, s * s)], axis=1)

    def compute(masks: np.ndarray) -> np.ndarray:
        sums = masks.astype(float) @ products
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = sums[:, 0] / np.where(sums[:, 1] > 1e-24, sums[:, 1], np.nan)
        return np.column_stack([average_sets(contrasts, masks), slope])

    estimates, low, high, reason = compute_intervals(_units_of_sets(pool), compute)
    columns = {}
    for end, results in (("", estimates), ("_low", low), ("_high", high)):
        for name, group_columns in (("level", slice(0, g)), ("measured", slice(g, 2 * g))):
            columns[name + end] = np.append(results[group_columns], np.nan)
        columns[f"slope{end}"] = np.append(np.full(g, np.nan), results[-1])
    return pd.DataFrame(columns), reason


def _correlate(pool: Pool, scores: Scores) -> tuple[pd.DataFrame, str]:
    """Compute rho and its interval of each group over sets, and of all pictures."""
    g, set_units = len(pool.groups), _units_of_sets(pool)
    es, y = _centre(pool, scores.intrinsic), _centre(pool, scores.extrinsic)
    es_of, y_of = metrics.set_means(np.stack([es, y]), pool.group_of, pool.set_of, g)
    pairs = [(es_of[:, group], y_of[:, group], set_units) for group in range(g)] + [(es, y, pool.units)]
    rows, reasons = [], []
    for x, outcomes, units in pairs:
        rho, low, high = (
            metrics.weighted_spearman(x, outcomes, np.ones((1, len(x)), dtype=int))[0],
            np.nan,
            np.nan,
        )
        is_defined = ~np.isnan(x) & ~np.isnan(outcomes)
        subsamples = build_subsamples(pd.DataFrame({clusters.CLUSTER: units[is_defined]}))
        if subsamples.reason or np.isnan(rho):
            reasons.append(subsamples.reason.replace("clusters", "sets") or "constant scores")
        else:
            replicates = replicate(subsamples, partial(_transform_rhos, x[is_defined], outcomes[is_defined]))
            low, high = compute_rho_interval(float(rho), float(replicates.variance()[0]), subsamples.df)
        rows.append({"rho": rho, "ci_low": low, "ci_high": high})
    return pd.DataFrame(rows), "; ".join(f"no interval: {text}" for text in dict.fromkeys(reasons))


def _transform_rhos(x: np.ndarray, y: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Compute Fisher's transformation of rho of the remaining units of each mask [P, n]: [P, 1]."""
    return fisher_transform(metrics.weighted_spearman(x, y, masks.astype(int)))[:, None]


def _permute(
    pool: Pool, exchange: SetExchange, scores: Scores, observed: pd.DataFrame, cfg: RunConfig
) -> pd.DataFrame:
    """Compute `level_p`, `level_q`, `rho_p`, `null_low` and `null_high` by permutations within sets."""
    g = len(pool.groups)
    es, y = _centre(pool, scores.intrinsic), _centre(pool, scores.extrinsic)
    es_of = metrics.set_means(es[None], pool.group_of, pool.set_of, g)[0]
    levels, rhos = [], []
    step = max(1, MAX_PERMUTED // (len(y) * g))
    for positions in exchange.draw(cfg.protocol.permutations, cfg.seed, step):
        groups = pool.group_of[positions]
        levels.append(
            metrics.permuted_set_means(scores.extrinsic[None], groups, pool.set_of, g, against_others=True)[
                :, 0
            ]
        )
        permuted = metrics.set_means(y[positions], pool.group_of, pool.set_of, g)
        columns = [_spearman_rows(es_of[:, group], permuted[..., group]) for group in range(g)]
        rhos.append(np.column_stack([*columns, _spearman_rows(es, y[positions])]))
    null, null_rho = np.concatenate(levels), np.concatenate(rhos)
    p = metrics.joint_permutation_p(null, observed["level"].to_numpy()[:g])
    low, high = np.percentile(null, (2.5, 97.5), axis=0)
    tested = {
        "level_p": p,
        "level_q": metrics.benjamini_hochberg(pd.Series(p)),
        "null_low": low,
        "null_high": high,
    }
    frame = pd.DataFrame({name: np.append(values, np.nan) for name, values in tested.items()})
    frame["rho_p"] = [
        metrics.permutation_p(draws, rho) for draws, rho in zip(null_rho.T, observed["rho"], strict=True)
    ]
    return frame


def _spearman_rows(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute rho of x [n] with each row of y [R, n], over units defined in both; NaN if constant."""
    is_defined = ~np.isnan(x) & ~np.isnan(y).any(axis=0)
    if is_defined.sum() < MIN_RHO:
        return np.full(len(y), np.nan)
    ranks = rankdata(x[is_defined])
    y_ranks = rankdata(y[:, is_defined], axis=1)
    ranks, y_ranks = ranks - ranks.mean(), y_ranks - y_ranks.mean(axis=1, keepdims=True)
    scale = np.sqrt((ranks**2).sum() * (y_ranks**2).sum(axis=1))
    return np.asarray(y_ranks @ ranks / np.where(scale > 0, scale, np.nan))


def _centre(pool: Pool, values: np.ndarray) -> np.ndarray:
    # Rounding keeps ties of scores that are equally far from the means of their sets.
    return np.asarray(metrics.centre(values, pool.set_of).round(CENTRED_DECIMALS))


def _units_of_sets(pool: Pool) -> np.ndarray:
    return np.asarray(pd.Series(pool.units).groupby(pool.set_of).first().to_numpy(dtype=str))
