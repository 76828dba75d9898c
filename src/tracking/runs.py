"""MLflow runs: one per job, under one parent per sweep."""

from __future__ import annotations

import logging
import math
import os
import re
import time
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from src.errors import InputError, masked, refused
from src.tracking import fresh, upkeep

log = logging.getLogger(__name__)

# MLflow's pages open on runs, not on traces of language models.
KIND = {"mlflow.experimentKind": "custom_model_development"}
PARENT_TAG = "mlflow.parentRunId"
# What MLflow takes in the name of a metric.
REFUSED = re.compile(r"[^\w\-. :]", re.ASCII)
LIMIT_NAME = 240
LIMIT_PARAM, LIMIT_TAG = 6000, 5000
LIMIT_DIGEST = 36
SQLITE = "sqlite:///"
# Runs of one key: more than one only where results were lost or asked for anew.
TRIED = 20


@dataclass(frozen=True)
class Run:
    """A run in progress."""

    id: str
    tracker: Tracker

    def log(
        self,
        *,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Log everything that is a name and a value. NaN and infinity are counted, not logged."""
        from mlflow.entities import Metric, Param, RunTag

        params, tags, metrics = params or {}, tags or {}, metrics or {}
        named = metric_names(metrics)
        finite = {named[name]: value for name, value in metrics.items() if math.isfinite(value)}
        undefined = sorted(set(metrics) - {name for name in metrics if named[name] in finite})
        if undefined:
            log.warning("no number to log for %s", ", ".join(undefined))
            tags = {**tags, "undefined_metrics": ", ".join(undefined)}
        now = _milliseconds()
        self.tracker.client.log_batch(
            self.id,
            metrics=[Metric(name, float(value), now, 0) for name, value in finite.items()],
            params=[Param(name, str(value)[:LIMIT_PARAM]) for name, value in params.items()],
            tags=[RunTag(name, value[:LIMIT_TAG]) for name, value in tags.items()],
        )

    def inputs(self, hashes: Mapping[str, str]) -> None:
        """Note what the run reads, as MLflow's datasets.

        Args:
            hashes: name -> SHA-256; MLflow's digest takes 36 digits of it, the source has all.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag

        found = [
            DatasetInput(
                Dataset(name=name, digest=digest[:LIMIT_DIGEST], source_type="sha256", source=digest),
                [InputTag("mlflow.data.context", name)],
            )
            for name, digest in hashes.items()
        ]
        self.tracker.client.log_inputs(self.id, found)

    def artifacts(self, folder: Path, under: str | None = None) -> None:
        """Keep the files of a folder with the run."""
        self.tracker.client.log_artifacts(self.id, str(folder), under)

    def artifact(self, file: Path, under: str | None = None) -> None:
        """Keep a file with the run."""
        self.tracker.client.log_artifact(self.id, str(file), under)

    def tag(self, name: str) -> str:
        """What a tag says; empty where there is none."""
        return str(self.tracker.client.get_run(self.id).data.tags.get(name, ""))

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy artifacts of the run into an existing folder.

        Args:
            name: of the artifacts, a folder or a file.
            folder: where they go, below their name.

        Raises:
            OSError: they are not there any more.
        """
        from mlflow.exceptions import MlflowException

        try:
            return Path(self.tracker.client.download_artifacts(self.id, name, str(folder)))
        except MlflowException as error:
            raise OSError(str(error)) from None

    def text(self, content: str, name: str) -> None:
        """Keep a text with the run."""
        self.tracker.client.log_text(self.id, content, name)


class Tracker:
    """A tracking store.

    Args:
        uri: MLflow's tracking URI. `sqlite:///PATH` is made when absent, its artifacts beside it.
        make: false: a database that is absent stays so.

    Raises:
        InputError: the store cannot be opened, or is not there to be asked.
    """

    def __init__(self, uri: str, *, make: bool = True) -> None:
        # A run named by the environment would be resumed in place of a child of its parent.
        os.environ.pop("MLFLOW_RUN_ID", None)
        os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        for noisy in ("alembic", "mlflow.store.db.utils", "mlflow.utils"):
            logging.getLogger(noisy).setLevel(logging.WARNING)
        from mlflow import MlflowClient

        if not uri.strip():
            raise InputError("tracking.uri is empty. Name a database (sqlite:///PATH) or a server.")
        if not make and uri.startswith(SQLITE):
            upkeep.require(Path(uri.removeprefix(SQLITE)), uri)
        # A server that is not there should be said within seconds.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        self._artifacts: Path | None = None
        try:
            if uri.startswith(SQLITE):
                database = Path(uri.removeprefix(SQLITE)).absolute()
                fresh.make(database)
                self._artifacts = database.parent / "artifacts"
                uri = f"{SQLITE}{database}"
            self.client = MlflowClient(uri)
            self.client.search_experiments(max_results=1)
            if self._artifacts is not None:
                upkeep.relocate(database, self._artifacts)
                upkeep.bury(self.client)
        except Exception as error:  # MLflow lets through whatever its drivers raise
            remedy = "Name a database that MLflow made, a new one, or the address of a running server."
            if "locked" in refused(error):
                remedy = "Another process holds it: when that has ended, the same command goes on."
            said = str(error).splitlines()[0]
            opened = masked(f"tracking.uri={uri}: cannot be opened ({said})")
            raise InputError(f"{opened}. {remedy}") from None

    def experiment(self, name: str) -> str:
        """Id of an experiment, made when absent."""
        from mlflow.exceptions import MlflowException

        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        place = None if self._artifacts is None else (self._artifacts / _file_name(name)).as_uri()
        try:
            return str(self.client.create_experiment(name, artifact_location=place, tags=KIND))
        except MlflowException:
            # Another process made it meanwhile.
            found = self.client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def open(self, experiment: str, name: str, parent: Run | None = None) -> Run:
        """Start a run; `close` it, or end it with a block, `recorded`."""
        tags = upkeep.process() | ({PARENT_TAG: parent.id} if parent else {})
        made = self.client.create_run(self.experiment(experiment), run_name=name, tags=tags)
        return Run(made.info.run_id, self)

    def finished(self, experiment: str, key: str) -> list[Run]:
        """The FINISHED runs of an experiment whose tag `key` is this one, the newest first.

        All of them: the newest may have lost its files, or a clock that was set back may call another so.
        """
        known = self.client.get_experiment_by_name(experiment)
        if known is None:
            return []
        found = self.client.search_runs(
            [known.experiment_id],
            f"tags.key = '{key}' and attributes.status = 'FINISHED'",
            max_results=TRIED,
            order_by=["attributes.end_time DESC"],
        )
        return [Run(run.info.run_id, self) for run in found]

    def close(self, run: Run, status: str = "FINISHED") -> None:
        """End a run as FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run.id, status)

    def end(self, parent: Run, names: Collection[str], why: str) -> dict[str, str]:
        """End the RUNNING children of a run whose process is known to be gone, as KILLED.

        Args:
            parent: of a sweep.
            names: of the children.
            why: for a tag, `ended`.

        Returns:
            Name of each that was killed, by this or before -> its id.
        """
        experiment = self.client.get_run(parent.id).info.experiment_id
        return upkeep.end(self.client, experiment, f"tags.`{PARENT_TAG}` = '{parent.id}'", names, why)

    @contextmanager
    def recorded(self, run: Run) -> Iterator[None]:
        """End a run with this block: FINISHED, FAILED with its traceback, or KILLED."""
        try:
            yield
        except Exception:
            try:
                run.text(masked(traceback.format_exc()), "traceback.txt")
            except Exception as error:  # what ended the run may be that nothing can be written there
                log.warning("the traceback of run %s cannot be kept: %r", run.id, error)
            self.close(run, "FAILED")
            raise
        except BaseException:
            self.close(run, "KILLED")
            raise
        self.close(run)


def metric_names(names: Mapping[str, object]) -> dict[str, str]:
    """Names that MLflow takes: refused characters become `_`, colliding names get a suffix.

    >>> metric_names({"rho.a<b": 1, "rho.a>b": 2})
    {'rho.a<b': 'rho.a_b', 'rho.a>b': 'rho.a_b_2'}
    """
    found: dict[str, str] = {}
    for name in names:
        plain = REFUSED.sub("_", name)[:LIMIT_NAME]
        candidate, number = plain, 1
        while candidate in found.values():
            number += 1
            candidate = f"{plain}_{number}"
        found[name] = candidate
    return found


def _file_name(name: str) -> str:
    return REFUSED.sub("_", name).replace(":", "_").strip(". ") or "experiment"


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
