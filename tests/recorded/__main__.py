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
    for part, version in every().items():
        with tempfile.TemporaryDirectory() as folder:
            computed = plain(RECORDERS[part].make(Path(folder)))
        recorded = read(part) if path_of(part).is_file() else {"version": None, "output": {}}
        if recorded["version"] != version:
            write(part, version, computed)
            print(f"{part}: recorded at version {version}")
        else:
            changed += differences(part, RECORDERS[part], recorded["output"], computed)
    for line in changed:
        print(line, file=sys.stderr)
    if changed:
        print(
            "Raise the version of these parts in src/versions.yaml, or mend what changed them.",
            file=sys.stderr,
        )
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
