"""Entry: which published datasets are there, how to get the others, and fetching those that may be.

python -m src.stimuli
python -m src.stimuli status cfd oasis --root /data
python -m src.stimuli fetch oasis nrc_vad
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from src.configs import CHECKOUT
from src.errors import InputError, answered, replace_unprintable
from src.stimuli.public_datasets import PRESENT, Standing, chosen, command, standing

ROOT = CHECKOUT / "data" / "raw"


def main(arguments: list[str] | None = None) -> int:
    """Tell or fetch; returns the exit status."""
    replace_unprintable()
    parser = argparse.ArgumentParser(
        prog="python -m src.stimuli",
        description="Published datasets: what is here, how to get the rest.",
    )
    parser.add_argument("what", nargs="?", choices=["status", "fetch"], default="status")
    parser.add_argument("names", nargs="*", help="of datasets; status: all where none is named")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of their folders (%(default)s)")
    asked = parser.parse_args(arguments)
    tell_or_fetch = _fetch if asked.what == "fetch" else _status
    return answered(lambda: tell_or_fetch(asked.names, asked.root.absolute()))


def _status(names: list[str], root: Path) -> int:
    from rich.console import Console
    from rich.table import Table

    found = [standing(dataset, root) for dataset in chosen(names)]
    table = Table("dataset", "is", "found", "of", "what")
    for one in found:
        for number, (need, count) in enumerate(one.counts.items()):
            first = (one.dataset.name, one.state) if not number else ("", "")
            expected = " or ".join(f"{number:,}" for number in need.counts)
            what = f"rows of {need.pattern}" if need.kind == "rows" else need.pattern
            table.add_row(*first, f"{count:,}", expected, what)
        table.add_section()
    console = Console()
    console.print(table)
    packaged = "".join(f", {one.dataset.name} in its package" for one in found if one.dataset.package)
    console.print(f"Looked for in {root}, each in a folder of its name{packaged}.", soft_wrap=True)
    for one in found:
        if one.state != PRESENT:
            console.print(_how(one, root), soft_wrap=True, markup=False, highlight=False)
    return 0


def _how(one: Standing, root: Path) -> str:
    """How to get what is not there."""
    dataset = one.dataset
    way = command("fetch", dataset, root)
    if not dataset.files:
        way = f"{'after a form' if dataset.form else 'by hand'}, laid out in {one.folder}: {dataset.layout}"
    return (
        f"\n{dataset.name}: {dataset.title} ({dataset.citation})\n"
        f"  from   {dataset.address}\n  terms  {dataset.terms}\n  how    {way}"
    )


def _fetch(names: list[str], root: Path) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from src.stimuli.obtain import obtain

    if not names:
        fetched = ", ".join(dataset.name for dataset in chosen([]) if dataset.files)
        raise InputError(f"fetch: which of them? These may be fetched: {fetched}.")
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for dataset in chosen(names):
            task = progress.add_task(dataset.name, total=None)
            say = partial(console.print, soft_wrap=True, markup=False, highlight=False)
            obtain(dataset, root, say, partial(progress.update, task))
    # What came is counted as if it had been laid out by hand.
    return _status(names, root)


if __name__ == "__main__":
    sys.exit(main())
