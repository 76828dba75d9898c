"""Entry: what each stage costs, and what the work itself costs beside those that do the same.

python -m src.bench
python -m src.bench peers --quick
python -m src.bench worth sobit growth
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from src.bench import commands
from src.bench.compared import Compared
from src.bench.sizes import QUICK, Size
from src.configs import CHECKOUT
from src.errors import answered

LIBRARIES = (
    *("torch", "lightning", "open_clip_torch", "transformers", "mlflow", "hydra-core", "numpy", "scipy"),
    "pandas",
)
PARTS = ("stages", "sweeps", "peers", "growth", "worth", "sobit", "scale")


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    import psutil
    import torch

    cpu = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.is_file():
        names = [
            line.split(":")[1].strip() for line in about.read_text().splitlines() if "model name" in line
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure, show a table of each kind, write all of it with machine and versions."""
    parser = argparse.ArgumentParser(prog="python -m src.bench", description="What the work costs.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; none: all")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work, to see that it works")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "benchmarks" / "results")
    asked = parser.parse_args(arguments)
    if unknown := sorted({*asked.parts} - {*PARTS}):
        parser.error(f"no such part: {', '.join(unknown)}. There are {', '.join(PARTS)}.")
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    from rich.console import Console

    from src.report import tables
    from src.tracking import commit

    size = QUICK if asked.quick else Size()
    rows: list[commands.Row] = []
    compared: list[Compared] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for part in asked.parts or PARTS:
            of_place = part in ("stages", "sweeps", "worth", "sobit")
            given = (size, place / part) if of_place else (size,)
            for row in getattr(commands, part)(*given):
                (compared if isinstance(row, Compared) else rows).append(row)
                print(_said(row), flush=True)
    about = machine()
    found = {
        "machine": about,
        "versions": {name: version(name) for name in LIBRARIES},
        "git": commit(CHECKOUT),
        "size": asdict(size),
        "rows": [asdict(row) for row in rows],
        "compared": [{**asdict(row), "times": row.times} for row in compared],
    }
    asked.output.mkdir(parents=True, exist_ok=True)
    path = asked.output / f"{'quick' if asked.quick else '-'.join(asked.parts) or 'all'}.json"
    path.write_text(json.dumps(found, indent=2) + "\n")
    title = ", ".join(f"{name} {value}" for name, value in about.items() if value)
    console = Console(width=None if sys.stdout.isatty() else 140)
    for table in (_costs(rows), _peers(compared)):
        if len(table):
            console.print(tables.plain(table, title))
    print(f"Written to {path}")
    return 0


def _said(row: commands.Row | Compared) -> str:
    if isinstance(row, Compared):
        return f"{row.seconds:9.2f} s {row.times:8.2f} x  {row.what} | {row.peer}"
    return f"{row.seconds:9.2f} s {row.peak_mb:8.0f} MB  {row.what}"


def _costs(rows: list[commands.Row]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "what": row.what,
            "seconds": f"{row.seconds:.2f}",
            "asked at most": "" if row.asked is None else f"{row.asked:g}",
            "peak MB": f"{row.peak_mb:.0f}",
        }
        for row in rows
    )


def _peers(rows: list[Compared]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "what": row.what,
            "seconds": f"{row.seconds:.2f}",
            "beside": row.peer,
            "its seconds": f"{row.peer_seconds:.2f}",
            "times as fast": f"{row.times:.2f}",
            "asked at least": "" if row.asked is None else f"{row.asked:.3g}",
            "note": row.note,
        }
        for row in rows
    )


if __name__ == "__main__":
    sys.exit(main())
