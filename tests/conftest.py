"""Provide fixtures for several folders: composed jobs, precomputed vectors, a shrunk toy per session."""

import functools
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import hypothesis
import numpy as np
import open_clip
import pandas as pd
import pytest
import torch
from huggingface_hub import constants
from safetensors.numpy import load_file, save_file

from src import configs, debias, encoders
from src.encoders import hub
from src.jobs.identity import Job
from src.studies.protocol import load_study
from src.tracking import database
from tests.commands import FEW_DRAWS, Swept, command
from tests.encoders.small_checkpoints import SMALL

# No deadline: a busy machine must not fail a test.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# The built-in world, shrunk: seconds to draw, seconds to learn.
SHRUNK = [
    "faces.per_group=60", "scenes.count=300", "words.count=300", "protocol.k=60",
    "model=toy_s", "model.name=shrunk", "model.steps=500", "trainer=cpu", "trainer.workers=0", *FEW_DRAWS,
]  # fmt: skip


def pytest_itemcollected(item):
    """Skip tests of a GPU where none is available.

    Run all tests of a file on one worker, and all files that use `sweeps` on one, which makes it once.
    """
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        item.add_marker(pytest.mark.skip(reason="no GPU is available"))
    if not item.get_closest_marker("xdist_group"):
        path = item.path.relative_to(item.config.rootpath)
        # Tests of faults share the fixture `bench`, made once per worker.
        group = "tests/faults" if path.parent.name == "faults" else path.as_posix()
        item.add_marker(pytest.mark.xdist_group("sweeps" if _needs_sweeps(item.path) else group))


@pytest.hookimpl(wrapper=True)
def pytest_report_teststatus(report, config):
    """Print a failure when it happens: a suite that is ended early has no summary."""
    status = yield
    if report.failed and config.get_verbosity() <= 0:
        return (status[0], f"\n{report.nodeid}\n{report.longreprtext[-1500:]}\n", status[2])
    return status


@functools.cache
def _needs_sweeps(file: Path) -> bool:
    return bool(re.search(r"\bsweeps[,)]", file.read_text("utf-8")))


@pytest.fixture(scope="session", autouse=True)
def migrated(tmp_path_factory) -> None:
    """Run MLflow's migrations once: each new database of this process is a copy of the first."""
    first, migrate = tmp_path_factory.mktemp("migrated") / "mlflow.db", database.migrate

    def copy(target: Path) -> None:
        if not first.exists():
            draft = first.with_name(f"{os.getpid()}.db")  # forked processes may migrate at the same time
            migrate(draft)
            draft.rename(first)
        shutil.copyfile(first, target)

    with mock.patch.object(database, "migrate", copy):
        yield


@pytest.fixture(autouse=True)
def restored_log() -> None:
    """Restore the root logger: Hydra adds a handler whose stream is closed after the test."""
    log = logging.getLogger()
    handlers, level = {*log.handlers}, log.level
    yield
    for handler in {*log.handlers} - handlers:
        if type(handler) is logging.StreamHandler:  # not those of pytest, which it removes itself
            log.removeHandler(handler)
    log.setLevel(level)


@pytest.fixture(scope="session")
def stores(tmp_path_factory) -> Path:
    """Return the folder of the stores and the tracking database that the session shares."""
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="session")
def sweeps(stores, tmp_path_factory) -> list[Swept]:
    """Run a sweep of one toy x eight propagation experiments on the shrunk world, twice."""
    outputs = tmp_path_factory.mktemp("outputs")
    arguments = ["-m", "exp=glob(*_to_*)", *SHRUNK, *store_overrides(stores)]
    return [command(outputs / name, *arguments) for name in ("first", "second")]


def store_overrides(folder: Path) -> list[str]:
    """Return overrides that put a command's stores below `folder` and leave out the report, which is slow."""
    stores = [f"store.{name}={folder}/{name}" for name in ("checkpoints", "pictures", "stimuli", "morphs")]
    tracking = f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db"
    return [f"store.dir={folder}/embeddings", *stores, tracking, "report=false"]


@pytest.fixture
def job(tmp_path) -> Callable[..., Job]:
    """Return a function that composes a job from overrides."""

    def make(*overrides: str) -> Job:
        return Job.of(*configs.compose(list(overrides)), str(tmp_path / "output"))

    return make


GROUPS = ("Alpha Men", "Alpha Women", "Beta Men")
AUDITS = ("cles_competence", "cles_emotions", "cles_semantic", "cles_warmth", "iat_semantic")
PROJECTIONS = ("orth_proj", "orth_proj_calibrated", "orth_proj_scm")


def precomputed(folder: Path, seed: int = 0, q: int = 0, width: int = 16) -> Path:
    """Write random vectors with planted directions of groups and valence, shuffled; q > 0: q per image."""
    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(len(GROUPS) + 1, width))
    folder.mkdir(parents=True, exist_ok=True)
    for role, frame in _tables(rng).items():
        plant = 0.6 * directions[[GROUPS.index(g) for g in frame["group"]]] if "group" in frame else 0
        if "valence" in frame:
            plant = plant + 2 * (frame["valence"].to_numpy()[:, None] - 0.5) * directions[-1]
        vectors = plant + rng.normal(size=(len(frame), width))
        if q and role in ("faces", "scenes"):
            vectors = vectors[:, None] + 0.7 * rng.normal(size=(len(frame), q, width))
        vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
        order = rng.permutation(len(frame))
        frame.iloc[order].reset_index(drop=True).to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors[order].astype(np.float32)}, folder / f"{role}.safetensors")
    return folder


def prompted(folder: Path, seed: int = 1) -> Path:
    """Add random vectors of all prompts and of an unused one to precomputed vectors, in random order."""
    sentences = _prompts()
    rng = np.random.default_rng(seed)
    width = load_file(folder / "faces.safetensors")["embedding"].shape[-1]
    vectors = rng.normal(size=(len(sentences), width))
    vectors /= np.linalg.norm(vectors, axis=-1, keepdims=True)
    frame = pd.DataFrame({"sentence": rng.permutation(sorted(sentences))})
    frame["id"] = [f"p{number:03d}" for number in rng.permutation(len(frame))]
    frame.to_parquet(folder / "prompts.parquet")
    save_file({"embedding": vectors.astype(np.float32)}, folder / "prompts.safetensors")
    return folder


@functools.cache
def _prompts() -> frozenset[str]:
    sentences = {"A photo of nobody"}
    for override in (*(f"exp={name}" for name in AUDITS), *(f"debias={name}" for name in PROJECTIONS)):
        cfg = Job.of(*configs.compose([override]), "").cfg
        debiased = override.startswith("debias")
        table = (
            debias.build_prompts(cfg.debias, GROUPS).table if debiased else load_study(cfg.exp).prompts(cfg)
        )
        sentences |= {*table.frame["sentence"]}
    return frozenset(sentences)


def _tables(rng: np.random.Generator) -> dict[str, pd.DataFrame]:
    templates = ["a {}", "the {}"]
    words = pd.DataFrame({"word": [f"w{i}" for i in range(45)]})
    words["valence"] = rng.integers(0, 20, 45) / 19  # with ties
    labels = pd.DataFrame([{"word": f"{g} {i}".lower(), "group": g} for g in GROUPS for i in range(10)])
    texts = {}
    for role, items in {"words": words, "labels": labels}.items():
        copies = [items.assign(template=t, id=items["word"] + t[:1]) for t in templates]
        frame = pd.concat(copies, ignore_index=True)
        frame["sentence"] = [t.format(w) for t, w in zip(frame["template"], frame["word"], strict=True)]
        texts[role] = frame
    faces = pd.DataFrame([{"id": f"{g}{i}", "group": g} for g in GROUPS for i in range(22)])
    scenes = pd.DataFrame({"id": [f"s{i}" for i in range(50)]})
    scenes["valence"] = rng.integers(0, 30, 50) / 29
    return {"faces": faces, "scenes": scenes, **texts}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return the folder of an empty Hugging Face cache; the hub is offline."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for memory in (encoders._encoders, hub._failed_fetches):
        memory.clear()
    return tmp_path / "hub"


@pytest.fixture
def small(monkeypatch):
    """Replace open_clip's architectures by small ones."""
    for name, architecture in SMALL.items():
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, architecture)


@pytest.fixture(scope="module")
def chromium():
    """Provide a headless browser; skip where none is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser, driver = next(filter(None, map(shutil.which, names)), None), shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("chromium or chromedriver is not installed: make system")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    headless = ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1500,950")
    for argument in headless:
        options.add_argument(f"--{argument}")
    session = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield session
    session.quit()
