"""List published datasets and how to get them, and fetch the freely available ones.

python -m src.stimuli
python -m src.stimuli status cfd oasis --root /data
python -m src.stimuli fetch oasis nrc_vad
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from src.configs import CHECKOUT
from src.errors import InputError, replace_unprintable, run_entry
from src.stimuli.public_datasets import PRESENT, format_command, read_status, select_datasets

ROOT = CHECKOUT / "data" / "raw"


def main(arguments: list[str] | None = None) -> int:
    """Run `status` or `fetch`, and return the exit status."""
    replace_unprintable()
    parser = argparse.ArgumentParser(
        prog="python -m src.stimuli", description="List published datasets and how to get them; fetch some."
    )
    parser.add_argument("subcommand", nargs="?", choices=["status", "fetch"], default="status")
    parser.add_argument("names", nargs="*", help="names of datasets (status: all by default)")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of all datasets (%(default)s)")
    options = parser.parse_args(arguments)
    run = _fetch if options.subcommand == "fetch" else _print_status
    return run_entry(lambda: run(options.names, options.root.absolute()))


def _print_status(names: list[str], root: Path) -> int:
    from rich.console import Console
    from rich.table import Table

    statuses = [read_status(dataset, root) for dataset in select_datasets(names)]
    table = Table("dataset", "state", "found", "expected", "content")
    for status in statuses:
        for number, (requirement, count) in enumerate(status.counts.items()):
            name_and_state = (status.dataset.name, status.state) if not number else ("", "")
            is_inside = requirement.kind in ("rows", "members")
            content = f"{requirement.kind} of {requirement.pattern}" if is_inside else requirement.pattern
            table.add_row(*name_and_state, f"{count:,}", requirement.describe_counts(), content)
        table.add_section()
    console = Console()
    console.print(table)
    packages = [status.dataset.name for status in statuses if status.dataset.package]
    package_note = f" In their Python packages instead: {', '.join(packages)}." if packages else ""
    console.print(f"Searched in {root}/NAME.{package_note}", soft_wrap=True)
    for status in statuses:
        if status.state == PRESENT:
            continue
        dataset, steps = status.dataset, format_command("fetch", status.dataset, root)
        if not dataset.files:
            access = "request it by its form" if dataset.form else "download it by hand"
            steps = f"{access}, and put it into {status.folder}: {dataset.layout}"
        text = (
            f"\n{dataset.name}: {dataset.title} ({dataset.citation})\n"
            f"  from   {dataset.address}\n  terms  {dataset.terms}\n  how    {steps}"
        )
        console.print(text, soft_wrap=True, markup=False, highlight=False)
    return 0


def _fetch(names: list[str], root: Path) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from src.stimuli.download import fetch_dataset

    if not names:
        fetchable = ", ".join(dataset.name for dataset in select_datasets([]) if dataset.files)
        raise InputError(f"fetch: expected names of datasets, got none. Name some of: {fetchable}.")
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for dataset in select_datasets(names):
            task = progress.add_task(dataset.name, total=None)
            report = partial(console.print, soft_wrap=True, markup=False, highlight=False)
            fetch_dataset(dataset, root, report, partial(progress.update, task))
    # Fetched files are counted in the same way as files that a user put there.
    return _print_status(names, root)


if __name__ == "__main__":
    sys.exit(main())
