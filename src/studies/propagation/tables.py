"""Summarise rho and level over the analyses of a sweep, in the layout of the paper's table."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from src.report.findings import SPECIFICATION, list_specifications
from src.report.format import format_number
from src.report.tables import DASH, MAX_MODEL_COLUMNS, describe, select_first_specification
from src.studies.propagation.combined import score_names_of

OVERALL = "all"
# Ghate et al. 2025: mean and SD of rho per experiment, over three models (docs/methods.md, section 2).
PUBLISHED_MEANS_PATH = Path(__file__).with_name("ghate2025.csv")
# Dataset that replicates the paper's: only its results are compared with the published numbers.
PAPER_DATASET = "paper"
PUBLISHED_HEADING = "Ghate et al."
# Names in the first column are not broken into lines if none has more letters.
MAX_UNBROKEN = 20
# Rounding tolerance for a mean at an end of the paper's mean ± SD.
TOLERANCE = 1e-12
PAPER_NOTE = "; theirs over three models (CLIP B/32, L/14, BLIP-2): a spread over analyses, not a tolerance"


def mark_above_placebo(analyses: pd.DataFrame) -> pd.Series:
    """Mark the analyses whose rho is above its placebo's 95th percentile; NA if either is undefined."""
    if "placebo_q95" not in analyses:
        return pd.Series(pd.NA, analyses.index, dtype="boolean")
    defined = analyses["rho"].notna() & analyses["placebo_q95"].notna()
    return (analyses["rho"] > analyses["placebo_q95"]).astype("boolean").where(defined)


def summarise_specifications(analyses: pd.DataFrame) -> pd.DataFrame:
    """Summarise mean rho over specifications; descriptive.

    A row per experiment and, if any are not the paper's, per pair of `scores`: `exp`, `paper`, `scores`;
    `readings`, the number of specifications with a rho; `median`, `lowest` and `highest` of their mean rhos;
    `above`, the number of analyses above their placebo's 95th percentile, out of `compared`; and the `share`
    of these.
    """
    is_above = mark_above_placebo(analyses).to_numpy(float, na_value=math.nan)
    compared = analyses.assign(above=is_above, scores=score_names_of(analyses))
    rows = []
    for (exp, paper, scores), exp_rows in compared.groupby(["exp", "paper", "scores"], sort=False):
        means = exp_rows.groupby(list(SPECIFICATION), sort=False)["rho"].mean()
        row = {"exp": exp, "paper": paper, "scores": scores, "readings": int(means.count())}
        row |= {"median": means.median(), "lowest": means.min(), "highest": means.max()}
        row |= {"above": int(exp_rows["above"].sum()), "compared": int(exp_rows["above"].count())}
        rows.append(row | {"share": exp_rows["above"].mean()})
    table = pd.DataFrame(rows)
    return table if len(rows) and table["scores"].any() else table.drop(columns="scores", errors="ignore")


def summarise_rhos(analyses: pd.DataFrame) -> pd.DataFrame:
    """Summarise the analyses of the first specification per experiment and model, and over all of either.

    Columns: `exp`, `paper`, `model` (each may be "all"); `mean` and `sd` (ddof 1) of rho; `analyses` and
    `undefined`, the numbers of analyses with and without a rho; `level_small_q`, the number with level_q ≤
    .05, out of `level_with_q`; `slope`, the mean slope; for dataset=paper also `published_mean` and
    `published_sd` of the experiment.
    """
    analyses, _, _ = select_first_specification(analyses)
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
    if set(analyses.get("dataset", ())) != {PAPER_DATASET}:
        return means
    # The published means are over all models, so they are repeated for each model.
    return means.merge(pd.read_csv(PUBLISHED_MEANS_PATH), on="exp", how="left")


def build_mean_tree(analyses: pd.DataFrame) -> dict[str, Any]:
    """Return mean rho of all analyses and by model and experiment, as nested dictionaries for JSON."""
    rho = analyses["rho"]
    tree: dict[str, Any] = {"mean": rho.mean(), "sd": rho.std(ddof=1)}
    tree |= {"analyses": int(rho.count()), "undefined": int(rho.isna().sum())}
    means = analyses.groupby(["model", "exp"])["rho"].mean().dropna().reset_index()
    for row in means.to_dict("records"):
        tree.setdefault(str(row["model"]), {})[str(row["exp"])] = row["rho"]
    return tree


def build_main_table(analyses: pd.DataFrame, *, with_comparison: bool = False) -> pd.DataFrame:
    """Build the main table as texts: a row per experiment and a column per model.

    With many models, models are rows and experiments columns. Missing values are dashes. With
    `with_comparison`, each mean is marked as inside or outside the paper's mean ± SD.
    """
    means, rows = summarise_rhos(analyses), select_first_specification(analyses)[0]
    models = [*dict.fromkeys(rows["model"])]
    has_many_models = len(models) > MAX_MODEL_COLUMNS
    row_key, column_key = ("model", "exp") if has_many_models else ("exp", "model")
    # With a single column, "all" would repeat it.
    columns = [name for name in dict.fromkeys(means[column_key]) if name != OVERALL]
    columns += [OVERALL] * (not has_many_models and len(columns) > 1)
    is_above = mark_above_placebo(rows)
    papers = means.drop_duplicates("exp").set_index("exp")["paper"]
    lines = []
    for name in [*dict.fromkeys(rows[row_key]), OVERALL]:
        cells = means[means[row_key] == name].set_index(column_key).to_dict("index")
        overall = cells[OVERALL]
        line = {"model" if has_many_models else "experiment": str(name)}
        if not has_many_models:
            line["paper"] = DASH if name == OVERALL else str(papers[name] or DASH)
        if means["level_with_q"].any():
            line["level"] = f"{overall['level_small_q']} of {overall['level_with_q']}"
            line["slope"] = _format_mean_and_sd(overall["slope"])
        for column in columns:
            cell = cells.get(column, {"mean": math.nan, "sd": math.nan})
            text = _format_mean_and_sd(cell["mean"], math.nan if has_many_models else cell["sd"])
            if with_comparison and text != DASH and (comparison := compare_with_paper(cell)):
                text += f", {comparison}"
            line[str(papers[column] or column) if has_many_models else str(column)] = text
        if "published_mean" in means and not has_many_models:
            line[PUBLISHED_HEADING] = _format_mean_and_sd(overall["published_mean"], overall["published_sd"])
        undefined = f", {overall['undefined']} undefined" if overall["undefined"] else ""
        line["analyses"] = f"{overall['analyses']}{undefined}"
        if is_above.notna().any():
            chosen = is_above[(rows[row_key] == name) | (name == OVERALL)]
            line["above placebo"] = f"{int(chosen.sum())} of {int(chosen.count())}"
        lines.append(line)
    return pd.DataFrame(lines).fillna(DASH)


def explain_columns(analyses: pd.DataFrame) -> str:
    """Return a sentence that explains the columns of `build_main_table`."""
    table, specifications = build_main_table(analyses), list_specifications(analyses)
    parts = []
    if "level" in table:
        parts.append("level: number of analyses whose level of carry-over has q ≤ .05; slope: mean")
    statistic = "mean" if "model" in table else "mean ± SD"
    parts.append(f"{statistic} of Spearman's ρ over analyses" + PAPER_NOTE * (PUBLISHED_HEADING in table))
    if "above placebo" in table:
        parts.append("above placebo: number above their placebo's 95th percentile")
    if len(specifications) > 1:
        parts.append(f"of {describe(specifications[0])}, the first of {len(specifications)} specifications")
    return "; ".join(parts)


def build_terminal_table(analyses: pd.DataFrame, title: str) -> Table:
    """Build the main table for the terminal."""
    frame = build_main_table(analyses)
    table = Table(title=title, caption=explain_columns(analyses), padding=0)
    is_short = frame.iloc[:, 0].str.len().max() <= MAX_UNBROKEN
    for index, name in enumerate(frame.columns):
        # In a narrow terminal, cells are broken into lines rather than cut off.
        options: dict[str, Any] = {"justify": "right"} if index else {"no_wrap": is_short}
        table.add_column(Text(name), overflow="fold", **options)
    for row in frame.itertuples(index=False):
        table.add_row(*map(Text, row), end_section=row[0] == frame.iloc[-2, 0])
    return table


def compare_with_paper(cell: Mapping[str, Any]) -> str:
    """Return whether a mean is "inside" or "outside" the paper's mean ± SD; empty if either is missing.

    `cell` is a row of `summarise_rhos`. Descriptive: the paper's SD is a spread over analyses, not a
    tolerance.
    """
    distance = abs(cell["mean"] - cell.get("published_mean", math.nan))
    if math.isnan(distance):
        return ""
    return "inside" if distance <= cell["published_sd"] + TOLERANCE else "outside"


def build_spread_table(analyses: pd.DataFrame, dataset: str) -> tuple[pd.DataFrame, str]:
    """Build the table of `summarise_specifications` for the terminal; return it with its title."""
    spreads = summarise_specifications(analyses)
    names = [name for name in ("exp", "paper", "scores", "readings") if name in spreads]
    table = spreads[names].rename(columns={"exp": "experiment", "readings": "specifications"})
    if "scores" in table:
        table["scores"] = table["scores"].replace("", "the paper's")
    median, lowest, highest = (
        spreads[name].map(lambda value: format_number(value, 2)) for name in ("median", "lowest", "highest")
    )
    table["median ρ"], table["range"] = median, lowest + " to " + highest
    counted = spreads["above"].astype(str) + " of " + spreads["compared"].astype(str)
    table["above placebo"] = counted.where(spreads["compared"] > 0, "")
    return table, f"{dataset}: mean ρ over {spreads['readings'].max()} specifications; descriptive"


def _format_mean_and_sd(mean: float, sd: float = math.nan) -> str:
    if pd.isna(mean):
        return DASH
    return f"{mean:z.2f}" + ("" if pd.isna(sd) else f" ± {sd:.2f}")
