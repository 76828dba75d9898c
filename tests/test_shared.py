"""Check stores that processes share, as on a cluster's file system."""

import fcntl
import logging
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from unittest import mock

import pytest

from src.embeddings import pruning
from src.errors import InputError
from src.stimuli.work_folders import lock_folder
from src.storage import cache
from tests.commands import TINY
from tests.conftest import store_overrides
from tests.launched import result_files
from tests.tracking import concurrent_sweeps

FORK = multiprocessing.get_context("fork")
WORLD = [*TINY, "protocol.placebo=0", "protocol.bootstrap=0", "protocol.attribute_draws=0"]
STORES = ("embeddings", "checkpoints", "pictures", "stimuli")


def entries(store: Path) -> list[Path]:
    return [path.parent for path in store.rglob(cache.MANIFEST) if path.parent.is_dir()]


def hidden(store: Path) -> list[Path]:
    return [path for path in store.rglob(".*") if path.is_dir()]


@pytest.mark.thorough
def test_two_sweeps_on_the_same_store_at_once(tmp_path):
    store = tmp_path / "store"
    commands = {}
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        overrides = [*WORLD, *store_overrides(store), f"tracking.uri=sqlite:///{tmp_path}/{name}/mlflow.db"]
        commands[tmp_path / name] = ["-m", "exp=faces_to_words,scenes_to_labels", *overrides]
    assert concurrent_sweeps.at_once(commands) == [0, 0]
    first, second = map(result_files, commands)
    assert first == second
    assert len(first) >= 6
    for name in STORES:
        states = [cache.find_damage(entry) for entry in entries(store / name)]
        assert (set(states), hidden(store / name)) == ({""}, [])
    roles = sorted(path.parent.name for path in entries(store / "embeddings"))
    assert roles == ["faces", "labels", "scenes", "words"]


KEYS = [cache.fingerprint(number) for number in range(4)]
KEY = KEYS[0]


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
        cache._verified.clear()
        entry = cache.fetch(store, key, build(key, rng.random() / 200))
        try:
            contents = (entry / "a").read_bytes(), (entry / "b").read_bytes()
        except FileNotFoundError:
            continue  # another process has just damaged and replaced it
        # `a` is complete, or was cut by another process after its check; it is never half-written.
        assert contents[0] in (content(key), content(key)[:7])
        assert contents[1] == content(key)[::-1]
        if (action := rng.random()) < 0.1:
            for name in ("a", cache.MANIFEST):
                try:
                    os.truncate(entry / name, 7)
                except FileNotFoundError:
                    break
        elif action < 0.2:
            pruning.prune(store, None)
        elif action < 0.3:
            pruning.list_entries(store)
    os._exit(0)


def test_processes_fetch_damage_list_and_prune_without_errors(tmp_path):
    store = tmp_path / "store"
    processes = [FORK.Process(target=reads, args=(store, seed, time.time() + 6)) for seed in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 4
    for key in KEYS:
        entry = cache.fetch(store, key, build(key))
        assert cache.find_damage(entry) == ""
        assert (entry / "a").read_bytes() == content(key)
    assert hidden(store) == []


def test_an_entry_replaced_between_check_and_rename_is_restored(tmp_path, monkeypatch):
    entry = cache.fetch(tmp_path, KEY, build(KEY))
    os.truncate(entry / "a", 3)
    observed, original = cache.read_entry_state(entry), cache.read_entry_state

    def late(path):
        result = original(path)
        if path == entry and result == observed:
            monkeypatch.setattr(cache, "read_entry_state", original)
            cache.fetch(tmp_path, KEY, build(KEY))
        return result

    monkeypatch.setattr(cache, "read_entry_state", late)
    assert not cache.discard(entry, observed)
    assert cache.find_damage(entry) == ""
    assert hidden(tmp_path) == []


def test_a_killed_owner_releases_its_lock(tmp_path):
    begun = FORK.Event()

    def stuck(folder):
        (folder / "half").write_text("x")
        begun.set()
        time.sleep(600)

    owner = FORK.Process(target=cache.fetch, args=(tmp_path, KEY, stuck))
    owner.start()
    assert begun.wait(60)
    os.kill(owner.pid, signal.SIGKILL)
    owner.join()
    entry = cache.fetch(tmp_path, KEY, build(KEY))  # a deadlock runs into the time limit of the suite
    assert cache.find_damage(entry) == ""
    (leftover,) = hidden(tmp_path)
    assert pruning.prune(tmp_path, None) == []  # too young: its owner might be alive
    long_ago = time.time() - 2 * pruning.MAX_DRAFT_IDLE
    for path in (leftover / "half", leftover):
        os.utime(path, (long_ago, long_ago))
    assert [row[1] for row in pruning.prune(tmp_path, None)] == ["left by a stopped process"]
    assert hidden(tmp_path) == []


def test_a_builder_that_writes_nothing_for_hours_is_no_leftover(tmp_path, monkeypatch):
    """Imitate a training run, whose folder stays empty until its end."""
    monkeypatch.setattr(cache, "TOUCH_INTERVAL", 0.02)

    def build(folder):
        long_ago = time.time() - 2 * pruning.MAX_DRAFT_IDLE
        os.utime(folder, (long_ago, long_ago))
        while folder.stat().st_mtime < time.time() - pruning.MAX_DRAFT_IDLE:  # until a heartbeat
            time.sleep(0.01)
        assert pruning.prune(tmp_path, None) == []
        (folder / "weights").write_text("x")
        return {}

    assert cache.find_damage(cache.fetch(tmp_path, KEY, build)) == ""


def test_a_file_system_that_syncs_no_folders(tmp_path, monkeypatch):
    sync = os.fsync

    def refuse(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(22, "Invalid argument")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    assert cache.find_damage(cache.fetch(tmp_path, KEY, build(KEY))) == ""


def test_a_rename_whose_answer_was_lost(tmp_path, monkeypatch):
    """Imitate NFS, which repeats a request whose answer was lost, and finds nothing to rename."""
    rename = Path.rename

    def twice(path, target):
        rename(path, target)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(Path, "rename", twice)
    entry = cache.fetch(tmp_path, KEY, build(KEY))
    assert cache.find_damage(entry) == ""


def test_an_entry_that_cannot_be_published_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "rename", mock.Mock(side_effect=OSError(28, "No space left")))
    with pytest.raises(InputError, match="No space left"):
        cache.fetch(tmp_path, KEY, build(KEY))


def test_a_folder_on_a_file_system_without_locks(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError(38, "Function not implemented")))
    with lock_folder(tmp_path / "partial", "Make room."):
        assert (tmp_path / "partial").is_dir()
    assert "not locked against other processes (Function not implemented)" in caplog.text
