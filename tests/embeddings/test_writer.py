"""Several processes that write the vectors of one file."""

import fcntl
import os

import numpy as np
import pytest
from safetensors.numpy import load_file

from src.embeddings import writer
from src.embeddings.writer import VectorFile, finish


def test_two_that_write_one_file(tmp_path):
    """The second comes when the first has written: its rows stay; a row left out or doubled is found."""
    path = tmp_path / "vectors"
    files = [VectorFile(path, (3, 2))]
    files[0].write(np.array([2, 0]), np.array([[5, 6], [1, 2]]))
    files.append(VectorFile(path, (3, 2)))
    with pytest.raises(RuntimeError, match="1 rows were never embedded"):
        finish(path)
    files[1].write(np.array([1]), np.array([[3, 4]]))
    files[0].write(np.array([1]), np.array([[3, 4]]))
    with pytest.raises(RuntimeError, match="1 rows were embedded twice"):
        finish(path)
    files[0].written[1] = 1
    assert finish(path) == [3, 2]
    assert load_file(path)["embedding"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_written_and_no_number_are_refused(tmp_path):
    path = tmp_path / "vectors"
    with pytest.raises(RuntimeError, match="no vector was written"):
        finish(path)
    VectorFile(path, (1, 2)).write(np.array([0]), np.array([[1, np.nan]]))
    with pytest.raises(RuntimeError, match="vectors hold NaN or infinity"):
        finish(path)


def test_who_comes_later_makes_nothing(tmp_path, monkeypatch):
    """Where a file system cannot reserve room the C library writes zeros, also upon rows of the first."""
    made = []

    def allocate(*asked):
        made.append(asked)
        with writer._counts(path).open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    path = tmp_path / "vectors"
    monkeypatch.setattr(os, "posix_fallocate", allocate, raising=False)
    for _ in range(3):
        VectorFile(path, (3, 2))
    assert len(made) == 1
