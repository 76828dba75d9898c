"""Select the items of sets from stimulus tables, and compose the prompts of sets of texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from src.configs import RunConfig
from src.errors import InputError, NotApplicable, brief, did_you_mean
from src.stimuli import CARRIES, PROMPTS, TEXT_ROLES, Table
from src.stimuli.clusters import CLUSTER
from src.studies.eat.association_tests import LETTERS, list_texts
from src.studies.eat.config import EatConfig, SetConfig
from src.studies.protocol import Tables

MIN_ITEMS = 2


@dataclass(frozen=True)
class SetItems:
    """Items of a set in one modality.

    Attributes:
        role: role of their stimuli.
        rows: [R], rows of the role's table: of a text a row per template.
        names: [R], item of each row: id of an image, or word.
    """

    role: str
    rows: np.ndarray
    names: np.ndarray

    @property
    def ids(self) -> np.ndarray:
        """Return the distinct items, in alphabetical order."""
        return np.unique(self.names)


def select_items(cfg: RunConfig, tables: Tables, role: str, items: SetConfig, location: str) -> SetItems:
    """Select the items of a set from the table of a role.

    Raises:
        NotApplicable: the table lacks a group, or twice `protocol.extremes` items with valence.
        InputError: fewer than two items are left.
    """
    assert isinstance(cfg.exp, EatConfig)
    table = tables[role]
    if role == PROMPTS:
        rows, names = _find_texts(table, items.texts, cfg.exp.templates)
    else:
        column = "word" if role in TEXT_ROLES else "id"
        is_group = CARRIES[role] == "group"
        rows = (
            _find_groups(table, getattr(items, role), location)
            if is_group
            else _find_extremes(table, getattr(items, role), column, cfg.protocol.extremes, location)
        )
        names = table.frame[column].to_numpy(dtype=str)[rows]
    selected = SetItems(role, rows, names)
    if (count := len(selected.ids)) < MIN_ITEMS:
        raise InputError(f"{location}: {count} items; a set needs {MIN_ITEMS}. Add some.")
    return selected


def get_clusters(items: SetItems, assigned: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the clusters of the items of a set, in the order of `ids`; a text is a cluster by itself.

    `assigned` are the clusters of the rows of each role's table.
    """
    if items.role == PROMPTS:
        return pd.DataFrame({CLUSTER: items.ids})
    first_rows = items.rows[np.unique(items.names, return_index=True)[1]]
    return assigned[items.role].iloc[first_rows]


def check_disjoint(first: SetItems, second: SetItems, letters: str, location: str) -> None:
    """Raise `InputError` if two sets share an item."""
    if first.role == second.role and len(common := np.intersect1d(first.ids, second.ids)):
        raise InputError(
            f"{location}: {letters} share {len(common)} items, first {brief(common[0])!r}. "
            "Each item belongs to one of the two sets: delete it from the other."
        )


def build_prompts(cfg: RunConfig) -> Table | None:
    """Return the sentences of all sets of texts; None if the experiment uses none.

    Columns `id` (the sentence), `sentence`, `word`, and `group`: the sets that it belongs to, which become
    part of the job's key, as a file of tests has no other entry in it.

    Raises:
        InputError: a template does not contain `{}` once, or a text is empty.
    """
    assert isinstance(cfg.exp, EatConfig)
    sets = list_texts(cfg)
    if not sets:
        return None
    _check_templates(cfg.exp.templates)
    memberships: dict[str, list[str]] = {}
    words: dict[str, str] = {}
    for test, position, texts in sets:
        location = f"exp.tests.{test.name}, {LETTERS[position]}"
        for text in texts:
            if not text.strip():
                raise InputError(f"{location}: an empty text. Delete it.")
            for sentence in _fill_templates(text, cfg.exp.templates):
                words.setdefault(sentence, text)
                memberships.setdefault(sentence, []).append(
                    f"{test.name}: {test.names[position]} ({LETTERS[position]})"
                )
    sentences = sorted(words)
    frame = pd.DataFrame(
        {"id": sentences, "sentence": sentences, "word": [words[each] for each in sentences]}
    )
    frame["group"] = ["; ".join(sorted({*memberships[each]})) for each in sentences]
    return Table(PROMPTS, frame, frame["word"].nunique())


def _check_templates(templates: Sequence[str]) -> None:
    for template in templates:
        if (count := template.count("{}")) != 1:
            raise InputError(
                f"exp.templates: {template!r}: expected {{}} once, got it {count} times. Edit it."
            )
    if not templates or len({*templates}) < len(templates):
        raise InputError(f"exp.templates={list(templates)}: expected different sentences, at least one.")


def _fill_templates(text: str, templates: Sequence[str]) -> list[str]:
    return [template.replace("{}", text) for template in templates]


def _find_texts(
    table: Table, texts: Sequence[str], templates: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the sentences of texts, and their texts; a projection may have removed some."""
    distinct = [*dict.fromkeys(texts)]
    wanted = [sentence for text in distinct for sentence in _fill_templates(text, templates)]
    rows = pd.Index(table.frame["sentence"]).get_indexer(pd.Index(wanted))
    names = np.repeat(np.array(distinct, dtype=str), len(templates))
    return rows[rows >= 0], names[rows >= 0]


def _find_groups(table: Table, groups: Sequence[str], location: str) -> np.ndarray:
    for group in groups:
        if group not in table.groups:
            raise NotApplicable(
                f"{location}: no {table.role} of {group!r}.{did_you_mean(group, table.groups)} There are: "
                f"{', '.join(table.groups)}. Choose another dataset, or other groups."
            )
    return np.flatnonzero(table.frame["group"].isin(groups))


def _find_extremes(table: Table, end: str, column: str, count: int, location: str) -> np.ndarray:
    """Return the rows of the items of highest or lowest valence, ties by name."""
    items = table.frame.drop_duplicates(column).sort_values(["valence", column], kind="stable")[column]
    if len(items) < 2 * count:
        raise NotApplicable(
            f"{location}: {len(items)} {table.role}; the {count} of highest and of lowest valence need "
            f"{2 * count}. Set protocol.extremes={len(items) // 2} or less."
        )
    extremes = items.tail(count) if end == "highest" else items.head(count)
    return np.flatnonzero(table.frame[column].isin(extremes))
