"""Run sweeps at the same time, and check that a server has all of their runs and stores awkward values."""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch

from src.storage import results
from src.tracking import Run, Tracker, find_children, find_finished_jobs, find_sweeps
from tests.commands import command


def at_once(
    commands: dict[Path, list[str]], target: Callable[[Path, list[str]], None] | None = None
) -> list[int]:
    """Run sweeps at the same time, each in a forked process; return their exit codes."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=target or run, args=item) for item in commands.items()]
    for process in processes:
        process.start()
    for process in processes:
        process.join(540)
        process.kill()  # without effect if it has ended
        process.join()
    return [process.exitcode for process in processes]


def run(output: Path, arguments: list[str]) -> None:
    """Run a sweep within a forked process, with its output in a file next to its folder."""
    # OpenMP's threads are not forked with their process: code that uses several would wait for them forever.
    torch.set_num_threads(1)
    with output.with_suffix(".log").open("w") as out:
        for stream, descriptor in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            os.dup2(out.fileno(), descriptor)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        os._exit(command(output, *arguments).code)


def check_complete(uri: str, outputs: list[Path], place: Path, jobs: int) -> None:
    """Check that a server has each job of some sweeps once, finished, with the bytes of its folder.

    The sweeps are of precomputed vectors: their dataset, and so their MLflow experiment, is `precomputed`.
    They share no job, and the server has no other runs; `place` is a folder for fetched files.
    """
    tracker = Tracker(uri)
    parents, done = find_sweeps(tracker, "precomputed"), find_finished_jobs(tracker, "precomputed")
    experiment = tracker.client.get_experiment_by_name("precomputed").experiment_id
    runs = tracker.client.search_runs([experiment], max_results=1000)
    assert Counter(run.info.status for run in runs) == {"FINISHED": jobs + len(outputs)}
    assert (len(parents), len(done)) == (len(outputs), jobs)
    assert len({run.tags["config"] for run in done}) == jobs
    folders = {
        pd.read_csv(path, dtype=str)["config"][0]: path.parent
        for output in outputs
        for path in output.glob("*/results/analyses.csv")
    }
    assert set(folders) == {run.tags["config"] for run in done}
    for run in done:
        (place / run.id).mkdir()
        fetched = Run(run.id, tracker).fetch(results.FOLDER, place / run.id)
        assert contents(fetched) == contents(folders[run.tags["config"]])
        assert results.compute_digest(fetched.parent) == run.tags["results"]
        assert run.metrics["rho"] == run.metrics["rho"]  # not NaN
    run_ids = []
    for parent in parents:
        (place / parent.id).mkdir()
        summary = Run(parent.id, tracker).fetch("summary", place / parent.id)
        table = pd.read_csv(summary / "jobs.csv")
        assert {*table["status"]} == {"finished"}
        assert set(table["run"]) == {child.id for child in find_children(tracker, parent)}
        run_ids += table["run"].tolist()
    assert sorted(run_ids) == sorted(run.id for run in done)


def check_awkward_values(uri: str, place: Path) -> None:
    """Check that a server accepts long names and texts as the client shortens them.

    NUL must be removed, a tiny metric and a text must come back unchanged, and an absent artifact must be
    reported within 10 s. `place` is a folder for fetched files.
    """
    tracker = Tracker(uri)
    run = tracker.start_run("data/<set> ü", "x" * 400)
    run.log(params={"long": "é" * 9000}, tags={"zero": "a\0b", "mark": "雪" * 6000})
    run.log(metrics={"rho.<b>": 0.5, "tiny": 5e-324, "m" * 400: 1e308})
    run.log_inputs({"x" * 600: "0" * 64})
    run.log_text("é <b>", "summary/words.txt")
    run.end()
    logged = tracker.client.get_run(run.id).data
    assert (logged.tags["zero"], logged.metrics["tiny"]) == ("ab", 5e-324)
    assert run.fetch("summary/words.txt", place).read_text() == "é <b>"
    begun = time.monotonic()
    with pytest.raises(FileNotFoundError):
        run.fetch("absent", place)
    assert time.monotonic() - begun < 10


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}
