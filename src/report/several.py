"""The findings of several sweeps over one dataset as those of one: recorded answers come a file at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from src import configs
from src.errors import InputError
from src.report.findings import Findings
from src.report.load import stored
from src.report.study import report_of
from src.tracking import Past, Tracker

# Letters of an id that tell sweeps apart.
SHORT = 8
FINISHED = "FINISHED"


def gathered(tracker: Tracker, sweeps: Sequence[Past], folder: Path) -> Findings:
    """The findings of sweeps of the store.

    Args:
        tracker: the store.
        sweeps: their parent runs.
        folder: an existing one, for copies of the jobs' results.

    Raises:
        InputError: they are of several datasets, or one of them has no results.
    """
    datasets = dict.fromkeys(sweep.dataset for sweep in sweeps)
    if len(datasets) > 1:
        raise InputError(
            f"sweep=: of {' and '.join(datasets)}. A report is of one dataset: name sweeps of one."
        )
    found = []
    for sweep in sweeps:
        place = folder / sweep.id
        place.mkdir()
        own = stored(tracker, sweep, place)
        if own is None:
            raise InputError(
                f"sweep {sweep.id} ({sweep.dataset}, {sweep.started}, {sweep.status}): no job of it has "
                "results, there is nothing to report. MLflow's page of it says why: make ui"
            )
        found.append(own)
    return joined(found)


def joined(found: Sequence[Findings]) -> Findings:
    """All that sweeps over one dataset found, each analysis once; q is computed anew over all."""
    first, *rest = found
    if not rest:
        return first
    models = _once([own.models for own in found]).drop_duplicates("model", ignore_index=True)
    names = configs.studies.in_order(name for own in found for name in own.frames)
    parts = {name: [own.of(name) for own in found if name in own.frames] for name in names}
    unfinished = [own.status for own in found if own.status != FINISHED]
    return replace(
        first,
        sweep=", ".join(own.sweep for own in found),
        status=unfinished[0] if unfinished else FINISHED,
        started=min(own.started for own in found),
        folders={config: folder for own in found for config, folder in own.folders.items()},
        missing=[overrides for own in found for overrides in own.missing],
        provenance=_provenance(found),
        jobs=_once([own.jobs for own in found]),
        models=models,
        frames={name: report_of(name).combine(frames) for name, frames in parts.items()},
    )


def _once(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    there = [frame for frame in frames if len(frame)]
    return pd.concat(there, ignore_index=True).drop_duplicates(ignore_index=True) if there else frames[0]


def _provenance(found: Sequence[Findings]) -> dict[str, str]:
    """What all share once, else of each sweep; commands one below the other."""
    said: dict[str, str] = {}
    for name in dict.fromkeys(name for own in found for name in own.provenance):
        texts = {own.sweep[:SHORT]: own.provenance[name] for own in found if name in own.provenance}
        if name == "command":
            said[name] = "\n".join(dict.fromkeys(texts.values()))
        elif name == "git.dirty":
            said[name] = max(texts.values())  # true of one is true of all
        elif len(texts) == len(found) and len({*texts.values()}) == 1:
            said[name] = texts.popitem()[1]
        else:
            said |= {f"{name}, sweep {sweep}": text for sweep, text in texts.items()}
    return said
