"""Check that results are read as they were written, to the last bit, and a failed write changes nothing."""

import numpy as np
import pandas as pd
import pytest

from src.storage import results

TABLE = pd.DataFrame({"id": ["a"]})


@pytest.fixture
def analyses():
    rng = np.random.default_rng(0)
    n = 200
    frame = pd.DataFrame(dict.fromkeys(results.TEXT_COLUMNS, "x"), index=range(n))
    awkward = ["NA", "null", "00123", "1e5", "a,b", 'say "so"', "é"]
    frame["group"] = [awkward[i % 7] for i in range(n)]
    frame["config"] = "12345678901234567890123456789012"
    frame["reason"] = ["", "too few"] * (n // 2)
    frame["rho"] = rng.uniform(-1, 1, n)
    frame["p"] = 10.0 ** -rng.uniform(0, 300, n)
    frame["n_all"] = pd.array([None, 7] * (n // 2), dtype="Int64")
    return frame


def test_reading_gives_back_what_was_written(tmp_path, analyses):
    results.write(tmp_path, analyses, {"targets": TABLE})
    result = results.read(tmp_path)
    for column in analyses.columns:
        assert result[column].tolist() == analyses[column].tolist(), column


def test_a_failed_write_leaves_the_old_results(tmp_path, analyses):
    results.write(tmp_path, analyses, {"targets": TABLE})
    before = results.compute_digest(tmp_path)
    with pytest.raises(AttributeError):
        results.write(tmp_path, analyses.head(1), {"targets": TABLE, "draws": None})
    assert results.compute_digest(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_results_of_another_digest_are_not_reused(tmp_path, analyses):
    results.write(tmp_path / "there", analyses, {"targets": TABLE})

    def fetch(folder):
        (tmp_path / "there" / "results").rename(folder / "results")

    with pytest.raises(OSError, match="content has changed"):
        results.reuse(tmp_path / "here", fetch, "0" * 32)
    assert list((tmp_path / "here").iterdir()) == []
