"""What audits and zero-shot experiments come to, in short, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

IAT, GAP = "iat", "cles_gap"
TITLE = "|CLES − ½| or IAT, mean over pairs of groups (of random partitions); accuracy (chance)"


def measure(audits: pd.DataFrame) -> pd.Series:
    """What the null of each audit is of: `iat` or `cles_gap`.

    Args:
        audits: rows of analyses.csv of audits.
    """
    # Older versions had no such column: there the experiment's name tells.
    named = audits["exp"].astype(str).str.startswith(IAT).map({True: IAT, False: GAP})
    return audits["measure"].fillna(named) if "measure" in audits else named


def short(audits: pd.DataFrame, zero_shot: pd.DataFrame) -> pd.DataFrame:
    """A row per attribute and reading, a column per model.

    Args:
        audits: rows of analyses.csv of audits: shown is the mean over pairs of groups of `cles_gap`, or of
            `iat` where the null is of it, and in brackets that of random partitions.
        zero_shot: the same of zero-shot experiments: accuracy, and in brackets chance.
    """
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys(audits["exp"]):
        own = audits[audits["exp"] == name]
        value = str(measure(own).iloc[0])
        form = "{:.1f} ({:.1f})" if value == IAT else "{:.3f} ({:.3f})"
        for attribute, part in own.groupby("attribute", sort=False):
            rows += _by_reading(f"{name}: {attribute}", part, value, "null_mean", form)
    for name, own in zero_shot.groupby("exp", sort=False):
        rows += _by_reading(str(name), own, "accuracy", "chance", "{:.3f} ({:.3f})")
    return pd.DataFrame(rows)


def _by_reading(
    name: str, rows: pd.DataFrame, value: str, beside: str, form: str
) -> Iterator[dict[str, object]]:
    for (debias, protocol, seed), own in rows.groupby(["debias", "protocol", "seed"], sort=False):
        means = own.groupby("model", sort=False)[[value, beside]].mean()
        cells = {str(row[0]): form.format(row[1], row[2]) for row in means.itertuples()}
        yield {"": name, "debias": debias, "protocol": protocol, "seed": seed, **cells}
