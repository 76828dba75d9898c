"""Test that pictures of every kind are decoded exactly, or refused with a remedy."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from src.errors import InputError
from src.stimuli import pictures

# EXIF orientation (2.32, table 6: where row 0 and column 0 belong) -> turn that makes the array upright.
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, 1),
}
RNG = np.random.default_rng(0)
# Uniform blocks of 8 x 8 pixels, which JPEG changes by a few levels only.
COLOURS = np.kron(RNG.integers(0, 256, (3, 5, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
MODES = ("RGB", "L", "1", "P", "RGBA", "LA")
OTHER_PROFILE = "colour profile other than sRGB ignored"
GREY = np.arange(256, dtype=np.uint8).reshape(16, 16)


def saved(path: Path, picture: np.ndarray | Image.Image, **options) -> Path:
    image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    image.save(path, **options)
    return path


def pixels(path: Path) -> np.ndarray:
    picture = pictures.read(path)
    assert picture.mode == "RGB"
    return np.asarray(picture)


def conversions(path: Path) -> str:
    _, (converted,) = pictures.hash_pictures([path])
    return converted


def orientation(value: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = value
    return exif


def tiff(path: Path, values: np.ndarray, *, white: int = 1, bits: int = 16, sample_format: int = 1) -> Path:
    """Write grey of 16 or 12 bits, uncompressed; with `white` 0, the value 0 is white."""
    data = values.tobytes()
    if bits == 12:
        digits = np.unpackbits(values.astype(">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 4:]
        data = np.packbits(digits).tobytes()
    order = ">" if values.dtype.byteorder == ">" else "<"
    data_offset = 8 + 2 + 10 * 12 + 4
    tags = [
        (256, 3, 1, values.shape[1]), (257, 3, 1, values.shape[0]), (258, 3, 1, bits), (259, 3, 1, 1),
        (262, 3, 1, white), (273, 4, 1, data_offset), (277, 3, 1, 1), (278, 3, 1, values.shape[0]),
        (279, 4, 1, len(data)), (339, 3, 1, sample_format),
    ]  # fmt: skip
    content = struct.pack(order + "2sHI", b"MM" if order == ">" else b"II", 42, 8)
    content += struct.pack(order + "H", len(tags))
    for tag, kind, count, value in tags:
        inline = kind == 3 and count == 1
        content += struct.pack(order + ("HHIHxx" if inline else "HHII"), tag, kind, count, value)
    path.write_bytes(content + struct.pack(order + "I", 0) + data)
    return path


def profile(change=lambda content: content) -> bytes:
    return change(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())


def red_is_green(content: bytes) -> bytes:
    """Exchange the red and green primaries of a profile."""
    table = content[:400].replace(b"rXYZ", b"....").replace(b"gXYZ", b"rXYZ").replace(b"....", b"gXYZ")
    return table + content[400:]


class TestOrdinaryPictures:
    @pytest.mark.parametrize(
        ("form", "mode"),
        [
            *((form, mode) for form in ("PNG", "TIFF", "WEBP", "GIF", "AVIF") for mode in MODES),
            *(("BMP", mode) for mode in MODES if mode != "LA"),
            *(("JPEG", mode) for mode in ("RGB", "L", "1")),
            *(("PPM", mode) for mode in ("RGB", "L", "1", "RGBA")),
            *(("JPEG2000", mode) for mode in ("RGB", "L", "RGBA", "LA")),
        ],
    )
    def test_pixels_equal_pillow_s(self, tmp_path, mode, form):
        image = Image.fromarray(np.dstack([COLOURS, np.full(COLOURS.shape[:2], 255, np.uint8)])).convert(mode)
        path = saved(tmp_path / "a", image, format=form)
        with Image.open(path) as picture:
            assert pixels(path).tobytes() == picture.convert("RGB").tobytes()
        assert conversions(path) == ""

    def test_a_parent_of_morphs_equals_pillow_s_reduction(self, tmp_path):
        path = saved(tmp_path / "a.jpg", np.kron(COLOURS, np.ones((20, 20, 1), np.uint8)))
        with Image.open(path) as opened:
            opened.draft("RGB", (80, 80))
            picture = opened.convert("RGB")
        box, gap = pictures.compute_centre_square(*picture.size), pictures.REDUCING_GAP
        wanted = picture.resize((40, 40), Image.Resampling.LANCZOS, box=box, reducing_gap=gap)
        assert pictures.standardise(path, 40).tobytes() == wanted.tobytes()


class TestOrientation:
    @pytest.mark.parametrize("number", UPRIGHT)
    @pytest.mark.parametrize("suffix", ["png", "webp", "tif", "jpg", "avif"])
    def test_pictures_are_turned_upright(self, tmp_path, number, suffix):
        options = {"webp": {"lossless": True}, "avif": {"quality": 100}}.get(suffix, {})
        path = saved(tmp_path / f"a.{suffix}", COLOURS, exif=orientation(number), **options)
        plain = pixels(saved(tmp_path / f"plain.{suffix}", COLOURS, **options))
        assert (pixels(path) == UPRIGHT[number](plain)).all()
        assert conversions(path) == ("EXIF orientation applied" if number > 1 else "")
        assert pictures.read_upright_size(path) == pictures.read(path).size
        upright = saved(tmp_path / "upright.png", pixels(path))
        if suffix != "jpg":  # a JPEG is decoded at a fraction of its size
            assert (pictures.standardise(path, 16) == pictures.standardise(upright, 16)).all()

    @pytest.mark.filterwarnings("ignore:Corrupt EXIF|Truncated File:UserWarning")
    @pytest.mark.parametrize(
        "exif", [b"Exif\0\0MM\0*\0\0\0\x08\0\x09", b"Exif\0\0nonsense here", orientation(9)]
    )
    def test_unreadable_or_unknown_exif_turns_nothing(self, tmp_path, exif):
        assert (pixels(saved(tmp_path / "a.png", COLOURS, exif=exif)) == COLOURS).all()


class TestDepth:
    """Files of 16 or 12 bits that hold each grey of 8 bits."""

    deep = GREY.astype(np.uint16) * 257
    twelve = GREY.astype(np.uint16) * 16 + GREY // 16

    @pytest.mark.parametrize(
        ("name", "write", "expected"),
        [
            *((f"a.{suffix}", saved, GREY) for suffix in ("png", "jp2", "pgm")),
            *(("a.tif", lambda p, v, order=order: tiff(p, v.astype(f"{order}u2")), GREY) for order in "<>"),
            ("a.tif", lambda p, v: tiff(p, v, white=0), 255 - GREY),
            ("a.tif", lambda p, _: tiff(p, TestDepth.twelve, bits=12), GREY),
            ("a.png", lambda p, v: saved(p, v * 0), GREY * 0),
        ],
    )
    def test_grey_is_reduced_to_8_bits(self, tmp_path, name, write, expected):
        path = write(tmp_path / name, self.deep)
        assert conversions(path) == ""
        assert (pixels(path) == expected[..., None]).all()

    @pytest.mark.parametrize(("kind", "channels"), [(2, 3), (4, 2), (6, 4)])
    def test_colour_is_reduced_to_8_bits_or_refused_if_it_has_fewer(self, tmp_path, kind, channels):
        values = np.repeat(self.deep[..., None], channels, axis=2)
        values[..., channels - 1 + channels % 2 :] = 65535  # opaque
        assert (pixels(deep_png(tmp_path / "a.png", values, kind)) == GREY[..., None]).all()
        for shift in (8, 4):
            path = deep_png(tmp_path / "a.png", values >> shift, kind)
            with pytest.raises(InputError, match=r"all values lie below .* of 65536: save it as colour of 8"):
                pictures.hash_pictures([path])


class TestColour:
    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (profile(), ""),
            (profile(red_is_green), OTHER_PROFILE),
            (profile()[:200], OTHER_PROFILE),
            (profile(lambda icc: icc[:16] + b"GRAY" + icc[20:]), OTHER_PROFILE),
        ],
        ids=["sRGB", "red is green", "cut", "of another mode"],
    )
    def test_profiles_change_no_byte_and_are_counted(self, tmp_path, content, expected):
        path = saved(tmp_path / "a.png", COLOURS, icc_profile=content)
        assert (pixels(path) == COLOURS).all()
        assert conversions(path) == expected

    @pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
    def test_transparency_is_dropped_and_counted(self, tmp_path, mode):
        alpha = np.full(COLOURS.shape[:2], 255, np.uint8)
        alpha[:9] = 0
        picture = Image.fromarray(np.dstack([COLOURS, alpha])).convert(mode if mode != "P" else "RGBA")
        picture = Image.fromarray(COLOURS).quantize(16) if mode == "P" else picture
        path = saved(tmp_path / "a.png", picture, **{"transparency": 0} if mode == "P" else {})
        assert (pixels(path) == np.asarray(picture.convert("RGB"))).all()
        assert conversions(path) == "transparency dropped"


def deep_png(path: Path, values: np.ndarray, kind: int) -> Path:
    """Write a PNG of 16 bits per channel [height, width, channels]; `kind` is its colour type."""

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, kind, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*item) for item in chunks))
    return path


def film(path: Path) -> Path:
    frames = [Image.fromarray(COLOURS), Image.fromarray(255 - COLOURS)]
    return saved(path, frames[0], save_all=True, append_images=frames[1:])


def without_adobe(path: Path) -> Path:
    content = saved(path, Image.new("CMYK", (16, 16), (0, 255, 255, 0))).read_bytes()
    start = content.index(b"\xff\xee")
    size = struct.unpack(">H", content[start + 2 : start + 4])[0]
    path.write_bytes(content[:start] + content[start + 2 + size :])
    return path


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "write", "message"),
        [
            *((f"a.{s}", film, "2 pictures in one file: save") for s in ("gif", "webp", "png", "tif")),
            ("a.tif", lambda p: saved(p, GREY.astype(np.float32) / 255), "floating point defines no white"),
            ("a.tif", lambda p: tiff(p, GREY.astype("<i2"), sample_format=2), "signed integers of 16 bits"),
            ("a.png", lambda p: saved(p, GREY.astype(np.uint16)), "all values lie below 256 of 65536: save"),
            ("a.png", lambda p: saved(p, GREY.astype(np.uint16) * 16), "all values lie below 4081 of 65536"),
            ("a.jpg", without_adobe, "does not say whether its ink is inverted: save it as RGB"),
            ("a.tif", lambda p: saved(p, Image.new("LAB", (9, 9))), "mode LAB is not converted: save"),
        ],
    )  # fmt: skip
    def test_pictures_without_a_unique_value(self, tmp_path, name, write, message):
        path = write(tmp_path / name)
        with pytest.raises(InputError, match=rf"{name} \(.*{message}.*\)\nReplace the files"):
            pictures.hash_pictures([path])

    def test_the_first_frame_of_a_phone_picture_is_used(self, tmp_path):
        path = film(tmp_path / "a.mpo")
        assert np.abs(pixels(path).astype(int) - COLOURS).mean() < 10

    @pytest.mark.parametrize(
        "form", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "MPO"]
    )
    @pytest.mark.parametrize("share", [0.5, 0.9])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_truncated_files(self, tmp_path, form, share):
        content = BytesIO()
        Image.fromarray(RNG.integers(0, 256, (40, 60, 3), np.uint8)).save(content, form)
        (tmp_path / "a.jpg").write_bytes(content.getvalue()[: int(len(content.getvalue()) * share)])
        with pytest.raises(InputError, match=r"1 of 1 pictures cannot be read:\n.*a\.jpg \("):
            pictures.hash_pictures([tmp_path / "a.jpg"])

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    def test_decompression_bombs(self, tmp_path, monkeypatch):
        path = saved(tmp_path / "a.png", COLOURS)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", COLOURS.shape[0] * COLOURS.shape[1] // 2 - 1)
        with pytest.raises(InputError, match=r"a.png \(more than 958 pixels: scale it down\)"):
            pictures.hash_pictures([path])
