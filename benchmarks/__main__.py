"""Measure the costs of each stage, and compare computations with peers: other implementations of them.

python -m benchmarks
python -m benchmarks peers --quick
python -m benchmarks uncertainty sobit growth
"""

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import pandas as pd
import psutil
import torch

from benchmarks import commands
from benchmarks.sizes import QUICK, Size
from benchmarks.timing import Comparison
from src.configs import CHECKOUT
from src.errors import replace_unprintable, run_entry
from src.jobs.run_metadata import read_commit_tags
from src.storage.versions import library_versions

LIBRARIES = (
    *("torch", "lightning", "open_clip_torch", "transformers", "mlflow", "hydra-core", "numpy", "scipy"),
    "pandas",
)
# Column -> format of its cells, in the tables of commands and of comparisons with peers.
COST = {"what": "{what}", "seconds": "{seconds:.2f}", "at most": "{limit}", "peak MB": "{peak_mb:.0f}"}
COMPARED = {
    "what": "{what}",
    "seconds": "{seconds:.2f}",
    "peer": "{peer}",
    "peer's seconds": "{peer_seconds:.2f}",
    "times as fast": "{times:.2f}",
    "at least": "{limit}",
    "note": "{note}",
}
# Functions of `benchmarks.commands`.
PARTS = (
    *("stages", "sweeps", "many_models", "peers", "half_precision", "selection", "growth", "uncertainty"),
    *("sobit", "scale"),
)

# Seconds between the interrupt of started processes and their end.
STOP_SECONDS = 5


def machine() -> dict[str, object]:
    """Describe the machine of the measurements."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return {
        "cpu": [*names, platform.processor() or platform.machine()][0],
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run benchmarks; write the results of each with machine and versions, and a page of all results."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure time and memory.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="do a hundredth of the work, as a test")
    parser.add_argument(
        "--output", type=Path, help="folder (default: benchmarks/results; with --quick: outputs/bench)"
    )
    options = parser.parse_args(arguments)
    if unknown := sorted({*options.parts} - {*PARTS}):
        parser.error(f"no such part: {', '.join(unknown)}. Choose from {', '.join(PARTS)}.")
    folder = options.output or CHECKOUT / ("outputs/bench" if options.quick else "benchmarks/results")
    return run_entry(lambda: _main(options.parts or PARTS, QUICK if options.quick else Size(), folder))


def _main(parts: Sequence[str], size: Size, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "machine": machine(),
        "versions": library_versions(*LIBRARIES),
        "git": read_commit_tags(CHECKOUT),
        "size": asdict(size),
    }
    for name in parts:
        with tempfile.TemporaryDirectory() as temporary:
            rows = list(_run(name, size, Path(temporary)))
        (folder / f"{name}.json").write_text(json.dumps(settings | {"rows": rows}, indent=2) + "\n")
    page = folder / "README.md"
    page.write_text(_page(folder), "utf-8")
    print(f"Written to {page}")
    return 0


def _run(name: str, size: Size, folder: Path) -> Iterator[dict[str, Any]]:
    """Run a benchmark, print its rows and yield them; some benchmarks write files to `folder`."""
    for row in getattr(commands, name)(size, folder):
        if isinstance(row, Comparison):
            print(f"{row.seconds:9.2f} s {row.speedup:8.2f} x  {row.what} | {row.peer}", flush=True)
            yield asdict(row) | {"times": row.speedup}
        else:
            print(f"{row.seconds:9.2f} s {row.peak_mb:8.0f} MB  {row.what}", flush=True)
            yield asdict(row)


def _page(folder: Path) -> str:
    """Format all results in a folder as tables, including those of earlier runs."""
    blocks = ["# What the work costs", "Written by `make bench`; the JSON files hold the numbers."]
    for name in PARTS:
        if (path := folder / f"{name}.json").is_file():
            results = json.loads(path.read_text())
            settings = {**results["machine"], "torch": results["versions"]["torch"]}
            settings["commit"] = results["git"]["git.commit"][:10]
            about = ", ".join(f"{name} {value}" for name, value in settings.items() if value)
            table = _table(results["rows"]).to_markdown(index=False, disable_numparse=True)
            blocks += [f"## {name}", about, table]
    return "\n\n".join(blocks) + "\n"


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = COMPARED if "peer" in rows[0] else COST
    limits = ["" if row["limit"] is None else f"{row['limit']:.3g}" for row in rows]
    cells = [row | {"limit": limit} for row, limit in zip(rows, limits, strict=True)]
    return pd.DataFrame({name: [text.format(**row) for row in cells] for name, text in columns.items()})


def _stop(number: int, frame: FrameType | None) -> None:
    """Stop all processes that this one has started: interrupt, then kill them; raise KeyboardInterrupt."""
    processes = psutil.Process().children(recursive=True)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGINT)
    # In these seconds they remove their temporary files.
    for process in psutil.wait_procs(processes, STOP_SECONDS)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    signal.default_int_handler(number, frame)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    sys.exit(main())
