"""Count captions of Parquet files that mention words and name groups, and rows that cannot be read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Int
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.sparse import csr_array

from src.errors import InputError
from src.studies.sobit.captions.files import DAMAGE, File, is_text
from src.studies.sobit.captions.lexicon import BOTH, GENDER, RACE, Lexicon, normalise

# Maximum captions, and bytes, per batch: larger batches use more memory at the same speed.
BATCH_ROWS, BATCH_BYTES = 2**14, 2**24
# Number of bytes read at once: a row group need not fit into memory.
BUFFER_BYTES = 2**20
NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE = "null", "not_text", "empty", "invalid_utf8", "unreadable"
BROKEN_KINDS = (NULL, NO_TEXT, EMPTY, NO_UTF8, UNREADABLE)
AXES = (RACE, GENDER, BOTH)


@dataclass
class Counts:
    """Numbers of captions; a caption counts once, however often it mentions a word."""

    captions: int
    words: Int[np.ndarray, " w"]  # captions that mention a word, [words]
    groups: Int[np.ndarray, " g"]  # captions that name a group, [groups]
    both: Int[np.ndarray, "w g"]  # captions that do both, [words, groups]
    named: Int[np.ndarray, " a"]  # captions that name any group of an axis of `AXES`, [axes]
    # Captions that mention a word and name any group of the axis, [words, axes].
    words_named: Int[np.ndarray, "w a"]

    def add(self, other: Counts) -> None:
        """Add the counts of other captions."""
        self.captions += other.captions
        for name in ("words", "groups", "both", "named", "words_named"):
            getattr(self, name).__iadd__(getattr(other, name))


@dataclass
class Audit:
    """The counts of an audit."""

    counts: Counts  # counts of the captions
    problems: dict[str, str]  # file -> reason why it or some of its rows could not be read
    # Number of rows that are not captions, by kind of `BROKEN_KINDS`.
    broken: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(BROKEN_KINDS, 0)))

    @property
    def rows(self) -> int:
        """Return the number of rows read, captions or not; without rows of files that cannot be opened."""
        return self.counts.captions + self.broken.total()


def count_files(files: Sequence[File], column: str, lexicon: Lexicon) -> Audit:
    """Count the captions of files with a progress bar; one batch at a time is in memory.

    Raises:
        InputError: no row is a caption.
    """
    problems = {str(file.path): file.problem for file in files if file.problem}
    audit = Audit(zero_counts(lexicon), problems)
    caption_batches = (scan(file, column, audit.broken, problems) for file in files if not file.problem)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("captions", total=sum(file.rows for file in files))
        for batch in rebatch(batch for batches in caption_batches for batch in batches):
            audit.counts.add(count(batch, lexicon))
            progress.update(task, completed=audit.rows)
    if not audit.counts.captions:
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in audit.broken.items() if n) or "no rows at all"
        first = next((f" The first problem: {file}: {problem}." for file, problem in problems.items()), "")
        raise InputError(
            f"column {column}: no caption in {len(files)} files ({kinds}).{first} Name another column or "
            "file: text_column=NAME, path=FILE."
        )
    return audit


def scan(file: File, column: str, broken: Counter[str], problems: dict[str, str]) -> Iterator[pl.Series]:
    """Yield the captions of a readable file in batches; update `broken` (kind -> rows) and `problems`."""
    try:
        # Not polars: its scan holds a whole row group, and refuses a file for one cell of invalid UTF-8.
        reader = pq.ParquetFile(file.path, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except DAMAGE as error:  # removed since it was first opened
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
                    yield valid_captions(batch.column(0), broken)
            except DAMAGE as error:
                problem = str(error).splitlines()[0]
            if remaining and not problem:  # a damaged page may end early without an error
                problem = f"{remaining} rows fewer than its footer states"
            if problem:
                broken[UNREADABLE] += remaining
                problems.setdefault(str(file.path), f"row group {group}: {problem}")


def valid_captions(cells: pa.Array, broken: Counter[str]) -> pl.Series:
    """Return the captions among cells, and count the other cells in `broken`."""
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
    """Yield the same captions in batches of similar size, as row groups and captions vary in length."""
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


def zero_counts(lexicon: Lexicon) -> Counts:
    """Return counts of zero captions, to which others are added."""
    return count(pl.Series([], dtype=pl.String), lexicon)


def count(captions: pl.Series, lexicon: Lexicon) -> Counts:
    """Count a batch of captions, texts without nulls.

    Case is ignored; only whole words count, and `lexicon.normalise` defines where a word ends and what joins
    the words of an entry. A taxonomy's nouns and all group words count in the plural too.
    Overlapping entries of the taxonomy each count ("old" and "old friend"). Among the words of one axis the
    leftmost and then longest wins: "african-american" is no mention of "american". A caption names a pair of
    race and gender if it has a word of each, whether about one person or two.
    """
    texts = captions.to_frame("text").select(text=normalise(pl.col("text")))
    matches = texts.select(
        words=pl.col("text").str.extract_many(_patterns(lexicon.word_forms), overlapping=True),
        race=pl.col("text").str.extract_many(_patterns(lexicon.group_forms[0]), leftmost=True),
        gender=pl.col("text").str.extract_many(_patterns(lexicon.group_forms[1]), leftmost=True),
    ).with_row_index("caption")
    words = _mentions(matches, "words", lexicon.word_forms, len(lexicon.words))
    race, gender = (
        _mentions(matches, axis, forms, len(lexicon.members(axis))).toarray() > 0
        for axis, forms in zip((RACE, GENDER), lexicon.group_forms, strict=True)
    )
    pairs = (race[:, :, None] & gender[:, None, :]).reshape(len(captions), race.shape[1] * gender.shape[1])
    named = np.stack([members.any(axis=1) for members in (race, gender, pairs)], axis=1)
    groups = np.concatenate([race, gender, pairs], axis=1)
    totals = words.sum(axis=0), groups.sum(axis=0)
    return Counts(len(captions), *totals, words.T @ groups, named.sum(axis=0), words.T @ named)


def _patterns(forms: pl.DataFrame) -> pl.Expr:
    # The type is explicit because polars infers none from an empty list.
    return pl.lit(forms["form"].unique(maintain_order=True).to_list(), dtype=pl.List(pl.String))


def _mentions(matches: pl.DataFrame, column: str, forms: pl.DataFrame, codes: int) -> csr_array:
    """Return a [captions, codes] matrix, 1 where a caption has a form of a code, however often."""
    mentioned = matches.select("caption", form=pl.col(column)).explode("form").drop_nulls()
    pairs = mentioned.join(forms, on="form").select("caption", "code").unique()
    ones = np.ones(len(pairs), dtype=np.int64)
    return csr_array((ones, (pairs["caption"], pairs["code"])), shape=(len(matches), codes))
