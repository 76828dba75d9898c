"""Entry: what each stage costs, and one experiment at the paper's size beside its bare arithmetic.

python -m src.bench
python -m src.bench --quick
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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from src.configs import CHECKOUT
from src.errors import answered

LIBRARIES = ("torch", "lightning", "open_clip_torch", "mlflow", "hydra-core", "numpy", "scipy", "pandas")
WORLD = ("faces.per_group={faces}", "scenes.count={scenes}", "words.count={words}", "trainer=cpu")


@dataclass(frozen=True)
class Size:
    """How much is measured: the built-in world, and an experiment of random vectors."""

    faces: int = 600
    scenes: int = 1500
    words: int = 2000
    morphs: int = 100
    steps: int = 1000
    k: int = 500
    paper_faces: int = 6000
    paper_words: int = 20_000
    width: int = 512


QUICK = Size(faces=60, scenes=300, words=300, morphs=5, steps=20, k=60, paper_faces=600, paper_words=2000)
TEMPLATES, GROUPS, BLOCK = 6, 6, 256


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
    sweep = ["src.run", "-m", "exp=glob(*_to_*)", *chosen, *tracked]
    yield _command("propagate: 8 experiments, first", [*sweep, f"hydra.sweep.dir={place}/first"])
    yield _command("propagate: the same, taken over", [*sweep, f"hydra.sweep.dir={place}/second"])


def paper(size: Size, place: Path) -> Iterator[Row]:
    """faces_to_words at the paper's size, from stored vectors, and its bare arithmetic."""
    _vectors(size, place / "lab")
    analysis = ["src.run", "model=precomputed", f"model.path={place}/lab", "exp=faces_to_words"]
    analysis += [f"protocol.k={size.k}", f"tracking.uri=sqlite:///{place}/paper/mlflow.db"]
    yield _command("paper: faces_to_words, command", [*analysis, f"hydra.run.dir={place}/paper"])
    for name, what in ARITHMETIC.items():
        yield _command(f"paper: {what[0]}", ["src.bench", "--only", name, "--size", json.dumps(asdict(size))])


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


def _vectors(size: Size, folder: Path) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(size.paper_faces)]})
    faces["group"] = [f"group {number % GROUPS}" for number in range(size.paper_faces)]
    words = pd.DataFrame({"word": [f"w{number:06d}" for number in range(size.paper_words)]})
    words["valence"] = rng.uniform(size=size.paper_words)
    parts = [
        words.assign(id=words["word"] + f"-{number}", template=f"{number} {{}}", sentence=words["word"])
        for number in range(TEMPLATES)
    ]
    for role, frame in {"faces": faces, "words": pd.concat(parts, ignore_index=True)}.items():
        vectors = rng.normal(size=(len(frame), size.width))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors.astype(np.float32)}, folder / f"{role}.safetensors")


def _random(size: Size, dtype: str) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    unit = torch.nn.functional.normalize
    shapes = (size.paper_faces, size.width), (TEMPLATES * size.paper_words, size.width)
    faces, words = (unit(torch.randn(*shape, generator=generator), dim=1) for shape in shapes)
    return faces.to(getattr(torch, dtype)), words.to(getattr(torch, dtype))


def _analysis(size: Size) -> float:
    import numpy as np

    from src.configs import ProtocolConfig
    from src.experiments.attributes import Pool
    from src.experiments.propagation import scores

    faces, words = _random(size, "float32")
    protocol = ProtocolConfig(k=size.k, extremes=25, attributes=840, ddof=1)
    valence = np.random.default_rng(0).uniform(size=(size.paper_words, 1))
    order = np.argsort(valence[:, 0])
    rows = np.arange(size.paper_words)
    found = [
        Pool(rows + number * size.paper_words, str(number), [order[-25:]], [order[:25]], valence)
        for number in range(TEMPLATES)
    ]
    start = time.perf_counter()
    scores(faces, words, found, protocol)
    return time.perf_counter() - start


def _product(size: Size, dtype: str) -> float:
    faces, words = _random(size, dtype)
    start = time.perf_counter()
    for block in faces.split(BLOCK):
        for template in words.split(size.paper_words):
            block @ template.T
    return time.perf_counter() - start


def _top_k(size: Size, dtype: str) -> float:
    import torch

    generator = torch.Generator().manual_seed(0)
    near = torch.rand(BLOCK, size.paper_words, generator=generator).to(getattr(torch, dtype))
    start = time.perf_counter()
    for block in range(0, size.paper_faces, BLOCK):
        for _ in range(TEMPLATES):
            near[: size.paper_faces - block].topk(size.k, dim=1)
    return time.perf_counter() - start


ARITHMETIC: dict[str, tuple[str, Callable[[Size], float]]] = {
    "scores": ("both scores of every face", _analysis),
    "product32": ("bare matrix product, float32", lambda size: _product(size, "float32")),
    "product64": ("bare matrix product, float64", lambda size: _product(size, "float64")),
    "topk32": ("bare torch.topk, float32", lambda size: _top_k(size, "float32")),
    "topk64": ("bare torch.topk, float64", lambda size: _top_k(size, "float64")),
}


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
    parser.add_argument("--only", choices=ARITHMETIC, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=json.loads, default={}, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.only:
        print(ARITHMETIC[asked.only][1](Size(**asked.size)))
        return 0
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    from rich.console import Console

    from src.report import tables
    from src.tracking import commit

    size = QUICK if asked.quick else Size()
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for part in (stages, paper):
            for row in part(size, Path(place)):
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
