"""Load stimulus tables of precomputed vectors, DIR/{role}.parquet (docs/architecture.md, "Formats")."""

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from src.errors import InputError, NotApplicable, brief
from src.stimuli.table import Table, build_table


def read_rows(folder: Path, role: str) -> pd.DataFrame:
    """Read the rows in the order of the file, which is that of the vectors in the same folder.

    Raises:
        NotApplicable: the folder has no table of that role.
        InputError: the folder is missing, or the table is not a Parquet file with ids.
    """
    path = folder / f"{role}.parquet"
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder. Set model.path to the folder of the vectors.")
    if not path.is_file():
        content = ", ".join(sorted(item.name for item in folder.iterdir())) or "nothing"
        raise NotApplicable(
            f"{path}: no such file (in the folder: {content}). The experiment needs {role}: add "
            f"{role}.parquet and {role}.safetensors, or choose another experiment."
        )
    try:
        # pandas decodes text lazily: invalid text would be noticed only when it is used.
        pq.read_table(path).validate(full=True)
        frame = pd.read_parquet(path)
    except Exception as error:  # pyarrow and pandas raise exceptions of any type over damaged files
        raise InputError(f"{path}: not a Parquet file ({brief(str(error))}). Write it again.") from None
    columns = [str(column) for column in frame.columns]
    if "id" not in columns:
        raise InputError(f"{path}: no column id; found {brief(', '.join(columns))}. Add unique ids.")
    if len(set(columns)) < len(columns):
        repeated = next(column for column in columns if columns.count(column) > 1)
        raise InputError(f"{path}: the column {brief(repeated)} occurs twice. Rename or delete one of them.")
    if frame["id"].isna().any():
        raise InputError(f"{path}: {frame['id'].isna().sum()} rows have no id. Give each row a unique one.")
    return frame.assign(id=frame["id"].astype(str)).reset_index(drop=True)


def load(folder: Path, role: str) -> Table:
    """Load the stimulus table of one role, sorted by id.

    Raises:
        InputError: see `read_rows` and `src.stimuli.table.build_table`.
    """
    return build_table(role, read_rows(folder, role), str(folder / f"{role}.parquet"))
