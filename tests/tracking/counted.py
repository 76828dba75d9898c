"""Counts what sweeps left on a server against what they left in their folders."""

import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
import torch

from src.storage import results
from src.tracking import Run, Tracker, children, finished, sweeps
from tests.commands import command


def at_once(asked: dict[Path, list[str]]) -> list[int]:
    """Run sweeps in processes of their own, all at the same time; their exit codes."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=run, args=(output, arguments)) for output, arguments in asked.items()]
    for process in processes:
        process.start()
    for process in processes:
        process.join(540)
        process.kill()  # nothing, where it ended
        process.join()
    return [process.exitcode for process in processes]


def run(output: Path, arguments: list[str]) -> None:
    """A sweep within a forked process, what it says in a file beside its folder."""
    # OpenMP's threads are not forked with their process: whoever works with several waits for them for good.
    torch.set_num_threads(1)
    with output.with_suffix(".log").open("w") as out:
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            stream.flush()
            os.dup2(out.fileno(), number)
        sys.stdout = os.fdopen(1, "w", buffering=1)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        os._exit(command(output, *arguments).code)


def whole(uri: str, outputs: list[Path], place: Path, jobs: int) -> None:
    """See that a server holds each job of some sweeps once, finished, with the bytes of its folder.

    Args:
        uri: of the server; nothing else was tracked in the experiment.
        outputs: folders of the sweeps, none of which asked for what another did.
        place: an existing folder, for what is fetched.
        jobs: how many were asked for in all.
    """
    tracker = Tracker(uri)
    parents, done = sweeps(tracker, "precomputed"), finished(tracker, "precomputed")
    experiment = tracker.client.get_experiment_by_name("precomputed").experiment_id
    every = tracker.client.search_runs([experiment], max_results=1000)
    assert Counter(run.info.status for run in every) == {"FINISHED": jobs + len(outputs)}
    assert (len(parents), len(done)) == (len(outputs), jobs)
    # By what they are: each once.
    assert len({run.tags["config"] for run in done}) == jobs
    folders = {
        pd.read_csv(path, dtype=str)["config"][0]: path.parent
        for output in outputs
        for path in output.glob("*/results/analyses.csv")
    }
    assert set(folders) == {run.tags["config"] for run in done}
    for run in done:
        fetched = Run(run.id, tracker).fetch(results.FOLDER, _new(place / run.id))
        assert contents(fetched) == contents(folders[run.tags["config"]])
        assert results.digest(fetched.parent) == run.tags["results"]
        assert run.metrics["rho"] == run.metrics["rho"]  # a number
        scatter = Run(run.id, tracker).fetch("scatter.png", place / run.id)
        assert scatter.read_bytes().endswith(b"IEND\xaeB`\x82")
    listed = []
    for parent in parents:
        summary = Run(parent.id, tracker).fetch("summary", _new(place / parent.id))
        table = pd.read_csv(summary / "jobs.csv")
        assert (table["status"] == "finished").all()
        assert set(table["run"]) == {child.id for child in children(tracker, parent)}
        listed += table["run"].tolist()
        analyses = pd.read_csv(summary / "analyses.csv", dtype=str)
        assert set(analyses["config"]) == {run.tags["config"] for run in done if run.id in set(table["run"])}
    assert sorted(listed) == sorted(run.id for run in done)


def awkward(uri: str, place: Path) -> None:
    """See that a server takes names and texts of a length, and with signs, that SQLite takes from anybody."""
    tracker = Tracker(uri)
    run = tracker.open("data/<set> ü", "x" * 400)
    tags = {"t": "y" * 9000, "zero": "a\0b", "mark": "雪" * 6000}
    run.log(
        params={"long": "é" * 9000}, tags=tags, metrics={"rho.<b>": 0.5, "tiny": 5e-324, "m" * 400: 1e308}
    )
    run.inputs({"x" * 600: "0" * 64})
    run.text(json.dumps(["é", "<b>"]), "summary/asked.json")
    tracker.close(run)
    found = tracker.client.get_run(run.id)
    assert found.info.status == "FINISHED"
    assert found.data.tags["zero"] == "ab"
    assert found.data.metrics["tiny"] == 5e-324
    assert run.fetch("summary/asked.json", place).read_text() == json.dumps(["é", "<b>"])
    begun = time.monotonic()
    with pytest.raises(FileNotFoundError):
        run.fetch("absent", place)
    assert time.monotonic() - begun < 10


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
