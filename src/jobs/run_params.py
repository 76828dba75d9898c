"""Select the parameters of a job's run in MLflow: the settings that the job uses."""

from collections.abc import Mapping
from typing import Any

from src.jobs.identity import Job, Named
from src.stimuli import ROLES, TEXT_ROLES
from src.studies.protocol import study_of

# Places and switches, which are no settings of a measurement.
NOT_PARAMS = ("store", "tracking", "resume", "plan", "report")
# Names of a job, which are the parameters that users compare and group by.
CHOICES = ("model", "exp", "protocol", "debias")
# Config groups of data: their lists of words, colours and planted numbers are no parameters.
DATA = (*ROLES, "dataset", "demo")


def choices(job: Named) -> dict[str, object]:
    """Return the names of a job as parameters."""
    return {name: getattr(job, name) for name in CHOICES}


def settings(job: Named) -> dict[str, object]:
    """Return the settings that a job uses, nested as in its config; `config.yaml` has the whole config."""
    used = {name: node for name, node in job.resolved.items() if name not in NOT_PARAMS}
    if isinstance(job, Job):
        used = _of_encoder_job(job, used)
    groups = {name: _filled(node, nested=name not in DATA) for name, node in used.items()}
    return {name: node for name, node in groups.items() if node is not None}


def _of_encoder_job(job: Job, used: Mapping[str, Any]) -> dict[str, Any]:
    """Drop unused roles, fields of the protocol that have no effect, and what is switched off."""
    exp, protocol = job.cfg.exp, job.cfg.protocol
    roles = study_of(exp).roles(exp)
    unused = {*ROLES} - {*roles}
    unused |= set() if {*roles} & {*TEXT_ROLES} else {"templates"}
    unused |= set() if job.cfg.demo.planted else {"demo"}
    fields = study_of(exp).protocol_fields(exp, protocol)
    used = {name: node for name, node in used.items() if name not in unused}
    # Its tags name them already.
    used["exp"] = {name: value for name, value in used["exp"].items() if name not in ("paper", "study")}
    used["protocol"] = {name: value for name, value in used["protocol"].items() if name in fields}
    if not job.cfg.debias.spurious:
        del used["debias"]
    return used


def _filled(node: object, *, nested: bool = True) -> object:
    """Return a setting without its empty values, or None if nothing is left."""
    if not isinstance(node, Mapping):
        return None if node in (None, "", []) else node
    values = {
        name: filled
        for name, value in node.items()
        if (nested or not isinstance(value, Mapping)) and (filled := _filled(value)) is not None
    }
    return values or None
