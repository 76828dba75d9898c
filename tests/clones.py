"""Clones of the checkout in which the pipeline runs, each as if on a machine of its own."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from src import stage
from tests.commands import Swept, command
from tests.paths import CHECKOUT

NAMES = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")


def tracked_files() -> list[str]:
    """List what git holds of the checkout, or would take."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    names = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    return [name for name in names.split("\0") if name and (CHECKOUT / name).is_file()]


@dataclass(frozen=True)
class Clone:
    """A clone and what DVC keeps of it outside of it."""

    root: Path

    @classmethod
    def of_the_checkout(cls, root: Path) -> "Clone":
        """All that git holds or would take, committed anew: a dirty tree is tested as it stands."""
        for name in tracked_files():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes((CHECKOUT / name).read_bytes())
        clone = cls(root)
        clone.run("git", "init", "--quiet")
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
        """What a command says, which has to succeed or to fail."""
        machine = self.root.with_name(f"{self.root.name}-machine")
        environment = {
            **os.environ,
            **{f"GIT_{name}": "nobody@localhost" for name in NAMES},
            **{f"DVC_{name}_DIR": str(machine) for name in ("GLOBAL_CONFIG", "SYSTEM_CONFIG", "SITE_CACHE")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "DVC_NO_ANALYTICS": "1",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(self.root),  # the stages are the clone's
        }
        done = subprocess.run(
            arguments,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert bool(done.returncode) == fails, f"{arguments} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    @property
    def params(self) -> dict[str, Any]:
        return yaml.safe_load((self.root / "params.yaml").read_text())

    def written(self, model: str) -> Swept:
        """What the pipeline wrote of a model."""
        return Swept(0, self.root / "outputs" / "repro" / self.params["dataset"] / model, 0, 0)

    def recomputed(self, model: str, output: Path) -> Swept:
        """The pipeline's experiments of a model, from this clone's stores."""
        described = yaml.safe_load((self.root / "dvc.yaml").read_text())
        (names,) = [entry["analysed"] for entry in described["vars"] if "analysed" in entry]
        dataset, data = self.params["dataset"], self.root / "data"
        return command(
            output,
            *("-m", "exp=glob(*_to_*)", "resume=false"),
            *stage.chosen(names.split(","), self.root / "params.yaml"),
            f"model={model}",
            f"dataset.root={data / 'raw'}",
            f"store.stimuli={data / 'stimuli' / dataset}",
            f"store.morphs={data / 'morphs' / dataset}",
            f"store.checkpoints={data / 'checkpoints' / dataset / model}",
            f"store.dir={data / 'embeddings' / dataset / model}",
            f"tracking.uri=sqlite:///{output}/mlruns/mlflow.db",
        )

    def hashes(self, folder: str) -> dict[str, str]:
        """SHA-256 of every file below a folder."""
        return {
            str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((self.root / folder).rglob("*"))
            if path.is_file()
        }


@dataclass(frozen=True)
class Remote:
    """A place that DVC pushes to, seen past DVC."""

    name: str
    url: str
    read: Callable[[str], bytes]
    write: Callable[[str, bytes], object]
    remove: Callable[[str], object]


def folder(root: Path) -> Remote:
    """A folder, as on a shared disk."""

    def write(name: str, content: bytes) -> None:
        remove(name)  # what DVC puts there may not be written
        (root / name).write_bytes(content)

    def remove(name: str) -> None:
        (root / name).unlink(missing_ok=True)

    return Remote("folder", str(root), lambda name: (root / name).read_bytes(), write, remove)


def s3(client: Any, bucket: str) -> Remote:
    """A bucket."""
    return Remote(
        "s3",
        f"s3://{bucket}/below",
        lambda name: client.get_object(Bucket=bucket, Key=f"below/{name}")["Body"].read(),
        lambda name, content: client.put_object(Bucket=bucket, Key=f"below/{name}", Body=content),
        lambda name: client.delete_object(Bucket=bucket, Key=f"below/{name}"),
    )
