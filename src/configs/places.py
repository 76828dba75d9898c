"""Folders of the project: its code, its YAMLs, and where it writes."""

from __future__ import annotations

from pathlib import Path

# Holds src/: the checkout, or where a wheel is installed.
CODE = Path(__file__).resolve().parents[2]
_IN_WHEEL = CODE / "src" / "conf"
CONF = _IN_WHEEL if _IN_WHEEL.is_dir() else CODE / "conf"
# Stores, runs and outputs lie below it: the checkout, or the folder in which an installed command is typed.
CHECKOUT = Path.cwd() if _IN_WHEEL.is_dir() else CODE
