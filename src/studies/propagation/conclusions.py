"""State in sentences what the analyses of a sweep show, with intervals and numbers of analyses."""

from collections.abc import Iterator, Sequence

import pandas as pd

from src.report.drawing import shorten
from src.report.tables import select_first
from src.stimuli import CARRIES
from src.studies.propagation.combined import corrected
from src.studies.propagation.tables import above

# What the corpus of an experiment with groups carries -> sentence about the largest level.
LARGEST = {
    "valence": "A group retrieves the most different valence in {}: its mean less that of the others is {}.",
    "group": "Valence changes the share of a group the most in {}: by {} per SD of the rating.",
}
MAX_NAMED = 3
SIGNIFICANT = 0.05


def conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return sentences about the first specification of analyses, which are as in `analyses.csv`."""
    if analyses.empty:
        return []
    rows, _, _ = select_first(analyses)
    sentences = (_levels, _largest, _models, _ceilings, _rhos, _corrected)
    return [text for describe in sentences for text in describe(rows)]


def differing_models(differences: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence about the comparisons of models in `differences.models`."""
    tested = differences["level_delta_q"].dropna()
    if len(tested):
        yield (
            f"The level of two models differs with q ≤ .05 in {_count(tested <= SIGNIFICANT)} comparisons "
            "on the same experiment and group."
        )


def _levels(rows: pd.DataFrame) -> Iterator[str]:
    is_baseline = rows["exp"].map(_is_baseline)
    for kind, chosen in (
        ("a group and valence", rows[~is_baseline]),
        ("one property (baselines)", rows[is_baseline]),
    ):
        tested = chosen[chosen["level_q"].notna()]
        if len(tested):
            is_clear = tested["level_q"] <= SIGNIFICANT
            sentence = (
                f"In {_count(is_clear)} analyses of {kind}, the level of carry-over differs from chance"
            )
            sentence += " (q ≤ .05)"
            if is_clear.any() and not is_clear.all():
                sentence += f"; not so in {_counts(tested[~is_clear], tested)}"
            yield sentence + "."


def _largest(rows: pd.DataFrame) -> Iterator[str]:
    carried = rows["exp"].map(lambda exp: _carried(exp)[1])
    for kind, sentence in LARGEST.items():
        chosen = rows[(carried == kind) & ~rows["exp"].map(_is_baseline)]
        if chosen["level"].notna().any():
            row = chosen.iloc[int(chosen["level"].abs().fillna(-1).argmax())]
            yield sentence.format(_name(row), _level(row))


def _models(rows: pd.DataFrame) -> Iterator[str]:
    rows = rows[~rows["exp"].map(_is_baseline) & rows["level"].notna()]
    if rows["model"].nunique() < 2:
        return
    by_size = rows.sort_values("level", key=abs, ascending=False, kind="stable")
    counts = by_size.drop_duplicates(["exp", "stratum"])["model"].value_counts()
    yield (
        f"Of {rows['model'].nunique()} models, {shorten(str(counts.index[0]))} has the largest |level| most "
        f"often: in {counts.iloc[0]} of {counts.sum()} pairs of an experiment and a group."
    )


def _ceilings(rows: pd.DataFrame) -> Iterator[str]:
    is_at_ceiling = rows["ceiling"] == True  # noqa: E712  the column may hold None
    if is_at_ceiling.any():
        yield (
            f"{_count(is_at_ceiling)} analyses are at their ceiling, where ρ falls although carry-over is "
            f"strong: {_counts(rows[is_at_ceiling], rows)}."
        )


def _rhos(rows: pd.DataFrame) -> Iterator[str]:
    rho, is_above = rows["rho"].dropna(), above(rows).dropna()
    if len(rho):
        sentence = f"ρ is {_number(rho.mean(), 2)} in the only analysis"
        if len(rho) > 1:
            sentence = f"Mean ρ is {_number(rho.mean(), 2)} ± {_number(rho.std(ddof=1), 2)} (SD) over "
            sentence += f"{len(rho):,} analyses"
        if len(is_above):
            sentence += f"; {_count(is_above)} exceed the 95th percentile of their placebo"
        yield sentence + "."
    is_undefined = rows["rho"].isna()
    if is_undefined.any():
        names = [_name(row) for _, row in rows[is_undefined].iterrows()]
        yield f"ρ is undefined in {_count(is_undefined)} analyses: {_listed(names)}."


def _corrected(rows: pd.DataFrame) -> Iterator[str]:
    chosen = corrected(rows)
    defined = chosen[chosen["rho_true"].notna()] if len(chosen) else chosen
    if len(defined):
        across, ceiling, true = (
            _number(defined[name].mean(), 2) for name in ("rho_cross", "noise_ceiling", "rho_true")
        )
        yield (
            f"Noise of the corpus bounds ρ of its halves at {ceiling}, where it is {across}; corrected for "
            f"noise it is {true} (means over {len(defined):,} of {len(chosen):,} analyses)."
        )
    elif len(chosen):
        yield "ρ is corrected for the noise of the corpus in no analysis: the reliability is too low."


def _name(row: pd.Series) -> str:
    return f"{row['exp']} of {shorten(str(row['model']))}, {row['stratum']}"


def _level(row: pd.Series) -> str:
    text = f"{_number(row['level'], 3)}"
    if pd.notna(row["level_low"]):
        text += f" [{_number(row['level_low'], 3)}, {_number(row['level_high'], 3)}]"
    text += f" (n = {row['n']}"
    return text + (f", q = {_number(row['level_q'], 3)})" if pd.notna(row["level_q"]) else ")")


def _count(mask: pd.Series) -> str:
    return f"{int(mask.sum()):,} of {len(mask):,}"


def _counts(rows: pd.DataFrame, totals: pd.DataFrame) -> str:
    """Count rows among others, by experiment and model, or by experiment if that is too long a list."""
    by_model = [frame["exp"] + " of " + frame["model"].astype(str).map(shorten) for frame in (rows, totals)]
    names = by_model if by_model[0].nunique() <= MAX_NAMED else [rows["exp"], totals["exp"]]
    sizes = names[1].value_counts()
    counts = names[0].value_counts(sort=False).items()
    return _listed([f"{name} ({count} of {sizes[str(name)]})" for name, count in counts])


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _carried(exp: str) -> list[str]:
    """Return what the roles in the name of an experiment carry."""
    return [CARRIES.get(role, role) for role in exp.partition("_to_")[::2]]


def _is_baseline(exp: str) -> bool:
    targets, corpus = _carried(exp)
    return targets == corpus


def _number(value: float, digits: int) -> str:
    return f"{value:z.{digits}f}".replace("-", "−")
