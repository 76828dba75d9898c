"""Plan jobs (`plan=true`): which are finished, which steps the others need, and their disk and memory."""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from src import configs, embeddings, encoders, stimuli
from src.embeddings.image_cache import has_resized
from src.encoders.preprocessing import SplitPreprocessing
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.jobs.language_check import check_language
from src.jobs.previous_runs import RunFilter, build_run_filter, find_finished_run, tabulate_detectable
from src.jobs.runner import Runner
from src.jobs.unread_texts import leave_out_unread
from src.metrics import models_needed
from src.stimuli import IMAGE_ROLES, ROLES, Table
from src.stimuli.perturbations import build_perturbation, perturbs
from src.storage import cache
from src.studies.protocol import load_study

# Measured bytes on disk per pixel of pictures of the built-in world and of morphs.
DRAWN_PIXEL_BYTES, MORPHED_PIXEL_BYTES = 0.8, 1.3
# Bytes on disk of one job besides its tables: a scatter plot, draws, rows of the database.
JOB_BYTES = 750_000
# Bytes in memory of a job with few stimuli. This and the factors by which other memory is estimated from
# the sizes of pictures and weights were measured by python -m benchmarks stages.
BASE_MEMORY = 1.2e9
# Correlations over models; a plan states how many model families are needed to detect each.
CORRELATIONS = (0.3, 0.5, 0.7, 0.9)
FLOAT_BYTES = 4.0  # bytes of a float32; values of stored pictures have one byte


@dataclass(frozen=True)
class Step:
    """Step of a plan; jobs that need the same step share its stored result."""

    description: str  # unique within a plan
    items: int  # number of pictures or texts
    stored: bool  # whether its result is stored already
    disk: float  # expected size of the result on disk, in bytes; NaN if unknown
    memory: float = BASE_MEMORY  # expected peak memory of the process that runs it, in bytes; NaN if unknown


@dataclass(frozen=True)
class JobPlan:
    """Plan of a job: its expected status and the steps that it needs."""

    job: str  # label of the job
    status: str  # begins with "finished", "to do" or "not applicable"
    steps: tuple[Step, ...] = ()
    family: str = ""  # architecture and training data of the model; empty for generative models
    # Finished runs of the same analysis of the same stimuli; None if the stimuli are not stored.
    run_filter: RunFilter | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model and of its inputs and outputs, in bytes of float32."""

    weights: float  # all weights
    pixels: float  # one preprocessed picture
    image: float  # vectors of one picture
    text: float  # vector of one text
    preprocessing: SplitPreprocessing | None  # None if it cannot be split (`encoders.preprocessing`)


_sizes_by_model: dict[str, Sizes] = {}


def plan(job: Job) -> JobPlan:
    """Plan a job from its finished runs and stored entries, without computing anything.

    Raises `InputError` if `encoder_job.prepare_from` or `check_language` rejects the job, or if this machine
    does not support the model's precision.
    """
    with cache.forbid_building():
        check_language(job)
        tables, counts = _load_tables(job.cfg)
        roles = load_study(job.cfg.exp).roles(job.cfg.exp)
        family, run_filter = encoders.name_family(job.cfg.model), None
        if {*roles} <= {*tables}:
            prepared = encoder_job.prepare_from(job, {role: tables[role] for role in roles})
            run_filter = build_run_filter(job, {role: tables[role].hash for role in roles})
            if job.cfg.resume and (run := _find_finished_run(prepared)):
                return JobPlan(job.label, f"finished, in run {run}", (), family, run_filter)
        return JobPlan(job.label, "to do", tuple(_plan_steps(job, tables, counts)), family, run_filter)


def make_runner() -> Runner[Job, encoder_job.PreparedEncoderJob]:
    """Return the runner of encoder jobs."""
    return Runner(
        Job.of,
        plan,
        encoder_job.prepare,
        encoder_job.compute_key,
        encoder_job.perform,
        encoder_job.find_contact_sheet,
    )


def build_tables(planned: list[JobPlan]) -> Iterator[tuple[pd.DataFrame, str]]:
    """Yield the tables of a plan with their titles: jobs, steps, detectable effects, families needed."""
    jobs = pd.DataFrame({"job": [entry.job for entry in planned], "": [entry.status for entry in planned]})
    done, to_do = (sum(entry.status.startswith(name) for entry in planned) for name in ("finished", "to do"))
    yield jobs, f"Plan of {len(planned)} jobs: nothing is run; {done} finished, {to_do} to do"
    steps = {step.description: step for entry in planned for step in entry.steps}
    if steps:
        yield _build_steps_table(steps.values())
    effects = tabulate_detectable([entry.run_filter for entry in planned if entry.run_filter])
    if len(effects):
        yield effects, "Minimum detectable level and difference of levels, over groups (80% power, p ≤ .05)"
    if families := {entry.family for entry in planned} - {""}:
        needed = [str(models_needed(rho)) for rho in CORRELATIONS]
        columns = {"correlation over models": [f"{rho:g}" for rho in CORRELATIONS], "families": needed}
        title = f"Model families needed to detect it (80% power, p ≤ .05); this plan has {len(families)}"
        yield pd.DataFrame(columns), title


def _build_steps_table(steps: Collection[Step]) -> tuple[pd.DataFrame, str]:
    """Return the table of steps, with a row of totals, and its title."""
    rows = []
    for step in steps:
        status, disk = ("stored", "") if step.stored else ("to do", _format_bytes(step.disk))
        rows.append((step.description, str(step.items), status, disk))
    missing = [step for step in steps if not step.stored]
    stored = len(steps) - len(missing)
    status = (f"{stored} stored, " if stored else "") + f"{len(missing)} to do"
    sizes = [step.disk for step in missing]
    total = "more than " * any(map(math.isnan, sizes)) + _format_bytes(np.nansum(sizes))
    rows.append(("total", "", status, total))
    memory = [step.memory for step in missing]
    expected = "unknown" if any(map(math.isnan, memory)) else f"about {_format_bytes(max(memory, default=0))}"
    title = f"Steps of these jobs; expected peak memory {expected}"
    return pd.DataFrame(rows, columns=["step", "items", "", "disk"]), title


def _format_bytes(count: float) -> str:
    if math.isnan(count):
        return "unknown"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _load_tables(cfg: configs.RunConfig) -> tuple[dict[str, Table], dict[str, int]]:
    """Return the stored tables by role, and the number of stimuli of every role that the job needs."""
    # A model trained on the dataset is trained on all four roles.
    needed = ROLES if encoders.family_of(cfg.model).training else load_study(cfg.exp).roles(cfg.exp)
    tables, counts = {}, dict.fromkeys(needed, 0)  # in the order of the roles
    for role in needed:
        try:
            tables[role] = stimuli.load(cfg, role)
        except cache.NotStored:
            counts[role] = stimuli.count_generated(getattr(cfg, role), cfg.store)
    with suppress(cache.NotStored):  # the files of the tokenizer are not fetched yet
        tables = leave_out_unread(cfg, tables)
    return tables, counts | {role: len(table.frame) for role, table in tables.items()}


def _find_finished_run(prepared: encoder_job.PreparedEncoderJob) -> str:
    """Return the id of the newest finished run of a job; empty if it does not exist."""
    try:
        return find_finished_run(prepared.job, encoder_job.compute_key(prepared))
    except cache.NotStored:
        return ""


def _plan_steps(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int]) -> Iterator[Step]:
    cfg, study, width = job.cfg, load_study(job.cfg.exp), 0
    for role, count in counts.items():
        role_cfg = getattr(cfg, role)
        if isinstance(role_cfg, configs.AvatarsConfig | configs.AbstractConfig):
            description = f"draw {job.dataset} {role}"
            yield Step(description, count, role in tables, DRAWN_PIXEL_BYTES * count * role_cfg.size**2)
        elif isinstance(role_cfg, configs.MorphsConfig):
            description = f"morph {job.dataset} {role} by {role_cfg.method}"
            yield Step(description, count, role in tables, MORPHED_PIXEL_BYTES * count * role_cfg.size**2)
    encoders.check_precision(cfg)
    if not cfg.model.precomputed:
        try:
            sizes = _measure_sizes(cfg)
        except cache.NotStored:
            description = f"fetch {job.model} from the hub; then plan again"
            yield Step(description, 1, stored=False, disk=math.nan, memory=math.nan)
            return
        width = int(sizes.text / FLOAT_BYTES)
        yield _plan_weights(job, tables, counts, sizes)
        for role in study.roles(cfg.exp):
            yield from _plan_embedding(job, role, tables, counts[role], sizes)
        try:
            prompts = study.prompts(cfg)
        except cache.NotStored:  # their sentences depend on faces that are not stored
            prompts = None
            description = f"embed {job.exp} prompts with {job.model}{job.instruction}"
            yield Step(f"{description}; plan again once the faces are stored", 1, stored=False, disk=math.nan)
        if prompts:
            role = prompts.role
            yield from _plan_embedding(job, role, {**tables, role: prompts}, len(prompts.frame), sizes)
    cost = study.cost(cfg, counts, width)
    disk, memory = JOB_BYTES + cost.disk, BASE_MEMORY + cost.memory
    yield Step(f"analyse {job.label}", 1, stored=False, disk=disk, memory=memory)


def _plan_weights(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int], sizes: Sizes) -> Step:
    if encoders.family_of(job.cfg.model).training is None:
        return Step(f"fetch the weights of {job.model}", 1, _has_weights(job.cfg), sizes.weights)
    stored = len(tables) == len(ROLES) and _has_weights(job.cfg)
    pictures = sum(counts[role] for role in IMAGE_ROLES)
    memory = BASE_MEMORY + 2.5 * pictures * sizes.pixels + 4 * sizes.weights
    return Step(f"train {job.model} on {job.dataset}", pictures, stored, sizes.weights, memory)


def _plan_embedding(
    job: Job, role: str, tables: Mapping[str, Table], count: int, sizes: Sizes
) -> Iterator[Step]:
    stored = role in tables and _is_stored(job.cfg, role, tables)
    name = f"{job.exp if role == stimuli.PROMPTS else job.dataset} {role}"
    if role in stimuli.TEXT_ROLES and job.language:
        name += f" in {job.cfg.language.name}"
    if perturbs(job.cfg.perturb, role):
        name += f" perturbed by {job.perturb}"
    description = f"embed {name} with {job.model}{job.instruction}"
    if role not in IMAGE_ROLES:
        yield Step(description, count, stored, count * sizes.text)
        return
    if (preprocessing := sizes.preprocessing) and not stored:
        store, resized = Path(job.cfg.store.pictures), False
        if role in tables:
            perturbation = build_perturbation(job.cfg, tables[role])
            resized = has_resized(tables[role], preprocessing, store, perturbation)
        # A short hash of the geometry, as pictures of one size may be cropped in several ways.
        geometry = cache.fingerprint(preprocessing.geometry)[:6]
        yield Step(f"resize {name}, geometry {geometry}", count, resized, count * sizes.pixels / FLOAT_BYTES)
    memory = BASE_MEMORY + 3 * job.cfg.model.batch_size * sizes.pixels
    yield Step(description, count, stored, count * sizes.image, memory)


def _has_weights(cfg: configs.RunConfig) -> bool:
    try:
        encoders.open_encoder(cfg, partial(stimuli.load, cfg)).identify_weights()
    except cache.NotStored:
        return False
    return True


def _is_stored(cfg: configs.RunConfig, role: str, tables: Mapping[str, Table]) -> bool:
    try:
        key = embeddings.hash_inputs(cfg, role, tables.__getitem__)
    except (cache.NotStored, KeyError):
        return False
    return not cache.find_damage(Path(cfg.store.dir) / role / key)


def _measure_sizes(cfg: configs.RunConfig) -> Sizes:
    """Measure the sizes of a job's model, built with random weights, once per process."""
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _sizes_by_model:
        network: Any = encoders.build_untrained(cfg)
        pixels = network.transform(Image.new("RGB", (256, 256)))
        with torch.inference_mode():
            image, text = network.encode_images(pixels[None]), network.encode_texts(network.tokenize(["a"]))
        _sizes_by_model[key] = Sizes(
            weights=FLOAT_BYTES * sum(weight.numel() for weight in network.parameters()),
            pixels=FLOAT_BYTES * pixels.numel(),
            image=FLOAT_BYTES * image.numel(),
            text=FLOAT_BYTES * text.numel(),
            preprocessing=network.split_preprocessing(),
        )
    return _sizes_by_model[key]
