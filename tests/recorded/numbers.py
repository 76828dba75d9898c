"""Compute recorded outputs of pure functions on arrays: metrics and projections."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from src import debias, metrics
from src.stimuli import Table
from tests.debias.test_projections import compose_method, make_prompts


def unit_vectors(seed: int, *shape: int) -> np.ndarray:
    """Draw unit vectors [..., width], float64."""
    vectors = np.random.default_rng(seed).normal(size=shape)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def metric_outputs(_: Path) -> dict[str, Any]:
    """Compute the public metrics, most of them in all of their variants."""
    x, y = (torch.from_numpy(unit_vectors(seed, count, 6)) for seed, count in ((0, 5), (1, 24)))
    multiple = torch.from_numpy(unit_vectors(2, 5, 3, 6))
    similarities = metrics.similarity(x, y)
    a, b = np.arange(8), np.arange(10, 18)
    to_a, to_b = (unit_vectors(seed, count, 6) @ unit_vectors(4, 9, 6).T for seed, count in ((3, 7), (5, 8)))
    members = np.stack([np.arange(15) % step == 0 for step in (2, 3, 4)])
    weights_a = np.random.default_rng(6).multinomial(7, np.full(7, 1 / 7), 4)
    weights_b = np.random.default_rng(7).multinomial(8, np.full(8, 1 / 8), 4)
    scores, outcomes = np.array([1.0, 2, 2, 4, 9, 3]), np.array([0.5, 0.1, 0.1, 0.9, 0.7, 0.2])
    weights = np.random.default_rng(8).multinomial(6, np.full(6, 1 / 6), 5)
    shares = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    base = np.array([0.4, 0.4, 0.2])
    groups = np.eye(3, dtype=bool)[np.arange(9) % 3]
    tables = metrics.choice_tables(
        np.array([1, 1, -1, -1, 1, -1, 1, -1]),
        np.array([1, -1, 0, 1, 1, -1, 0, -1]),
        np.array([True, True, True, True, True, True, False, True]),
        np.array([0, 0, 0, 1, 1, 1, 2, 2]),
    )
    correlation = metrics.spearman(scores, outcomes)
    eat = metrics.eat(*(torch.from_numpy(unit_vectors(seed, 4, 6)) for seed in range(4)), seed=0)
    sampled = metrics.compare_associations(*np.split(similarities.numpy().ravel(), [50]), seed=1)
    nearest = metrics.top_k(similarities, 6)
    totals = [
        metrics.iat_totals(metrics.iat_scores(side[:, :4], side[:, 4:8]), weights, len(side))
        for side, weights in ((to_a, weights_a), (to_b, weights_b))
    ]
    z, cells = metrics.standardise(to_a), np.stack([np.arange(9) % 3, np.arange(9) // 3])
    welch = metrics.welch_tests(z, z**2, cells, [np.eye(3, dtype=bool)])[0]
    # Levels of 63 analyses in the cells that are not missing.
    filled = np.arange(63) % 11 > 0
    levels = {"exp": np.arange(63) % 3, "model": np.arange(63) // 9, "group": np.arange(63) // 3 % 3}
    components = metrics.variance_components(
        to_a.ravel()[filled], {name: level[filled] for name, level in levels.items()}
    )
    return {
        "similarity": similarities,
        "similarity_of_several": metrics.similarity(multiple, y),
        "cosines": metrics.cosines(x, y),
        "normalise": metrics.normalise(x * 3),
        "sc_eat": [metrics.sc_eat(similarities[:, a], similarities[:, b], ddof) for ddof in (0, 1)],
        "sc_eats": [metrics.sc_eats(similarities.double(), [a, a + 4], b, ddof) for ddof in (0, 1)],
        "sc_eats_qr": metrics.sc_eats_qr(x, metrics.factorise(y, [a, a + 4], [b, b])),
        "eat": [eat.d, eat.p],
        "compare_associations": [sampled.d, sampled.p, sampled.null_low, sampled.null_high],
        "point_biserial": metrics.point_biserial(to_a[:, 0], groups[:7, 0], ~np.eye(7, dtype=bool)),
        "top_k": nearest,
        "retrieve": metrics.retrieve(similarities, 6).sort(dim=1).values,
        "retrieve_screened": metrics.retrieve_screened(x, y, y.float(), 6).sort(dim=1).values,
        "mean_outcome": metrics.mean_outcome(nearest, torch.linspace(0, 1, 24).double()[:, None]),
        "spearman": [correlation.rho, correlation.p, correlation.n],
        "spearman_columns": metrics.spearman_columns(to_a[:, :2], to_a[:, 2:4]),
        "weighted_spearman": metrics.weighted_spearman(scores, outcomes, weights),
        "auc": metrics.auc(scores, 5 * outcomes),
        "interval": metrics.interval(np.arange(101) ** 2 / 7),
        "permutation_p": metrics.permutation_p(np.arange(40) / 40, 0.8),
        "benjamini_hochberg": metrics.benjamini_hochberg(pd.Series([0.01, 0.2, np.nan, 0.03])).to_numpy(),
        "pool_vectors": metrics.pool_vectors(torch.stack([x, x.flip(0)], dim=1)),
        "cles": [metrics.cles(to_a, to_b, ties) for ties in ("half", "strict")],
        "cles_mcgraw_wong": metrics.cles_mcgraw_wong(to_a, to_b),
        "cohens_d": metrics.cohens_d(to_a, to_b),
        "delta_gap": [metrics.delta_gap(to_a, to_b, signed) for signed in (False, True)],
        "z_score": metrics.z_score(to_a, to_b),
        "upper_tail": metrics.upper_tail(0.7),
        "partition_cles": metrics.partition_cles(np.concatenate([to_a, to_b]), members),
        "partition_gaps": metrics.partition_gaps(np.concatenate([to_a, to_b]), members),
        "resampled_cles": metrics.resampled_cles(to_a, to_b, weights_a, weights_b),
        "iat": [metrics.iat(*totals, definition) for definition in ("total", "by_pair")],
        "normalised_entropy": metrics.normalised_entropy(shares),
        "kl": metrics.kl(shares, base),
        "max_skew": metrics.max_skew(shares, base, 10),
        "skew": metrics.skew(shares, base, 10),
        "bias_at_k": metrics.bias_at_k(np.array([3.0, 0, 1]), np.array([1.0, 0, 4])),
        "set_ranks": metrics.set_ranks(to_a.round(1), np.arange(9) % 4),
        "first_shares": metrics.first_shares(to_a.round(1), np.arange(9) % 4),
        "centre": metrics.centre(to_a, np.arange(9) % 4),
        "set_means": [
            metrics.set_means(to_a, np.arange(9) % 2, np.arange(9) // 3, 2, against_others=against_others)
            for against_others in (False, True)
        ],
        "permuted_set_means": metrics.permuted_set_means(
            to_a, np.array([[0, 1, 1, 0, 1, 0, 0, 0, 1], [1, 0, 1, 0, 0, 1, 1, 0, 0]]), np.arange(9) // 3, 2
        ),
        "joint_permutation_p": metrics.joint_permutation_p(to_b[:, :4], to_a[0, :4]),
        "ndkl": metrics.ndkl(groups, base),
        "association_factors": metrics.association_factors(groups),
        "standardise": metrics.standardise(to_a),
        "group_association": metrics.group_association(to_a, groups),
        "welch_tests": [welch.difference, welch.error, welch.df, welch.score(), welch.difference_at(2.0)],
        "permuted_spearman": [
            metrics.permuted_spearman(side, side[::-1] ** 2, 0) for side in (scores, to_a[:, :2].ravel())
        ],
        "permuted_eta_squared": metrics.permuted_eta_squared(scores, [*"aabbcc"], 0),
        "fit_coefficients": metrics.fit_coefficients(to_a[:, :2], to_a[:, 2], ~np.eye(7, dtype=bool)),
        "average_orders": metrics.average_orders(
            to_a[:, :3], np.array([0, 1, 1]), to_a[:, 3:5], ~np.eye(7, dtype=bool)
        ),
        "variance_components": [*components.variances.values(), *components.shares().values()],
        "generalisability": [components.generalisability("model", fixed) for fixed in ((), ("exp", "group"))],
        "models_needed": metrics.models_needed(0.48),
        "detectable": [metrics.detectable(1.0, df) for df in (9.0, np.inf)],
        "spearman_brown": metrics.spearman_brown([-0.5, 0.2, 0.9]),
        "noise_ceiling": metrics.noise_ceiling([0.5, 0.5], [0.72, -0.1]),
        "disattenuate": metrics.disattenuate([0.3, -0.2], [0.5, 0.6], [0.72, 0.4]),
        "choice_tables": tables,
        "choice_rates": metrics.choice_rates(tables.sum(0)),
        "rate_gaps": metrics.rate_gaps(tables.sum(0)),
        "stuart_tau_c": metrics.stuart_tau_c(tables.sum(0)),
        "kendall_tau_b": metrics.kendall_tau_b(np.array([1, 1, -1, -1, 1]), np.array([1, -1, 0, 1, 1])),
        "resampled_tables": metrics.resampled_tables(tables, np.array([[1, 1, 1], [3, 0, 0]])),
    }


def debias_outputs(_: Path) -> dict[str, Any]:
    """Project vectors off the directions of prompts, without and with calibration."""
    outputs = {}
    for name, pairs in (("orth_proj", 0), ("orth_proj_calibrated", 4)):
        prompts = make_prompts(3, pairs)
        sentences = torch.from_numpy(unit_vectors(0, len(prompts.table.frame), 6))
        projection = debias.compute_projection(compose_method(name), prompts, sentences)
        vectors = torch.from_numpy(unit_vectors(1, 3, 6))
        table = Table("words", prompts.table.frame.head(3), 3)
        _, projected, _ = debias.project(table, vectors, projection)
        outputs |= {f"{name}_matrix": projection, f"{name}_vectors": projected}
        lengths = 1 + torch.arange(len(sentences))[:, None]
        longer = debias.compute_projection(compose_method(name), prompts, sentences * lengths)
        outputs[f"{name}_matrix_of_any_length"] = longer
    return outputs
