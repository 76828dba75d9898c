"""Record the outputs of the parts whose version was raised: python -m tests.recorded."""

import sys
import tempfile
from pathlib import Path

from src.storage.versions import every
from tests.recorded.comparison import differences, path_of, plain, read, write
from tests.recorded.parts import RECORDERS


def main() -> int:
    """Record what has a new version; refuse what changed without one. Returns the exit status."""
    changed = []
    for component, version in every().items():
        with tempfile.TemporaryDirectory() as folder:
            computed = plain(RECORDERS[component].make(Path(folder)))
        recorded = read(component) if path_of(component).is_file() else {"version": None, "output": {}}
        if recorded["version"] != version:
            write(component, version, computed)
            print(f"{component}: recorded at version {version}")
        else:
            changed += differences(component, RECORDERS[component], recorded["output"], computed)
    for line in changed:
        print(line, file=sys.stderr)
    if changed:
        print("Raise the version of these parts in src/versions.yaml, or correct the code.", file=sys.stderr)
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
