"""Define the morphing methods: their inputs, settings that determine the morphs, and preparation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from src.configs import MorphsConfig
from src.errors import InputError
from src.stimuli.morphs import landmark_templates, midpoints, networks, parallel_files
from src.stimuli.pictures import standardise
from src.storage import cache

OPENCV = "opencv-python-headless"
# (indices of two parents) -> picture of their morph.
ParentMorph = Callable[[int, int], np.ndarray]
# (two pictures and, for some methods, their landmarks) -> picture of the face half-way between them.
PictureMorph = Callable[..., np.ndarray]


@dataclass(frozen=True)
class MorphingMethod:
    """A morphing method with its settings and inputs."""

    # Settings that determine the bytes of morphs, besides size, seed and parents.
    settings: Mapping[str, object]
    packages: Sequence[str]  # distributions whose versions determine the bytes of morphs
    # (folder for intermediate files) -> function that draws the morph of two parents.
    prepare: Callable[[Path], ParentMorph]
    in_process: bool = False  # whether it has to run in this process, as it uses a neural network
    notes: Sequence[str] = field(default_factory=list)  # notes for the results of jobs that use the morphs


def standardise_parents(parents: pd.DataFrame, folder: Path, size: int, workers: int) -> list[Path]:
    """Write the centre square of each parent, resized to `size`, into `folder`/parents; return the paths."""
    arguments = [(path, size) for path in parents["path"]]
    return parallel_files.make_files(
        standardise, arguments, folder / "parents", suffix=".png", workers=workers
    )


def _configure_warp(cfg: MorphsConfig, parents: pd.DataFrame) -> MorphingMethod:
    """Configure morphing by dense optical flow or by landmarks (`midpoints`)."""
    if cfg.method == "flow":
        return MorphingMethod(
            {"method": "flow"}, [OPENCV], _make_morph_preparation(cfg, parents, midpoints.morph_by_flow)
        )
    if cfg.landmarks is None:
        raise InputError(f"faces.method=landmark needs landmarks. {landmark_templates.REMEDY}")
    pictures = {str(name): Path(path) for name, path in parents["path"].items()}
    landmarks = landmark_templates.load_landmarks(Path(cfg.landmarks), pictures, cfg.size)
    points = [landmarks[name] for name in parents.index]
    settings = {"method": "landmark", "points": cache.fingerprint([face.tolist() for face in points])}
    return MorphingMethod(
        settings,
        [OPENCV, "scipy"],
        _make_morph_preparation(cfg, parents, midpoints.morph_by_landmarks, points),
    )


def _configure_stylegan2(cfg: MorphsConfig, parents: pd.DataFrame) -> MorphingMethod:
    """Configure morphing by a user's generator (`stylegan2`)."""
    if cfg.generator is None:
        raise InputError(
            f"faces.method=stylegan2 needs a generator: set faces.generator to a file. {networks.REMEDY}"
        )
    generator = networks.check_archive(Path(cfg.generator), "faces.generator")
    vgg = networks.check_archive(Path(cfg.perceptual), "faces.perceptual") if cfg.perceptual else None

    def prepare(folder: Path) -> ParentMorph:
        from src.stimuli.morphs import stylegan2

        network = networks.load_network(generator, "faces.generator", networks.GENERATOR_ATTRIBUTES)
        features = (
            stylegan2.make_vgg_features(networks.load_network(vgg, "faces.perceptual"))
            if vgg
            else stylegan2.compute_laplacian_pyramid
        )
        pictures = standardise_parents(parents, folder, network.img_resolution, cfg.workers)
        latent_space = stylegan2.estimate_latent_space(network)

        def project(index: int) -> np.ndarray:
            seed = int(parents["sha256"].iloc[index][:8], 16)
            picture = _read(pictures[index])
            return stylegan2.project(network, latent_space, features, picture, steps=cfg.steps, seed=seed)

        indices = [(index,) for index in range(len(pictures))]
        latents = parallel_files.make_files(project, indices, folder / "latents", suffix=".npy", workers=1)

        def morph_parents(a: int, b: int) -> np.ndarray:
            return stylegan2.synthesise_midpoint(network, np.load(latents[a]), np.load(latents[b]), cfg.size)

        return morph_parents

    hashes = {"generator": cache.file_hash(generator)}
    if vgg:
        hashes["perceptual"] = cache.file_hash(vgg)
    notes = [] if vgg else ["projected without a perceptual network: Laplacian pyramid and pixels"]
    settings: dict[str, Any] = {"method": "stylegan2", "steps": cfg.steps, **hashes}
    return MorphingMethod(settings, ["torch"], prepare, in_process=True, notes=notes)


# Value of faces.method -> function that builds the method from the config and the parents.
METHODS = {"flow": _configure_warp, "landmark": _configure_warp, "stylegan2": _configure_stylegan2}


def _make_morph_preparation(
    cfg: MorphsConfig,
    parents: pd.DataFrame,
    morph_pictures: PictureMorph,
    points: Sequence[np.ndarray] = (),
) -> Callable[[Path], ParentMorph]:
    """Make the function `prepare` of a method that warps.

    `points`: landmarks of each parent, empty if not needed.
    """

    def prepare(folder: Path) -> ParentMorph:
        pictures = standardise_parents(parents, folder, cfg.size, cfg.workers)
        # A partial of a module's function can be pickled for other processes; a nested function cannot.
        return partial(_morph_parents, morph_pictures, pictures, points)

    return prepare


def _morph_parents(
    morph_pictures: PictureMorph, pictures: Sequence[Path], points: Sequence[np.ndarray], a: int, b: int
) -> np.ndarray:
    return morph_pictures(_read(pictures[a]), _read(pictures[b]), *([points[a], points[b]] if points else []))


def _read(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture)
