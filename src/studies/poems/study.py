"""Generate poems about faces by multimodal models, and compare groups (docs/methods.md, section 6.10)."""

import logging
import time
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from rich.console import RenderableType

from src import configs, stimuli
from src.errors import InputError, NotApplicable
from src.generators.language_models import Multimodal
from src.metrics import benjamini_hochberg, cles, interval, partition_cles, permutation_p, resampled_cles
from src.report.findings import SPECIFICATION
from src.report.study import StudyReport
from src.report.tables import build_table, lay_out
from src.stimuli import Table
from src.studies.generator_protocol import Generator, GeneratorResult, GeneratorStudy, Inputs
from src.studies.poems import poem_generation
from src.studies.poems.config import PoemConfig
from src.studies.poems.section import build_section
from src.studies.shared.group_comparison import (
    describe_missing,
    draw_group_weights,
    draw_pair_partitions,
    sample_rows,
)

# Columns of analyses.csv, to which `run` adds `most`, the task's limit of new tokens. `shared`: treatment of
# token ids that both pools share.
COLUMNS = (
    *("pool", "shared", "group_a", "group_b", "n_a", "n_b", "pool_size", "cles", "cles_gap"),
    *("cles_low", "cles_high", "p", "q", "tokens_a", "tokens_b"),
)
TITLE = "Poems about faces: mean |CLES − ½| over pairs of groups; the pair with the largest, 95% interval"

log = logging.getLogger(__name__)


def load_inputs(cfg: configs.GenerateConfig, task: str) -> Inputs:
    """Load the faces, and sample those to write poems about.

    Raises:
        InputError: a prompt or the words are incomplete, the dataset has no faces, or a group has only one.
        NotApplicable: the model is not multimodal, or the dataset has a single group.
    """
    assert isinstance(cfg.task, PoemConfig)
    poem_generation.check_task(cfg.task)
    if not isinstance(cfg.llm, configs.MultimodalConfig):
        raise NotApplicable(f"task={task}: needs a multimodal model. Use llm=vlm_hf llm.id=OWNER/NAME.")
    if cfg.faces is None:
        raise InputError(f"task={task}: the dataset has no faces. Use dataset=demo, or another with faces.")
    faces = stimuli.load_table("faces", cfg.faces, cfg.store)
    log.info("%s", faces.describe())
    rows = sample_faces(faces, cfg.task.faces, cfg.seed)
    # Corrected persons, sets or clusters change p and intervals, but not the hash of the faces.
    of_people = {"faces.people": faces.people_hash, "faces.clusters": faces.cluster_hash}
    return Inputs(
        rows=rows,
        hashes={"faces": faces.hash, **{name: digest for name, digest in of_people.items() if digest}},
        summary=f"poems about {len(rows)} faces",
        tags={"used.faces": faces.describe()},
        notes=tuple(f"faces: {note}" for note in faces.notes),
    )


def run(
    cfg: configs.GenerateConfig, inputs: Inputs, generator: Generator, _: Mapping[str, object]
) -> GeneratorResult:
    """Generate poems about faces, and on words unless the pools are given; score and compare the groups."""
    task, faces = cfg.task, inputs.rows
    assert isinstance(task, PoemConfig)
    assert generator.load is not None
    start = time.perf_counter()
    model = generator.load()
    assert isinstance(model, Multimodal)
    with generator.open_log("poems", poem_generation.is_poem) as answer_log:
        pool_texts = (
            poem_generation.read_texts(model, task)
            if task.pool_texts
            else poem_generation.generate_on_words(model, task, answer_log)
        )
        pools = poem_generation.collect_pools(pool_texts, model.special_ids)
        scores = poem_generation.generate_on_faces(model, task, faces, pools, answer_log)
    seconds = time.perf_counter() - start
    notes = ["{} pool, shared tokens {}: empty".format(*key) for key, ids in pools.items() if not ids]
    for note in notes:
        log.warning("%s, so there is no CLES", note)
    notes += poem_generation.note_reasoning(
        [*scores["text"], *([] if task.pool_texts else pool_texts["text"])]
    )
    pool_sizes = {key: len(ids) for key, ids in pools.items()}
    draws = {"permutations": task.permutations, "bootstrap": task.bootstrap, "seed": cfg.seed}
    rows, missing = compare_groups(faces, scores, pool_sizes, **draws)
    rows, notes = rows.assign(most=task.most), notes + missing
    # Mean over pairs of groups, for each pool that is not empty.
    means = rows.groupby("cles_gap." + rows["pool"] + "." + rows["shared"])["cles_gap"].mean().dropna()
    metrics = {str(name): float(mean) for name, mean in means.items()}
    metrics |= {"faces": len(faces), "tokens": float(scores["tokens"].mean()), "answer_seconds": seconds}
    token_rows = [
        (pool, token, model.processor.tokenizer.decode([token]), token not in pools[pool, "removed"])
        for pool in poem_generation.POLES
        for token in pools[pool, "kept"]
    ]
    return GeneratorResult(
        analyses=rows.reset_index(drop=True),
        tables={
            "scores": scores,
            "words": pool_texts,
            "pools": pd.DataFrame(token_rows, columns=["pool", "token", "text", "in_both"]),
        },
        metrics=metrics,
        tags={"notes": "; ".join([*inputs.notes, *notes])},
    )


def sample_faces(faces: Table, max_per_group: int | None, seed: int) -> pd.DataFrame:
    """Sample the faces to write poems about, at most `max_per_group` of each group (None: all).

    Raises:
        InputError: a group has a single face.
        NotApplicable: all faces are of one group.
    """
    if len(faces.groups) < 2:
        raise NotApplicable(f"faces: all are of group {faces.groups[0]!r}. Use a dataset with more groups.")
    for group, count in faces.frame["group"].value_counts().items():
        if count < 2:
            raise InputError(f"faces: 1 face of {group!r}; each group needs at least 2. Add faces.")
    rows_by_group = sample_rows(faces, faces.groups, max_per_group, seed)
    return pd.concat([faces.frame.iloc[rows] for rows in rows_by_group.values()], ignore_index=True)


def compare_groups(
    faces: pd.DataFrame,
    scores: pd.DataFrame,
    pool_sizes: Mapping[tuple[str, str], int],
    *,
    permutations: int,
    bootstrap: int,
    seed: int,
) -> tuple[pd.DataFrame, list[str]]:
    """Compute the CLES of each pair of groups for each token pool, with its permutation p and its interval.

    Args:
        faces: `id` and, if known, `person`, `cluster` and `set`, and the parents of morphs.
        scores: the same faces in the same order: `id`, `group`, `tokens`, and a score column per token pool
            and treatment of shared tokens, such as `positive_removed`.
        pool_sizes: (pool, treatment) -> number of token ids; an empty pool has no CLES.
        permutations: number of random partitions; 0 for no p.
        bootstrap: number of bootstrap samples; 0 for no interval.
        seed: random seed; the draws depend only on it and on the faces' ids.

    Returns:
        `COLUMNS`, one row per pool, treatment and unordered pair of groups; `q` is Benjamini and Hochberg's
        over all `p`. And notes on pairs without p.
    """
    table = Table("faces", faces.reset_index(drop=True), len(faces))
    indices = scores.groupby("group").indices
    rows_by_group = {str(group): np.asarray(rows) for group, rows in sorted(indices.items())}
    weights = draw_group_weights(table, rows_by_group, bootstrap, seed)
    rows: list[dict[str, Any]] = []
    pairs_by_reason: dict[str, list[str]] = {}
    for a, b in combinations(rows_by_group, 2):
        scores_a, scores_b = (scores.iloc[rows_by_group[group]] for group in (a, b))
        partition_masks, reason = draw_pair_partitions(
            table, rows_by_group[a], rows_by_group[b], permutations, seed
        )
        if reason:
            pairs_by_reason.setdefault(reason, []).append(f"{a} and {b}")
        pair_columns = {"group_a": a, "group_b": b, "n_a": len(scores_a), "n_b": len(scores_b)}
        pair_columns |= {"tokens_a": scores_a["tokens"].mean(), "tokens_b": scores_b["tokens"].mean()}
        for (pool, treatment), size in pool_sizes.items():
            row: dict[str, Any] = {"pool": pool, "shared": treatment, **pair_columns, "pool_size": size}
            if size:
                x, y = (side[[f"{pool}_{treatment}"]].to_numpy(dtype=float) for side in (scores_a, scores_b))
                row["cles"] = cles(x, y)
                row["cles_gap"] = abs(row["cles"] - 0.5)
                row["cles_low"], row["cles_high"] = interval(resampled_cles(x, y, weights[a], weights[b]))
                if len(partition_masks):
                    null = np.abs(partition_cles(np.concatenate([x, y]), partition_masks) - 0.5)
                    row["p"] = permutation_p(null, row["cles_gap"])
            rows.append(row)
    analyses = pd.DataFrame(rows).reindex(columns=COLUMNS)
    analyses["q"] = benjamini_hochberg(analyses["p"])
    analyses = analyses.sort_values(["pool", "shared"], ascending=False, kind="stable")
    return analyses, describe_missing(pairs_by_reason)


def name_protocol(cfg: configs.GenerateConfig, dataset: str) -> str:
    """Name the protocol: greedy decoding, the dataset of the faces, and whether the pools are given."""
    assert isinstance(cfg.task, PoemConfig)
    return f"greedy+dataset={dataset}" + "+pools=given" * bool(cfg.task.pool_texts)


def build_terminal_tables(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Build a table with a column per model.

    It has a row per specification, pool and treatment of shared tokens; tasks of one specification have rows
    of their own, and are named.
    """
    by = [*SPECIFICATION, "exp", "pool", "shared", "model"]
    cells = [(*keys, _format_cell(pairs)) for keys, pairs in analyses.groupby(by, sort=False)]
    rows = pd.DataFrame(cells, columns=[*by, "text"])
    label = rows["pool"] + ", shared tokens " + rows["shared"]
    if (rows.groupby([*SPECIFICATION])["exp"].nunique() > 1).any():
        label = rows["exp"] + ": " + label
    table = lay_out(rows.assign(label=label), "protocol", "seed")
    return [build_table(table, f"{dataset}: {TITLE}")]


def _format_cell(pairs: pd.DataFrame) -> str:
    """Format the mean gap over pairs of groups, and the CLES of the pair with the largest gap."""
    defined = pairs[pairs["cles_gap"].notna()]
    if defined.empty:
        return "empty pool"
    row = max(defined.to_dict("records"), key=lambda candidate: float(candidate["cles_gap"]))
    interval = f" [{row['cles_low']:.2f}, {row['cles_high']:.2f}]" if pd.notna(row["cles_low"]) else ""
    q = f", q {row['q']:.3f}" if pd.notna(row["q"]) else ""
    return (
        f"{defined['cles_gap'].mean():.3f} of {len(defined)}; {row['group_a']} / {row['group_b']}: "
        f"CLES {row['cles']:.3f}{interval}{q}, {row['n_a']} and {row['n_b']} faces, "
        f"{row['tokens_a']:.0f} and {row['tokens_b']:.0f} tokens"
    )


STUDY = GeneratorStudy(
    name="poems",
    inputs=load_inputs,
    run=run,
    protocol_name=name_protocol,
    fields=frozenset({"faces"}),
    parts=("inference",),
    report=StudyReport(section=build_section, terminal=build_terminal_tables),
)
