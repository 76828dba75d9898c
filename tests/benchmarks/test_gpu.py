"""Check the small form of the benchmark of a GPU on the CPU, its goals, and exact top-k with ties."""

import json
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import Blip2Config

from benchmarks import budget, device_embedding, gpu
from benchmarks.device_top_k import retrieve_on_device
from benchmarks.sizes import QUICK, Size
from benchmarks.stand_ins import job_config
from src.metrics.retrieval import retrieve
from src.metrics.similarity import cosines, normalise


def random_unit_vectors(count, seed):
    return normalise(torch.randn(count, 16, generator=torch.Generator().manual_seed(seed)))


# Corpus with ties at every rank -> its vectors.
TIED = {
    "some twice": lambda y: torch.cat([y, y[:100]]),
    "each 75 times": lambda y: y[:4].repeat(75, 1),  # more ties than any margin of the test holds
    "nearly equal": lambda y: normalise(y[:1] + 1e-9 * y),
    "equal but for rounding": lambda y: normalise(y[:1] + 1e-15 * y),
}


@pytest.mark.parametrize("margin", [0, 1, 64])
@pytest.mark.parametrize("k", [1, 5, 50, 299, 300])
@pytest.mark.parametrize("ties", TIED)
def test_top_k_on_a_device_is_that_of_float64_with_ties_by_position(ties, k, margin):
    x, y = random_unit_vectors(7, 0), TIED[ties](random_unit_vectors(300, 1))
    assert torch.equal(retrieve_on_device(x, y, k, margin), retrieve(cosines(x, y), k))


@pytest.mark.gpu
def test_top_k_on_a_gpu_is_that_of_float64_with_ties_by_position():
    x, y = random_unit_vectors(100, 0), TIED["some twice"](random_unit_vectors(5000, 1))
    assert torch.equal(retrieve_on_device(x.cuda(), y.cuda(), 50).cpu(), retrieve(cosines(x, y), 50))


def test_rounded_products_are_refused():
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(ValueError, match="the bound holds for products in float32"):
            retrieve_on_device(random_unit_vectors(1, 0), random_unit_vectors(2, 1), 1)
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.thorough
def test_the_small_form_measures_each_goal(tmp_path, monkeypatch, capsys):
    """Run all measures in this process, as starting others takes longer than measuring."""
    monkeypatch.setattr(gpu, "run_tests", lambda: [{"what": "tests", "passed": 3, "failed": 0, "skipped": 0}])
    monkeypatch.setattr(gpu, "measure_within", lambda _, measures: (
        (name, list(measure()), budget.MEASURED) for name, (measure, _) in measures.items()
    ))  # fmt: skip
    assert gpu.main(["--quick", "--output", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "gpu.json").read_text())
    assert results["measures"] == dict.fromkeys(("top_k", "tests", "toy_s"), budget.MEASURED)
    rows = {row["what"]: row for row in results["rows"]}
    goals = list(gpu.list_goals(QUICK))
    assert len(goals) == len(results["goals"]) == 10
    assert all(goal.value in rows[goal.what] for goal in goals)
    # The results do not depend on the size.
    verdicts = {goal["goal"]: goal["met"] for goal in results["goals"]}
    assert verdicts["top-k: wrong_targets"]
    assert verdicts["toy_s: pictures, 1 - cosine: bf16"]
    assert verdicts["toy_s: sentences, 1 - cosine: fp32"]
    assert 1e-9 < rows["toy_s: pictures, 1 - cosine"]["bf16"] < 1e-4
    assert rows["toy_s: pictures, 1 - cosine"]["fp32"] < 1e-12
    assert {"machine", "versions", "git", "small_form", "size", "seconds"} <= {*results}
    assert {"driver", "cuda", "gpu"} <= {*results["machine"]}
    assert "met: top-k: wrong_targets at most 0, 0" in capsys.readouterr().out


def test_blip_2_is_built_without_files_of_the_hub(monkeypatch):
    tower = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    qformer = {**tower, "encoder_hidden_size": 16, "use_qformer_text_input": True, "vocab_size": 50}
    sizes = {"vision_config": {**tower, "patch_size": 112}, "qformer_config": qformer}
    config = Blip2Config(**sizes, num_query_tokens=3, image_text_hidden_size=8)
    monkeypatch.setattr(device_embedding, "blip2_config", lambda: config)
    network = device_embedding.build(job_config("model=blip2"), "fp32")
    with torch.inference_mode():
        vectors = network.encode_images(torch.rand(2, 3, 224, 224))
    assert vectors.shape == (2, 3, 8)
    assert vectors.isfinite().all()
    assert network.split_preprocessing() is not None


def seconds_of_runs(loop, start=1.0, host=1.0):
    """Return the seconds of runs over 1000 stimuli, whose compiled forward pass takes a second."""
    names = device_embedding
    parts = {names.LOOP: loop, names.HOST: host}
    runs = {names.BARE: 1.1, names.COMPILED: 1.0}
    return runs | {
        f"{name}{half}": start + share * seconds
        for name, seconds in parts.items()
        for half, share in (("", 1), (names.HALF, 0.5))
    }


def test_speeds_exclude_the_start_of_the_loop():
    speed = device_embedding.describe_speed(1000, seconds_of_runs(loop=1.25, host=0.5), 162.0, 989.0)
    assert speed["per_second"] == pytest.approx(800)
    assert speed["share_of_compiled"] == pytest.approx(0.8)
    assert speed["waiting_share"] == pytest.approx(1 - 1.1 / 1.25)
    assert speed["host_per_second"] == pytest.approx(2000)
    assert speed["loader_limits"] is False
    assert speed["start_seconds"] == pytest.approx(1)
    assert speed["share_of_peak"] == pytest.approx(800 * 0.162 / 989)
    slow = device_embedding.describe_speed(1000, seconds_of_runs(loop=2.2, host=2), 162.0, None)
    assert slow["loader_limits"] is True
    assert slow["share_of_peak"] is None
    too_few = device_embedding.describe_speed(2, seconds_of_runs(loop=0, host=0))
    assert too_few["per_second"] is too_few["share_of_compiled"] is too_few["loader_limits"] is None


# Value of a row in a good and in a bad result of each goal of the full form.
GOOD_AND_BAD = {
    "milliseconds": (49.0, 51.0),
    "wrong_targets": (0, 1),
    "bf16": (9e-5, 2e-4),
    "fp32": (1e-6, 3e-6),
    "failed": (0, 1),
    "passed": (1, 0),
}


@pytest.mark.parametrize("goal", gpu.list_goals(Size()), ids=lambda goal: f"{goal.what}: {goal.value}")
def test_a_goal_is_met_missed_or_not_measured(goal):
    if goal.value in GOOD_AND_BAD:
        good, bad = ({goal.value: value} for value in GOOD_AND_BAD[goal.value])
    else:  # ViT-L/14 at 2700 and at 900 pictures per second, ViT-B/32 likewise
        gflops = {"clip_b32: pictures": 8.82 * 13}.get(goal.what, 162.03)
        good, bad = (
            device_embedding.describe_speed(
                2700, {name: factor * value for name, value in seconds_of_runs(loop).items()}, gflops, 989.0
            )
            for factor, loop in ((1, 1.02), (3, 1.1))
        )
    verdicts = [goal.describe({goal.what: row})["met"] for row in (good, bad)]
    assert verdicts == [True, False]
    assert goal.describe({})["met"] is None
    assert goal.describe({goal.what: {goal.value: None}})["met"] is None


def test_each_measure_has_a_budget_within_ten_minutes():
    measures = gpu.list_measures(Size(), torch.device("cpu"))
    assert list(measures) == list(gpu.BUDGETS)
    assert sum(seconds for _, seconds in measures.values()) <= gpu.SECONDS < 600


def test_what_exceeds_the_time_is_reported_as_not_measured(monkeypatch):
    monkeypatch.setattr(budget, "_measure_in_process", lambda measure, seconds: (measure(), f"{seconds:.0f}"))
    measures = {"first": (lambda: [1], 4.0), "second": (lambda: [2], 2.0), "third": (lambda: [3], 3.0)}
    all_of_it = list(budget.measure_within(12, measures))
    # What the budgets leave is for the first that needs it.
    assert all_of_it == [("first", [1], "7"), ("second", [2], "9"), ("third", [3], "12")]
    too_little = list(budget.measure_within(2.5, measures))
    assert too_little == [
        ("first", [], "not measured: 2 s left, 4 s needed"),
        ("second", [2], "2"),
        ("third", [], "not measured: 2 s left, 3 s needed"),
    ]


def test_a_process_is_ended_at_its_limit_and_reports_how_it_failed():
    rows, status = budget._measure_in_process(partial(iter, [{"what": "row"}]), 60)
    assert (rows, status) == ([{"what": "row"}], budget.MEASURED)
    rows, status = budget._measure_in_process(partial(int, "x"), 60)
    assert (rows, status[:18]) == ([], "failed: ValueError")
    rows, status = budget._measure_in_process(partial(map, subprocess.run, [["sleep", "600"]]), 2)
    assert (rows, status) == ([], "not measured in full: ended after 2 s")


def test_tests_of_a_gpu_are_counted(monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        report = next(argument for argument in command if "--junit-xml=" in argument)
        suite = '<testsuite tests="9" failures="1" errors="2" skipped="3"></testsuite>'
        Path(report.partition("=")[2]).write_text(f"<testsuites>{suite}</testsuites>")

    monkeypatch.setattr(subprocess, "run", run)
    assert list(gpu.run_tests()) == [{"what": "tests", "passed": 3, "failed": 3, "skipped": 3}]
    assert __file__ in commands[0]
