"""Registry of studies: name -> package, loaded when needed."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from src.errors import InputError

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


def load(name: str) -> Any:
    """Study of a name.

    Args:
        name: a name in `STUDIES`, or `module:attribute` of a study that is defined elsewhere.

    Raises:
        InputError: there is no such study.
    """
    if name in STUDIES:
        return importlib.import_module(f"{STUDIES[name]}.study").STUDY
    module, colon, attribute = name.partition(":")
    if not colon:
        near = difflib.get_close_matches(name, STUDIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InputError(
            f"study: unknown name {name!r}.{hint} Known: {', '.join(STUDIES)}; or name your own as "
            "module:attribute."
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"study={name}: cannot be imported ({error}). Put its folder on PYTHONPATH and name it "
            "module:attribute."
        ) from None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of studies in the order of a report; those defined elsewhere come last."""
    given = list(dict.fromkeys(names))
    known = [name for name in STUDIES if name in given]
    return known + sorted(name for name in given if name not in STUDIES)
