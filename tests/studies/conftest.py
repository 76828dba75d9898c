"""Provide folders of precomputed vectors, a tracking database, and the page of a section."""

import pytest

from src.tracking import Tracker
from tests.conftest import precomputed
from tests.report.conftest import html, page_path  # noqa: F401


@pytest.fixture(scope="package", params=[0, 3], ids=["one vector", "three vectors per image"])
def folder(request, tmp_path_factory):
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=request.param, q=request.param)


@pytest.fixture(scope="package")
def single(tmp_path_factory):
    """Return a folder of precomputed vectors, a single one per image."""
    return precomputed(tmp_path_factory.mktemp("vectors") / "lab", seed=1)


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return Tracker(f"sqlite:///{tmp_path_factory.mktemp('tracking')}/mlflow.db")
