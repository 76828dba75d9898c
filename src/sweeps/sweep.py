"""All jobs of one command: name them, open their parent runs, have them run, and close."""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict, read_write
from rich.console import Console

from src import configs
from src.errors import GOES_ON, InputError, NotApplicable, interrupted, raise_pending_interrupt, refused
from src.jobs import plan, run_metadata
from src.jobs.identity import Named
from src.jobs.plan import Planned
from src.jobs.runner import FAILED, Outcome, Runner, failed, run
from src.report import format, tables
from src.sweeps import job_status, overrides
from src.sweeps.job_status import Part, SweepJob
from src.tracking import NUMBER, Tracker, Unreachable, next_number

log = logging.getLogger(__name__)

J = TypeVar("J", bound=Named)

# Number, overrides, Hydra's settings and config of a job.
ComposedJob = tuple[int, Sequence[str], Any, DictConfig]

# Prefixes of overrides that a job's names tell, or that decide no number.
IN_NAMES: tuple[str, ...] = (
    *("exp=", "task=", "llm=", "model=", "dataset=", "debias", "protocol", "seed=", "demo.", "model.name="),
    *("hydra.", "answer=", "store.", "tracking", "trainer", "resume=", "plan=", "report="),
)


@dataclass
class Sweep:
    """The jobs of one command; a single job is a sweep without a parent run.

    Attributes:
        runner: steps of its kind of jobs.
        command: the command as typed, for the parent run.
        folder: output folder of the sweep; None for a single job.
        globbed: whether a glob named its experiments or protocols, so that one that does not apply is
            listed, and no error.
        parts: dataset -> its jobs.
        rejected: number -> dataset and outcome of each job that could not be named, planned or tracked.
        planned: what `plan=true` says of each job.
    """

    runner: Runner[Any, Any]
    command: str
    folder: Path | None = None
    globbed: bool = False
    parts: dict[str, Part] = field(default_factory=dict)
    rejected: dict[int, tuple[str, Outcome]] = field(default_factory=dict)
    planned: list[Planned] = field(default_factory=list)

    def run(
        self,
        composed: Iterable[ComposedJob],
        make: Callable[[list[SweepJob]], object],
    ) -> bool:
        """Run all jobs, and close their parent runs with tables and reports, whatever happens.

        Args:
            composed: number, overrides, Hydra's settings and config of each job.
            make: runs named jobs, or has other processes run them; records each in its `Part`.

        Returns:
            Whether a job or a report failed.
        """
        status, failure = "FAILED", True
        try:
            entries = self._opened(self._planned(self._named(composed)))
            if entries:
                make(entries)
            status = "FINISHED"
        except Unreachable as error:
            log.error("%s", error)
        except (KeyboardInterrupt, SystemExit) as stop:
            status = "KILLED" if interrupted(stop) else status
            raise
        finally:
            failure = self._closed(status)
        return failure or status != "FINISHED"

    def perform(self, entry: SweepJob) -> None:
        """Run one job in this process, and record it."""
        part = self.parts[entry.job.dataset]
        part.record(entry, *run(entry.job, self.runner, part, entry.typed, globbed=self.globbed))

    def perform_all(self, entries: list[SweepJob]) -> None:
        """Run jobs in this process, one after another."""
        for entry in entries:
            self.perform(entry)

    def _named(self, composed: Iterable[ComposedJob]) -> list[SweepJob]:
        """Name every job; one that cannot be named is rejected, and the others go on."""
        entries: list[SweepJob] = []
        labels: set[str] = set()
        for number, given, hydra_config, config in composed:
            typed = overrides.typed(hydra_config)
            text = " ".join(typed) or "the default job"
            try:
                job = distinct(named(self.runner, hydra_config, config), typed, labels)
            except Exception as error:
                raise_pending_interrupt()
                dataset = overrides.dataset_of(typed, hydra_config.runtime.choices)
                self.rejected[number] = dataset, replace(failed(error), overrides=text)
                continue
            labels.add(job.label)
            entries.append(SweepJob(number, [*given], text, job))
        return entries

    def _planned(self, entries: list[SweepJob]) -> list[SweepJob]:
        """Plan the jobs that ask for it, and return the others."""
        for entry in entries:
            if entry.job.cfg.plan:
                try:
                    self.planned.append(self.runner.plan(entry.job))
                except NotApplicable as error:
                    if self.globbed:
                        self.planned.append(Planned(entry.job.label, f"not applicable: {error}"))
                    else:
                        self._reject(entry, error)
                except Exception as error:
                    raise_pending_interrupt()
                    self._reject(entry, error)
        return [entry for entry in entries if not entry.job.cfg.plan]

    def _reject(self, entry: SweepJob, error: Exception) -> None:
        outcome = replace(failed(error, entry.job), overrides=entry.typed, columns=entry.job.columns)
        self.rejected[entry.number] = entry.job.dataset, outcome

    def _opened(self, entries: list[SweepJob]) -> list[SweepJob]:
        """Open the store of each dataset's jobs, and a sweep's parent run; return the jobs that it takes."""
        asked = {number: (dataset, outcome.overrides) for number, (dataset, outcome) in self.rejected.items()}
        asked |= {entry.number: (entry.job.dataset, entry.typed) for entry in entries}
        opened = []
        for entry in entries:
            dataset = entry.job.dataset
            try:
                if dataset not in self.parts:
                    texts = [text for _, (name, text) in sorted(asked.items()) if name == dataset]
                    self.parts[dataset] = self._part(entry.job, texts)
                opened.append(entry)
            except Exception as error:
                raise_pending_interrupt()
                if isinstance(error, Unreachable) and not self.parts:
                    raise
                self._reject(entry, error)
        return opened

    def _part(self, job: Named, asked: list[str]) -> Part:
        tracker = Tracker(job.cfg.tracking.uri)
        if not self.folder:
            return Part(tracker, None, report=job.cfg.report)
        number = next_number(tracker)
        part = Part(tracker, tracker.open(job.dataset, "sweep"), asked=asked, report=job.cfg.report)
        assert part.parent
        tags = {"kind": "sweep", "dataset": job.dataset, "command": self.command, NUMBER: number}
        part.parent.log(tags={**run_metadata.provenance(), **tags})
        job_status.log_asked(part)
        return part

    def _closed(self, status: str) -> bool:
        """Close the sweep; return whether a job or a report failed, or its tables could not be kept."""
        try:
            return self._close(status)
        except Exception as error:
            if not (why := refused(error)):
                raise
            log.error("the sweep's tables cannot be kept (%s). %s", why, GOES_ON)
            return True

    def _close(self, status: str) -> bool:
        # A file or a pipe has no width: tables are not squeezed into 80 columns there.
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)
        if not self.parts and not self.rejected and not self.planned:
            nothing = self.folder is not None and status == "FINISHED"
            if nothing:
                print("No job was run: a glob matched nothing. --help lists what there is.", file=sys.stderr)
            return nothing
        if self.planned:
            for table, title in plan.frames(self.planned):
                console.print(tables.plain(table, title))
        outcomes = [outcome for _, outcome in self.rejected.values()]
        for number, (dataset, outcome) in self.rejected.items():
            if dataset in self.parts and self.parts[dataset].parent:
                self.parts[dataset].outcomes[number] = outcome
                outcomes.remove(outcome)
        tables_kept = [self._close_part(*part, status, console) for part in self.parts.items()]
        outcomes += [outcome for part in self.parts.values() for outcome in part.outcomes.values()]
        # A job by itself has said already why it failed.
        if self.folder:
            job_status.reasons(outcomes, FAILED, "Failed", console)
        failure = any(outcome.status == FAILED for outcome in outcomes)
        return not self._report() or failure or not all(tables_kept)

    def _close_part(self, dataset: str, part: Part, status: str, console: Console) -> bool:
        """Print a part's tables, and close its parent run with them; return whether they could be kept."""
        job_status.show(dataset, part, console)
        try:
            part.tracker.settle()
            if part.parent:
                job_status.log_summary(dataset, part, part.parent)
                ended = "FAILED" if part.count(FAILED) and status == "FINISHED" else status
                part.tracker.close(part.parent, ended)
        except InputError as error:
            log.error("%s; what the sweep of %s came to is not kept there", error, dataset)
            return False
        return True

    def _report(self) -> bool:
        """Draw the reports, and print where they are; return whether all could be drawn."""
        drawn, complete = [], True
        names = format.slugs(self.parts)
        for dataset, part in self.parts.items():
            if not (part.report and part.parent and part.folders and self.folder):
                continue
            folder = self.folder / "report" / (names[dataset] if len(self.parts) > 1 else "")
            log.info("drawing the report of %s", dataset)
            try:
                drawn.append(job_status.report(part, part.parent, folder))
                continue
            except InputError as error:
                log.error("%s", error)
            except KeyboardInterrupt:
                log.warning("interrupted while the report was drawn")
            except Exception as error:
                log.error("the report: this is a fault of the program, not of its input", exc_info=error)
            complete = False
            draw = overrides.as_typed(
                "src.report", [f"sweep={part.parent.id}", f"tracking.uri={part.tracker.uri}"]
            )
            print(f"No report of {dataset}. To draw it: {draw}")
        for index in drawn:
            print(f"Report: {index}")
        return complete


def located(config: DictConfig, number: int) -> tuple[Any, DictConfig]:
    """Set the number and the output folder of a job in its config.

    Returns:
        Hydra's settings of the job, and its config without them, as Hydra gives it to a task function.
    """
    with open_dict(config):
        config.hydra.job.id = config.hydra.job.num = number
    HydraConfig.instance().set_config(config)
    folder = Path(config.hydra.sweep.dir, str(config.hydra.sweep.subdir))
    with read_write(config.hydra), open_dict(config.hydra):
        config.hydra.runtime.output_dir = str(folder.absolute())
    own = copy.deepcopy(config)
    with read_write(own), open_dict(own):
        del own["hydra"]
    return config.hydra, own


def named(runner: Runner[J, Any], hydra_config: Any, config: DictConfig) -> J:
    """Name the job of a composed config.

    Args:
        runner: steps of its kind.
        hydra_config: Hydra's settings, `runtime.output_dir` included.
        config: the composed config without them.

    Raises:
        InputError: a value is missing, or out of bounds.
    """
    configs.check_dataset(hydra_config)
    return runner.name(config, dict(hydra_config.runtime.choices), hydra_config.runtime.output_dir)


def distinct(job: J, typed: list[str], labels: set[str]) -> J:
    """Return the job under a model name that no other job of the sweep bears in the same experiment.

    Where the YAMLs' names are taken (two folders of vectors, two sizes of a dataset), the overrides that no
    name tells yet are appended.
    """
    if job.label not in labels:
        return job
    return replace(job, model="+".join([job.model, *(x for x in typed if not x.startswith(IN_NAMES))]))
