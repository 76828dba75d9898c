"""One input put to one parser: a table, a refusal that helps, or a fault of ours."""

import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from src.errors import InputError
from tests.fuzz.mutations import mutated

TABLE, REFUSED = "table", "refused"
# Of computing that one small file may take; a busy machine takes longer.
SECONDS = 10.0
# A remedy is an order; a place is a row, a column, a key, an entry or an offset.
REMEDY = re.compile(
    r"\b(Add|Ask|Call|Choose|Copy|Correct|Delete|Divide|Embed|Export|Fetch|Fill|Give|Keep|Leave|Move|Name|Put|"
    r"Quote|Rename|Replace|Rescale|Reword|Run|Save|Say|Set|Shorten|Take|Unpack|Use|Write|Point|"
    r"[Mm]ake|must|needs?|may have|quote it|write|choose)\b"
)
LONGEST = 4000


@dataclass(frozen=True)
class Parser:
    """Something that reads what a user brings.

    Attributes:
        name: in the table.
        file: the one that is made bad, below the folder.
        draw: lays out a valid folder.
        read: what is tried; returns what it made of the folder.
        whole: raises AssertionError where something was lost without a word.
        separators: of its cells or scalars.
        change: makes a valid file bad.
        named: what a refusal must name, beside the file: any of these.
        place: a refusal over content must say where.
    """

    name: str
    file: str
    draw: Callable[[Path], object]
    read: Callable[[Path], Any]
    whole: Callable[[Path, Any], None] = lambda *_: None
    separators: str = ","
    change: Callable[[bytes, Random, str], bytes] = mutated
    named: tuple[str, ...] = ()
    place: str = ""


class Crash(AssertionError):
    """Neither a table nor a refusal that helps."""


@dataclass
class Count:
    """What came of the inputs of a parser."""

    inputs: int = 0
    tables: int = 0
    refused: int = 0
    slowest: float = 0.0
    crashes: dict[str, bytes] = field(default_factory=dict)  # what it was -> the first input that did it

    def add(self, parser: Parser, folder: Path, content: bytes) -> None:
        self.inputs += 1
        start = time.perf_counter()
        try:
            outcome = tried(parser, folder, content)
        except Crash as crash:
            self.crashes.setdefault(str(crash), content)
        else:
            self.tables += outcome == TABLE
            self.refused += outcome == REFUSED
        self.slowest = max(self.slowest, time.perf_counter() - start)


def tried(parser: Parser, folder: Path, content: bytes, *, patient: bool = False) -> str:
    """Put a content to a parser whose folder is laid out.

    Raises:
        Crash: it answers with something else than a table or a refusal that names file, place and remedy.
    """
    (folder / parser.file).write_bytes(content)
    return answered(parser, folder, patient=patient)


def answered(parser: Parser, folder: Path, *, patient: bool = False) -> str:
    """What a parser says of a folder as it is."""
    start = time.process_time()
    try:
        found = parser.read(folder)
    except InputError as error:
        outcome = REFUSED
        helpful(parser, folder, str(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise Crash(f"{type(error).__name__} in {_where(error)}") from error
    else:
        outcome = TABLE
        try:
            parser.whole(folder, found)
        except Exception as error:
            raise Crash(f"not whole: {type(error).__name__} {_alike(str(error), folder)}") from error
    if time.process_time() - start > SECONDS and not patient:
        raise Crash(f"more than {SECONDS:g} s")
    return outcome


def helpful(parser: Parser, folder: Path, said: str) -> None:
    """A refusal names the file (or the picture, or the setting that led there), the place and the remedy."""
    problems = []
    if not any(name in said for name in (str(folder / parser.file), *parser.named)):
        problems.append("names no file")
    if not REMEDY.search(said):
        problems.append("names no remedy")
    if parser.place and not re.search(parser.place, said):
        problems.append("names no place")
    if len(said) > LONGEST:
        problems.append("is too long to be read")
    if problems:
        raise Crash(f"a refusal {', '.join(problems)}: {_alike(said, folder)!r}") from None


def _alike(said: str, folder: Path) -> str:
    """The beginning of a message without what differs from input to input."""
    return re.sub(r"[0-9]+", "#", said.partition("\n")[0].replace(str(folder), "…")[:60])


def _where(error: BaseException) -> str:
    """The last place of ours."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/src/" in frame.filename]
    return f"{frames[-1].filename.partition('/src/')[2]}:{frames[-1].name}" if frames else "no frame of ours"
