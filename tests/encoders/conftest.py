"""A hub's cache of our own, and architectures made small."""

import open_clip
import pytest
from huggingface_hub import constants

from src import encoders
from src.encoders import hub
from tests.encoders.published import SMALL


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache; the hub is out of reach."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for memory in (encoders._open, hub._refused):
        memory.clear()
    return tmp_path / "hub"


@pytest.fixture
def small(monkeypatch):
    """open_clip's architectures with small numbers."""
    for name, architecture in SMALL.items():
        monkeypatch.setitem(open_clip.factory._MODEL_CONFIGS, name, architecture)
