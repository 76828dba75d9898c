"""Name runs and sweeps; collect and log the metadata of a job: params, tags, metrics and figures."""

import logging
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from src import configs, encoders, stimuli, tracking
from src.embeddings import Embeddings
from src.jobs.identity import Job, NamedConfig, without_unhashed_fields
from src.report import load, markdown
from src.report.drawing import save_png
from src.stimuli import IMAGE_ROLES, ROLES, TEXT_ROLES
from src.storage.versions import library_versions
from src.studies.protocol import StudyResult, load_study

log = logging.getLogger(__name__)

# Artifact with the config of a job.
CONFIG = "config.yaml"
# Libraries that affect numbers or their storage.
LIBRARIES = ("torch", "open_clip_torch", "transformers", "numpy", "scipy", "pandas", "hydra-core", "mlflow")

SEPARATOR = " · "
# Defaults, which the names of runs and sweeps omit.
DEFAULT_PROTOCOL, DEFAULT_DEBIAS, DEFAULT_SEED = "paper", "none", 0
DEFAULT_PERTURB = configs.NO_PERTURBATION
# The paper's method of morphs, which names omit as well. The config's default is another one, `flow`.
PAPER_MORPHS = "stylegan2"
# Maximum number of choices that the name of a sweep lists, and of characters of the list; longer lists are
# replaced by a count.
MAX_LIST_ITEMS, MAX_LIST_CHARACTERS = 3, 60
# Names of a job that are logged as parameters, by which users group and compare runs.
LOGGED_NAMES = ("model", "exp", "protocol", "debias", "perturb")
# Top-level entries of a config that are not logged as parameters, as they do not describe the measurement.
UNLOGGED_GROUPS = ("store", "tracking", "resume", "plan", "report")
# Config groups of data. Their nested settings, such as words, colours and planted bias by group, are not
# logged as parameters.
DATA_GROUPS = (*ROLES, "dataset", "demo")


def collect_provenance() -> dict[str, str]:
    """Return tags of the commit of the running code and of the versions of its libraries."""
    libraries = {f"version.{name}": version for name, version in library_versions(*LIBRARIES).items()}
    return {**read_commit_tags(configs.CODE), **libraries}


@cache
def read_commit_tags(checkout: Path) -> dict[str, str]:
    """Return the tags `git.commit` and `git.dirty` of a checkout.

    They are `unknown` if the folder is not the root of a repository.
    """
    unknown = {"git.commit": "unknown", "git.dirty": "unknown"}

    def git(*arguments: str) -> str:
        completed = subprocess.run(
            ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=False
        )
        return completed.stdout.strip() if completed.returncode == 0 else "unknown"

    try:
        if git("rev-parse", "--show-prefix"):  # not a root: a folder within another repository
            return unknown
        return {
            "git.commit": git("rev-parse", "HEAD"),
            "git.dirty": {"": "false", "unknown": "unknown"}.get(git("status", "--porcelain"), "true"),
        }
    except OSError:  # no git on this machine
        return unknown


def name_run(job: NamedConfig) -> str:
    """Return the name of a job's run: its model and experiment, and other choices that are not the default.

    The name is unique among the jobs of a sweep on one dataset, as `make_label_unique` of `src.sweeps.sweep`
    makes their models' names differ where all else is the same.
    """
    names = [job.model, job.exp]
    names += [] if job.protocol == DEFAULT_PROTOCOL else [_strip_default_protocol(job.protocol)]
    names += [] if job.debias == DEFAULT_DEBIAS else [f"debias {job.debias}"]
    names += [] if job.perturb == DEFAULT_PERTURB else [f"perturb {job.perturb}"]
    names += filter(None, [_name_morphs(job)])
    names += [] if job.cfg.seed == DEFAULT_SEED else [f"seed {job.cfg.seed}"]
    return SEPARATOR.join(names)


def _strip_default_protocol(protocol: str) -> str:
    """Return a protocol's name without the default that it changes: `paper+k=5` becomes `k=5`."""
    return protocol.removeprefix(f"{DEFAULT_PROTOCOL}+")


def _name_morphs(job: NamedConfig) -> str:
    """Name the method of a job's morphs; return an empty text for the paper's, or without morphs."""
    faces = getattr(job.cfg, "faces", None)
    if not isinstance(faces, configs.MorphsConfig) or faces.method == PAPER_MORPHS:
        return ""
    return f"{faces.method} morphs" if "faces" in select_settings(job) else ""


def name_sweep(jobs: Sequence[NamedConfig]) -> str:
    """Return the name of a sweep over jobs on one dataset, such as `toy_s, toy_m × 8 experiments`."""
    parts = [
        _list_or_count("models", [job.model for job in jobs]),
        _list_or_count("experiments", [job.exp for job in jobs]),
        _list_or_count(
            "protocols", [_strip_default_protocol(job.protocol) for job in jobs], DEFAULT_PROTOCOL
        ),
        _list_or_count("debiasing methods", [job.debias for job in jobs], DEFAULT_DEBIAS),
        _list_or_count("perturbations", [job.perturb for job in jobs], DEFAULT_PERTURB),
        _list_or_count("kinds of morphs", [*filter(None, map(_name_morphs, jobs))]),
        _list_or_count("seeds", [f"seed {job.cfg.seed}" for job in jobs], f"seed {DEFAULT_SEED}"),
    ]
    return " × ".join(filter(None, parts))


def _list_or_count(plural: str, choices: Sequence[str], default: str = "") -> str:
    """List distinct choices, or count them if the list is long.

    Return an empty string if the default is the only choice.
    """
    distinct = list(dict.fromkeys(choices))
    text = ", ".join(distinct)
    if distinct == [default]:
        return ""
    if len(distinct) == 1:
        return text
    is_short = len(distinct) <= MAX_LIST_ITEMS and len(text) <= MAX_LIST_CHARACTERS
    return text if is_short else f"{len(distinct)} {plural}"


def log_job(run: tracking.Run, job: NamedConfig, overrides: str, command: str) -> None:
    """Log a job before it runs: params, tags, and its config as `config.yaml`."""
    names = {name: str(value) for name, value in job.columns.items()}
    tags = {**names, **collect_provenance(), "kind": "job", "overrides": overrides, "command": command}
    run.log(params={name: getattr(job, name) for name in LOGGED_NAMES}, tags=tags)
    run.log(params=select_settings(job))
    run.log_text(yaml.safe_dump(dict(job.resolved), allow_unicode=True, sort_keys=False), CONFIG)


def select_settings(job: NamedConfig) -> dict[str, object]:
    """Return the settings that a job uses, nested as in its config; `config.yaml` has the whole config."""
    used = {name: node for name, node in job.resolved.items() if name not in UNLOGGED_GROUPS}
    if isinstance(job, Job):
        used = _drop_unused_settings(job, used)
    groups = {
        name: _without_empty_values(node, nested=name not in DATA_GROUPS) for name, node in used.items()
    }
    return {name: node for name, node in groups.items() if node is not None}


def _drop_unused_settings(job: Job, used: Mapping[str, Any]) -> dict[str, Any]:
    """Drop unused roles, disabled features and protocol fields without effect."""
    exp, protocol = job.cfg.exp, job.cfg.protocol
    roles = load_study(exp).roles(exp)
    unused = {*ROLES} - {*roles}
    unused |= set() if {*roles} & {*TEXT_ROLES} else {"templates"}
    unused |= set() if job.cfg.demo.planted else {"demo"}
    unused |= set() if job.cfg.debias.spurious else {"debias"}
    fields = load_study(exp).protocol_fields(exp, protocol)
    used = {name: node for name, node in used.items() if name not in unused}
    # Drop `study` and `paper`, which are logged as tags, and options that still have the value they had
    # before they became configurable.
    exp_fields = without_unhashed_fields("exp", used["exp"]).items()
    used["exp"] = {name: value for name, value in exp_fields if name != "paper"}
    used |= {"demo": without_unhashed_fields("demo", used["demo"])} if "demo" in used else {}
    used["protocol"] = {name: value for name, value in used["protocol"].items() if name in fields}
    return used


def _without_empty_values(node: object, *, nested: bool = True) -> object:
    """Return a setting without empty values (None if nothing is left).

    With `nested=False`, also drop nested mappings.
    """
    if not isinstance(node, Mapping):
        return None if node in (None, "", []) else node
    values = {
        name: content
        for name, value in node.items()
        if (nested or not isinstance(value, Mapping))
        and (content := _without_empty_values(value)) is not None
    }
    return values or None


def log_description(run: tracking.Run, job: NamedConfig, analyses: pd.DataFrame) -> None:
    """Log the conclusions and tables of a job's analyses as the description of its run."""
    try:
        description = markdown.describe(load.combine_by_study([analyses]), job.dataset)
    except Exception as error:  # the results do not depend on it
        message = "%s: could not describe the analyses (a bug in this program). The results are complete."
        log.error(message, job.label, exc_info=error)
        return
    run.log(tags={"description": description})


def build_model_tags(job: Job) -> dict[str, str]:
    """Return the tags of a model: pretraining data and their filter, family, and weights.

    Weights are `random` or `trained`, with their hashes.

    `verified` states whether a published model agreed with its publisher's scores (`src.encoders verify`).
    `family` is the family of models that share architecture and training data (`encoders.name_family`), not
    the encoder family that loads the model.
    """
    encoder_family = encoders.family_of(job.cfg.model)
    tags = {"pretraining": encoder_family.pretraining(job.cfg.model)}
    if data_filter := encoder_family.declared(job.cfg.model).get("filter"):
        tags["filter"] = data_filter
    tags["family"] = encoders.name_family(job.cfg.model)
    if job.cfg.model.precomputed:
        return tags
    encoder = encoders.open_encoder(job.cfg, partial(stimuli.load, job.cfg))
    weights = encoder.identify_weights()
    is_random = weights["revision"] == "random" or getattr(job.cfg.model, "steps", None) == 0  # untrained toy
    tags["weights"] = "random" if is_random else "trained"
    if encoder_family.encoder and not is_random:
        from src.encoders import verification  # loads torch

        tags["verified"] = verification.read_status(Path(job.cfg.store.verifications), encoder)
    return tags | {f"weights.{name}": value for name, value in weights.items()}


def compute_speed(embeddings: Mapping[str, Embeddings]) -> dict[str, float]:
    """Return the metrics of images and sentences per second, for roles embedded in this run."""
    totals = {"speed.images_per_second": [0, 0.0], "speed.sentences_per_second": [0, 0.0]}
    for role, embedded in embeddings.items():
        if embedded.seconds:
            name = "speed.images_per_second" if role in IMAGE_ROLES else "speed.sentences_per_second"
            totals[name][0] += len(embedded.vectors)
            totals[name][1] += embedded.seconds
    return {name: count / seconds for name, (count, seconds) in totals.items() if seconds}


def collect_metrics(job: Job, result: StudyResult) -> dict[str, float]:
    """Return the metrics of the job's study and of its model's facts, by name.

    Undefined ones are left out, so that `Run.log` lists none of them in the tag `undefined_metrics`.
    `compare_rho.EXP` repeats `rho`, so that MLflow's charts of runs grouped by model compare ρ by experiment.
    """
    family = encoders.family_of(job.cfg.model)
    facts = dict(family.facts(job.cfg.model))
    if millions := family.declared(job.cfg.model).get("pairs_seen"):
        facts["pairs_seen"] = 1e6 * float(millions)
    values = dict(load_study(job.cfg.exp).metrics(result))
    if "rho" in values:
        values[f"compare_rho.{job.exp}"] = values["rho"]
    values |= {f"model.{name}": value for name, value in facts.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def log_figures(run: tracking.Run, job: Job, result: StudyResult) -> None:
    """Log the figures of the job's study as artifacts."""
    with tempfile.TemporaryDirectory() as directory:
        for name, figure, alt_text in load_study(job.cfg.exp).figures(job.cfg.exp, job.columns, result):
            save_png(figure, alt_text, Path(directory) / name)
        run.log_artifacts(Path(directory))
