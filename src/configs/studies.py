"""Register the studies by name, and load their packages on demand."""

import importlib
from collections.abc import Iterable
from typing import Any

from src.configs import registry

# Name -> package, in the order of the sections in a report. A package has a module `study` with STUDY and,
# except for WITHOUT_JOBS, a module `config` with CONFIGS.
STUDIES = {
    "propagation": "src.studies.propagation",
    "debiasing": "src.studies.debiasing",
    "implicit": "src.studies.implicit",
    "zero_shot": "src.studies.zero_shot",
    "eat": "src.studies.eat",
    "sobit": "src.studies.sobit",
    "matched": "src.studies.matched",
    "harms": "src.studies.harms",
    "subtler": "src.studies.subtler",
    "poems": "src.studies.poems",
    "sensitivity": "src.studies.sensitivity",
    "languages": "src.studies.languages",
    "predictors": "src.studies.predictors",
}
# Studies that compare jobs of other studies, and have no jobs themselves.
WITHOUT_JOBS = ("debiasing", "sensitivity", "languages", "predictors")


def load_config_classes() -> dict[str, type]:
    """Return the schemas of the studies' experiments and tasks, by their names in the group `schema`."""
    classes: dict[str, type] = {}
    for name, package in STUDIES.items():
        if name not in WITHOUT_JOBS:
            classes |= importlib.import_module(f"{package}.config").CONFIGS
    return classes


def load(name: str, kind: type = object) -> Any:
    """Load a study by its name or as `module:attribute`; raise `InputError` if it is not of class `kind`."""
    known = {study: f"{package}.study:STUDY" for study, package in STUDIES.items()}
    return registry.load("study", name, known, kind)


def sort_names(names: Iterable[str]) -> list[str]:
    """Sort unique names of studies into the order of a report; studies defined elsewhere come last."""
    unique_names = list(dict.fromkeys(names))
    known = [name for name in STUDIES if name in unique_names]
    return known + sorted(name for name in unique_names if name not in STUDIES)
