"""Track MLflow runs: one per job, under one parent per sweep."""

import logging
import os
import re
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from src.errors import RESUME_HINT, InputError, redact, write_refusal
from src.tracking import database, names, pages, repair, run_tags, tracking_server
from src.tracking.database import SQLITE
from src.tracking.run import JobRun, Run
from src.tracking.tracking_server import Unreachable

log = logging.getLogger(__name__)

T = TypeVar("T")

# Tag of an experiment, and its value, for which MLflow's pages open on runs rather than on traces.
KIND_TAG, RUNS_VIEW = "mlflow.experimentKind", "custom_model_development"
PARENT_TAG = "mlflow.parentRunId"
LOST_REASON = "the tracking store was out of reach while it ran"
# Maximum number of finished runs with the same key that are returned.
MAX_RUNS = 20
# Maximum numbers of characters in the name of an experiment (MLflow accepts 500) and of its folder (file
# systems accept 255).
LIMIT_EXPERIMENT, LIMIT_FOLDER = 480, 200


class Tracker:
    """A tracking store: a database `sqlite:///PATH` with artifacts next to it, or an MLflow server.

    A missing database is created, or raises `InputError` if `make` is false. A store that cannot be opened
    raises `Unreachable`. In the attribute `uri`, the path of a database is absolute.
    """

    def __init__(self, uri: str, *, make: bool = True) -> None:
        # MLflow would resume a run named by the environment instead of starting a child run.
        os.environ.pop("MLFLOW_RUN_ID", None)
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        for logger_name in ("alembic", "mlflow.utils"):
            logging.getLogger(logger_name).setLevel(logging.WARNING)
        # MLflow logs a traceback of database errors before it raises them; here they are reported once.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        self._artifacts: Path | None = None  # folder of artifacts next to a database; None with a server
        self._unreachable = False
        self._lost_runs: list[JobRun] = []
        if uri.startswith(tracking_server.SCHEMES):
            tracking_server.bound_waiting()
            self.uri = uri.rstrip("/")
            with tracking_server.announce_waiting(f"tracking.uri={redact(self.uri)}"):
                tracking_server.check(self.uri)
        elif uri.startswith(SQLITE):
            path = Path(uri.removeprefix(SQLITE)).absolute()
            database.check(path, make=make)
            self.uri = f"{SQLITE}{path}"
        else:
            raise Unreachable(
                f"tracking.uri={uri}: expected sqlite:///PATH or http://HOST:PORT. Run a server for any "
                "other database (docs/server.md)."
            )
        with tracking_server.announce_waiting(f"tracking.uri={redact(self.uri)}"):
            self._open()

    def _open(self) -> None:
        from mlflow import MlflowClient

        try:
            if self.uri.startswith(SQLITE):
                path = Path(self.uri.removeprefix(SQLITE))
                database.create(path)
                self._artifacts = path.parent / "artifacts"
            self.client = MlflowClient(self.uri)
            self.client.search_experiments(max_results=1)
            if self._artifacts is not None:
                repair.relocate(path, self._artifacts)
            repair.end_dead_runs(self.client)
        except Exception as error:  # MLflow does not wrap errors of its drivers
            remedy = "Use a database that MLflow created, a new one, or the address of a running server."
            if "locked" in write_refusal(error):
                remedy = database.REMEDIES["database is locked"]
            problem = f"tracking.uri={self.uri}: cannot be opened ({tracking_server.shorten_message(error)})"
            raise Unreachable(f"{problem}. {remedy}") from None

    def check_server(self) -> None:
        """Check that a server answers, or raise `Unreachable`; do nothing for a database."""
        if self.uri.startswith(tracking_server.SCHEMES):
            tracking_server.check(self.uri, retries=0)

    def call(self, operation: Callable[[], T]) -> T:
        """Call an operation on the store and return its result.

        After a failure, the next call first checks the server without retries, so that it fails at once.
        Raises `Unreachable` if the store does not answer or cannot be written; other errors pass unchanged.
        """
        if self._unreachable:
            self.check_server()
        try:
            with tracking_server.announce_waiting(f"tracking.uri={redact(self.uri)}"):
                result = operation()
        except Unreachable:
            self._unreachable = True
            raise
        except Exception as error:
            if not tracking_server.is_unreachable(error):
                raise
            self._unreachable = True
            why = write_refusal(error)
            message = tracking_server.shorten_message(error)
            problem = f"cannot be written ({why}). {RESUME_HINT}" if why else f"unreachable ({message})"
            raise Unreachable(f"tracking.uri={self.uri}: {problem}") from None
        self._unreachable = False
        return result

    def get_or_create_experiment(self, name: str) -> str:
        """Return the id of an experiment, which is created if it does not exist.

        Raises `InputError` if it was deleted, or stores its artifacts where this machine cannot read them.
        """
        from mlflow.exceptions import MlflowException

        name = names.encode_title(name, LIMIT_EXPERIMENT)
        experiment: Any = self.client.get_experiment_by_name(name)
        if experiment is None:
            location = None
            if self._artifacts:
                # MLflow makes a folder per run in this folder.
                folder = re.sub(r"[^\w\-. ]", "_", name[:LIMIT_FOLDER], flags=re.ASCII).strip(". ")
                location = (self._artifacts / (folder or "experiment")).as_uri()
            try:
                self.client.create_experiment(name, artifact_location=location, tags={KIND_TAG: RUNS_VIEW})
            except MlflowException:
                # Another process made it meanwhile.
                if self.client.get_experiment_by_name(name) is None:
                    raise
            experiment = self.client.get_experiment_by_name(name)
        if experiment.lifecycle_stage == "deleted":
            raise InputError(
                f"tracking.uri={redact(self.uri)}: the experiment {experiment.name} was deleted. Restore it: "
                f"mlflow experiments restore --experiment-id {experiment.experiment_id}"
            )
        if self._artifacts is None and repair.find_local_folder(experiment.artifact_location):
            raise InputError(
                f"tracking.uri={redact(self.uri)}: the server stores artifacts of {experiment.name} in "
                f"{experiment.artifact_location}, a folder on the server's machine. Start a server "
                "that clients upload artifacts to, with a new database: make serve"
            )
        if KIND_TAG not in experiment.tags:  # made by another program
            with suppress(MlflowException):  # no permission: it only affects the view
                self.client.set_experiment_tag(experiment.experiment_id, KIND_TAG, RUNS_VIEW)
        return str(experiment.experiment_id)

    def start_run(self, experiment: str, name: str, parent: Run | None = None) -> Run:
        """Start a run; the caller ends it by `Run.end` or the context `end_on_exit`."""
        tags = run_tags.to_tags(repair.build_process_tags()) | run_tags.build_user_tags()
        tags |= {PARENT_TAG: parent.id} if parent else {}
        experiment_id = self.call(lambda: self.get_or_create_experiment(experiment))
        create = partial(self.client.create_run, experiment_id, run_name=names.encode_title(name), tags=tags)
        return Run(self.call(create).info.run_id, self)

    def start_job_run(self, experiment: str, name: str, parent: Run | None = None) -> JobRun:
        """Start the run of a job. If the store is unreachable, the job continues without it."""
        try:
            return JobRun(self.start_run(experiment, name, parent).id, self)
        except Unreachable as error:
            run = JobRun("", self, str(error))
            self.register_lost(run)
            return run

    def register_lost(self, run: JobRun) -> None:
        """Register a job's run that can no longer be recorded, as the store is unreachable."""
        log.error("%s: the job continues; its results will be in its output folder only", run.outage)
        self._lost_runs.append(run)

    def end_lost_runs(self) -> None:
        """End as FAILED the runs that could not be recorded completely.

        Raises `Unreachable` if the store is still unreachable; the next process that opens it ends the runs.
        """
        while self._lost_runs:
            run = self._lost_runs.pop()
            if run.id:
                self.call(partial(self.client.set_tag, run.id, "ended", LOST_REASON))
                self.call(partial(self.client.set_terminated, run.id, "FAILED"))

    def find_finished(self, experiment: str, key: str) -> list[Run]:
        """Return up to `MAX_RUNS` FINISHED runs of an experiment whose tag `key` has a value, newest first.

        One run is not enough, as its files may be lost.
        """
        title = names.encode_title(experiment, LIMIT_EXPERIMENT)
        stored_experiment = self.call(lambda: self.client.get_experiment_by_name(title))
        if stored_experiment is None:
            return []
        condition = f"tags.key = '{key}' and attributes.status = 'FINISHED'"
        order, ids = ["attributes.end_time DESC"], [stored_experiment.experiment_id]
        search = partial(self.client.search_runs, ids, condition, max_results=MAX_RUNS, order_by=order)
        return [Run(run.info.run_id, self) for run in self.call(search)]

    def end_children(
        self, parent: Run, run_names: Collection[str], reason: str
    ) -> dict[str, tuple[str, str]]:
        """End as KILLED the RUNNING children of a parent run; their processes have ended already.

        Args:
            parent: parent run.
            run_names: names of the children.
            reason: value of the tag `ended` of the runs ended here.

        Returns:
            Name -> id and status of its run, for each name that has a run.
        """
        titles = {names.encode_title(name): name for name in run_names}
        run_by_name: dict[str, tuple[str, str]] = {}
        condition = f"tags.`{PARENT_TAG}` = '{parent.id}'"
        experiment = self.call(lambda: self.client.get_run(parent.id).info.experiment_id)
        for run in self.call(lambda: [*pages.list_runs(self.client, [experiment], condition)]):
            title, status = run.info.run_name, run.info.status
            if title not in titles:
                continue
            if status == "RUNNING":
                self.call(partial(self.client.set_tag, run.info.run_id, "ended", reason))
                self.call(partial(self.client.set_terminated, run.info.run_id, "KILLED"))
                status = "KILLED"
            # A requeued task makes several runs of the same name; a FINISHED run takes precedence.
            if status == "FINISHED" or titles[title] not in run_by_name:
                run_by_name[titles[title]] = run.info.run_id, status
        return run_by_name

    @contextmanager
    def end_on_exit(self, run: Run) -> Iterator[None]:
        """End a run when this block exits: FINISHED, FAILED with its traceback, or KILLED."""
        try:
            yield
        except Exception:
            try:
                run.log_text(redact(traceback.format_exc()), "traceback.txt")
            except Exception as error:  # the store may be the cause of the failure
                log.warning("cannot store the traceback of run %s: %s", run.id, error)
            with suppress(Unreachable):  # the original error matters more
                run.end("FAILED")
            raise
        except BaseException:
            with suppress(Unreachable):
                run.end("KILLED")
            raise
        run.end()
