"""The stages of the work: each a command, the state that it starts from, and what it has to leave."""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from src.storage import cache, results
from tests.conftest import places
from tests.faults.driven import MODEL, PROTOCOL, WORLD, Ended, Server

STORES = ("stimuli", "morphs", "checkpoints", "pictures", "embeddings")
MORPHS = ["faces=morphs", "faces@faces.parents=avatars", "faces.parents.per_group=4", "faces.parents.size=24"]
MORPHS += ["faces.size=24", "faces.per_group=2", "trainer=cpu"]


@dataclass(frozen=True)
class Stage:
    """A command on a tiny world.

    Attributes:
        after: the stage whose leavings it starts from; empty: from nothing.
        entry: module of the command.
        arguments: of the command, given the folder of all that is kept.
    """

    after: str
    entry: str
    arguments: Callable[[Path], list[str]] = field(repr=False)


def _pipeline(*stage: str) -> Callable[[Path], list[str]]:
    return lambda kept: [*stage, *WORLD, *MODEL, *places(kept)]


def _sweep(kept: Path) -> list[str]:
    chosen = ["-m", "exp=faces_to_words,scenes_to_words", *WORLD, *MODEL, *PROTOCOL]
    return [*chosen, *places(kept), f"hydra.sweep.dir={kept}/out"]


def _morph(workers: int) -> Callable[[Path], list[str]]:
    return lambda kept: ["morph", *MORPHS, f"faces.workers={workers}", *places(kept)]


STAGES = {
    # MLflow's migrations take longer than all else: few stages begin before them.
    "database": Stage("", "src.tracking.__main__", lambda kept: [uri(kept)]),
    "draw": Stage("database", "src.stage", _pipeline("ingest")),
    "train": Stage("draw", "src.stage", _pipeline("weights")),
    "embed": Stage("train", "src.stage", _pipeline("embed", "--role", "faces")),
    "morph": Stage("draw", "src.stage", _morph(1)),
    "morph by two": Stage("draw", "src.stage", _morph(2)),
    "sweep": Stage("embed", "src.run", _sweep),
    "report": Stage(
        "sweep",
        "src.report.__main__",
        lambda kept: ["sweep=latest", f"tracking.uri={uri(kept)}", f"output={kept}/report"],
    ),
    "all": Stage("database", "src.run", lambda kept: [*_sweep(kept), "report=true"]),
}


def uri(kept: Path) -> str:
    return f"sqlite:///{kept}/mlruns/mlflow.db"


class Bench:
    """Stages made once undisturbed, each to be repeated under disturbance from where it starts."""

    def __init__(self, folder: Path) -> None:
        self.kept, self.snapshots = folder / "kept", folder / "snapshots"
        self.server = Server(folder)
        self.undisturbed: dict[str, Ended] = {}
        self.wanted: dict[str, dict[str, str]] = {}

    def run(self, name: str, *more: str, **options: object) -> Ended:
        stage = STAGES[name]
        return self.server.run(stage.entry, *stage.arguments(self.kept), *more, **options)

    def make(self, name: str) -> None:
        """Run a stage undisturbed, once, and keep what it leaves; the stages before it, too."""
        if name in self.wanted:
            return
        if STAGES[name].after:
            self.make(STAGES[name].after)
        self.restore(name)
        modules = self.snapshots.parent / "modules.json"
        ended = self.run(name, modules=str(modules))
        assert ended.status == 0, ended.said
        self.server.warm(modules)
        self.undisturbed[name] = ended
        self.wanted[name] = content(self.kept)
        shutil.copytree(self.kept, self.snapshots / name)

    def timed(self, name: str) -> Ended:
        """The same once more: the first time imports, and takes longer than any after it."""
        self.make(name)
        self.restore(name)
        ended = self.run(name)
        assert content(self.kept) == self.wanted[name], "two undisturbed runs differ"
        return ended

    def restore(self, name: str) -> None:
        """Put all that is kept where the stage starts."""
        shutil.rmtree(self.kept, ignore_errors=True)
        if STAGES[name].after:
            shutil.copytree(self.snapshots / STAGES[name].after, self.kept)
        else:
            self.kept.mkdir(parents=True)

    def close(self) -> None:
        self.server.close()


def content(kept: Path) -> dict[str, str]:
    """Hash of everything that has to be the same to the last bit, by its path."""
    found = {}
    for name in STORES:
        for entry in entries(kept / name):
            for path in sorted(entry.rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(kept))] = cache.file_hash(path)
    for pattern in ("out/*/results/*", "report/tables/*", "report/figures/*.png"):
        for path in sorted(kept.glob(pattern)):
            found[str(path.relative_to(kept))] = cache.file_hash(path)
    if (kept / "mlruns" / "mlflow.db").exists():
        found |= _tracked(kept)
    return found


def entries(store: Path) -> Iterator[Path]:
    """Entries of a store that a reader would see."""
    for path in sorted(store.glob("*")):
        if path.is_dir() and not path.name.startswith("."):
            if store.name == "embeddings":
                yield from (own for own in sorted(path.iterdir()) if not own.name.startswith("."))
            else:
                yield path


def _tracked(kept: Path) -> dict[str, str]:
    """The schema, the finished jobs and their results, and the last sweep's summary."""
    # Not how its tables were written down: MLflow takes them in any order.
    columns = "SELECT m.name, p.name, p.type FROM sqlite_master m, pragma_table_info(m.name) p ORDER BY 1, 2"
    rows = [*asked(kept, columns), *asked(kept, "SELECT * FROM alembic_version")]
    found = {"schema": hashlib.sha256(repr(rows).encode()).hexdigest()}
    for key, digest, _, _ in finished(kept):
        assert found.get(f"job {key}", digest) == digest, "one key, two results"
        found[f"job {key}"] = digest
    parents = asked(
        kept,
        "SELECT artifact_uri FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'sweep' "
        "AND status = 'FINISHED' ORDER BY start_time DESC",
    )
    for place in parents[:1]:
        for name in ("analyses.csv", "summary.csv"):
            path = Path(place[0].removeprefix("file://")) / "summary" / name
            found[f"summary/{name}"] = cache.file_hash(path)
    return found


def finished(kept: Path) -> list[tuple[str, str, str, str]]:
    """Key, digest of results, id and place of every job that the database calls finished."""
    return asked(
        kept,
        "SELECT k.value, d.value, run_uuid, artifact_uri FROM runs JOIN tags k USING (run_uuid) "
        "JOIN tags d USING (run_uuid) WHERE k.key = 'key' AND d.key = 'results' AND status = 'FINISHED' "
        "ORDER BY k.value",
    )


def statuses(kept: Path) -> dict[str, str]:
    """How each run stands, by its id."""
    made = (kept / "mlruns" / "mlflow.db").exists()
    return dict(asked(kept, "SELECT run_uuid, status FROM runs")) if made else {}


def asked(kept: Path, query: str) -> list[tuple]:
    with closing(sqlite3.connect(kept / "mlruns" / "mlflow.db")) as database:
        return database.execute(query).fetchall()


def half_written(kept: Path) -> list[str]:
    """What a reader would take for whole and is not."""
    wrong = [
        f"{entry}: {said}"
        for name in STORES
        for entry in entries(kept / name)
        if (said := cache.damaged(entry))
    ]
    database = kept / "mlruns" / "mlflow.db"
    if database.exists():
        for _, digest, run, place in finished(kept):
            if results.digest(Path(place.removeprefix("file://"))) != digest:
                wrong.append(f"results of finished run {run}")
    empty = [path for path in kept.glob("out/*/results") if not (path / results.ANALYSES).stat().st_size]
    return [*wrong, *map(str, empty)]
