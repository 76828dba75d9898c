"""Perturb pictures: pure functions from picture to picture (docs/methods.md, section 9)."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageFilter

from src import configs
from src.errors import InputError, NotApplicable
from src.stimuli import face_regions
from src.stimuli.pictures import Box
from src.stimuli.table import IMAGE_ROLES, Table
from src.storage.versions import declared_versions, library_versions


def blur_background(picture: Image.Image, box: Box, radius: float) -> Image.Image:
    """Blur an RGB picture outside the ellipse in a box.

    Args:
        picture: the picture.
        box: left, upper, right and lower edge of the ellipse in pixels; it may reach beyond the picture.
        radius: SD of the Gaussian, as a share of the picture's shorter edge.
    """
    blurred = picture.filter(ImageFilter.GaussianBlur(radius * min(picture.size)))
    return Image.composite(picture, blurred, mask_ellipse(picture.size, box))


def grey_background(picture: Image.Image, box: Box, level: int) -> Image.Image:
    """Replace an RGB picture outside the ellipse in a box, as in `blur_background`, by a grey (0 to 255)."""
    background = Image.new("RGB", picture.size, (level, level, level))
    return Image.composite(picture, background, mask_ellipse(picture.size, box))


def crop_face(picture: Image.Image, box: Box) -> Image.Image:
    """Crop a picture to the pixels that a box touches, left, upper, right and lower edge in pixels."""
    left, upper = (max(0, int(np.floor(edge))) for edge in box[:2])
    right, lower = (min(size, int(np.ceil(edge))) for edge, size in zip(box[2:], picture.size, strict=True))
    return picture.crop((left, upper, right, lower))


def grey(picture: Image.Image) -> Image.Image:
    """Replace the colours of an RGB picture by their luma (ITU-R BT.601)."""
    return picture.convert("L").convert("RGB")


def flip(picture: Image.Image) -> Image.Image:
    """Mirror a picture left and right."""
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def jpeg(picture: Image.Image, quality: int) -> Image.Image:
    """Compress an RGB picture as JPEG of a quality (1 to 95, chroma halved), and decode it."""
    file = BytesIO()
    picture.save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return Image.open(file, formats=["JPEG"]).convert("RGB")


def mask_patches(picture: Image.Image, size: float, share: float, level: int, digest: str) -> Image.Image:
    """Replace random squares of a grid over an RGB picture by a grey.

    Args:
        picture: the picture.
        size: edge of a square as a share of the picture's shorter edge; squares at the right and lower edge
            of the picture may be cut off.
        share: share of the squares to replace, rounded to whole squares.
        level: value of the grey, 0 to 255.
        digest: SHA-256 of the picture, in hexadecimal, the seed of the draw.
    """
    edge = max(1, round(size * min(picture.size)))
    columns, rows = (-(-length // edge) for length in picture.size)
    rng = np.random.default_rng(int(digest, 16))
    masked = picture.copy()
    for square in rng.permutation(columns * rows)[: round(share * columns * rows)]:
        left, upper = int(square) % columns * edge, int(square) // columns * edge
        masked.paste((level, level, level), (left, upper, left + edge, upper + edge))
    return masked


def mask_ellipse(size: tuple[int, int], box: Box) -> Image.Image:
    """Mask the pixels of a picture whose centres lie in the ellipse in a box: 255 inside, 0 outside."""
    # Squared distances from the ellipse's centre along each axis, in units of its half axes.
    across, down = (
        ((np.arange(length) + 0.5 - (low + high) / 2) / ((high - low) / 2)) ** 2
        for length, low, high in zip(size, box[:2], box[2:], strict=True)
    )
    return Image.fromarray((across + down[:, None] <= 1).astype(np.uint8) * 255)


# Config class -> function of its fields, of the `box` of a face, and of the `digest` of a picture.
FUNCTIONS: Mapping[type[configs.PerturbConfig], Callable[..., Image.Image]] = {
    configs.BlurBackgroundConfig: blur_background,
    configs.GreyBackgroundConfig: grey_background,
    configs.CropFaceConfig: crop_face,
    configs.GreyConfig: grey,
    configs.FlipConfig: flip,
    configs.JpegConfig: jpeg,
    configs.MaskPatchesConfig: mask_patches,
}


@dataclass(frozen=True)
class Perturbation:
    """Perturbation of the pictures of a table.

    Attributes:
        config: what to do.
        digests: SHA-256 of each picture, [N].
        boxes: box of each face in pixels of its upright picture, [N, 4]: left, upper, right and lower edge;
            None without boxes.
        face_box: box of the face in all pictures, as shares of their centre squares; None if `boxes` are
            given or no face is needed.
    """

    config: configs.PerturbConfig
    digests: Sequence[str]
    boxes: Float[np.ndarray, "n 4"] | None = None
    face_box: Sequence[float] | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Return the parameters of the perturbation."""
        return {
            name: value
            for name, value in vars(self.config).items()
            if name not in ("name", "roles", "margin")
        }

    @property
    def identity(self) -> dict[str, Any]:
        """Return everything that determines the perturbed pictures, besides the pictures."""
        identity: dict[str, Any] = {"function": FUNCTIONS[type(self.config)].__name__, **self.settings}
        if isinstance(self.config, configs.FacePerturbConfig):
            identity |= {"margin": self.config.margin, "face_box": self.face_box and [*self.face_box]}
            if self.boxes is not None:
                identity["boxes"] = hashlib.sha256(self.boxes.astype("<f8").tobytes()).hexdigest()
        versions = library_versions("pillow", "numpy")
        return identity | {"parts": declared_versions("perturbations"), "versions": versions}

    def apply(self, picture: Image.Image, row: int) -> Image.Image:
        """Perturb the upright RGB picture of a row of the table."""
        options = self.settings
        if isinstance(self.config, configs.FacePerturbConfig):
            options["box"] = face_regions.enlarge(self.locate_face(row, picture.size), self.config.margin)
        if isinstance(self.config, configs.MaskPatchesConfig):
            options["digest"] = self.digests[row]
        return FUNCTIONS[type(self.config)](picture, **options)

    def locate_face(self, row: int, size: tuple[int, int]) -> Box:
        """Return the box of the face of a row in a picture of a size, without margin."""
        if self.boxes is not None:
            left, upper, right, lower = self.boxes[row].tolist()
            return left, upper, right, lower
        assert self.face_box is not None
        return face_regions.place_in_square(self.face_box, size)


def build_perturbation(cfg: configs.RunConfig, table: Table) -> Perturbation | None:
    """Build the perturbation of a table's pictures in a job; return None if they stay as they are."""
    config = cfg.perturb
    if not perturbs(config, table.role):
        return None
    digests = table.frame["sha256"].tolist()
    if not isinstance(config, configs.FacePerturbConfig):
        return Perturbation(config, digests)
    boxes = face_regions.read_boxes(table)
    face_box = face_regions.find_face_box(cfg.faces) if boxes is None else None
    return Perturbation(config, digests, boxes, face_box)


def perturbs(config: configs.PerturbConfig, role: str) -> bool:
    """Return whether a perturbation changes the pictures of a role."""
    return type(config) in FUNCTIONS and role in config.roles


def check_perturbation(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> list[str]:
    """Check that a job's pictures can be perturbed, before any work; return notes on what is done.

    Raises:
        InputError: `perturb.roles` has no or other names than roles of pictures, or a face has no region.
        NotApplicable: vectors are precomputed, or the job uses no picture to perturb.
    """
    config = cfg.perturb
    if type(config) not in FUNCTIONS:
        return []
    setting = f"perturb={config.name}"
    wrong = sorted({*config.roles} - {*IMAGE_ROLES})
    if wrong or not config.roles:
        got = ", ".join(wrong) or "none"
        raise InputError(f"perturb.roles: expected {' or '.join(IMAGE_ROLES)}, got {got}. Correct the list.")
    if isinstance(config, configs.FacePerturbConfig) and "scenes" in config.roles:
        raise InputError(
            f"{setting}: scenes have no face. Use perturb.roles=[faces], or another perturbation."
        )
    if cfg.model.precomputed:
        raise NotApplicable(
            f"{setting}: model=precomputed has vectors of pictures as they are. Embed perturbed pictures "
            "with your encoder into another folder, or use perturb=none."
        )
    perturbed = [table for role, table in tables.items() if perturbs(config, role)]
    if not perturbed:
        raise NotApplicable(
            f"{setting}: changes {' and '.join(config.roles)}, the experiment uses {', '.join(tables)}. "
            "Choose another experiment, or use perturb=none."
        )
    notes = [f"{setting}: pictures of {', '.join(table.role for table in perturbed)} are perturbed"]
    if isinstance(config, configs.FacePerturbConfig):
        notes += face_regions.check(cfg.faces, perturbed[0], setting)
    return notes
