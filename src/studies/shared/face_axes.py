"""Group faces by attributes and by their combinations."""

from dataclasses import replace

from src.errors import InputError, NotApplicable, brief, did_you_mean
from src.stimuli import Table


def split_axis(axis: str) -> tuple[str, ...]:
    """Split an axis into the columns that it combines.

    >>> split_axis("age"), split_axis("race:age"), split_axis("both")
    (('age',), ('race', 'age'), ('race', 'gender'))
    """
    return ("race", "gender") if axis == "both" else tuple(axis.split(":"))


def label_axis(axis: str) -> str:
    """Return the label of an axis on pages and in figures.

    >>> label_axis("gender"), label_axis("both"), label_axis("race:age")
    ('gender', 'race × gender', 'race × age')
    """
    return " × ".join(split_axis(axis))


def check_attribute(table: Table, name: str, setting: str) -> None:
    """Check that every face has a value of an attribute, and that there are several.

    `setting` is the setting that names the attribute, for messages.

    Raises:
        InputError: some faces have no value.
        NotApplicable: the table lacks the attribute, or all faces have the same value.
    """
    if name not in table.attributes or table.frame[name].isna().all():
        others = ", ".join(table.attributes)
        raise NotApplicable(
            f"faces: expected a column {brief(name)} with texts, by which this audit groups faces; got "
            f"{', '.join(map(str, table.frame.columns))}.{did_you_mean(name, table.attributes)} Add the "
            f"column, or fill it{f', or choose {setting} among {others}' if others else ''}."
        )
    empty = table.frame[name].isna() | (table.frame[name].astype(str).str.strip() == "")
    if empty.any():
        raise InputError(
            f"faces: {int(empty.sum())} of {len(empty)} have no {name}, first "
            f"{table.frame['id'][empty].iloc[0]!r}. Fill it in, or remove these faces."
        )
    if table.frame[name].nunique() < 2:
        raise NotApplicable(
            f"faces: expected two or more values of {name}, got only {table.frame[name].iloc[0]!r}. Choose "
            f"{setting} without it, or other faces."
        )


def group_by_axis(table: Table, axis: str | None, setting: str) -> Table:
    """Return a table of faces whose groups are those of an axis; None: its own groups.

    Raises:
        InputError, NotApplicable: see `check_attribute`.
    """
    if axis is None:
        return table
    columns = split_axis(axis)
    for name in columns:
        check_attribute(table, name, setting)
    groups = table.frame[list(columns)].astype(str).agg(" ".join, axis=1)
    return replace(table, frame=table.frame.assign(group=groups))
