"""Score differences between languages, and the placement of their texts, by each toy."""

import numpy as np
import pandas as pd
from scipy import stats

from src import configs
from src.jobs.identity import Job
from src.studies.languages.validity import LABELS, LANGUAGE, YES
from validation.truth.languages_experiments import (
    DIFFERENT,
    ENGLISH_ALONE,
    GROUP_EXPERIMENTS,
    INVENTED,
    WORLDS,
)

TOY = ["world", "toy_seed"]


def score_differences(rows: pd.DataFrame, overrides: list[str]) -> pd.DataFrame:
    """Score the differences of levels and of ρ to English by what is planted on the groups in English.

    Returns:
        One row per toy of both languages and group experiment, with `world`, `toy_seed`, `exp` and
        `slope`: slope of the differences of the groups' levels on their planted valence;
        `slope_english`: that of the levels in English;
        `on_side`: share of the groups with planted valence whose difference has an interval clear of 0, on
            the side that a bias in English alone has;
        `clear`: share of all groups whose interval is clear of 0;
        `rho`: difference of ρ, mean over the groups with planted valence;
        `rho_clear`: share of all groups whose difference of ρ has an interval clear of 0.
    """
    cfg = Job.of(*configs.compose([*overrides, *WORLDS[DIFFERENT]]), "").cfg
    planted = pd.Series(cfg.demo.planted)
    scores = []
    of_both = rows[(rows["world"] != ENGLISH_ALONE) & (rows[LANGUAGE] == INVENTED)]
    for (world, seed, exp), jobs in of_both.groupby([*TOY, "exp"], sort=False):
        if exp not in GROUP_EXPERIMENTS:
            continue
        levels, rhos = (
            jobs[jobs["measure"] == name].set_index("item").reindex(planted.index)
            for name in ("level", "rho")
        )
        is_clear = _exclude_zero(levels)
        on_side = is_clear & (np.sign(levels["difference"]) == -np.sign(planted))
        scores.append(
            {
                **dict(zip([*TOY, "exp"], (world, seed, exp), strict=True)),
                "slope": stats.linregress(planted, levels["difference"]).slope,
                "slope_english": stats.linregress(planted, levels["value_english"]).slope,
                "on_side": on_side[planted != 0].mean(),
                "clear": is_clear.mean(),
                "rho": rhos["difference"][planted != 0].mean(),
                "rho_clear": _exclude_zero(rhos).mean(),
            }
        )
    return pd.DataFrame(scores)


def score_placement(rows: pd.DataFrame) -> pd.DataFrame:
    """Score which texts each toy places.

    Returns:
        One row per toy, language and kind of text, with `world`, `toy_seed`, `language`, `text`, `texts`:
        number of groups of labels, or 1, and `placed`: share of them that are placed.
    """
    checks = rows[rows["checks"].fillna(False).astype(bool)]
    scopes = checks.assign(scope=checks["item"].where(checks["text"] == LABELS, ""))
    scopes = scopes.drop_duplicates([*TOY, LANGUAGE, "text", "scope"])
    placed = (scopes["placed"] == YES).groupby(
        [scopes[name] for name in (*TOY, LANGUAGE, "text")], sort=False
    )
    return placed.agg(["size", "mean"]).set_axis(["texts", "placed"], axis=1).reset_index()


def _exclude_zero(rows: pd.DataFrame) -> pd.Series:
    return (rows["difference_low"] > 0) | (rows["difference_high"] < 0)
