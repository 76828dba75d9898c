"""Read real shares of groups and compare them with retrieved shares (docs/methods.md, section 8.5)."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.errors import InputError, brief, did_you_mean, first_few

GROUP, SHARE = "group", "real_share"
# Maximum deviation of the sum of a subject's shares from 1.
TOLERANCE = 0.01
VERDICTS = ("amplifies", "reduces", "undecided")


def read_shares(path: str, subject: str, subjects: Sequence[str], groups: Sequence[str]) -> pd.DataFrame:
    """Read a csv of real shares.

    Args:
        path: file with the columns `subject`, group and real_share.
        subject: name of the column of subjects, such as occupation.
        subjects: subjects of the pictures; the file may lack some of them.
        groups: groups of the pictures; each subject of the file has a share of each.

    Returns:
        Shares by subject (rows) and group (columns, in the order of `groups`).

    Raises:
        InputError: the file or a column is missing, a subject or group is unknown, a share is not a number
            in [0, 1], a row is repeated, or a subject lacks a group or does not sum to 1.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        message = brief(str(error))
        raise InputError(f"exp.shares={path}: not a readable csv ({message}). Correct the path.") from None
    columns = [subject, GROUP, SHARE]
    if missing := [name for name in columns if name not in frame]:
        raise InputError(
            f"{path}: no column {', '.join(missing)}; got {brief(', '.join(map(str, frame)))}. Write "
            f"{','.join(columns)} in its first line."
        )
    frame = frame[columns].apply(lambda column: column.str.strip())
    for name, known in ((subject, subjects), (GROUP, groups)):
        is_unknown = ~frame[name].isin(known)
        if is_unknown.any():
            first = frame[name][is_unknown].iloc[0]
            raise InputError(
                f"{path}, line {_find_line(is_unknown)}: no picture of a set has {name} {brief(first)!r}."
                f"{did_you_mean(first, known)} There are: {first_few(known, 20)}. Correct or delete the line."
            )
    values = pd.to_numeric(frame[SHARE], errors="coerce")
    is_bad = ~values.between(0, 1)
    if is_bad.any():
        raise InputError(
            f"{path}, line {_find_line(is_bad)}: real_share is {brief(frame[SHARE][is_bad].iloc[0])!r}, "
            "expected a number from 0 to 1. Write shares, not percentages."
        )
    is_repeated = frame.duplicated([subject, GROUP])
    if is_repeated.any():
        raise InputError(
            f"{path}, line {_find_line(is_repeated)}: subject and group occur twice. Delete one line."
        )
    table: pd.DataFrame = frame.assign(**{SHARE: values}).pivot(index=subject, columns=GROUP, values=SHARE)
    table = table.reindex(columns=pd.Index(groups))
    for name, (_, row) in zip(table.index.astype(str), table.iterrows(), strict=True):
        absent = row.index[row.isna()]
        if len(absent):
            raise InputError(f"{path}: {brief(name)!r} has no share of {first_few(absent)}. Add the lines.")
        if abs(row.sum() - 1) > TOLERANCE:
            raise InputError(
                f"{path}: the shares of {brief(name)!r} sum to {row.sum():.3f}, expected 1. Correct them."
            )
    return pd.DataFrame(table)


def find_majorities(real: np.ndarray) -> np.ndarray:
    """Return the index of the largest real share of each row [W, G]; -1 for ties and without shares."""
    largest = np.where(np.isnan(real).any(axis=1), np.nan, real.max(axis=1))
    is_largest = np.abs(real - largest[:, None]) < 1e-12
    return np.where(is_largest.sum(axis=1) == 1, is_largest.argmax(axis=1), -1)


def judge(low: float, high: float) -> str:
    """Return the verdict on an interval of the majority's retrieved minus real share; empty if it is NaN.

    >>> judge(0.01, 0.2), judge(-0.1, 0.2), judge(-0.3, -0.1), judge(float("nan"), float("nan"))
    ('amplifies', 'undecided', 'reduces', '')
    """
    if np.isnan(low) or np.isnan(high):
        return ""
    return "amplifies" if low > 0 else "reduces" if high < 0 else "undecided"


def _find_line(mask: pd.Series) -> int:
    """Return the line of the first true row in the file, after its heading."""
    return int(np.flatnonzero(mask)[0]) + 2
