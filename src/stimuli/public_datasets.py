"""What is known of published datasets (public_datasets.yaml), and what of one is there."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from src.errors import InputError

PRESENT, PARTLY, OTHER, ABSENT = "present", "partly", "other counts", "absent"


@dataclass(frozen=True)
class Need:
    """What belongs to a dataset: so many files, folders, or rows of a table.

    Attributes:
        kind: "files", "folders" or "rows".
        pattern: glob below the dataset's folder; of rows, of the tables.
        counts: each of which is a whole one, as editions differ.
    """

    kind: str
    pattern: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class File:
    """A file that may be fetched without asking anybody.

    Attributes:
        bytes, sha256: None where unknown.
        at_most: bytes that it may have where unknown, and all members of an archive together.
        take: of an archive: pattern of one file or folder in it -> name below the dataset's folder.
    """

    url: str
    name: str
    bytes: int | None
    sha256: str | None
    at_most: int
    take: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dataset:
    """A published dataset.

    Attributes:
        name: on the command line, and of its folder below the root.
        title: as it is known.
        citation: who published it, and when.
        address: its publisher's page.
        form: whether the publisher asks for a form, a licence signed, or a login.
        terms: as stated.
        layout: how the folder must look, where one lays it out by hand.
        needs: what belongs to it.
        files: what may be fetched; none where one must do it by hand.
        package: whose folder it lies in, where it comes with a Python package.
    """

    name: str
    title: str
    citation: str
    address: str
    form: bool
    terms: str
    layout: str
    needs: tuple[Need, ...]
    files: tuple[File, ...] = ()
    package: str | None = None

    def folder(self, root: Path) -> Path:
        """Where it is looked for."""
        found = importlib.util.find_spec(self.package) if self.package else None
        return Path(found.origin).parent if found and found.origin else root / self.name


@dataclass(frozen=True)
class Standing:
    """How much of a dataset is there.

    Attributes:
        counts: of each need, what was found.
    """

    dataset: Dataset
    folder: Path
    counts: dict[Need, int]

    @property
    def state(self) -> str:
        """One word for all counts."""
        if all(count in need.counts for need, count in self.counts.items()):
            return PRESENT
        if not any(self.counts.values()):
            return ABSENT
        return PARTLY if any(count < min(need.counts) for need, count in self.counts.items()) else OTHER


@cache
def datasets() -> dict[str, Dataset]:
    """Every dataset of public_datasets.yaml, by name, in its order."""
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(OmegaConf.load(Path(__file__).with_suffix(".yaml")))
    return {name: _dataset(name, entry) for name, entry in content.items()}


def chosen(names: Iterable[str]) -> list[Dataset]:
    """The datasets of these names; all where none is named.

    Raises:
        InputError: there is none of that name; the nearest is suggested.
    """
    from difflib import get_close_matches

    known = datasets()
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            raise InputError(
                f"{name}: no dataset is called so{f'; did you mean {near[0]}?' if near else '.'} "
                f"There are {', '.join(known)}."
            )
    return [known[name] for name in names or known]


def command(what: str, dataset: Dataset, root: Path) -> str:
    """Write the command that does `what` (`fetch`, `status`) with a dataset below `root`."""
    return shlex.join(["python", "-m", "src.stimuli", what, dataset.name, "--root", str(root)])


def standing(dataset: Dataset, root: Path) -> Standing:
    """Count what is there of a dataset below `root`; nothing is decoded."""
    folder = dataset.folder(root)
    return Standing(dataset, folder, {need: _count(need, folder) for need in dataset.needs})


def _count(need: Need, folder: Path) -> int:
    # What a Mac leaves beside a file, `._NAME`, is none.
    found = (path for path in folder.glob(need.pattern) if not path.name.startswith("._"))
    if need.kind == "folders":
        return sum(path.is_dir() for path in found)
    files = [path for path in found if path.is_file()]
    return sum(map(_rows, files)) if need.kind == "rows" else len(files)


def _rows(table: Path) -> int:
    """Lines of ratings or labels; a header has no digit, every such line has."""
    # Universal newlines: OASIS.csv ends its lines in a lone carriage return.
    with table.open(encoding="utf-8", errors="replace", newline=None) as file:
        return sum(any(map(str.isdigit, line)) for line in file)


def _dataset(name: str, entry: dict[str, Any]) -> Dataset:
    needs = tuple(
        Need(kind, pattern, tuple(counts) if isinstance(counts, list) else (counts,))
        for kind, patterns in entry.pop("needs").items()
        for pattern, counts in patterns.items()
    )
    files = tuple(File(**file) for file in entry.pop("files", []))
    return Dataset(name=name, needs=needs, files=files, **entry)
