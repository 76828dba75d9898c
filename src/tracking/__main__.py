"""Entry: put a local tracking store in order after it was moved or its writers died.

python -m src.tracking sqlite:///mlruns/mlflow.db
"""

from __future__ import annotations

import sys

from src.configs import CHECKOUT
from src.errors import InputError
from src.tracking import SQLITE, Tracker


def main(arguments: list[str]) -> int:
    """Open a store, which puts it in order; returns the exit status."""
    try:
        Tracker(arguments[0] if arguments else f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db")
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
