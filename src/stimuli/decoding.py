"""Decode picture files into upright 8-bit RGB (sRGB), and name what had to be converted for that."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

# Others that Pillow knows are never tried: a PostScript called .jpg would be run by Ghostscript.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")

# Comments of a PNG are not read; those of image generators exceed Pillow's limit of a megabyte.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY

ORIENTATION, PROFILE = "EXIF orientation applied", "colour profile other than sRGB ignored"
TRANSPARENT, INK = "transparency dropped", "CMYK converted by formula"

# EXIF orientation -> what turns the stored picture upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Colour space of an ICC profile -> the mode whose numbers it describes.
SPACES = {"GRAY": "L", "RGB ": "RGB"}
# Levels of 255 by which sRGB profiles of different makers differ.
SAME = 2


def decode(path: str | Path, min_edge: int = 0) -> tuple[Image.Image, list[str]]:
    """Decode a picture into upright 8-bit RGB.

    Of 16-bit values the high byte is taken. As in CLIP's own preprocessing, an ICC profile changes no number,
    and transparency is dropped: what the file stores behind it shows.

    Args:
        path: the file.
        min_edge: pixels that both edges need; a JPEG may be decoded at a half, a quarter or an eighth, not
            below. 0 decodes it in full.

    Returns:
        The picture, and which of the constants above had to be done.

    Raises:
        OSError: the file is cut off or no picture, or its pixels have no single right value in RGB: an
            animation, floating point, 32-bit integers. Decoders raise other exceptions as well.
    """
    with Image.open(path, formats=FORMATS) as picture:
        _refuse_several(picture)
        if min_edge:
            picture.draft("RGB", (min_edge, min_edge))
        profile, orientation = picture.info.get("icc_profile"), _orientation(picture)
        conversions = [ORIENTATION] if orientation in UPRIGHT else []
        picture.load()
        rgb, changes = _rgb(picture, profile)
        # Pillow turns a TIFF while it loads it, and then names no orientation any more.
        orientation = _orientation(picture)
    return (rgb.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else rgb), conversions + changes


def upright_size(path: str | Path) -> tuple[int, int]:
    """Return width and height in pixels of a picture as `decode` gives it, from its header."""
    with Image.open(path, formats=FORMATS) as picture:
        width, height = picture.size
        turned = picture.format != "TIFF" and _orientation(picture) in (5, 6, 7, 8)
    return (height, width) if turned else (width, height)


def _orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # of EXIF data that nobody can parse: the picture stands as it is stored
        return 1


def _refuse_several(picture: Image.Image) -> None:
    # What a phone or a stereo camera adds to a JPEG (MPO) belongs to its first picture.
    frames = 1 if picture.format == "MPO" else getattr(picture, "n_frames", 1)
    if frames > 1:
        raise OSError(f"{frames} pictures in one file: save the right one as a file of its own")


def _rgb(picture: Image.Image, profile: bytes | None) -> tuple[Image.Image, list[str]]:
    changes = [TRANSPARENT] if _transparent(picture) else []
    if picture.mode.startswith("I"):
        picture = _eight_bits(picture)
    if picture.mode in ("F", "LAB"):
        what = "floating point has no white" if picture.mode == "F" else "no RGB can be made of mode LAB"
        raise OSError(f"{what}: save it as RGB or grey of 8 or 16 bits")
    if picture.mode == "CMYK" and picture.format == "JPEG" and "adobe" not in picture.info:
        raise OSError("a CMYK JPEG that does not say whether its ink is inverted: save it as RGB")
    if picture.mode == "CMYK":
        changes.append(INK)
    elif profile and not _is_srgb(profile):
        changes.append(PROFILE)
    return picture.convert("RGB"), changes


def _transparent(picture: Image.Image) -> bool:
    if not picture.has_transparency_data or picture.mode.startswith("I"):
        return False
    low, _ = picture.convert("RGBA").getchannel("A").getextrema()
    return bool(low != 255)


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Take the highest 8 bits of integer grey, as Pillow itself does of 16-bit colour."""
    tags = getattr(picture, "tag_v2", {})
    bits, signed = int(tags.get(ExifTags.Base.BitsPerSample, (16,))[0]), picture.mode == "I"
    if signed and picture.format == "TIFF":
        raise OSError(f"signed integers of {bits} bits have no white: save it as grey of 8 or 16 bits")
    values = np.asarray(picture)
    if 0 < values.max() < 1 << (bits - 8):
        raise OSError(f"all values lie below {values.max() + 1} of {1 << bits}: save it as grey of 8 bits")
    grey = (values >> (bits - 8)).astype(np.uint8)
    inverted = picture.format == "TIFF" and tags.get(ExifTags.Base.PhotometricInterpretation) == 0
    return Image.fromarray(255 - grey if inverted else grey)


@lru_cache(maxsize=64)
def _is_srgb(profile: bytes) -> bool:
    """Return whether an ICC profile says what sRGB says, to 2 of 255 levels: makers differ by as much."""
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        mode = SPACES[source.profile.xcolor_space]
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (OSError, KeyError, ImageCms.PyCMSError):  # damaged, or of no colour space that RGB is made of
        return False
    steps = np.linspace(0, 255, 17).round().astype(np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    sample = Image.fromarray(np.arange(256, dtype=np.uint8)[None] if mode == "L" else colours)
    there = ImageCms.applyTransform(sample, transform)
    moved = np.abs(np.asarray(there, dtype=int) - np.asarray(sample.convert("RGB"), dtype=int))
    return bool(moved.max() <= SAME)
