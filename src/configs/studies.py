"""Registry of studies: name -> package, loaded when needed."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

from src.configs import registry

# In the order of their sections in a report. A package has a module `study` with STUDY and, but for
# OVER_OTHERS, a module `config` with CONFIGS.
STUDIES = {
    "propagation": "src.studies.propagation",
    "debiasing": "src.studies.debiasing",
    "implicit": "src.studies.implicit",
    "zero_shot": "src.studies.zero_shot",
    "sobit": "src.studies.sobit",
    "subtler": "src.studies.subtler",
    "poems": "src.studies.poems",
}
# Studies that compare jobs of the others, and have none of their own.
OVER_OTHERS = ("debiasing",)


def config_classes() -> dict[str, type]:
    """Schemas of the studies' experiments and tasks, by their name in the config group `schema`."""
    found: dict[str, type] = {}
    for name, package in STUDIES.items():
        if name not in OVER_OTHERS:
            found |= importlib.import_module(f"{package}.config").CONFIGS
    return found


def load(name: str, kind: type = object) -> Any:
    """Study of a name.

    Args:
        name: a name in `STUDIES`, or `module:attribute` of a study that is defined elsewhere.
        kind: class of the study.

    Raises:
        InputError: there is no such study.
    """
    known = {study: f"{package}.study:STUDY" for study, package in STUDIES.items()}
    return registry.load("study", name, known, kind)


def in_order(names: Iterable[str]) -> list[str]:
    """Names of studies in the order of a report; those defined elsewhere come last."""
    given = list(dict.fromkeys(names))
    known = [name for name in STUDIES if name in given]
    return known + sorted(name for name in given if name not in STUDIES)
