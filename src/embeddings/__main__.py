"""Entry: what lies in the store of embeddings, or in that of resized pictures, and what of it can go.

python -m src.embeddings ls
python -m src.embeddings prune --unused-for 90 --dry-run
python -m src.embeddings prune data/pictures --unused-for 90    # resized pictures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd

from src.configs import CHECKOUT
from src.embeddings import pruning
from src.errors import answered, replace_unprintable


def main(arguments: list[str] | None = None) -> int:
    """List or prune; returns the exit status."""
    replace_unprintable()
    parser = argparse.ArgumentParser(
        prog="python -m src.embeddings", description="What lies in a store, and what of it can go."
    )
    parser.add_argument("what", choices=["ls", "prune"])
    parser.add_argument(
        "store", nargs="?", type=Path, default=CHECKOUT / "data" / "embeddings", help="folder (%(default)s)"
    )
    parser.add_argument(
        "--unused-for", type=float, metavar="DAYS", help="prune intact entries not used for so long, too"
    )
    parser.add_argument("--dry-run", action="store_true", help="prune: only say what would go")
    asked = parser.parse_args(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    if asked.what == "ls":
        _list(asked.store)
    else:
        _prune(asked.store, asked.unused_for, asked.dry_run)
    return 0


def _list(store: Path) -> None:
    found = pruning.listing(store)
    if len(found):
        print(found.to_string(index=False))
    print(f"{len(found)} entries, {found['bytes'].sum() / 1e6:.1f} MB in {store}")


def _prune(store: Path, unused_days: float | None, dry: bool) -> None:
    found = pd.DataFrame(pruning.prune(store, unused_days, dry=dry), columns=["entry", "reason", "bytes"])
    if len(found):
        print(found.to_string(index=False))
    done = "would go" if dry else "removed"
    print(f"{len(found)} {done}, {found['bytes'].sum() / 1e6:.1f} MB, in {store}")


if __name__ == "__main__":
    sys.exit(main())
