"""Several processes that write the vectors of one file."""

import fcntl
import os

import numpy as np
import pytest

from src.embeddings import writer
from src.embeddings.writer import VectorFile


def test_two_that_write_one_file(tmp_path):
    """The second comes when the first has written: its rows stay; a row left out or doubled is found."""
    path, marks = tmp_path / "vectors", tmp_path / "marks"
    marks.write_bytes(bytes(3))
    files = [VectorFile(path, (3, 2), marks)]
    files[0].write(np.array([2, 0]), np.array([[5, 6], [1, 2]]))
    files.append(VectorFile(path, (3, 2), marks))
    with pytest.raises(RuntimeError, match="1 rows were never embedded"):
        VectorFile(path, (3, 2), marks).close()
    files[1].write(np.array([1]), np.array([[3, 4]]))
    whole = VectorFile(path, (3, 2), marks)
    assert whole.rows.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert whole.close() == [3, 2]
    files[0].write(np.array([1]), np.array([[3, 4]]))
    with pytest.raises(RuntimeError, match="1 rows were embedded twice"):
        VectorFile(path, (3, 2), marks).close()


def test_who_comes_later_makes_nothing(tmp_path, monkeypatch):
    """Where a file system cannot reserve room the C library writes zeros, also upon rows of the first."""
    path, marks = tmp_path / "vectors", tmp_path / "marks"
    marks.write_bytes(bytes(3))
    made = []
    monkeypatch.setattr(os, "posix_fallocate", lambda *asked: made.append(asked), raising=False)
    for _ in range(3):
        VectorFile(path, (3, 2), marks)
    assert len(made) == 1
    with writer._alone(marks), marks.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
