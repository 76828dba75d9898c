"""Commands of the entries, timed as processes of their own: start to exit, and their largest memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

from benchmarks.analysis import alone, analysis, together
from benchmarks.corpora import captions
from benchmarks.image_embedding import pictures
from benchmarks.scale import TARGETS, measure
from benchmarks.sizes import QUICK, Size
from benchmarks.stand_ins import AUDITS, EXPERIMENTS, STEPS, audit_tables, paper_tables, write
from benchmarks.text_embedding import texts
from benchmarks.timing import Compared, in_fresh_process, in_turns
from src.configs import CHECKOUT

WORLD = ("faces.per_group={faces}", "scenes.count={scenes}", "words.count={words}", "trainer=cpu")
TOYS = ("toy_s", "toy_m", "toy_l")
DATABASE = "mlflow.db"
# Starts a command and writes its seconds and its largest memory into a file. On Linux the memory of a process
# is at least that of the one that it was forked from: this one holds next to nothing.
MEASURED = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as found:
    print(time.perf_counter() - start, used.ru_maxrss, file=found)
sys.exit(status != 0)
"""


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        what: was measured.
        seconds: of a command, start to exit.
        peak_mb: largest resident memory of one process, 10^6 bytes.
        asked: seconds that it should take at most; None: nobody asked.
    """

    what: str
    seconds: float
    peak_mb: float
    asked: float | None = None


def stages(size: Size, place: Path) -> Iterator[Row]:
    """Each stage of a run of toy_m, as a command of its own."""
    chosen = [*_world(size, place), "model=toy_m"]
    yield _timed("start: src.run --help", ["src.run", "--help"])
    yield _timed("ingest: draw faces and scenes", ["src.stage", "ingest", *chosen])
    morphs = ["faces=morphs", "faces@faces.parents=avatars", f"faces.parents.per_group={size.faces}"]
    morphs += [f"faces.per_group={size.morphs}", "faces.workers=1"]
    what = f"morph: {size.morphs} of each group, optical flow, one core"
    yield _timed(what, ["src.stage", "morph", *chosen, *morphs])
    yield _timed(f"weights: toy_m, {size.steps} steps", ["src.stage", "weights", *chosen])
    for role in ("faces", "scenes", "words", "labels"):
        yield _timed(f"embed: {role}", ["src.stage", "embed", "--role", role, *chosen])
    tracked = [f"tracking.uri=sqlite:///{place}/mlruns/mlflow.db", f"protocol.k={size.k}"]
    sweep = ["src.run", "-m", "exp=glob(*_to_*)", "report=false", *chosen, *tracked]
    yield _timed("propagate: 8 experiments, first", [*sweep, f"hydra.sweep.dir={place}/first"])
    yield _timed("propagate: the same, taken over", [*sweep, f"hydra.sweep.dir={place}/second"])


def sweeps(size: Size, place: Path) -> Iterator[Row]:
    """Three toys x eight experiments on stored vectors: without and with all that a sweep brings."""
    off = ["report=false", *(f"protocol.{name}" for name in STEPS["scores"])]
    every = [f"model={','.join(TOYS)}", "exp=glob(*_to_*)"]
    # Of a world so small that its arithmetic takes next to nothing.
    worlds = {place / "demo": size, place / "small": QUICK}
    for world, own in worlds.items():
        _sweep(own, world, "vectors", [*every, *off])
    demo, small = worlds
    asked = {
        "off": (demo, [*every, *off]),
        "on": (demo, every),
        "one": (small, ["model=toy_s", "exp=faces_to_words", *off]),
        "many": (small, [*every, *off]),
    }
    peaks = {}

    def seconds(name: str) -> float:
        world, given = asked[name]
        row = _sweep(worlds[world], world, name, given)
        peaks[name] = row.peak_mb
        return row.seconds

    times = in_turns({name: partial(seconds, name) for name in asked})
    what = "sweep: 24 jobs on stored vectors"
    yield Row(f"{what}, report, placebo and intervals off", times["off"], peaks["off"], 25)
    yield Row(f"{what}, all on", times["on"], peaks["on"], 90)
    job = (times["many"] - times["one"]) / 23
    yield Row("sweep: one more job, next to no arithmetic", job, peaks["many"])
    left = job - _analysed(small / DATABASE)
    yield Row("sweep: the same less its analysis: composed, logged, drawn, written", left, peaks["many"], 0.4)


def _analysed(database: Path) -> float:
    """Mean seconds that the jobs of a store took from their vectors to their numbers, as they logged them."""
    from src.tracking import Tracker, finished

    return mean(job.metrics["analysis_seconds"] for job in finished(Tracker(f"sqlite:///{database}")))


def _sweep(size: Size, place: Path, name: str, given: list[str]) -> Row:
    """Time a sweep that takes over no job."""
    own = [f"tracking.uri=sqlite:///{place / DATABASE}", f"hydra.sweep.dir={place}/{name}", "resume=false"]
    asked = ["src.run", "-m", *_world(size, place), f"protocol.k={size.k}", *given, *own]
    return _timed(f"sweep {name}", asked)


def growth(size: Size) -> Iterator[Row]:
    """One experiment from vectors in memory, as targets, corpus, width and k grow."""
    for name in ("paper_faces", "paper_words", "width", "k"):
        for share in (4, 2, 1):
            smaller = replace(size, **{name: getattr(size, name) // share})
            what, seconds, peak = in_fresh_process(alone, smaller, "faces_to_words")
            yield Row(f"growth: {what}", seconds, peak)


def scale(size: Size, place: Path) -> Iterator[Row]:
    """Both scores of a corpus on disk (memory: above what an interpreter takes); captions, counted."""
    for found in measure(place, size.streamed, TARGETS):
        yield Row(f"stream: {found['what']}", found["seconds"], found["own_mb"])
    for share in (10, 3, 1):
        count = size.streamed // share
        captions(place / "captions.parquet", count)
        yield _timed(
            f"captions: {count:,} counted, start to exit",
            ["src.captions", f"path={place}/captions.parquet", f"output={place}/{share}"],
        )


def worth(size: Size, place: Path) -> Iterator[Row]:
    """Each experiment at the paper's size, from stored vectors: without and with what its rho is worth."""
    (place / "lab").mkdir()
    write(paper_tables(size), size.width, place / "lab")
    for exp in EXPERIMENTS:
        asked = ["src.run", "model=precomputed", f"model.path={place}/lab", f"exp={exp}", "resume=false"]
        asked += [f"protocol.k={size.k}", f"tracking.uri=sqlite:///{place}/worth/mlflow.db"]
        for what, off in STEPS.items():
            chosen = [f"protocol.{name}" for name in off] + [f"hydra.run.dir={place}/worth/{exp}"]
            yield _timed(f"{exp}: {what}", [*asked, *chosen])


def sobit(size: Size, place: Path) -> Iterator[Row]:
    """Each So-B-IT audit at FairFace's size, from stored vectors: with nulls and intervals."""
    lab = place / "fairface"
    lab.mkdir()
    write(audit_tables(size, lab), size.width, lab)
    asked = ["src.run", "model=precomputed", f"model.path={lab}", f"taxonomy.path={lab}/list.json"]
    asked += ["resume=false", f"tracking.uri=sqlite:///{place}/sobit/mlflow.db"]
    for exp, chosen in AUDITS.items():
        for vocabulary in chosen:
            against = f", {vocabulary} frequent words" if vocabulary else ""
            given = [f"exp={exp}", f"protocol.vocabulary={vocabulary}", f"hydra.run.dir={place}/sobit/{exp}"]
            yield _timed(f"{exp}: {size.sobit_words} words{against}", [*asked, *given])


def peers(size: Size) -> Iterator[Compared]:
    """Texts, pictures and each experiment, each beside those that do the same."""
    for model in ("clip_b32", "clip_l14"):
        yield from in_fresh_process(texts, model, size.sentences)
    for model, count in {"clip_b32": size.pictures, "clip_l14": max(1, size.pictures // 16)}.items():
        yield from in_fresh_process(pictures, model, count, side=224, accelerator="cpu", precision="fp32")
    rows = [row for exp in EXPERIMENTS for row in in_fresh_process(analysis, size, exp)]
    yield from rows + together(rows)
    yield from in_fresh_process(analysis, size, "scenes_to_words", vectors=32)


def _world(size: Size, place: Path) -> list[str]:
    chosen = [item.format(**asdict(size)) for item in WORLD]
    chosen += [f"model.steps={size.steps}", f"store.dir={place}/embeddings"]
    chosen += [f"store.checkpoints={place}/checkpoints", f"store.stimuli={place}/stimuli"]
    return [*chosen, f"store.morphs={place}/morphs", f"store.pictures={place}/pictures"]


def _timed(what: str, arguments: list[str]) -> Row:
    """Time a command in a process of its own, start to exit."""
    with tempfile.NamedTemporaryFile("r") as used:
        command = [sys.executable, "-c", MEASURED, used.name, sys.executable, "-m", *arguments]
        done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{what} failed:\n{done.stdout}\n{done.stderr}")
        seconds, peak = map(float, used.read().split())
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Row(what, seconds, peak * unit / 1e6)
