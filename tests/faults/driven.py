"""Commands on a tiny world, run by a server of forks, and what they leave."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.paths import CHECKOUT

WORLD = [
    "faces.per_group=4",
    "faces.size=24",
    "scenes.count=14",
    "scenes.size=24",
    "words.count=30",
    "templates=['This is the word {}','That is the word {}']",
    *(f"labels.race_words.{people}=[{people.lower()}]" for people in ("Niffite", "Luupite", "Laapian")),
]
MODEL = [
    "model=toy_s",
    "model.steps=4",
    "model.pairs=16",
    "model.image_size=16",
    "model.patch_size=8",
    "model.width=32",
    "model.embed_dim=16",
    "trainer=cpu",
    "trainer.workers=0",
]
PROTOCOL = [
    "protocol.k=7",
    "protocol.extremes=4",
    "protocol.set_size=6",
    "protocol.placebo=9",
    "protocol.bootstrap=20",
    "protocol.attribute_draws=2",
    "protocol.property_draws=4",
]

# What takes longest to import: once, rather than in the first child and then here.
HEAVY = ("src.tracking", "mlflow", "src.demo.toys", "src.report.page")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: exit status; negative: the signal.
        said: what it printed.
        steps: changes to files and commits that were begun.
        step: the last of them.
        seconds: it took.
        orphans: seconds that its workers outlived it.
    """

    status: int
    said: str
    steps: int
    step: str
    seconds: float
    orphans: float


class Server:
    """Runs commands in forks of one warm process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "PYTHONPATH": str(CHECKOUT)}
        environment.pop("PYTEST_CURRENT_TEST", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=CHECKOUT, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.ask(warm=HEAVY)

    def ask(self, **asked: object) -> dict:
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, entry: str, *arguments: str, **options: object) -> Ended:
        """Run a command.

        Options: `die_at`: a step; `kill_after`, `limit`: seconds; `alone`: once there are more than so many
        processes, the first alone is killed; `clock`: seconds that it is off; `largest`: bytes of a file.
        """
        log = self.folder / "log.txt"
        answer = self.ask(
            entry=entry, arguments=list(arguments), folder=str(self.folder), log=str(log), **options
        )
        return Ended(said=log.read_text("utf-8", "replace"), **answer)

    def warm(self, modules: Path) -> None:
        """Import what a command turned out to need."""
        self.ask(warm=json.loads(modules.read_text()))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
