"""Stores that processes share, as on a cluster's file system: each thing once or twice, never wrong."""

import fcntl
import logging
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from src.embeddings import pruning
from src.errors import InputError
from src.stimuli.work_folders import hold
from src.storage import cache
from tests.conftest import places
from tests.tracking import counted

FORK = multiprocessing.get_context("fork")
# An untrained toy on the built-in world, shrunk until a sweep is mostly its stores.
WORLD = ["faces.per_group=6", "scenes.count=24", "words.count=24", "protocol.k=10", "protocol.extremes=5"]
WORLD += ["model=toy_s", "model.steps=2", "model.name=shared", "trainer=cpu", "trainer.workers=0"]
WORLD += ["protocol.placebo=0", "protocol.bootstrap=0", "protocol.attribute_draws=0", "protocol.set_size=6"]
STORES = ("embeddings", "checkpoints", "pictures", "stimuli")


def entries(store: Path) -> list[Path]:
    return [path.parent for path in store.rglob(cache.MANIFEST) if path.parent.is_dir()]


def hidden(store: Path) -> list[Path]:
    return [path for path in store.rglob(".*") if path.is_dir()]


@pytest.mark.thorough
def test_two_sweeps_on_one_store_at_once(tmp_path):
    store = tmp_path / "store"
    asked = {}
    for name in ("one", "two"):
        own = [f"tracking.uri=sqlite:///{tmp_path}/{name}/mlflow.db"]
        asked[tmp_path / name] = ["-m", "exp=faces_to_words,scenes_to_labels", *WORLD, *places(store), *own]
    for output in asked:
        output.mkdir()
    assert counted.at_once(asked) == [0, 0]
    one, two = (
        {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/results/*"))}
        for output in asked
    )
    assert one == two
    assert len(one) >= 6
    for name in STORES:
        made = entries(store / name)
        assert made
        assert not [entry for entry in made if cache.damaged(entry)]
        assert hidden(store / name) == []
    # Four roles; each thing once, whoever made it.
    assert Counter(path.parent.name for path in entries(store / "embeddings")) == Counter(
        dict.fromkeys(("faces", "words", "scenes", "labels"), 1)
    )


KEYS = [f"key{number}" for number in range(4)]


def content(key: str) -> bytes:
    return key.encode() * 5000


def build(key, pause=0.0):
    def write(folder):
        (folder / "a").write_bytes(content(key))
        time.sleep(pause)
        (folder / "b").write_bytes(content(key)[::-1])
        return {"key": key}

    return write


def reads(store: Path, seed: int, until: float) -> None:
    """Fetch entries, read them as a job would, and now and then damage one, prune and list."""
    logging.disable(logging.CRITICAL)
    rng = random.Random(seed)
    while time.time() < until:
        key = rng.choice(KEYS)
        cache._sound.clear()
        entry = cache.fetch(store, key, build(key, rng.random() / 200))
        try:
            found = (entry / "a").read_bytes(), (entry / "b").read_bytes()
        except FileNotFoundError:
            # Another process damaged and replaced it a moment ago: it is there again.
            continue
        damage = rng.random()
        # Whole, or cut by another after it was verified; never what somebody is still writing.
        assert found[0] in (content(key), content(key)[:7])
        assert found[1] == content(key)[::-1]
        if damage < 0.1:
            for name in ("a", cache.MANIFEST):
                try:
                    os.truncate(entry / name, 7)
                except FileNotFoundError:
                    break
        elif damage < 0.2:
            pruning.prune(store, None)
        elif damage < 0.3:
            pruning.listing(store)
    os._exit(0)


def test_many_that_fetch_damage_list_and_prune_meet_no_error(tmp_path):
    store = tmp_path / "store"
    processes = [FORK.Process(target=reads, args=(store, seed, time.time() + 6)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
    for key in KEYS:
        entry = cache.fetch(store, key, build(key))
        assert cache.damaged(entry) == ""
        assert (entry / "a").read_bytes() == content(key)
    assert hidden(store) == []


def test_who_finishes_last_takes_what_is_there(tmp_path):
    """Also where both found a damaged entry, and the other replaced it between a look and a rename."""
    entry = cache.fetch(tmp_path, "key", build("key"))
    os.truncate(entry / "a", 3)
    seen = cache.seen_as(entry)
    theirs = cache.fetch(tmp_path, "key", build("key"))
    inode = theirs.stat().st_ino
    assert not cache.discard(entry, seen)
    assert entry.stat().st_ino == inode
    assert cache.damaged(entry) == ""
    assert hidden(tmp_path) == []


def test_what_is_replaced_between_the_last_look_and_the_rename_is_put_back(tmp_path, monkeypatch):
    entry = cache.fetch(tmp_path, "key", build("key"))
    os.truncate(entry / "a", 3)
    seen, look = cache.seen_as(entry), cache.seen_as

    def late(path):
        found = look(path)
        if path == entry and found == seen:
            monkeypatch.setattr(cache, "seen_as", look)
            cache.fetch(tmp_path, "key", build("key"))
        return found

    monkeypatch.setattr(cache, "seen_as", late)
    assert not cache.discard(entry, seen)
    assert cache.damaged(entry) == ""
    assert hidden(tmp_path) == []


def stuck(store: Path, begun) -> None:
    def build(folder):
        (folder / "half").write_text("x")
        begun.set()
        time.sleep(600)

    cache.fetch(store, "key", build)


def test_a_killed_owner_holds_nothing(tmp_path):
    begun = FORK.Event()
    owner = FORK.Process(target=stuck, args=(tmp_path, begun))
    owner.start()
    assert begun.wait(60)
    os.kill(owner.pid, signal.SIGKILL)
    owner.join()
    entry = cache.fetch(tmp_path, "key", build("key"))  # whoever waits runs into the limit of the suite
    assert cache.damaged(entry) == ""
    (left,) = hidden(tmp_path)
    assert pruning.prune(tmp_path, None) == []  # as young as one in progress
    long_ago = time.time() - 2 * pruning.IN_PROGRESS
    for path in (left / "half", left):
        os.utime(path, (long_ago, long_ago))
    assert [reason for _, reason, _ in pruning.prune(tmp_path, None)] == [
        "left by a process that was stopped"
    ]
    assert hidden(tmp_path) == []


def test_a_builder_that_writes_nothing_for_hours_is_no_leftover(tmp_path, monkeypatch):
    """A training: its folder stays empty until the end."""
    monkeypatch.setattr(cache, "BEAT", 0.02)

    def build(folder):
        long_ago = time.time() - 2 * pruning.IN_PROGRESS
        os.utime(folder, (long_ago, long_ago))
        while folder.stat().st_mtime < time.time() - pruning.IN_PROGRESS:  # until it beats
            time.sleep(0.01)
        assert pruning.prune(tmp_path, None) == []
        (folder / "weights").write_text("x")
        return {}

    assert cache.damaged(cache.fetch(tmp_path, "key", build)) == ""


def test_a_file_system_that_syncs_no_folders(tmp_path, monkeypatch):
    sync = os.fsync

    def refuse(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert cache.damaged(cache.fetch(tmp_path, "key", build("key"))) == ""


def test_a_rename_whose_answer_was_lost(tmp_path, monkeypatch):
    """NFS repeats a request that it did; the repetition finds nothing to rename."""
    rename = Path.rename

    def twice(path, target):
        rename(path, target)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "rename", twice)
    entry = cache.fetch(tmp_path, "key", build("key"))
    assert cache.damaged(entry) == ""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PermissionError(13, "Permission denied"), PermissionError),
        (OSError(28, "No space left"), InputError),
    ],
)
def test_an_entry_that_cannot_be_published_is_said_for_what_it_is(tmp_path, monkeypatch, error, kind):
    def refuse(path, target):
        raise error

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(kind, match=error.strerror):
        cache.fetch(tmp_path, "key", build("key"))


def test_a_folder_on_a_file_system_without_locks(tmp_path, monkeypatch, caplog):
    def flock(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with hold(tmp_path / "partial", "Make room."):
        assert (tmp_path / "partial").is_dir()
    assert "not held against another process (Function not implemented)" in caplog.text
