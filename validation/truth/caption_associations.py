"""Of which captions an encoder thinks most of one group, and whether these are the planted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from src import configs, stimuli
from src.stimuli import PROMPTS, Table

# How a group's name is read: its people, its gender, or both at once.
AXES = ("race", "gender", "both")


def said(cfg: configs.RunConfig, captions: list[str]) -> Any:
    """Vectors of captions, in their sorted order."""
    from src.embeddings import embeddings

    ordered = sorted(captions)
    prompts = Table(PROMPTS, pd.DataFrame({"id": ordered, "sentence": ordered}), len(ordered))

    def table(role: str) -> Table:
        return prompts if role == PROMPTS else stimuli.load(cfg, role)

    return embeddings(cfg, PROMPTS, table).vectors


def associations(cfg: configs.RunConfig, faces: pd.DataFrame, vectors: Any) -> pd.DataFrame:
    """Largest |C(c, G)| of each planted or unplanted caption over the groups of each axis.

    See docs/methods.md, section 4.

    Args:
        cfg: the job; `cfg.demo.probes` says what is planted.
        faces: columns `race`, `gender` and `group`.
        vectors: of the faces, in the same order.

    Returns:
        `caption`, `whose` (as in the config), `axis` on which it is planted (null: on none), and one column
        for each axis, in standard deviations.
    """
    from src.metrics import group_association, similarity

    rows = [(caption, whose) for whose, listed in cfg.demo.probes.items() for caption in listed]
    found = pd.DataFrame(sorted(rows), columns=["caption", "whose"])
    if not rows:
        return found.assign(axis=None, **dict.fromkeys(AXES, np.nan))
    labels = faces.assign(both=faces["group"])[list(AXES)]
    axis_of = {name: axis for axis in AXES for name in labels[axis].unique()}
    found["axis"] = found["whose"].map(axis_of)
    cosines = similarity(said(cfg, list(found["caption"])), vectors).numpy()
    for axis in AXES:
        members = pd.get_dummies(labels[axis]).to_numpy()
        found[axis] = np.abs(group_association(cosines, members)).max(axis=1)
    return found


def separation(found: pd.DataFrame) -> dict[str, float]:
    """Do the planted captions rank above those said of places, where every group is seen alike?

    Args:
        found: see `associations`.

    Returns:
        By axis `auc_*`, of the largest |C|, of the captions planted on it; and `auc_error`, the largest
        standard error that such an AUC has where the ranks are random (Mann & Whitney 1947). NaN where
        nothing is planted.
    """
    from src.metrics import auc

    unplanted = found[found["axis"].isna()]
    separated, errors = {}, []
    for axis in AXES:
        planted = found[found["axis"] == axis]
        separated[f"auc_{axis}"] = auc(planted[axis], unplanted[axis])
        n, m = len(planted), len(unplanted)
        errors.append(np.sqrt((n + m + 1) / (12 * n * m)) if n and m else np.nan)
    return separated | {"auc_error": max(errors)}
