"""Name runs in MLflow: a job by its choices without the defaults, a sweep by what it varies."""

from collections.abc import Sequence

from src.jobs.identity import Named

SEPARATOR = " · "
# Default choices, which no name contains.
PROTOCOL, DEBIAS, SEED = "paper", "none", 0
# Maximum number of choices that the name of a sweep lists, and of their characters; above, it counts them.
MAX_LISTED, MAX_LENGTH = 3, 60


def run_name(job: Named) -> str:
    """Return the name of a job's run: model, experiment, and the rest where it is not the default.

    Unique within the jobs of a sweep on one dataset.
    """
    names = [job.model, job.exp]
    names += [] if job.protocol == PROTOCOL else [_changes(job.protocol)]
    names += [] if job.debias == DEBIAS else [f"debias {job.debias}"]
    names += [] if job.cfg.seed == SEED else [f"seed {job.cfg.seed}"]
    return SEPARATOR.join(names)


def _changes(protocol: str) -> str:
    """Return a protocol without the name of the default that it changes."""
    return protocol.removeprefix(f"{PROTOCOL}+")


def sweep_name(jobs: Sequence[Named]) -> str:
    """Return the name of a sweep over jobs on one dataset, such as `toy_s, toy_m × 8 experiments`."""
    parts = [
        _listed("models", [job.model for job in jobs]),
        _listed("experiments", [job.exp for job in jobs]),
        _listed("protocols", [_changes(job.protocol) for job in jobs], PROTOCOL),
        _listed("projections", [job.debias for job in jobs], DEBIAS),
        _listed("seeds", [f"seed {job.cfg.seed}" for job in jobs], f"seed {SEED}"),
    ]
    return " × ".join(filter(None, parts))


def _listed(plural: str, choices: Sequence[str], default: str = "") -> str:
    """List distinct choices, or count them if they are many; return an empty text for the default alone."""
    distinct = list(dict.fromkeys(choices))
    text = ", ".join(distinct)
    if distinct == [default]:
        return ""
    if len(distinct) == 1:
        return text
    is_short = len(distinct) <= MAX_LISTED and len(text) <= MAX_LENGTH
    return text if is_short else f"{len(distinct)} {plural}"
