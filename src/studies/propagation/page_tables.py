"""Build tables for the page's templates and for papers, with the paper's numbers next to the sweep's."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import latex
from src.report.findings import Findings
from src.report.forest_plot import sort_by
from src.report.format import COLUMNS
from src.studies.propagation import retrieved_items
from src.studies.propagation.combined import LEVEL, main_analyses
from src.studies.propagation.paper_figures import PAIRS
from src.studies.propagation.tables import OVERALL, PUBLISHED_HEADING, REPLICATED

Row = Mapping[str, Any]
LATEX_COMMENT = "Mean and SD of Spearman's rho over analyses. Needs \\usepackage{booktabs}."
# Retrieved items in each direction, per stratum.
MAX_ITEMS = 5
CONTRIBUTORS = ["config", "exp", "model", *retrieved_items.COLUMNS]
# The single values of rho in the paper's text (docs/methods.md, section 2).
SINGLES = Path(__file__).with_name("ghate2025_single.csv")
# The paper's mean and SD of rho over the analyses of both directions of a baseline, of all its models.
POOLED = Path(__file__).with_name("ghate2025_pooled.csv")
DIRECTIONS = 2


def arrange(analyses: pd.DataFrame) -> pd.DataFrame:
    """Return the analyses in order of the paper's experiments, with every column of the page (or NaN)."""
    names = (*(column.name for column in COLUMNS), *LEVEL, "rho_placebo_units")
    completed = analyses.assign(**{name: math.nan for name in names if name not in analyses})
    return sort_by(completed, exp=[*dict.fromkeys([*sum(PAIRS, ()), *completed["exp"]])])


def latex_table(means: pd.DataFrame) -> str:
    """Format mean ± SD of rho of `tables.summary` as LaTeX; needs the package `booktabs`."""
    rows = []
    for (exp, paper), exp_rows in means.groupby(["exp", "paper"], sort=False):
        cells = exp_rows.set_index("model")
        row = {"Experiment": str(exp), "": "" if exp == OVERALL else str(paper)}
        for model, cell in cells.iterrows():
            row[str(model)] = _mean_and_sd(cell["mean"], cell["sd"]) if cell["analyses"] else "--"
        if "published_mean" in means:
            row[PUBLISHED_HEADING] = _mean_and_sd(*cells.loc[OVERALL, ["published_mean", "published_sd"]])
        rows.append(row)
    models = [str(model) for model in dict.fromkeys(means["model"])]
    columns = ["Experiment", "", *models, *[PUBLISHED_HEADING] * ("published_mean" in means)]
    table = latex.to_latex(pd.DataFrame(rows, columns=columns).fillna(""), names=2, comment=LATEX_COMMENT)
    return table.replace(f"\n{OVERALL} & ", f"\n\\midrule\n{OVERALL} & ")


def _mean_and_sd(mean: float, sd: float) -> str:
    if pd.isna(mean):
        return ""
    return f"${mean:.2f}" + ("$" if pd.isna(sd) else rf" \pm {sd:.2f}$")


def singles(analyses: pd.DataFrame) -> pd.DataFrame:
    """Join the paper's single values of rho with the sweep's (dataset=paper) by experiment, model, group."""
    columns = ["exp", "paper", "model", "group", "rho", "ci_low", "ci_high", "config", "stratum"]
    rhos = analyses.loc[analyses["dataset"] == REPLICATED, columns]
    return pd.read_csv(SINGLES).merge(rhos, on=["exp", "model", "group"])


def pooled_baselines(analyses: pd.DataFrame) -> pd.DataFrame:
    """Summarise rho over all analyses of both directions of each baseline, as the paper pools them.

    Rows for baselines (1*, 2*) with both directions in the sweep: `baseline`, `mean`, `sd` (ddof 1),
    `analyses` (number with a rho), `lowest`, `highest`; for dataset=paper also the paper's `published_mean`,
    `published_sd`, `published_analyses` and `published_singles` (text).
    """
    published = pd.read_csv(POOLED).fillna({"published_singles": ""})
    # The name of an experiment in the paper, such as 1*-a, is that of its baseline and a direction.
    rows = analyses.assign(baseline=analyses["paper"].astype(str).str.partition("-")[0])
    rows = rows[rows["baseline"].isin(published["baseline"])]
    both = rows.groupby("baseline")["paper"].transform("nunique") == DIRECTIONS
    rhos = rows[both].groupby("baseline", sort=False)["rho"]
    pooled = rhos.agg(mean="mean", sd="std", analyses="count", lowest="min", highest="max").reset_index()
    return pooled.merge(published) if {*analyses["dataset"]} == {REPLICATED} else pooled


def pairs_of_models(differences: pd.DataFrame) -> list[Row]:
    """Summarise differences of models per experiment and pair, over the groups."""
    rows: list[Row] = []
    for keys, pair_rows in differences.groupby(["exp", "first", "second"], sort=False):
        row = dict(zip(("exp", "first", "second"), keys, strict=True))
        values, q, level_q = pair_rows["difference"], pair_rows["q"], pair_rows["level_delta_q"]
        row |= {"level_known": int(level_q.notna().sum()), "level_small_q": int((level_q <= 0.05).sum())}
        row |= {"mean": values.mean(), "lowest": values.min(), "highest": values.max()}
        rows.append(row | {"known": int(q.notna().sum()), "small_q": int((q <= 0.05).sum())})
    return rows


def contributors(findings: Findings) -> pd.DataFrame:
    """Return the items that raise and lower each stratum's outcome most (columns: `CONTRIBUTORS`).

    Faces are numbered within a job, not displayed or named, since their names may identify a person.
    """
    jobs = main_analyses(findings)
    strata = [*dict.fromkeys(jobs["stratum"])]
    tables = [pd.DataFrame(columns=CONTRIBUTORS)]
    for job in jobs.drop_duplicates("config").to_dict("records"):
        if not findings.has(job["config"], "retrieved"):
            continue
        items = findings.read(job["config"], "retrieved")
        if str(job["exp"]).endswith("_to_faces"):
            numbers = {item: number for number, item in enumerate(sorted(items["item"].unique()), 1)}
            items = items.assign(item=[f"face no. {numbers[item]}" for item in items["item"]])
        items = items.sort_values("contribution", ascending=False, kind="stable")
        groups = items.groupby("stratum", sort=False)
        raises = (groups.cumcount() < MAX_ITEMS) & (items["contribution"] > 0)
        lowers = (groups.cumcount(ascending=False) < MAX_ITEMS) & (items["contribution"] < 0)
        job_columns = {name: job[name] for name in ("config", "exp", "model")}
        tables.append(sort_by(items[raises | lowers], stratum=strata).assign(**job_columns)[CONTRIBUTORS])
    return pd.concat(tables[1:] or tables, ignore_index=True)
