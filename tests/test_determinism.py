"""Check how results of the same seed depend on the numbers of processes and threads and on block sizes.

The number of processes changes no byte. The number of threads changes no byte of an experiment, and an
encoder's vectors by rounding only. The size of blocks changes results by rounding only, because matrix
products of other shapes may round the last bit differently.
"""

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
from src.metrics import correlation, implicit
from src.studies.propagation import similarity_blocks
from src.studies.shared import cosine_blocks
from src.studies.sobit import caption_association
from src.studies.zero_shot import study as zero_shot
from tests.clones import hashes
from tests.conftest import store_overrides
from tests.paths import CHECKOUT

# The built-in world and an untrained encoder: training is not under test.
WORLD = [
    "faces.per_group=40", "scenes.count=130", "words.count=150",
    "protocol.k=30", "protocol.set_size=20", "protocol.extremes=25", "protocol.vocabulary=40",
    "protocol.permutations=49", "protocol.bootstrap=20", "protocol.top_k=9",
    "model=toy_s", "model.name=shrunk", "model.steps=0",
]  # fmt: skip
ALONE = ["trainer=cpu", "trainer.workers=0"]
SEVERAL = ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2", "trainer.workers=2"]
# One of each kind: of valence, of groups, and of each audit.
EACH = ["words_to_scenes", "faces_to_labels", "cles_emotions", "iat_semantic", "scenes_zero_shot"]
EACH += ["sobit_association", "sobit_retrieval"]
# Of pictures and of texts: each role takes half a minute to start on several processes.
PICTURES_AND_TEXTS = "faces_to_words"
# Smaller block sizes of each computation; they are constants in the code, which no override changes.
PORTIONS = [
    (similarity_blocks, "BLOCK_SIZE", 2**14), (zero_shot, "BLOCK_SIZE", 64),
    (cosine_blocks, "MAX_COSINES", 10_000), (caption_association, "MAX_LABELS", 5_000),
    (correlation, "BLOCK_VALUES", 2**12), (implicit, "BLOCK", 2**12),
]  # fmt: skip


# Columns of random draws are computed in float32, all others in float64 and rounded to 12 decimals.
TOLERANCE, TOLERANCE_DRAWN = 2e-12, 1e-6
DRAWN = {"low", "high", "null_q95"}


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    before = torch.get_num_threads()
    yield store_overrides(tmp_path_factory.mktemp("stored"))
    torch.set_num_threads(before)


def written(prepared: encoder_job.PreparedEncoderJob, folder: Path) -> Path:
    """Write the results of an experiment into a new folder."""
    prepared = replace(prepared, job=replace(prepared.job, output=folder))
    with mock.patch.object(run_metadata, "log_figures"):
        encoder_job.perform(prepared, mock.MagicMock())
    return folder / "results"


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    readers = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    return {path.name: readers[path.suffix](path) for path in sorted(folder.rglob("*.*"))}


@pytest.mark.parametrize("exp", EACH)
def test_threads_change_no_byte_and_blocks_no_more_than_rounding(job, overrides, exp, monkeypatch, tmp_path):
    prepared = encoder_job.prepare(job(*WORLD, *ALONE, *overrides, f"exp={exp}"))
    torch.set_num_threads(1)
    once = written(prepared, tmp_path / "once")
    torch.set_num_threads(3)
    assert hashes(written(prepared, tmp_path / "threads")) == hashes(once)
    for module, name, size in PORTIONS:
        assert getattr(module, name) > size
        monkeypatch.setattr(module, name, size)
    result = tables(written(prepared, tmp_path / "blocks"))
    assert "analyses.csv" in result
    for name, expected in tables(once).items():
        pd.testing.assert_index_equal(result[name].columns, expected.columns)
        for column in expected:
            tolerance = TOLERANCE_DRAWN if column in DRAWN else TOLERANCE
            pd.testing.assert_series_equal(result[name][column], expected[column], rtol=0, atol=tolerance)


def swept(folder, stores, threads: int, exp: str, *overrides: str) -> dict[str, str]:
    """Return hashes of the results of a sweep in another process."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "src.run", "-m", f"exp={exp}"),
            *(*WORLD, *store_overrides(stores), *overrides),
            *(f"hydra.sweep.dir={folder}", "hydra.sweep.subdir=${hydra:runtime.choices.exp}"),
        ],
        env={**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)},
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = hashes(folder)
    return {name: digest for name, digest in result.items() if "/results/" in name}


@pytest.mark.thorough
@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("exps", "slow_exps"),
    [
        pytest.param([PICTURES_AND_TEXTS], [], id="two roles"),
        pytest.param(EACH, ["words_to_faces", "labels_to_scenes"], id="all", marks=pytest.mark.exhaustive),
    ],
)
def test_from_empty_stores_processes_change_no_byte_and_threads_no_more_than_rounding(
    tmp_path, exps, slow_exps
):
    """Compare vectors of `slow_exps` within 1e-6: matrix products may round float32 differently."""
    once = swept(tmp_path / "once", tmp_path / "a", 2, ",".join(exps), *ALONE)
    again = swept(tmp_path / "again", tmp_path / "b", 2, ",".join(exps), *SEVERAL)
    assert {name.split("/")[0] for name in once} == {*exps}
    assert once == again
    if slow_exps:
        swept(tmp_path / "slow", tmp_path / "c", 1, ",".join(slow_exps), *ALONE)
    for role in sorted({role for exp in slow_exps for role in exp.split("_to_")}):
        serial, parallel = (_vectors(tmp_path / stores / "embeddings" / role) for stores in ("c", "a"))
        assert (1 - (serial * parallel).sum(-1)).max() <= 1e-6, role


def _vectors(folder: Path) -> np.ndarray:
    """Return the vectors of the only entry of a role, scaled to length 1."""
    (entry,) = folder.glob("*/embedding.safetensors")
    vectors = load_file(entry)["embedding"].astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
