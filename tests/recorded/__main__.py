"""Record the outputs of the parts whose version was raised: python -m tests.recorded."""

import sys
import tempfile
from pathlib import Path

from src.storage.versions import all_declared_versions
from tests.recorded.comparison import differences, output_path, read, to_json, write
from tests.recorded.recorders import RECORDERS


def main() -> int:
    """Record outputs of new versions; return 1 if an output changed while its version did not."""
    changed = []
    for component, version in all_declared_versions().items():
        with tempfile.TemporaryDirectory() as folder:
            computed = to_json(RECORDERS[component].compute(Path(folder)))
        recorded = read(component) if output_path(component).is_file() else {"version": None, "output": {}}
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
