"""Score the groups, scenes, looks and words of the built-in world by a toy."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src import configs, stimuli
from src.demo.captions import LOOK
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.metrics import cles, sc_eat, similarity
from src.stimuli import Table
from src.studies.propagation.attributes import corpus_of
from validation.truth.caption_associations import associations, embed_captions, separation
from validation.truth.experiments import shuffle


def measure(overrides: list[str], *, shuffled: bool) -> dict[str, Any]:
    """Score the groups' faces, the scenes and the captions by one toy.

    Args:
        overrides: overrides of the job's config, which choose the toy.
        shuffled: whether the vectors of faces, scenes and words are shuffled.

    Returns:
        `bias`, `seed`; `spearman` of the scenes' SC-EAT with their own valence; `cles_gap` of
        the two groups whose looks are planted furthest apart; `groups`, a table of `planted` (valence), `s`
        (mean of s(w)) and `sc_eat` (mean effect size) by group; and `words`, see `associations`.
    """
    cfg = Job.of(*configs.compose(overrides), "").cfg
    assert isinstance(cfg.model, configs.ToyConfig)
    table = partial(stimuli.load, cfg)
    vectors = {role: load_embeddings(cfg, role, table).vectors for role in ("faces", "scenes", "words")}
    if shuffled:
        vectors = {role: shuffle(table(role), rows, seed=0) for role, rows in vectors.items()}
    faces = table("faces").frame
    s, effect = _scores(cfg, vectors["faces"], table("words"), vectors["words"])
    _, scenes = _scores(cfg, vectors["scenes"], table("words"), vectors["words"])
    by_group = pd.DataFrame({"s": s, "sc_eat": effect}).groupby(faces["group"].to_numpy()).mean()
    valence = table("scenes").frame["valence"]
    return {
        "bias": cfg.demo.bias,
        "seed": cfg.model.seed,
        "spearman": float(stats.spearmanr(scenes, valence).statistic),
        "cles_gap": _cles_gap(cfg, faces, vectors["faces"]),
        "groups": by_group.assign(planted=pd.Series(cfg.demo.planted)),
        "words": associations(cfg, faces, vectors["faces"]),
    }


def _scores(cfg: configs.RunConfig, targets: Any, words: Table, vectors: Any) -> tuple[Any, Any]:
    # s(w) and SC-EAT of each target, averaged over the templates.
    pools = corpus_of(words, cfg.protocol, cfg.seed).pools
    s, effect = np.zeros(len(targets)), np.zeros(len(targets))
    for pool in pools:
        to_a, to_b = (similarity(targets, vectors[pool.rows[sets[0]]]) for sets in (pool.a, pool.b))
        s += (to_a.mean(dim=1) - to_b.mean(dim=1)).numpy()
        effect += sc_eat(to_a, to_b, cfg.protocol.ddof).numpy()
    return s / len(pools), effect / len(pools)


def _cles_gap(cfg: configs.RunConfig, faces: pd.DataFrame, vectors: Any) -> float:
    # Mean over the traits of |CLES - 1/2| between the groups with the highest and the lowest planted look.
    planted = pd.Series(cfg.demo.looks)
    if not len(planted):
        return float("nan")
    gaps = []
    for words in cfg.demo.traits.values():
        cosines = similarity(vectors, embed_captions(cfg, [LOOK.format(word) for word in words])).numpy()
        highest, lowest = (cosines[faces["group"] == group] for group in (planted.idxmax(), planted.idxmin()))
        gaps.append(abs(cles(highest, lowest) - 0.5))
    return float(np.mean(gaps))


def tabulate(measured: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Arrange results of `measure` in three tables: of toys, of their groups, and of their captions.

    Returns:
        toys: one row per toy: `bias, seed, spearman, cles_gap, pearson` (of planted valence and mean
            s(w)), `slope` (of the mean SC-EAT on the planted valence), and the values of `separation`.
        groups: one row per toy and group: `bias, seed, group, planted, s, sc_eat`.
        words: one row per toy and caption: `bias, seed`, and the columns of `associations`.
    """
    toys, groups, words = [], [], []
    for toy in measured:
        about = {name: toy[name] for name in ("bias", "seed")}
        table = toy["groups"]
        pearson = stats.pearsonr(table["planted"], table["s"]).statistic
        slope = stats.linregress(table["planted"], table["sc_eat"]).slope
        scores = {name: toy[name] for name in ("spearman", "cles_gap")}
        toys.append({**about, **scores, "pearson": pearson, "slope": slope, **separation(toy["words"])})
        groups.append(pd.DataFrame(about, table.index).join(table).rename_axis("group").reset_index())
        words.append(pd.DataFrame(about, toy["words"].index).join(toy["words"]))
    columns = ["bias", "seed", "group", "planted", "s", "sc_eat"]
    all_groups = pd.concat(groups, ignore_index=True)[columns]
    return pd.DataFrame(toys), all_groups, pd.concat(words, ignore_index=True)
