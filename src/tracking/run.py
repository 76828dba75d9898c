"""A run in progress: what is logged of it, and what becomes of it where its store is out of reach."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src.tracking import inputs, names, tracking_server
from src.tracking.tracking_server import Unreachable

if TYPE_CHECKING:
    from src.tracking.runs import Tracker

log = logging.getLogger(__name__)

LIMIT_PARAM, LIMIT_TAG = 6000, 5000
# Artifact: names that were too long for MLflow, by what stands for them.
NAMES = "names.json"


@dataclass
class Run:
    """A run in progress. Whatever is asked of it raises `Unreachable` where its store is out of reach.

    Attributes:
        id: of the run.
        tracker: its store.
        whole_names: names that were too long for MLflow, by what stands for them.
    """

    id: str
    tracker: Tracker
    whole_names: dict[str, str] = field(default_factory=dict, kw_only=True)

    def log(
        self,
        *,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Log everything that is a name and a value. NaN and infinity are counted, not logged.

        Args:
            params: nested as in a config; a parameter's name is the path of its keys (`names.paths`).
            tags: texts by name.
            metrics: numbers by name.
        """
        from mlflow.entities import Metric, Param, RunTag

        given = {names.encoded(name): float(value) for name, value in (metrics or {}).items()}
        finite = {name: value for name, value in given.items() if math.isfinite(value)}
        values = names.paths(params or {})
        notes = {names.encoded(name): text for name, text in (tags or {}).items()}
        undefined = ", ".join(sorted(name for name in metrics or {} if names.encoded(name) not in finite))
        if undefined:
            log.warning("no number to log for %s", undefined)
            notes["undefined_metrics"] = undefined
        now = time.time_ns() // 1_000_000
        short = self._shortened([*finite, *values, *notes])
        batch: dict[str, Any] = {
            "metrics": [Metric(short[name], value, now, 0) for name, value in finite.items()],
            "params": [Param(short[name], _cut(str(value), LIMIT_PARAM)) for name, value in values.items()],
            "tags": [RunTag(short[name], _cut(text, LIMIT_TAG)) for name, text in notes.items()],
        }
        self._write(lambda: self.tracker.client.log_batch(self.id, **batch))

    def _shortened(self, encoded: Iterable[str]) -> dict[str, str]:
        """Return names within MLflow's limit by the encoded ones, and keep what was shortened."""
        short = {name: names.shortened(name) for name in encoded}
        longer = {short[name]: name for name in short if short[name] != name}
        if not longer.keys() <= self.whole_names.keys():
            self.whole_names |= longer
            self.text(json.dumps(self.whole_names, indent=1, ensure_ascii=False), NAMES)
        return short

    def inputs(self, hashes: Mapping[str, str]) -> None:
        """Note what the run reads, as MLflow's datasets.

        Args:
            hashes: name -> SHA-256; MLflow's digest takes 36 digits of it, the source has all.
        """
        known = {names.title(name): digest for name, digest in hashes.items()}
        self._write(lambda: inputs.note(self.tracker.client, self.id, known))

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
                raise FileNotFoundError(tracking_server.short(error)) from None

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


def _cut(text: str, limit: int) -> str:
    return names.storable(text)[:limit]
