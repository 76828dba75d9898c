"""Measure the seconds and peak memory of commands and of single computations."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean

from benchmarks.analysis import LARGEST, analysis, measure_experiment, sum_experiments
from benchmarks.half_precision import time_half_precision
from benchmarks.image_embedding import time_pictures
from benchmarks.joint_tests import time_tests
from benchmarks.many_models import (
    FEW_DRAWS,
    MODEL_EXPERIMENTS,
    draw,
    seconds_to_first_view,
    write_biased,
    write_models,
)
from benchmarks.scale import TARGETS, measure
from benchmarks.sizes import QUICK, Size
from benchmarks.stand_ins import (
    AUDITS,
    EXPERIMENTS,
    LEVELS,
    audit_tables,
    paper_tables,
    write_captions,
    write_random,
)
from benchmarks.text_embedding import time_texts
from benchmarks.timing import MEMORY_UNIT, Comparison, in_fresh_process, min_seconds
from src.configs import CHECKOUT
from src.tracking import Tracker, find_finished_jobs

# Overrides that set the size of the built-in world and a CPU; fields of `Size` are filled in.
WORLD = ("faces.per_group={faces}", "scenes.count={scenes}", "words.count={words}", "trainer=cpu")
TOYS = ("toy_s", "toy_m", "toy_l")
DATABASE = "mlflow.db"
# Program that runs a command and writes its seconds and peak memory to a file. On Linux the peak memory of a
# process is at least that of the process that it was forked from: this one uses hardly any.
PROGRAM = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[2:])
_, status, used = os.wait4(process.pid, 0)
with open(sys.argv[1], "w") as file:
    print(time.perf_counter() - start, used.ru_maxrss, file=file)
sys.exit(status != 0)
"""


@dataclass(frozen=True)
class Row:
    """One measurement."""

    what: str  # description of what is measured
    # Seconds of a command from start to exit; in `growth` and in `scale`, except for captions, of the
    # computation alone; of one more job where `what` says so.
    seconds: float
    # Largest resident memory of one process, 10^6 bytes; in `growth`, its peak above the memory at the start;
    # in `scale`, except for captions, the same without pages of mapped files.
    peak_mb: float
    limit: float | None = None  # upper limit of the seconds; None: no limit


def stages(size: Size, folder: Path) -> Iterator[Row]:
    """Time each stage of a run of toy_m as a separate command."""
    overrides = [*_world(size, folder), "model=toy_m"]
    yield _timed("start: src.run --help", ["src.run", "--help"])
    yield _timed("ingest: draw faces and scenes", ["src.stage", "ingest", *overrides])
    morphs = ["faces=morphs", "faces@faces.parents=avatars", f"faces.parents.per_group={size.faces}"]
    morphs += [f"faces.per_group={size.morphs}", "faces.workers=1"]
    what = f"morph: {size.morphs} of each group, optical flow, one core"
    yield _timed(what, ["src.stage", "morph", *overrides, *morphs])
    yield _timed(f"weights: toy_m, {size.steps} steps", ["src.stage", "weights", *overrides])
    for role in ("faces", "scenes", "words", "labels"):
        yield _timed(f"embed: {role}", ["src.stage", "embed", "--role", role, *overrides])
    tracked = [f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db", f"protocol.k={size.k}"]
    sweep = ["src.run", "-m", "exp=glob(*_to_*)", "report=false", *overrides, *tracked]
    yield _timed("propagate: 8 experiments, first", [*sweep, f"hydra.sweep.dir={folder}/first"])
    yield _timed("propagate: the same, reused", [*sweep, f"hydra.sweep.dir={folder}/second"])


def sweeps(size: Size, folder: Path) -> Iterator[Row]:
    """Time sweeps of all toys and eight experiments on stored vectors: scores alone, and with all extras."""
    no_extras = ["report=false", *(f"protocol.{name}" for name in LEVELS["scores"])]
    all_jobs = [f"model={','.join(TOYS[: size.models])}", "exp=glob(*_to_*)"]
    jobs = 8 * size.models
    demo, small = folder / "demo", folder / "small"
    # Jobs of the small world do hardly any arithmetic: they measure the overhead of a job.
    sizes = {demo: size, small: QUICK}
    # Compute and store the vectors first, so that the timed sweeps read them.
    for world, world_size in sizes.items():
        _sweep(world_size, world, "vectors", [*all_jobs, *no_extras])
    # Name of a sweep -> folder of its world, and overrides.
    runs = {
        "no_extras": (demo, [*all_jobs, *no_extras]),
        "all_extras": (demo, all_jobs),
        "one_job": (small, ["model=toy_s", "exp=faces_to_words", *no_extras]),
        "all_jobs": (small, [*all_jobs, *no_extras]),
    }
    peaks = {}

    def seconds(name: str) -> float:
        world, overrides = runs[name]
        row = _sweep(sizes[world], world, name, overrides)
        peaks[name] = row.peak_mb
        return row.seconds

    times = min_seconds({name: partial(seconds, name) for name in runs}, size.repeats)
    what = f"sweep: {jobs} jobs on stored vectors"
    yield Row(f"{what}, report, placebo and intervals off", times["no_extras"], peaks["no_extras"], 25)
    yield Row(f"{what}, all on", times["all_extras"], peaks["all_extras"], 90)
    per_job = (times["all_jobs"] - times["one_job"]) / (jobs - 1)
    yield Row("sweep: one more job, next to no arithmetic", per_job, peaks["all_jobs"])
    rest = per_job - _mean_analysis_seconds(small / DATABASE)
    what = "sweep: one more job without its analysis (composing the config, logging, drawing, writing)"
    yield Row(what, rest, peaks["all_jobs"], 0.4)


def _mean_analysis_seconds(database: Path) -> float:
    """Average the seconds that the jobs in a database logged for their analysis, from vectors to numbers."""
    return mean(
        job.metrics["speed.analysis_seconds"] for job in find_finished_jobs(Tracker(f"sqlite:///{database}"))
    )


def _sweep(size: Size, folder: Path, name: str, overrides: list[str]) -> Row:
    """Time a sweep that reuses no job."""
    command = ["src.run", "-m", *_world(size, folder), f"protocol.k={size.k}", *overrides, "resume=false"]
    command += [f"tracking.uri=sqlite:///{folder / DATABASE}", f"hydra.sweep.dir={folder}/{name}"]
    return _timed(f"sweep {name}", command)


def many_models(size: Size, folder: Path) -> Iterator[Row]:
    """Time sweeps of few and of many precomputed models, their report, and its first view in a browser."""
    stimuli = replace(size, paper_faces=360, paper_scenes=180, paper_words=200)
    paths = [*map(str, write_models(stimuli, folder))]
    exps = len(MODEL_EXPERIMENTS)
    rows = {}
    for count in (max(1, len(paths) // 25), len(paths)):
        sweep = ["src.run", "-m", "model=precomputed", f"model.path={','.join(paths[:count])}"]
        sweep += [f"exp={','.join(MODEL_EXPERIMENTS)}", "protocol.k=60", "labels=race_gender", *FEW_DRAWS]
        sweep += ["report=false", f"tracking.uri=sqlite:///{folder}/{count}/{DATABASE}"]
        rows[count] = _timed(
            f"{count} models x {exps} experiments: sweep", [*sweep, f"hydra.sweep.dir={folder}/{count}"]
        )
        yield rows[count]
    (few, first), (many, last) = rows.items()
    database = folder / str(many) / DATABASE
    per_job = (last.seconds - first.seconds) / ((many - few) * exps)
    what = f"{many} models x {exps} experiments"
    yield Row(f"{what}: one more job", per_job, last.peak_mb)
    yield Row(
        f"{what}: one more job without its analysis",
        per_job - _mean_analysis_seconds(database),
        last.peak_mb,
        0.5,
    )
    loading, drawing, peak = in_fresh_process(draw, database, folder / "report")
    yield Row(f"{what}: results loaded from the store", loading, peak)
    yield Row(f"{what}: report drawn", drawing, peak, 60)
    page = folder / "report" / "index.html"
    yield Row(f"{what}: size of the page, MB instead of seconds", page.stat().st_size / 1e6, peak, 8)
    if (seconds := seconds_to_first_view(page)) is not None:
        yield Row(f"{what}: first view of the page in a browser", seconds, peak, 3)


def growth(size: Size, _: Path) -> Iterator[Row]:
    """Time one experiment from vectors in memory as targets, corpus, width and k grow."""
    for name in ("paper_faces", "paper_words", "width", "k"):
        for divisor in (4, 2, 1):
            smaller = replace(size, **{name: getattr(size, name) // divisor})
            what, seconds, peak = in_fresh_process(measure_experiment, smaller, "faces_to_words")
            yield Row(f"growth: {what}", seconds, peak)


def scale(size: Size, folder: Path) -> Iterator[Row]:
    """Time both scores of a corpus streamed from disk, jobs on parts of it, and the counting of captions."""
    for row in measure(folder, size.streamed, TARGETS):
        yield Row(row["what"], row["seconds"], row["anonymous_mb"])
    for divisor in (10, 3, 1):
        count = size.streamed // divisor
        write_captions(folder / "captions.parquet", count)
        command = ["src.captions", f"path={folder}/captions.parquet", f"output={folder}/{divisor}"]
        yield _timed(f"captions: {count:,} counted, start to exit", command)


def uncertainty(size: Size, folder: Path) -> Iterator[Row]:
    """Time each experiment at the paper's size on stored vectors, with each level of uncertainty."""
    vectors_folder = folder / "vectors"
    vectors_folder.mkdir()
    write_random(paper_tables(size), size.width, vectors_folder)
    for exp in EXPERIMENTS[: size.experiments]:
        command = ["src.run", "model=precomputed", f"model.path={vectors_folder}", f"exp={exp}"]
        command += ["resume=false", f"protocol.k={size.k}"]
        command += [f"tracking.uri=sqlite:///{folder}/uncertainty/mlflow.db"]
        for level, off in LEVELS.items():
            overrides = [f"protocol.{name}" for name in off] + [f"hydra.run.dir={folder}/uncertainty/{exp}"]
            yield _timed(f"{exp}: {level}", [*command, *overrides])
    biased_folder, database = folder / "biased", folder / "tests" / DATABASE
    biased_folder.mkdir()
    write_biased(paper_tables(size), 1, 1.0, size.width, biased_folder)
    tracked = [f"tracking.uri=sqlite:///{database}", f"protocol.k={size.k}"]
    intervene = ["src.run", "model=precomputed", f"model.path={biased_folder}", f"exp={LARGEST}", *tracked]
    intervene += ["exp.intervene=true", f"hydra.run.dir={folder}/intervention"]
    # Without bias there would be nothing to intervene on.
    row = _timed(f"{LARGEST}, with bias: dose-response, 200 targets a stratum", intervene)
    yield replace(row, limit=120)
    sweep = ["src.run", "-m", "model=precomputed", f"model.path={vectors_folder},{biased_folder}", *tracked]
    sweep += [f"exp={','.join(EXPERIMENTS[: size.experiments])}", "report=false"]
    sweep += [f"hydra.sweep.dir={folder}/tests"]
    yield _timed(f"2 models x {size.experiments} experiments: sweep", sweep)
    for name, seconds, peak in in_fresh_process(time_tests, database):
        yield Row(f"2 models x {size.experiments} experiments: {name}", seconds, peak, 60)


def sobit(size: Size, folder: Path) -> Iterator[Row]:
    """Time each So-B-IT audit at FairFace's size on stored vectors, with null models and intervals."""
    vectors_folder = folder / "fairface"
    vectors_folder.mkdir()
    write_random(audit_tables(size, vectors_folder), size.width, vectors_folder)
    command = ["src.run", "model=precomputed", f"model.path={vectors_folder}"]
    command += [f"taxonomy.path={vectors_folder}/list.json", "resume=false"]
    command += [f"tracking.uri=sqlite:///{folder}/sobit/mlflow.db"]
    for exp, vocabularies in AUDITS.items():
        for vocabulary in vocabularies:
            compared = f", {vocabulary} frequent words" if vocabulary else ""
            overrides = [f"exp={exp}", f"protocol.vocabulary={vocabulary}"]
            paths = [f"hydra.run.dir={folder}/sobit/{exp}"]
            yield _timed(f"{exp}: {size.sobit_words} words{compared}", [*command, *overrides, *paths])


def peers(size: Size, _: Path) -> Iterator[Comparison]:
    """Compare the embedding of texts and pictures with its peers."""
    for model in size.encoders:
        yield from in_fresh_process(time_texts, model, size.sentences)
    for model, count in zip(size.encoders, (size.pictures, max(1, size.pictures // 16)), strict=False):
        yield from in_fresh_process(time_pictures, model, count)


def half_precision(size: Size, _: Path) -> Iterator[Comparison]:
    """Compare the predict loop in bf16 on a CPU with the bare module and with float32."""
    for model, count in zip(size.encoders, (size.pictures, max(1, size.pictures // 16)), strict=False):
        yield from in_fresh_process(time_half_precision, model, count, size.sentences)


def selection(size: Size, _: Path) -> Iterator[Comparison]:
    """Compare each experiment without uncertainty, from vectors in memory, with its peers."""
    rows = [row for exp in EXPERIMENTS[: size.experiments] for row in in_fresh_process(analysis, size, exp)]
    yield from rows + sum_experiments(rows)
    yield from in_fresh_process(analysis, size, "scenes_to_words", vectors=32)


def _world(size: Size, folder: Path) -> list[str]:
    overrides = [item.format(**asdict(size)) for item in WORLD]
    overrides += [f"model.steps={size.steps}", f"store.dir={folder}/embeddings"]
    overrides += [f"store.checkpoints={folder}/checkpoints", f"store.stimuli={folder}/stimuli"]
    return [*overrides, f"store.morphs={folder}/morphs", f"store.pictures={folder}/pictures"]


def _timed(what: str, arguments: list[str]) -> Row:
    """Time a command in a separate process, from start to exit."""
    with tempfile.NamedTemporaryFile("r") as used:
        command = [sys.executable, "-c", PROGRAM, used.name, sys.executable, "-m", *arguments]
        completed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
        if completed.returncode:
            raise SystemExit(f"{what} failed:\n{completed.stdout}\n{completed.stderr}")
        seconds, peak = map(float, used.read().split())
    return Row(what, seconds, peak * MEMORY_UNIT / 1e6)
