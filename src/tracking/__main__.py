"""Entry: put a local tracking store in order after it was moved or its writers died.

python -m src.tracking sqlite:///mlruns/mlflow.db
"""

from __future__ import annotations

import sys

from src.configs import CHECKOUT
from src.errors import answered, replace_unprintable
from src.tracking import SQLITE, Tracker


def main(arguments: list[str]) -> int:
    """Open a store, which puts it in order; returns the exit status."""
    replace_unprintable()
    if {*arguments} & {"-h", "--help"}:
        print(__doc__)
        return 0

    def put_in_order() -> int:
        Tracker(arguments[0] if arguments else f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db")
        return 0

    return answered(put_in_order)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
