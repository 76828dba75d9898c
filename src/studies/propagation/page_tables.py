"""Build tables of the report and a LaTeX table, with the numbers of Ghate et al. next to the sweep's."""

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
from src.studies.propagation.combined import LEVEL, select_main_analyses
from src.studies.propagation.paper_figures import PAIRS
from src.studies.propagation.tables import OVERALL, PAPER_DATASET, PUBLISHED_HEADING

Row = Mapping[str, Any]
LATEX_COMMENT = "Mean and SD of Spearman's rho over analyses. Needs \\usepackage{booktabs}."
# Maximum number of items listed per stratum that raise its outcome, and of items that lower it.
MAX_CONTRIBUTORS = 5
CONTRIBUTOR_COLUMNS = ["config", "exp", "model", *retrieved_items.COLUMNS]
# Single values of rho in the paper's text (docs/methods.md, section 2).
PUBLISHED_RHOS_PATH = Path(__file__).with_name("ghate2025_single.csv")
# The paper's mean and SD of rho per baseline, over both directions and all models.
PUBLISHED_POOLED_PATH = Path(__file__).with_name("ghate2025_pooled.csv")
N_DIRECTIONS = 2


def sort_and_pad(analyses: pd.DataFrame) -> pd.DataFrame:
    """Sort analyses in the order of the paper's experiments; add missing columns of the page as NaN."""
    names = (*(column.name for column in COLUMNS), *LEVEL, "rho_placebo_units")
    padded = analyses.assign(**{name: math.nan for name in names if name not in analyses})
    return sort_by(padded, exp=[*dict.fromkeys([*sum(PAIRS, ()), *padded["exp"]])])


def build_latex_table(means: pd.DataFrame) -> str:
    """Format mean ± SD of rho of `tables.summarise_rhos` as a LaTeX table; needs the package `booktabs`."""
    rows = []
    for (exp, paper), exp_rows in means.groupby(["exp", "paper"], sort=False):
        cells = exp_rows.set_index("model")
        row = {"Experiment": str(exp), "": "" if exp == OVERALL else str(paper)}
        for model, cell in cells.iterrows():
            row[str(model)] = _format_mean_and_sd(cell["mean"], cell["sd"]) if cell["analyses"] else "--"
        if "published_mean" in means:
            row[PUBLISHED_HEADING] = _format_mean_and_sd(
                *cells.loc[OVERALL, ["published_mean", "published_sd"]]
            )
        rows.append(row)
    models = [str(model) for model in dict.fromkeys(means["model"])]
    columns = ["Experiment", "", *models, *[PUBLISHED_HEADING] * ("published_mean" in means)]
    table = latex.to_latex(pd.DataFrame(rows, columns=columns).fillna(""), n_names=2, comment=LATEX_COMMENT)
    return table.replace(f"\n{OVERALL} & ", f"\n\\midrule\n{OVERALL} & ")


def _format_mean_and_sd(mean: float, sd: float) -> str:
    if pd.isna(mean):
        return ""
    return f"${mean:.2f}" + ("$" if pd.isna(sd) else rf" \pm {sd:.2f}$")


def join_published_rhos(analyses: pd.DataFrame) -> pd.DataFrame:
    """Join the paper's single values of rho with the sweep's on dataset=paper, by exp, model and group."""
    columns = ["exp", "paper", "model", "group", "rho", "ci_low", "ci_high", "config", "stratum"]
    rhos = analyses.loc[analyses["dataset"] == PAPER_DATASET, columns]
    return pd.read_csv(PUBLISHED_RHOS_PATH).merge(rhos, on=["exp", "model", "group"])


def pool_baselines(analyses: pd.DataFrame) -> pd.DataFrame:
    """Summarise rho over the analyses of both directions of each baseline, as the paper does.

    A row per baseline (1*, 2*) with both directions in the sweep: `baseline`, `mean`, `sd` (ddof 1),
    `analyses` (number with a rho), `lowest`, `highest`; for dataset=paper also `published_mean`,
    `published_sd`, `published_analyses` and `published_singles` (text).
    """
    published = pd.read_csv(PUBLISHED_POOLED_PATH).fillna({"published_singles": ""})
    # The paper names an experiment by baseline and direction, such as 1*-a.
    rows = analyses.assign(baseline=analyses["paper"].astype(str).str.partition("-")[0])
    rows = rows[rows["baseline"].isin(published["baseline"])]
    both = rows.groupby("baseline")["paper"].transform("nunique") == N_DIRECTIONS
    rhos = rows[both].groupby("baseline", sort=False)["rho"]
    pooled = rhos.agg(mean="mean", sd="std", analyses="count", lowest="min", highest="max").reset_index()
    return pooled.merge(published) if {*analyses["dataset"]} == {PAPER_DATASET} else pooled


def summarise_model_pairs(differences: pd.DataFrame) -> list[Row]:
    """Summarise differences of models over the groups, per experiment and pair of models.

    Keys: `exp`, `first`, `second`; `mean`, `lowest` and `highest` difference of rhos; `n_tested` and
    `n_significant`, the numbers of rhos with a q, and with q ≤ .05; `n_levels_tested` and
    `n_levels_significant`, likewise for levels.
    """
    rows: list[Row] = []
    for keys, pair_rows in differences.groupby(["exp", "first", "second"], sort=False):
        row = dict(zip(("exp", "first", "second"), keys, strict=True))
        values, q, level_q = pair_rows["difference"], pair_rows["q"], pair_rows["level_delta_q"]
        row |= {"n_levels_tested": int(level_q.notna().sum())}
        row |= {"n_levels_significant": int((level_q <= 0.05).sum())}
        row |= {"mean": values.mean(), "lowest": values.min(), "highest": values.max()}
        rows.append(row | {"n_tested": int(q.notna().sum()), "n_significant": int((q <= 0.05).sum())})
    return rows


def is_corpus_of_faces(findings: Findings, config: str) -> bool:
    """Return whether the corpus of a job is faces, by its sets A and B; a job without sets counts as such.

    The name of its experiment does not tell: a YAML may have any name, and exp.corpus may be overridden.
    """
    sets = findings.read(config, "attributes")
    # Texts have templates, and scenes have no groups.
    return sets.empty or bool(sets["template"].isna().all() and sets["group"].notna().any())


def are_targets_faces(findings: Findings, config: str, targets: pd.DataFrame) -> bool:
    """Return whether the targets of a job, its table `targets`, are faces; see `is_corpus_of_faces`."""
    sets = findings.read(config, "attributes")
    # Scenes have ratings. Pictures retrieve texts.
    return bool(targets["valence"].isna().all() and (sets.empty or sets["template"].notna().any()))


def list_contributors(findings: Findings) -> pd.DataFrame:
    """List the items that raise and lower each stratum's outcome most (columns: `CONTRIBUTOR_COLUMNS`).

    Faces are numbered within a job, because their names may identify a person.
    """
    jobs = select_main_analyses(findings)
    strata = [*dict.fromkeys(jobs["stratum"])]
    tables = [pd.DataFrame(columns=CONTRIBUTOR_COLUMNS)]
    for job in jobs.drop_duplicates("config").to_dict("records"):
        if not findings.has(job["config"], "retrieved"):
            continue
        items = findings.read(job["config"], "retrieved")
        if is_corpus_of_faces(findings, job["config"]):
            numbers = {item: number for number, item in enumerate(sorted(items["item"].unique()), 1)}
            items = items.assign(item=[f"face no. {numbers[item]}" for item in items["item"]])
        items = items.sort_values("contribution", ascending=False, kind="stable")
        groups = items.groupby("stratum", sort=False)
        raises = (groups.cumcount() < MAX_CONTRIBUTORS) & (items["contribution"] > 0)
        lowers = (groups.cumcount(ascending=False) < MAX_CONTRIBUTORS) & (items["contribution"] < 0)
        job_columns = {name: job[name] for name in ("config", "exp", "model")}
        tables.append(
            sort_by(items[raises | lowers], stratum=strata).assign(**job_columns)[CONTRIBUTOR_COLUMNS]
        )
    return pd.concat(tables[1:] or tables, ignore_index=True)
