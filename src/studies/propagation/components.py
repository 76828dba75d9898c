"""Split the variance of level and rho over analyses into components (docs/methods.md, section 6.15)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from src.metrics import variance_components
from src.report.drawing import Drawing
from src.report.findings import SPECIFICATION, Findings
from src.report.forest_plot import describe_rows, draw_forest_plot, sort_by
from src.studies.propagation.combined import select_main_analyses
from src.studies.propagation.conclusions import properties_of
from src.studies.shared.model_families import families_of

COLUMNS = ["set", "quantity", "component", "variance", "share", "g_fixed", "g_random"]
COLUMNS += ["models", "experiments", "groups", "n", "reason"]
# (property of the targets, property of the corpus) -> (name of a set of analyses, clause of the conclusion).
# Levels within a set have the same unit. Experiments without groups (valence by valence) are left out.
SETS = {
    ("group", "valence"): ("groups → valence", "where groups retrieve valence"),
    ("group", "group"): ("groups → groups", "where groups retrieve groups"),
    ("valence", "group"): ("valence → groups", "where rated targets retrieve groups"),
}
ALL_WITH_GROUPS = "all with groups"  # name of the union of these sets, for rho only
# Sets whose levels sum to 0 over equally large groups of a job: a level is a group's mean minus that of the
# others, or the change of its share. Models, experiments and their pairs thus have no effect on mean levels.
ZERO_SUM_SETS = ("groups → valence", "valence → groups")
ZERO_SUM_REASON = "over equally large groups of a job, levels sum to 0: all models then have the same mean"
# Factor -> minimum number of its values. The factor `model` is a family of models, see `TRAINING`.
MIN_VALUES = {"exp": 2, "model": 4, "group": 2}
# Factors treated as fixed in the generalisability coefficient `g_fixed`; in `g_random`, none are.
FIXED_FACTORS = ("exp", "group")
# Further random factors, if the analyses vary in them. The factor `model` is a model's family; `training` is
# the model itself, a checkpoint of the family.
TRAINING, DRAW = "training", "draw"
# Further factor -> description.
FURTHER_FACTORS = {
    TRAINING: "models of a family (training)",
    DRAW: "draws of A and B with different seeds (draw)",
}
# Factor -> column of its number of values, and their name in reasons.
COUNT_COLUMNS = {"exp": "experiments", "model": "models", "group": "groups"}
PLURALS = COUNT_COLUMNS | {"model": "families of models"}
# Factor or component -> name in the conclusion, if it is not the same.
FACTOR_NAMES = {"exp": "experiment", "rest": "the rest"}
# Quantity -> name in the figure.
QUANTITIES = {"level": "level", "rho": "ρ"}


def estimate_components(findings: Findings) -> pd.DataFrame:
    """Estimate variance components of level and rho (columns: `COLUMNS`).

    Analyses are of the first protocol, with all its seeds. Levels are split within each of `SETS`, rho within
    these and over their union. A set whose components cannot be estimated has a single row, with the
    `reason`. Levels of `ZERO_SUM_SETS` have components; their `reason` explains the missing coefficients.
    """
    rows = _select_analyses(findings)
    component_rows: list[dict[str, Any]] = []
    for name, members, quantities in _yield_sets(rows):
        for quantity in quantities:
            component_rows += _estimate(
                members.dropna(subset=[quantity]), quantity, {"set": name, "quantity": quantity}
            )
    return pd.DataFrame(component_rows, columns=COLUMNS)


def _select_analyses(findings: Findings) -> pd.DataFrame:
    """Return the analyses with groups of the first specification, with any seed and the factors as columns.

    `model` is replaced by the family of the model; `training` and `draw` are added.
    """
    analyses, first = findings.of("propagation"), select_main_analyses(findings)
    if first.empty:
        return analyses
    choices = [name for name in SPECIFICATION if name != "seed"]
    chosen = analyses[(analyses[choices] == first[choices].iloc[0]).all(axis=1)]
    chosen = chosen[chosen["group"].notna()]
    factors = {TRAINING: chosen["model"], DRAW: chosen["seed"]}
    return chosen.assign(**factors, model=families_of(findings, chosen["model"]))


def _yield_sets(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, tuple[str, ...]]]:
    """Yield the name, the analyses and the quantities of each set."""
    if rows.empty:
        return
    properties = rows["exp"].map(lambda exp: tuple(properties_of(exp)))
    for pair, (name, _) in SETS.items():
        if (properties == pair).any():
            yield name, rows[properties == pair], ("level", "rho")
    if properties.nunique() > 1:
        yield ALL_WITH_GROUPS, rows, ("rho",)


def _estimate(rows: pd.DataFrame, quantity: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Estimate the components of a quantity: a row of `COLUMNS` per component.

    If they cannot be estimated, return a single row with the `reason`.
    """
    counts = {factor: rows[factor].nunique() for factor in MIN_VALUES}
    row = {**names, **{COUNT_COLUMNS[factor]: count for factor, count in counts.items()}, "n": len(rows)}
    for factor, minimum in MIN_VALUES.items():
        if counts[factor] < minimum:
            return [row | {"reason": f"{counts[factor]} {PLURALS[factor]}: at least {minimum} are needed"}]
    factors = [*MIN_VALUES]
    factors += [TRAINING] if rows[TRAINING].nunique() > counts["model"] else []
    factors += [DRAW] if rows[DRAW].nunique() > 1 else []
    components = variance_components(rows[quantity], {name: rows[name].to_numpy() for name in factors})
    if components.reason:
        return [row | {"reason": components.reason}]
    if quantity == "level" and names["set"] in ZERO_SUM_SETS:
        row["reason"] = ZERO_SUM_REASON
    else:
        row |= {"g_fixed": components.generalisability("model", FIXED_FACTORS)}
        row |= {"g_random": components.generalisability("model"), "reason": ""}
    shares = components.shares()
    return [
        row | {"component": name, "variance": variance, "share": shares[name]}
        for name, variance in components.variances.items()
    ]


def plot_shares(components: pd.DataFrame) -> Drawing | None:
    """Plot the shares of components as bars, a block per set; None without shares.

    `components` is the result of `estimate_components`.
    """
    rows = components[components["share"].notna()]
    if rows.empty:
        return None
    ranks = rows.groupby(["set", "quantity"], sort=False).cumcount()
    ordered = sort_by(rows.assign(rank=ranks), set=(), rank=())
    is_first = ~ordered.duplicated(["set", "component"])
    texts = ordered["share"].map("{:.0%}".format)
    bar_rows = pd.DataFrame(
        {
            "block": ordered["set"],
            "name": ordered["component"].where(is_first, ""),
            "series": ordered["quantity"].map(QUANTITIES),
            "value": 100 * ordered["share"],
            "text": texts,
            "alt_text": ordered["component"] + " of " + ordered["quantity"].map(QUANTITIES) + " " + texts,
        }
    )
    title = "Where differences come from"
    series = tuple(QUANTITIES.values())
    label = "share of the variance (%)"
    figure, _, bar_rows = draw_forest_plot(
        bar_rows, title=title, label=label, series=series, bars=True, limits=(0, 100)
    )
    caption = "Shares of the variance over analyses, by component; negative estimates count as 0."
    alt_text = f"Bar chart. {title}. {describe_rows(bar_rows)}."
    return Drawing("variance-components", figure, title, alt_text, caption)


def build_page_rows(components: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return rows for the page, by set: variance and share of level and rho per component."""
    rows_by_set: dict[str, list[dict[str, Any]]] = {}
    for name, rows in components[components["share"].notna()].groupby("set", sort=False):
        rows_by_component: dict[str, dict[str, Any]] = {}
        for row in rows.to_dict("records"):
            component_column = {"component": row["component"]}
            page_row = rows_by_component.setdefault(row["component"], component_column)
            page_row |= {f"{row['quantity']}_{column}": row[column] for column in ("variance", "share")}
        rows_by_set[str(name)] = [*rows_by_component.values()]
    return rows_by_set


def list_further_factors(components: pd.DataFrame) -> list[str]:
    """List the descriptions of the further random factors among the components."""
    return [text for name, text in FURTHER_FACTORS.items() if (components["component"] == name).any()]


def state_conclusion(components: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the largest component of the levels of each set, and of rho over all sets."""
    rows = components[components["share"].notna()]
    clauses = dict(SETS.values())
    levels = rows[rows["quantity"] == "level"]
    texts = [
        f"with {_describe_largest(set_rows)} {clauses[str(name)]}"
        for name, set_rows in levels.groupby("set", sort=False)
    ]
    rhos = rows[rows["quantity"] == "rho"]
    sentences = [f"The level varies most {', '.join(texts)}"] if texts else []
    if len(rhos):
        sentences.append(f"ρ varies most with {_describe_largest(rhos[rhos['set'] == rhos['set'].iloc[-1]])}")
    if sentences:
        yield "; ".join(sentences) + "."


def _describe_largest(rows: pd.DataFrame) -> str:
    """Describe the component with the largest share, in words.

    Includes its share, and the total share of all components that involve the model.
    """
    row = rows.iloc[int(rows["share"].argmax())]
    names = " × ".join(FACTOR_NAMES.get(name, name) for name in row["component"].split(":"))
    involves_models = rows["component"].str.contains("model|training")
    models_share = rows.loc[involves_models, "share"].sum()
    return f"{names} ({row['share']:.0%} of the variance; components that involve models: {models_share:.0%})"
