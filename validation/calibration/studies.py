"""Measure false-positive rates and coverage of intervals of the other studies in simulated worlds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

from src.configs import ProtocolConfig
from src.metrics import permutation_p
from src.stimuli import Table
from src.studies.shared.group_comparison import Group, compare_by_set, draw_partitions
from src.studies.sobit.axes import group_faces
from src.studies.sobit.caption_association import compute_associations
from src.studies.sobit.captions import ratios
from src.studies.subtler import scoring
from src.studies.subtler.items import OPTIONS
from validation.calibration import bounds, coverage
from validation.calibration.bounds import generator

# Sizes of the groups of a So-B-IT audit, of which the first has twice the spread of the others.
SIZES = (10, 80, 100, 110)
PERMUTATIONS = 199
# Shares of captions with a word, and with a group; ratio of the group's share among those to its base.
WORD, GROUP, RATIO = 0.02, 0.1, 1.5
# Leaning of the answers, its SD over templates and over stimuli, and limit of a neutral answer.
LEANING, SHARED, CUT = 0.5, 0.5, 0.5
TRUTH_SIZE = 400_000


@dataclass(frozen=True)
class Kind:
    """Kind of worlds of a study."""

    study: str
    name: str  # description of the world
    # (rng, number of the world) -> whether the test rejects, or the interval holds the truth.
    is_hit: Callable[[np.random.Generator, int], bool]
    is_test: bool  # whether the null hypothesis is tested, at 5%; else a 95% interval is checked


def kinds() -> list[Kind]:
    """Return the kinds of worlds."""
    tau = leaning_of(np.random.default_rng(0))
    return [
        Kind("So-B-IT", "p, one of four groups has twice the spread", _sobit, is_test=True),
        Kind("So-B-IT", "p, 1 to 4 faces of each person", partial(_sobit, repeated=True), is_test=True),
        Kind("audits", "p of CLES, 30 and 30 faces", partial(_audit, 30), is_test=True),
        Kind("audits", "p of CLES, 10 and 50 faces", partial(_audit, 10), is_test=True),
        Kind("captions", "ratio, 3,000 captions", partial(_captions, 3000), is_test=False),
        Kind("captions", "ratio, 30,000 captions", partial(_captions, 30_000), is_test=False),
        Kind("subtler", "τ-c, 5 templates × 20 stimuli", partial(_tau, 5, 20, tau), is_test=False),
        Kind("subtler", "τ-c, 12 templates × 40 stimuli", partial(_tau, 12, 40, tau), is_test=False),
    ]


def is_hit(kind: Kind, number: int) -> bool:
    """Return whether the test of a world rejects, or its interval holds the truth."""
    return kind.is_hit(generator(f"{kind.study}, {kind.name}", number), number)


def _sobit(rng: np.random.Generator, number: int, *, repeated: bool = False) -> bool:
    """Return whether any group's association with a caption has p at most 5%; all means are equal."""
    labels = np.repeat(np.arange(len(SIZES)), SIZES)
    spread = np.ones(len(labels)) if repeated else np.where(labels == 0, 2, 1)
    cosines = rng.normal(scale=spread) / 10
    faces = np.repeat(np.arange(len(labels)), rng.integers(1, 5, len(labels)) if repeated else 1)
    # Faces of a person are alike.
    cosines = cosines[faces] + 0.03 * rng.standard_normal(len(faces)) * repeated
    ids = [f"f{face:04d}" for face in range(len(faces))]
    frame = pd.DataFrame(
        {"id": ids, "race": labels[faces].astype(str), "cluster": [f"p{n:03d}" for n in faces]}
    )
    vectors = torch.from_numpy(np.column_stack([cosines, np.sqrt(1 - cosines**2)]))
    protocol = ProtocolConfig(permutations=PERMUTATIONS, bootstrap=0)
    face_set = group_faces(Table("faces", frame, len(frame)), ["race"])
    measures = compute_associations(face_set, vectors, torch.eye(1, 2).double(), protocol, number)
    return bool(np.nanmin(measures["p"]) <= bounds.ALPHA)


def _audit(size: int, rng: np.random.Generator, number: int) -> bool:
    """Return whether the CLES of two groups of exchangeable faces, 60 in all, has p at most 5%."""
    cosines = rng.standard_normal((60, 3)) + rng.standard_normal((60, 1))
    names = np.array([f"f{face:02d}" for face in range(60)])
    a, b = (
        Group("", names[rows], cosines[rows], np.empty((0, len(names[rows]))))
        for rows in (slice(size), slice(size, None))
    )
    members = draw_partitions(names.tolist(), size, PERMUTATIONS, number)
    comparison = compare_by_set(a, b, [0, 1, 2], members, "half")
    p = permutation_p(comparison["null"]["cles_gap"], comparison["observed"]["cles_gap"])
    return bool(p <= bounds.ALPHA)


def _captions(count: int, rng: np.random.Generator, _: int) -> bool:
    both = WORD * GROUP * RATIO
    cells = rng.multinomial(count, [both, WORD - both, GROUP - both, 1 - WORD - GROUP + both])
    low, high = ratios.compute_ratio_interval(cells[0], cells[:2].sum(), cells[[0, 2]].sum(), cells.sum())
    return bool(low <= RATIO <= high)


def leaning_of(rng: np.random.Generator) -> float:
    """Compute the τ-c of answers that share neither template nor stimulus."""
    polarity = np.tile([1, -1], TRUTH_SIZE // 2)
    leaning = LEANING + SHARED * rng.standard_normal((2, TRUTH_SIZE)).sum(axis=0)
    answers = _answers(polarity, leaning, rng)
    return float(stats.kendalltau(polarity, answers, variant="c").statistic)


def _answers(polarity: np.ndarray, leaning: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    latent = leaning * polarity + rng.standard_normal(len(polarity))
    return np.asarray(np.where(np.abs(latent) < CUT, 0, np.sign(latent)), dtype=int)


def _tau(templates: int, stimuli: int, tau: float, rng: np.random.Generator, _: int) -> bool:
    """Return whether the interval of τ-c holds that of the population; half of the stimuli are positive."""
    template, stimulus = np.divmod(np.arange(templates * stimuli), stimuli)
    polarity = np.where(stimulus % 2, 1, -1)
    terms = rng.standard_normal(templates)[template] + rng.standard_normal(stimuli)[stimulus]
    answers = _answers(polarity, LEANING + SHARED * terms, rng)
    choice = np.array(["unrelated", "stereotype", "anti_stereotype"])[answers * polarity]
    frame = pd.DataFrame({"polarity": polarity, "template": template.astype(str), "response": choice})
    frame = frame.assign(stimulus=stimulus.astype(str), domain="d", direction="SAI", gender="female")
    row = scoring.score_answers(frame.assign(**{name: name for name in OPTIONS}), "published").iloc[-1]
    return bool(row["tau_c_low"] <= tau <= row["tau_c_high"])


def tabulate(measured: Sequence[tuple[Kind, Sequence[bool]]], few: bool) -> pd.DataFrame:
    """Summarise the share of worlds in which a test rejects, or an interval holds the truth.

    `measured` has kinds, with the hit of each world; `few` worlds widen the limits of coverage.
    """
    rows: list[dict[str, Any]] = []
    for kind, hits in measured:
        count = len(hits)
        in_range = bounds.limits(*coverage.OF_A_KIND, count, few)
        low, high = bounds.of_false_positive_rate(count) if kind.is_test else in_range
        row = {"study": kind.study, "world": kind.name, "worlds": count, "low": low, "high": high}
        share = float(np.mean(hits))
        rows.append(row | {"share": share, "holds": low <= share <= high})
    return pd.DataFrame(rows)
