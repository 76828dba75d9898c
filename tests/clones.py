"""Run the pipeline in clones of the checkout, each as if on another machine."""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from src import stage
from tests.commands import Swept, command
from tests.paths import CHECKOUT

NAMES = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")


def tracked_files() -> list[str]:
    """List the files of the checkout that git tracks or would add."""
    listing = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(listing, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (CHECKOUT / name).is_file()]


def hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@dataclass(frozen=True)
class Clone:
    """A clone of the checkout; the settings and caches of DVC for it lie next to it."""

    root: Path

    @classmethod
    def of_the_checkout(cls, root: Path) -> "Clone":
        """Copy all that git tracks or would add, so that a dirty tree is tested as it is."""
        for name in tracked_files():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes((CHECKOUT / name).read_bytes())
        clone = cls(root)
        clone.run("git", "init", "--quiet")
        clone.run("git", "add", "--all", "--force")  # new objects of the default remote are ignored
        clone.commit()
        return clone

    def clone(self, root: Path) -> "Clone":
        self.run("git", "clone", "--quiet", str(self.root), str(root))
        return Clone(root)

    def commit(self) -> None:
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", "a state")

    def dvc(self, *arguments: str, fails: bool = False) -> str:
        return self.run(sys.executable, "-m", "dvc", *arguments, fails=fails)

    def run(self, *arguments: str, fails: bool = False) -> str:
        """Return the output of a command, after checking that it succeeds, or fails where `fails`."""
        machine = self.root.with_name(f"{self.root.name}-machine")
        environment = {
            **os.environ,
            **{f"GIT_{name}": "nobody@localhost" for name in NAMES},
            **{f"DVC_{name}_DIR": str(machine) for name in ("GLOBAL_CONFIG", "SYSTEM_CONFIG", "SITE_CACHE")},
            **{f"AWS_{name}": "testing" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")},
            **{"GIT_CONFIG_GLOBAL": os.devnull, "DVC_NO_ANALYTICS": "1", "AWS_DEFAULT_REGION": "us-east-1"},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.root),  # stages run the clone's code
        }
        done = subprocess.run(
            arguments, cwd=self.root, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert bool(done.returncode) == fails, f"{arguments} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def check_up_to_date(self) -> None:
        """Check that DVC has nothing to do, and git nothing to commit."""
        assert "up to date" in self.dvc("status")
        printed = self.dvc("repro")
        assert "Running stage" not in printed
        assert "up to date" in printed
        assert self.run("git", "status", "--porcelain") == ""

    @property
    def remote(self) -> Path:
        """Return the folder next to the first clone that DVC pushes to."""
        return self.root.with_name("remote")

    @property
    def params(self) -> dict[str, Any]:
        return yaml.safe_load((self.root / "params.yaml").read_text())

    def written(self, model: str) -> Swept:
        """Return the results that the pipeline wrote for a model."""
        return Swept(0, self.root / "outputs" / "repro" / self.params["dataset"] / model, 0, 0)

    def recomputed(self, model: str, output: Path) -> Swept:
        """Run the pipeline's experiments on a model again, with the stores of this clone."""
        pipeline = yaml.safe_load((self.root / "dvc.yaml").read_text())
        (names,) = [entry["analysed"] for entry in pipeline["vars"] if "analysed" in entry]
        dataset, data = self.params["dataset"], self.root / "data"
        return command(
            output,
            *("-m", "exp=glob(*_to_*)", "resume=false"),
            *stage.read_overrides(names.split(","), self.root / "params.yaml"),
            f"model={model}",
            f"dataset.root={data / 'raw'}",
            f"store.stimuli={data / 'stimuli' / dataset}",
            f"store.morphs={data / 'morphs' / dataset}",
            f"store.checkpoints={data / 'checkpoints' / dataset / model}",
            f"store.dir={self.root / self.params['vectors'] / dataset / model}",
            f"tracking.uri=sqlite:///{output}/mlruns/mlflow.db",
        )

    def hashes(self, folder: str) -> dict[str, str]:
        """Return the SHA-256 of every file below a folder."""
        return {f"{folder}/{name}": digest for name, digest in hashes(self.root / folder).items()}
