"""Measure how bias in an encoder's representations carries over into retrieval."""

import os

# No entry sends telemetry.
for _name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "HF_HUB_DISABLE_TELEMETRY", "DVC_NO_ANALYTICS"):
    os.environ.setdefault(_name, "true")
