"""What several rooms' tests share: composed jobs, precomputed folders, one shrunk toy per run."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

import hypothesis
import numpy as np
import open_clip
import pandas as pd
import pytest
from huggingface_hub import constants
from safetensors.numpy import load_file, save_file

from src import configs, debias, encoders
from src.encoders import hub
from src.jobs.identity import Job
from src.studies.protocol import study_of
from src.tracking import fresh
from tests.commands import Swept, command
from tests.encoders.published import SMALL
from tests.paths import CHECKOUT

# A machine that is busy is no fault of a test.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# The built-in world, shrunk: seconds to draw, seconds to learn.
SHRUNK = [
    "faces.per_group=60",
    "scenes.count=300",
    "words.count=300",
    "protocol.k=60",
    "model=toy_s",
    "model.name=shrunk",
    "model.steps=600",
    "trainer=cpu",
    "trainer.workers=0",
]


def pytest_itemcollected(item):
    """Keep a file's tests on one worker, and those that need the main job on one that makes it once."""
    if item.get_closest_marker("xdist_group"):
        return
    file = item.path.relative_to(item.config.rootpath).as_posix()
    item.add_marker(pytest.mark.xdist_group("sweeps" if _needs_sweeps(item.path) else file))


@cache
def _needs_sweeps(file: Path) -> bool:
    return bool(re.search(r"\bsweeps[,)]", file.read_text("utf-8")))


@pytest.fixture(scope="session", autouse=True)
def migrated(tmp_path_factory) -> None:
    """MLflow's migrations run once: every new database of this process is a copy of the first."""
    first, migrate = tmp_path_factory.mktemp("migrated") / "mlflow.db", fresh.migrate

    def copy(database: Path) -> None:
        if not first.exists():
            migrate(first)
        shutil.copyfile(first, database)

    with mock.patch.object(fresh, "migrate", copy):
        yield


@pytest.fixture(scope="session")
def kept(tmp_path_factory) -> Path:
    """Stores and tracking of the whole run of the suite."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="session")
def sweeps(kept, tmp_path_factory) -> list[Swept]:
    """The main job on the shrunk world: one toy, all eight experiments, twice."""
    outputs = tmp_path_factory.mktemp("outputs")
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *places(kept)]
    return [command(outputs / name, *arguments) for name in ("first", "second")]


def places(folder: Path) -> list[str]:
    """Overrides that keep a command's stores below `folder`, and no report, which takes a while."""
    return [
        f"store.dir={folder}/embeddings",
        f"store.checkpoints={folder}/checkpoints",
        f"store.pictures={folder}/pictures",
        f"store.stimuli={folder}/stimuli",
        f"store.morphs={folder}/morphs",
        f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db",
        "report=false",
    ]


@pytest.fixture
def job(tmp_path) -> Callable[..., Job]:
    """Composes a job from overrides."""

    def make(*overrides: str) -> Job:
        return Job.of(*configs.compose(list(overrides)), str(tmp_path / "output"))

    return make


@pytest.fixture(scope="session")
def cli() -> Callable[..., subprocess.CompletedProcess]:
    """Runs the entry as a user does: in a process of its own, from any folder."""

    def run(*arguments: str, cwd: Path = CHECKOUT) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "src.run", *arguments],
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
            env={**__import__("os").environ, "PYTHONPATH": str(CHECKOUT), "COLUMNS": "200"},
        )

    return run


GROUPS = ("Alpha Men", "Alpha Women", "Beta Men")
AUDITS = ("cles_competence", "cles_emotions", "cles_semantic", "cles_warmth", "iat_semantic")
PROJECTIONS = ("orth_proj", "orth_proj_calibrated", "orth_proj_scm")


def precomputed(folder: Path, seed: int = 0, q: int = 0, width: int = 16) -> Path:
    """Random vectors with planted group and valence directions, rows in random order."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(len(GROUPS) + 1, width))
    folder.mkdir(parents=True, exist_ok=True)
    for role, frame in _tables(rng).items():
        plant = 0.6 * direction[[GROUPS.index(g) for g in frame["group"]]] if "group" in frame else 0
        if "valence" in frame:
            plant = plant + 2 * (frame["valence"].to_numpy()[:, None] - 0.5) * direction[-1]
        vectors = plant + rng.normal(size=(len(frame), width))
        if q and role in ("faces", "scenes"):
            vectors = vectors[:, None] + 0.7 * rng.normal(size=(len(frame), q, width))
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        order = rng.permutation(len(frame))
        frame.iloc[order].reset_index(drop=True).to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors[order].astype(np.float32)}, folder / f"{role}.safetensors")
    return folder


def prompted(folder: Path, seed: int = 1) -> Path:
    """Beside precomputed vectors those of all prompts, in random order, and of one that nobody asks for."""
    asked = {"A photo of nobody"}
    for name in AUDITS:
        cfg = _composed(f"exp={name}")
        asked |= {*study_of(cfg.exp).prompts(cfg).frame["sentence"]}
    for name in PROJECTIONS:
        asked |= {*debias.prompts(_composed(f"debias={name}").debias, GROUPS).table.frame["sentence"]}
    rng = np.random.default_rng(seed)
    width = load_file(folder / "faces.safetensors")["embedding"].shape[-1]
    vectors = rng.normal(size=(len(asked), width))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    frame = pd.DataFrame({"sentence": rng.permutation(sorted(asked))})
    frame["id"] = [f"p{number:03d}" for number in rng.permutation(len(frame))]
    frame.to_parquet(folder / "prompts.parquet")
    save_file({"embedding": vectors.astype(np.float32)}, folder / "prompts.safetensors")
    return folder


def _composed(override: str) -> configs.RunConfig:
    return Job.of(*configs.compose([override]), "").cfg


def _tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    templates = ["a {}", "the {}"]
    words = pd.DataFrame({"word": [f"w{i}" for i in range(45)]})
    words["valence"] = rng.integers(0, 20, 45) / 19  # ties
    labels = pd.DataFrame([{"word": f"{g} {i}".lower(), "group": g} for g in GROUPS for i in range(10)])
    texts = {}
    for role, items in {"words": words, "labels": labels}.items():
        parts = [items.assign(template=t, id=items["word"] + t[:1]) for t in templates]
        frame = pd.concat(parts, ignore_index=True)
        frame["sentence"] = [t.format(w) for t, w in zip(frame["template"], frame["word"], strict=True)]
        texts[role] = frame
    faces = pd.DataFrame([{"id": f"{g}{i}", "group": g} for g in GROUPS for i in range(22)])
    scenes = pd.DataFrame({"id": [f"s{i}" for i in range(50)]})
    scenes["valence"] = rng.integers(0, 30, 50) / 29
    return {"faces": faces, "scenes": scenes, **texts}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; the hub is out of reach."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for memory in (encoders._open, hub._refused):
        memory.clear()
    return tmp_path / "hub"


@pytest.fixture
def small(monkeypatch):
    """open_clip's architectures with small numbers."""
    for name, architecture in SMALL.items():
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, architecture)
