"""Send an input to a parser, which returns a table, refuses it helpfully, or crashes."""

import re
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from src.errors import InputError
from tests.fuzz.mutations import mutate

TABLE, REFUSED = "table", "refused"
# CPU time that one small file may take; it grows on a busy machine.
SECONDS = 10.0
# A remedy is an imperative, or says what must be.
REMEDY = re.compile(
    r"\b(Add|Ask|Call|Choose|Copy|Correct|Delete|Divide|Embed|Export|Fetch|Fill|Give|Keep|Leave|Move|Name|Put|"
    r"Quote|Rename|Replace|Rescale|Reword|Run|Save|Say|Set|Shorten|Take|Unpack|Use|Write|Point|"
    r"[Mm]ake|must|needs?|may have|quote it|write|choose)\b"
)
LONGEST = 4000  # characters of a refusal


@dataclass(frozen=True)
class Parser:
    """A function that reads files of a user."""

    name: str
    file: str  # the changed file, below the folder
    draw: Callable[[Path], object]  # writes a valid folder
    read: Callable[[Path], Any]  # the parser, called on the folder
    complete: Callable[[Path, Any], None] = lambda *_: None  # asserts that nothing was lost
    separators: str = ","  # of cells or scalars
    change: Callable[[bytes, Random, str], bytes] = mutate  # makes a valid file bad
    named: tuple[str, ...] = ()  # alternatives to the file's name in a refusal
    place: str = ""  # pattern of the place in the file that a refusal must name


class Crash(AssertionError):
    """Neither a table nor a refusal that helps."""


def tried(parser: Parser, folder: Path, content: bytes, *, patient: bool = False) -> str:
    """Write the changed file and call the parser; raise Crash for anything but a table or helpful refusal."""
    (folder / parser.file).write_bytes(content)
    return answered(parser, folder, patient=patient)


def answered(parser: Parser, folder: Path, *, patient: bool = False) -> str:
    """Call the parser on a folder as it is."""
    start = time.process_time()
    try:
        table = parser.read(folder)
    except InputError as error:
        outcome = REFUSED
        helpful(parser, folder, str(error))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/src/" in frame.filename]
        trace = [f"{frame.filename.partition('/src/')[2]}:{frame.name}" for frame in frames]
        raise Crash(f"{type(error).__name__} in {trace[-1] if trace else 'no frame of src'}") from error
    else:
        outcome = TABLE
        try:
            parser.complete(folder, table)
        except Exception as error:
            raise Crash(f"incomplete: {type(error).__name__} {_alike(str(error), folder)}") from error
    if time.process_time() - start > SECONDS and not patient:
        raise Crash(f"more than {SECONDS:g} s")
    return outcome


def helpful(parser: Parser, folder: Path, message: str) -> None:
    """Check that a refusal names the file (or what the parser lists instead), the place and the remedy."""
    file = any(name in message for name in (str(folder / parser.file), *parser.named))
    place = not parser.place or re.search(parser.place, message)
    checks = {"names no file": file, "names no remedy": REMEDY.search(message), "names no place": place}
    checks["is too long to be read"] = len(message) <= LONGEST
    if problems := [problem for problem, passed in checks.items() if not passed]:
        raise Crash(f"a refusal {', '.join(problems)}: {_alike(message, folder)!r}") from None


def _alike(message: str, folder: Path) -> str:
    """Return the beginning of a message without what differs from input to input."""
    return re.sub(r"[0-9]+", "#", message.partition("\n")[0].replace(str(folder), "…")[:60])
