"""Record the output of each part of `src/versions.yaml` for a tiny input, at its declared version.

`outputs/PART.json` holds the version and the output. `tests/storage/test_versions.py` compares them with
the output of the code; `python -m tests.recorded` records the outputs of parts whose version was raised.
"""
