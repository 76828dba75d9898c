"""Tables that come with precomputed vectors: DIR/{role}.parquet (docs/architecture.md, "Formats")."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from src.errors import InputError, NotApplicable, brief
from src.stimuli.table import Table, checked


def raw(folder: Path, role: str) -> pd.DataFrame:
    """The rows in the order of the file, which is the order of the vectors beside it.

    Raises:
        NotApplicable: the folder holds no table of that role.
        InputError: there is no such folder, or the table is no Parquet file with ids.
    """
    path = folder / f"{role}.parquet"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Set model.path to the folder of the vectors.")
    if not path.is_file():
        there = ", ".join(sorted(item.name for item in folder.iterdir())) or "nothing"
        raise NotApplicable(
            f"{path}: no such file (in the folder: {there}). The experiment needs {role}: add "
            f"{role}.parquet and {role}.safetensors, or choose another experiment."
        )
    try:
        # pandas decodes a text only where it is looked at.
        pq.read_table(path).validate(full=True)
        frame = pd.read_parquet(path)
    except Exception as error:  # pyarrow and pandas raise of everything over what others wrote
        raise InputError(f"{path}: not a Parquet file ({brief(str(error))}). Write it anew.") from None
    named = [str(column) for column in frame.columns]
    if "id" not in named:
        raise InputError(
            f"{path}: no column id; found {brief(', '.join(named))}. Add it: a name for each row."
        )
    if len(set(named)) < len(named):
        twice = next(column for column in named if named.count(column) > 1)
        raise InputError(
            f"{path}: the column {brief(twice)} stands there twice. Rename or delete one of them."
        )
    if frame["id"].isna().any():
        raise InputError(f"{path}: {frame['id'].isna().sum()} rows have no id. Give each row one of its own.")
    return frame.assign(id=frame["id"].astype(str)).reset_index(drop=True)


def load(folder: Path, role: str) -> Table:
    """The stimulus table of one role, sorted by id.

    Raises:
        InputError: see `raw` and `src.stimuli.table.checked`.
    """
    return checked(role, raw(folder, role), str(folder / f"{role}.parquet"))
