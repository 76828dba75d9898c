"""Which code ran."""

import subprocess

import pytest

from src import configs
from src.tracking import commit
from tests.paths import CHECKOUT

UNKNOWN = {"git.commit": "unknown", "git.dirty": "unknown"}


@pytest.fixture
def repository(tmp_path):
    """A repository of somebody's, with one commit and a folder in which packages are installed."""
    (tmp_path / "packages").mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for arguments in (["init"], ["commit", "--allow-empty", "--message", "a state"]):
        subprocess.run([*git, *arguments, "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_the_commit_is_the_checkout_s():
    assert configs.CODE == CHECKOUT
    assert len(commit(CHECKOUT)["git.commit"]) == 40


def test_a_repository_of_the_user_s_around_the_installed_code_is_not_its_commit(repository):
    assert commit(repository)["git.commit"] != "unknown"
    assert commit(repository / "packages") == UNKNOWN


def test_no_repository_is_no_commit(tmp_path):
    assert commit(tmp_path) == UNKNOWN
