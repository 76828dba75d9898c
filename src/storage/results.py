"""What a job leaves in its output folder: `results/`, all of it or nothing.

See docs/architecture.md, "Formats".
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from src.errors import InputError, refused
from src.storage.cache import file_hash, fingerprint

FOLDER = "results"
ANALYSES = "analyses.csv"
TEXTS = (
    *("study", "exp", "paper", "model", "dataset", "debias", "protocol", "config"),
    *("group", "stratum", "reason"),
    *("attribute", "measure", "group_a", "group_b"),
    *("taxonomy", "category", "word", "type", "caption", "axis"),
    *("coding", "domain", "direction", "gender"),
    *("pool", "shared"),
    *("intrinsic_label", "extrinsic_label"),
)
# Column that is never empty in rows of a study -> the study: for files without the column `study`.
STUDY_OF_COLUMN = {
    **{"stratum": "propagation", "attribute": "implicit", "accuracy": "zero_shot", "caption": "sobit"},
    **{"direction": "subtler", "pool": "poems"},
}
COUNTS = ("n_all", "placebo_n", "n_rest")


def named(columns: Mapping[str, object], analyses: pd.DataFrame) -> pd.DataFrame:
    """Analyses behind the first columns of their job."""
    return pd.concat([pd.DataFrame([columns] * len(analyses)), analyses], axis=1)


def write(
    output: Path,
    analyses: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    sheets: Mapping[str, pd.DataFrame] | None = None,
) -> None:
    """Write the files of a job.

    Args:
        output: folder of the job.
        analyses: one row per analysis.
        tables: name -> content of each parquet beside it.
        sheets: name -> content of each csv beside it.
    """
    with _draft(output) as draft:
        (draft / FOLDER).mkdir()
        analyses.to_csv(draft / FOLDER / ANALYSES, index=False)
        for name, table in tables.items():
            table.to_parquet(draft / FOLDER / f"{name}.parquet", index=False)
        for name, sheet in (sheets or {}).items():
            sheet.to_csv(draft / FOLDER / f"{name}.csv", index=False)


def take_over(output: Path, fetch: Callable[[Path], object], digested: str) -> None:
    """Write the files of a job that was finished elsewhere.

    Args:
        output: folder of the job.
        fetch: puts the files' folder into a folder.
        digested: what `digest` must say of them.

    Raises:
        OSError: they cannot be fetched, or are not what was written.
    """
    with _draft(output) as draft:
        fetch(draft)
        if digest(draft) != digested:
            raise OSError("other content than was written")


def digest(output: Path) -> str:
    """Hash of all files of `results/`."""
    return fingerprint({path.name: file_hash(path) for path in (output / FOLDER).iterdir()})


def read(output: Path) -> pd.DataFrame:
    """The analyses of a job as they were written, to the last bit.

    Raises:
        OSError: there are none.
    """
    return read_csv(output / FOLDER / ANALYSES)


def read_csv(path: Path) -> pd.DataFrame:
    """An analyses.csv, of one job or of many.

    Raises:
        OSError: there is none.
    """
    # A group may be called "NA"; a hash may look like a number.
    types: dict[str, Any] = {**dict.fromkeys(TEXTS, str), **dict.fromkeys(COUNTS, "Int64")}
    found: pd.DataFrame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    # Empty, but no missing value.
    empty = {name: found[name].fillna("") for name in ("paper", "reason") if name in found}
    return _with_study(found.assign(**empty))


def _with_study(analyses: pd.DataFrame) -> pd.DataFrame:
    """Add the column `study` to a file from before there was one: each study had a column of its own."""
    if "study" in analyses:
        return analyses
    study = pd.Series("", analyses.index, dtype=object)
    for column, name in STUDY_OF_COLUMN.items():
        if column in analyses:
            study[analyses[column].notna()] = name
    analyses.insert(0, "study", study)
    return analyses


@contextmanager
def _draft(output: Path) -> Iterator[Path]:
    draft = output / f".{FOLDER}.{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        yield draft
        target = output / FOLDER
        if target.exists():
            target.rename(draft / "replaced")
        (draft / FOLDER).rename(target)
    except OSError as error:
        if not (why := refused(error)):
            raise
        raise InputError(
            f"{output}: results cannot be written ({why}). Make room; the same command goes on."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
