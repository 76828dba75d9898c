"""Run the code of docs/analysing.md on the session's sweep of the built-in world."""

import re

import matplotlib.pyplot as plt
import mlflow
import pandas as pd
import pytest

from tests.paths import CHECKOUT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def in_stores(stores, monkeypatch):
    """Run in the folder of the stores, and leave MLflow's global settings as they were."""
    monkeypatch.chdir(stores)
    uri = mlflow.get_tracking_uri()
    yield
    mlflow.set_tracking_uri(uri)
    plt.close("all")


def test_the_code_gives_a_frame_and_a_plot(sweeps, stores, in_stores, capsys):
    blocks = BLOCK.findall((CHECKOUT / "docs" / "analysing.md").read_text("utf-8"))
    values: dict[str, object] = {}
    exec("\n".join(blocks), values)
    assert len(blocks) == 4
    expected = sweeps[0].analyses()
    rho = values["rho"]
    assert rho.shape == (8, 1)
    assert rho.iloc[:, 0].to_dict() == pytest.approx(expected.groupby("exp")["rho"].mean().to_dict())
    columns = ["exp", "group", "rho", "level"]
    ordered = [frame[columns].sort_values(["exp", "group"]) for frame in (values["analyses"], expected)]
    pd.testing.assert_frame_equal(*(frame.reset_index(drop=True) for frame in ordered), check_dtype=False)
    assert len(values["targets"]) == 360
    (axes,) = values["figure"].axes
    assert len(axes.containers) == 1
    assert (stores / "levels.png").stat().st_size > 5000
    assert "shrunk" in capsys.readouterr().out
