"""Decode picture files into upright 8-bit RGB (sRGB), and list the conversions that were needed."""

from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

# Pillow's other formats are never tried: Ghostscript would run a PostScript file named .jpg.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")

# PNG comments are not read, but those of image generators exceed Pillow's limit of one megabyte.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY

# Conversions, as the notes of a table name them.
ORIENTATION, PROFILE = "EXIF orientation applied", "colour profile other than sRGB ignored"
TRANSPARENT, INK = "transparency dropped", "CMYK converted by formula"

# EXIF orientation -> transposition that turns the stored picture upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Colour space of an ICC profile -> the mode whose values it describes.
MODE_OF_SPACE = {"GRAY": "L", "RGB ": "RGB"}
# Largest difference, in levels of 255, between sRGB profiles of different makers.
SRGB_TOLERANCE = 2


def decode(path: str | Path, min_edge: int = 0) -> tuple[Image.Image, list[str]]:
    """Decode a picture into upright 8-bit RGB, and list the conversions (constants above) that it needed.

    16-bit values are reduced to their high byte. As in CLIP's own preprocessing, an ICC profile changes no
    value, and transparency is dropped, which reveals the colours stored behind it. With `min_edge`, a JPEG
    may be decoded at a half, a quarter or an eighth of its size, but with no edge shorter than that many
    pixels.

    Raises:
        OSError: the file is truncated or not a picture, or has several frames or pixels that do not determine
            RGB values, such as floating point or signed integers. Decoders raise other exceptions as well.
    """
    with Image.open(path, formats=FORMATS) as picture:
        _refuse_several_frames(picture)
        if min_edge:
            picture.draft("RGB", (min_edge, min_edge))
        profile, orientation = picture.info.get("icc_profile"), _orientation(picture)
        conversions = [ORIENTATION] if orientation in UPRIGHT else []
        picture.load()
        rgb, changes = _convert_to_rgb(picture, profile)
        # Pillow turns a TIFF upright while loading it, and then reports no orientation.
        orientation = _orientation(picture)
    return (rgb.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else rgb), conversions + changes


def upright_size(path: str | Path) -> tuple[int, int]:
    """Return width and height in pixels of a picture as `decode` returns it, from its header."""
    with Image.open(path, formats=FORMATS) as picture:
        width, height = picture.size
        is_rotated = picture.format != "TIFF" and _orientation(picture) in (5, 6, 7, 8)
    return (height, width) if is_rotated else (width, height)


def _orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # unparsable EXIF data: the picture is taken as it is stored
        return 1


def _refuse_several_frames(picture: Image.Image) -> None:
    # The further frames that a phone or a stereo camera adds to a JPEG (MPO) belong to its first picture.
    frames = 1 if picture.format == "MPO" else getattr(picture, "n_frames", 1)
    if frames > 1:
        raise OSError(f"{frames} pictures in one file: save the right one as a separate file")


def _convert_to_rgb(picture: Image.Image, profile: bytes | None) -> tuple[Image.Image, list[str]]:
    conversions = [TRANSPARENT] if _is_transparent(picture) else []
    if picture.mode.startswith("I"):
        picture = _reduce_to_8_bits(picture)
    if picture.mode in ("F", "LAB"):
        reason = "floating point defines no white" if picture.mode == "F" else "mode LAB is not converted"
        raise OSError(f"{reason}: save it as RGB or grey of 8 or 16 bits")
    if picture.mode == "CMYK" and picture.format == "JPEG" and "adobe" not in picture.info:
        raise OSError("a CMYK JPEG that does not say whether its ink is inverted: save it as RGB")
    if picture.mode == "CMYK":
        conversions.append(INK)
    elif profile and not _is_srgb(profile):
        conversions.append(PROFILE)
    return picture.convert("RGB"), conversions


def _is_transparent(picture: Image.Image) -> bool:
    if not picture.has_transparency_data or picture.mode.startswith("I"):
        return False
    low, _ = picture.convert("RGBA").getchannel("A").getextrema()
    return bool(low != 255)


def _reduce_to_8_bits(picture: Image.Image) -> Image.Image:
    """Keep the highest 8 bits of integer grey, as Pillow does for 16-bit colour."""
    tags = getattr(picture, "tag_v2", {})
    bits, is_signed = int(tags.get(ExifTags.Base.BitsPerSample, (16,))[0]), picture.mode == "I"
    if is_signed and picture.format == "TIFF":
        raise OSError(f"signed integers of {bits} bits define no white: save it as grey of 8 or 16 bits")
    pixels = np.asarray(picture)
    if 0 < pixels.max() < 1 << (bits - 8):
        raise OSError(f"all values lie below {pixels.max() + 1} of {1 << bits}: save it as grey of 8 bits")
    grey = (pixels >> (bits - 8)).astype(np.uint8)
    is_inverted = picture.format == "TIFF" and tags.get(ExifTags.Base.PhotometricInterpretation) == 0
    return Image.fromarray(255 - grey if is_inverted else grey)


@lru_cache(maxsize=64)
def _is_srgb(profile: bytes) -> bool:
    """Return whether an ICC profile equals sRGB within `SRGB_TOLERANCE`."""
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        mode = MODE_OF_SPACE[source.profile.xcolor_space]
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (OSError, KeyError, ImageCms.PyCMSError):  # damaged, or a colour space not convertible to RGB
        return False
    steps = np.linspace(0, 255, 17).round().astype(np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    sample = Image.fromarray(np.arange(256, dtype=np.uint8)[None] if mode == "L" else colours)
    converted = ImageCms.applyTransform(sample, transform)
    differences = np.abs(np.asarray(converted, dtype=int) - np.asarray(sample.convert("RGB"), dtype=int))
    return bool(differences.max() <= SRGB_TOLERANCE)
