"""Reads the commands that the manual, the Makefile and the entries' own docstrings tell a user to type."""

import re
import shlex
from dataclasses import dataclass

from tests.paths import CHECKOUT

PAGES = [
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
    CHECKOUT / "benchmarks/results/README.md",
]
SHELLS = ("", "bash", "sh", "console")
ENTRY = r"python -m (?:src|benchmarks|validation)\b"
STARTS = ("python -m src.", "python -m benchmarks", "python -m validation.", "make ", "dvc ", "mlflow ")
INLINE = re.compile(rf"`((?:{ENTRY}|make |dvc |mlflow )[^`]+)`")


@dataclass(frozen=True)
class Documented:
    """A command, and the file that tells a user to type it."""

    words: tuple[str, ...]
    where: str

    @property
    def name(self) -> str:
        """The module, or the program."""
        return self.words[2] if self.words[0] == "python" else self.words[0]

    @property
    def arguments(self) -> list[str]:
        return [*self.words[3 if self.words[0] == "python" else 1 :]]

    def __str__(self) -> str:
        return " ".join(self.words)


def commands() -> list[Documented]:
    """Every command once, by where it stands first."""
    lines = [(line, page) for page in PAGES for line in _of_page(page.read_text("utf-8"))]
    lines += [
        (line, CHECKOUT / "Makefile") for line in _of_makefile((CHECKOUT / "Makefile").read_text("utf-8"))
    ]
    roots = (CHECKOUT / root for root in ("src", "benchmarks", "validation"))
    for path in sorted(path for root in roots for path in root.rglob("*.py")):
        lines += [(line, path) for line in _of_docstring(path.read_text("utf-8"))]
    known: dict[tuple[str, ...], Documented] = {}
    for line, path in lines:
        for words in _words(line):
            if f"{' '.join(words)} ".startswith(STARTS):
                known.setdefault(words, Documented(words, str(path.relative_to(CHECKOUT))))
    return [*known.values()]


def _words(line: str) -> list[tuple[str, ...]]:
    """The words of each command of a line, as a shell splits them."""
    if not any(start in line for start in STARTS):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [tuple(part) for part in parts]


def _of_page(text: str) -> list[str]:
    """Lines of a shell's code blocks, continued ones joined, and commands in running text."""
    lines, block, prose = [], None, []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            block = line[3:].strip() if block is None else None
        elif block is None:
            prose.append(line)
        elif block in SHELLS:
            lines.append(line.strip().removeprefix("$ "))
    return lines + INLINE.findall("\n".join(prose))


def _of_makefile(text: str) -> list[str]:
    """Recipes that call an entry, with what a user may add left out."""
    lines = text.replace("\\\n", " ").splitlines()
    called = [found[1] for line in lines if (found := re.search(rf"\$\(BIN\)/({ENTRY}.*)", line))]
    return [re.sub(r"\$\(\w+\)|'?\$\(call [^)]*\)'?\)?", "", line) for line in called if "$(call" not in line]


def _of_docstring(text: str) -> list[str]:
    """Usage lines, without what explains them behind several blanks, with all that is optional."""
    found = re.findall(rf"^({ENTRY}.*)$", text, re.M)
    return [re.sub(r"[\[\]]", "", line) if "[--" in line else re.split(r"\s{3,}", line)[0] for line in found]
