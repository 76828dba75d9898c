"""Several processes embed as one does: the same bytes, or none."""

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch

from src import configs
from src.embeddings import store
from src.encoders import Encoder
from src.encoders.preprocessing import Halves
from src.errors import InputError
from src.stimuli import checked
from src.storage.cache import file_hash
from tests.embeddings.test_store import Letters, words
from tests.stimuli import drawn

# What the processes inherit and this test can change: which of them is to meet what.
PLAGUED, PLAGUE = "CARRYOVER_TEST_RANK", "CARRYOVER_TEST_PLAGUE"


class Plagued(Letters):
    """Counts the rows that it is shown; one process of several meets with an accident midway."""

    shown = 0

    def encode_texts(self, tokens):
        self.shown += 1
        if PLAGUED in os.environ and self.shown == 2 and os.environ["LOCAL_RANK"] == os.environ[PLAGUED]:
            if os.environ[PLAGUE] == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.environ[PLAGUE] == "refuse":
                raise InputError("'abc': too long a word. Leave it out.")
            if os.environ[PLAGUE] == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/there/vectors")
            raise ZeroDivisionError
        if PLAGUED in os.environ:
            time.sleep(0.2)
        return super().encode_texts(tokens)


class Halved(Letters):
    """Its preprocessing is of a known kind: pictures are resized once, by the first process."""

    def halves(self):
        values = torch.arange(256.0).expand(3, 256).contiguous()
        return Halves(
            {"test": "2 x 2"}, lambda shown: np.asarray(shown.resize((2, 2))).transpose(2, 0, 1), values
        )


@pytest.fixture(autouse=True)
def fresh():
    for memory in (store._kept, store._loaded):
        memory.clear()


def embed(folder: Path, table, count: int, batch_size: int = 5, network=Plagued):
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0, devices=count)
    encoder = Encoder({"name": "letters"}, lambda: {"sha256": "none"}, network)
    store._kept.clear()
    return store.embed(encoder, table, batch_size, trainer, folder, folder / "pictures")


def scenes(folder: Path, count: int):
    paths = [drawn.picture(folder / f"{i}.jpg", i) for i in range(count)]
    frame = pd.DataFrame({"id": [p.stem for p in paths], "valence": 0.5, "path": [str(p) for p in paths]})
    frame["sha256"] = [file_hash(path) for path in paths]
    return checked("scenes", frame, "test")


def entries(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob("*/*"))


@pytest.fixture
def left() -> Callable[[], list[str]]:
    """Processes that embed and have not ended; a server of another test may have some of its own."""
    before = spawned()
    return lambda: [" ".join(child.cmdline()) for child in spawned() - before]


def spawned() -> set[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return {child for child in children if "spawn_main" in " ".join(child.cmdline())}


@pytest.mark.thorough
@pytest.mark.parametrize("count", [2, 3])
def test_texts_of_two_processes_are_those_of_one(tmp_path, monkeypatch, left, count):
    """23 words are five batches: neither divides."""
    # More processes than cores are refused, for they gain nothing; here nobody is in a hurry.
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    one, several = embed(tmp_path / "one", words(), 1), embed(tmp_path / "several", words(), count)
    assert several.hash == one.hash
    assert torch.equal(several.vectors, one.vectors)
    assert entries(tmp_path / "several") == entries(tmp_path / "one")
    assert left() == []


@pytest.mark.parametrize(
    ("network", "count"), [(Halved, 7), pytest.param(Plagued, 25, marks=pytest.mark.thorough)]
)
def test_pictures_of_two_processes_are_those_of_one(tmp_path, network, count):
    """A batch holds ten: of 7 pictures there are fewer batches than processes."""
    table = scenes(tmp_path, count)
    one, two = (embed(tmp_path / str(n), table, n, batch_size=10, network=network) for n in (1, 2))
    assert one.hash == two.hash
    assert one.vectors.shape == (count, 3, 4)
    assert len(entries(tmp_path / "2" / "pictures")) == 2 * (network is Halved)


@pytest.mark.thorough
def test_one_that_is_killed_ends_all_and_the_rerun_gives_the_same_bytes(tmp_path, monkeypatch, left):
    monkeypatch.setenv(PLAGUED, "1")
    monkeypatch.setenv(PLAGUE, "kill")
    with pytest.raises(InputError, match="words: process 2 of 2 was ended by SIGKILL"):
        embed(tmp_path / "two", words(), 2)
    assert list((tmp_path / "two" / "words").iterdir()) == []
    assert left() == []
    monkeypatch.delenv(PLAGUED)
    assert embed(tmp_path / "two", words(), 1).hash == embed(tmp_path / "one", words(), 1).hash


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("plague", "kind", "said"),
    [
        ("refuse", InputError, r"^'abc': too long a word\. Leave it out\.$"),
        ("fail", RuntimeError, "ZeroDivisionError"),
        ("full", InputError, r"words: cannot be written \(No space"),
    ],
)
def test_what_one_cannot_use_is_said_as_one_process_says_it(tmp_path, monkeypatch, left, plague, kind, said):
    monkeypatch.setenv(PLAGUED, "0")
    monkeypatch.setenv(PLAGUE, plague)
    with pytest.raises(kind, match=said):
        embed(tmp_path, words(), 2)
    assert list((tmp_path / "words").iterdir()) == []
    assert left() == []
