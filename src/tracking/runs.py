"""MLflow runs: one per job, under one parent per sweep."""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from src.errors import GOES_ON, InputError, masked, refused
from src.tracking import database, fresh, lost, names, repair, tracking_server, waiting
from src.tracking.database import SQLITE
from src.tracking.run import JobRun, Run
from src.tracking.tracking_server import Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

# MLflow's pages open on runs, not on traces of language models.
KIND = {"mlflow.experimentKind": "custom_model_development"}
PARENT_TAG = "mlflow.parentRunId"
LOST = "the tracking store was out of reach while it ran"
# Runs of one key: more than one only where results were lost or asked for anew.
TRIED = 20
# Characters: MLflow takes 500 of an experiment's name, file systems 255 of a folder's.
LIMIT_EXPERIMENT, LIMIT_FOLDER = 480, 200


class Tracker:
    """A tracking store.

    Args:
        uri: `sqlite:///PATH`, made when absent, its artifacts beside it; or the address of an MLflow server.
        make: false: a database that is absent stays so.

    Attributes:
        uri: the same, a path made absolute.

    Raises:
        InputError: the store is not there to be asked.
        Unreachable: it cannot be opened.
    """

    def __init__(self, uri: str, *, make: bool = True) -> None:
        # A run named by the environment would be resumed in place of a child of its parent.
        os.environ.pop("MLFLOW_RUN_ID", None)
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        for noisy in ("alembic", "mlflow.utils"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        # What a database refuses it raises, and shows with a traceback before; here it is named once.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        self._artifacts: Path | None = None
        self._away = False
        self._lost: list[JobRun] = []
        if uri.startswith(tracking_server.SCHEMES):
            tracking_server.prepare()
            self.uri = uri.rstrip("/")
            with waiting.announced(f"tracking.uri={masked(self.uri)}"):
                tracking_server.require(self.uri)
        elif uri.startswith(SQLITE):
            place = Path(uri.removeprefix(SQLITE)).absolute()
            database.require(place, make=make)
            self.uri = f"{SQLITE}{place}"
        else:
            raise Unreachable(
                f"tracking.uri={uri}: neither a database nor a server. Say sqlite:///PATH or "
                "http://HOST:PORT; other databases stand behind a server (docs/server.md)."
            )
        with waiting.announced(f"tracking.uri={masked(self.uri)}"):
            self._open()

    def _open(self) -> None:
        from mlflow import MlflowClient

        try:
            if self.uri.startswith(SQLITE):
                place = Path(self.uri.removeprefix(SQLITE))
                fresh.make(place)
                self._artifacts = place.parent / "artifacts"
            self.client = MlflowClient(self.uri)
            self.client.search_experiments(max_results=1)
            if self._artifacts is not None:
                repair.relocate(place, self._artifacts)
            repair.bury(self.client)
        except Exception as error:  # MLflow lets through whatever its drivers raise
            remedy = "Name a database that MLflow made, a new one, or the address of a running server."
            if "locked" in refused(error):
                remedy = database.REMEDIES["database is locked"]
            said = f"tracking.uri={self.uri}: cannot be opened ({tracking_server.short(error)})"
            raise Unreachable(f"{said}. {remedy}") from None

    def require(self) -> None:
        """See that a server answers; of a database there is nothing to see.

        Raises:
            Unreachable: it does not.
        """
        if self.uri.startswith(tracking_server.SCHEMES):
            tracking_server.require(self.uri, retries=0)

    def ask(self, do: Callable[[], T]) -> T:
        """What the store answers.

        A server that was out of reach is not waited for a second time: first it has to answer at once.

        Raises:
            Unreachable: it does not answer, or cannot write; any other error is as MLflow raises it.
        """
        if self._away:
            self.require()
        try:
            with waiting.announced(f"tracking.uri={masked(self.uri)}"):
                found = do()
        except Unreachable:
            self._away = True
            raise
        except Exception as error:
            if not tracking_server.away(error):
                raise
            self._away = True
            said = f"out of reach ({tracking_server.short(error)})"
            if why := refused(error):
                said = f"cannot be written ({why}). {GOES_ON}"
            raise Unreachable(f"tracking.uri={self.uri}: {said}") from None
        self._away = False
        return found

    def experiment(self, name: str) -> str:
        """Id of an experiment, made when absent.

        Raises:
            InputError: it was deleted, or keeps its artifacts where this machine would not find them.
        """
        from mlflow.exceptions import MlflowException

        name = names.title(name, LIMIT_EXPERIMENT)
        found = self.client.get_experiment_by_name(name)
        if found is None:
            place = None if self._artifacts is None else (self._artifacts / _folder_name(name)).as_uri()
            try:
                self.client.create_experiment(name, artifact_location=place, tags=KIND)
            except MlflowException:
                # Another process made it meanwhile.
                if self.client.get_experiment_by_name(name) is None:
                    raise
            found = self.client.get_experiment_by_name(name)
        return self._usable(found)

    def _usable(self, experiment: Any) -> str:
        if experiment.lifecycle_stage == "deleted":
            raise InputError(
                f"tracking.uri={masked(self.uri)}: the experiment {experiment.name} was deleted. Restore it: "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            )
        if self._artifacts is None and repair.local(experiment.artifact_location):
            raise InputError(
                f"tracking.uri={masked(self.uri)}: the server keeps artifacts of {experiment.name} in "
                f"{experiment.artifact_location}, a folder of its own machine. Start one that takes "
                "artifacts itself, on a database of its own: make serve"
            )
        return str(experiment.experiment_id)

    def open(self, experiment: str, name: str, parent: Run | None = None) -> Run:
        """Start a run; `close` it, or end it with a block, `recorded`."""
        tags = repair.process() | ({PARENT_TAG: parent.id} if parent else {})

        def create() -> Any:
            return self.client.create_run(self.experiment(experiment), run_name=names.title(name), tags=tags)

        return Run(self.ask(create).info.run_id, self)

    def job(self, experiment: str, name: str, parent: Run | None = None) -> JobRun:
        """Start a run of a job, which goes on where the store is out of reach."""
        try:
            return JobRun(self.open(experiment, name, parent).id, self)
        except Unreachable as error:
            run = JobRun("", self, str(error))
            self.lose(run)
            return run

    def lose(self, run: JobRun) -> None:
        """Note that a job's run is not recorded any further."""
        log.error("%s: the job goes on, its results will be in its own folder only", run.lost)
        self._lost.append(run)

    def settle(self) -> None:
        """End the runs that were not recorded to their end, as FAILED.

        Raises:
            Unreachable: the store is still out of reach; who opens it next ends them.
        """
        while self._lost:
            run = self._lost.pop()
            if run.id:
                self.ask(partial(self.client.set_tag, run.id, "ended", LOST))
                self.ask(partial(self.client.set_terminated, run.id, "FAILED"))

    def finished(self, experiment: str, key: str) -> list[Run]:
        """The FINISHED runs of an experiment whose tag `key` is this one, the newest first.

        All of them: the newest may have lost its files, or a clock that was set back may call another so.
        """
        title = names.title(experiment, LIMIT_EXPERIMENT)
        known = self.ask(lambda: self.client.get_experiment_by_name(title))
        if known is None:
            return []
        found = self.ask(
            lambda: self.client.search_runs(
                [known.experiment_id],
                f"tags.key = '{key}' and attributes.status = 'FINISHED'",
                max_results=TRIED,
                order_by=["attributes.end_time DESC"],
            )
        )
        return [Run(run.info.run_id, self) for run in found]

    def close(self, run: Run, status: str = "FINISHED") -> None:
        """End a run as FINISHED, FAILED or KILLED."""
        run.end(status)

    def end(self, parent: Run, labels: Collection[str], why: str) -> dict[str, tuple[str, str]]:
        """End the RUNNING children of a run whose process is known to be gone, as KILLED.

        Args:
            parent: of a sweep.
            labels: names that the children were opened with.
            why: for a tag, `ended`.

        Returns:
            Label -> id and status, of each label that has a run.
        """
        child = f"tags.`{PARENT_TAG}` = '{parent.id}'"
        titles = {names.title(label): label for label in labels}
        experiment = self.ask(lambda: self.client.get_run(parent.id)).info.experiment_id
        ended = self.ask(lambda: lost.end(self.client, experiment, child, titles, why))
        return {titles[title]: run for title, run in ended.items()}

    @contextmanager
    def recorded(self, run: Run) -> Iterator[None]:
        """End a run with this block: FINISHED, FAILED with its traceback, or KILLED."""
        try:
            yield
        except Exception:
            try:
                run.text(masked(traceback.format_exc()), "traceback.txt")
            except Exception as error:  # what ended the run may be that nothing can be written there
                log.warning("the traceback of run %s cannot be kept: %s", run.id, error)
            with suppress(Unreachable):  # the error itself matters more
                self.close(run, "FAILED")
            raise
        except BaseException:
            with suppress(Unreachable):
                self.close(run, "KILLED")
            raise
        self.close(run)


def _folder_name(experiment: str) -> str:
    """Return the folder of an experiment's artifacts; below it each run has one of its own."""
    return re.sub(r"[^\w\-. ]", "_", experiment[:LIMIT_FOLDER], flags=re.ASCII).strip(". ") or "experiment"
