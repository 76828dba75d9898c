"""Record what each part of `src/versions.yaml` gives for a tiny input, at its declared version.

`outputs/PART.json` holds the version and the output. `tests/storage/test_versions.py` compares them with
the code; `python -m tests.recorded` records the outputs of the parts whose version was raised.
"""
