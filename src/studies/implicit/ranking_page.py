"""The ranking over all runs of a store: what it holds, and the page of it."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.report import format, load, page
from src.report.findings import Findings
from src.report.folder import Folder
from src.report.study import Ranking, concatenated
from src.storage import results
from src.studies.implicit import section
from src.tracking import Past, Tracker, finished

ALL = "all"
# What an audit logs, whatever it is called: the mean gap of each of its attributes.
AUDITED = "cles_gap."
# A run's tags that its row in tables/runs.csv has.
TOLD = (
    *("exp", "model", "debias", "protocol", "seed", "config", "pretraining"),
    *("input.faces", "git.commit", "git.dirty"),
)


def runs(tracker: Tracker, dataset: str) -> list[Past]:
    """The finished audits of a dataset, oldest first, of each config the newest.

    Args:
        tracker: the store.
        dataset: empty: whichever the store has audits of, if there is one only.

    Raises:
        InputError: there are none, or of several datasets.
    """
    every = [run for run in finished(tracker) if any(name.startswith(AUDITED) for name in run.metrics)]
    counts = Counter(run.dataset for run in every)
    known = ", ".join(f"{name} ({number})" for name, number in sorted(counts.items()))
    if not dataset and len(counts) > 1:
        raise InputError(
            f"sweep=all: audits of several datasets are stored: {known}. Choose one: dataset=NAME."
        )
    found = [run for run in every if dataset in ("", run.dataset)]
    if not found:
        raise InputError(
            f"sweep=all: no finished audit{f' of dataset={dataset}' if dataset else ''} is stored there; "
            + (f"there are audits of {known}." if known else "")
            + (
                ""
                if known
                else "an audit is: python -m src.run -m 'exp=cles_competence,cles_emotions,iat_semantic'"
            )
        )
    newest = {run.tags.get("config", run.id): run for run in found}
    return [run for run in found if newest[run.tags.get("config", run.id)] is run]


def findings(tracker: Tracker, found: list[Past], folder: Path) -> Findings:
    """What runs found, as if they were one sweep's.

    Args:
        tracker: the store.
        found: its runs.
        folder: an existing one, for copies of their results.

    Raises:
        InputError: no run's results are there any more.
    """
    jobs, frames, folders = [], [], {}
    for run in found:
        about = {name: run.tags.get(name) for name in load.NAMES} | {"run": run.id}
        try:
            place = load.fetch(tracker, run.id, folder)
            frame = results.read_csv(place / results.ANALYSES)
        except OSError as error:
            jobs.append({**about, "status": load.MISSING, "reason": f"results cannot be read ({error})"})
            continue
        frames.append(frame.assign(faces=run.tags.get("input.faces", "")))
        folders[str(frame["config"].iloc[0])] = place
        jobs.append({**about, "status": load.FINISHED})
    if not frames:
        raise InputError(f"sweep=all: the results of all {len(found)} audits are gone from the store.")
    together = concatenated(frames)
    names = [str(name) for name in dict.fromkeys(together["model"])]
    return Findings(
        dataset=found[0].dataset,
        sweep=ALL,
        status="FINISHED",
        started=found[-1].started,
        frames={"implicit": together},
        folders=folders,
        jobs=load.table(jobs),
        missing=[],
        models=load.models_of({run.id: run for run in found}, names),
        provenance={},
    )


def write(tracker: Tracker, found: list[Past], folder: Path) -> Path:
    """Write the page of a ranking, its figures and its tables into an empty folder that is there.

    Args:
        tracker: the store.
        found: its runs.
        folder: where to.

    Returns:
        The path of the page.

    Raises:
        InputError: no run's results are there any more.
    """
    place = Folder(folder)
    with tempfile.TemporaryDirectory() as copies:
        shown = findings(tracker, found, Path(copies))
        ranked = section.ranked(shown, place)
    place.table("audits", shown.of("implicit"), "every audit of these runs, to the last bit")
    told = [
        {"run": run.id, "started": run.started} | {name: run.tags.get(name, "") for name in TOLD}
        for run in found
    ]
    place.table("runs", pd.DataFrame(told), "the runs, of each config the newest")
    lost = shown.jobs[shown.jobs["status"] == load.MISSING]
    context = {
        "dataset": shown.dataset,
        "newest": shown.started.replace("T", " ")[:16],
        "runs": len(found),
        "ranked": ranked,
        "complete": sum(pd.notna(row["place"]) for row in ranked["models"]) if ranked else 0,
        "lost": format.records(lost),
        "commits": sorted({run.tags.get("git.commit", "unknown") for run in found}),
        "dirty": sum(run.tags.get("git.dirty") == "true" for run in found),
        "longest": format.LONGEST,
        "tables": place.tables,
    }
    return page.render("zoo.html", context, folder, [section.TEMPLATES])


RANKING = Ranking(runs=runs, write=write)
