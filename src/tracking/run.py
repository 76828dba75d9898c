"""Log to a run in progress, and handle an unreachable store."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src.tracking import names, run_tags, tracking_server
from src.tracking.run_tags import LIMIT_TAG
from src.tracking.tracking_server import Unreachable

if TYPE_CHECKING:
    from src.tracking.runs import Tracker

log = logging.getLogger(__name__)

# Characters that MLflow stores of a parameter and a digest.
LIMIT_PARAM, LIMIT_DIGEST = 6000, 36
# Phrases in errors of databases (SQLite, PostgreSQL, MySQL) about a row that exists already.
TAKEN = ("unique constraint", "duplicate entry")
# Artifact that maps the shortened names in MLflow to the full names.
NAMES = "names.json"


@dataclass
class Run:
    """A run in progress; each method raises `Unreachable` if its store does not answer."""

    id: str
    tracker: Tracker  # store of the run
    # Names that are too long for MLflow, by their shortened names.
    full_names: dict[str, str] = field(default_factory=dict, kw_only=True)
    # Logged tags, to store those of a group together, see `run_tags`.
    facts: dict[str, str] = field(default_factory=dict, kw_only=True)

    def log(
        self,
        *,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Log values by name. NaN and infinity are listed in the tag `undefined_metrics`, not logged.

        Parameters may be nested as in a config; their name is the path of their keys (`names.paths`).
        A metric `PREFIX.NAME` is stored as `PREFIX/NAME`, see `names.metric`; tags as by `run_tags.stored`.
        """
        from mlflow.entities import Metric, Param, RunTag

        encoded_metrics = {names.metric(name): float(value) for name, value in (metrics or {}).items()}
        finite = {name: value for name, value in encoded_metrics.items() if math.isfinite(value)}
        by_path = names.paths(params or {})
        facts = dict(tags or {})
        undefined = ", ".join(sorted(name for name in metrics or {} if names.metric(name) not in finite))
        if undefined:
            log.warning("not logged, as it is undefined: %s", undefined)
            facts["undefined_metrics"] = undefined
        self.facts |= facts
        texts = run_tags.stored(self.facts) if facts else {}
        now = time.time_ns() // 1_000_000
        short = self._shortened([*finite, *by_path, *texts])
        batch: dict[str, Any] = {
            "metrics": [Metric(short[name], value, now, 0) for name, value in finite.items()],
            "params": [
                Param(short[name], names.storable(str(value), LIMIT_PARAM)) for name, value in by_path.items()
            ],
            "tags": [RunTag(short[name], names.storable(text, LIMIT_TAG)) for name, text in texts.items()],
        }
        self._write(lambda: self.tracker.client.log_batch(self.id, **batch))

    def _shortened(self, encoded: Iterable[str]) -> dict[str, str]:
        """Return names within MLflow's limit by encoded names, and log the full names of shortened ones."""
        short = {name: names.shortened(name) for name in encoded}
        full_names = {short[name]: name for name in short if short[name] != name}
        if not full_names.keys() <= self.full_names.keys():
            self.full_names |= full_names
            self.text(json.dumps(self.full_names, indent=1, ensure_ascii=False), NAMES)
        return short

    def inputs(self, hashes: Mapping[str, str]) -> None:
        """Log the SHA-256 of each input by name; MLflow's digest holds 36 digits of it, the source all."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        datasets = []
        for name, digest in hashes.items():
            title = names.title(name)
            dataset = Dataset(title, digest[:LIMIT_DIGEST], source_type="sha256", source=digest)
            datasets.append(DatasetInput(dataset, [InputTag("mlflow.data.context", title)]))
        self._write(lambda: self._log_inputs(datasets))

    def _log_inputs(self, datasets: list[Any]) -> None:
        # MLflow checks which datasets exist and then writes the others: if another run writes one of these
        # in between, MLflow writes nothing. After each such error one more dataset exists.
        from mlflow.exceptions import MlflowException

        for _ in datasets:
            try:
                return self.tracker.client.log_inputs(self.id, datasets)
            except MlflowException as error:
                if not any(phrase in str(error).lower() for phrase in TAKEN):
                    raise
        return self.tracker.client.log_inputs(self.id, datasets)

    def artifacts(self, path: Path, under: str | None = None) -> None:
        """Log a file, or the files of a folder, as artifacts."""
        client = self.tracker.client
        log_files = client.log_artifacts if path.is_dir() else client.log_artifact
        self._write(lambda: log_files(self.id, str(path), under))

    def text(self, content: str, name: str) -> None:
        """Log a text as an artifact."""
        self._write(lambda: self.tracker.client.log_text(self.id, content, name))

    def end(self, status: str = "FINISHED") -> None:
        """End the run as FINISHED, FAILED or KILLED."""
        self._write(lambda: self.tracker.client.set_terminated(self.id, status))

    def tag(self, name: str) -> str:
        """Return the value of a tag; empty if it is not set."""
        stored = self.tracker.ask(lambda: self.tracker.client.get_run(self.id))
        return run_tags.facts(stored.data.tags).get(name, "")

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy artifacts of the run, a folder or a file, into an existing folder under their name.

        Raises `OSError` if they do not exist any more, `Unreachable` if the store does not answer.
        """
        from mlflow.exceptions import MlflowException

        parent = name.rpartition("/")[0] or None

        def download() -> str:
            try:
                # A server on S3 answers 500 for missing artifacts, which its client retries many times.
                if name not in [item.path for item in self.tracker.client.list_artifacts(self.id, parent)]:
                    raise FileNotFoundError(f"run {self.id} has no artifact {name}")
                return str(self.tracker.client.download_artifacts(self.id, name, str(folder)))
            except MlflowException as error:
                # MLflow raises the same error for missing artifacts and for an unreachable server.
                self.tracker.require()
                raise FileNotFoundError(tracking_server.short(error)) from None

        return Path(self.tracker.ask(download))

    def _write(self, do: Callable[[], object]) -> None:
        self.tracker.ask(do)


@dataclass
class JobRun(Run):
    """The run of a job, which does not fail when its store becomes unreachable.

    The job then continues without logging anything further, so that it never counts as finished.
    """

    lost: str = ""  # reason why the store could not be reached; empty as long as it could

    def _write(self, do: Callable[[], object]) -> None:
        if self.lost:
            return
        try:
            super()._write(do)
        except Unreachable as error:
            self.lost = str(error)
            self.tracker.lose(self)
