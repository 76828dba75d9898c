"""Plan jobs (`plan=true`): finished runs, stored and missing pieces, and the disk and memory they need."""

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from PIL import Image

from src import configs, embeddings, encoders, stimuli, tracking
from src.embeddings.image_cache import has_resized
from src.encoders.preprocessing import SplitPreprocessing
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.jobs.runner import Runner
from src.stimuli import IMAGE_ROLES, ROLES, Table
from src.storage import cache
from src.studies.protocol import study_of

# Measured bytes on disk per pixel of pictures of the built-in world and of morphs.
DRAWN_PIXEL_BYTES, MORPHED_PIXEL_BYTES = 0.8, 1.3
# Bytes on disk of one job besides its tables: a scatter plot, draws, rows of the database.
JOB_BYTES = 750_000
# Bytes in memory of a job with few stimuli, measured by python -m benchmarks stages, like the factors below.
BASE_MEMORY = 1.2e9
FLOAT_BYTES = 4.0  # bytes of a float32; values of stored pictures have one byte


@dataclass(frozen=True)
class Piece:
    """Intermediate result that jobs share: stored, or to be made once."""

    what: str  # description, which identifies the piece
    items: int  # number of pictures or texts
    stored: bool
    disk: float  # expected bytes on disk
    memory: float = BASE_MEMORY  # expected peak memory of the process that makes it, in bytes


@dataclass(frozen=True)
class JobPlan:
    """Name of a job, its expected status, and the intermediate results that it needs."""

    job: str
    status: str  # begins with "finished" or "to do"
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """Bytes, in float32, of a network, a preprocessed picture, and the vectors of a picture and of a text.

    `preprocessing` is None if it cannot be split (`encoders.preprocessing`).
    """

    weights: float
    pixels: float
    image: float
    text: float
    preprocessing: SplitPreprocessing | None


_sizes: dict[str, Sizes] = {}


def plan(job: Job) -> JobPlan:
    """Plan a job from its finished runs and stored entries, without computing anything.

    Raises `InputError` as `encoder_job.prepare_from`, or if this machine lacks the model's precision.
    """
    with cache.forbid_building():
        tables, counts = _load_tables(job.cfg)
        roles = study_of(job.cfg.exp).roles(job.cfg.exp)
        if {*roles} <= {*tables}:
            prepared = encoder_job.prepare_from(job, {role: tables[role] for role in roles})
            if job.cfg.resume and (run := _find_finished_run(prepared)):
                return JobPlan(job.label, f"finished, in run {run}")
        return JobPlan(job.label, "to do", tuple(_plan_pieces(job, tables, counts)))


def runner() -> Runner[Job, encoder_job.PreparedEncoderJob]:
    """Return the runner of jobs of encoders."""
    steps = encoder_job.prepare, encoder_job.key, encoder_job.perform, encoder_job.find_contact_sheet
    return Runner(Job.of, plan, *steps)


def plan_tables(planned: list[JobPlan]) -> Iterator[tuple[pd.DataFrame, str]]:
    """Yield the tables of a plan with their titles: its jobs, and the distinct pieces that they need."""
    jobs = pd.DataFrame({"job": [entry.job for entry in planned], "": [entry.status for entry in planned]})
    done, to_do = (sum(entry.status.startswith(name) for entry in planned) for name in ("finished", "to do"))
    yield jobs, f"Plan of {len(planned)} jobs: nothing is run; {done} finished, {to_do} to do"
    pieces = {piece.what: piece for entry in planned for piece in entry.pieces}
    if not pieces:
        return
    rows = []
    for piece in pieces.values():
        status, disk = ("stored", "") if piece.stored else ("to do", _format_bytes(piece.disk))
        rows.append((piece.what, str(piece.items), status, disk))
    missing = [piece for piece in pieces.values() if not piece.stored]
    stored = len(pieces) - len(missing)
    status = (f"{stored} stored, " if stored else "") + f"{len(missing)} to do"
    rows.append(("in all", "", status, _format_bytes(sum(piece.disk for piece in missing))))
    memory = max((piece.memory for piece in missing), default=0)
    title = f"What they need; expected peak memory about {_format_bytes(memory)}"
    yield pd.DataFrame(rows, columns=["what", "items", "", "disk"]), title


def _format_bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _load_tables(cfg: configs.RunConfig) -> tuple[dict[str, Table], dict[str, int]]:
    # A model trained on the dataset is trained on all four roles.
    needed = ROLES if encoders.family_of(cfg.model).training else study_of(cfg.exp).roles(cfg.exp)
    tables, counts = {}, {}
    for role in needed:
        try:
            tables[role] = stimuli.load(cfg, role)
            counts[role] = len(tables[role].frame)
        except cache.NotStored:
            counts[role] = stimuli.count_generated(getattr(cfg, role), cfg.store)
    return tables, counts


# Cached for all jobs of a plan: opening a server takes several requests.
_tracker = functools.cache(tracking.Tracker)


def _find_finished_run(prepared: encoder_job.PreparedEncoderJob) -> str:
    uri = prepared.job.cfg.tracking.uri
    try:
        key = encoder_job.key(prepared)
    except cache.NotStored:
        return ""
    if uri.startswith(tracking.SQLITE) and not Path(uri.removeprefix(tracking.SQLITE)).exists():
        return ""
    runs = _tracker(uri).find_finished(prepared.job.dataset, key)
    return runs[0].id if runs else ""


def _plan_pieces(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int]) -> Iterator[Piece]:
    cfg, study, width = job.cfg, study_of(job.cfg.exp), 0
    for role, count in counts.items():
        role_cfg = getattr(cfg, role)
        if isinstance(role_cfg, configs.AvatarsConfig | configs.AbstractConfig):
            what = f"draw {job.dataset} {role}"
            yield Piece(what, count, role in tables, DRAWN_PIXEL_BYTES * count * role_cfg.size**2)
        elif isinstance(role_cfg, configs.MorphsConfig):
            what = f"morph {job.dataset} {role} by {role_cfg.method}"
            yield Piece(what, count, role in tables, MORPHED_PIXEL_BYTES * count * role_cfg.size**2)
    encoders.check_precision(cfg)
    if not cfg.model.precomputed:
        try:
            sizes = _sizes_of(cfg)
        except cache.NotStored:
            yield Piece(f"fetch {job.model} from the hub; then plan again", 1, stored=False, disk=0)
            return
        width = int(sizes.text / FLOAT_BYTES)
        yield _plan_weights(job, tables, counts, sizes)
        for role in study.roles(cfg.exp):
            yield from _plan_embedding(job, role, tables, counts[role], sizes)
        if prompts := study.prompts(cfg):
            role = prompts.role
            yield from _plan_embedding(job, role, {**tables, role: prompts}, len(prompts.frame), sizes)
    cost = study.cost(cfg, counts, width)
    disk, memory = JOB_BYTES + cost.disk, BASE_MEMORY + cost.memory
    yield Piece(f"analyse {job.label}", 1, stored=False, disk=disk, memory=memory)


def _plan_weights(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int], sizes: Sizes) -> Piece:
    if encoders.family_of(job.cfg.model).training is None:
        return Piece(f"fetch the weights of {job.model}", 1, _has_weights(job.cfg), sizes.weights)
    stored = len(tables) == len(ROLES) and _has_weights(job.cfg)
    pictures = sum(counts[role] for role in IMAGE_ROLES)
    memory = BASE_MEMORY + 2.5 * pictures * sizes.pixels + 4 * sizes.weights
    return Piece(f"train {job.model} on {job.dataset}", pictures, stored, sizes.weights, memory)


def _plan_embedding(
    job: Job, role: str, tables: Mapping[str, Table], count: int, sizes: Sizes
) -> Iterator[Piece]:
    stored = role in tables and _is_stored(job.cfg, role, tables)
    name = f"{job.exp if role == stimuli.PROMPTS else job.dataset} {role}"
    what = f"embed {name} with {job.model}"
    if role not in IMAGE_ROLES:
        yield Piece(what, count, stored, count * sizes.text)
        return
    if (preprocessing := sizes.preprocessing) and not stored:
        resized = role in tables and has_resized(tables[role], preprocessing, Path(job.cfg.store.pictures))
        # A short hash of the geometry, as pictures of one size may be cropped in several ways.
        geometry = cache.fingerprint(preprocessing.geometry)[:6]
        yield Piece(f"resize {name}, geometry {geometry}", count, resized, count * sizes.pixels / FLOAT_BYTES)
    memory = BASE_MEMORY + 3 * job.cfg.model.batch_size * sizes.pixels
    yield Piece(what, count, stored, count * sizes.image, memory)


def _has_weights(cfg: configs.RunConfig) -> bool:
    try:
        encoders.open_encoder(cfg, partial(stimuli.load, cfg)).weights()
    except cache.NotStored:
        return False
    return True


def _is_stored(cfg: configs.RunConfig, role: str, tables: Mapping[str, Table]) -> bool:
    try:
        key = embeddings.hash_inputs(cfg, role, tables.__getitem__)
    except (cache.NotStored, KeyError):
        return False
    return not cache.find_damage(Path(cfg.store.dir) / role / key)


def _sizes_of(cfg: configs.RunConfig) -> Sizes:
    """Measure the network of a job with random weights, once per process."""
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _sizes:
        network: Any = encoders.build_untrained(cfg)
        pixels = network.transform(Image.new("RGB", (256, 256)))
        with torch.inference_mode():
            image, text = network.encode_images(pixels[None]), network.encode_texts(network.tokenize(["a"]))
        _sizes[key] = Sizes(
            weights=FLOAT_BYTES * sum(weight.numel() for weight in network.parameters()),
            pixels=FLOAT_BYTES * pixels.numel(),
            image=FLOAT_BYTES * image.numel(),
            text=FLOAT_BYTES * text.numel(),
            preprocessing=network.split_preprocessing(),
        )
    return _sizes[key]
