"""Sweep over the jobs of one command: name them, open parent runs, run the jobs, close the parent runs."""

import copy
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import run_job
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict, read_write
from rich.console import Console

from src import configs
from src.errors import (
    RESUME_HINT,
    InputError,
    NotApplicable,
    is_interrupt,
    raise_if_interrupted,
    write_refusal,
)
from src.jobs import plan, run_metadata
from src.jobs.identity import Job, NamedConfig
from src.jobs.plan import JobPlan
from src.jobs.run_metadata import name_sweep
from src.jobs.runner import FAILED, Outcome, Runner, log_failure, run
from src.report import format, load, tables
from src.sweeps import job_status, overrides
from src.sweeps.job_status import DatasetRecorder, SweepJob
from src.tracking import SWEEP_NUMBER, Tracker, Unreachable, find_next_number

log = logging.getLogger(__name__)

J = TypeVar("J", bound=NamedConfig)

# Number of a job, its overrides, Hydra's settings, and the job's config without Hydra's settings.
ComposedJob = tuple[int, Sequence[str], Any, DictConfig]

# Prefixes of overrides of groups whose lists and mappings no name contains, nor any field of a user's YAML.
PARTLY_NAMED = ("debias.", "perturb.", "protocol.", "demo.")
# Prefixes of overrides that a job's names mostly contain already, or that do not affect its numbers.
NAMED_OR_IRRELEVANT: tuple[str, ...] = (
    *("exp=", "task=", "llm=", "model=", "dataset=", "debias", "perturb", "protocol", "seed=", "demo."),
    "model.name=",
    *("hydra.", "answer=", "store.", "tracking", "trainer", "resume=", "plan=", "report="),
)


@dataclass
class Sweep:
    """The jobs of one command; a single job is a sweep without a parent run."""

    runner: Runner[Any, Any]  # steps of its jobs
    command: str  # command line of the user, for the parent run
    folder: Path | None = None  # output folder of the sweep; None for a single job
    # Whether a glob selected experiments, tasks, protocols or perturbations: jobs that are not applicable are
    # then skipped, not failed.
    has_glob: bool = False
    recorders: dict[str, DatasetRecorder] = field(default_factory=dict)  # dataset -> recorder of its jobs
    # Job number -> dataset and outcome, for each job that could not be named, planned or tracked.
    rejected: dict[int, tuple[str, Outcome]] = field(default_factory=dict)
    planned: list[JobPlan] = field(default_factory=list)  # plan of each job, with `plan=true`

    def run(self, composed: Iterable[ComposedJob], run_jobs: Callable[[list[SweepJob]], object]) -> bool:
        """Run all jobs with `run_jobs`, which records their outcomes; always close their parent runs.

        Returns whether a job or a report failed.
        """
        status, failure = "FAILED", True
        try:
            sweep_jobs = self._open_runs(self._plan(self._name_jobs(composed)))
            if sweep_jobs:
                run_jobs(sweep_jobs)
            status = "FINISHED"
        except Unreachable as error:
            log.error("%s", error)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = "KILLED" if is_interrupt(stop) else status
            raise
        finally:
            try:
                failure = self._close(status)
            except Exception as error:
                if not (why := write_refusal(error)):
                    raise
                log.error("cannot store the tables of the sweep (%s). %s", why, RESUME_HINT)
        return failure or status != "FINISHED"

    def perform(self, sweep_job: SweepJob) -> None:
        """Run one job in this process, and record it."""
        recorder = self.recorders[sweep_job.job.dataset]
        recorder.record(
            sweep_job,
            *run(sweep_job.job, self.runner, recorder, sweep_job.user_overrides, has_glob=self.has_glob),
        )

    def perform_all(self, sweep_jobs: list[SweepJob]) -> None:
        """Run jobs in this process, one after another."""
        for sweep_job in sweep_jobs:
            self.perform(sweep_job)

    def _name_jobs(self, composed: Iterable[ComposedJob]) -> list[SweepJob]:
        """Name every job; reject those that cannot be named, and continue with the others."""
        sweep_jobs: list[SweepJob] = []
        labels: set[str] = set()
        outputs: set[Path] = set()
        for number, job_overrides, hydra_config, config in composed:
            user_overrides = overrides.select_user_overrides(hydra_config)
            text = " ".join(user_overrides) or "the default job"
            try:
                job = make_label_unique(build_job(self.runner, hydra_config, config), user_overrides, labels)
                if job.output in outputs:
                    raise InputError(
                        f"{job.output}: the folder of two jobs, of which one would replace the other's "
                        "results. Set hydra.sweep.subdir to differ, as in '${hydra.job.num}'; with src.stage "
                        "propagate, choose one model and one value of each setting."
                    )
            except Exception as error:
                raise_if_interrupted()
                dataset = overrides.dataset_of(user_overrides, hydra_config.runtime.choices)
                self.rejected[number] = dataset, replace(log_failure(error), overrides=text)
                continue
            labels.add(job.label)
            outputs.add(job.output)
            sweep_jobs.append(SweepJob(number, [*job_overrides], text, job))
        return sweep_jobs

    def _plan(self, sweep_jobs: list[SweepJob]) -> list[SweepJob]:
        """Plan the jobs with `plan=true`, and return the others."""
        for sweep_job in sweep_jobs:
            if sweep_job.job.cfg.plan:
                try:
                    self.planned.append(self.runner.plan(sweep_job.job))
                except Exception as error:
                    raise_if_interrupted()
                    if isinstance(error, NotApplicable) and self.has_glob:
                        self.planned.append(JobPlan(sweep_job.job.label, f"not applicable: {error}"))
                    else:
                        self._reject(sweep_job, error)
        return [sweep_job for sweep_job in sweep_jobs if not sweep_job.job.cfg.plan]

    def _reject(self, sweep_job: SweepJob, error: Exception) -> None:
        """Log the error of a job that cannot be planned or tracked, and record the job as failed."""
        outcome = replace(
            log_failure(error, sweep_job.job),
            overrides=sweep_job.user_overrides,
            columns=sweep_job.job.columns,
        )
        self.rejected[sweep_job.number] = sweep_job.job.dataset, outcome

    def _open_runs(self, sweep_jobs: list[SweepJob]) -> list[SweepJob]:
        """Open the store and the parent run of each dataset; return the jobs that can be tracked."""
        # Job number -> dataset and user's overrides, for every requested job.
        requested = {number: (name, outcome.overrides) for number, (name, outcome) in self.rejected.items()}
        requested |= {
            sweep_job.number: (sweep_job.job.dataset, sweep_job.user_overrides) for sweep_job in sweep_jobs
        }
        trackable = []
        for sweep_job in sweep_jobs:
            dataset = sweep_job.job.dataset
            try:
                if dataset not in self.recorders:
                    texts = [text for _, (name, text) in sorted(requested.items()) if name == dataset]
                    dataset_jobs = [other.job for other in sweep_jobs if other.job.dataset == dataset]
                    self.recorders[dataset] = self._make_recorder(dataset_jobs, texts)
                trackable.append(sweep_job)
            except Exception as error:
                raise_if_interrupted()
                if isinstance(error, Unreachable) and not self.recorders:  # no job could be recorded
                    raise
                self._reject(sweep_job, error)
        return trackable

    def _make_recorder(self, jobs: list[NamedConfig], texts: list[str]) -> DatasetRecorder:
        """Open the store and, in a sweep, the parent run of one dataset's jobs.

        `texts`: user's overrides of each requested job of the dataset.
        """
        job = jobs[0]
        tracker = Tracker(job.cfg.tracking.uri)
        if not self.folder:
            return DatasetRecorder(tracker, None, self.command, report=job.cfg.report)
        number = find_next_number(tracker)
        parent = tracker.start_run(job.dataset, name_sweep(jobs))
        recorder = DatasetRecorder(tracker, parent, self.command, overrides=texts, report=job.cfg.report)
        for swept_job in jobs:
            # Only toys learn from captions with a planted bias.
            if isinstance(swept_job, Job) and isinstance(swept_job.cfg.model, configs.ToyConfig):
                recorder.planted = job_status.describe_planted(swept_job.cfg.demo)
                break
        tags = {"kind": "sweep", "dataset": job.dataset, "command": self.command, SWEEP_NUMBER: number}
        parent.log(tags={**run_metadata.collect_provenance(), **tags})
        # If the sweep is killed, this list of the requested jobs shows which are missing.
        parent.log_text(json.dumps(texts, indent=0, ensure_ascii=False), load.OVERRIDES)
        return recorder

    def _close(self, status: str) -> bool:
        """Close the sweep; return whether a job or a report failed, or its tables could not be saved."""
        # In a file or pipe, which has no width, rich would squeeze tables into 80 columns.
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)
        if not self.recorders and not self.rejected and not self.planned:
            if is_empty := self.folder is not None and status == "FINISHED":
                print("No job was run: a glob matched nothing. --help lists the choices.", file=sys.stderr)
            return is_empty
        if self.planned:
            for table, title in plan.build_tables(self.planned):
                console.print(tables.build_table(table, title))
        outcomes = [outcome for _, outcome in self.rejected.values()]
        for number, (dataset, outcome) in self.rejected.items():
            if dataset in self.recorders and self.recorders[dataset].parent:
                self.recorders[dataset].outcomes[number] = outcome
                outcomes.remove(outcome)
        tables_saved = [self._close_dataset(*item, status, console) for item in self.recorders.items()]
        outcomes += [
            outcome for recorder in self.recorders.values() for outcome in recorder.outcomes.values()
        ]
        # A single job has already logged why it failed.
        if self.folder:
            job_status.print_reasons(outcomes, FAILED, "Failed", console)
        failure = any(outcome.status == FAILED for outcome in outcomes)
        return not self._write_reports() or failure or not all(tables_saved)

    def _close_dataset(self, dataset: str, recorder: DatasetRecorder, status: str, console: Console) -> bool:
        """Print the tables of a dataset, and log them with its parent run; return whether that succeeded."""
        job_status.print_results(dataset, recorder, console)
        try:
            recorder.tracker.end_lost_runs()
            if recorder.parent:
                job_status.log_summary(dataset, recorder, recorder.parent)
                has_failure = status == "FINISHED" and recorder.count(FAILED)
                recorder.parent.end("FAILED" if has_failure else status)
        except InputError as error:
            log.error("%s; the tables of the sweep of %s are not stored there", error, dataset)
            return False
        return True

    def _write_reports(self) -> bool:
        """Write the reports, and print their paths; return whether all could be written."""
        index_paths, all_written = [], True
        names = format.make_slugs(self.recorders)
        for dataset, recorder in self.recorders.items():
            if not (recorder.report and recorder.parent and recorder.folders and self.folder):
                continue
            folder = self.folder / "report" / (names[dataset] if len(self.recorders) > 1 else "")
            log.info("drawing the report of %s", dataset)
            try:
                index_paths.append(job_status.write_report(recorder, recorder.parent, folder))
                continue
            except InputError as error:
                log.error("%s", error)
            except KeyboardInterrupt:
                log.warning("interrupted while drawing the report")
            except Exception as error:
                log.error("the report failed (a bug in this program)", exc_info=error)
            all_written = False
            report_command = overrides.format_command(
                "src.report", [f"sweep={recorder.parent.id}", f"tracking.uri={recorder.tracker.uri}"]
            )
            print(f"No report of {dataset}. To draw it: {report_command}")
        for index in index_paths:
            print(f"Report: {index}")
        return all_written


def locate_job(config: DictConfig, number: int) -> tuple[Any, DictConfig]:
    """Set the number and the output folder in a job's config.

    Returns Hydra's settings, and the config without them.
    """
    with open_dict(config):
        config.hydra.job.id = config.hydra.job.num = number
    HydraConfig.instance().set_config(config)
    folder = Path(config.hydra.sweep.dir, str(config.hydra.sweep.subdir))
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.runtime.output_dir = str(folder.absolute())
    job_config = copy.deepcopy(config)
    with read_write(job_config), open_dict(job_config):
        del job_config["hydra"]
    return config.hydra, job_config


def run_in_folder(context: HydraContext, config: DictConfig, task: TaskFunction) -> None:
    """Run a task in a job's output folder, and raise its error if it fails."""
    job_return = run_job(task, config, "hydra.sweep.dir", "hydra.sweep.subdir", hydra_context=context)
    _ = job_return.return_value  # raises the error


def build_job(runner: Runner[J, Any], hydra_config: Any, config: DictConfig) -> J:
    """Build the job of a config without Hydra's settings; raise `InputError` for an invalid value."""
    configs.check_dataset(hydra_config)
    return runner.build_job(config, dict(hydra_config.runtime.choices), hydra_config.runtime.output_dir)


def make_label_unique(job: J, user_overrides: list[str], labels: set[str]) -> J:
    """Return the job with a label that differs from the `labels` of earlier jobs.

    If another job has the same label (as with two folders of vectors, or two sizes of a dataset), the
    overrides that no name contains yet are appended to the job's model name; if that is not enough (as with
    two lists of perturbed roles), lists and mappings of `PARTLY_NAMED`, too.
    """
    unnamed = [text for text in user_overrides if not text.startswith(NAMED_OR_IRRELEVANT)]
    partly_named = [
        text
        for text in user_overrides
        if text.startswith(PARTLY_NAMED) and text.partition("=")[2].startswith(("[", "{"))
    ]
    added_texts: tuple[list[str], ...] = ([], unnamed, [*unnamed, *partly_named])
    for texts in added_texts:
        renamed = replace(job, model="+".join([job.model, *texts]))
        if renamed.label not in labels:
            break
    return renamed
