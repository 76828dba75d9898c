"""Describe published datasets (public_datasets.yaml), and count the files that are present."""

import importlib.util
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from src.errors import InputError, did_you_mean

# States of a dataset; OTHER_COUNTS: enough files for an edition, but not the counts of any edition.
PRESENT, PARTIAL, OTHER_COUNTS, ABSENT = "present", "partly", "other counts", "absent"
PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class Requirement:
    """Required number of files, folders or rows of tables of a dataset."""

    kind: str  # files, folders, rows (of csv, tsv or Parquet files) or members (of tars)
    pattern: str  # glob in the dataset's folder: of the files, folders, tables or tars
    counts: tuple[int, ...] | range  # required number, by edition or between two bounds

    def describe_counts(self) -> str:
        """Describe the required number in words."""
        if isinstance(self.counts, range):
            return f"{self.counts[0]:,} to {self.counts[-1]:,}"
        return " or ".join(f"{required:,}" for required in self.counts)


@dataclass(frozen=True)
class RemoteFile:
    """A file that can be fetched without a form or login."""

    url: str
    name: str
    bytes: int | None  # size; None if unknown
    sha256: str | None  # hash; None if unknown
    at_most: int  # maximum number of bytes of a file of unknown size, and of an unpacked archive
    # Pattern of a file or folder to take from an archive -> its name in the dataset's folder.
    take: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AddressTable:
    """A tsv among the dataset's files that lists the addresses of further files."""

    table: str  # name of the tsv
    address: str  # column of the addresses
    name: str  # column of the names to give to the files, without suffix
    folder: str  # folder of these files, in the dataset's folder
    at_most: int  # maximum number of bytes of a file


@dataclass(frozen=True)
class Dataset:
    """A published dataset."""

    name: str  # name on the command line, and of the folder below the root
    title: str
    citation: str  # authors and year
    address: str  # publisher's page
    form: bool  # whether the publisher requires a form, a signed licence or a login
    terms: str
    layout: str  # description of the folder's layout, for users who fill it by hand
    needs: tuple[Requirement, ...]
    files: tuple[RemoteFile, ...] = ()  # files to fetch; empty if users must fetch them by hand
    package: str | None = None  # Python package that contains the dataset, if any
    addresses: tuple[AddressTable, ...] = ()  # pictures to fetch one by one

    def folder(self, root: Path) -> Path:
        """Return the folder in which the dataset is expected."""
        spec = importlib.util.find_spec(self.package) if self.package else None
        return Path(spec.origin).parent if spec and spec.origin else root / self.name


@dataclass(frozen=True)
class DatasetStatus:
    """Content of a dataset on disk: the count of each requirement."""

    dataset: Dataset
    folder: Path
    counts: dict[Requirement, int]

    @property
    def state(self) -> str:
        """Return the state of the dataset, by its counts."""
        if all(count in requirement.counts for requirement, count in self.counts.items()):
            return PRESENT
        if not any(self.counts.values()):
            return ABSENT
        is_partial = any(count < min(requirement.counts) for requirement, count in self.counts.items())
        return PARTIAL if is_partial else OTHER_COUNTS


@cache
def load_datasets() -> dict[str, Dataset]:
    """Load the datasets of public_datasets.yaml, by name, in the order of the file."""
    from omegaconf import OmegaConf

    content: Any = OmegaConf.to_container(OmegaConf.load(Path(__file__).with_suffix(".yaml")))
    by_name = {}
    for name, entry in content.items():
        needs = tuple(
            Requirement(kind, pattern, _parse_counts(counts))
            for kind, patterns in entry.pop("needs").items()
            for pattern, counts in patterns.items()
        )
        files = tuple(RemoteFile(**file) for file in entry.pop("files", []))
        addresses = tuple(AddressTable(**table) for table in entry.pop("addresses", []))
        by_name[name] = Dataset(name=name, needs=needs, files=files, addresses=addresses, **entry)
    return by_name


def _parse_counts(counts: int | list[int] | str) -> tuple[int, ...] | range:
    """Parse a number, several numbers, or a text such as "9000 to 10319".

    >>> _parse_counts(5), _parse_counts("3 to 4")
    ((5,), range(3, 5))
    """
    if isinstance(counts, str):
        low, high = map(int, counts.split(" to "))
        return range(low, high + 1)
    return tuple(counts) if isinstance(counts, list) else (counts,)


def select_datasets(names: Iterable[str]) -> list[Dataset]:
    """Return the datasets with the given names (all without names); raise `InputError` for unknown names."""
    by_name = load_datasets()
    for name in names:
        if name not in by_name:
            raise InputError(f"{name}: no dataset.{did_you_mean(name, by_name)} Known: {', '.join(by_name)}.")
    return [by_name[name] for name in names or by_name]


def format_command(subcommand: str, dataset: Dataset, root: Path) -> str:
    """Return the command line of a subcommand (`fetch` or `status`) for a dataset in `root`."""
    return shlex.join(["python", "-m", "src.stimuli", subcommand, dataset.name, "--root", str(root)])


def read_status(dataset: Dataset, root: Path) -> DatasetStatus:
    """Count the files, folders, rows and members of a dataset in `root`, without decoding pictures."""
    folder = dataset.folder(root)
    return DatasetStatus(dataset, folder, {need: _count(need, folder) for need in dataset.needs})


def _count(requirement: Requirement, folder: Path) -> int:
    # The shadow files of a Mac, `._NAME`, do not count.
    paths = (path for path in folder.glob(requirement.pattern) if not path.name.startswith("._"))
    if requirement.kind == "folders":
        return sum(path.is_dir() for path in paths)
    files = [path for path in paths if path.is_file()]
    if requirement.kind == "members":
        return sum(map(_count_pictures, files))
    if requirement.kind != "rows":
        return len(files)
    rows = sum(_count_parquet_rows(file) for file in files if file.suffix == ".parquet")
    for table in (file for file in files if file.suffix != ".parquet"):
        # Lines of ratings or labels contain a digit, headers do not. Universal newlines are needed, as lines
        # of OASIS.csv end in a lone carriage return.
        with table.open(encoding="utf-8", errors="replace", newline=None) as file:
            rows += sum(any(map(str.isdigit, line)) for line in file)
    return rows


def _count_pictures(tar: Path) -> int:
    """Count the pictures in a tar; 0 in a damaged file."""
    from src.stimuli.shards import list_tar_members

    try:
        names = list_tar_members(tar, "--root")
    except InputError:
        return 0
    return sum(name.lower().endswith(PICTURE_SUFFIXES) for name in names if "/._" not in name)


def _count_parquet_rows(path: Path) -> int:
    """Count the rows of a Parquet file, by its metadata; 0 in a damaged file."""
    import pyarrow.parquet as pq

    try:
        rows: int = pq.read_metadata(path).num_rows
    except Exception:  # pyarrow raises exceptions of any type over damaged files
        return 0
    return rows
