"""Check the default remote, a folder of the repository: its objects, and a pull into a clean clone."""

import hashlib
import json
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.clones import Clone, hashes
from tests.paths import CHECKOUT

REMOTE = Path(".dvc", "remote")
MAX_BYTES = 8_000_000


def git(*arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout


def locked_objects(objects: dict[str, bytes]) -> set[str]:
    """Return the names of the objects of outputs that DVC stores: folders, and the files they list."""
    pipeline = yaml.safe_load((CHECKOUT / "dvc.yaml").read_text())["stages"].values()
    outputs = [output for stage in pipeline for key in ("outs", "metrics") for output in stage.get(key, [])]
    in_git = {path for output in outputs if isinstance(output, dict) for path in output}
    stages = yaml.safe_load((CHECKOUT / "dvc.lock").read_text())["stages"].values()
    locked = {output["md5"] for stage in stages for output in stage["outs"] if output["path"] not in in_git}
    folders = [name for name in locked if name.endswith(".dir") and name in objects]
    return locked | {file["md5"] for name in folders for file in json.loads(objects[name])}


def test_git_tracks_the_objects_of_the_lock_and_no_others():
    """Compare git's index with dvc.lock (if they differ: make repro; git add --all --force .dvc/remote)."""
    paths = [CHECKOUT / name for name in git("ls-files", str(REMOTE)).splitlines()]
    objects = {path.parent.name + path.name: path.read_bytes() for path in paths if path.is_file()}
    assert set(objects) == locked_objects(objects)
    for name, content in objects.items():
        assert hashlib.md5(content, usedforsecurity=False).hexdigest() == name.removesuffix(".dir")
    assert sum(map(len, objects.values())) <= MAX_BYTES


def test_the_default_remote_is_verified_and_relative_to_the_config_and_git_ignores_new_objects():
    config = ConfigParser()
    config.read(CHECKOUT / ".dvc" / "config")
    (remote,) = [config[name] for name in config.sections() if config["core"]["remote"] in name]
    assert (CHECKOUT / ".dvc" / remote["url"]) == CHECKOUT / REMOTE  # relative to the config
    assert remote["verify"] == "true"
    new = str(REMOTE / "files" / "md5" / "00" / "new")
    assert git("check-ignore", new).strip() == new


# Records its arguments; the listing has the default remote and its place.
DVC = """#!/bin/sh
echo "$*" >> log
case "$*" in "remote default") echo {name};; "remote list") echo "{name}  {place} (default)";; esac
"""


@pytest.mark.parametrize(
    ("dataset", "name", "place", "pushes"),
    [
        ("demo", "repository", REMOTE, True),
        ("photos", "repository", REMOTE, False),
        ("demo", "repository", "elsewhere", False),
        ("demo", "store", "elsewhere", False),
    ],
)
def test_make_repro_pushes_the_demo_alone_and_to_the_repository_alone(tmp_path, dataset, name, place, pushes):
    for file in ("Makefile", "requirements.txt"):
        (tmp_path / file).write_bytes((CHECKOUT / file).read_bytes())
    (tmp_path / "params.yaml").write_text(f"dataset: {dataset}\n")
    (tmp_path / REMOTE).mkdir(parents=True)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "dvc").write_text(DVC.format(name=name, place=tmp_path / place))
    (tmp_path / ".venv" / "bin" / "dvc").chmod(0o755)
    (tmp_path / ".venv" / "ready").write_text(f"{tmp_path}\n")
    subprocess.run(["make", "repro"], cwd=tmp_path, capture_output=True, check=True)
    commands = (tmp_path / "log").read_text().splitlines()
    assert commands[0] == "repro"
    assert ("push dvc.yaml" in commands) == pushes
    assert (tmp_path / REMOTE).exists() != pushes  # emptied before the push


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Clone:
    """Clone a copy of the checkout, and pull."""
    folder = tmp_path_factory.mktemp("default_remote")
    clone = Clone.of_the_checkout(folder / "origin").clone(folder / "clone")
    assert clone.hashes("data") == clone.hashes("outputs") == {}
    assert "files fetched" in clone.dvc("pull")
    return clone


@pytest.mark.thorough
def test_a_clean_clone_has_nothing_to_do_after_a_pull(clone):
    clone.check_up_to_date()


@pytest.mark.thorough
def test_pictures_and_vectors_are_made_again_without_training(clone, tmp_path):
    again = clone.recomputed("toy_s", tmp_path / "again")
    assert (again.code, again.trained) == (0, 0)
    assert again.passes > 0
    # Other processors round vectors differently.
    rho = [swept.analyses()["rho"] for swept in (again, clone.written("toy_s"))]
    np.testing.assert_allclose(*rho, atol=0.01)


def make_repro(clone: Clone) -> None:
    """Run `make repro` in a clone with the environment of the tests."""
    environment = clone.root / ".venv"
    environment.mkdir(exist_ok=True)
    (environment / "ready").write_text(f"{clone.root}\n")
    if not (environment / "bin").exists():
        (environment / "bin").symlink_to(Path(sys.executable).parent)
    clone.run("make", "repro")


@pytest.mark.thorough
def test_make_repro_renews_the_default_remote_and_no_other(clone):
    folder = clone.root / REMOTE
    before = hashes(folder)
    stray = folder / "files" / "md5" / "00" / "stray"
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"of an earlier run")
    (folder / next(iter(before))).unlink()
    make_repro(clone)
    assert hashes(folder) == before
    assert clone.run("git", "status", "--porcelain") == ""
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"of an earlier run")
    clone.dvc("remote", "add", "--local", "--default", "store", str(clone.remote))
    make_repro(clone)
    assert stray.exists()
    assert not clone.remote.exists()
