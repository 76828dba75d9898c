"""What became of the jobs of a command: shown at its end, and kept with their parent run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from src.tracking import Run, Tracker

# How a job ends.
FINISHED, TAKEN_OVER, FAILED, NOT_APPLICABLE = "finished", "taken_over", "failed", "not_applicable"


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        status: one of those above.
        run: id of the MLflow run that holds its results, or its failure; empty where there is none.
        reason: why there are no results; empty where there are.
        asked: its overrides.
        columns: first columns of analyses.csv; empty where it could not even be named.
    """

    status: str
    run: str = ""
    reason: str = ""
    asked: str = ""
    columns: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Part:
    """The jobs of one dataset, which is one MLflow experiment.

    Attributes:
        tracker: the store that holds their runs.
        parent: their parent run; None for a job that is no sweep's.
        analyses: analyses.csv of each finished job.
        outcomes: of all its jobs.
        sheets: contact sheets of morphs that are kept with a run already.
    """

    tracker: Tracker
    parent: Run | None
    analyses: list[pd.DataFrame] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    sheets: set[Path] = field(default_factory=set)

    def show_morphs(self, sheet: Path | None, run: Run | None) -> None:
        """Keep a contact sheet, once, with the parent run, or with a run that has no parent."""
        owner = self.parent or run
        if sheet is not None and owner is not None and sheet not in self.sheets:
            owner.artifact(sheet, "morphs")
            self.sheets.add(sheet)

    def count(self, status: str) -> int:
        """How many jobs ended so."""
        return sum(outcome.status == status for outcome in self.outcomes)


def keep(dataset: str, part: Part, parent: Run) -> None:
    """Keep the tables and the heatmap of a part's jobs with their parent run, below `summary/`."""
    import pandas as pd

    from src.report import figures, tables

    metrics: dict[str, float] = {
        status: part.count(status) for status in (FAILED, NOT_APPLICABLE, TAKEN_OVER)
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if part.analyses:
            analyses = pd.concat(part.analyses, ignore_index=True)
            analyses.to_csv(folder / "analyses.csv", index=False)
            tables.summary(analyses).to_csv(folder / "summary.csv", index=False)
            title = f"{dataset}: {len(analyses)} analyses"
            figures.save(*figures.heatmap(analyses, title=title), folder / "heatmap.png")
            rho = analyses["rho"]
            metrics |= {"analyses": len(analyses), "rho": rho.mean(), "rho_sd": rho.std()}
        jobs = [
            {**outcome.columns, "status": outcome.status, "run": outcome.run}
            | {"reason": outcome.reason, "overrides": outcome.asked}
            for outcome in part.outcomes
        ]
        pd.DataFrame(jobs).to_csv(folder / "jobs.csv", index=False)
        parent.artifacts(folder, "summary")
    parent.log(metrics=metrics)


def show(dataset: str, part: Part, console: Console) -> None:
    """Print what a part's jobs found, how many were taken over, and which were not applicable."""
    import pandas as pd

    from src.report import tables

    if part.analyses:
        console.print(tables.terminal(pd.concat(part.analyses), f"{dataset}: propagation"))
    taken = part.count(TAKEN_OVER)
    if taken:
        console.print(
            f"{taken} of {len(part.outcomes)} jobs were finished already: their results are taken over "
            "(resume=false computes them anew)."
        )
    if part.count(NOT_APPLICABLE):
        left = [outcome for outcome in part.outcomes if outcome.status == NOT_APPLICABLE]
        reasons(left, "Not applicable", console)


def reasons(outcomes: list[Outcome], title: str, console: Console) -> None:
    """Print jobs that have no results, with the reason."""
    from src.report import tables

    console.print(tables.reasons({outcome.asked: outcome.reason for outcome in outcomes}, title))
