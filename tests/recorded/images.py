"""Compute recorded outputs that are pictures: the built-in world, preprocessing, morphs."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from open_clip.transform import image_transform
from PIL import Image
from transformers import AutoImageProcessor, BlipImageProcessor

from src.configs import AbstractConfig, AvatarsConfig
from src.configs.roles import PeopleConfig
from src.demo import world
from src.encoders import preprocessing
from src.stimuli import perturbations, pictures
from src.stimuli.morphs import midpoints, networks, stylegan2
from tests.stimuli.networks import Generator, saved, seeded
from tests.stimuli.test_morph_methods import texture


def world_outputs(folder: Path) -> dict[str, Any]:
    """Draw one avatar of each of two groups and one scene."""
    groups = {"peoples": {"Horned": PeopleConfig(0.1, "horns")}, "genders": {"Men": 0.2, "Women": 0.8}}
    avatars = AvatarsConfig(per_group=1, size=20, seed=0, hue_sd=0.02, hair_sd=0.1, **groups)
    faces = world.draw_faces(avatars, folder / "faces")
    scenes = world.draw_scenes(AbstractConfig(count=1, size=20, noise=0.1, seed=0), folder / "scenes")
    rows = pd.concat([faces, scenes])[["id", "path"]].itertuples(index=False)
    return {str(name): np.asarray(Image.open(path)) for name, path in rows}


def preprocessing_outputs(folder: Path) -> dict[str, Any]:
    """Read, resize and normalise a PNG as open_clip does and as transformers does."""
    path = folder / "picture.png"
    Image.fromarray(texture(size=48)[:, :40]).save(path)
    picture = pictures.read(str(path))
    BlipImageProcessor(size={"height": 12, "width": 12}).save_pretrained(folder)
    processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    steps_by_library = {
        "open_clip": preprocessing.split_torchvision(image_transform(12, is_train=False)),
        "transformers": preprocessing.split_transformers(processor),
    }
    outputs: dict[str, Any] = {"read": np.asarray(picture)[::4, ::4]}
    for name, steps in steps_by_library.items():
        assert steps is not None
        outputs[f"{name}_resized"] = steps.resize(picture)
        # Normalised values of the bytes 0, 51, ..., 255 per channel, to six decimals: reveals another mean.
        outputs[f"{name}_normalised"] = (steps.byte_values[:, ::51].double() * 1e6).round()
    return outputs


def perturbation_outputs(_: Path) -> dict[str, Any]:
    """Perturb a picture in every way."""
    picture, box = Image.fromarray(texture(size=32)[:24]), (6.0, 4.5, 26.0, 20.0)
    pictures_by_name = {
        "blur_background": perturbations.blur_background(picture, box, 0.1),
        "grey_background": perturbations.grey_background(picture, box, 128),
        "crop_face": perturbations.crop_face(picture, box),
        "grey": perturbations.grey(picture),
        "flip": perturbations.flip(picture),
        "jpeg": perturbations.jpeg(picture, 15),
        "mask_patches": perturbations.mask_patches(picture, 0.25, 0.25, 128, "c0ffee"),
    }
    return {name: np.asarray(perturbed)[::2, ::2] for name, perturbed in pictures_by_name.items()}


def draw_parents(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Draw two pictures, standardised as parents of a morph."""
    parents = []
    for number, shift in enumerate((-3, 3)):
        path = folder / f"{number}.png"
        Image.fromarray(texture(shift, 40)).save(path)
        parents.append(pictures.standardise(path, 32))
    return parents[0], parents[1]


def morph_outputs(method: str, folder: Path) -> dict[str, Any]:
    """Morph two pictures by optical flow, or by eight landmarks."""
    points = np.random.default_rng(0).uniform(4, 28, (8, 2))
    if method == "flow":
        return {"morph": midpoints.morph_by_flow(*draw_parents(folder))}
    return {"morph": midpoints.morph_by_landmarks(*draw_parents(folder), points - 1, points + 1)}


def stylegan2_outputs(folder: Path) -> dict[str, Any]:
    """Compute a midpoint of two latents and project it back, with a small random generator."""
    path = saved(seeded(Generator), folder / "generator.pt")
    generator = networks.load_network(path, "faces.generator", networks.GENERATOR_ATTRIBUTES)
    with torch.no_grad():
        z = torch.randn(2, generator.z_dim, generator=torch.Generator().manual_seed(1))
        a, b = generator.mapping(z, torch.zeros(2, 0))[:, 0].numpy()
    target = stylegan2.synthesise_midpoint(generator, a, b, 32)
    space = stylegan2.estimate_latent_space(generator)
    latent = stylegan2.project(generator, space, stylegan2.compute_laplacian_pyramid, target, steps=3, seed=0)
    return {
        "midpoint": target,
        "after_three_steps": stylegan2.synthesise_midpoint(generator, latent, latent, 32),
    }
