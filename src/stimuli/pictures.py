"""Decode picture files into upright 8-bit RGB (sRGB); check, hash and crop them.

A path may continue below a file: into a tar or Parquet file (see `shards`), and at its end by a region of the
upright picture, `PICTURE/LEFT,UPPER,RIGHT,LOWER` in pixels. Only this module opens pictures of datasets;
morphs and perturbations also open pictures that they have written.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import ExifTags, Image, ImageCms, PngImagePlugin

from src.errors import InputError, brief
from src.stimuli import shards
from src.stimuli.safe_paths import refuse_links_out
from src.storage.cache import file_hash

# Formats to decode. Pillow would run Ghostscript on a PostScript file, even if it is named .jpg.
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")

# PNG comments are ignored, but image generators write comments above Pillow's limit of one megabyte.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY

# Kinds of conversions, as described in the notes of a table.
ORIENTATION, PROFILE = "EXIF orientation applied", "colour profile other than sRGB ignored"
TRANSPARENT, FROM_CMYK = "transparency dropped", "CMYK converted by formula"

# EXIF orientation -> transposition that makes the stored picture upright.
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Colour space of an ICC profile -> Pillow's mode for its values.
MODE_BY_SPACE = {"GRAY": "L", "RGB ": "RGB"}
# Largest difference between sRGB profiles of different makers, in levels from 0 to 255.
SRGB_TOLERANCE = 2
# Pillow's raw modes with 16 bits per channel, in any byte order; it reduces them to their high byte.
DEEP_COLOUR = re.compile(";16[BLN]")
Box = tuple[float, float, float, float]
# Region at the end of a path: left, upper, right and lower edge in pixels of the upright picture.
REGION = re.compile(r"/(\d{1,7}),(\d{1,7}),(\d{1,7}),(\d{1,7})\Z", re.ASCII)
# Pictures are first reduced by whole factors to at least this multiple of the target size, then by Lanczos.
REDUCING_GAP = 3.0


def decode(path: str | Path, min_edge: int = 0) -> tuple[Image.Image, list[str]]:
    """Decode a picture into upright 8-bit RGB; return it and the kinds of conversions that it needed.

    16-bit values are reduced to their high byte, and refused if all are below 1/16 of white. As in CLIP's own
    preprocessing, ICC profiles are ignored, and transparency is dropped, which reveals the colours stored
    behind it. With `min_edge`, a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as its edges
    have at least `min_edge` pixels; a region of a picture is always decoded in full size, then cropped.

    Raises:
        OSError: the file is truncated, not a picture, has several frames, or has pixels without defined RGB
            values, such as floating point or signed integers; or its region lies outside of it. Decoders
            raise other exceptions as well.
    """
    file, region = split_region(path)
    if region:
        full_picture, conversions = decode(file)
        return full_picture.crop(_clip(region, full_picture.size)), conversions
    with Image.open(_open(path), formats=FORMATS) as picture:
        # Phones and stereo cameras add frames to a JPEG (MPO): only the first is the picture.
        frames = 1 if picture.format == "MPO" else getattr(picture, "n_frames", 1)
        if frames > 1:
            raise OSError(f"{frames} pictures in one file: save the right one as a separate file")
        if min_edge:
            picture.draft("RGB", (min_edge, min_edge))
        has_16_bits = any(DEEP_COLOUR.search(str(tile.args)) for tile in picture.tile)
        profile, orientation = picture.info.get("icc_profile"), _read_orientation(picture)
        conversions = [ORIENTATION] if orientation in UPRIGHT else []
        picture.load()
        # Pillow turns a TIFF upright while loading it, and then reports no orientation.
        orientation = _read_orientation(picture)
        decoded: Image.Image = picture
        if decoded.mode.startswith("I"):
            decoded = _reduce_to_8_bits(picture)
        elif decoded.has_transparency_data:
            low, _ = decoded.convert("RGBA").getchannel("A").getextrema()
            conversions += [TRANSPARENT] if low != 255 else []
        if decoded.mode in ("F", "LAB"):
            reason = "floating point defines no white" if decoded.mode == "F" else "mode LAB is not converted"
            raise OSError(f"{reason}: save it as RGB or grey of 8 or 16 bits")
        if decoded.mode == "CMYK" and picture.format == "JPEG" and "adobe" not in picture.info:
            raise OSError("a CMYK JPEG that does not say whether its ink is inverted: save it as RGB")
        if decoded.mode == "CMYK":
            conversions.append(FROM_CMYK)
        elif profile and not _is_srgb(profile):
            conversions.append(PROFILE)
        rgb = decoded.convert("RGB")
    if has_16_bits and not picture.mode.startswith("I"):
        _refuse_dark(int(np.asarray(rgb).max()) * 256 + 255, 16, "colour")
    return (rgb.transpose(UPRIGHT[orientation]) if orientation in UPRIGHT else rgb), conversions


def read_upright_size(path: str | Path) -> tuple[int, int]:
    """Read the width and height in pixels of the upright picture, or of its region, from its header."""
    file, region = split_region(path)
    with Image.open(_open(file), formats=FORMATS) as picture:
        width, height = picture.size
        is_rotated = picture.format != "TIFF" and _read_orientation(picture) in (5, 6, 7, 8)
    upright_size = (height, width) if is_rotated else (width, height)
    if not region:
        return upright_size
    left, upper, right, lower = _clip(region, upright_size)
    return right - left, lower - upper


def split_region(path: str | Path) -> tuple[str | Path, tuple[int, ...]]:
    """Split a path into the picture and the edges of its region; () if the path has no region.

    >>> split_region("imgs/1.jpg/10,0,50,80"), split_region("imgs/1.jpg")
    (('imgs/1.jpg', (10, 0, 50, 80)), ('imgs/1.jpg', ()))
    """
    match = REGION.search(str(path))
    if not match or os.path.isdir(str(path)[: match.start()]):  # noqa: PTH112  (a file of such a name)
        return path, ()
    return str(path)[: match.start()], tuple(map(int, match.groups()))


def exists(path: str | Path) -> bool:
    """Return whether a file, or the member of a shard, exists; raise OSError for a damaged shard."""
    file, _ = split_region(path)
    member = shards.split_path(file)
    # os.path accepts names that Path methods refuse: a name too long for the file system is not a file.
    return shards.has_member(*member) if member else os.path.isfile(file)  # noqa: PTH113


def hash_picture(path: str | Path) -> str:
    """Return the SHA-256 of a picture's bytes, as of a file with the same bytes; of a region, with its edges.

    Raises:
        OSError: the picture is empty or cannot be read.
    """
    file, region = split_region(path)
    member = shards.split_path(file)
    content = shards.read_member(*member) if member else b""
    if not content and (member or Path(file).stat().st_size == 0):
        raise OSError("empty file")
    digest = hashlib.sha256(content).hexdigest() if member else file_hash(Path(file))
    return hashlib.sha256(f"{digest}/{region}".encode()).hexdigest() if region else digest


def _open(path: str | Path) -> Path | BytesIO:
    """Return a file for Pillow to open, or the bytes of a member of a shard."""
    member = shards.split_path(path)
    return BytesIO(shards.read_member(*member)) if member else Path(path)


def _clip(region: Sequence[int], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Bound a region by a picture of a width and height; raise OSError if nothing is left."""
    (left, upper, right, lower), (width, height) = region, size
    right, lower = min(right, width), min(lower, height)
    if left >= right or upper >= lower:
        raise OSError(
            f"the region {','.join(map(str, region))} lies outside of the {width} x {height} pixels"
        )
    return left, upper, right, lower


def _read_orientation(picture: Image.Image) -> int:
    try:
        return int(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # unreadable EXIF data: the picture counts as upright
        return 1


def _reduce_to_8_bits(picture: Image.Image) -> Image.Image:
    """Reduce integer grey to its highest 8 bits, as Pillow does with 16-bit colour."""
    tags = getattr(picture, "tag_v2", {})
    bits, is_signed = int(tags.get(ExifTags.Base.BitsPerSample, (16,))[0]), picture.mode == "I"
    if is_signed and picture.format == "TIFF":
        raise OSError(f"signed integers of {bits} bits define no white: save it as grey of 8 or 16 bits")
    pixels = np.asarray(picture)
    if pixels.any():
        _refuse_dark(int(pixels.max()), bits, "grey")
    grey = (pixels >> (bits - 8)).astype(np.uint8)
    is_inverted = picture.format == "TIFF" and tags.get(ExifTags.Base.PhotometricInterpretation) == 0
    return Image.fromarray(255 - grey if is_inverted else grey)


def _refuse_dark(brightest: int, bits: int, kind: str) -> None:
    """Refuse values that lie below a sixteenth of white: they have fewer bits than the file declares."""
    if brightest < 1 << (bits - 4):
        raise OSError(f"all values lie below {brightest + 1} of {1 << bits}: save it as {kind} of 8 bits")


@lru_cache(maxsize=64)
def _is_srgb(profile: bytes) -> bool:
    """Return whether an ICC profile equals sRGB within `SRGB_TOLERANCE`."""
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        mode = MODE_BY_SPACE[source.profile.xcolor_space]
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB")
    except (OSError, KeyError, ImageCms.PyCMSError):  # damaged, or a colour space not convertible to RGB
        return False
    steps = np.linspace(0, 255, 17).round().astype(np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    sample = Image.fromarray(np.arange(256, dtype=np.uint8)[None] if mode == "L" else colours)
    srgb_sample = ImageCms.applyTransform(sample, transform)
    differences = np.abs(np.asarray(srgb_sample, dtype=int) - np.asarray(sample.convert("RGB"), dtype=int))
    return bool(differences.max() <= SRGB_TOLERANCE)


def read(path: str | Path) -> Image.Image:
    """Decode a picture into upright RGB; raise the errors of `decode`."""
    return decode(path)[0]


def standardise(path: str | Path, size: int) -> np.ndarray:
    """Return the centre square of an upright picture, resized to RGB uint8 [size, size, 3]."""
    # A large JPEG may be decoded at a reduced size, but never below twice the target size.
    picture, _ = decode(path, min_edge=2 * size)
    scaled = picture.resize(
        (size, size),
        Image.Resampling.LANCZOS,
        box=compute_centre_square(*picture.size),
        reducing_gap=REDUCING_GAP,
    )
    return np.asarray(scaled)


def compute_centre_square(width: int, height: int) -> Box:
    """Return the left, upper, right and lower edge of the centre square in pixels (Pillow's order)."""
    edge = min(width, height)
    left, upper = (width - edge) / 2, (height - edge) / 2
    return left, upper, left + edge, upper + edge


def standardise_points(points: np.ndarray, width: int, height: int, size: int) -> np.ndarray:
    """Transform points of an upright picture to points of its standardised form (see `standardise`).

    Points are x and y in pixels, [P, 2]; the centre of the first pixel is (0, 0).
    """
    left, upper, right, _ = compute_centre_square(width, height)
    scale = size / (right - left)
    return (points + 0.5 - [left, upper]) * scale - 0.5


def hash_pictures(paths: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Decode and hash each picture; return the SHA-256 of each file, and its conversions joined by "; ".

    Raises:
        InputError: files are empty, truncated, too large or refused by `decode`. The message states how
            many, and names the first ten.
    """
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(_check_and_hash, paths))
    problems = [
        f"{path} ({problem})" for path, (_, _, problem) in zip(paths, results, strict=True) if problem
    ]
    if problems:
        lines = "\n  ".join(problems[:10] + (["..."] if len(problems) > 10 else []))
        raise InputError(
            f"{len(problems)} of {len(paths)} pictures cannot be read:\n  {lines}\n"
            "Replace the files, or delete them: rows without a picture are left out and counted."
        )
    return [digest for digest, _, _ in results], [conversions for _, conversions, _ in results]


def add_hashes(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `sha256` and `conversions` of the picture at each `path` (see `hash_pictures`)."""
    digests, conversions = hash_pictures([Path(path) for path in frame["path"]])
    return frame.assign(sha256=digests, conversions=conversions)


def count_conversions(conversions: Sequence[str]) -> list[str]:
    """Count the converted pictures by kind of conversion.

    >>> count_conversions(["transparency dropped", "", "EXIF orientation applied; transparency dropped"])
    ['EXIF orientation applied: 1 pictures', 'transparency dropped: 2 pictures']
    """
    counts = pd.Series(conversions, dtype=str).str.split("; ").explode().value_counts()
    return [f"{kind}: {count} pictures" for kind, count in sorted(counts.items()) if kind]


def drop_absent(
    frame: pd.DataFrame, source: Path, root: Path, setting: str, remedy: str
) -> tuple[pd.DataFrame, list[str]]:
    """Drop the rows whose picture at `path` does not exist, and note their number.

    Raises:
        InputError: no picture exists, or a link leads out of the folder `root` of the setting `setting`.
    """
    refuse_links_out([Path(path) for path in frame["path"]], root, setting)
    try:
        present = [exists(path) for path in frame["path"]]
    except OSError as error:
        raise InputError(
            f"{source}: a picture's file cannot be read ({brief(str(error))}). {remedy}"
        ) from None
    absent = len(frame) - sum(present)
    if absent == len(frame):
        raise InputError(
            f"{source}: none of its {len(frame)} pictures exists; the first is expected at "
            f"{brief(frame['path'].iloc[0])}. {remedy}"
        )
    notes = [f"{absent} rows of {source.name} have no picture"] if absent else []
    return frame[present].reset_index(drop=True), notes


def _check_and_hash(path: Path) -> tuple[str, str, str]:
    """Return the SHA-256 of a picture, its conversions, and why it cannot be decoded (empty if it can)."""
    try:
        digest = hash_picture(path)
        _, conversions = decode(path)
        return digest, "; ".join(conversions), ""
    except Image.DecompressionBombError:
        return "", "", f"more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels: scale it down"
    except Exception as error:  # Pillow's decoders raise exceptions of any type
        return "", "", str(error).replace(str(path), path.name) or repr(error)


def drop_copies(frame: pd.DataFrame, source: Path, policy: str, role: str) -> tuple[pd.DataFrame, list[str]]:
    """Refuse copies of pictures or, if `policy` is "drop", drop all but the first copy in row order.

    `frame` has the columns `path`, `group` or `valence`, and `row` if the pictures are listed in a csv.
    Returns the frame without `row`, and notes on the dropped pictures.

    Raises:
        InputError: a picture occurs twice and `policy` is "stop"; the message names both rows.
    """
    with ThreadPoolExecutor() as pool:
        digests = pd.Series(list(pool.map(_hash_or_none, map(Path, frame["path"]))), frame.index)
    is_copy = digests.notna() & digests.duplicated()
    originals = frame[~is_copy].drop(columns="row", errors="ignore").reset_index(drop=True)
    if not is_copy.any():
        return originals, []
    attribute = "group" if "group" in frame else "valence"
    if policy == "drop":
        first_values = frame[attribute].groupby(digests).transform("first")
        n_conflicts = (is_copy & (frame[attribute] != first_values)).sum()
        conflicts = f", {n_conflicts} of them with another {attribute}" if n_conflicts else ""
        return originals, [
            f"{is_copy.sum()} pictures occur a second time{conflicts} ({role}.duplicates=drop)"
        ]
    second, first = frame[is_copy].iloc[0], frame[digests == digests[is_copy].iloc[0]].iloc[0]
    locations = [row["path"] for row in (second, first)]
    if "row" in frame:
        locations = [f"{source}, row {row['row']} ({row['path']})" for row in (second, first)]
    is_conflict = first[attribute] != second[attribute]
    conflict = f" with {attribute} {first[attribute]} (here {second[attribute]})" if is_conflict else ""
    raise InputError(
        f"{locations[0]}: the same picture, byte for byte, as {locations[1]}{conflict}; {is_copy.sum()} such "
        f"pictures. Delete one of each two, or set {role}.duplicates=drop to keep the first."
    )


def _hash_or_none(path: Path) -> str | None:
    """Hash a file; return None if it is empty or unreadable, which `hash_pictures` refuses."""
    try:
        return hash_picture(path)
    except OSError:
        return None
