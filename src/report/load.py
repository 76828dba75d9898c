"""Load the results of a sweep, from its jobs' folders while it runs or from the tracking store."""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from src import configs
from src.encoders.catalogue import FACTS, UNKNOWN, remove_seed
from src.errors import InputError
from src.report.findings import Findings
from src.report.study import load_report
from src.storage import results
from src.tracking import Run, StoredRun, Tracker, find_children, find_run

# Artifacts of a parent run: the overrides of the requested jobs; the jobs that ended, with their status.
OVERRIDES, JOBS = "summary/asked.json", "summary/jobs.csv"
# First columns of analyses.csv, which identify a job; all columns of jobs.csv.
JOB_COLUMNS = ("study", "exp", "paper", "model", "dataset", "debias", "perturb", "protocol", "seed", "config")
COLUMNS = (*JOB_COLUMNS, "status", "run", "reason", "overrides")
# Integer columns of analyses.csv; values may be missing.
INTEGERS = (
    *("n", "n_excluded", "n_all", "n_a", "n_b", "placebo_n", "n_rest"),
    *("n_unmatched", "n_unanswered", "n_templates", "pool_size", "most"),
    *("n_x", "n_y", "partitions", "sets", "n_units"),
    *("n_texts", "n_unread"),
)
# Statuses of jobs with results, of a job that failed, and of a job whose results are missing.
FINISHED, REUSED, FAILED, MISSING = "finished", "taken_over", "failed", "missing"
# Number of leading characters of a sweep's id in reports of several sweeps.
SHORT_ID_LENGTH = 8
# Tags of a run on its model: the training data and how they were filtered; the family, models of one
# architecture and training data; whether it agreed with the scores of its publisher.
MODEL_TAGS = ("pretraining", "filter", "family", "verified")
# Metrics of a run on its model, named `model.NAME`.
MODEL_METRICS = (*FACTS, "pairs_seen")
# All statuses in jobs.csv.
STATUSES = (FINISHED, REUSED, FAILED, "not_applicable")

log = logging.getLogger(__name__)


def combine_by_study(analyses: Iterable[pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Combine analyses of jobs into a table per study, without duplicates, in the order of a report."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for frame in analyses:
        for study, rows in frame.groupby("study", sort=False):
            frames.setdefault(str(study), []).append(rows)
    return {study: load_report(study).combine(frames[study]) for study in configs.studies.sort_names(frames)}


def combine_studies(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Combine the tables of `combine_by_study` into a single one; columns that a study lacks are empty."""
    types = {name: "Int64" for name in INTEGERS if any(name in frame for frame in frames.values())}
    return pd.concat(frames.values(), ignore_index=True).astype(types)


def build_findings(
    tracker: Tracker,
    sweep: StoredRun,
    jobs: pd.DataFrame,
    folders: Mapping[str, Path],
    requested: Sequence[str] | None,
) -> Findings:
    """Build the findings of a sweep whose jobs' files are available.

    Args:
        tracker: tracking store.
        sweep: parent run.
        jobs: one row per job that ended, with `COLUMNS`.
        folders: `config` of a job -> its folder `results/`.
        requested: overrides of all requested jobs; None if unknown.

    Raises:
        OSError: a file cannot be read.
    """
    analyses = [results.read_csv(folder / results.ANALYSES) for folder in folders.values()]
    # Runs with results: runs of this sweep, and runs of other sweeps that it reused.
    sweep_runs = {child.id: child for child in find_children(tracker, sweep)}
    run_ids = map(str, jobs["run"][jobs["status"].isin([FINISHED, REUSED])])
    runs = {run_id: run for run_id in run_ids if (run := sweep_runs.get(run_id) or find_run(tracker, run_id))}
    libraries = sorted(name for name in sweep.tags if name.startswith("version."))
    tag_names = ["git.commit", "git.dirty", "command", *libraries]
    return Findings(
        dataset=sweep.dataset,
        sweep=sweep.id,
        status=sweep.status,
        started=sweep.started,
        frames=combine_by_study(analyses),
        folders=dict(folders),
        jobs=jobs,
        missing=list_missing(requested or [], jobs["overrides"]),
        models=collect_model_facts(
            runs, list(dict.fromkeys(name for frame in analyses for name in frame["model"]))
        ),
        provenance={name: sweep.tags[name] for name in tag_names if name in sweep.tags}
        | _hash_inputs(runs)
        | ({"requested jobs": "unknown"} if requested is None else {}),
    )


def build_untracked_findings(
    dataset: str, frames: Mapping[str, pd.DataFrame], folders: Mapping[str, Path], jobs: pd.DataFrame
) -> Findings:
    """Build findings without what the tracking store knows of sweep and models.

    `frames` are the tables of `combine_by_study`, `folders` and `jobs` as in `build_findings`.
    """
    models = pd.DataFrame(columns=["model"])
    return Findings(dataset, "", "FINISHED", "", frames, folders, jobs, [], models, {})


def load_stored(tracker: Tracker, sweep: StoredRun, folder: Path) -> Findings | None:
    """Load a sweep of the store, copying its files into a folder; return None if no job has results."""
    runs = {run.id: run for run in find_children(tracker, sweep)}
    jobs = _list_jobs(tracker, sweep, runs.values(), folder)
    folders: dict[str, Path] = {}
    for row in jobs.index[jobs["status"].isin([FINISHED, REUSED])]:
        run, config = str(jobs.loc[row, "run"]), str(jobs.loc[row, "config"])
        try:
            folders[config] = fetch_results(tracker, run, folder, runs.get(run))
        except OSError as error:
            reason = f"results of run {run} cannot be read ({error})"
            jobs.loc[row, ["status", "reason"]] = [MISSING, reason]
    requested = _parse_requested(_read_artifact(tracker, sweep, OVERRIDES, folder))
    return build_findings(tracker, sweep, jobs, folders, requested) if folders else None


def build_jobs_table(rows: Sequence[Mapping[Any, object]]) -> pd.DataFrame:
    """Build the table of a sweep's jobs, `COLUMNS`: the seed is an integer, all else text, "" if missing."""
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    seeds = pd.to_numeric(frame["seed"]).astype("Int64")
    return frame.astype(object).where(frame.notna(), "").astype(str).assign(seed=seeds)


def list_missing(requested: Sequence[str], ended: Sequence[str] | pd.Series) -> list[str]:
    """List the requested jobs that did not end; a job may have been requested twice.

    >>> list_missing(["a", "b", "b", "c"], ["b", "a"])
    ['b', 'c']
    """
    remaining = Counter(ended)
    unfinished = []
    for overrides in requested:
        remaining[overrides] -= 1
        if remaining[overrides] < 0:
            unfinished.append(overrides)
    return unfinished


def _list_jobs(tracker: Tracker, sweep: StoredRun, runs: Iterable[StoredRun], folder: Path) -> pd.DataFrame:
    # jobs.csv may lack finished jobs: older sweeps wrote it at their end only, and a process may have been
    # killed between the end of a job and the update. These jobs are added from the runs of the sweep.
    text = _read_artifact(tracker, sweep, JOBS, folder)
    listed = _read_jobs(text) if text else pd.DataFrame(columns=[*COLUMNS])
    known = set(listed["run"])
    rows = [
        {key: run.tags.get(key, results.LATER_NAMES.get(key)) for key in (*JOB_COLUMNS, "overrides")}
        | {"status": FINISHED, "run": run.id}
        for run in runs
        if run.status == "FINISHED" and run.id not in known
    ]
    return build_jobs_table([*listed.to_dict("records"), *rows])


def _read_jobs(text: str) -> pd.DataFrame:
    """Parse jobs.csv; invalid rows are left out with a warning."""
    try:
        # A model may be called "NA"; a hash may look like a number.
        rows = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
        # Columns that older versions did not write.
        for name, value in ({"study": ""} | results.LATER_NAMES).items():
            if name not in rows:
                rows.insert(0, name, value)
        valid = rows[rows["status"].isin(STATUSES)]
        valid = valid.assign(seed=pd.to_numeric(valid["seed"], errors="coerce"))[[*COLUMNS]]
    except (ValueError, KeyError) as error:
        log.warning("%s of the sweep is damaged (%r): the jobs that it reused are unknown", JOBS, error)
        return pd.DataFrame(columns=[*COLUMNS])
    if len(valid) < len(rows):
        log.warning("%s of the sweep is damaged: %d rows are left out", JOBS, len(rows) - len(valid))
    return valid


def _parse_requested(text: str) -> list[str] | None:
    try:
        overrides = json.loads(text) if text else None
    except ValueError as error:
        log.warning("%s of the sweep is damaged (%s): its requested jobs are unknown", OVERRIDES, error)
        return None
    return overrides if isinstance(overrides, list) else None


def fetch_results(tracker: Tracker, run_id: str, folder: Path, run: StoredRun | None = None) -> Path:
    """Copy a run's `results/` into a folder; return the copy.

    `run` is the stored run, if it was read before.

    Raises:
        OSError: the results are missing, or were changed after the run.
    """
    run = run or find_run(tracker, run_id)
    if run is None:
        raise FileNotFoundError("the run was deleted")
    run_folder = folder / run_id
    run_folder.mkdir(exist_ok=True)
    fetched = Run(run_id, tracker).fetch(results.FOLDER, run_folder)
    if results.compute_digest(run_folder) != run.tags.get("results"):
        raise OSError("their content differs from what the run wrote")
    return fetched


def _read_artifact(tracker: Tracker, sweep: StoredRun, name: str, folder: Path) -> str:
    try:
        return Run(sweep.id, tracker).fetch(name, folder).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def collect_model_facts(runs: Mapping[str, StoredRun], models: Sequence[str]) -> pd.DataFrame:
    """Collect what runs record of models: `model`, `MODEL_METRICS` (NaN where unknown), `MODEL_TAGS`.

    Older runs do not record the family of their model; it is then the model without its training seed. Where
    runs of a model differ, as `verified` does between instructions, that with the shortest name of a protocol
    counts: it has the model's own instruction.
    """
    unknown = {**dict.fromkeys(MODEL_METRICS, math.nan), **dict.fromkeys(MODEL_TAGS, UNKNOWN)}
    facts_by_model: dict[str, dict[str, object]] = {
        model: {**unknown, "family": remove_seed(model), "verified": ""} for model in models
    }
    for run in sorted(runs.values(), key=lambda run: -len(run.tags.get("protocol", ""))):
        # Older runs have the metrics without the prefix.
        metrics = {name.removeprefix("model."): value for name, value in run.metrics.items()}
        facts: dict[str, object] = {name: metrics[name] for name in MODEL_METRICS if name in metrics}
        facts |= {name: run.tags[name] for name in MODEL_TAGS if run.tags.get(name)}
        facts_by_model.setdefault(run.tags.get("model", ""), {}).update(facts)
    rows = [{"model": model, **facts_by_model[model]} for model in models]
    return pd.DataFrame(rows, columns=["model", *MODEL_METRICS, *MODEL_TAGS])


def _hash_inputs(runs: Mapping[str, StoredRun]) -> dict[str, str]:
    """Collect the hashes of the jobs' inputs: input -> hash; per model if the models' hashes differ."""
    rows = [
        (name, run.tags.get("model", ""), digest)
        for run in runs.values()
        for name, digest in run.tags.items()
        if name.startswith("input.") or name == "weights.sha256"
    ]
    hashes: dict[str, str] = {}
    inputs = pd.DataFrame(rows, columns=["name", "model", "digest"]).drop_duplicates()
    for name, input_rows in inputs.groupby("name"):
        if input_rows["digest"].nunique() == 1:
            hashes[str(name)] = input_rows["digest"].iloc[0]
        else:
            by_model = input_rows.groupby("model", sort=False)["digest"]
            hashes |= {f"{name}, {model}": " ".join(digests) for model, digests in by_model}
    return hashes


def load_merged(tracker: Tracker, sweeps: Sequence[StoredRun], folder: Path) -> Findings:
    """Load and merge the findings of sweeps of the store, copying their files into a folder.

    Raises:
        InputError: the sweeps are of several datasets or have different results of the same config, or a
            sweep has no results.
    """
    datasets = dict.fromkeys(sweep.dataset for sweep in sweeps)
    if len(datasets) > 1:
        raise InputError(f"sweep=: expected sweeps of one dataset, got sweeps of {' and '.join(datasets)}.")
    all_findings = []
    for sweep in sweeps:
        copies = folder / sweep.id
        copies.mkdir()
        sweep_findings = load_stored(tracker, sweep, copies)
        if sweep_findings is None:
            raise InputError(
                f"sweep {sweep.id} ({sweep.dataset}, {sweep.started}, {sweep.status}): no job has results. "
                "Open its page in MLflow for the reason: make ui"
            )
        all_findings.append(sweep_findings)
    return merge(all_findings)


def merge(all_findings: Sequence[Findings]) -> Findings:
    """Merge the findings of sweeps over one dataset, without duplicates; q is recomputed over all.

    A job without results in one sweep is not listed if it has results in another.

    Raises:
        InputError: two sweeps have different results of the same config.
    """
    if len(all_findings) == 1:
        return all_findings[0]
    _check_same_results(all_findings)
    models = _distinct_rows([item.models for item in all_findings])
    names = configs.studies.sort_names(name for item in all_findings for name in item.frames)
    tables = {name: [item.of(name) for item in all_findings if name in item.frames] for name in names}
    jobs, missing = _drop_repeated(
        _distinct_rows([item.jobs for item in all_findings]),
        [overrides for item in all_findings for overrides in item.missing],
    )
    return replace(
        all_findings[0],
        sweep=", ".join(item.sweep for item in all_findings),
        status=next((item.status for item in all_findings if item.status != "FINISHED"), "FINISHED"),
        started=min(item.started for item in all_findings),
        folders={config: folder for item in all_findings for config, folder in item.folders.items()},
        missing=missing,
        provenance=_merge_provenance(all_findings),
        jobs=jobs,
        models=models.drop_duplicates("model", ignore_index=True),
        frames={name: load_report(name).combine(frames) for name, frames in tables.items()},
    )


def _check_same_results(all_findings: Sequence[Findings]) -> None:
    """Check that sweeps have the same analyses of the configs that they share, or raise `InputError`.

    A config may have other results in another sweep, as it holds neither the content of files nor versions.
    """
    first_by_config: dict[str, tuple[str, Path]] = {}
    for item in all_findings:
        for config, folder in item.folders.items():
            if config not in first_by_config:
                first_by_config[config] = item.sweep, folder / results.ANALYSES
                continue
            sweep, first_path = first_by_config[config]
            path = folder / results.ANALYSES
            if path.read_bytes() != first_path.read_bytes():
                row = results.read_csv(path).iloc[0]
                ids = f"{sweep[:SHORT_ID_LENGTH]},{item.sweep[:SHORT_ID_LENGTH]}"
                raise InputError(
                    f"sweep={ids}: expected the same results of {row['model']}, {row['exp']}, "
                    f"{row['protocol']} in both, got others: vectors, stimuli or versions have changed. "
                    "Report the sweeps apart; to compare two sets of vectors or answers, run one again with "
                    "model.name=NAME or llm.name=NAME."
                )


def _drop_repeated(jobs: pd.DataFrame, missing: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """Drop jobs that failed, lost their results or did not end, if another sweep has the results.

    Args:
        jobs: jobs of all sweeps.
        missing: overrides of the jobs that did not end.
    """
    if jobs.empty:
        return jobs, missing
    finished = jobs[jobs["status"].isin([FINISHED, REUSED])]
    known_configs, known_overrides = ({*finished[name]} - {""} for name in ("config", "overrides"))
    is_repeated = jobs["config"].isin(known_configs) | jobs["overrides"].isin(known_overrides)
    is_repeated &= jobs["status"].isin([FAILED, MISSING])
    return (
        jobs[~is_repeated].reset_index(drop=True),
        [overrides for overrides in missing if overrides not in known_overrides],
    )


def _distinct_rows(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True).drop_duplicates(ignore_index=True) if filled else frames[0]


def _merge_provenance(all_findings: Sequence[Findings]) -> dict[str, str]:
    """Merge entries: an entry that all sweeps share appears once, others per sweep; commands are on lines."""
    provenance: dict[str, str] = {}
    for key in dict.fromkeys(key for item in all_findings for key in item.provenance):
        texts = {
            item.sweep[:SHORT_ID_LENGTH]: item.provenance[key]
            for item in all_findings
            if key in item.provenance
        }
        if key == "command":
            provenance[key] = "\n".join(dict.fromkeys(texts.values()))
        elif key == "git.dirty":
            provenance[key] = max(texts.values())  # "true" if it is for any sweep
        elif len(texts) == len(all_findings) and len({*texts.values()}) == 1:
            provenance[key] = texts.popitem()[1]
        else:
            provenance |= {f"{key}, sweep {sweep}": text for sweep, text in texts.items()}
    return provenance
