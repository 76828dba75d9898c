"""Count the captions in Parquet files that mention words and name groups, and unusable rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.sparse import csr_array

from src.errors import InputError
from src.studies.sobit.captions.files import DAMAGE, CaptionFile, is_text
from src.studies.sobit.captions.lexicon import Lexicon, normalise

# Maximum number of captions, and of bytes, per batch: larger batches need more memory and are no faster.
BATCH_ROWS, BATCH_BYTES = 2**14, 2**24
# Number of bytes to read at once: a row group need not fit into memory.
BUFFER_BYTES = 2**20
NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE = "null", "not_text", "empty", "invalid_utf8", "unreadable"
BROKEN_KINDS = (NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE)


@dataclass
class Counts:
    """Numbers of captions; a caption counts once, however often it mentions a word."""

    captions: int
    words: Int[np.ndarray, " w"]  # captions that mention a word, [words]
    groups: Int[np.ndarray, " g"]  # captions that name a group, [groups]
    both: Int[np.ndarray, "w g"]  # captions that do both, [words, groups]
    named: Int[np.ndarray, " a"]  # captions that name any group of each axis, [axes]
    # Captions that mention a word and name any group of the axis, [words, axes].
    words_named: Int[np.ndarray, "w a"]

    def add(self, other: Counts) -> None:
        """Add the counts of other captions."""
        self.captions += other.captions
        for name in ("words", "groups", "both", "named", "words_named"):
            getattr(self, name).__iadd__(getattr(other, name))


@dataclass
class AuditCounts:
    """Counts of all captions of an audit, and what could not be counted."""

    counts: Counts  # counts of the captions
    problems: dict[str, str]  # file -> reason why it or some of its rows could not be read
    # Number of rows that are not captions, by kind of `BROKEN_KINDS`.
    broken: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(BROKEN_KINDS, 0)))

    @property
    def rows(self) -> int:
        """Return the number of rows, captions or not, in files that can be opened."""
        return self.counts.captions + self.broken.total()


def count_files(files: Sequence[CaptionFile], column: str, lexicon: Lexicon) -> AuditCounts:
    """Count the captions in files, a batch at a time, with a progress bar.

    Raises:
        InputError: no row is a caption.
    """
    problems = {str(file.path): file.problem for file in files if file.problem}
    audit = AuditCounts(create_counts(lexicon), problems)
    caption_batches = (
        read_captions(file, column, audit.broken, problems) for file in files if not file.problem
    )
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("captions", total=sum(file.rows for file in files))
        for batch in rebatch(batch for batches in caption_batches for batch in batches):
            audit.counts.add(count_captions(batch, lexicon))
            progress.update(task, completed=audit.rows)
    if not audit.counts.captions:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in audit.broken.items() if n) or "no rows at all"
        first = next((f" The first problem: {file}: {problem}." for file, problem in problems.items()), "")
        raise InputError(
            f"column {column}: no caption in {len(files)} files ({kinds}).{first} Choose another column or "
            "other files: text_column=NAME, path=FILE."
        )
    return audit


def read_captions(
    file: CaptionFile, column: str, broken: Counter[str], problems: dict[str, str]
) -> Iterator[pl.Series]:
    """Read the captions of a file in batches; update `broken` (kind -> rows) and `problems`."""
    try:
        # Not polars, which loads complete row groups and rejects a file for a single cell of invalid UTF-8.
        reader = pq.ParquetFile(file.path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except DAMAGE as error:  # the file has changed since its footer was read
        broken[UNREADABLE] += file.rows
        problems[str(file.path)] = str(error).splitlines()[0]
        return
    with reader:
        for group in range(reader.num_row_groups):
            remaining = reader.metadata.row_group(group).num_rows
            problem = ""
            try:
                for batch in reader.iter_batches(BATCH_ROWS, [group], [column], use_threads=False):
                    remaining -= len(batch)
                    yield select_captions(batch.column(0), broken)
            except DAMAGE as error:
                problem = str(error).splitlines()[0]
            if remaining and not problem:  # reading a damaged page may stop early without an error
                problem = f"{remaining} rows fewer than its footer states"
            if problem:
                broken[UNREADABLE] += remaining
                problems.setdefault(str(file.path), f"row group {group}: {problem}")


def select_captions(cells: pa.Array, broken: Counter[str]) -> pl.Series:
    """Select the captions among cells; count the other cells in `broken`."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    broken[NULL] += cells.null_count
    if not is_text(cells.type):
        broken[NO_TEXT] += len(cells) - cells.null_count
        return pl.Series([], dtype=pl.String)
    # Strings are cast to bytes too, because reading does not validate them.
    cells = cells.cast(pa.large_binary()).drop_null()
    try:
        texts = pl.Series(cells.cast(pa.large_string()))
    except pa.ArrowInvalid:
        texts = pl.Series(map(_decode, cells.to_pylist()), dtype=pl.String).drop_nulls()
    broken[NO_UTF8] += len(cells) - len(texts)
    captions = texts.filter(texts.str.strip_chars() != "")
    broken[EMPTY] += len(texts) - len(captions)
    return captions


def _decode(cell: bytes) -> str | None:
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def rebatch(batches: Iterable[pl.Series]) -> Iterator[pl.Series]:
    """Combine and split batches, which vary in size with row groups and captions, into similar sizes."""
    pending: list[pl.Series] = []
    for batch in batches:
        pending.append(batch)
        if sum(map(len, pending)) >= BATCH_ROWS:
            yield from _split_batch(pl.concat(pending))
            pending = []
    if pending:
        yield from _split_batch(pl.concat(pending))


def _split_batch(captions: pl.Series) -> Iterator[pl.Series]:
    batch_count = 1 + int(captions.estimated_size()) // BATCH_BYTES
    step = max(1, -(-len(captions) // batch_count))
    for start in range(0, len(captions), step):
        yield captions.slice(start, step)


def create_counts(lexicon: Lexicon) -> Counts:
    """Create counts of zero captions."""
    return count_captions(pl.Series([], dtype=pl.String), lexicon)


def count_captions(captions: pl.Series, lexicon: Lexicon) -> Counts:
    """Count a batch of captions, texts without nulls.

    Case is ignored. Only complete words count; `lexicon.normalise` defines where a word ends and what may
    join the words of an entry. A taxonomy's nouns and all words of groups also count in the plural. Of
    overlapping entries of the taxonomy, all count ("old" and "old friend"); of overlapping words of one axis,
    the leftmost and then the longest counts: "african-american" does not mention "american". A caption names
    a combination of groups if it has a word of each, whether about one person or several.
    """
    texts = captions.to_frame("text").select(text=normalise(pl.col("text")))
    matches = texts.select(
        words=pl.col("text").str.extract_many(_list_patterns(lexicon.word_forms), overlapping=True),
        **{
            f"axis {number}": pl.col("text").str.extract_many(_list_patterns(forms), leftmost=True)
            for number, forms in enumerate(lexicon.group_forms)
        },
    ).with_row_index("caption")
    words = _mark_mentions(matches, "words", lexicon.word_forms, len(lexicon.words))
    by_axis = [
        _mark_mentions(
            matches, f"axis {number}", forms, len(lexicon.list_groups(lexicon.axes[number]))
        ).toarray()
        > 0
        for number, forms in enumerate(lexicon.group_forms)
    ]
    if len(by_axis) > 1:
        by_axis.append(reduce(_combine, by_axis))
    named = np.stack([members.any(axis=1) for members in by_axis], axis=1)
    groups = np.concatenate(by_axis, axis=1)
    totals = words.sum(axis=0), groups.sum(axis=0)
    return Counts(len(captions), *totals, words.T @ groups, named.sum(axis=0), words.T @ named)


def _combine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mark the captions [N, A * B] that name both groups of each pair, from [N, A] and [N, B]."""
    pairs = first[:, :, None] & second[:, None, :]
    return np.asarray(pairs.reshape(len(first), first.shape[1] * second.shape[1]))


def _list_patterns(forms: pl.DataFrame) -> pl.Expr:
    # The type is explicit because polars infers none from an empty list.
    return pl.lit(forms["form"].unique(maintain_order=True).to_list(), dtype=pl.List(pl.String))


def _mark_mentions(matches: pl.DataFrame, column: str, forms: pl.DataFrame, n_codes: int) -> csr_array:
    """Return a sparse matrix, [captions, codes]: 1 if a caption has a form of the code, however often."""
    mentioned = matches.select("caption", form=pl.col(column)).explode("form").drop_nulls()
    pairs = mentioned.join(forms, on="form").select("caption", "code").unique()
    ones = np.ones(len(pairs), dtype=np.int64)
    return csr_array((ones, (pairs["caption"], pairs["code"])), shape=(len(matches), n_codes))
