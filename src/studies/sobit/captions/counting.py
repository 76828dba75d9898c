"""Files of captions counted from end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import polars as pl

from src.errors import InputError
from src.studies.sobit.captions import mentions, stream
from src.studies.sobit.captions.files import File
from src.studies.sobit.captions.lexicon import Lexicon


@dataclass
class Audit:
    """What was counted.

    Attributes:
        counts: of the captions.
        rows: that were met, captions or not; those of a file that cannot be opened are not known.
        broken: rows that are no caption, by each kind of `stream.BROKEN`.
        problems: file -> why it or some of its rows could not be read.
    """

    counts: mentions.Counts
    rows: int = 0
    broken: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(stream.BROKEN, 0)))
    problems: dict[str, str] = field(default_factory=dict)


def counted(
    found: Sequence[File],
    column: str,
    lexicon: Lexicon,
    told: Callable[[int], object] = int,
) -> Audit:
    """Count the captions of files; memory holds one batch, whatever the files' size.

    Args:
        found: the files, those that cannot be opened as well.
        column: of the captions.
        lexicon: what is looked for.
        told: called after every batch with the rows that are done.

    Raises:
        InputError: no row is a caption.
    """
    audit = Audit(mentions.nothing(lexicon))
    audit.problems |= {str(file.path): file.problem for file in found if file.problem}
    for batch in stream.gathered(_captions(found, column, audit)):
        audit.counts.add(mentions.count(batch, lexicon))
        told(_rows(audit))
    audit.rows = _rows(audit)
    if not audit.counts.captions:
        why = ", ".join(f"{rows:,} {kind}" for kind, rows in audit.broken.items() if rows) or "no rows at all"
        problem = next(iter(audit.problems.items()), None)
        first = f" The first problem: {problem[0]}: {problem[1]}." if problem else ""
        raise InputError(
            f"column {column}: not one caption in {len(found)} files ({why}).{first} Name another column or "
            "file: text_column=NAME, path=FILE."
        )
    return audit


def _captions(found: Sequence[File], column: str, audit: Audit) -> Iterator[pl.Series]:
    for file in found:
        if not file.problem:
            yield from stream.captions(file, column, audit.broken, audit.problems)


def _rows(audit: Audit) -> int:
    return audit.counts.captions + audit.broken.total()
