"""Audit a table of training captions (`src.studies.sobit.captions`)."""

import sys

from src.studies.sobit.captions.cli import main, read

__all__ = ["main", "read"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
