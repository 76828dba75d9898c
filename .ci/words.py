"""Check names, docstrings and phrases against the lists in .ci/words.yaml.

.venv/bin/python .ci/words.py
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).with_suffix(".yaml")
ROOT = RULES.parents[1]
# Message of one violation, with its file and line.
Violation = tuple[Path, int, str]


def names(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every name that a module defines, with its line, and its own."""
    yield 1, path.stem
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def check_names(path: Path, tree: ast.Module, rules: dict[str, Any]) -> Iterator[Violation]:
    """Yield names that hold a forbidden word."""
    for line, name in names(path, tree):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
        bad = sorted({*words} & {*rules["forbidden_in_names"]})
        if bad and name.strip("_").lower() not in rules["names_excepted"]:
            yield path, line, f"name {name}: holds {', '.join(bad)}. Name it by what it holds."


def check_docstrings(path: Path, tree: ast.Module, rules: dict[str, Any]) -> Iterator[Violation]:
    """Yield docstrings of modules and functions that begin with no verb of the list."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef) and (text := ast.get_docstring(node)):
            first = re.split(r"\W", text, maxsplit=1)[0]
            if first not in rules["verbs"]:
                line = node.body[0].lineno
                yield path, line, f"docstring begins with {first!r}. Begin with a verb of {RULES.name}."


def check_phrases(path: Path, text: str, rules: dict[str, Any]) -> Iterator[Violation]:
    """Yield lines that hold a banned phrase."""
    banned = re.compile("|".join(rules["banned_phrases"]), re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), start=1):
        if found := banned.search(line):
            yield path, number, f"phrase {found[0]!r}. Say it plainly."


def violations(rules: dict[str, Any]) -> Iterator[Violation]:
    """Yield all violations in the paths that the rules list."""
    for path in sorted(file for place in rules["python"] for file in ROOT.glob(place)):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        yield from check_names(path, tree, rules)
        if path.relative_to(ROOT).parts[0] not in rules["free_docstrings"]:
            yield from check_docstrings(path, tree, rules)
        yield from check_phrases(path, text, rules)
    for path in sorted(file for place in rules["markdown"] for file in ROOT.glob(place)):
        yield from check_phrases(path, path.read_text("utf-8"), rules)


def main() -> int:
    """Print each violation; return 1 if there is one."""
    rows = list(violations(yaml.safe_load(RULES.read_text("utf-8"))))
    for path, line, message in rows:
        print(f"{path.relative_to(ROOT)}:{line}: {message}")
    return int(bool(rows))


if __name__ == "__main__":
    sys.exit(main())
