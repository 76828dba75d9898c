"""Parse the options of checks of planted bias, and write pages of claims."""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from src import configs
from src.report.tables import build_table
from validation.truth.claims import Claim


def parse(
    module: str, description: str | None, arguments: list[str] | None, biases: list[float] | None = None
) -> Any:
    """Parse the arguments of a module: seeds, biases (if any), output and overrides, in any order.

    Make the output folder. Exit with a message if that fails, or unless there are two biases, which claims
    compare.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--seeds", type=_numbers(int), default=[0, 1, 2], help="seeds of the toys")
    if biases is not None:
        parser.add_argument("--biases", type=_numbers(float), default=biases, help="planted biases")
    parser.add_argument("--output", type=Path, default=configs.CHECKOUT / "outputs" / "truth")
    parser.add_argument("overrides", nargs="*", help="overrides as for src.run")
    options = parser.parse_intermixed_args(arguments)
    if biases is not None and len(options.biases) < 2:
        parser.error("--biases: expected at least two different numbers, which claims compare")
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {options.output}: cannot be created ({error.strerror})")
    if not os.access(options.output, os.W_OK):
        parser.error(f"--output {options.output}: cannot be written")
    return options


def _numbers(kind: type) -> Any:
    """Return a parser of distinct numbers that are separated by commas."""

    def convert(text: str) -> list[Any]:
        return sorted({kind(number) for number in text.split(",")})

    return convert


def compare(claims: Iterable[Claim], shuffled: Iterable[Claim]) -> pd.DataFrame:
    """Return a row per claim: its fields, what was measured on `shuffled` vectors, whether they refute it."""
    checks, on_shuffled = (pd.DataFrame(map(vars, each)) for each in (claims, shuffled))
    return checks.assign(shuffled=on_shuffled["measured"], refuted=~on_shuffled["holds"])


def write(checks: pd.DataFrame, folder: Path, names: tuple[str, str], page: str) -> int:
    """Write the claims of `compare` as JSON and a page to files named `names`, and print them.

    Return 1 if a claim does not hold, or holds on shuffled vectors as well, else 0.
    """
    records = json.dumps(checks.to_dict("records"), indent=2, ensure_ascii=False)
    (folder / names[0]).write_text(f"{records}\n", "utf-8")
    (folder / names[1]).write_text(page, "utf-8")
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(build_table(checks, "What was planted, and what is measured"))
    print(f"Written to {folder}")
    return int(not checks[["holds", "refuted"]].all(axis=None))


def build_page(checks: pd.DataFrame, command: str, title: str, *further: str) -> str:
    """Write a page of the claims, with what was measured on the toys and on their shuffled vectors.

    `checks`: see `compare`. `command`: module and overrides that made the page. `further`: last paragraphs.
    """
    verdicts = {"holds": {True: "yes", False: "no"}, "refuted": {True: "no", False: "yes"}}
    cells = checks.assign(**{name: checks[name].map(words) for name, words in verdicts.items()})
    cells = cells.rename(columns={"refuted": "holds on them", "shuffled": "on shuffled vectors"})
    cells = cells.map(lambda text: str(text).replace("|", "\\|"))
    lines = [
        f"# {title}",
        f"Made by `python -m {command}`; [what is claimed](../trust.md).",
        cells.to_markdown(index=False, disable_numparse=True),
        *further,
    ]
    return "\n\n".join(lines) + "\n"
