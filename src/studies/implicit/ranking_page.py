"""Build the page that ranks models over all runs of a store."""

import tempfile
from collections import Counter
from pathlib import Path

import pandas as pd

from src.errors import InputError
from src.report import format, load, page
from src.report.findings import Findings
from src.report.folder import ReportFolder
from src.report.study import Ranking, concatenate
from src.storage import results
from src.studies.implicit import section
from src.tracking import StoredRun, Tracker, find_finished_jobs

ALL = "all"
# Prefix of metrics that every audit (a job of this study) logs: the mean gap of each attribute.
METRIC_PREFIX = "cles_gap."
# Tags of a run that are columns of tables/runs.csv.
RUN_TAGS = (
    *("exp", "model", "debias", "perturb", "protocol", "seed", "config", "pretraining"),
    *("input.faces", "git.commit", "git.dirty"),
)


def list_runs(tracker: Tracker, dataset: str) -> list[StoredRun]:
    """List the newest finished audit of each config on a dataset, oldest first.

    If `dataset` is empty, the store must contain audits of a single dataset, which is used.

    Raises:
        InputError: no audit is stored, or `dataset` is empty and audits of several datasets are stored.
    """
    all_audits = [
        run
        for run in find_finished_jobs(tracker)
        # Poems have such metrics as well. Runs of older versions have no tag `study`.
        if run.tags.get("study", "implicit") == "implicit"
        and any(name.startswith(METRIC_PREFIX) for name in run.metrics)
    ]
    counts = Counter(run.dataset for run in all_audits)
    listing = ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))
    if not dataset and len(counts) > 1:
        raise InputError(f"sweep=all: audits of several datasets are stored: {listing}. Set dataset=NAME.")
    audits = [run for run in all_audits if dataset in ("", run.dataset)]
    if not audits:
        example = "run one: python -m src.run -m 'exp=cles_competence,cles_emotions,iat_semantic'"
        raise InputError(
            f"sweep=all: no finished audit{f' of dataset={dataset}' if dataset else ''} is in the store; "
            + (f"there are audits of {listing}." if listing else example)
        )
    # Audits are sorted, oldest first, so the last audit of a config replaces the others.
    newest = {run.tags.get("config", run.id): run for run in audits}
    return [run for run in audits if newest[run.tags.get("config", run.id)] is run]


def merge_results(tracker: Tracker, audits: list[StoredRun], folder: Path) -> Findings:
    """Load the results of runs as the findings of a single sweep.

    Raises:
        InputError: the results of every run are missing.
    """
    jobs, frames, folders = [], [], {}
    for run in audits:
        labels = {name: run.tags.get(name, results.LATER_NAMES.get(name)) for name in load.JOB_COLUMNS} | {
            "run": run.id
        }
        try:
            results_folder = load.fetch_results(tracker, run.id, folder)
            frame = results.read_csv(results_folder / results.ANALYSES)
        except OSError as error:
            jobs.append({**labels, "status": load.MISSING, "reason": f"results cannot be read ({error})"})
            continue
        frames.append(frame.assign(faces=run.tags.get("input.faces", "")))
        folders[str(frame["config"].iloc[0])] = results_folder
        jobs.append({**labels, "status": load.FINISHED})
    if not frames:
        raise InputError(f"sweep=all: the results of all {len(audits)} audits are missing. Run them again.")
    analyses = concatenate(frames)
    model_names = [str(name) for name in dict.fromkeys(analyses["model"])]
    return Findings(
        dataset=audits[0].dataset,
        sweep=ALL,
        status="FINISHED",
        started=audits[-1].started,  # the newest: audits are sorted, oldest first
        frames={"implicit": analyses},
        folders=folders,
        jobs=load.build_jobs_table(jobs),
        missing=[],
        models=load.collect_model_facts({run.id: run for run in audits}, model_names),
        provenance={},
    )


def write(tracker: Tracker, audits: list[StoredRun], folder: Path) -> Path:
    """Write the page of a ranking, its figures and its tables into an empty folder; return its path.

    Raises:
        InputError: the results of every run are missing.
    """
    report_folder = ReportFolder(folder)
    with tempfile.TemporaryDirectory() as downloads:
        findings = merge_results(tracker, audits, Path(downloads))
        ranking = section.build_ranking_context(findings, report_folder)
    report_folder.write_table(
        "audits", findings.of("implicit"), "all analyses of the ranked audits, unrounded"
    )
    run_rows = [
        {"run": run.id, "started": run.started} | {name: run.tags.get(name, "") for name in RUN_TAGS}
        for run in audits
    ]
    report_folder.write_table("runs", pd.DataFrame(run_rows), "the newest run of each config")
    missing = findings.jobs[findings.jobs["status"] == load.MISSING]
    context = {
        "dataset": findings.dataset,
        "newest": findings.started.replace("T", " ")[:16],
        "n_runs": len(audits),
        "ranking": ranking,
        # Models have a place only if they have all measures of the ranking.
        "n_complete": sum(pd.notna(row["place"]) for row in ranking["models"]) if ranking else 0,
        "unreadable_runs": format.to_records(missing),
        "commits": sorted({run.tags.get("git.commit", "unknown") for run in audits}),
        "n_dirty": sum(run.tags.get("git.dirty") == "true" for run in audits),
        "max_rows": format.MAX_ROWS,
        "tables": report_folder.tables,
    }
    return page.render("ranking_page.html", context, folder, [section.TEMPLATES])


RANKING = Ranking(runs=list_runs, write=write)
