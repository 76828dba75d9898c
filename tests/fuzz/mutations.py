"""Mutate a valid file: its bytes, cells, columns, lines, separators, encoding."""

from random import Random

# Unexpected contents of a cell, a name or a scalar.
CELLS = (
    *("", " ", "nan", "NaN", "null", "None", "NA", "-1", "0", "1e400", "-inf", "1e-400", "0x10", "1_000"),
    *("\0", "\ufeff", "\u2028", "\x85", "\x0b", "\x1c", "\u202e", "é", "e\u0301", "٣", "𝟑", "\U0010ffff"),
    *('"', '""', "'", '"a', 'a"b', ",", "\t", "a\nb", "a\rb", "=1+1", "../../etc/passwd", "/etc/passwd"),
    *("..", ".", "~", "C:\\x", "a" * 300, "x" * 140_000, "${oc.env:HOME}", "{}", "{word}", "{0.__class__}"),
    *("<script>alert(1)</script>", "%s%n", "\\", "true", "no", "2001-01-01", "!!python/object:x", "*a", "&a"),
)
PIECES = (b"\0", b"\xff\xfe", b'"', b"\r", b"\n", b"\xc3", b"{", b"[" * 3000, b"- " * 3000)
LINE_ENDS = (b"\r", b"\n", b"\r\n", b"\n\r")
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037", "utf-7")


def mutate(content: bytes, random: Random, separators: str = ",", rounds: int = 3) -> bytes:
    """Apply one to `rounds` mutations to a file."""
    for _ in range(random.randint(1, rounds)):
        content = random.choice(MUTATIONS)(content, random, separators)
    return content


def _splice(content: bytes, random: Random, _: str) -> bytes:
    """Cut, insert, double or overwrite bytes."""
    start = random.randrange(len(content) + 1)
    end = random.choice((start, start, start + 1, len(content), random.randrange(start, len(content) + 1)))
    byte = bytes([random.choice((0, 0xFF, 0x80, 0x22, 0x0D, random.randrange(256)))])
    piece = random.choice((b"", byte, byte, content[start:end] * 2, *PIECES))
    return content[:start] + piece + content[end:]


def _change_lines(content: bytes, random: Random, _: str) -> bytes:
    """Drop, double or swap lines, or insert a blank line."""
    lines = content.splitlines(keepends=True) or [b""]
    place, other = random.randrange(len(lines)), random.randrange(len(lines))
    blank = random.choice((b"\n", b"  \n", b",,,\n", b"\t\n"))
    kind = random.choice(("drop", "double", "blank", "swap"))
    if kind == "drop":
        del lines[place]
    elif kind == "double":
        lines.insert(place, lines[place])
    elif kind == "blank":
        lines.insert(place, blank)
    else:
        lines[place], lines[other] = lines[other], lines[place]
    return b"".join(lines)


def _change_cell(content: bytes, random: Random, separators: str) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    place = random.randrange(len(lines))
    separator = random.choice(separators).encode()
    cells = lines[place].rstrip(b"\r\n").split(separator)
    cells[random.randrange(len(cells))] = random.choice(CELLS).encode()
    lines[place] = separator.join(cells) + lines[place][len(lines[place].rstrip(b"\r\n")) :]
    return b"".join(lines)


def _change_columns(content: bytes, random: Random, separators: str) -> bytes:
    separator = random.choice(separators).encode()
    rows = [line.split(separator) for line in content.split(b"\n")]
    place = random.randrange(max(map(len, rows)))
    kind = random.choice(("drop", "double", "append"))
    for row in rows:
        if place < len(row):
            if kind == "drop":
                del row[place]
            else:
                row.insert(place if kind == "double" else len(row), row[place])
    return b"\n".join(separator.join(row) for row in rows)


def _change_separator(content: bytes, random: Random, separators: str) -> bytes:
    return content.replace(random.choice(separators).encode(), random.choice((b";", b"\t", b",", b" ", b"|")))


def _change_line_ends(content: bytes, random: Random, _: str) -> bytes:
    return random.choice(LINE_ENDS).join(content.splitlines())


def _change_encoding(content: bytes, random: Random, _: str) -> bytes:
    return content.decode("latin-1").encode(random.choice(ENCODINGS), "replace")


def _quote(content: bytes, random: Random, separators: str) -> bytes:
    """Insert a quote that is never closed, or a pair of quotes that may be rows apart."""
    separator = random.choice(separators).encode()
    places = [place for place in range(len(content)) if content[place : place + 1] in (separator, b"\n")]
    for place in sorted(random.sample(places, min(len(places), random.randint(1, 2))), reverse=True):
        content = content[: place + 1] + b'"' + content[place + 1 :]
    return content


# Mutations; repeated ones are drawn more often.
MUTATIONS = (
    *(_splice, _splice, _splice, _change_lines, _change_cell, _change_cell, _change_columns),
    *(_change_separator, _change_line_ends, _change_encoding, _quote),
)
