"""What jobs would do and cost, said without doing it (`plan=true`)."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from src import configs, embeddings, encoders, stimuli, tracking
from src.embeddings.image_cache import stored as resized_before
from src.jobs import cost_probes, encoder_job
from src.jobs.identity import Job
from src.stimuli import IMAGE_ROLES, ROLES, Table
from src.storage import cache
from src.studies.protocol import study_of

# Of the built-in world's pictures, per pixel, measured.
DRAW_SECONDS, DRAW_BYTES = 5e-7, 0.8
# Of a morph by optical flow, per pixel, on one core.
MORPH_SECONDS, MORPH_BYTES = 6e-7, 1.3
# A training step computes about three forward passes, a bit more with its optimiser.
STEP = 3.5
# Of one job, besides its tables: a scatter plot, draws, rows of the database, an interpreter's warm-up.
JOB_SECONDS, JOB_BYTES = 1.0, 750_000


@dataclass(frozen=True)
class Piece:
    """Something that is stored, or has to be made once.

    Attributes:
        what: it is.
        stored: whether it is there.
        seconds, disk, memory: expected cost of making it; memory is the process's peak; bytes.
    """

    what: str
    stored: bool
    seconds: float
    disk: float
    memory: float


@dataclass(frozen=True)
class Planned:
    """One job.

    Attributes:
        job: its name.
        status: what would become of it.
        pieces: what it needs.
    """

    job: str
    status: str
    pieces: tuple[Piece, ...] = ()


def plan(job: Job) -> Planned:
    """What a job would do. Stored entries and finished runs are looked up, nothing is made.

    Raises:
        InputError: the stimuli cannot be read, or do not suffice, or this machine does not compute in the
            model's precision; `NotApplicable` where another experiment might be served.
    """
    with cache.dry():
        tables, counts = _tables(job.cfg)
        shown = study_of(job.cfg.exp).roles(job.cfg.exp)
        if {*shown} <= {*tables}:
            prepared = encoder_job.suffice(job, {role: tables[role] for role in shown})
            run = _finished(prepared)
            if run and job.cfg.resume:
                return Planned(job.label, f"finished, in run {run}")
        return Planned(job.label, "to do", tuple(_pieces(job, tables, counts)))


def frames(planned: list[Planned]) -> Iterator[tuple[pd.DataFrame, str]]:
    """Tables of a plan: its jobs, and what they need, each thing once."""
    jobs = pd.DataFrame({"job": [found.job for found in planned], "": [found.status for found in planned]})
    yield jobs, f"Plan of {len(planned)} jobs: nothing is run"
    pieces = {piece.what: piece for found in planned for piece in found.pieces}
    if not pieces:
        return
    missing = [piece for piece in pieces.values() if not piece.stored]
    rows = [
        (piece.what, "stored", "", "") if piece.stored else (piece.what, "to do", *_costs(piece))
        for piece in pieces.values()
    ]
    disk = sum(piece.disk for piece in missing)
    seconds = sum(piece.seconds for piece in missing)
    total = Piece("in all", False, seconds, disk, 0)
    rows.append((total.what, f"{len(missing)} to do", *_costs(total)))
    memory = max((piece.memory for piece in missing), default=0)
    title = f"What they need; peak memory about {_bytes(memory)} (expected from short probes of this machine)"
    yield pd.DataFrame(rows, columns=["what", "", "time", "disk"]), title


def _costs(piece: Piece) -> tuple[str, str]:
    seconds = piece.seconds
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min", _bytes(piece.disk)


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
    found = _tracker(uri).finished(prepared.job.dataset, key)
    return found[0].id if found else ""


@functools.cache
def _tracker(uri: str) -> tracking.Tracker:
    # Opening a server takes some requests: once for all jobs of a plan.
    return tracking.Tracker(uri)


def _pieces(job: Job, tables: dict[str, Table], counts: dict[str, int]) -> Iterator[Piece]:
    cfg, base = job.cfg, cost_probes.base_memory()
    for role, count in counts.items():
        chosen = getattr(cfg, role)
        if isinstance(chosen, configs.AvatarsConfig | configs.AbstractConfig):
            pixels = count * chosen.size**2
            what = f"draw {job.dataset} {role}"
            yield Piece(what, role in tables, pixels * DRAW_SECONDS, pixels * DRAW_BYTES, base)
        elif isinstance(chosen, configs.MorphsConfig):
            yield _morphing(job, count, role in tables, base)
    width = 0
    encoders.check_precision(cfg)
    if not cfg.model.precomputed:
        try:
            probe = cost_probes.network(cfg)
        except cache.NotStored:
            yield Piece(f"fetch {job.model} from the hub; then plan again", False, 0, 0, 0)
            return
        width = probe.width
        yield _weights(job, tables, counts, probe)
        for role in study_of(cfg.exp).roles(cfg.exp):
            yield from _embedding(job, role, tables, counts[role], probe)
        own = study_of(cfg.exp).prompts(cfg)
        if own is not None:
            yield _prompts(job, own, tables, probe)
    found = study_of(cfg.exp).cost(cfg, counts, width, _speed)
    seconds, disk = JOB_SECONDS + found.seconds, JOB_BYTES + found.disk
    yield Piece(f"analyse {job.label}", False, seconds, disk, base + found.memory)


def _speed(items: int, width: int) -> float:
    return cost_probes.similarity_seconds(min(items, 20_000), max(width, 64))


def _prompts(job: Job, own: Table, tables: dict[str, Table], probe: cost_probes.Probe) -> Piece:
    count, stored = len(own.frame), _stored(job.cfg, own.role, {**tables, own.role: own})
    what = f"embed {count} prompts with {job.model}"
    base = cost_probes.base_memory()
    return Piece(what, stored, count * probe.sentence, count * probe.width * 4, base)


def _embedding(
    job: Job, role: str, tables: dict[str, Table], count: int, probe: cost_probes.Probe
) -> Iterator[Piece]:
    image, base = role in IMAGE_ROLES, cost_probes.base_memory()
    stored = role in tables and _stored(job.cfg, role, tables)
    each = probe.image if image else probe.sentence
    if image and probe.halves and not stored:
        there = role in tables and resized_before(tables[role], probe.halves, Path(job.cfg.store.pictures))
        # A short hash: pictures of one size may be cut in several ways.
        what = f"resize {job.dataset} {role}, geometry {cache.fingerprint(probe.halves.geometry)[:6]}"
        yield Piece(what, there, count * (each - probe.image_alone), count * probe.pixels / 4, base)
        each = probe.image_alone
    what = f"embed {job.dataset} {role} with {job.model}"
    batch = 3 * job.cfg.model.batch_size * probe.pixels if image else 0
    yield Piece(what, stored, count * each, count * probe.width * 4, base + batch)


def _morphing(job: Job, count: int, stored: bool, base: float) -> Piece:
    chosen = job.cfg.faces
    assert isinstance(chosen, configs.MorphsConfig)
    pixels = count * chosen.size**2
    what = f"morph {job.dataset} faces by {chosen.method}"
    if chosen.method == "stylegan2":
        what += " (time: as the generator takes)"
    return Piece(what, stored, pixels * MORPH_SECONDS, pixels * MORPH_BYTES, base)


def _weights(job: Job, tables: dict[str, Table], counts: dict[str, int], probe: cost_probes.Probe) -> Piece:
    training = encoders.family_of(job.cfg.model).training
    if training is None:
        return Piece(f"fetch the weights of {job.model}", _trained(job.cfg), 0, probe.weights, 0)
    shown = training.captions(job.cfg.model)
    pictures = sum(counts[role] for role in IMAGE_ROLES)
    return Piece(
        f"train {job.model} on {job.dataset}",
        len(tables) == len(ROLES) and _trained(job.cfg),
        STEP * shown * (probe.image_alone + probe.sentence) + pictures * (probe.image - probe.image_alone),
        probe.weights,
        cost_probes.base_memory() + 2.5 * pictures * probe.pixels + 4 * probe.weights,
    )


def _trained(cfg: configs.RunConfig) -> bool:
    try:
        encoders.open_encoder(cfg, partial(stimuli.load, cfg)).weights()
    except cache.NotStored:
        return False
    return True


def _stored(cfg: configs.RunConfig, role: str, tables: dict[str, Table]) -> bool:
    try:
        key = embeddings.key(cfg, role, tables.__getitem__)
    except (cache.NotStored, KeyError):
        return False
    return not cache.damaged(Path(cfg.store.dir) / role / key)
