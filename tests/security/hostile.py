"""Files that would run code if they were let."""

import pickle
from pathlib import Path

import torch


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def pickled(mark: Path) -> bytes:
    return pickle.dumps(Harmful(mark))


def saved(mark: Path, path: Path, **state) -> Path:
    """What torch.save makes of tensors and of an object that is none."""
    torch.save({**state, "extra": Harmful(mark)}, path)
    return path


def yamled(mark: Path) -> tuple[str, ...]:
    """YAMLs whose tags would make objects of Python."""
    return (
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]",
        f"!!python/object/apply:os.system ['touch {mark}']",
        f"!!python/object/new:os.system ['touch {mark}']",
        f"!!python/object/apply:subprocess.check_output [['touch', '{mark}']]",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
    )
