"""List and prune the store of embeddings or the store of resized pictures.

python -m src.embeddings ls
python -m src.embeddings prune --unused-for 90 --dry-run
python -m src.embeddings prune data/pictures --unused-for 90    # resized pictures
"""

import argparse
import sys
from pathlib import Path

import pandas as pd

from src.configs import CHECKOUT
from src.embeddings import pruning
from src.errors import InputError, replace_unprintable, run_entry


def main(arguments: list[str] | None = None) -> int:
    """List or prune a store; return the exit status."""
    replace_unprintable()
    parser = argparse.ArgumentParser(
        prog="python -m src.embeddings",
        description="List entries; or prune damaged, unfinished and, with --unused-for, unused entries.",
    )
    parser.add_argument("command", choices=["ls", "prune"])
    parser.add_argument(
        "store", nargs="?", type=Path, default=CHECKOUT / "data" / "embeddings", help="folder (%(default)s)"
    )
    parser.add_argument(
        "--unused-for", type=_parse_days, metavar="DAYS", help="also prune entries unused for DAYS"
    )
    parser.add_argument("--dry-run", action="store_true", help="prune: only list what would be removed")
    options = parser.parse_args(arguments)
    return run_entry(lambda: _main(options))


def _parse_days(text: str) -> float:
    days = float(text)
    if not days >= 0:  # not a number, too
        raise argparse.ArgumentTypeError(f"{text}: expected a number of days, at least 0")
    return days


def _main(options: argparse.Namespace) -> int:
    if not options.store.is_dir():
        raise InputError(f"{options.store}: no such folder. Name the folder of a store.")
    if options.command == "ls":
        rows, description = pruning.list_entries(options.store), "entries"
    else:
        removed = pruning.prune(options.store, options.unused_for, dry=options.dry_run)
        rows = pd.DataFrame(removed, columns=["entry", "reason", "bytes"])
        description = "entries would be removed" if options.dry_run else "entries removed"
    if len(rows):
        print(rows.to_string(index=False))
    print(f"{len(rows)} {description}, {rows['bytes'].sum() / 1e6:.1f} MB in {options.store}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
