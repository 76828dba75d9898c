"""Measure a GPU in one call of at most ten minutes, and compare the results with goals.

python -m benchmarks.gpu
python -m benchmarks.gpu top_k tests
python -m benchmarks.gpu --quick

Without a GPU, or with --quick, it measures a small form, which only shows that it
runs: its figures are meaningless.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import torch

from benchmarks.__main__ import LIBRARIES, machine
from benchmarks.budget import Measure, Row, measure_within
from benchmarks.device_embedding import PRECISION, measure_encoder
from benchmarks.device_top_k import measure_top_k
from benchmarks.sizes import QUICK, Size
from src.configs import CHECKOUT
from src.errors import replace_unprintable, run_entry
from src.jobs.run_metadata import read_commit_tags
from src.storage.versions import library_versions

# Seconds of all measures: ten minutes, less the start of the program.
SECONDS = 540
# Seconds without which a measure is not started, the most important first; encoders: by their size.
BUDGETS = {"top_k": 40, "clip_l14": 130, "clip_b32": 85, "tests": 55, "openclip_h14": 130, "blip2": 100}
DEFAULT_BUDGET = 60
MARKER = "pytest.mark.gpu"
# Goals: minimum speed relative to the compiled forward pass, and share of the peak in dense bf16.
MIN_SHARE_OF_COMPILED = 0.95
MIN_SHARES_OF_PEAK = {"clip_l14": 0.4, "clip_b32": 0.27}
# Maximum 1 - cosine with the CPU's float32 vectors. bf16: as docs/footguns.md states. fp32: as it states of
# fp16, because a GPU computes the first layer (a convolution) in TF32, whose mantissa is as long.
MAX_ERRORS = {PRECISION: 1e-4, "fp32": 2e-6}
MAX_TOP_K_MILLISECONDS = 50


@dataclass(frozen=True)
class Goal:
    """A value of a row, and its limit."""

    what: str  # name of the row
    value: str  # name of its value
    limit: float
    is_maximum: bool = False  # whether the limit is a maximum; otherwise it is a minimum

    def describe(self, rows: Mapping[str, Row]) -> dict[str, Any]:
        """Compare the value with its limit; `met` is None if it was not measured."""
        measured, met = rows.get(self.what, {}).get(self.value), None
        if measured is not None:
            met = measured <= self.limit if self.is_maximum else measured >= self.limit
        limit = f"{'at most' if self.is_maximum else 'at least'} {self.limit:g}"
        return {"goal": f"{self.what}: {self.value}", "asked": limit, "measured": measured, "met": met}


def list_goals(size: Size) -> Iterator[Goal]:
    """Yield the goals of all measures."""
    yield Goal("top-k", "milliseconds", MAX_TOP_K_MILLISECONDS, is_maximum=True)
    yield Goal("top-k", "wrong_targets", 0, is_maximum=True)
    for encoder in size.gpu_encoders:
        for kind in ("pictures", "sentences") if encoder.sentences else ("pictures",):
            yield Goal(f"{encoder.model}: {kind}", "share_of_compiled", MIN_SHARE_OF_COMPILED)
            for precision, limit in MAX_ERRORS.items():
                yield Goal(f"{encoder.model}: {kind}, 1 - cosine", precision, limit, is_maximum=True)
        if encoder.model in MIN_SHARES_OF_PEAK:
            yield Goal(f"{encoder.model}: pictures", "share_of_peak", MIN_SHARES_OF_PEAK[encoder.model])
    yield Goal("tests", "failed", 0, is_maximum=True)
    yield Goal("tests", "passed", 1)


def run_tests() -> Iterator[Row]:
    """Run the tests of a GPU; yield the numbers of those that passed, failed and were skipped."""
    files = [
        str(path) for path in (CHECKOUT / "tests").rglob("test_*.py") if MARKER in path.read_text("utf-8")
    ]
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "gpu", f"--junit-xml={report}", *sorted(files)]
        subprocess.run(command, cwd=CHECKOUT, check=False)
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    count, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    yield {"what": "tests", "passed": count - failed - skipped, "failed": failed, "skipped": skipped}


def list_measures(size: Size, device: torch.device) -> dict[str, tuple[Measure, float]]:
    """Return the function and the budget of each measure, the most important first."""
    measures: dict[str, Measure] = {"top_k": partial(measure_top_k, size, device), "tests": run_tests}
    for encoder in size.gpu_encoders:
        measures[encoder.model] = partial(measure_encoder, encoder, device)
    names = [*BUDGETS, *(name for name in measures if name not in BUDGETS)]
    return {name: (measures[name], BUDGETS.get(name, DEFAULT_BUDGET)) for name in names if name in measures}


def read_driver() -> str | None:
    """Return the version of NVIDIA's driver; None without one."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return completed.stdout.split("\n")[0]


def main(arguments: list[str] | None = None) -> int:
    """Measure; print each row and each goal, and write all of them with device and versions to gpu.json."""
    replace_unprintable()
    has_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description="Measure a GPU.")
    parser.add_argument("measures", nargs="*", metavar="measure", help=f"{', '.join(BUDGETS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="measure a small form, as always without a GPU")
    parser.add_argument(
        "--output", type=Path, help="folder (default: benchmarks/results; small form: outputs/bench)"
    )
    options = parser.parse_args(arguments)
    size = QUICK if options.quick or not has_gpu else Size()
    measures = list_measures(size, torch.device("cuda" if has_gpu else "cpu"))
    if unknown := sorted({*options.measures} - {*measures}):
        parser.error(f"no such measure: {', '.join(unknown)}. Choose from {', '.join(measures)}.")
    chosen = {name: measures[name] for name in measures if name in (options.measures or measures)}
    folder = options.output or CHECKOUT / ("outputs/bench" if size == QUICK else "benchmarks/results")
    return run_entry(lambda: _main(size, chosen, folder))


def _main(size: Size, measures: Mapping[str, tuple[Measure, float]], folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    start, path = time.monotonic(), folder / "gpu.json"
    settings = {
        "machine": {**machine(), "driver": read_driver(), "cuda": torch.version.cuda},
        "versions": library_versions(*LIBRARIES),
        "git": read_commit_tags(CHECKOUT),
        "small_form": size == QUICK,
        "size": asdict(size),
    }
    rows: list[Row] = []
    statuses: dict[str, str] = {}
    goals: list[dict[str, Any]] = []
    for name, new_rows, statuses[name] in measure_within(SECONDS, measures):
        rows += new_rows
        goals = [goal.describe({row["what"]: row for row in rows}) for goal in list_goals(size)]
        results = {"seconds": time.monotonic() - start, "measures": statuses, "goals": goals, "rows": rows}
        path.write_text(json.dumps(settings | results, indent=2) + "\n")
        print(*map(json.dumps, new_rows), f"{name}: {statuses[name]}", sep="\n", flush=True)
    for goal in goals:
        verdict = {True: "met", False: "MISSED", None: "not measured"}[goal["met"]]
        print(f"{verdict}: {goal['goal']} {goal['asked']}, {goal['measured']}")
    print(f"Written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
