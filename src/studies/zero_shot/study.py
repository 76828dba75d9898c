"""Measure how often the word nearest to a scene matches it; debiasing may reduce this accuracy.

A word matches a scene of similar valence; groups of people play no part. In the built-in world these are
the words that a scene's captions were drawn from; published scenes and words are matched by their ratings.
"""

import numpy as np
import pandas as pd
import torch
from rich.console import RenderableType
from scipy.stats import rankdata
from torch import Tensor

from src.configs import RunConfig
from src.errors import InputError
from src.metrics import interval, permutation_p, pool_vectors, similarity
from src.report.explorer import build_rows
from src.report.findings import Findings, first_specification
from src.report.folder import ReportFolder
from src.report.study import Section, StudyReport
from src.report.tables import build_mean_rows, build_table, lay_out
from src.stimuli import CARRIES, IMAGE_ROLES, TEXT_ROLES, Table
from src.studies.protocol import AnalysisTables, Study, StudyResult, Tables, Vectors
from src.studies.shared import resampling
from src.studies.shared.exchange_units import exchange_of
from src.studies.zero_shot.config import ZeroShotConfig

BLOCK = 256  # number of targets whose similarities are in memory at a time
STRATUM = "scenes"
TITLE = "accuracy (chance)"
LOGGED_METRICS = ("accuracy", "chance")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "accuracy", "level_low": "ci_low", "level_high": "ci_high", "n": "n"}


def check(cfg: RunConfig, tables: Tables) -> None:
    """Check that the roles are a pair of images and texts that carry valence.

    Raises:
        InputError: the roles are of other kinds, or the tolerance is out of range.
    """
    exp = cfg.exp
    assert isinstance(exp, ZeroShotConfig)
    targets, corpus = tables[exp.targets].role, tables[exp.corpus].role
    for name, role, roles in (("targets", targets, IMAGE_ROLES), ("corpus", corpus, TEXT_ROLES)):
        if role not in roles or CARRIES[role] != "valence":
            raise InputError(
                f"exp.{name}={role}: zero-shot accuracy needs scenes and words. Use exp.targets=scenes "
                "exp.corpus=words."
            )
    if not 0 < exp.tolerance < 1:
        raise InputError(f"exp.tolerance={exp.tolerance:g}: expected a value above 0 and below 1.")


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Compute the share of scenes whose nearest word, template by template, matches them.

    Vectors of the scenes are [N, D] or [N, Q, D], those of the sentences [M, D].

    Returns:
        Analyses, one row: `n`, `accuracy`, `chance` (a word drawn at random matches the scene), the interval
        `ci_low, ci_high`, `placebo_q95`, `p_placebo` (ratings exchanged over the words). Tables: `targets`
        (`extrinsic`: the share of templates in which the nearest word matches the scene) and `draws`.

    Raises:
        InputError: see `check`.
    """
    check(cfg, tables)
    exp, protocol, seed = cfg.exp, cfg.protocol, cfg.seed
    assert isinstance(exp, ZeroShotConfig)
    frame, corpus, target_vectors = tables[exp.targets].frame, tables[exp.corpus], vectors[exp.targets]
    if protocol.pooling == "mean":
        target_vectors = pool_vectors(target_vectors)
    exchange = exchange_of(corpus, seed)
    nearest = exchange.unit_of_row[_nearest(target_vectors, vectors[exp.corpus], corpus)]
    scene_ranks = _ranks(frame["valence"].to_numpy())
    word_ranks = _ranks(corpus.frame["valence"].to_numpy()[exchange.grid[:, 0]])
    matches = np.abs(scene_ranks[:, None] - word_ranks[nearest]) <= exp.tolerance
    accuracies = matches.mean(axis=1)
    permuted = (word_ranks[permutation][nearest] for permutation in exchange.permutations(protocol.placebo))
    placebo = np.array([(np.abs(scene_ranks[:, None] - ranks) <= exp.tolerance).mean() for ranks in permuted])
    weights = resampling.weights(frame.assign(name=frame["id"]), protocol.bootstrap, seed)
    bootstrap = weights @ accuracies / np.maximum(weights.sum(axis=1), 1)  # a sample of morphs may weigh 0
    low, high = interval(bootstrap)
    row = {
        "n": len(accuracies),
        "accuracy": accuracies.mean(),
        "chance": (np.abs(scene_ranks[:, None] - word_ranks[None]) <= exp.tolerance).mean(),  # of all words
        "ci_low": low,
        "ci_high": high,
        "placebo_q95": np.quantile(placebo, 0.95) if len(placebo) else np.nan,
        "p_placebo": permutation_p(placebo, accuracies.mean()) if len(placebo) else np.nan,
    }
    scenes = {
        "id": frame["id"].to_numpy(),
        "group": pd.array([None] * len(frame), dtype="string"),
        "stratum": STRATUM,
        "intrinsic": np.nan,
        "extrinsic": accuracies,
    }
    draws = [
        pd.DataFrame({"stratum": STRATUM, "kind": kind, "draw": np.arange(len(values)), "accuracy": values})
        for kind, values in (("bootstrap", bootstrap), ("placebo", placebo))
    ]
    further = {"targets": pd.DataFrame(scenes), "draws": pd.concat(draws, ignore_index=True)}
    return AnalysisTables(pd.DataFrame([row]), further)


def _nearest(targets: Tensor, corpus: Tensor, table: Table) -> np.ndarray:
    """Return the row of the nearest sentence of each template, [N, templates]; the first of ties."""
    templates = table.frame["template"].to_numpy()
    rows = [np.flatnonzero(templates == template) for template in sorted(set(templates))]
    nearest = np.empty((len(targets), len(rows)), dtype=np.int64)
    for start in range(0, len(targets), BLOCK):
        similarities = similarity(targets[start : start + BLOCK], corpus)
        for column, template_rows in enumerate(rows):
            nearest_rows = torch.argmax(similarities[:, template_rows], dim=1).numpy()
            nearest[start : start + BLOCK, column] = template_rows[nearest_rows]
    return nearest


def _ranks(valence: np.ndarray) -> np.ndarray:
    # Ranks are uniform over 0 to 1, whereas ratings cluster where a lexicon or picture set has many.
    return np.asarray((rankdata(valence) - 0.5) / len(valence))


def metrics(result: StudyResult) -> dict[str, float]:
    """Return accuracy and chance."""
    return {name: float(result.analyses[name].mean()) for name in LOGGED_METRICS}


def section(findings: Findings, folder: ReportFolder) -> Section:  # noqa: ARG001
    """Return the rows for the top of the page and its explorer; the section on debiasing presents them."""
    analyses = findings.of(STUDY.name)
    group = pd.Series("", analyses.index)
    rows = build_rows(analyses, study=STUDY.name, group=group, measure="accuracy", numbers=EXPLORED)
    return Section(rows=first_specification(analyses), explorer_rows=rows)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of accuracies."""
    rows = [
        build_mean_rows(exp_rows, str(name), "accuracy", "chance", "{:.3f} ({:.3f})")
        for name, exp_rows in analyses.groupby("exp", sort=False)
    ]
    return [build_table(lay_out(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="zero_shot",
    roles=lambda exp: (exp.targets, exp.corpus),
    check=check,
    run=run,
    protocol_fields=lambda *_: frozenset({"placebo", "bootstrap", "pooling"}),
    metrics=metrics,
    report=StudyReport(section=section, terminal=terminal),
)
