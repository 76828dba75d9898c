"""What a sweep found: from its jobs' folders while it runs, or from the tracking store."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from src import configs
from src.encoders.facts import FACTS, UNKNOWN
from src.report.findings import Findings
from src.report.study import report_of
from src.storage import results
from src.tracking import Past, Run, Tracker, children, past

ASKED, JOBS = "summary/asked.json", "summary/jobs.csv"
NAMES = ("study", "exp", "paper", "model", "dataset", "debias", "protocol", "seed", "config")
COLUMNS = (*NAMES, "status", "run", "reason", "overrides")
# Whole numbers, also beside rows that have none.
COUNTED = (
    *("n", "n_excluded", "n_all", "n_a", "n_b", "placebo_n", "n_rest"),
    *("n_unmatched", "n_unanswered", "n_templates", "pool_size", "most"),
)
# Jobs that have results, and one whose results are gone.
FINISHED, TAKEN_OVER, MISSING = "finished", "taken_over", "missing"
# All of what jobs.csv says of a job.
ENDS = (FINISHED, TAKEN_OVER, "failed", "not_applicable")

log = logging.getLogger(__name__)


def by_study(analyses: Iterable[pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Analyses of jobs as one table per study, each row once, in the order of a report.

    Args:
        analyses: analyses.csv of each job.
    """
    frames: dict[str, list[pd.DataFrame]] = {}
    for frame in analyses:
        for study, rows in frame.groupby("study", sort=False):
            frames.setdefault(str(study), []).append(rows)
    return {study: report_of(study).combine(frames[study]) for study in configs.studies.in_order(frames)}


def everything(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Analyses of all studies as one table; columns that a study lacks are empty.

    Args:
        frames: see `by_study`.
    """
    counted = {name: "Int64" for name in COUNTED if any(name in frame for frame in frames.values())}
    return pd.concat(frames.values(), ignore_index=True).astype(counted)


def findings(
    tracker: Tracker,
    sweep: Past,
    jobs: pd.DataFrame,
    folders: Mapping[str, Path],
    asked: Sequence[str] | None,
) -> Findings:
    """The findings of a sweep whose jobs' files are at hand.

    Args:
        tracker: the store that holds their runs.
        sweep: the parent run.
        jobs: one row per job that ended, `COLUMNS`.
        folders: `config` of a job -> its folder `results/`.
        asked: overrides of all jobs that were asked for; None where nobody knows.

    Raises:
        OSError: a file is gone.
    """
    found = [results.read_csv(folder / results.ANALYSES) for folder in folders.values()]
    runs = _runs(tracker, sweep, jobs)
    return Findings(
        dataset=sweep.dataset,
        sweep=sweep.id,
        status=sweep.status,
        started=sweep.started,
        frames=by_study(found),
        folders=dict(folders),
        jobs=jobs,
        missing=missing(asked or [], jobs["overrides"]),
        models=models_of(runs, list(dict.fromkeys(name for frame in found for name in frame["model"]))),
        provenance={
            **_code(sweep.tags),
            **_inputs(runs),
            **({"asked": "unknown"} if asked is None else {}),
        },
    )


def stored(tracker: Tracker, sweep: Past, folder: Path) -> Findings | None:
    """The findings of a sweep of the store; None where no job of it has results.

    Args:
        tracker: the store.
        sweep: the parent run.
        folder: an existing one, for copies of the jobs' results.
    """
    jobs = _jobs(tracker, sweep, folder)
    folders: dict[str, Path] = {}
    for row in jobs.index[jobs["status"].isin([FINISHED, TAKEN_OVER])]:
        run, config = str(jobs.loc[row, "run"]), str(jobs.loc[row, "config"])
        try:
            folders[config] = fetch(tracker, run, folder)
        except OSError as error:
            lost = f"results of run {run} cannot be read ({error})"
            jobs.loc[row, ["status", "reason"]] = [MISSING, lost]
    asked = _asked(_text(tracker, sweep, ASKED, folder))
    return findings(tracker, sweep, jobs, folders, asked) if folders else None


def table(rows: Sequence[Mapping[Any, object]]) -> pd.DataFrame:
    """A sweep's jobs as `COLUMNS`: seed an integer, all else texts, empty where there is nothing to say."""
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    seeds = pd.to_numeric(found["seed"]).astype("Int64")
    return found.astype(object).where(found.notna(), "").astype(str).assign(seed=seeds)


def missing(asked: Sequence[str], ended: Sequence[str] | pd.Series) -> list[str]:
    """Which of the asked jobs did not end; a job may have been asked for twice.

    >>> missing(["a", "b", "b", "c"], ["b", "a"])
    ['b', 'c']
    """
    left = Counter(ended)
    found = []
    for overrides in asked:
        left[overrides] -= 1
        if left[overrides] < 0:
            found.append(overrides)
    return found


def _jobs(tracker: Tracker, sweep: Past, folder: Path) -> pd.DataFrame:
    # jobs.csv is kept up while a sweep runs; older sweeps wrote it at their end, and a kill may have come
    # between the end of a job and its row.
    text = _text(tracker, sweep, JOBS, folder)
    listed = _listed(text) if text else None
    known = set() if listed is None else set(listed["run"])
    rows: list[dict[str, object]] = [
        {
            **{name: child.tags.get(name) for name in NAMES},
            "status": FINISHED,
            "run": child.id,
            "overrides": child.tags.get("overrides", ""),
        }
        for child in children(tracker, sweep)
        if child.status == "FINISHED" and child.id not in known
    ]
    taken_over = [] if listed is None else listed.to_dict("records")
    return table([*taken_over, *rows])


def _listed(text: str) -> pd.DataFrame | None:
    """The rows of a jobs.csv that are whole; None where it is none."""
    try:
        # A model may be called "NA"; a hash may look like a number.
        found = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
        if "study" not in found:  # written before there was this column
            found.insert(0, "study", "")
        whole = found[found["status"].isin(ENDS)]
        whole = whole.assign(seed=pd.to_numeric(whole["seed"], errors="coerce"))[[*COLUMNS]]
    except (ValueError, KeyError) as error:
        log.warning("%s of the sweep is damaged (%r): jobs that it took over are not known", JOBS, error)
        return None
    if len(whole) < len(found):
        log.warning("%s of the sweep is damaged: %d rows are left out", JOBS, len(found) - len(whole))
    return whole


def _asked(text: str) -> list[str] | None:
    try:
        said = json.loads(text) if text else None
    except ValueError as error:
        log.warning("%s of the sweep is damaged (%s): what it was to do is not known", ASKED, error)
        return None
    return said if isinstance(said, list) else None


def fetch(tracker: Tracker, run: str, folder: Path) -> Path:
    """Copy a run's `results/` into a folder.

    Raises:
        OSError: they are not there any more, or not what was written.
    """
    found = past(tracker, run)
    if found is None:
        raise FileNotFoundError("the run was deleted")
    place = folder / run
    place.mkdir(exist_ok=True)
    fetched = Run(run, tracker).fetch(results.FOLDER, place)
    if results.digest(place) != found.tags.get("results"):
        raise OSError("other content than was written")
    return fetched


def _text(tracker: Tracker, sweep: Past, name: str, folder: Path) -> str:
    try:
        return Run(sweep.id, tracker).fetch(name, folder).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _runs(tracker: Tracker, sweep: Past, jobs: pd.DataFrame) -> dict[str, Past]:
    """The runs that hold results, by id: this sweep's own and those that it took over."""
    own = {child.id: child for child in children(tracker, sweep)}
    wanted = jobs["run"][jobs["status"].isin([FINISHED, TAKEN_OVER])]
    found = {str(run): own.get(str(run)) or past(tracker, str(run)) for run in wanted}
    return {run: said for run, said in found.items() if said}


def models_of(runs: Mapping[str, Past], models: Sequence[str]) -> pd.DataFrame:
    """What their runs say of models: `model`, `FACTS` (NaN where unknown), `pretraining`."""
    rows: dict[str, dict[str, object]] = {
        model: {**dict.fromkeys(FACTS, math.nan), "pretraining": UNKNOWN} for model in models
    }
    for run in runs.values():
        known: dict[str, object] = {name: run.metrics[name] for name in FACTS if name in run.metrics}
        known |= {"pretraining": run.tags["pretraining"]} if run.tags.get("pretraining") else {}
        rows.setdefault(run.tags.get("model", ""), {}).update(known)
    columns = ["model", *FACTS, "pretraining"]
    return pd.DataFrame([{"model": model, **rows[model]} for model in models], columns=columns)


def _code(tags: Mapping[str, str]) -> dict[str, str]:
    libraries = sorted(name for name in tags if name.startswith("version."))
    chosen = ["git.commit", "git.dirty", "command", *libraries]
    return {name: tags[name] for name in chosen if name in tags}


def _inputs(runs: Mapping[str, Past]) -> dict[str, str]:
    """Hashes of what the jobs read: one of each input, or one per model where models read different ones."""
    found: dict[str, dict[str, list[str]]] = {}
    for run in runs.values():
        for name, digest in run.tags.items():
            if name.startswith("input.") or name == "weights.sha256":
                digests = found.setdefault(name, {}).setdefault(run.tags.get("model", ""), [])
                if digest not in digests:
                    digests.append(digest)
    said: dict[str, str] = {}
    for name, by_model in sorted(found.items()):
        different = {digest for several in by_model.values() for digest in several}
        if len(different) == 1:
            said[name] = different.pop()
        else:
            said |= {f"{name}, {model}": " ".join(several) for model, several in by_model.items()}
    return said
