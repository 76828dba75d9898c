"""The same seed gives the same bytes of results, whoever computes them: all experiments.

From stored vectors on the quick form computes every experiment within this process: with another number of
threads, and in other blocks, where a product of other matrices rounds the last bit otherwise. The whole form
runs the command from nothing, in one process and in two, and once more on another number of threads.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from src.jobs import encoder_job, run_metadata
from src.metrics import bootstrap, common_language
from src.studies.propagation import similarity_blocks
from src.studies.sobit import caption_association, prompts
from src.studies.zero_shot import experiment
from tests.conftest import places
from tests.paths import CHECKOUT

# The built-in world and an encoder that learnt nothing: what decides bytes is the same.
WORLD = [
    "faces.per_group=40", "scenes.count=130", "words.count=150",
    "protocol.k=30", "protocol.set_size=20", "protocol.extremes=25", "protocol.vocabulary=40",
    "protocol.permutations=49", "protocol.bootstrap=20", "protocol.top_k=9",
    "model=toy_s", "model.name=shrunk", "model.steps=0",
]  # fmt: skip
ALONE = ["trainer=cpu", "trainer.workers=0"]
SEVERAL = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.workers=2"]
EXPERIMENTS = sorted(path.stem for path in (CHECKOUT / "conf" / "exp").glob("*.yaml"))
# Where work is cut, and into what: constants of the code, so that no command can change them.
PORTIONS = [
    (similarity_blocks, "BLOCK", 2**14), (experiment, "BLOCK", 64),
    (prompts, "BLOCK", 10_000), (caption_association, "BLOCK", 5_000),
    (bootstrap, "BLOCK", 2**12), (common_language, "BLOCK", 2**12),
]  # fmt: skip


# What float32 draws give is off by its rounding; all else by that of float64, kept to 12 decimals.
OFF, OFF_DRAWN = 2e-12, 1e-6
DRAWN = {"low", "high", "null_q95"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return places(tmp_path_factory.mktemp("stored"))


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def written(prepared: encoder_job.Prepared, folder: Path) -> Path:
    """The results of an experiment, in a folder of their own."""
    prepared = replace(prepared, job=replace(prepared.job, output=folder))
    with mock.patch.object(run_metadata, "figures"):
        encoder_job.perform(prepared, mock.MagicMock())
    return folder / "results"


def hashes(folder) -> dict[str, str]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    read = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    return {path.name: read[path.suffix](path) for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize("exp", EXPERIMENTS)
def test_threads_change_no_byte_and_blocks_no_more_than_rounding(job, stored, exp, monkeypatch, tmp_path):
    prepared = encoder_job.prepare(job(*WORLD, *ALONE, *stored, f"exp={exp}"))
    torch.set_num_threads(1)
    once = written(prepared, tmp_path / "once")
    torch.set_num_threads(3)
    assert hashes(written(prepared, tmp_path / "threads")) == hashes(once)
    for module, name, size in PORTIONS:
        assert getattr(module, name) > size
        monkeypatch.setattr(module, name, size)
    found = tables(written(prepared, tmp_path / "blocks"))
    assert "analyses.csv" in found
    for name, expected in tables(once).items():
        pd.testing.assert_index_equal(found[name].columns, expected.columns)
        for column in expected:
            off = OFF_DRAWN if column in DRAWN else OFF
            pd.testing.assert_series_equal(found[name][column], expected[column], rtol=0, atol=off)


def swept(folder, stored, threads: int, *overrides: str, exp: str = "glob(*)") -> dict[str, str]:
    """The results of all experiments, of a command of its own."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "src.run", "-m", f"exp={exp}", *WORLD, *places(stored), *overrides),
            f"hydra.sweep.dir={folder}",
            "hydra.sweep.subdir=${hydra:runtime.choices.exp}",
        ],
        cwd=CHECKOUT,
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = hashes(folder)
    return {name: said for name, said in found.items() if "/results/" in name}


@pytest.mark.thorough
@pytest.mark.timeout(3000)
def test_from_nothing_on_processes_change_no_byte_and_threads_no_more_than_rounding(tmp_path):
    """A processor's own products of matrices may round float32 otherwise on two threads than on one."""
    once = swept(tmp_path / "once", tmp_path / "a", 2, *ALONE)
    again = swept(tmp_path / "again", tmp_path / "b", 2, *SEVERAL)
    assert {name.split("/")[0] for name in once} == {*EXPERIMENTS}
    assert once == again
    swept(tmp_path / "slow", tmp_path / "c", 1, *ALONE, exp="words_to_faces,labels_to_scenes")
    for role in ("faces", "scenes", "words", "labels"):
        one, two = (_vectors(tmp_path / stored / "embeddings" / role) for stored in ("c", "a"))
        assert (1 - (one * two).sum(-1)).max() <= 1e-6, role


def _vectors(folder: Path) -> np.ndarray:
    """The only entry of a role, rows of length 1."""
    (entry,) = folder.glob("*/embedding.safetensors")
    vectors = load_file(entry)["embedding"].astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
