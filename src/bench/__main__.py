"""Entry: what each stage costs, and one experiment at the paper's size beside its bare arithmetic.

python -m src.bench
python -m src.bench --quick
python -m src.bench --worth
python -m src.bench --sobit
python -m src.bench --texts
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import pandas as pd

from src.bench.arithmetic import ARITHMETIC
from src.bench.sizes import QUICK, Size
from src.bench.sobit import AUDITS, faces_and_prompts
from src.bench.texts import TEXTS
from src.bench.worth import EXPERIMENTS, STEPS, stand_ins
from src.configs import CHECKOUT
from src.errors import answered

LIBRARIES = ("torch", "lightning", "open_clip_torch", "mlflow", "hydra-core", "numpy", "scipy", "pandas")
MEASURED = {**ARITHMETIC, **TEXTS}
WORLD = ("faces.per_group={faces}", "scenes.count={scenes}", "words.count={words}", "trainer=cpu")


@dataclass(frozen=True)
class Row:
    """One measurement.

    Attributes:
        what: was measured.
        seconds: of a command, start to exit; of arithmetic, without loading libraries.
        peak_mb: largest resident memory of one process, 10^6 bytes.
    """

    what: str
    seconds: float
    peak_mb: float


def stages(size: Size, place: Path) -> Iterator[Row]:
    """Each stage of a run of toy_m, as a command of its own."""
    chosen = [item.format(**asdict(size)) for item in WORLD]
    chosen += [f"model.steps={size.steps}", "model=toy_m", f"store.dir={place}/embeddings"]
    chosen += [f"store.checkpoints={place}/checkpoints", f"store.stimuli={place}/stimuli"]
    chosen += [f"store.morphs={place}/morphs"]
    yield _command("start: src.run --help", ["src.run", "--help"])
    yield _command("ingest: draw faces and scenes", ["src.stage", "ingest", *chosen])
    morphs = ["faces=morphs", "faces@faces.parents=avatars", f"faces.parents.per_group={size.faces}"]
    morphs += [f"faces.per_group={size.morphs}", "faces.workers=1"]
    what = f"morph: {size.morphs} of each group, optical flow, one core"
    yield _command(what, ["src.stage", "morph", *chosen, *morphs])
    yield _command(f"weights: toy_m, {size.steps} steps", ["src.stage", "weights", *chosen])
    for role in ("faces", "scenes", "words", "labels"):
        yield _command(f"embed: {role}", ["src.stage", "embed", "--role", role, *chosen])
    tracked = [f"tracking.uri=sqlite:///{place}/mlruns/mlflow.db", f"protocol.k={size.k}"]
    sweep = ["src.run", "-m", "exp=glob(*_to_*)", "report=false", *chosen, *tracked]
    yield _command("propagate: 8 experiments, first", [*sweep, f"hydra.sweep.dir={place}/first"])
    yield _command("propagate: the same, taken over", [*sweep, f"hydra.sweep.dir={place}/second"])


def paper(size: Size) -> Iterator[Row]:
    """Both scores of every face at the paper's size, and the bare arithmetic of the same shapes."""
    for name, what in ARITHMETIC.items():
        given = ["--only", name, "--size", json.dumps(asdict(size))]
        yield _command(f"paper: {what[0]}", ["src.bench", *given])


def texts(size: Size) -> Iterator[Row]:
    """Sentences in six templates: the predict loop, and open_clip's own way of the same weights."""
    for name, (what, _) in TEXTS.items():
        given = ["--only", name, "--size", json.dumps(asdict(size))]
        yield _command(f"{what}: {size.sentences} sentences", ["src.bench", *given])


def worth(size: Size, place: Path) -> Iterator[Row]:
    """Each experiment at the paper's size, from stored vectors: without and with what its rho is worth."""
    stand_ins(size, place / "lab")
    for exp in EXPERIMENTS:
        asked = ["src.run", "model=precomputed", f"model.path={place}/lab", f"exp={exp}", "resume=false"]
        asked += [f"protocol.k={size.k}", f"tracking.uri=sqlite:///{place}/worth/mlflow.db"]
        for what, off in STEPS.items():
            chosen = [f"protocol.{name}" for name in off] + [f"hydra.run.dir={place}/worth/{exp}"]
            yield _command(f"{exp}: {what}", [*asked, *chosen])


def sobit(size: Size, place: Path) -> Iterator[Row]:
    """Each So-B-IT audit at FairFace's size, from stored vectors: with nulls and intervals."""
    lab = place / "fairface"
    faces_and_prompts(size, lab)
    asked = ["src.run", "model=precomputed", f"model.path={lab}", f"taxonomy.path={lab}/list.json"]
    asked += ["resume=false", f"tracking.uri=sqlite:///{place}/sobit/mlflow.db"]
    for exp, chosen in AUDITS.items():
        for vocabulary in chosen:
            against = f", {vocabulary} frequent words" if vocabulary else ""
            given = [f"exp={exp}", f"protocol.vocabulary={vocabulary}", f"hydra.run.dir={place}/sobit/{exp}"]
            yield _command(f"{exp}: {size.sobit_words} words{against}", [*asked, *given])


def _command(what: str, arguments: list[str]) -> Row:
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=CHECKOUT, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - start
        said.seek(0)
        shown = said.read()
    if process.returncode:
        raise SystemExit(f"{what} failed:\n{shown}")
    if "--only" in arguments:
        seconds = float(shown.split()[-1])
    # Linux counts in kilobytes, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return Row(what, seconds, used.ru_maxrss * unit / 1e6)


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
    """Measure, show one table, write it with machine and versions."""
    parser = argparse.ArgumentParser(prog="python -m src.bench", description="What each stage costs.")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the work, to see that it works")
    parser.add_argument("--output", type=Path, default=CHECKOUT / "outputs" / "bench")
    parser.add_argument("--worth", action="store_true", help="only what placebo and intervals cost")
    parser.add_argument("--sobit", action="store_true", help="only the So-B-IT audits at FairFace's size")
    parser.add_argument("--texts", action="store_true", help="only sentences beside open_clip's encode_text")
    parser.add_argument("--only", choices=MEASURED, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=json.loads, default={}, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.only:
        print(MEASURED[asked.only][1](Size(**asked.size)))
        return 0
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    from rich.console import Console

    from src.report import tables
    from src.tracking import commit

    size = QUICK if asked.quick else Size()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        parts = {"stages": stages(size, Path(place)), "paper": paper(size)}
        parts |= {"worth": worth(size, Path(place)), "sobit": sobit(size, Path(place))}
        parts |= {"texts": texts(size)}
        chosen = [name for name in ("worth", "sobit", "texts") if getattr(asked, name)] or list(parts)
        for part in (parts[name] for name in chosen):
            for row in part:
                print(f"{row.seconds:9.2f} s {row.peak_mb:8.0f} MB  {row.what}", flush=True)
                rows.append(row)
    about = machine()
    found = {
        "machine": about,
        "versions": {name: version(name) for name in LIBRARIES},
        "git": commit(CHECKOUT),
        "size": asdict(size),
        "rows": [asdict(row) for row in rows],
    }
    asked.output.mkdir(parents=True, exist_ok=True)
    (asked.output / "bench.json").write_text(json.dumps(found, indent=2) + "\n")
    shown = pd.DataFrame(
        {"what": row.what, "seconds": f"{row.seconds:.2f}", "peak MB": f"{row.peak_mb:.0f}"} for row in rows
    )
    title = ", ".join(f"{name} {value}" for name, value in about.items() if value)
    Console(width=None if sys.stdout.isatty() else 120).print(tables.plain(shown, title))
    print(f"Written to {asked.output / 'bench.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
