"""A run in progress: what is logged of it, and what becomes of it where its store is out of reach."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src.tracking import inputs, server
from src.tracking.server import Unreachable

if TYPE_CHECKING:
    from src.tracking.runs import Tracker

log = logging.getLogger(__name__)

# What MLflow takes in the name of a metric.
REFUSED = re.compile(r"[^\w\-. :]", re.ASCII)
LIMIT_NAME = 240
LIMIT_PARAM, LIMIT_TAG = 6000, 5000


@dataclass
class Run:
    """A run in progress. Whatever is asked of it raises `Unreachable` where its store is out of reach."""

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
        batch: dict[str, Any] = {
            "metrics": [Metric(name, float(value), now, 0) for name, value in finite.items()],
            "params": [Param(name, taken(str(value), LIMIT_PARAM)) for name, value in params.items()],
            "tags": [RunTag(name, taken(value, LIMIT_TAG)) for name, value in tags.items()],
        }
        self._write(lambda: self.tracker.client.log_batch(self.id, **batch))

    def inputs(self, hashes: Mapping[str, str]) -> None:
        """Note what the run reads, as MLflow's datasets.

        Args:
            hashes: name -> SHA-256; MLflow's digest takes 36 digits of it, the source has all.
        """
        named = {taken(name): digest for name, digest in hashes.items()}
        self._write(lambda: inputs.note(self.tracker.client, self.id, named))

    def artifacts(self, folder: Path, under: str | None = None) -> None:
        """Keep the files of a folder with the run."""
        self._write(lambda: self.tracker.client.log_artifacts(self.id, str(folder), under))

    def artifact(self, file: Path, under: str | None = None) -> None:
        """Keep a file with the run."""
        self._write(lambda: self.tracker.client.log_artifact(self.id, str(file), under))

    def text(self, content: str, name: str) -> None:
        """Keep a text with the run."""
        self._write(lambda: self.tracker.client.log_text(self.id, content, name))

    def end(self, status: str) -> None:
        """End the run as FINISHED, FAILED or KILLED."""
        self._write(lambda: self.tracker.client.set_terminated(self.id, status))

    def tag(self, name: str) -> str:
        """What a tag says; empty where there is none."""
        return str(self.tracker.ask(lambda: self.tracker.client.get_run(self.id)).data.tags.get(name, ""))

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy artifacts of the run into an existing folder.

        Args:
            name: of the artifacts, a folder or a file.
            folder: where they go, below their name.

        Raises:
            OSError: they are not there any more.
            Unreachable: the store does not answer.
        """
        from mlflow.exceptions import MlflowException

        above = name.rpartition("/")[0] or None

        def download() -> str:
            try:
                # A server on S3 answers 500 for what is not there, which its client asks for again and again.
                if name not in [kept.path for kept in self.tracker.client.list_artifacts(self.id, above)]:
                    raise FileNotFoundError(f"{name} is not kept with run {self.id}")
                return str(self.tracker.client.download_artifacts(self.id, name, str(folder)))
            except MlflowException as error:
                # MLflow says the same of what is not there and of a server that is not.
                self.tracker.require()
                raise FileNotFoundError(server.short(error)) from None

        return Path(self.tracker.ask(download))

    def _write(self, do: Callable[[], object]) -> None:
        self.tracker.ask(do)


@dataclass
class JobRun(Run):
    """The run of a job, whose work is worth more than its record.

    Where the store is out of reach, the job goes on; nothing is logged of it any more, so that it is never
    taken for finished.

    Attributes:
        lost: why the store could not be reached; empty while it could.
    """

    lost: str = ""

    def _write(self, do: Callable[[], object]) -> None:
        if self.lost:
            return
        try:
            super()._write(do)
        except Unreachable as error:
            self.lost = str(error)
            self.tracker.lose(self)


def taken(text: str, limit: int = LIMIT_NAME) -> str:
    """What of a text every database takes: SQLite alone takes more than it was told to, and zeros."""
    return text.replace("\0", "")[:limit]


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


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
