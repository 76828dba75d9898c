"""Define the schema of the perturbations of pictures (docs/methods.md, section 9)."""

from dataclasses import dataclass, field

from omegaconf import MISSING

from src.configs.fields import bounded_number

NO_PERTURBATION = "none"  # name of the choice that leaves pictures as they are


@dataclass
class PerturbConfig:
    """Perturbation of pictures before resizing; the subclass determines what is done, this class nothing."""

    name: str = MISSING  # name for display
    roles: list[str] = field(default_factory=list)  # roles whose pictures are perturbed: faces, scenes


@dataclass
class FacePerturbConfig(PerturbConfig):
    """Perturbation of the face or of its background, which needs the region of each face."""

    margin: float = bounded_number(0)  # share of a box's width and height to add on each side


@dataclass
class BlurBackgroundConfig(FacePerturbConfig):
    """Blur everything outside the face."""

    radius: float = bounded_number(0, 1)  # SD of the Gaussian, as a share of the shorter edge


@dataclass
class GreyBackgroundConfig(FacePerturbConfig):
    """Replace everything outside the face by a grey."""

    level: int = bounded_number(0, 255)  # value of the grey in all channels


@dataclass
class CropFaceConfig(FacePerturbConfig):
    """Crop the picture to the face."""


@dataclass
class GreyConfig(PerturbConfig):
    """Remove the colours."""


@dataclass
class FlipConfig(PerturbConfig):
    """Mirror left and right."""


@dataclass
class JpegConfig(PerturbConfig):
    """Compress with losses."""

    quality: int = bounded_number(1, 95)  # Pillow's quality of JPEG


@dataclass
class MaskPatchesConfig(PerturbConfig):
    """Replace random squares by a grey."""

    size: float = bounded_number(0.01, 1)  # edge of a square, as a share of the shorter edge
    share: float = bounded_number(0, 1)  # share of the squares to replace
    level: int = bounded_number(0, 255)  # value of the grey in all channels
