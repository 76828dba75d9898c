"""Split differences of level and rho into variance components (docs/methods.md, section 6.15)."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from src.metrics import Components, variance_components
from src.report.drawing import Drawing
from src.report.findings import Findings
from src.report.forest_plot import describe_rows, forest_plot, sort_by
from src.studies.propagation.combined import families, main_analyses
from src.studies.propagation.conclusions import carried

COLUMNS = ["set", "quantity", "component", "variance", "share", "g_fixed", "g_random"]
COLUMNS += ["models", "experiments", "groups", "n", "reason"]
# What targets and corpus carry -> name of the set of analyses whose levels have one unit, and how the
# conclusion calls it. Analyses without groups (of valence by valence) do not fit the model.
SETS = {
    ("group", "valence"): ("groups → valence", "where groups retrieve valence"),
    ("group", "group"): ("groups → groups", "where groups retrieve groups"),
    ("valence", "group"): ("valence → groups", "where rated targets retrieve groups"),
}
ALL = "all with groups"
# Sets whose levels sum to 0 over the groups of a job: a group's mean less that of the others, or the change
# of its share. Models, experiments and their pair have no effects on such a level, except by group.
SUM_TO_0 = ("groups → valence", "valence → groups")
NO_MEANS = "the levels of a job sum to 0 over its groups: models' means do not differ"
# Factor -> minimum number of its levels. Random facets enter if analyses vary in them: the checkpoints of a
# model (architecture and training data), and draws of A and B, by the seed.
MIN_LEVELS = {"exp": 2, "model": 4, "group": 2}
FIXED = ("exp", "group")
TRAINING, DRAW = "training", "draw"
FACETS = {TRAINING: "checkpoints of a model (training)", DRAW: "draws of A and B by their seed (draw)"}
PLURALS = {"exp": "experiments", "model": "models", "group": "groups"}
NAMES = {"exp": "experiment", "rest": "the rest"}
QUANTITIES = {"level": "level", "rho": "ρ"}


def table(findings: Findings) -> pd.DataFrame:
    """Estimate the components of level and rho under the first protocol, in all its seeds (`COLUMNS`).

    Levels are split within sets of analyses of one unit, rho within these and over all analyses with groups.
    A set that is refused has one row, with the reason.
    """
    rows = _analyses(findings)
    result: list[dict[str, Any]] = []
    for name, members, quantities in _sets(rows):
        for quantity in quantities:
            result += _split(members.dropna(subset=[quantity]), quantity, {"set": name, "quantity": quantity})
    return pd.DataFrame(result, columns=COLUMNS)


def _analyses(findings: Findings) -> pd.DataFrame:
    """Return the analyses with groups of the first specification's protocol, with their levels."""
    every, first = findings.of("propagation"), main_analyses(findings)
    if first.empty:
        return every
    chosen = every[(every[["protocol", "debias"]] == first[["protocol", "debias"]].iloc[0]).all(axis=1)]
    chosen = chosen[chosen["group"].notna()]
    family = families(findings, chosen["model"])
    return chosen.assign(**{TRAINING: chosen["model"], DRAW: chosen["seed"], "model": family})


def _sets(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, tuple[str, ...]]]:
    """Yield name, analyses and quantities of each set."""
    if rows.empty:
        return
    kinds = rows["exp"].map(lambda exp: tuple(carried(exp)))
    for kind, (name, _) in SETS.items():
        if (kinds == kind).any():
            yield name, rows[kinds == kind], ("level", "rho")
    if kinds.nunique() > 1:
        yield ALL, rows, ("rho",)


def _split(rows: pd.DataFrame, quantity: str, names: Mapping[str, str]) -> list[dict[str, Any]]:
    counts = {factor: rows[factor].nunique() for factor in MIN_LEVELS}
    row = {**names, **{PLURALS[factor]: count for factor, count in counts.items()}, "n": len(rows)}
    for factor, minimum in MIN_LEVELS.items():
        if counts[factor] < minimum:
            return [row | {"reason": f"{counts[factor]} {PLURALS[factor]}: at least {minimum} are needed"}]
    factors = [*MIN_LEVELS]
    factors += [TRAINING] if rows[TRAINING].nunique() > counts["model"] else []
    factors += [DRAW] if rows[DRAW].nunique() > 1 else []
    components = variance_components(rows[quantity], {name: rows[name].to_numpy() for name in factors})
    if components.reason:
        return [row | {"reason": components.reason}]
    if quantity == "level" and names["set"] in SUM_TO_0:
        row["reason"] = NO_MEANS
    else:
        row |= {"g_fixed": components.generalisability("model", FIXED)}
        row |= {"g_random": components.generalisability("model"), "reason": ""}
    return [row | cells for cells in _rows(components)]


def _rows(components: Components) -> Iterator[dict[str, Any]]:
    shares = components.shares()
    for name, variance in components.variances.items():
        yield {"component": name, "variance": variance, "share": shares[name]}


def figure(components: pd.DataFrame) -> Drawing | None:
    """Draw the shares of `table` as bars: a block per set, a row per component and quantity."""
    rows = components[components["share"].notna()]
    if rows.empty:
        return None
    places = rows.groupby(["set", "quantity"], sort=False).cumcount()
    ordered = sort_by(rows.assign(place=places), set=(), place=())
    is_first = ~ordered.duplicated(["set", "component"])
    texts = ordered["share"].map("{:.0%}".format)
    drawn = pd.DataFrame(
        {
            "block": ordered["set"],
            "name": ordered["component"].where(is_first, ""),
            "series": ordered["quantity"].map(QUANTITIES),
            "value": 100 * ordered["share"],
            "text": texts,
            "words": ordered["component"] + " of " + ordered["quantity"].map(QUANTITIES) + " " + texts,
        }
    )
    title = "Where differences come from"
    series = tuple(QUANTITIES.values())
    label = "share of the variance (%)"
    plot, _, drawn = forest_plot(drawn, title=title, label=label, series=series, bars=True, limits=(0, 100))
    caption = "Shares of the variance over analyses, by component; negative estimates count as 0."
    alternative = f"Bar chart. {title}. {describe_rows(drawn)}."
    return Drawing("variance-components", plot, title, alternative, caption)


def page_rows(components: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return, by set, a row per component with variance and share of level and rho."""
    result: dict[str, list[dict[str, Any]]] = {}
    for name, rows in components[components["share"].notna()].groupby("set", sort=False):
        cells: dict[str, dict[str, Any]] = {}
        for row in rows.to_dict("records"):
            cell = cells.setdefault(row["component"], {"component": row["component"]})
            cell |= {f"{row['quantity']}_{column}": row[column] for column in ("variance", "share")}
        result[str(name)] = [*cells.values()]
    return result


def facets(components: pd.DataFrame) -> list[str]:
    """Return in words the facets besides experiments, models and groups in which analyses vary."""
    return [text for name, text in FACETS.items() if (components["component"] == name).any()]


def conclusion(components: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the largest component of each set of levels, and of rho over the largest set."""
    rows = components[components["share"].notna()]
    clauses = dict(SETS.values())
    levels = rows[rows["quantity"] == "level"]
    texts = [
        f"by {_largest(set_rows)} {clauses[str(name)]}"
        for name, set_rows in levels.groupby("set", sort=False)
    ]
    rhos = rows[rows["quantity"] == "rho"]
    sentences = [f"the level differs above all {', '.join(texts)}"] if texts else []
    if len(rhos):
        sentences.append(f"ρ differs above all by {_largest(rhos[rhos['set'] == rhos['set'].iloc[-1]])}")
    if sentences:
        text = "; ".join(sentences)
        yield text[0].upper() + text[1:] + "."


def _largest(rows: pd.DataFrame) -> str:
    row = rows.iloc[int(rows["share"].argmax())]
    names = " × ".join(NAMES.get(name, name) for name in row["component"].split(":"))
    is_of_models = rows["component"].str.contains("model|training")
    of_models = f"all components of models: {rows.loc[is_of_models, 'share'].sum():.0%}"
    return f"{names} ({row['share']:.0%} of its variance; {of_models})"
