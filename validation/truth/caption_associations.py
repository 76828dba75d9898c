"""Measure associations of captions with groups, and whether planted captions have the largest."""

from typing import Any

import numpy as np
import pandas as pd

from src import configs, stimuli
from src.embeddings import load_embeddings
from src.metrics import auc, group_association, similarity
from src.stimuli import PROMPTS, Table

# Axes that form groups: race, gender, or their combination.
AXES = ("race", "gender", "both")


def embed_captions(cfg: configs.RunConfig, captions: list[str]) -> Any:
    """Return the vectors of captions, in the sorted order of the captions."""
    sentences = sorted(captions)
    prompts = Table(PROMPTS, pd.DataFrame({"id": sentences, "sentence": sentences}), len(sentences))

    def table(role: str) -> Table:
        return prompts if role == PROMPTS else stimuli.load(cfg, role)

    return load_embeddings(cfg, PROMPTS, table).vectors


def associations(cfg: configs.RunConfig, faces: pd.DataFrame, vectors: Any) -> pd.DataFrame:
    """Compute the largest |C(c, G)| of each caption c over the groups G of each axis.

    See docs/methods.md, section 4.

    Args:
        cfg: config of the job; `cfg.demo.probes` lists the captions, planted and unplanted.
        faces: columns `race`, `gender` and `group`.
        vectors: vectors of the faces, in the same order.

    Returns:
        Columns `caption`, `whose` (its key in `cfg.demo.probes`: a group or a place), `axis` on which it is
        planted (null: on none), and one for each axis: the largest |C|, in standard deviations.
    """
    rows = [(caption, whose) for whose, listed in cfg.demo.probes.items() for caption in listed]
    captions = pd.DataFrame(sorted(rows), columns=["caption", "whose"])
    if not rows:
        return captions.assign(axis=None, **dict.fromkeys(AXES, np.nan))
    labels = faces.assign(both=faces["group"])[list(AXES)]
    axis_of = {name: axis for axis in AXES for name in labels[axis].unique()}
    captions["axis"] = captions["whose"].map(axis_of)
    cosines = similarity(embed_captions(cfg, list(captions["caption"])), vectors).numpy()
    for axis in AXES:
        members = pd.get_dummies(labels[axis]).to_numpy()
        captions[axis] = np.abs(group_association(cosines, members)).max(axis=1)
    return captions


def separation(captions: pd.DataFrame) -> dict[str, float]:
    """Compare the ranks of planted captions with those of captions about places, which are planted nowhere.

    Returns `auc_AXIS` for each axis: the AUC by which the largest |C| of `associations` separates captions
    planted on it from unplanted ones. NaN where nothing is planted.
    """
    unplanted = captions[captions["axis"].isna()]
    return {f"auc_{axis}": auc(captions[captions["axis"] == axis][axis], unplanted[axis]) for axis in AXES}
