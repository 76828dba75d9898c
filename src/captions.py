"""Audit a table of training captions (`src.studies.sobit.captions`)."""

import sys

from src.studies.sobit.captions.cli import main, parse_arguments

__all__ = ["main", "parse_arguments"]

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
