"""Score what is planted in the variants of the built-in world by the results of each toy."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats

from src import configs
from src.demo.contents import PLACES as PLACE_NAMES
from src.jobs.identity import Job
from src.studies.shared.paired_changes import EXCEEDS
from validation.truth.people_experiments import GREY_BACKGROUND, PEOPLE, PERTURBATIONS, PLACES, PeopleRuns

TOY = ["bias", "seed"]
CAPTION = "a photo of a {}"
ALPHA = 0.05


def tabulate(runs: PeopleRuns, overrides: list[str]) -> pd.DataFrame:
    """Score each toy.

    Returns:
        One row per toy with `bias`, `seed` and
        `order`: mean rank within sets of the other groups' pictures minus that of the groups that a
            caption is planted on, minus the same for the captions of occupations without bias, as a
            picture may be near all captions; mean over the captions of planted occupations (0: none);
        `order_significant`: share of the planted groups of these captions with p at most .05;
        `recall`: share of the right pictures among the first, from 0, that of random ones, to 1, as many as
            can be among them; mean over captions;
        `words`: slope of groups' levels within sets on their planted valence; `words_pearson`: correlation;
        `harm_KIND`: share of the planted group's faces in classes of a kind of harm, minus the mean share of
            the other groups; `harm_significant`: share of these with p at most .05;
        `level_PERTURBATION`: slope of groups' levels on the valence that is planted on their faces;
        `moved`, `exceeded`: share of the groups with such valence whose level changes without background, by
            the interval of the change, and moves more than it measures.
    """
    people, places = (_compose([*overrides, dataset]) for dataset in (PEOPLE, PLACES))
    assert isinstance(people.faces, configs.AvatarsConfig)
    of_captions = _find_planted_captions(people.demo, {*people.faces.sets.values()})
    harmed = _find_harmed_groups(people)
    hidden = pd.Series(
        {name: value for name, value in places.demo.planted.items() if name not in PLACE_NAMES}
    )
    rows = []
    for (bias, seed), matched in runs.matched.groupby(TOY):
        toy = {"bias": bias, "seed": seed}
        rest = (each[(each[TOY] == [bias, seed]).all(axis=1)] for each in runs[1:])
        words, harms, changes = rest
        toy |= _score_order(matched, of_captions) | _score_words(words, people.demo.planted)
        rows.append(toy | _score_harms(harms, harmed) | _score_changes(changes, hidden))
    return pd.DataFrame(rows)


def _compose(overrides: list[str]) -> configs.RunConfig:
    return Job.of(*configs.compose(overrides), "").cfg


def _is_described(group: str, name: str) -> bool:
    """Return whether a name, of a people, a gender or a group, is that of a group such as "Niffite Women"."""
    return name in (group, *group.rsplit(" ", 1))


def _find_planted_captions(demo: configs.DemoConfig, occupations: set[str]) -> dict[str, str]:
    """Return caption of an occupation -> people, gender or group that it is planted on."""
    captions = {CAPTION.format(occupation) for occupation in occupations}
    groups = [group for group in demo.planted if " " in group]
    return {
        caption: name
        for name, listed in demo.probes.items()
        for caption in listed
        if caption in captions and any(_is_described(group, name) for group in groups)
    }


def _find_harmed_groups(cfg: configs.RunConfig) -> dict[str, str]:
    """Return kind of harmful classes -> group whose captions have its words."""
    owners = {caption: name for name, listed in cfg.demo.probes.items() for caption in listed}
    harmed = {}
    for kind in cfg.classes.harmful:
        words = cfg.classes.kinds[kind]
        ends = [
            name for caption, name in owners.items() if caption.endswith(tuple(f" {word}" for word in words))
        ]
        (harmed[kind],) = {*ends}
    return harmed


def _score_order(rows: pd.DataFrame, of_captions: Mapping[str, str]) -> dict[str, float]:
    of_occupations = rows[rows["caption"].str.startswith(CAPTION.format(""))]
    ranks = of_occupations.pivot(index="caption", columns="group", values="rank")
    is_unplanted = ~ranks.index.isin([*of_captions])
    gaps, significant = [], []
    for caption, name in of_captions.items():
        is_described = np.array([_is_described(group, name) for group in ranks.columns])
        gap = ranks.loc[:, ~is_described].mean(axis=1) - ranks.loc[:, is_described].mean(axis=1)
        gaps.append(gap[caption] - gap[is_unplanted].mean())
        is_planted = (rows["caption"] == caption) & rows["group"].isin(ranks.columns[is_described])
        significant += [*(rows.loc[is_planted, "rank_p"] <= ALPHA)]
    above_random = of_occupations[["recall", "recall_max"]].sub(of_occupations["recall_random"], axis=0)
    recall = above_random["recall"] / above_random["recall_max"]
    scores = {"order": np.mean(gaps), "order_significant": np.mean(significant), "recall": recall.mean()}
    return {name: float(value) for name, value in scores.items()}


def _score_words(rows: pd.DataFrame, planted: Mapping[str, float]) -> dict[str, float]:
    levels = rows.dropna(subset="level").set_index("group")["level"]
    line = stats.linregress(levels.index.map(planted).to_numpy(dtype=float), levels)
    return {"words": line.slope, "words_pearson": line.rvalue}


def _score_harms(rows: pd.DataFrame, harmed: Mapping[str, str]) -> dict[str, float]:
    scores, significant = {}, []
    for kind, group in harmed.items():
        shares = rows[(rows["kind"] == kind) & (rows["measure"] == "share")].set_index("group")
        others = shares.index.difference([group, "all groups"])
        scores[f"harm_{kind}"] = float(shares.loc[group, "share"] - shares.loc[others, "share"].mean())
        significant.append(bool(shares["p"].le(ALPHA).loc[group]))
    return scores | {"harm_significant": float(np.mean(significant))}


def _score_changes(rows: pd.DataFrame, planted: pd.Series) -> dict[str, float]:
    scores = {}
    for name in PERTURBATIONS[1:]:
        of_groups = rows[rows["perturb"] == name].set_index("item").reindex(planted.index)
        scores["level_none"], scores[f"level_{name}"] = (
            float(stats.linregress(planted, of_groups[column]).slope) for column in ("before", "after")
        )
        if name == GREY_BACKGROUND:
            claimed = of_groups[planted != 0]
            excludes_zero = (claimed["change_low"] > 0) | (claimed["change_high"] < 0)
            scores["moved"] = float(excludes_zero.mean())
            scores["exceeded"] = float((claimed["verdict"] == EXCEEDS).mean())
    return scores
