"""The ways to morph: what each needs, what decides its bytes, and how it works on standardised parents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from src.configs import MorphsConfig
from src.errors import InputError
from src.stimuli.morphs import flow, landmark, landmark_templates, networks, work
from src.stimuli.morphs.standard import standard
from src.storage import cache
from src.storage.versions import declared, versions

OPENCV = "opencv-python-headless"
# Draws the morph of two parents, given their numbers.
Morph = Callable[[int, int], np.ndarray]


@dataclass(frozen=True)
class Parents:
    """The faces that are morphed.

    Attributes:
        ids: sorted.
        paths: their pictures.
        hashes: SHA-256 of these.
    """

    ids: Sequence[str]
    paths: Sequence[Path]
    hashes: Sequence[str]

    @property
    def pictures(self) -> dict[str, Path]:
        """Id -> picture."""
        return dict(zip(self.ids, self.paths, strict=True))

    def standardised(self, folder: Path, size: int, workers: int) -> list[Path]:
        """Each parent's centre square as a file of its own, made once."""
        arguments = [(path, size) for path in self.paths]
        return work.files(standard, arguments, folder / "parents", suffix=".png", workers=workers)


@dataclass(frozen=True)
class Method:
    """A way to morph.

    Attributes:
        decisive: what decides its bytes besides parents, size and the code that all methods share.
        packages: distributions whose versions decide its bytes.
        prepare: (work folder, workers) -> draws the morph of two parents, given their numbers.
        alone: it holds a network, and works in this process.
        notes: what a reader of its morphs should know.
    """

    decisive: Mapping[str, object]
    packages: Sequence[str]
    prepare: Callable[[Path, int], Morph]
    alone: bool = False
    notes: Sequence[str] = field(default_factory=list)

    def described(self) -> dict[str, object]:
        """All that decides the bytes besides parents and size: the method, its version, libraries."""
        return {
            **self.decisive,
            "parts": declared(f"morphs.{self.decisive['method']}"),
            "versions": versions("pillow", "numpy", *self.packages),
        }


def _by_flow(cfg: MorphsConfig, parents: Parents) -> Method:
    """Dense optical flow; see `src.stimuli.morphs.flow`."""
    return Method({"method": "flow"}, [OPENCV], partial(_warping, cfg, parents, flow.morph, []))


def _by_landmark(cfg: MorphsConfig, parents: Parents) -> Method:
    """Landmarks; see `src.stimuli.morphs.landmark`.

    Raises:
        InputError: landmarks are missing or wrong.
    """
    if cfg.landmarks is None:
        raise InputError(f"faces.method=landmark needs landmarks. {landmark_templates.REMEDY}")
    found = landmark_templates.landmarks(Path(cfg.landmarks), parents.pictures, cfg.size)
    points = [found[name] for name in parents.ids]
    decisive = {"method": "landmark", "points": cache.fingerprint([own.tolist() for own in points])}
    return Method(decisive, [OPENCV, "scipy"], partial(_warping, cfg, parents, landmark.morph, points))


def _by_stylegan2(cfg: MorphsConfig, parents: Parents) -> Method:
    """A generator of the user; see `src.stimuli.morphs.stylegan2`.

    Raises:
        InputError: a network file is not named, missing or of another form.
    """
    if cfg.generator is None:
        raise InputError(
            f"faces.method=stylegan2 needs a generator: set faces.generator to a file. {networks.EXPORT}"
        )
    drawing = networks.examined(Path(cfg.generator), "faces.generator")
    judging = networks.examined(Path(cfg.perceptual), "faces.perceptual") if cfg.perceptual else None

    def prepare(folder: Path, workers: int) -> Morph:
        from src.stimuli.morphs import stylegan2

        network = networks.opened(drawing, "faces.generator", networks.GENERATOR)
        features = (
            stylegan2.vgg(networks.opened(judging, "faces.perceptual")) if judging else stylegan2.pyramid
        )
        pictures = parents.standardised(folder, network.img_resolution, workers)
        within = stylegan2.space(network)

        def project(number: int) -> np.ndarray:
            seed = int(parents.hashes[number][:8], 16)
            picture = _read(pictures[number])
            return stylegan2.project(network, within, features, picture, steps=cfg.steps, seed=seed)

        numbers = [(number,) for number in range(len(pictures))]
        latents = work.files(project, numbers, folder / "latents", suffix=".npy", workers=1)

        def morph(a: int, b: int) -> np.ndarray:
            return stylegan2.midpoint(network, np.load(latents[a]), np.load(latents[b]), cfg.size)

        return morph

    hashes = {"generator": cache.file_hash(drawing)}
    if judging:
        hashes["perceptual"] = cache.file_hash(judging)
    notes = [] if judging else ["projected without a perceptual network: Laplacian pyramid and pixels"]
    decisive: dict[str, Any] = {"method": "stylegan2", "steps": cfg.steps, **hashes}
    return Method(decisive, ["torch"], prepare, alone=True, notes=notes)


METHODS = {"flow": _by_flow, "landmark": _by_landmark, "stylegan2": _by_stylegan2}


def _warping(
    cfg: MorphsConfig,
    parents: Parents,
    morph: Callable[..., np.ndarray],
    points: Sequence[np.ndarray],
    folder: Path,
    workers: int,
) -> Morph:
    return partial(_between, morph, parents.standardised(folder, cfg.size, workers), points)


def _between(
    morph: Callable[..., np.ndarray], pictures: Sequence[Path], points: Sequence[np.ndarray], a: int, b: int
) -> np.ndarray:
    return morph(_read(pictures[a]), _read(pictures[b]), *(points[number] for number in (a, b) if points))


def _read(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)
