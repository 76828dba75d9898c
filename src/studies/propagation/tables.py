"""Build the table at the end of a sweep, in the layout of the paper."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import SPECIFICATION
from src.report.tables import describe, first
from src.studies.propagation.combined import score_names

OVERALL = "all"
# Ghate et al. 2025: mean and SD of rho over their three models' analyses (docs/methods.md, section 2).
PUBLISHED = Path(__file__).with_name("ghate2025.csv")
# Dataset that replicates the paper's; only its results are listed with the paper's numbers.
REPLICATED = "paper"
PAPER_NOTE = "; theirs over three models (CLIP B/32, L/14, BLIP-2): a spread over analyses, not a tolerance"


def above(analyses: pd.DataFrame) -> pd.Series:
    """Mark the rows with rho above their placebo's 95th percentile; NA where either is undefined."""
    if "placebo_q95" not in analyses:
        return pd.Series(pd.NA, analyses.index, dtype="boolean")
    defined = analyses["rho"].notna() & analyses["placebo_q95"].notna()
    return (analyses["rho"] > analyses["placebo_q95"]).astype("boolean").where(defined)


def specification_spread(analyses: pd.DataFrame) -> pd.DataFrame:
    """Summarise the spread of rho over the specifications that the papers leave open; descriptive.

    Rows per experiment, and another per `scores` other than the paper's: `exp`, `paper`, `readings` (number
    of specifications); `median`, `lowest` and `highest` over the specifications' means of rho; `above` of
    `compared` analyses exceed their placebo's 95th percentile, and their `share`.
    """
    is_above = above(analyses).to_numpy(float, na_value=math.nan)
    compared = analyses.assign(above=is_above, scores=score_names(analyses))
    rows = []
    for (exp, paper, scores), exp_rows in compared.groupby(["exp", "paper", "scores"], sort=False):
        means = exp_rows.groupby(list(SPECIFICATION), sort=False)["rho"].mean()
        row = {"exp": exp, "paper": paper, "scores": scores, "readings": len(means)}
        row |= {"median": means.median(), "lowest": means.min(), "highest": means.max()}
        row |= {"above": int(exp_rows["above"].sum()), "compared": int(exp_rows["above"].count())}
        rows.append(row | {"share": exp_rows["above"].mean()})
    table = pd.DataFrame(rows)
    return table if len(rows) and table["scores"].any() else table.drop(columns="scores", errors="ignore")


def summary(analyses: pd.DataFrame) -> pd.DataFrame:
    """Compute mean and SD (ddof 1) of rho per experiment, model and overall, under the first specification.

    Rows per experiment and model, each also `all`: `exp`, `paper`, `model`, `mean`, `sd`, `analyses` (number
    with a rho), `undefined` (number without); for `dataset=paper` also the paper's `published_mean` and
    `published_sd`. Of `level_with_q` analyses, `level_small_q` have level_q ≤ .05; `slope` is the mean slope.
    """
    analyses, _, _ = first(analyses)
    keys, tables = ["exp", "paper", "model"], []
    for pooled in ([], ["model"], ["exp", "paper"], keys):
        rows = analyses.assign(**dict.fromkeys(pooled, OVERALL))
        rhos = rows.groupby(keys, sort=False)["rho"]
        counts = pd.DataFrame(rhos.agg(mean="mean", sd="std", analyses="count", undefined="size"))
        level_q = rows["level_q"] if "level_q" in rows else pd.Series(math.nan, rows.index)
        by = [rows[name] for name in keys]
        counts["level_small_q"] = (level_q <= 0.05).groupby(by, sort=False).sum()
        counts["level_with_q"] = level_q.groupby(by, sort=False).count()
        slope = rows["slope"] if "slope" in rows else pd.Series(math.nan, rows.index)
        counts["slope"] = slope.groupby(by, sort=False).mean()
        counts = counts.reset_index()
        tables.append(counts.assign(undefined=counts["undefined"] - counts["analyses"]))
    means = pd.concat(tables, ignore_index=True).astype(dict.fromkeys(keys, object))
    if set(analyses.get("dataset", ())) != {REPLICATED}:
        return means
    # Joined by experiment: the paper's means are over all models.
    return means.merge(pd.read_csv(PUBLISHED), on="exp", how="left")


def mean_tree(analyses: pd.DataFrame) -> dict[str, Any]:
    """Return mean rho by model and experiment, and over all, as a tree for other tools."""
    rho = analyses["rho"]
    tree: dict[str, Any] = {"mean": rho.mean(), "sd": rho.std(ddof=1)}
    tree |= {"analyses": int(rho.count()), "undefined": int(rho.isna().sum())}
    means = analyses.groupby(["model", "exp"])["rho"].mean().dropna().reset_index()
    for row in means.to_dict("records"):
        tree.setdefault(str(row["model"]), {})[str(row["exp"])] = row["rho"]
    return tree


def terminal(analyses: pd.DataFrame, title: str) -> Table:
    """Return the summary as a table for the terminal: experiments down, models across."""
    means = summary(analyses)
    analyses, specification, others = first(analyses)
    is_above = above(analyses)
    has_placebo, compared = bool(is_above.notna().any()), "published_mean" in means
    models = [*dict.fromkeys(means["model"])]
    models = models[:1] if len(models) == 2 else models  # with a single model "all" repeats it
    has_level = bool(means["level_with_q"].any())
    caption = "mean ± SD of Spearman's ρ over analyses" + PAPER_NOTE * compared
    if has_level:
        caption = f"level: number of analyses whose level of carry-over has q ≤ .05; slope: mean; {caption}"
    if has_placebo:
        caption += "; above placebo: number above their placebo's 95th percentile"
    if others:
        caption += f"; of {describe(specification)}, the first of {others + 1} specifications"
    table = Table(title=title, caption=caption)
    for name in ("experiment", "paper"):
        table.add_column(name, no_wrap=True)
    names = [
        *["level", "slope"] * has_level,
        *map(str, models),
        *["Ghate et al."] * compared,
        "analyses",
        *["above placebo"] * has_placebo,
    ]
    for heading in names:
        table.add_column(Text(heading), justify="right", no_wrap=heading == "Ghate et al.")
    for (exp, paper), rows in means.groupby(["exp", "paper"], sort=False):
        cells = rows.set_index("model").to_dict("index")
        overall = cells[OVERALL]
        texts = [str(exp), "" if exp == OVERALL else str(paper)]
        if has_level:
            texts += [f"{overall['level_small_q']} of {overall['level_with_q']}", f"{overall['slope']:.2f}"]
        for model in models:
            cell = cells.get(model)
            texts.append("" if cell is None else _mean_and_sd(cell["mean"], cell["sd"]) or "none")
        if compared:
            texts.append(_mean_and_sd(overall["published_mean"], overall["published_sd"]))
        undefined = f", {overall['undefined']} undefined" if overall["undefined"] else ""
        texts.append(f"{overall['analyses']}{undefined}")
        if has_placebo:
            exp_above = is_above[(analyses["exp"] == exp) | (exp == OVERALL)]
            texts.append(f"{int(exp_above.sum())} of {int(exp_above.count())}")
        table.add_row(*texts, end_section=exp == [name for name in means["exp"] if name != OVERALL][-1])
    return table


def spread(analyses: pd.DataFrame, dataset: str) -> tuple[pd.DataFrame, str]:
    """Return `specification_spread` for the terminal and its title."""
    spreads = specification_spread(analyses)
    names = [name for name in ("exp", "paper", "scores", "readings") if name in spreads]
    table = spreads[names].rename(columns={"exp": "experiment", "readings": "specifications"})
    if "scores" in table:
        table["scores"] = table["scores"].replace("", "the paper's")
    table["median ρ"] = spreads["median"].map("{:.2f}".format)
    table["range"] = spreads["lowest"].map("{:.2f}".format) + " to " + spreads["highest"].map("{:.2f}".format)
    counted = spreads["above"].astype(str) + " of " + spreads["compared"].astype(str)
    table["above placebo"] = counted.where(spreads["compared"] > 0, "")
    return table, f"{dataset}: mean ρ over {spreads['readings'].max()} specifications; descriptive"


def _mean_and_sd(mean: float, sd: float) -> str:
    if pd.isna(mean):
        return ""
    return f"{mean:.2f}" + ("" if pd.isna(sd) else f" ± {sd:.2f}")
