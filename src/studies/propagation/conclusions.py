"""State the results of a sweep in sentences, with intervals and numbers of analyses."""

from collections.abc import Iterator, Sequence

import pandas as pd

from src.report.drawing import shorten
from src.report.study import NOT_INTERPRETED
from src.report.tables import select_first_specification
from src.stimuli import CARRIES
from src.studies.propagation.combined import select_corrected
from src.studies.propagation.tables import mark_above_placebo

# Property of the corpus -> sentence on the largest level, if the targets carry the other property.
LARGEST_LEVEL = {
    "valence": "Retrieved valence differs most by group in {}: the group's mean minus the others' is {}.",
    "group": (
        "Retrieved groups depend most on valence in {}: the group's share changes by {} per SD of the rating."
    ),
}
# The same for outcomes other than the retrieved property, by their label.
LARGEST_LEVEL_OF_OUTCOME = {
    "valence": "“{}” differs most by group in {}: the group's mean minus the others' is {}.",
    "group": "“{}” depends most on valence in {}: it changes by {} per SD of the rating.",
}
# Kinds of experiments, by what their targets and corpus carry.
CROSSED, BASELINE, OTHER = "a group and valence", "one property (baselines)", "other experiments"
MAX_NAMED = 3  # maximum number of names in a list; the others are counted
SIGNIFICANT = 0.05


def conclusions(analyses: pd.DataFrame) -> list[str]:
    """Return sentences on the analyses of the first specification."""
    if analyses.empty:
        return []
    rows, _, _ = select_first_specification(analyses)
    statements = (
        _state_levels,
        _state_largest_levels,
        _state_leading_model,
        _state_ceilings,
        _state_rhos,
        _state_corrected,
    )
    return [sentence for state in statements for sentence in state(rows)]


def state_differing_models(differences: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the result of `differences.compare_models`; nothing without tests."""
    tested = differences["level_delta_q"].dropna()
    if len(tested):
        yield (
            f"The levels of two models differ (q ≤ .05) in {_format_fraction(tested <= SIGNIFICANT)} "
            "comparisons on the same experiment and group."
        )


def _state_levels(rows: pd.DataFrame) -> Iterator[str]:
    kinds = rows["exp"].map(_classify)
    for kind in (CROSSED, BASELINE, OTHER):
        tested = rows[(kinds == kind) & rows["level_q"].notna()]
        if len(tested):
            is_significant = tested["level_q"] <= SIGNIFICANT
            sentence = f"In {_format_fraction(is_significant)} analyses of {kind}, the level of carry-over "
            sentence += "differs from chance (q ≤ .05)"
            if is_significant.any() and not is_significant.all():
                sentence += (
                    f"; it does not in {_format_counts_by_experiment(tested[~is_significant], tested)}"
                )
            yield sentence + "."


def _state_largest_levels(rows: pd.DataFrame) -> Iterator[str]:
    corpus_property = rows["exp"].map(lambda exp: properties_of(exp)[1])
    for name, sentence in LARGEST_LEVEL.items():
        chosen = rows[(corpus_property == name) & (rows["exp"].map(_classify) == CROSSED)]
        if chosen["level"].notna().any():
            row = chosen.iloc[int(chosen["level"].abs().fillna(-1).argmax())]
            texts = [_name_analysis(row), _format_level(row)]
            label = row.get("extrinsic_label")
            if isinstance(label, str) and label:
                texts, sentence = [label, *texts], LARGEST_LEVEL_OF_OUTCOME[name]
            yield sentence.format(*texts)


def _state_leading_model(rows: pd.DataFrame) -> Iterator[str]:
    rows = rows[(rows["exp"].map(_classify) != BASELINE) & rows["level"].notna()]
    if rows["model"].nunique() < 2:
        return
    by_abs_level = rows.sort_values("level", key=abs, ascending=False, kind="stable")
    counts = by_abs_level.drop_duplicates(["exp", "stratum"])["model"].value_counts()
    yield (
        f"Of {rows['model'].nunique()} models, {shorten(str(counts.index[0]))} has the largest |level| most "
        f"often: in {counts.iloc[0]} of {counts.sum()} pairs of an experiment and a group."
    )


def _state_ceilings(rows: pd.DataFrame) -> Iterator[str]:
    is_at_ceiling = rows["ceiling"] == True  # noqa: E712  the column may hold None
    if is_at_ceiling.any():
        yield (
            f"{_format_fraction(is_at_ceiling)} analyses are at their ceiling, where ρ falls although "
            f"carry-over is strong: {_format_counts_by_experiment(rows[is_at_ceiling], rows)}."
        )


def _state_rhos(rows: pd.DataFrame) -> Iterator[str]:
    rhos, is_above = rows["rho"].dropna(), mark_above_placebo(rows).dropna()
    if len(rhos):
        sentence = f"ρ is {_format_number(rhos.mean(), 2)} in the only analysis"
        if len(rhos) > 1:
            mean, sd = _format_number(rhos.mean(), 2), _format_number(rhos.std(ddof=1), 2)
            sentence = f"Mean ρ is {mean} ± {sd} (SD) over {len(rhos):,} analyses"
        if len(is_above):
            sentence += f"; {_format_fraction(is_above)} exceed the 95th percentile of their placebo"
        yield sentence + "."
    is_withheld = rows["reason"].astype(str).str.startswith(NOT_INTERPRETED)
    for is_without, text in (
        (rows["rho"].isna() & ~is_withheld, "ρ is undefined"),
        (is_withheld, f"ρ and level are {NOT_INTERPRETED}"),
    ):
        if is_without.any():
            names = [_name_analysis(row) for _, row in rows[is_without].iterrows()]
            yield f"{text} in {_format_fraction(is_without)} analyses: {_join_first_names(names)}."


def _state_corrected(rows: pd.DataFrame) -> Iterator[str]:
    chosen = select_corrected(rows)
    defined = chosen[chosen["rho_true"].notna()] if len(chosen) else chosen
    if len(defined):
        across_halves, ceiling, corrected = (
            _format_number(defined[name].mean(), 2) for name in ("rho_cross", "noise_ceiling", "rho_true")
        )
        yield (
            f"ρ across halves of the corpus is {across_halves}, with a noise ceiling of {ceiling}; corrected "
            f"for noise it is {corrected} (means over {len(defined):,} of {len(chosen):,} analyses)."
        )
    elif len(chosen):
        yield (
            "ρ could not be corrected for the noise of the corpus in any analysis; column "
            "reliability_reason says why."
        )


def _name_analysis(row: pd.Series) -> str:
    return f"{row['exp']} of {shorten(str(row['model']))}, {row['stratum']}"


def _format_level(row: pd.Series) -> str:
    text = f"{_format_number(row['level'], 3)}"
    if pd.notna(row["level_low"]):
        text += f" [{_format_number(row['level_low'], 3)}, {_format_number(row['level_high'], 3)}]"
    text += f" (n = {row['n']}"
    return text + (f", q = {_format_number(row['level_q'], 3)})" if pd.notna(row["level_q"]) else ")")


def _format_fraction(mask: pd.Series) -> str:
    return f"{int(mask.sum()):,} of {len(mask):,}"


def _format_counts_by_experiment(rows: pd.DataFrame, totals: pd.DataFrame) -> str:
    """Count rows by experiment and model, out of totals; by experiment only if the list would be too long."""
    by_model = [frame["exp"] + " of " + frame["model"].astype(str).map(shorten) for frame in (rows, totals)]
    names = by_model if by_model[0].nunique() <= MAX_NAMED else [rows["exp"], totals["exp"]]
    sizes = names[1].value_counts()
    counts = names[0].value_counts(sort=False).items()
    return _join_first_names([f"{name} ({count} of {sizes[str(name)]})" for name, count in counts])


def _join_first_names(names: Sequence[str]) -> str:
    n_more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {n_more} more" if n_more > 0 else "")


def properties_of(exp: str) -> list[str]:
    """Return the properties of targets and corpus (`group` or `valence`), from the name of an experiment."""
    return [CARRIES.get(role, role) for role in exp.partition("_to_")[::2]]


def _classify(exp: str) -> str:
    """Return the kind of an experiment; `OTHER` if its name does not state both roles."""
    targets, corpus = properties_of(exp)
    if not {targets, corpus} <= {*CARRIES.values()}:
        return OTHER
    return BASELINE if targets == corpus else CROSSED


def _format_number(value: float, digits: int) -> str:
    return f"{value:z.{digits}f}".replace("-", "−")
