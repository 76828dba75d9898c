"""Plan of jobs (`plan=true`): what is finished, stored and missing, and the disk and memory of the rest."""

from __future__ import annotations

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
from src.embeddings.image_cache import stored as stored_resized
from src.encoders.preprocessing import Halves
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.stimuli import IMAGE_ROLES, ROLES, Table
from src.storage import cache
from src.studies.protocol import study_of

# Bytes on disk per pixel of pictures of the built-in world, and of morphs, measured.
DRAWN, MORPHED = 0.8, 1.3
# Bytes on disk of one job besides its tables: a scatter plot, draws, rows of the database.
JOB = 750_000
# Bytes in memory of a job with few stimuli, measured (python -m benchmarks stages).
BASE = 1.2e9


@dataclass(frozen=True)
class Piece:
    """Something that is stored, or has to be made once.

    Attributes:
        what: name of the piece.
        items: number of its pictures or texts.
        stored: whether it is in the store.
        disk, memory: expected bytes of making it; memory is the peak of the process.
    """

    what: str
    items: int
    stored: bool
    disk: float
    memory: float = BASE


@dataclass(frozen=True)
class Planned:
    """Plan of one job.

    Attributes:
        job: its name.
        status: what would become of it.
        pieces: what it needs.
    """

    job: str
    status: str
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """Bytes of a network: its weights, one preprocessed picture, the vectors of a picture and of a text.

    Attributes:
        weights, pixels, image, text: bytes.
        halves: both halves of its preprocessing; None if they are of an unknown kind.
    """

    weights: float
    pixels: float
    image: float
    text: float
    halves: Halves | None


_sizes: dict[str, Sizes] = {}


def plan(job: Job) -> Planned:
    """Look up stored entries and finished runs of a job; make nothing.

    Raises:
        InputError: the stimuli cannot be read, or do not suffice, or this machine does not compute in the
            model's precision; `NotApplicable` where another experiment might be served.
    """
    with cache.dry():
        tables, counts = _tables(job.cfg)
        roles = study_of(job.cfg.exp).roles(job.cfg.exp)
        if {*roles} <= {*tables}:
            prepared = encoder_job.suffice(job, {role: tables[role] for role in roles})
            if job.cfg.resume and (run := _finished(prepared)):
                return Planned(job.label, f"finished, in run {run}")
        return Planned(job.label, "to do", tuple(_pieces(job, tables, counts)))


def frames(planned: list[Planned]) -> Iterator[tuple[pd.DataFrame, str]]:
    """Yield the tables of a plan: its jobs, and what they need, each thing once."""
    jobs = pd.DataFrame({"job": [entry.job for entry in planned], "": [entry.status for entry in planned]})
    done, to_do = (sum(entry.status.startswith(name) for entry in planned) for name in ("finished", "to do"))
    yield jobs, f"Plan of {len(planned)} jobs: nothing is run; {done} finished, {to_do} to do"
    pieces = {piece.what: piece for entry in planned for piece in entry.pieces}
    if not pieces:
        return
    rows = [
        (piece.what, str(piece.items), *(("stored", "") if piece.stored else ("to do", _bytes(piece.disk))))
        for piece in pieces.values()
    ]
    missing = [piece for piece in pieces.values() if not piece.stored]
    stored = len(pieces) - len(missing)
    status = f"{stored} stored, " * bool(stored) + f"{len(missing)} to do"
    rows.append(("in all", "", status, _bytes(sum(piece.disk for piece in missing))))
    memory = max((piece.memory for piece in missing), default=0)
    title = f"What they need; expected peak memory about {_bytes(memory)}"
    yield pd.DataFrame(rows, columns=["what", "items", "", "disk"]), title


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _tables(cfg: configs.RunConfig) -> tuple[dict[str, Table], dict[str, int]]:
    # What the dataset trains is trained on all four roles.
    needed = ROLES if encoders.family_of(cfg.model).training else study_of(cfg.exp).roles(cfg.exp)
    tables, counts = {}, {}
    for role in needed:
        try:
            tables[role] = stimuli.load(cfg, role)
            counts[role] = len(tables[role].frame)
        except cache.NotStored:
            counts[role] = stimuli.drawn(getattr(cfg, role), cfg.store)
    return tables, counts


def _finished(prepared: encoder_job.Prepared) -> str:
    uri = prepared.job.cfg.tracking.uri
    if uri.startswith(tracking.SQLITE) and not Path(uri.removeprefix(tracking.SQLITE)).exists():
        return ""
    try:
        key = encoder_job.key(prepared)
    except cache.NotStored:
        return ""
    runs = _tracker(uri).finished(prepared.job.dataset, key)
    return runs[0].id if runs else ""


@functools.cache
def _tracker(uri: str) -> tracking.Tracker:
    # Opening a server takes some requests: once for all jobs of a plan.
    return tracking.Tracker(uri)


def _pieces(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int]) -> Iterator[Piece]:
    cfg, study, width = job.cfg, study_of(job.cfg.exp), 0
    for role, count in counts.items():
        chosen = getattr(cfg, role)
        if isinstance(chosen, configs.AvatarsConfig | configs.AbstractConfig):
            yield Piece(f"draw {job.dataset} {role}", count, role in tables, DRAWN * count * chosen.size**2)
        elif isinstance(chosen, configs.MorphsConfig):
            what = f"morph {job.dataset} {role} by {chosen.method}"
            yield Piece(what, count, role in tables, MORPHED * count * chosen.size**2)
    encoders.check_precision(cfg)
    if not cfg.model.precomputed:
        try:
            sizes = _sizes_of(cfg)
        except cache.NotStored:
            yield Piece(f"fetch {job.model} from the hub; then plan again", 1, False, 0)
            return
        width = int(sizes.text / 4)
        yield _weights(job, tables, counts, sizes)
        for role in study.roles(cfg.exp):
            yield from _embedding(job, role, tables, counts[role], sizes)
        if prompts := study.prompts(cfg):
            role = prompts.role
            yield from _embedding(job, role, {**tables, role: prompts}, len(prompts.frame), sizes)
    cost = study.cost(cfg, counts, width)
    yield Piece(f"analyse {job.label}", 1, False, JOB + cost.disk, BASE + cost.memory)


def _weights(job: Job, tables: Mapping[str, Table], counts: Mapping[str, int], sizes: Sizes) -> Piece:
    if encoders.family_of(job.cfg.model).training is None:
        return Piece(f"fetch the weights of {job.model}", 1, _has_weights(job.cfg), sizes.weights)
    stored = len(tables) == len(ROLES) and _has_weights(job.cfg)
    pictures = sum(counts[role] for role in IMAGE_ROLES)
    memory = BASE + 2.5 * pictures * sizes.pixels + 4 * sizes.weights
    return Piece(f"train {job.model} on {job.dataset}", pictures, stored, sizes.weights, memory)


def _embedding(job: Job, role: str, tables: Mapping[str, Table], count: int, sizes: Sizes) -> Iterator[Piece]:
    stored = role in tables and _stored(job.cfg, role, tables)
    name = f"{job.exp if role == stimuli.PROMPTS else job.dataset} {role}"
    what = f"embed {name} with {job.model}"
    if role not in IMAGE_ROLES:
        yield Piece(what, count, stored, count * sizes.text)
        return
    if (halves := sizes.halves) and not stored:
        resized = role in tables and stored_resized(tables[role], halves, Path(job.cfg.store.pictures))
        # A short hash: pictures of one size may be cut in several ways.
        geometry = cache.fingerprint(halves.geometry)[:6]
        yield Piece(f"resize {name}, geometry {geometry}", count, resized, count * sizes.pixels / 4)
    memory = BASE + 3 * job.cfg.model.batch_size * sizes.pixels
    yield Piece(what, count, stored, count * sizes.image, memory)


def _has_weights(cfg: configs.RunConfig) -> bool:
    try:
        encoders.open_encoder(cfg, partial(stimuli.load, cfg)).weights()
    except cache.NotStored:
        return False
    return True


def _stored(cfg: configs.RunConfig, role: str, tables: Mapping[str, Table]) -> bool:
    try:
        key = embeddings.key(cfg, role, tables.__getitem__)
    except (cache.NotStored, KeyError):
        return False
    return not cache.damaged(Path(cfg.store.dir) / role / key)


def _sizes_of(cfg: configs.RunConfig) -> Sizes:
    """Measure the network that a job names, with random weights, once per process."""
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _sizes:
        network: Any = encoders.blank(cfg)
        pixels = network.transform(Image.new("RGB", (256, 256)))
        with torch.inference_mode():
            image, text = network.encode_images(pixels[None]), network.encode_texts(network.tokenize(["a"]))
        _sizes[key] = Sizes(
            weights=4.0 * sum(weight.numel() for weight in network.parameters()),
            pixels=4.0 * pixels.numel(),
            image=4.0 * image.numel(),
            text=4.0 * text.numel(),
            halves=network.halves(),
        )
    return _sizes[key]
