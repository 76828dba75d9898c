"""Check the commands of the benchmark; `make bench` times them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import psutil
import pytest

from benchmarks import __main__ as bench
from benchmarks import analysis, commands, timing
from benchmarks.sizes import QUICK, Size
from benchmarks.timing import Comparison
from src import configs, stage
from src.jobs.identity import Job
from tests.tracking.servers import until


def test_every_command_of_the_benchmark_is_valid(monkeypatch, tmp_path):
    typed, row = [], commands.Row("command", 2.0, 30.0)
    monkeypatch.setattr(commands, "_timed", lambda _, given: typed.append(given) or row)
    monkeypatch.setattr(commands, "_mean_analysis_seconds", lambda _: 0.1)
    list(commands.stages(Size(), tmp_path))
    sweeps = list(commands.sweeps(Size(), tmp_path))
    assert [row.limit for row in sweeps] == [25, 90, None, 0.4]
    assert sweeps[3].seconds == sweeps[2].seconds - 0.1
    stages = [arguments[1:] for arguments in typed if arguments[0] == "src.stage"]
    assert [arguments[0] for arguments in stages] == ["ingest", "morph", "weights", *["embed"] * 4]
    for arguments in stages:
        Job.of(*configs.compose(stage._parse_arguments(arguments).overrides), "")


def test_an_experiment_is_compared_with_its_peers():
    rows = analysis.analysis(QUICK, "scenes_to_labels", vectors=2)
    assert {row.what.split(":")[0] for row in rows} == {"scenes_to_labels"}
    assert [row.limit for row in rows] == [1 / 1.6, 1 / 1.6, None, 30, None]
    assert all(row.seconds > 0 < row.peer_seconds for row in rows)
    summed = analysis.sum_experiments([*rows, *rows])  # as two experiments
    assert [row.seconds for row in summed] == [2 * row.seconds for row in rows]
    assert [row.speedup for row in summed] == pytest.approx([row.speedup for row in rows])


def test_results_are_written_with_the_machine(monkeypatch, tmp_path):
    row = Comparison("ours", 0.5, "theirs", 2.0, 3)
    monkeypatch.setattr(commands, "in_fresh_process", lambda *_, **__: [row])
    assert bench.main(["selection", "--quick", "--output", str(tmp_path)]) == 0
    monkeypatch.setattr(commands, "growth", lambda *_: [commands.Row("one more", 2.0, 30.0, 90)])
    assert bench.main(["growth", "--output", str(tmp_path)]) == 0

    results = json.loads((tmp_path / "selection.json").read_text())
    assert len(results["rows"]) == 4
    assert results["rows"][0] == {**asdict(row), "times": 4.0}
    assert results["rows"][2]["what"] == "all 2 experiments of a model"
    assert [results["rows"][2][name] for name in ("seconds", "peer_seconds", "limit")] == [1.0, 4.0, 3]
    page = re.sub(" *[|] *", "|", (tmp_path / "README.md").read_text())
    assert page.count("|ours|0.50|theirs|2.00|4.00|") == 3
    assert "|one more|2.00|90|30|" in page
    assert page.count(results["machine"]["python"]) == 2


def test_each_round_begins_with_another_run():
    order, seconds = [], iter([5.0, 3.0, 4.0, 2.0, 7.0, 6.0])

    def run(name):
        order.append(name)
        return next(seconds)

    results = timing.min_seconds({"a": lambda: run("a"), "b": lambda: run("b")})
    assert "".join(order) == "abbaab"
    assert results == {"a": 2.0, "b": 3.0}


def test_the_memory_of_a_command_excludes_that_of_its_parent():
    ballast = b"x" * 300_000_000
    start = time.perf_counter()
    row = commands._timed("help", ["json.tool", "--help"])
    assert len(ballast) > 1e6 * row.peak_mb > 5e6
    assert 0 < row.seconds <= time.perf_counter() - start
    with pytest.raises(SystemExit, match="wrong failed:(.|\n)*unrecognized arguments: --wrong"):
        commands._timed("wrong", ["json.tool", "--wrong"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("name", ["growth", "uncertainty"])
def test_a_stopped_benchmark_leaves_no_process_and_no_file(name, number, tmp_path):
    output = tmp_path / "results"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks", name, "--quick", "--output", str(output)]
    process = subprocess.Popen(command, cwd=configs.CHECKOUT, env=environment, start_new_session=True)
    started = psutil.Process(process.pid)
    # The measured process is started by one that the benchmark has started.
    until(lambda: len(started.children(recursive=True)) > 1, 120, "a measured process")
    descendants = started.children(recursive=True)
    process.send_signal(number)
    assert process.wait(60) == 130
    assert psutil.wait_procs(descendants, 10)[1] == []
    assert [*tmp_path.iterdir()] == [output]
    assert [*output.iterdir()] == []
