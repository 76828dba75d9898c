"""Check the folder of precomputed vectors: valid variants and errors."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors

from src.embeddings import precomputed_vectors
from src.errors import InputError
from src.stimuli.loaders import load_precomputed as load
from src.storage.cache import file_hash
from tests import conftest


@pytest.fixture
def folder(tmp_path):
    return conftest.precomputed(tmp_path / "lab", q=2)


def rewrite(folder, role, change):
    path = folder / f"{role}.safetensors"
    save_file({"embedding": change(load_file(path)["embedding"])}, path)


@pytest.mark.parametrize("role", ["faces", "scenes", "words", "labels"])
def test_vectors_follow_the_sorted_table(folder, role):
    table, result = load(folder, role), precomputed_vectors.read_vectors(folder, role)
    frame = pd.read_parquet(folder / f"{role}.parquet")
    vectors = load_file(folder / f"{role}.safetensors")["embedding"]
    for row, name in enumerate(table.frame["id"]):
        (file_row,) = np.flatnonzero(frame["id"] == name)
        assert result.vectors[row].numpy() == pytest.approx(vectors[file_row], abs=1e-6)
    assert torch.allclose(result.vectors.norm(dim=-1), torch.ones(1, dtype=torch.float64), atol=1e-15)


def test_a_named_index_of_a_table_is_a_column(folder):
    expected, path = load(folder, "words").frame, folder / "words.parquet"
    pd.read_parquet(path).set_index(["id", "word"]).to_parquet(path)
    pd.testing.assert_frame_equal(load(folder, "words").frame, expected, check_like=True)


def scaled(factor):
    return lambda vectors: (vectors * factor).astype(vectors.dtype)


def with_nan(vectors):
    vectors[3].flat[0] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("words", scaled(1.02), "90 vectors are not of unit length, first row 0 with norm 1.02"),
        ("faces", scaled(0.98), "66 vectors are not of unit length.* Divide each vector by its norm"),
        ("words", scaled(0), "90 vectors are not of unit length, first row 0 with norm 0"),
        ("faces", with_nan, "1 vectors contain NaN or infinity, first row 3"),
        ("words", lambda v: v[1:], "89 vectors, but words.parquet has 90 rows"),
        ("words", lambda v: v[:, None], r"has shape \[90, 1, 16\], words need \[N, D\]"),
        ("faces", lambda v: v[:, :, :, None], r"faces need \[N, D\] or \[N, Q, D\]"),
        ("words", lambda v: v.astype(np.int32), "of floating point, got torch.int32"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(folder, role, change, message):
    rewrite(folder, role, change)
    with pytest.raises(InputError, match=message):
        precomputed_vectors.read_vectors(folder, role)


def replaced(folder, vectors, role="words"):
    """Replace the vectors of a role, as torch saves them: numpy has no bfloat16."""
    save_tensors({"embedding": vectors.contiguous()}, folder / f"{role}.safetensors")
    return precomputed_vectors.read_vectors(folder, role)


def long_tailed(width, rows=90):
    # A few large coordinates, as CLIP's vectors have.
    generator = torch.Generator().manual_seed(width)
    return 3 * torch.randn(rows, width, generator=generator).pow(3)


@pytest.mark.parametrize(
    ("stored", "width"),
    [
        (torch.bfloat16, 512),
        (torch.float16, 768),
        (torch.float64, 64),
        (torch.float8_e4m3fn, 64),
        (torch.float8_e5m2, 64),
    ],
)
def test_vectors_of_another_type_are_read_if_normalised(folder, stored, width):
    order = np.argsort(pd.read_parquet(folder / "words.parquet")["id"].to_numpy(dtype=str), kind="stable")
    vectors = torch.nn.functional.normalize(long_tailed(width), dim=-1).to(stored)
    wanted = torch.nn.functional.normalize(vectors[order].double(), dim=-1)
    torch.testing.assert_close(replaced(folder, vectors).vectors.double(), wanted, rtol=0, atol=1e-15)
    with pytest.raises(InputError, match="not of unit length"):
        replaced(folder, long_tailed(width).clamp(-200, 200).to(stored))


def test_renormalised_vectors_are_noted(folder, caplog):
    assert precomputed_vectors.read_vectors(folder, "words").notes == ()
    rewrite(folder, "words", scaled(1.0005))
    assert precomputed_vectors.read_vectors(folder, "words").notes == ()
    rewrite(folder, "words", lambda v: v * np.where(np.arange(90) < 7, 1.004, 1)[:, None].astype("f4"))
    with caplog.at_level("INFO"):
        (note,) = precomputed_vectors.read_vectors(folder, "words").notes
    assert note == (
        "7 of 90 words had vectors with norms from 1.0005 to 1.0045, within rounding of 1: renormalised"
    )
    assert note in caplog.text


def test_a_large_file_stays_on_disk_where_nothing_is_to_be_changed(folder, monkeypatch):
    before = precomputed_vectors.read_vectors(folder, "faces").vectors
    monkeypatch.setattr(precomputed_vectors, "MIN_MAPPED", 0)
    assert torch.equal(precomputed_vectors.read_vectors(folder, "faces").vectors, before)  # rows not in order
    frame = pd.read_parquet(folder / "faces.parquet")
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    frame.iloc[order].to_parquet(folder / "faces.parquet")
    rewrite(folder, "faces", lambda vectors: vectors[order])
    rewrite(folder, "faces", scaled(1.0005))
    norms = precomputed_vectors.read_vectors(folder, "faces").vectors.norm(dim=-1)
    assert torch.allclose(norms, torch.ones(1, dtype=torch.float64), atol=1e-15)
    rewrite(folder, "faces", scaled(1 / 1.0005))
    result = precomputed_vectors.read_vectors(folder, "faces").vectors
    assert result.dtype == torch.float32
    assert torch.allclose(result.double(), before, atol=1e-7)
    # A change of the file is visible in the vectors: they are mapped, not read.
    with (folder / "faces.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(0.5).tobytes())
    assert result.flatten()[-1] == 0.5


@pytest.mark.parametrize("rows", [1, 40])
def test_all_rows_are_checked(folder, rows, monkeypatch):
    monkeypatch.setattr(precomputed_vectors, "TILE_ROWS", rows)
    rewrite(folder, "words", lambda old: old * np.where(np.arange(90) > 80, 2, 1)[:, None].astype("f4"))
    with pytest.raises(InputError, match="9 vectors are not of unit length, first row 81 with norm 2"):
        precomputed_vectors.read_vectors(folder, "words")


def test_files_and_tensors_that_are_not_there_are_named(folder):
    for name in ("nowhere", "x" * 300):
        with pytest.raises(InputError, match="no such folder. Set model.path"):
            load(folder / name, "faces")
    save_file({"vectors": np.ones((2, 2), dtype=np.float32)}, folder / "words.safetensors")
    with pytest.raises(InputError, match="no tensor 'embedding'; found vectors"):
        precomputed_vectors.read_vectors(folder, "words")
    for read, name in ((precomputed_vectors.read_vectors, "faces.safetensors"), (load, "faces.parquet")):
        (folder / name).unlink()
        with pytest.raises(InputError, match=rf"{name}: no such file"):
            read(folder, "faces")


def test_the_hash_changes_when_rows_belong_to_other_vectors(folder):
    frame, path = pd.read_parquet(folder / "faces.parquet"), folder / "faces.parquet"
    before = load(folder, "faces").hash, precomputed_vectors.hash_vectors(folder, "faces")
    frame[::-1].to_parquet(path)
    assert load(folder, "faces").hash == before[0]
    assert precomputed_vectors.hash_vectors(folder, "faces") != before[1]
    frame.sort_values("id").to_parquet(path)
    assert precomputed_vectors.hash_vectors(folder, "faces") == file_hash(folder / "faces.safetensors")


def test_the_hash_of_prompts_changes_with_a_sentence(folder):
    save_file({"embedding": np.eye(2, 16, dtype=np.float32)}, folder / "prompts.safetensors")
    hashes = set()
    for sentence in ("a man", "a woman"):
        frame = pd.DataFrame({"id": ["1", "2"], "sentence": ["a person", sentence]})
        frame.to_parquet(folder / "prompts.parquet")
        hashes.add(precomputed_vectors.hash_vectors(folder, "prompts"))
    assert len(hashes) == 2
