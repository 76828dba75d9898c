"""What becomes of a valid file in bad hands: bytes, cells, columns, lines, encodings."""

from collections.abc import Callable
from random import Random

# What a cell, a name or a scalar may hold that nobody expects.
CELLS = (
    *("", " ", "nan", "NaN", "null", "None", "NA", "-1", "0", "1e400", "-inf", "1e-400", "0x10", "1_000"),
    *("\0", "\ufeff", "\u2028", "\x85", "\x0b", "\x1c", "\u202e", "é", "e\u0301", "٣", "𝟑", "\U0010ffff"),
    *('"', '""', "'", '"a', 'a"b', ",", "\t", "a\nb", "a\rb", "=1+1", "../../etc/passwd", "/etc/passwd"),
    *("..", ".", "~", "C:\\x", "a" * 300, "x" * 140_000, "${oc.env:HOME}", "{}", "{word}", "{0.__class__}"),
    *("<script>alert(1)</script>", "%s%n", "\\", "true", "no", "2001-01-01", "!!python/object:x", "*a", "&a"),
)
LINE_ENDS = (b"\r", b"\n", b"\r\n", b"\n\r")
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7")


def mutated(content: bytes, random: Random, separators: str = ",", rounds: int = 3) -> bytes:
    """A file to which one to `rounds` things have happened."""
    for _ in range(random.randint(1, rounds)):
        kind: Callable[[bytes, Random, str], bytes] = random.choice(KINDS)
        content = kind(content, random, separators)
    return content


def _bytes(content: bytes, random: Random, _: str) -> bytes:
    found = bytearray(content or b"x")
    for _ in range(random.choice((1, 1, 2, 8))):
        place = random.randrange(len(found))
        found[place] = random.choice((0, 0xFF, 0x80, 0x22, 0x0D, random.randrange(256)))
    return bytes(found)


def _cut(content: bytes, random: Random, _: str) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _inserted(content: bytes, random: Random, _: str) -> bytes:
    place = random.randrange(len(content) + 1)
    piece = random.choice((b"\0", b"\xff\xfe", b'"', b"\r", b"\n", b"\xc3", b"{", b"[" * 3000, b"- " * 3000))
    return content[:place] + piece + content[place:]


def _doubled(content: bytes, random: Random, _: str) -> bytes:
    start = random.randrange(len(content) + 1)
    end = random.randrange(start, len(content) + 1)
    return content[:end] + content[start:end] + content[end:]


def _lines(content: bytes, random: Random, _: str) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    place = random.randrange(len(lines))
    said = random.choice(("drop", "double", "swap", "blank"))
    if said == "drop":
        del lines[place]
    elif said == "double":
        lines.insert(place, lines[place])
    elif said == "blank":
        lines.insert(place, random.choice((b"\n", b"  \n", b",,,\n", b"\t\n")))
    else:
        other = random.randrange(len(lines))
        lines[place], lines[other] = lines[other], lines[place]
    return b"".join(lines)


def _cell(content: bytes, random: Random, separators: str) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    place = random.randrange(len(lines))
    mark = random.choice(separators).encode()
    cells = lines[place].rstrip(b"\r\n").split(mark)
    cells[random.randrange(len(cells))] = random.choice(CELLS).encode()
    lines[place] = mark.join(cells) + lines[place][len(lines[place].rstrip(b"\r\n")) :]
    return b"".join(lines)


def _columns(content: bytes, random: Random, separators: str) -> bytes:
    mark = random.choice(separators).encode()
    rows = [line.split(mark) for line in content.split(b"\n")]
    place = random.randrange(max(map(len, rows)))
    said = random.choice(("drop", "double", "last"))
    for row in rows:
        if place < len(row):
            if said == "drop":
                del row[place]
            else:
                row.insert(place if said == "double" else len(row), row[place])
    return b"\n".join(mark.join(row) for row in rows)


def _separator(content: bytes, random: Random, separators: str) -> bytes:
    return content.replace(random.choice(separators).encode(), random.choice((b";", b"\t", b",", b" ", b"|")))


def _line_ends(content: bytes, random: Random, _: str) -> bytes:
    return random.choice(LINE_ENDS).join(content.splitlines())


def _encoding(content: bytes, random: Random, _: str) -> bytes:
    return content.decode("latin-1").encode(random.choice(ENCODINGS), "replace")


def _quoted(content: bytes, random: Random, separators: str) -> bytes:
    """A quote that nobody closes, or that is closed rows later."""
    mark = random.choice(separators).encode()
    places = [place for place in range(len(content)) if content[place : place + 1] in (mark, b"\n")]
    for place in sorted(random.sample(places, min(len(places), random.randint(1, 2))), reverse=True):
        content = content[: place + 1] + b'"' + content[place + 1 :]
    return content


KINDS = (
    *(_bytes, _cut, _inserted, _doubled, _lines, _cell, _cell, _columns, _separator, _line_ends, _encoding),
    _quoted,
)
