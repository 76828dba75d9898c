"""State in sentences what the analyses of a sweep show, with intervals and numbers of analyses."""

from collections.abc import Iterator

import pandas as pd

from src.report.drawing import brief
from src.report.tables import describe, first
from src.stimuli import CARRIES
from src.studies.propagation.tables import above

# What the corpus of an experiment with groups carries -> sentence about the largest level.
LARGEST = {
    "valence": "A group retrieves the most different valence in {}: its mean differs from that of the other groups by {}.",
    "group": "Valence changes the share of a group the most in {}: by {} per SD of the rating.",
}
MAX_NAMED = 3
SIGNIFICANT = 0.05


def conclusions(analyses: pd.DataFrame, dataset: str = "") -> list[str]:  # noqa: ARG001
    """Return sentences about the first specification of analyses of propagation, as `analyses.csv` has them."""
    if analyses.empty:
        return []
    rows, specification, others = first(analyses)
    sentences = [*_levels(rows), *_largest(rows), *_models(rows), *_ceilings(rows), *_rhos(rows)]
    if others:
        sentences.append(f"All of this is of {describe(specification)}, the first of {others + 1} specifications.")
    return sentences


def differing_models(differences: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence about the comparisons of models in `differences.models`."""
    tested = differences["level_delta_q"].dropna()
    if len(tested):
        yield (
            f"The level of two models differs with q ≤ .05 in {int((tested <= SIGNIFICANT).sum())} of {len(tested)} "
            "comparisons on the same experiment and group."
        )


def _levels(rows: pd.DataFrame) -> Iterator[str]:
    is_baseline = rows["exp"].map(_is_baseline)
    for kind, chosen in (("a group and valence", rows[~is_baseline]), ("one property (baselines)", rows[is_baseline])):
        tested = chosen[chosen["level_q"].notna()]
        if tested.empty:
            continue
        unclear = tested[tested["level_q"] > SIGNIFICANT]
        sentence = (
            f"Of {len(tested)} analyses of {kind}, {len(tested) - len(unclear)} have a level of carry-over that "
            "differs from chance (q ≤ .05)"
        )
        if len(unclear):
            counts = unclear.groupby(["exp", "model"], sort=False).size()
            totals = tested.groupby(["exp", "model"], sort=False).size()
            cells = [f"{exp} of {brief(model)} ({count} of {totals[exp, model]})" for (exp, model), count in counts.items()]
            sentence += f"; it does not in {_listed(cells)}"
        yield sentence + "."


def _largest(rows: pd.DataFrame) -> Iterator[str]:
    carried = rows["exp"].map(lambda exp: _carried(exp)[1])
    for kind, sentence in LARGEST.items():
        chosen = rows[(carried == kind) & ~rows["exp"].map(_is_baseline)]
        if chosen["level"].notna().any():
            row = chosen.loc[chosen["level"].abs().idxmax()]
            where = f"{row['exp']} of {brief(str(row['model']))}, {row['stratum']}"
            yield sentence.format(where, _level(row))


def _models(rows: pd.DataFrame) -> Iterator[str]:
    rows = rows[~rows["exp"].map(_is_baseline) & rows["level"].notna()]
    if rows["model"].nunique() < 2:
        return
    largest = rows.loc[rows.groupby(["exp", "stratum"], sort=False)["level"].apply(lambda level: level.abs().idxmax())]
    counts = largest["model"].value_counts()
    yield (
        f"Of {rows['model'].nunique()} models, {brief(str(counts.index[0]))} has the largest |level| most often: in "
        f"{counts.iloc[0]} of {len(largest)} pairs of an experiment and a group."
    )


def _ceilings(rows: pd.DataFrame) -> Iterator[str]:
    at_ceiling = rows[rows["ceiling"] == True]  # noqa: E712  the column may hold None
    if len(at_ceiling):
        counts = at_ceiling.groupby("exp", sort=False).size()
        cells = [f"{exp} ({count} of {(rows['exp'] == exp).sum()})" for exp, count in counts.items()]
        yield (
            f"{len(at_ceiling)} of {len(rows)} analyses are at their ceiling, where ρ falls although carry-over is "
            f"strong: {_listed(cells)}."
        )


def _rhos(rows: pd.DataFrame) -> Iterator[str]:
    rho, is_above = rows["rho"].dropna(), above(rows).dropna()
    if len(rho):
        spread = f" ± {_number(rho.std(ddof=1), 2)}" if len(rho) > 1 else ""
        sentence = f"Mean ρ is {_number(rho.mean(), 2)}{spread} (SD) over {len(rho)} analyses" if spread else (
            f"ρ is {_number(rho.mean(), 2)} in the only analysis"
        )
        if len(is_above):
            sentence += f"; {int(is_above.sum())} of {len(is_above)} exceed the 95th percentile of their placebo"
        yield sentence + "."
    undefined = rows[rows["rho"].isna()]
    if len(undefined):
        cells = [f"{row['exp']} of {brief(str(row['model']))}, {row['stratum']}" for row in undefined.to_dict("records")]
        yield f"{len(undefined)} of {len(rows)} analyses have no ρ: {_listed(cells)}."


def _level(row: pd.Series) -> str:
    text = f"{_number(row['level'], 3)}"
    if pd.notna(row["level_low"]):
        text += f" [{_number(row['level_low'], 3)}, {_number(row['level_high'], 3)}]"
    text += f" (n = {row['n']}"
    return text + (f", q = {_number(row['level_q'], 3)})" if pd.notna(row["level_q"]) else ")")


def _listed(cells: list[str]) -> str:
    rest = len(cells) - MAX_NAMED
    return ", ".join(cells[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _carried(exp: str) -> list[str]:
    """Return what the roles in the name of an experiment carry."""
    return [CARRIES.get(role, role) for role in exp.partition("_to_")[::2]]


def _is_baseline(exp: str) -> bool:
    targets, corpus = _carried(exp)
    return targets == corpus


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")
