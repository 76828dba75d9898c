"""Entry: what each stage costs, and what the work itself costs beside those that do the same.

python -m benchmarks
python -m benchmarks peers --quick
python -m benchmarks worth sobit growth
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import commands
from benchmarks.sizes import QUICK, Size
from benchmarks.timing import Compared
from src.configs import CHECKOUT
from src.errors import answered, replace_unprintable
from src.storage.versions import versions

LIBRARIES = (
    *("torch", "lightning", "open_clip_torch", "transformers", "mlflow", "hydra-core", "numpy", "scipy"),
    "pandas",
)
# Columns of the page: name -> content, of commands and of what has a peer.
COST = {"what": "{what}", "seconds": "{seconds:.2f}", "asked at most": "{asked}", "peak MB": "{peak_mb:.0f}"}
COMPARED = {
    "what": "{what}",
    "seconds": "{seconds:.2f}",
    "beside": "{peer}",
    "its seconds": "{peer_seconds:.2f}",
    "times as fast": "{times:.2f}",
    "asked at least": "{asked}",
    "note": "{note}",
}
PARTS = ("stages", "sweeps", "peers", "growth", "worth", "sobit", "scale")


def machine() -> dict[str, object]:
    """What the numbers were measured on."""
    import psutil
    import torch

    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.is_file() else []
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
    """Measure part by part; write each with machine and versions, and a page of all that was measured."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What the work costs.")
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; none: all")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work, to see that it works")
    parser.add_argument(
        "--output", type=Path, help="folder (benchmarks/results; with --quick: outputs/bench)"
    )
    asked = parser.parse_args(arguments)
    if unknown := sorted({*asked.parts} - {*PARTS}):
        parser.error(f"no such part: {', '.join(unknown)}. There are {', '.join(PARTS)}.")
    folder = asked.output or CHECKOUT / ("outputs/bench" if asked.quick else "benchmarks/results")
    return answered(lambda: _main(asked.parts or PARTS, QUICK if asked.quick else Size(), folder))


def _main(parts: Sequence[str], size: Size, folder: Path) -> int:
    from src.tracking import commit

    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "machine": machine(),
        "versions": versions(*LIBRARIES),
        "git": commit(CHECKOUT),
        "size": asdict(size),
    }
    for part in parts:
        with tempfile.TemporaryDirectory() as name:
            rows = list(_measured(part, size, Path(name)))
        (folder / f"{part}.json").write_text(json.dumps(about | {"rows": rows}, indent=2) + "\n")
    page = folder / "README.md"
    page.write_text(_page(folder), "utf-8")
    print(f"Written to {page}")
    return 0


def _measured(part: str, size: Size, place: Path) -> Iterator[dict[str, Any]]:
    of_place = part in ("stages", "sweeps", "worth", "sobit", "scale")
    for row in getattr(commands, part)(*((size, place) if of_place else (size,))):
        print(_said(row), flush=True)
        yield asdict(row) | ({"times": row.times} if isinstance(row, Compared) else {})


def _page(folder: Path) -> str:
    """All parts that were ever measured into a folder, as tables."""
    blocks = ["# What the work costs", "Written by `make bench`: the file beside it names each number."]
    for part in PARTS:
        if (path := folder / f"{part}.json").is_file():
            found = json.loads(path.read_text())
            table = _table(found["rows"]).to_markdown(index=False, disable_numparse=True)
            blocks += [f"## {part}", _about(found), table]
    return "\n\n".join(blocks) + "\n"


def _about(found: dict[str, Any]) -> str:
    said = {**found["machine"], "torch": found["versions"]["torch"]}
    said["commit"] = found["git"]["git.commit"][:10]
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def _said(row: commands.Row | Compared) -> str:
    if isinstance(row, Compared):
        return f"{row.seconds:9.2f} s {row.times:8.2f} x  {row.what} | {row.peer}"
    return f"{row.seconds:9.2f} s {row.peak_mb:8.0f} MB  {row.what}"


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = COMPARED if "peer" in rows[0] else COST
    limits = ["" if row["asked"] is None else f"{row['asked']:.3g}" for row in rows]
    filled = [row | {"asked": limit} for row, limit in zip(rows, limits, strict=True)]
    return pd.DataFrame({name: [text.format(**row) for row in filled] for name, text in columns.items()})


if __name__ == "__main__":
    # Whoever ends it finds room on the disk again: of a part's files nothing stays.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
