"""Register the study of poems about faces by multimodal models."""

import pandas as pd
from rich.console import RenderableType

from src.report.findings import SPECIFICATION
from src.report.study import StudyReport
from src.report.tables import across_models, plain
from src.studies.generator_protocol import GeneratorStudy
from src.studies.poems import experiment
from src.studies.poems.section import section

TITLE = "Poems about faces: mean |CLES − ½| over pairs of groups; the pair with the largest, 95% interval"


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of mean and largest gaps."""
    return [plain(terminal_table(analyses), f"{dataset}: {TITLE}")]


def terminal_table(poems: pd.DataFrame) -> pd.DataFrame:
    """Return a row per specification, pool and treatment of shared tokens, and a column per model."""
    if poems.empty:
        return poems
    by = [*SPECIFICATION, "pool", "shared", "model"]
    cells = [(*keys, _cell(pairs)) for keys, pairs in poems.groupby(by, sort=False)]
    rows = pd.DataFrame(cells, columns=[*by, "text"])
    label = rows["pool"] + ", shared tokens " + rows["shared"]
    return across_models(rows.assign(label=label), "protocol", "seed")


def _cell(pairs: pd.DataFrame) -> str:
    """Format the mean gap over pairs of groups, and the CLES of the pair with the largest gap."""
    defined = pairs[pairs["cles_gap"].notna()]
    if defined.empty:
        return "empty pool"
    row = max(defined.to_dict("records"), key=lambda candidate: float(candidate["cles_gap"]))
    interval = f" [{row['cles_low']:.2f}, {row['cles_high']:.2f}]" if pd.notna(row["cles_low"]) else ""
    q = f", q {row['q']:.3f}" if pd.notna(row["q"]) else ""
    return (
        f"{defined['cles_gap'].mean():.3f} of {len(defined)}; {row['group_a']} / {row['group_b']}: "
        f"CLES {row['cles']:.3f}{interval}{q}, {row['n_a']} and {row['n_b']} faces, "
        f"{row['tokens_a']:.0f} and {row['tokens_b']:.0f} tokens"
    )


STUDY = GeneratorStudy(
    name="poems",
    inputs=experiment.inputs,
    run=experiment.run,
    protocol_name=lambda _, dataset: f"greedy+dataset={dataset}",
    fields=frozenset({"faces"}),
    parts=("inference",),
    report=StudyReport(section=section, terminal=terminal),
)
