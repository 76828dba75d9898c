"""The folder of precomputed vectors: what is free, what is refused."""

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_tensors

from src.embeddings import precomputed_vectors
from src.errors import InputError
from src.stimuli.precomputed_tables import load
from tests import conftest


@pytest.fixture
def folder(tmp_path):
    return conftest.precomputed(tmp_path / "lab", q=2)


def rewrite(folder, role, change):
    path = folder / f"{role}.safetensors"
    save_file({"embedding": change(load_file(path)["embedding"])}, path)


@pytest.mark.parametrize("role", ["faces", "scenes", "words", "labels"])
def test_vectors_follow_the_sorted_table(folder, role):
    table, found = load(folder, role), precomputed_vectors.read(folder, role)
    frame = pd.read_parquet(folder / f"{role}.parquet")
    stored = load_file(folder / f"{role}.safetensors")["embedding"]
    for row, name in enumerate(table.frame["id"]):
        (place,) = np.flatnonzero(frame["id"] == name)
        assert found.vectors[row].numpy() == pytest.approx(stored[place], abs=1e-6)
    assert torch.allclose(found.vectors.norm(dim=-1), torch.ones(1, dtype=torch.float64), atol=1e-15)


def scaled(factor):
    return lambda vectors: (vectors * factor).astype(vectors.dtype)


def spoil(value):
    def change(vectors):
        vectors = vectors.copy()
        vectors[3].flat[0] = value
        return vectors

    return change


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("words", scaled(1.02), "90 vectors are not of unit length, first row 0 with norm 1.02"),
        ("faces", scaled(0.98), "66 vectors are not of unit length"),
        ("words", scaled(10.3), "90 vectors are not of unit length, first row 0 with norm 10.3"),
        ("words", scaled(0), "90 vectors are not of unit length, first row 0 with norm 0"),
        (
            "words",
            lambda v: v * np.linspace(0.9, 1.1, 90)[:, None].astype("f4"),
            "82 vectors are not of unit",
        ),
        ("words", spoil(np.nan), "1 vectors hold NaN or infinity, first row 3"),
        ("faces", spoil(np.inf), "1 vectors hold NaN or infinity, first row 3"),
        ("words", lambda v: v[1:], "89 vectors, but words.parquet has 90 rows"),
        ("words", lambda v: v[:, None], r"has shape \[90, 1, 16\], words need \[N, D\]"),
        ("faces", lambda v: v[:, :, :, None], r"faces need \[N, D\] or \[N, Q, D\]"),
        ("words", lambda v: v.astype(np.int32), "floating point is needed"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(folder, role, change, message):
    rewrite(folder, role, change)
    with pytest.raises(InputError, match=message):
        precomputed_vectors.read(folder, role)


def test_norms_near_one_are_made_exact(folder):
    before = precomputed_vectors.read(folder, "words").vectors
    rewrite(folder, "words", scaled(1.0005))
    assert torch.allclose(precomputed_vectors.read(folder, "words").vectors, before, atol=1e-6)


WIDTHS = (64, 128, 256, 512, 640, 768, 1024, 1536, 2048, 4096)
BF16 = torch.bfloat16
# The ways to normalise that libraries and papers' code take, in whatever type they are given.
WAYS = {
    "normalize": lambda x: torch.nn.functional.normalize(x, dim=-1),
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "squares": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
    "rsqrt": lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True)),
    "inverse": lambda x: x * (1 / x.norm(dim=-1, keepdim=True)),
    "mean-pooled": lambda x: torch.nn.functional.normalize(
        torch.stack([torch.nn.functional.normalize(x + n, dim=-1) for n in range(3)]).mean(0), dim=-1
    ),
}


def replaced(folder, vectors, role="words"):
    """Other vectors of a role, as torch saves them: numpy has no bfloat16."""
    save_tensors({"embedding": vectors.contiguous()}, folder / f"{role}.safetensors")
    return precomputed_vectors.read(folder, role)


def gaussian(width, rows=90):
    # A few large coordinates, as CLIP's vectors have.
    generator = torch.Generator().manual_seed(width)
    return 3 * torch.randn(rows, width, generator=generator).pow(3)


@pytest.mark.parametrize("stored", [BF16, torch.float32])
@pytest.mark.parametrize("way", WAYS)
def test_vectors_normalised_in_bfloat16_are_read(folder, way, stored):
    order = np.argsort(pd.read_parquet(folder / "words.parquet")["id"].to_numpy(dtype=str), kind="stable")
    for width in WIDTHS:
        vectors = WAYS[way](gaussian(width).to(BF16)).to(stored)
        found = replaced(folder, vectors).vectors
        assert torch.equal(found, torch.nn.functional.normalize(vectors[order].double(), dim=-1))


@pytest.mark.parametrize("way", WAYS)
def test_the_tolerance_holds_where_roundings_do_not_average(way):
    """All coordinates equal, so that each is rounded alike: with every significand of bfloat16."""
    significands = (1 + torch.arange(128) / 128).repeat(2) * torch.tensor([1.0, 2.0]).repeat_interleave(128)
    for width in (*range(64, 1100, 24), *WIDTHS):
        vectors = WAYS[way](significands[:, None].expand(-1, width).to(BF16))
        assert (vectors.double().norm(dim=-1) - 1).abs().max() < precomputed_vectors.NORM_TOLERANCE


@pytest.mark.parametrize(
    ("stored", "width"),
    [(torch.float16, 768), (torch.float64, 64), (torch.float8_e4m3fn, 64), (torch.float8_e5m2, 64)],
)
def test_vectors_that_were_rounded_to_another_type_are_read(folder, stored, width):
    vectors = torch.nn.functional.normalize(gaussian(width), dim=-1).to(stored)
    assert len(replaced(folder, vectors).vectors) == 90


@pytest.mark.parametrize(
    "stored", [BF16, torch.float16, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
)
@pytest.mark.parametrize("factor", [0.5, 1.3, 10])
def test_vectors_that_were_not_normalised_are_refused_in_any_type(folder, stored, factor):
    vectors = (factor * torch.nn.functional.normalize(gaussian(512), dim=-1)).to(stored)
    with pytest.raises(
        InputError, match="90 vectors are not of unit length.* Divide each vector by its norm"
    ):
        replaced(folder, vectors)
    with pytest.raises(InputError, match="not of unit length"):
        replaced(folder, gaussian(512).clamp(-200, 200).to(stored))


def test_a_mean_of_unit_vectors_that_was_not_normalised_again_is_refused(folder):
    parts = torch.nn.functional.normalize(torch.randn(6, 90, 512), dim=-1) + 0.1
    with pytest.raises(InputError, match="not of unit length"):
        replaced(folder, parts.mean(0))


def test_what_is_renormalised_is_noted(folder, caplog):
    assert precomputed_vectors.read(folder, "words").notes == ()
    rewrite(folder, "words", scaled(1.0005))
    assert precomputed_vectors.read(folder, "words").notes == ()
    rewrite(folder, "words", lambda v: v * np.where(np.arange(90) < 7, 1.004, 1)[:, None].astype("f4"))
    with caplog.at_level("INFO"):
        (note,) = precomputed_vectors.read(folder, "words").notes
    assert note == (
        "7 of 90 words had vectors with norms from 1.0005 to 1.0045, as rounding leaves them: renormalised"
    )
    assert note in caplog.text


def in_order(folder, role):
    frame = pd.read_parquet(folder / f"{role}.parquet")
    order = np.argsort(frame["id"].to_numpy(dtype=str), kind="stable")
    frame.iloc[order].to_parquet(folder / f"{role}.parquet")
    rewrite(folder, role, lambda vectors: vectors[order])


def test_a_large_file_stays_on_disk_where_nothing_is_to_be_changed(folder, monkeypatch):
    before = precomputed_vectors.read(folder, "faces").vectors
    monkeypatch.setattr(precomputed_vectors, "MAPPED", 0)
    assert torch.equal(precomputed_vectors.read(folder, "faces").vectors, before)  # not in order
    in_order(folder, "faces")
    found = precomputed_vectors.read(folder, "faces").vectors
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), before, atol=1e-7)
    # What is written to the file is seen: it was never read.
    with (folder / "faces.safetensors").open("r+b") as file:
        file.seek(-4, 2)
        last = file.read()
        for written in (np.float32(0.5).tobytes(), last):
            file.seek(-4, 2)
            file.write(written)
            file.flush()
            assert found.flatten()[-1:].numpy().tobytes() == written
    rewrite(folder, "faces", scaled(1.0005))
    norms = precomputed_vectors.read(folder, "faces").vectors.norm(dim=-1)
    assert torch.allclose(norms, torch.ones(1, dtype=torch.float64), atol=1e-15)


def test_a_file_that_fits_is_read(folder):
    in_order(folder, "faces")
    assert precomputed_vectors.read(folder, "faces").vectors.dtype == torch.float64


@pytest.mark.parametrize("rows", [1, 40])
def test_all_rows_are_checked(folder, rows, monkeypatch):
    monkeypatch.setattr(precomputed_vectors, "ROWS", rows)
    rewrite(
        folder, "words", lambda vectors: vectors * np.where(np.arange(90) > 80, 2, 1)[:, None].astype("f4")
    )
    with pytest.raises(InputError, match="9 vectors are not of unit length, first row 81 with norm 2"):
        precomputed_vectors.read(folder, "words")


def test_files_that_are_not_there_or_not_readable_are_named(folder):
    with pytest.raises(InputError, match="no such folder. Set model.path"):
        load(folder / "nowhere", "faces")
    (folder / "faces.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"faces.safetensors: not a safetensors file"):
        precomputed_vectors.read(folder, "faces")
    (folder / "faces.safetensors").unlink()
    with pytest.raises(InputError, match=r"faces.safetensors: no such file"):
        precomputed_vectors.read(folder, "faces")
    (folder / "faces.parquet").write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"faces.parquet: not a Parquet file"):
        load(folder, "faces")
    (folder / "faces.parquet").unlink()
    with pytest.raises(InputError, match=r"faces.parquet: no such file .*The experiment needs faces"):
        load(folder, "faces")


def test_a_tensor_of_another_name_is_refused(folder):
    save_file({"vectors": np.ones((2, 2), dtype=np.float32)}, folder / "words.safetensors")
    with pytest.raises(InputError, match="no tensor 'embedding'; found vectors"):
        precomputed_vectors.read(folder, "words")
