"""Build the columns of captions and groups: observed, null and usefulness (docs/methods.md, section 8)."""

import numpy as np
import pandas as pd

from src import metrics
from src.studies.matched.captions import ALL_CAPTIONS
from src.studies.matched.exchange import SetExchange
from src.studies.matched.pool import Pool
from src.studies.matched.retrieval import Retrieved, Statistics

NULL_PERCENTILES = (2.5, 97.5)
# Permuted statistics that are below the observed one by at most this count as equal.
TOLERANCE = 1e-12
# Columns [W + 1, G], or [W + 1, 1] of captions; the last caption stands for the mean over all.
Columns = dict[str, np.ndarray]


def name_rows(pool: Pool, retrieved: Retrieved) -> Columns:
    """Build the columns of names, of numbers of pictures and sets, and of usefulness."""
    subject_of = retrieved.subject_of
    n_sets = np.array([len(np.unique(pool.set_of[retrieved.right[subject]])) for subject in subject_of])
    k, n_right = retrieved.top.shape[1], np.array([len(retrieved.right[subject]) for subject in subject_of])
    n_retrieved = (pool.subject_of[retrieved.top] == subject_of[:, None]).sum(axis=1)
    usefulness = {
        "recall": n_retrieved / n_right,
        "recall_random": np.full(len(n_right), k / len(pool.ids)),
        "recall_max": np.minimum(1, k / n_right),
    }
    return {
        "subject": np.append(retrieved.captions["subject"].to_numpy(dtype=str), "")[:, None],
        "caption": np.append(retrieved.captions["caption"].to_numpy(dtype=str), ALL_CAPTIONS)[:, None],
        "group": np.array(pool.groups)[None],
        "n": np.bincount(pool.group_of, minlength=len(pool.groups))[None],
        "sets": np.append(n_sets, len(pool.set_names))[:, None],
        "base_share": pool.base[None],
        **{name: np.append(values, values.mean())[:, None] for name, values in usefulness.items()},
    }


def describe_observed(observed: Statistics, base: np.ndarray, k: int) -> Columns:
    """Build the columns of the observed statistics, whose arrays have a first axis of length 1."""
    shares = observed.shares[0]
    skew = metrics.skew(shares, base, k)
    skew[-1] = skew[:-1].mean(axis=0)
    columns = {"share_topk": shares, "skew": skew, "rank": observed.ranks[0]}
    captions = {"bias": observed.bias, "maxskew": observed.max_skew, "ndkl": observed.ndkl}
    return columns | {name: values[0][:, None] for name, values in captions.items()}


def compare_with_null(
    observed: Statistics, null: Statistics, reasons: tuple[list[str], list[str]]
) -> Columns:
    """Build the columns of the null; `reasons` are why the shares and the ranks of captions have no p."""
    share_missing, rank_missing = (np.array([bool(text) for text in texts])[:, None] for texts in reasons)
    columns: Columns = {}
    for prefix, permuted, values, is_missing in (
        ("", null.shares, observed.shares[0], share_missing),
        ("rank_", null.ranks, observed.ranks[0], rank_missing),
    ):
        low, high = np.percentile(permuted, NULL_PERCENTILES, axis=0)
        columns |= {f"{prefix}null_low": low, f"{prefix}null_high": high}
        p = np.where(is_missing, np.nan, metrics.joint_permutation_p(permuted, values))
        q = pd.DataFrame(p[:-1]).apply(metrics.benjamini_hochberg).to_numpy()
        columns |= {f"{prefix}p": p, f"{prefix}q": np.vstack([q, np.full(p.shape[1], np.nan)])}
    for name, permuted, values in (
        ("maxskew", null.max_skew, observed.max_skew[0]),
        ("ndkl", null.ndkl, observed.ndkl[0]),
    ):
        p = (1 + (permuted >= values - TOLERANCE).sum(axis=0)) / (1 + len(permuted))
        columns[f"{name}_q95"] = np.quantile(permuted, 0.95, axis=0)[:, None]
        columns[f"{name}_p"] = np.where(share_missing, np.nan, p[:, None])
    p = metrics.joint_permutation_p(null.bias[..., None], observed.bias[0][:, None])
    columns["bias_p"] = np.where(share_missing, np.nan, p)
    return columns


def explain_missing(pool: Pool, retrieved: Retrieved, exchange: SetExchange) -> tuple[list[str], list[str]]:
    """Explain for each caption, and for all, why shares and why ranks have no p; empty texts otherwise."""

    def explain(pictures: np.ndarray) -> str:
        return exchange.explain_missing_p(np.isin(pool.units, pool.units[pictures]))

    by_subject = [explain(right) for right in retrieved.right]
    overall = exchange.explain_missing_p(np.ones(len(pool.ids), dtype=bool))
    shares = [explain(top) for top in retrieved.top]
    return [*shares, overall], [*(by_subject[subject] for subject in retrieved.subject_of), overall]
