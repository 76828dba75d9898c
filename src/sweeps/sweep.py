"""What belongs to all jobs of one command: its parent runs, its table, its failures."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hydra.core.global_hydra import GlobalHydra
from hydra.experimental.callback import Callback

from src.errors import InputError
from src.sweeps import composing, job_status, overrides

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from rich.console import Console

    from src.jobs.identity import Named
    from src.jobs.plan import Planned

log = logging.getLogger(__name__)

J = TypeVar("J", bound="Named")

# Bytes that a command's folder has to have room for at least: the configs that Hydra writes before any job.
ROOM = 2**15

# Overrides that a job's names tell, or that decide no number.
TOLD: tuple[str, ...] = (
    "exp=",
    "task=",
    "llm=",
    "model=",
    "dataset=",
    "debias",
    "protocol",
    "seed=",
    "demo.",
    "model.name=",
    "hydra.",
)
TOLD += ("answer=", "store.", "tracking", "trainer", "resume=", "plan=", "report=")


class Stopped(SystemExit):
    """No job of the command can be done: Hydra would go on after any lesser exception."""


@dataclass
class Sweep:
    """The jobs of one command; a single job is a sweep without a parent run.

    Attributes:
        multirun: whether the command was given `-m`.
        globbed: whether its experiments or protocols were named by a glob, so that one that cannot be
            served is listed rather than an error.
        module: the entry, as Python calls it.
        command: as it was typed.
        asked: overrides of its jobs; None where they could not be told.
        choices: which YAML is chosen of each group where a job's overrides do not say.
        folder: of the sweep; None for a single job.
        parts: by dataset.
        rejected: jobs that could not even be named or tracked.
        planned: what a plan says of each job.
        labels: names of its jobs.
        sent: jobs that are only named here, as other processes make them; None where this one makes them.
    """

    multirun: bool = False
    globbed: bool = False
    module: str = ""
    command: str = ""
    asked: list[list[str]] | None = None
    choices: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    parts: dict[str, job_status.Part] = field(default_factory=dict)
    rejected: list[job_status.Outcome] = field(default_factory=list)
    planned: list[Planned] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    sent: list[Named] | None = None

    def told_apart(self, job: J, typed: list[str]) -> J:
        """The job under a model name that no other job of the sweep bears in the same experiment.

        Where the YAMLs' names are taken (two folders of vectors, two sizes of a dataset), the
        overrides that no name tells yet are appended.
        """
        if job.label in self.labels:
            untold = [item for item in typed if not item.startswith(TOLD)]
            job = replace(job, model="+".join([job.model, *untold]))
        self.labels.add(job.label)
        return job

    def part(self, job: Named) -> job_status.Part:
        """The part that a job belongs to. Its first job opens the parent run: by then all compose."""
        from src.jobs import run_metadata
        from src.tracking import NUMBER, Tracker, next_number

        if job.dataset not in self.parts:
            tracker = Tracker(job.cfg.tracking.uri)
            number = next_number(tracker) if self.multirun else ""
            parent = tracker.open(job.dataset, "sweep") if self.multirun else None
            wanted = None
            if self.asked is not None:
                wanted = [
                    " ".join(item)
                    for item in self.asked
                    if overrides.dataset_of(item, self.choices) == job.dataset
                ]
            part = job_status.Part(tracker, parent, wanted, job.cfg.report)
            if parent:
                tags = {"kind": "sweep", "dataset": job.dataset, "command": self.command, NUMBER: number}
                parent.log(tags={**run_metadata.provenance(), **tags})
                job_status.begin(part)
            self.parts[job.dataset] = part
        return self.parts[job.dataset]

    def hopeless(self, error: Exception) -> bool:
        """Whether an error says that no job of the command can be tracked, so that none is begun."""
        from src.tracking import Unreachable

        return isinstance(error, Unreachable) and not self.parts

    def ended(self, outcome: job_status.Outcome, part: job_status.Part | None) -> None:
        """Record how a job ended; without a part where it could not even be named or tracked."""
        if part is None:
            self.rejected.append(outcome)
        else:
            part.outcomes.append(outcome)
            job_status.note(part)

    def close(self, status: str) -> bool:
        """Show the tables, keep them with the parent runs, end these, and draw the reports.

        Args:
            status: FINISHED, FAILED or KILLED.

        Returns:
            Whether a job or a report failed.
        """
        from rich.console import Console

        # A file or a pipe has no width: tables are not squeezed into 80 columns there.
        console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140)
        if not self.parts and not self.rejected and not self.planned:
            nothing = self.multirun and status == "FINISHED"
            if nothing:
                print("No job was run: a glob matched nothing. --help lists what there is.", file=sys.stderr)
            return nothing
        if self.planned:
            _show_plan(self.planned, console)
        self._adopt()
        kept = True
        for dataset, part in self.parts.items():
            job_status.show(dataset, part, console)
            ended = "FAILED" if part.count(job_status.FAILED) and status == "FINISHED" else status
            try:
                part.tracker.settle()
                if part.parent:
                    job_status.keep(dataset, part, part.parent)
                    part.tracker.close(part.parent, ended)
            except InputError as error:
                kept = False
                log.error("%s: what the sweep of %s came to is not kept there", error, dataset)
        every = [*self.rejected, *(outcome for part in self.parts.values() for outcome in part.outcomes)]
        failed = [outcome for outcome in every if outcome.status == job_status.FAILED]
        # A job by itself has said already why it failed.
        if failed and self.multirun:
            job_status.reasons(failed, "Failed", console)
        return not self._report() or bool(failed) or not kept

    def _adopt(self) -> None:
        """Count jobs that could not even be named among those of their dataset, where others ran."""
        for outcome in [*self.rejected]:
            dataset = overrides.dataset_of(outcome.asked.split(" "), self.choices)
            part = self.parts.get(str(outcome.columns.get("dataset", dataset)))
            if part and part.parent:
                part.outcomes.append(outcome)
                self.rejected.remove(outcome)

    def _report(self) -> bool:
        """Draw the reports, and say where they are; returns whether all could be drawn."""
        from src.report import format

        drawn, whole = [], True
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
            whole = False
            draw = overrides.as_typed(
                "src.report", [f"sweep={part.parent.id}", f"tracking.uri={part.tracker.uri}"]
            )
            print(f"No report of {dataset}. To draw it: {draw}")
        for index in drawn:
            print(f"Report: {index}")
        return whole


def _show_plan(planned: list[Planned], console: Console) -> None:
    from src.jobs import plan
    from src.report import tables

    for table, title in plan.frames(planned):
        console.print(tables.plain(table, title))


# Hydra gives a job no way to speak of the sweep that it belongs to: it is kept here.
current = Sweep()


class SweepCallback(Callback):
    """Sees that a command's folder can be written, and tells the jobs of a sweep that they are one."""

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """See Hydra's `Callback`."""
        _require(Path(config.hydra.run.dir), "hydra.run.dir")

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """See Hydra's `Callback`."""
        _require(Path(config.hydra.sweep.dir), "hydra.sweep.dir")
        composing.once(GlobalHydra.instance().config_loader())
        current.multirun = True
        named = ("exp=", "protocol=")
        current.globbed = any(
            item.startswith(named) and "glob(" in item for item in overrides.sweep_of(config)
        )
        current.asked = overrides.jobs_of(config)
        current.choices = {str(group): str(name) for group, name in config.hydra.runtime.choices.items()}
        current.folder = Path(config.hydra.sweep.dir)


def _require(folder: Path, option: str) -> None:
    """See that a folder takes files, which Hydra would find out by a traceback.

    Raises:
        Stopped: it does not; why was said.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(ROOM))
    except OSError as error:
        remedy = f"Make room, or set {option} to a folder that can."
        print(f"{folder}: cannot be written ({error.strerror}). {remedy}", file=sys.stderr)
        raise Stopped from None
