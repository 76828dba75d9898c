"""What a sweep found: from its jobs' folders while it runs, or from the tracking store."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

import pandas as pd
from scipy.stats import false_discovery_control

from src.encoders.facts import FACTS, UNKNOWN
from src.report.findings import Findings
from src.storage import results
from src.tracking import Past, Run, Tracker, children, past

ASKED, JOBS = "summary/asked.json", "summary/jobs.csv"
NAMES = ("exp", "paper", "model", "dataset", "debias", "protocol", "seed", "config")
COLUMNS = (*NAMES, "status", "run", "reason", "overrides")
# What says how far a rho can be believed (docs/methods.md, section 6); older versions did not ask.
WORTH = (
    *("ci_low", "ci_high", "sd_attributes", "validity", "placebo_mean", "placebo_q95", "p_placebo"),
    *("placebo_n", "rho_placebo_units", "family_q95", "family_p", "property_q05", "property_q95"),
)
PROPAGATION = ("group", "stratum", "n", "n_excluded", "rho", "p", "reason", "rho_all", "p_all", "n_all")
# Whole numbers, also beside rows that have none.
COUNTED = (
    *("n", "n_excluded", "n_all", "n_a", "n_b", "placebo_n", "n_rest"),
    *("n_unmatched", "n_unanswered", "n_templates", "pool_size", "most"),
)
# A column that only the analyses of one kind have, besides `rho` of propagation.
OTHERS = ("p_null", "accuracy", "caption", "tau_c", "pool")
# Jobs that have results, and one whose results are gone.
FINISHED, TAKEN_OVER, MISSING = "finished", "taken_over", "missing"
# All of what jobs.csv says of a job.
ENDS = (FINISHED, TAKEN_OVER, "failed", "not_applicable")

log = logging.getLogger(__name__)


def together(analyses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The analyses of propagation of a sweep's jobs as one table, each once.

    Returns:
        Their columns, those of `WORTH` that they lack as NaN, and `q`: p_placebo after Benjamini and
        Hochberg's procedure over all rows that have one.
    """
    found = of_kind(analyses, "rho")
    for name in (*PROPAGATION, *WORTH):
        if name not in found:
            found[name] = pd.array([None] * len(found), "Int64") if name == "placebo_n" else math.nan
    p = found["p_placebo"].astype(float).dropna()
    q = pd.Series(false_discovery_control(p), p.index) if len(p) else p
    return found.assign(q=q.reindex(found.index))


def everything(analyses: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The analyses of all kinds of experiments as one table, each once; what a kind has not is empty."""
    kinds = [together(analyses), *(of_kind(analyses, column) for column in OTHERS)]
    shown = [found for found in kinds if len(found)]
    counted = {name: "Int64" for name in COUNTED if any(name in found for found in shown)}
    return pd.concat(shown, ignore_index=True).astype(counted)


def of_kind(analyses: Sequence[pd.DataFrame], column: str) -> pd.DataFrame:
    """The analyses of the experiments of one kind as one table, each once.

    Args:
        analyses: analyses.csv of each job.
        column: that only this kind has: `rho` (propagation), `p_null` (audits), `accuracy` (zero-shot),
            `caption` (So-B-IT), `tau_c` (subtler biases) or `pool` (poems).
    """
    found = [frame for frame in analyses if column in frame]
    if not found:
        return pd.DataFrame(columns=[*NAMES, column])
    return pd.concat(found, ignore_index=True).drop_duplicates(ignore_index=True)


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
        analyses=together(found),
        audits=of_kind(found, "p_null"),
        zero_shot=of_kind(found, "accuracy"),
        sobit=of_kind(found, "caption"),
        subtler=of_kind(found, "tau_c"),
        poems=of_kind(found, "pool"),
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


def table(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
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
    return table([*_rows(listed), *rows])


def _listed(text: str) -> pd.DataFrame | None:
    """The rows of a jobs.csv that are whole; None where it is none."""
    try:
        # A model may be called "NA"; a hash may look like a number.
        found = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
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


def _rows(listed: pd.DataFrame | None) -> list[dict[str, object]]:
    records = [] if listed is None else listed.to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in records]


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
    chosen = [
        "git.commit",
        "git.dirty",
        "command",
        *sorted(name for name in tags if name.startswith("version.")),
    ]
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
