"""Where a run's numbers come from."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from src.storage.versions import versions as installed

# Libraries that move numbers or say where they are kept.
LIBRARIES = (
    *("torch", "open_clip_torch", "transformers", "numpy", "scipy", "pandas"),
    *("hydra-core", "mlflow"),
)


def versions() -> dict[str, str]:
    """Tags `version.LIBRARY` of the libraries that compute."""
    return {f"version.{name}": said for name, said in installed(*LIBRARIES).items()}


@cache
def commit(checkout: Path) -> dict[str, str]:
    """Tags `git.commit` and `git.dirty` of a checkout; `unknown` where no repository begins there."""
    unknown = {"git.commit": "unknown", "git.dirty": "unknown"}

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else "unknown"

    try:
        if git("rev-parse", "--show-prefix"):  # installed below somebody's repository
            return unknown
        return {
            "git.commit": git("rev-parse", "HEAD"),
            "git.dirty": {"": "false", "unknown": "unknown"}.get(git("status", "--porcelain"), "true"),
        }
    except OSError:  # no git on this machine
        return unknown
