"""Write and read the folder `results/` of a job, complete or not at all.

See docs/architecture.md, "Formats".
"""

import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from src.errors import InputError, write_refusal
from src.storage.cache import file_hash, fingerprint

FOLDER = "results"
ANALYSES = "analyses.csv"
# Columns of analyses.csv that are read as text, even if all their values look like numbers.
TEXT_COLUMNS = (
    *("study", "exp", "paper", "model", "dataset", "debias", "perturb", "protocol", "config"),
    *("group", "stratum", "reason", "reliability_reason"),
    *("attribute", "measure", "group_a", "group_b"),
    *("taxonomy", "category", "word", "type", "caption", "axis"),
    *("coding", "domain", "direction", "gender"),
    *("pool", "shared"),
    *("test", "order", "set_x", "set_y", "set_a", "set_b", "p_method"),
    *("intrinsic_label", "extrinsic_label"),
    *("subject", "verdict"),
    *("classes", "kind", "worst"),
)
# Names of a job that older files lack -> what they then are.
LATER_NAMES = {"perturb": "none"}
# Column that only rows of one study fill -> that study; used for older files without the column `study`.
STUDY_OF_COLUMN = {
    **{"stratum": "propagation", "attribute": "implicit", "accuracy": "zero_shot", "caption": "sobit"},
    **{"direction": "subtler", "pool": "poems"},
}
# Columns of integers, in which values may be missing.
COUNT_COLUMNS = ("n_all", "placebo_n", "n_rest", "partitions", "sets")


def with_job_columns(columns: Mapping[str, object], analyses: pd.DataFrame) -> pd.DataFrame:
    """Return a job's analyses with the job's columns (`NamedConfig.columns`) prepended."""
    return pd.concat([pd.DataFrame([columns] * len(analyses)), analyses], axis=1)


def write(
    output: Path,
    analyses: pd.DataFrame,
    tables: Mapping[str, pd.DataFrame],
    csvs: Mapping[str, pd.DataFrame] | None = None,
) -> None:
    """Write the folder `results/` of a job: analyses.csv, `tables` by name as parquet and `csvs` as csv."""
    with _make_draft(output) as draft:
        (draft / FOLDER).mkdir()
        analyses.to_csv(draft / FOLDER / ANALYSES, index=False)
        for name, table in tables.items():
            table.to_parquet(draft / FOLDER / f"{name}.parquet", index=False)
        for name, table in (csvs or {}).items():
            table.to_csv(draft / FOLDER / f"{name}.csv", index=False)


def reuse(output: Path, fetch: Callable[[Path], object], expected_digest: str) -> None:
    """Copy the results of a job that finished earlier; `fetch` copies its `results/` into a given folder.

    Raises `OSError` if the files cannot be fetched or their digest differs from the expected one.
    """
    with _make_draft(output) as draft:
        fetch(draft)
        if compute_digest(draft) != expected_digest:
            raise OSError("the content has changed")


def compute_digest(output: Path) -> str:
    """Return the hash of all files of `results/`."""
    return fingerprint({path.name: file_hash(path) for path in (output / FOLDER).iterdir()})


def read(output: Path) -> pd.DataFrame:
    """Read the analyses.csv of a job, with exactly the values written; raise `OSError` if it is missing."""
    return read_csv(output / FOLDER / ANALYSES)


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table of analyses, of one job or of many; raise `OSError` if the file does not exist."""
    # A group may be called "NA"; a hash may look like a number.
    types: dict[str, Any] = {**dict.fromkeys(TEXT_COLUMNS, str), **dict.fromkeys(COUNT_COLUMNS, "Int64")}
    analyses: pd.DataFrame = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    # In these columns an empty cell is an empty text, not a missing value.
    for name in {"paper", "reason"} & {*analyses}:
        analyses[name] = analyses[name].fillna("")
    if "study" not in analyses:  # an older file: each study has a column of its own
        study = pd.Series("", analyses.index, dtype=object)
        for column, name in STUDY_OF_COLUMN.items():
            if column in analyses:
                study[analyses[column].notna()] = name
        analyses.insert(0, "study", study)
    for name, value in LATER_NAMES.items():
        if name not in analyses:
            position = [*analyses, "debias"].index("debias") + 1
            analyses.insert(min(position, len(analyses.columns)), name, value)
    return analyses


@contextmanager
def _make_draft(output: Path) -> Iterator[Path]:
    """Yield an empty folder; when the block exits, its subfolder `results/` replaces that of `output`."""
    draft = output / f".{FOLDER}.{uuid.uuid4().hex}"
    try:
        draft.mkdir(parents=True)
        yield draft
        target = output / FOLDER
        if target.exists():
            target.rename(draft / "replaced")
        (draft / FOLDER).rename(target)
    except OSError as error:
        if not (why := write_refusal(error)):
            raise
        raise InputError(
            f"{output}: results cannot be written ({why}). Free disk space, and run the same command again."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
