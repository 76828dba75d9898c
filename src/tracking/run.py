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

# Maximum numbers of characters that MLflow stores of a parameter and of a digest.
LIMIT_PARAM, LIMIT_DIGEST = 6000, 36
# Phrases in errors of databases (SQLite, PostgreSQL, MySQL) about a row that exists already.
DUPLICATE_PHRASES = ("unique constraint", "duplicate entry")
# Artifact that maps the shortened names in MLflow to the full names.
FULL_NAMES = "names.json"


@dataclass
class Run:
    """A run in progress; its methods raise `Unreachable` if the store does not answer."""

    id: str
    tracker: Tracker  # store of the run
    # Shortened name -> full name of each name that is too long for MLflow.
    full_names: dict[str, str] = field(default_factory=dict, kw_only=True)
    # Facts (the `tags` of `log`) logged so far. `run_tags` stores some kinds of facts, such as versions, as a
    # group in a single tag: to add one, it needs all the others of its group.
    facts: dict[str, str] = field(default_factory=dict, kw_only=True)

    def log(
        self,
        *,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Log parameters, tags and finite metrics by name; list other metrics in the tag `undefined_metrics`.

        Parameters may be nested as in a config (`names.flatten`). Metrics are stored under the names of
        `names.encode_metric`. `tags` are facts about the run, stored as by `run_tags.to_tags`.
        """
        from mlflow.entities import Metric, Param, RunTag

        encoded_metrics = {names.encode_metric(name): float(value) for name, value in (metrics or {}).items()}
        finite = {name: value for name, value in encoded_metrics.items() if math.isfinite(value)}
        by_path = names.flatten(params or {})
        facts = dict(tags or {})
        undefined = ", ".join(
            sorted(name for name, value in (metrics or {}).items() if not math.isfinite(value))
        )
        if undefined:
            log.warning("undefined metrics are not logged: %s", undefined)
            facts["undefined_metrics"] = undefined
        self.facts |= facts
        stored_tags = run_tags.to_tags(self.facts) if facts else {}
        now = time.time_ns() // 1_000_000
        short_names = self._shorten_names([*finite, *by_path, *stored_tags])
        batch: dict[str, Any] = {
            "metrics": [Metric(short_names[name], value, now, 0) for name, value in finite.items()],
            "params": [
                Param(short_names[name], names.make_storable(str(value), LIMIT_PARAM))
                for name, value in by_path.items()
            ],
            "tags": [
                RunTag(short_names[name], names.make_storable(text, LIMIT_TAG))
                for name, text in stored_tags.items()
            ],
        }
        self._write(lambda: self.tracker.client.log_batch(self.id, **batch))

    def _shorten_names(self, encoded_names: Iterable[str]) -> dict[str, str]:
        """Return encoded name -> name within MLflow's limit; log the full names of shortened names."""
        short_names = {name: names.shorten(name) for name in encoded_names}
        full_names = {short: name for name, short in short_names.items() if short != name}
        if not full_names.keys() <= self.full_names.keys():
            self.full_names |= full_names
            self.log_text(json.dumps(self.full_names, indent=1, ensure_ascii=False), FULL_NAMES)
        return short_names

    def log_inputs(self, hashes: Mapping[str, str]) -> None:
        """Log the SHA-256 of each input by name: 36 digits as MLflow's digest, all digits as its source."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        datasets = []
        for name, digest in hashes.items():
            title = names.encode_title(name)
            dataset = Dataset(title, digest[:LIMIT_DIGEST], source_type="sha256", source=digest)
            datasets.append(DatasetInput(dataset, [InputTag("mlflow.data.context", title)]))
        self._write(lambda: self._log_inputs_with_retries(datasets))

    def _log_inputs_with_retries(self, datasets: list[Any]) -> None:
        # MLflow checks which datasets exist and then inserts the others. If another run inserts one of these
        # in between, the call fails and is repeated; each time, at least one more dataset exists.
        from mlflow.exceptions import MlflowException

        for _ in datasets:
            try:
                return self.tracker.client.log_inputs(self.id, datasets)
            except MlflowException as error:
                if not any(phrase in str(error).lower() for phrase in DUPLICATE_PHRASES):
                    raise
        return self.tracker.client.log_inputs(self.id, datasets)

    def log_artifacts(self, path: Path, under: str | None = None) -> None:
        """Log a file, or the files of a folder, as artifacts in the folder `under` (None: the root)."""
        client = self.tracker.client
        log_files = client.log_artifacts if path.is_dir() else client.log_artifact
        self._write(lambda: log_files(self.id, str(path), under))

    def log_text(self, content: str, name: str) -> None:
        """Log a text as the artifact `name`."""
        self._write(lambda: self.tracker.client.log_text(self.id, content, name))

    def end(self, status: str = "FINISHED") -> None:
        """End the run as FINISHED, FAILED or KILLED."""
        self._write(lambda: self.tracker.client.set_terminated(self.id, status))

    def read_tag(self, name: str) -> str:
        """Return the value of a tag; empty if it is not set."""
        stored = self.tracker.call(lambda: self.tracker.client.get_run(self.id))
        return run_tags.to_facts(stored.data.tags).get(name, "")

    def fetch(self, name: str, folder: Path) -> Path:
        """Copy the artifact `name`, a file or a folder, into an existing folder; return the path of the copy.

        Raises `OSError` if it no longer exists, `Unreachable` if the store does not answer.
        """
        from mlflow.exceptions import MlflowException

        parent = name.rpartition("/")[0] or None

        def download() -> str:
            try:
                # A server on S3 answers 500 for missing artifacts: MLflow's client retries many times.
                if name not in [item.path for item in self.tracker.client.list_artifacts(self.id, parent)]:
                    raise FileNotFoundError(f"run {self.id} has no artifact {name}")
                return str(self.tracker.client.download_artifacts(self.id, name, str(folder)))
            except MlflowException as error:
                # MLflow raises the same error for missing artifacts and for an unreachable server.
                self.tracker.check_server()
                raise FileNotFoundError(tracking_server.shorten_message(error)) from None

        return Path(self.tracker.call(download))

    def _write(self, do: Callable[[], object]) -> None:
        self.tracker.call(do)


@dataclass
class JobRun(Run):
    """The run of a job; the job continues if the store becomes unreachable.

    Methods that write then no longer log, and raise no error; `read_tag` and `fetch` still raise
    `Unreachable`. After an outage, the run is not ended as FINISHED even if the store answers again:
    `Tracker.end_lost_runs` ends it as FAILED or, if the store is still unreachable by then, the next process
    on this machine that opens the store ends it as KILLED.
    """

    outage: str = ""  # why the store became unreachable; empty while it is reachable

    def _write(self, do: Callable[[], object]) -> None:
        if self.outage:
            return
        try:
            super()._write(do)
        except Unreachable as error:
            self.outage = str(error)
            self.tracker.register_lost(self)
