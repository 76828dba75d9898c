"""Repair a local tracking store after it was moved or its writers died.

python -m src.tracking sqlite:///mlruns/mlflow.db
"""

import sys

from src.configs import CHECKOUT
from src.errors import replace_unprintable, run_entry
from src.tracking import SQLITE, Tracker


def main(arguments: list[str]) -> int:
    """Open a store, which repairs it; return the exit status."""
    replace_unprintable()
    if {*arguments} & {"-h", "--help"}:
        print(__doc__)
        return 0

    def open_store() -> int:
        Tracker(arguments[0] if arguments else f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db")
        return 0

    return run_entry(open_store)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
