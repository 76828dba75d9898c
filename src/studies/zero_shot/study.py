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
from src.stimuli.clusters import assign_clusters, merge_linked
from src.studies.protocol import AnalysisTables, Study, StudyResult, Tables, Vectors
from src.studies.shared.exchange_units import build_exchange
from src.studies.shared.jackknife_table import TABLE, Block, build_jackknife_table, compute_means
from src.studies.shared.resampling import draw_weights
from src.studies.zero_shot.config import ZeroShotConfig

BLOCK_SIZE = 256  # number of scenes whose similarities are computed at a time
STRATUM = "scenes"
TITLE = "accuracy (chance)"
LOGGED_METRICS = ("accuracy", "chance")
# Column of the report's explorer -> column of the analyses.
EXPLORER_COLUMNS = {"level": "accuracy", "level_low": "ci_low", "level_high": "ci_high", "n": "n"}


def check(cfg: RunConfig, tables: Tables) -> None:
    """Check that the targets are scenes and the corpus is words.

    Raises:
        InputError: they are not, or the tolerance is out of range.
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
    """Compute the zero-shot accuracy: the share of nearest words that match their scenes.

    `vectors` has unit vectors of the scenes, [N, D] or [N, Q, D], and of the sentences, [M, D].

    Returns:
        Analyses, a single row: `n` (scenes), `accuracy`, `chance` (probability that a random word matches),
        `ci_low` and `ci_high` (95% interval over clusters of scenes), and `placebo_q95` and `p_placebo`, with
        ratings exchanged between words. Tables: `targets`, one row per scene (`extrinsic`: share of templates
        in which its nearest word matches), `draws`, and `jackknife`.

    Raises:
        InputError: see `check`.
    """
    check(cfg, tables)
    exp, protocol, seed = cfg.exp, cfg.protocol, cfg.seed
    assert isinstance(exp, ZeroShotConfig)
    frame, corpus, target_vectors = tables[exp.targets].frame, tables[exp.corpus], vectors[exp.targets]
    if protocol.pooling == "mean":
        target_vectors = pool_vectors(target_vectors)
    exchange = build_exchange(corpus, seed)
    nearest_rows = _find_nearest_sentences(target_vectors, vectors[exp.corpus], corpus)
    nearest_words = exchange.unit_of_row[nearest_rows]
    scene_ranks = _rank_valence(frame["valence"].to_numpy())
    word_ranks = _rank_valence(corpus.frame["valence"].to_numpy()[exchange.grid[:, 0]])
    matches = np.abs(scene_ranks[:, None] - word_ranks[nearest_words]) <= exp.tolerance
    accuracies = matches.mean(axis=1)
    permutations = exchange.draw_permutations(protocol.placebo)
    permuted = (word_ranks[permutation][nearest_words] for permutation in permutations)
    placebo = np.array([(np.abs(scene_ranks[:, None] - ranks) <= exp.tolerance).mean() for ranks in permuted])
    scene_clusters = assign_clusters(tables[exp.targets])
    names = pd.DataFrame({"name": merge_linked(scene_clusters)})
    weights = draw_weights(names, protocol.bootstrap, seed)
    bootstrap = weights @ accuracies / weights.sum(axis=1)
    low, high = interval(bootstrap)
    row = {
        "n": len(accuracies),
        "accuracy": accuracies.mean(),
        "chance": (np.abs(scene_ranks[:, None] - word_ranks[None]) <= exp.tolerance).mean(),
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
    units = pd.concat([frame[["id"]], scene_clusters], axis=1)
    everything = np.ones(len(frame), dtype=bool)
    block = Block(
        units, [("accuracy", STRATUM, float(row["chance"]))], compute_means(accuracies, [everything])
    )
    further = {"targets": pd.DataFrame(scenes), "draws": pd.concat(draws, ignore_index=True)}
    further[TABLE] = build_jackknife_table([block])
    return AnalysisTables(pd.DataFrame([row]), further)


def _find_nearest_sentences(targets: Tensor, sentences: Tensor, corpus: Table) -> np.ndarray:
    """Return the row of the sentence nearest to each target, per template, [N, templates].

    Ties take the first sentence.
    """
    templates = corpus.frame["template"].to_numpy()
    rows_by_template = [np.flatnonzero(templates == template) for template in sorted(set(templates))]
    nearest_rows = np.empty((len(targets), len(rows_by_template)), dtype=np.int64)
    for start in range(0, len(targets), BLOCK_SIZE):
        similarities = similarity(targets[start : start + BLOCK_SIZE], sentences)
        for column, rows in enumerate(rows_by_template):
            positions = torch.argmax(similarities[:, rows], dim=1).numpy()
            nearest_rows[start : start + BLOCK_SIZE, column] = rows[positions]
    return nearest_rows


def _rank_valence(valence: np.ndarray) -> np.ndarray:
    # Ranks are uniform on (0, 1); raw ratings are dense wherever a lexicon or picture set has many items.
    return np.asarray((rankdata(valence) - 0.5) / len(valence))


def select_metrics(result: StudyResult) -> dict[str, float]:
    """Select the numbers that become MLflow metrics: accuracy and chance."""
    return {name: float(result.analyses[name].mean()) for name in LOGGED_METRICS}


def build_section(findings: Findings, folder: ReportFolder) -> Section:  # noqa: ARG001
    """Return the rows for the page's summary and explorer; the section on debiasing shows them."""
    analyses = findings.of(STUDY.name)
    group = pd.Series("", analyses.index)
    rows = build_rows(analyses, study=STUDY.name, group=group, measure="accuracy", numbers=EXPLORER_COLUMNS)
    return Section(rows=first_specification(analyses), explorer_rows=rows)


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Build a table of accuracies: a row per experiment and specification, and a column per model."""
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
    metrics=select_metrics,
    report=StudyReport(section=build_section, terminal=build_terminal_tables),
)
