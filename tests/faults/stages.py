"""Run stages (commands) on a tiny world, each after the stage it needs, and compare the files they leave."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from src.storage import cache, results
from tests.conftest import store_overrides
from tests.paths import CHECKOUT

STORES = ("stimuli", "morphs", "checkpoints", "pictures", "embeddings")
WORLD = ["faces.per_group=4", "faces.size=24", "scenes.count=14", "scenes.size=24", "words.count=30"]
WORLD += ["templates=['This is the word {}','That is the word {}']"]
WORLD += [f"labels.race_words.{people}=[{people.lower()}]" for people in ("Niffite", "Luupite", "Laapian")]
MODEL = ["model=toy_s", "model.steps=4", "model.pairs=16", "model.image_size=16", "model.patch_size=8"]
MODEL += ["model.width=32", "model.embed_dim=16", "trainer=cpu", "trainer.workers=0"]
PROTOCOL = ["protocol.k=7", "protocol.extremes=4", "protocol.set_size=6", "protocol.placebo=9"]
PROTOCOL += ["protocol.bootstrap=20", "protocol.attribute_draws=2", "protocol.property_draws=4"]
MORPHS = ["faces=morphs", "faces@faces.parents=avatars", "faces.parents.per_group=4", "faces.parents.size=24"]
MORPHS += ["faces.size=24", "faces.per_group=2", "trainer=cpu"]
# The modules that take longest to import; the server imports them before any child.
HEAVY = ("src.tracking", "mlflow", "src.demo.toys", "src.report.page")


class Stage(NamedTuple):
    """A command on a tiny world."""

    after: str  # the stage whose files it starts from; empty: from nothing
    entry: str  # module
    arguments: Callable[[Path], list[str]]  # given the folder of all stores


def _pipeline(*stage: str) -> Callable[[Path], list[str]]:
    return lambda stores: [*stage, *WORLD, *MODEL, *store_overrides(stores)]


def _sweep(stores: Path) -> list[str]:
    overrides = ["exp=faces_to_words,scenes_to_words", *WORLD, *MODEL, *PROTOCOL, *store_overrides(stores)]
    return ["-m", *overrides, f"hydra.sweep.dir={stores}/out"]


def _morph(workers: int) -> Callable[[Path], list[str]]:
    return lambda stores: ["morph", *MORPHS, f"faces.workers={workers}", *store_overrides(stores)]


STAGES = {
    # MLflow's migrations take longer than all else: few stages begin before them.
    "database": Stage("", "src.tracking.__main__", lambda stores: [uri(stores)]),
    "draw": Stage("database", "src.stage", _pipeline("ingest")),
    "train": Stage("draw", "src.stage", _pipeline("weights")),
    "embed": Stage("train", "src.stage", _pipeline("embed", "--role", "faces")),
    "morph": Stage("draw", "src.stage", _morph(1)),
    "morph by two": Stage("draw", "src.stage", _morph(2)),
    "sweep": Stage("embed", "src.run", _sweep),
    "report": Stage(
        "sweep",
        "src.report.__main__",
        lambda stores: ["sweep=latest", f"tracking.uri={uri(stores)}", f"output={stores}/report"],
    ),
    "all": Stage("database", "src.run", lambda stores: [*_sweep(stores), "report=true"]),
}


def uri(stores: Path) -> str:
    return f"sqlite:///{stores}/mlruns/mlflow.db"


class Ended(NamedTuple):
    """End of a command."""

    status: int  # negative: the signal
    printed: str
    steps: int  # changes to files and commits that were begun
    step: str  # the last of them
    seconds: float
    orphans: float  # seconds that its workers outlived it


class Bench:
    """Make stages once undisturbed, and repeat each under disturbance, in forks of one warm process."""

    def __init__(self, folder: Path) -> None:
        self.stores, self.snapshots, self.log = folder / "kept", folder / "snapshots", folder / "log.txt"
        self.wanted: dict[str, dict[str, str]] = {}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONPATH": str(CHECKOUT)}
        environment.pop("PYTEST_CURRENT_TEST", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=CHECKOUT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.request(warm=HEAVY)

    def request(self, **fields: object) -> dict:
        """Send a request to the server process, and return its answer."""
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        """End the server process."""
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()

    def run(self, name: str, *more: str, **options: object) -> Ended:
        """Run a stage, whatever comes of it.

        Options: `die_at`: a step; `kill_after`, `limit`: seconds; `alone`: number of processes at which
        only the first is killed; `clock`: seconds by which it is wrong; `largest`: limit of a file's bytes.
        """
        stage = STAGES[name]
        options |= {"folder": str(self.log.parent), "log": str(self.log), "entry": stage.entry}
        answer = self.request(arguments=[*stage.arguments(self.stores), *more], **options)
        return Ended(printed=self.log.read_text("utf-8", "replace"), **answer)

    def succeed(self, name: str, *more: str, **options: object) -> Ended:
        """Run a stage that exits with 0."""
        ended = self.run(name, *more, **options)
        assert ended.status == 0, ended.printed
        return ended

    def fail(self, name: str, place: object, **options: object) -> Ended:
        """Run a stage that exits with 1, names a place and prints no traceback."""
        ended = self.run(name, **options)
        assert ended.status == 1, ended.printed
        assert "Traceback" not in ended.printed, ended.printed
        assert str(place) in ended.printed, ended.printed
        return ended

    def resume(self, name: str) -> None:
        """Run a stage again, and check that it leaves what it leaves if undisturbed."""
        self.succeed(name)
        assert content(self.stores) == self.wanted[name]
        assert "RUNNING" not in statuses(self.stores).values()

    def lost(self, name: str) -> set[str]:
        """Name what an undisturbed stage leaves but is now missing or different."""
        left = content(self.stores)
        return {path for path, digest in self.wanted[name].items() if left.get(path) != digest}

    def make(self, name: str) -> None:
        """Run a stage and those before it once, undisturbed, and copy what each leaves."""
        if name in self.wanted:
            return
        if STAGES[name].after:
            self.make(STAGES[name].after)
        self.restore(name)
        modules = self.snapshots.parent / "modules.json"
        self.succeed(name, modules=str(modules))
        self.request(warm=json.loads(modules.read_text()))
        self.wanted[name] = content(self.stores)
        shutil.copytree(self.stores, self.snapshots / name)

    def start(self, name: str, at: str = "") -> None:
        """Make a stage undisturbed, then restore all stores to where it (or the stage `at`) starts."""
        self.make(name)
        self.restore(at or name)

    def timed(self, name: str) -> Ended:
        """Run an undisturbed stage again: the first run imports, and takes longer than any after it."""
        self.start(name)
        ended = self.run(name)
        assert content(self.stores) == self.wanted[name], "two undisturbed runs differ"
        return ended

    def restore(self, name: str) -> None:
        """Restore all stores to where the stage starts."""
        shutil.rmtree(self.stores, ignore_errors=True)
        if STAGES[name].after:
            shutil.copytree(self.snapshots / STAGES[name].after, self.stores)
        else:
            self.stores.mkdir(parents=True)


def content(stores: Path) -> dict[str, str]:
    """Hash everything that has to be the same to the last bit, by its path."""
    paths = [path for entry in entries(stores) for path in entry.rglob("*") if path.is_file()]
    for pattern in ("out/*/results/*", "report/tables/*", "report/figures/*.png"):
        paths += stores.glob(pattern)
    hashes = {str(path.relative_to(stores)): cache.file_hash(path) for path in paths}
    return hashes | (_tracked(stores) if (stores / "mlruns" / "mlflow.db").exists() else {})


def entries(stores: Path) -> Iterator[Path]:
    """Yield the entries of all stores that a reader would see."""
    for name in STORES:
        pattern = "*/*" if name == "embeddings" else "*"
        for path in sorted((stores / name).glob(pattern)):
            if path.is_dir() and not any(level.startswith(".") for level in path.relative_to(stores).parts):
                yield path


def _tracked(stores: Path) -> dict[str, str]:
    """Hash the schema, the finished jobs and their results, and the last sweep's summary."""
    # The columns, not the statements that created the tables: these vary in order.
    columns = "SELECT m.name, p.name, p.type FROM sqlite_master m, pragma_table_info(m.name) p ORDER BY 1, 2"
    rows = [*query(stores, columns), *query(stores, "SELECT * FROM alembic_version")]
    hashes = {"schema": hashlib.sha256(repr(rows).encode()).hexdigest()}
    for key, digest, _, _ in finished(stores):
        assert hashes.get(f"job {key}", digest) == digest, "one key, two results"
        hashes[f"job {key}"] = digest
    for _, folder in finished_sweeps(stores)[-1:]:
        for name in ("analyses.csv", "summary.csv"):
            hashes[f"summary/{name}"] = cache.file_hash(folder / "summary" / name)
    return hashes


def finished(stores: Path) -> list[tuple[str, str, str, Path]]:
    """Return key, digest of results, id and folder of every job that the database calls finished."""
    rows = query(
        stores,
        "SELECT k.value, d.value, run_uuid, artifact_uri FROM runs JOIN tags k USING (run_uuid) "
        "JOIN tags d USING (run_uuid) WHERE k.key = 'key' AND d.key = 'results' AND status = 'FINISHED' "
        "ORDER BY k.value",
    )
    return [(*row[:3], Path(row[3].removeprefix("file://"))) for row in rows]


def finished_sweeps(stores: Path) -> list[tuple[str, Path]]:
    """Return id and folder of every finished parent run, by its start."""
    rows = query(
        stores,
        "SELECT run_uuid, artifact_uri FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' "
        "AND value = 'sweep' AND status = 'FINISHED' ORDER BY start_time",
    )
    return [(run, Path(location.removeprefix("file://"))) for run, location in rows]


def statuses(stores: Path) -> dict[str, str]:
    """Return the status of each run, by its id."""
    exists = (stores / "mlruns" / "mlflow.db").exists()
    return dict(query(stores, "SELECT run_uuid, status FROM runs")) if exists else {}


def query(stores: Path, text: str) -> list[tuple]:
    with closing(sqlite3.connect(stores / "mlruns" / "mlflow.db")) as database:
        database.text_factory = lambda text: text.decode(
            errors="replace"
        )  # a damaged database may not be UTF-8
        return database.execute(text).fetchall()


def half_written(stores: Path) -> list[str]:
    """Name the entries and results that a reader would take for complete although they are not."""
    wrong = [f"{entry}: {damage}" for entry in entries(stores) if (damage := cache.find_damage(entry))]
    if (stores / "mlruns" / "mlflow.db").exists():
        for _, digest, run, folder in finished(stores):
            if results.compute_digest(folder) != digest:
                wrong.append(f"results of finished run {run}")
    empty = [path for path in stores.glob("out/*/results") if not (path / results.ANALYSES).stat().st_size]
    return [*wrong, *map(str, empty)]
