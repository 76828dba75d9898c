"""What one toy makes of the groups, the scenes, the looks and the words that were planted."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src import configs, stimuli
from src.stimuli import Table
from validation.truth.caption_associations import associations, said, separation


def measure(overrides: list[str]) -> dict[str, Any]:
    """One toy: what it makes of the groups' faces and of the scenes.

    Args:
        overrides: of the job's config.

    Returns:
        `bias`, `seed`, `steps`; `spearman` of the scenes' SC-EAT with their own valence; `cles_gap` of
        the two groups whose looks are planted furthest apart; by group `planted`, `s` (mean of s(w)) and
        `sc_eat` (mean effect size); and `words`, see `associations`.
    """
    from src.embeddings import embeddings
    from src.jobs.identity import Job

    cfg = Job.of(*configs.compose(overrides), "").cfg
    assert isinstance(cfg.model, configs.ToyConfig)
    table = partial(stimuli.load, cfg)
    vectors = {role: embeddings(cfg, role, table).vectors for role in ("faces", "scenes", "words")}
    faces = table("faces").frame
    s, effect = _scores(cfg, vectors["faces"], table("words"), vectors["words"])
    _, scenes = _scores(cfg, vectors["scenes"], table("words"), vectors["words"])
    by_group = pd.DataFrame({"s": s, "sc_eat": effect}).groupby(faces["group"].to_numpy()).mean()
    valence = table("scenes").frame["valence"]
    return {
        "bias": cfg.demo.bias,
        "seed": cfg.model.seed,
        "steps": cfg.model.steps,
        "spearman": float(stats.spearmanr(scenes, valence).statistic),
        "cles_gap": _looks(cfg, faces, vectors["faces"]),
        "groups": by_group.assign(planted=pd.Series(cfg.demo.planted)),
        "words": associations(cfg, faces, vectors["faces"]),
    }


def _scores(cfg: configs.RunConfig, targets: Any, words: Table, vectors: Any) -> tuple[Any, Any]:
    # s(w) and SC-EAT of each target, averaged over the templates.
    from src.metrics import sc_eat, similarity
    from src.studies.propagation.attributes import corpus_of

    found = corpus_of(words, cfg.protocol, cfg.seed).pools
    s, effect = np.zeros(len(targets)), np.zeros(len(targets))
    for pool in found:
        to_a, to_b = (similarity(targets, vectors[pool.rows[chosen[0]]]) for chosen in (pool.a, pool.b))
        s += (to_a.mean(dim=1) - to_b.mean(dim=1)).numpy()
        effect += sc_eat(to_a, to_b, cfg.protocol.ddof).numpy()
    return s / len(found), effect / len(found)


def _looks(cfg: configs.RunConfig, faces: pd.DataFrame, vectors: Any) -> float:
    # |CLES - 1/2| of the planted contrast, mean over the traits.
    from src.demo.captions import LOOK
    from src.metrics import cles, similarity

    planted = pd.Series(cfg.demo.looks)
    if not len(planted):
        return float("nan")
    gaps = []
    for words in cfg.demo.traits.values():
        cosines = similarity(vectors, said(cfg, [LOOK.format(word) for word in words])).numpy()
        most, least = (cosines[faces["group"] == group] for group in (planted.idxmax(), planted.idxmin()))
        gaps.append(abs(cles(most, least) - 0.5))
    return float(np.mean(gaps))


def tabulate(measured: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """One row per toy, one per toy and group, and one per toy and planted or unplanted caption.

    Args:
        measured: see `measure`.

    Returns:
        `bias, seed, steps, spearman, cles_gap, pearson` (of planted valence and mean s(w)), `slope` (of
        the mean SC-EAT on the planted valence) and what `separation` gives; `bias, seed, steps, group,
        planted, s, sc_eat`; and `bias, seed, steps` with what `associations` gives.
    """
    toys, groups, words = [], [], []
    for found in measured:
        about = {name: found[name] for name in ("bias", "seed", "steps")}
        table = found["groups"]
        pearson = stats.pearsonr(table["planted"], table["s"]).statistic
        slope = stats.linregress(table["planted"], table["sc_eat"]).slope
        known = {name: found[name] for name in ("spearman", "cles_gap")}
        toys.append({**about, **known, "pearson": pearson, "slope": slope, **separation(found["words"])})
        groups.append(pd.DataFrame(about, table.index).join(table).rename_axis("group").reset_index())
        words.append(pd.DataFrame(about, found["words"].index).join(found["words"]))
    columns = ["bias", "seed", "steps", "group", "planted", "s", "sc_eat"]
    everybody = pd.concat(groups, ignore_index=True)[columns]
    return pd.DataFrame(toys), everybody, pd.concat(words, ignore_index=True)
