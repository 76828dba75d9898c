"""Run experiments on harmful classes (docs/methods.md, section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from src import metrics, stimuli
from src.configs import RunConfig
from src.errors import InputError, NotApplicable, brief, did_you_mean, first_few
from src.metrics.jackknife import replicate
from src.stimuli import PROMPTS, Table
from src.stimuli.clusters import assign_clusters
from src.studies.harms.config import HarmsConfig
from src.studies.harms.intervals import (
    Units,
    compare_extremes,
    compute_gap_interval,
    compute_share_interval,
    count_units,
)
from src.studies.harms.outcomes import (
    ALL_GROUPS,
    FPR,
    Outcome,
    build_statistics,
    list_outcomes,
    mark_members,
    tabulate_classes,
)
from src.studies.harms.permutation import compare_with_null, permute_shares
from src.studies.protocol import AnalysisTables, Tables, Vectors
from src.studies.shared.cluster_jackknife import build_subsamples
from src.studies.shared.exchange_units import build_exchange
from src.studies.shared.face_axes import group_by_axis
from src.studies.shared.face_classes import classify, compose_prompts
from src.studies.shared.jackknife_table import TABLE, Block, build_jackknife_table

# Columns of analyses.csv.
COLUMNS = (
    *("classes", "kind", "measure", "group", "n", "n_units", "share", "share_low", "share_high"),
    *("gap", "gap_low", "gap_high", "null_low", "null_high", "p", "worst"),
    *("difference", "difference_low", "difference_high", "difference_q95", "difference_p"),
    *("ratio", "ratio_low", "ratio_high", "ratio_q05", "ratio_p", "reason"),
)
NO_P_OF_FPR = "no p: false positives are of other people for each group"


@dataclass(frozen=True)
class People:
    """Faces of the compared groups.

    Attributes:
        table: their table; `group` is the compared group.
        rows: [N], their rows in the table of all faces.
        groups: names of the compared groups, sorted.
        group_of: [N], index of each face's group.
        class_groups: [N], group of each face in the table of all faces, whose classes are right for it.
        clusters: clusters of each face, see `assign_clusters`.
        units: units of each group.
        other_units: units of all faces but those of each group.
        all_units: units of all faces.
    """

    table: Table
    rows: np.ndarray
    groups: list[str]
    group_of: np.ndarray
    class_groups: np.ndarray
    clusters: pd.DataFrame
    units: list[Units]
    other_units: list[Units]
    all_units: Units

    @property
    def is_compared(self) -> np.ndarray:
        """Return whether each group has enough units to be among the extremes, [G]."""
        return np.array([not units.reason for units in self.units])


def build_prompts(cfg: RunConfig) -> Table:
    """Build the table of the sentences of all classes; errors: see `compose_prompts`."""
    return compose_prompts(cfg.classes, stimuli.load(cfg, "faces").groups, cfg.protocol.article)


def check(cfg: RunConfig, tables: Tables) -> People:
    """Check groups and classes before any work; return the faces of the compared groups.

    Raises:
        InputError: see `compose_prompts` and `select_people`.
        NotApplicable: see `select_people`.
    """
    assert isinstance(cfg.exp, HarmsConfig)
    compose_prompts(cfg.classes, tables["faces"].groups, cfg.protocol.article)
    return select_people(tables["faces"], cfg.exp)


def select_people(all_faces: Table, exp: HarmsConfig) -> People:
    """Select the faces of the compared groups.

    Raises:
        InputError: a group is unknown or repeated; see `group_by_axis`.
        NotApplicable: fewer than two groups have enough people; see `group_by_axis`.
    """
    faces = group_by_axis(all_faces, exp.axis, "exp.axis")
    groups = faces.groups if exp.groups is None else sorted(exp.groups)
    for group in groups:
        if group not in faces.groups:
            raise InputError(
                f"exp.groups: no faces of {brief(group)!r}.{did_you_mean(group, faces.groups)} There are: "
                f"{first_few(faces.groups, 20)}."
            )
        if groups.count(group) > 1:
            raise InputError(f"exp.groups: {group!r} occurs twice. Name each group once.")
    rows = np.flatnonzero(faces.frame["group"].isin(groups))
    table = replace(faces, frame=faces.frame.iloc[rows].reset_index(drop=True))
    group_of = table.frame["group"].map({name: index for index, name in enumerate(groups)}).to_numpy()
    class_groups = all_faces.frame["group"].to_numpy(dtype=str)[rows]
    clusters = assign_clusters(table)
    masks = [group_of == index for index in range(len(groups))]
    units = [count_units(clusters, mask) for mask in masks]
    if sum(not each.reason for each in units) < 2:
        counts = ", ".join(f"{name} {each.count}" for name, each in zip(groups, units, strict=True))
        raise NotApplicable(
            f"faces: expected two or more groups with 5 people each, got {counts or 'none'}. Add faces, or "
            "choose other groups with exp.axis or exp.groups."
        )
    other_units = [count_units(clusters, ~mask) for mask in masks]
    all_units = count_units(clusters, np.ones(len(rows), dtype=bool))
    return People(table, rows, groups, group_of, class_groups, clusters, units, other_units, all_units)


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> AnalysisTables:
    """Classify the faces, and compare the shares of groups for each outcome.

    Vectors are unit-length, in the order of the tables: faces [N, D] or [N, Q, D], prompts [M, D].

    Returns:
        Analyses: `COLUMNS`, a row per outcome and group, and one of all groups. Tables: `classified`, see
        `tabulate_classes`; `jackknife`; `attributes`, the faces in the columns of propagation's table of A
        and B.

    Raises:
        InputError, NotApplicable: see `check`; or the widths of the vectors differ.
    """
    people = check(cfg, tables)
    exp, protocol = cfg.exp, cfg.protocol
    assert isinstance(exp, HarmsConfig)
    widths = {role: vectors[role].shape[-1] for role in ("faces", PROMPTS)}
    if len({*widths.values()}) > 1:
        raise InputError(f"vectors have several widths: {widths}. Use vectors of the same model.")
    faces = vectors["faces"][people.rows.tolist()]
    faces = metrics.pool_vectors(faces) if protocol.pooling == "mean" else faces
    classification = classify(faces, tables[PROMPTS], vectors[PROMPTS])
    outcomes = list_outcomes(classification, people.class_groups, None if exp.axis else people.groups)
    exchange = build_exchange(people.table, cfg.seed)
    refusals = [exchange.explain_refusal(group) for group in people.groups]
    null = None
    if protocol.permutations:
        sizes = people.group_of, len(people.groups)
        null = permute_shares(exchange, *sizes, outcomes, protocol.permutations)
    frames, blocks = [], []
    for column, outcome in enumerate(outcomes):
        of_outcome = None if null is None or outcome.measure == FPR else null[:, column]
        frames.append(analyse(people, outcome, of_outcome, refusals))
        blocks.append(_list_statistics(people, outcome))
    analyses = pd.concat(frames, ignore_index=True).assign(classes=cfg.classes.name)
    ids = people.table.frame["id"].to_numpy(dtype=str)
    groups = np.array(people.groups)[people.group_of]
    attributes = pd.DataFrame({"group": groups, "template": None, "set": groups, "id": ids})
    further = {
        "classified": tabulate_classes(classification, ids, groups, people.class_groups),
        "attributes": attributes.astype(dict.fromkeys(attributes, "string")),
        TABLE: build_jackknife_table([_join_blocks(people, blocks)]),
    }
    notes = _describe(people, refusals if protocol.permutations else [], tables[PROMPTS])
    return AnalysisTables(analyses.reindex(columns=[*COLUMNS]), further, notes)


def _describe(people: People, refusals: Sequence[str], prompts: Table) -> list[str]:
    """Describe the classes, and which groups lack p or interval and why."""
    count = prompts.frame["position"].nunique()
    notes = [f"{len(people.rows)} faces in {count} classes, {len(prompts.frame)} sentences"]
    for subject, reasons in (("p", refusals), ("interval", [units.reason for units in people.units])):
        for reason in dict.fromkeys(filter(None, reasons)):
            names = ", ".join(compress(people.groups, [each == reason for each in reasons]))
            notes.append(f"no {subject} of {names}, since {reason}")
    return notes


def analyse(
    people: People, outcome: Outcome, null: np.ndarray | None, refusals: Sequence[str]
) -> pd.DataFrame:
    """Build the rows of an outcome: one per group, and one of all groups; `null` is [R, G]."""
    names = [*people.groups, ALL_GROUPS]
    members = mark_members(outcome, people.group_of, len(people.groups))
    compute = build_statistics(outcome, members)
    values = compute(np.ones((1, len(members)), dtype=bool))[0]
    replicates = replicate(build_subsamples(people.clusters), compute)
    variances = replicates.variance()
    # False positives are averaged over the faces of all other groups.
    averaged = people.other_units if outcome.measure == FPR else people.units
    units = [*averaged, people.all_units]
    rows: list[dict[str, Any]] = []
    for index, name in enumerate(names):
        gap_index = index + len(names)
        row: dict[str, Any] = {"kind": outcome.kind, "measure": outcome.measure, "group": name}
        row |= {"n": units[index].n, "n_units": units[index].count, "share": values[index]}
        low, high = compute_share_interval(float(values[index]), float(variances[index]), units[index])
        row |= {"share_low": low, "share_high": high, "reason": _explain("interval", units[index].reason)}
        if name != ALL_GROUPS and outcome.measure != FPR:
            sides = people.units[index], people.other_units[index]
            ends = compute_gap_interval(float(values[gap_index]), float(variances[gap_index]), *sides)
            row |= dict(zip(("gap", "gap_low", "gap_high"), (values[gap_index], *ends), strict=True))
            if null is not None:
                row["reason"] = "; ".join(filter(None, [row["reason"], _explain("p", refusals[index])]))
        rows.append(row)
    frame = pd.DataFrame(rows)
    chosen = np.flatnonzero(people.is_compared)
    df = min(each.df for each in averaged if not each.reason)
    extremes: dict[str, Any] = compare_extremes(values[: len(people.groups)], replicates, chosen, df)
    if null is not None:
        has_p = np.array([not reason for reason in refusals])
        columns, of_null = compare_with_null(values[: len(people.groups)], null, has_p, chosen)
        frame = frame.assign(**{name: [*column, np.nan] for name, column in columns.items()})
        extremes |= of_null
    extremes["worst"] = _find_worst(values, outcome, chosen, people.groups)
    if outcome.measure == FPR:
        extremes["reason"] = "; ".join(filter(None, [frame["reason"].iloc[-1], NO_P_OF_FPR]))
    last = {
        name: [None] * len(people.groups) + [value] for name, value in extremes.items() if name != "reason"
    }
    frame = frame.assign(**last)
    if "reason" in extremes:
        frame.loc[frame.index[-1], "reason"] = extremes["reason"]
    return frame


def _explain(subject: str, reason: str) -> str:
    return f"no {subject}: {reason}" if reason else ""


def _find_worst(values: np.ndarray, outcome: Outcome, chosen: np.ndarray, groups: Sequence[str]) -> str:
    """Return the groups with the worst share, joined; empty if no share is worse than another."""
    shares = values[chosen] * outcome.worst
    if not outcome.worst or np.ptp(shares) == 0:
        return ""
    return ", ".join(groups[index] for index in chosen[shares == shares.max()])


def _list_statistics(people: People, outcome: Outcome) -> tuple[Outcome, list[tuple[str, str, float]]]:
    """List the statistics of an outcome for the jackknife's table: shares and gaps of groups."""
    names = list(compress(people.groups, people.is_compared))
    label = f"{outcome.measure}: {outcome.kind}"
    # Without harm the share is 0; no value of the others means that there is no bias.
    shares = [(label, name, 0.0 if outcome.worst == 1 else np.nan) for name in names]
    gaps = [(f"gap of {label}", name, 0.0) for name in names] if outcome.measure != FPR else []
    return outcome, shares + gaps


def _join_blocks(people: People, blocks: Sequence[tuple[Outcome, list[tuple[str, str, float]]]]) -> Block:
    """Join the statistics of all outcomes into a block of the jackknife's table."""
    chosen = np.flatnonzero(people.is_compared)
    functions = []
    for outcome, _ in blocks:
        members = mark_members(outcome, people.group_of, len(people.groups))[:, chosen]
        values = outcome.values[:, chosen] if outcome.measure == FPR else outcome.values
        functions.append((build_statistics(replace(outcome, values=values), members), outcome.measure == FPR))

    def compute(masks: np.ndarray) -> np.ndarray:
        # Gaps of false positives are not compared.
        parts = [function(masks)[:, : len(chosen) if is_fpr else None] for function, is_fpr in functions]
        return np.hstack(parts)

    units = people.clusters.assign(id=people.table.frame["id"].to_numpy())
    groups = [people.group_of == index for index in chosen]
    return Block(units, [statistic for _, statistics in blocks for statistic in statistics], compute, groups)
