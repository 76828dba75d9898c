"""Pictures of every kind: shown as they are meant, to the level, or refused with what to do."""

import struct
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from src.errors import InputError
from src.stimuli import decoding, pictures
from src.stimuli.morphs import contact_sheet, landmark_templates, standard
from src.stimuli.morphs.sheet import TILE, TITLE

# What turns stored rows and columns upright, by EXIF 2.32, table 6 (where row 0 and column 0 belong).
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
# Blocks of 8 pixels, which JPEG keeps to a few levels.
COLOURS = np.kron(RNG.integers(0, 256, (3, 5, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
MODES = ("RGB", "L", "1", "P", "RGBA", "LA")
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
    ((said,),) = pictures.hashes([path])[1:]
    return said


def oriented(path: Path, orientation: int, **options) -> Path:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(path, COLOURS, exif=exif, **options)


def png(path: Path, values: np.ndarray) -> Path:
    """16-bit grey or RGB: Pillow writes no such colour."""
    height, width = values.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, 2 if values.ndim == 3 else 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    content = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


def tiff(path: Path, values: np.ndarray, *, white: int = 1, bits: int = 16, sample_format: int = 1) -> Path:
    """Grey or RGB of any bits, uncompressed; `white` 0 means that 0 is white."""
    data = values.tobytes()
    if bits == 12:
        signs = np.unpackbits(values.astype(">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 4:]
        data = np.packbits(signs).tobytes()
    samples = 3 if values.ndim == 3 else 1
    order = ">" if values.dtype.byteorder == ">" else "<"
    start = 8 + 2 + 10 * 12 + 4
    depth = (258, 3, 3, start) if samples == 3 else (258, 3, 1, bits)
    extra = struct.pack(order + "HHH", bits, bits, bits) if samples == 3 else b""
    tags = [
        (256, 3, 1, values.shape[1]), (257, 3, 1, values.shape[0]), depth, (259, 3, 1, 1),
        (262, 3, 1, 2 if samples == 3 else white), (273, 4, 1, start + len(extra)), (277, 3, 1, samples),
        (278, 3, 1, values.shape[0]), (279, 4, 1, len(data)), (339, 3, 1, sample_format),
    ]  # fmt: skip
    content = struct.pack(order + "2sHI", b"MM" if order == ">" else b"II", 42, 8)
    content += struct.pack(order + "H", len(tags))
    for tag, kind, count, value in tags:
        inline = kind == 3 and count == 1
        content += struct.pack(order + ("HHIHxx" if inline else "HHII"), tag, kind, count, value)
    path.write_bytes(content + struct.pack(order + "I", 0) + extra + data)
    return path


def profile(change=lambda content: content) -> bytes:
    return change(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())


def red_is_green(content: bytes) -> bytes:
    """A profile whose red and green primaries have changed places."""
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
    def test_pixels_are_what_pillow_makes_of_them(self, tmp_path, mode, form):
        given = Image.fromarray(np.dstack([COLOURS, np.full(COLOURS.shape[:2], 255, np.uint8)])).convert(mode)
        path = saved(tmp_path / "a", given, format=form)
        with Image.open(path) as picture:
            assert pixels(path).tobytes() == picture.convert("RGB").tobytes()
        assert conversions(path) == ""

    def test_a_picture_of_srgb_keeps_its_bytes_with_its_profile(self, tmp_path):
        bare, tagged = (
            saved(tmp_path / f"{name}.jpg", COLOURS, icc_profile=icc)
            for name, icc in (("bare", None), ("tagged", profile()))
        )
        assert (pixels(bare) == pixels(tagged)).all()
        assert conversions(tagged) == ""

    def test_a_morph_s_parent_keeps_its_bytes(self, tmp_path):
        path = saved(tmp_path / "a.jpg", np.kron(COLOURS, np.ones((20, 20, 1), np.uint8)))
        with Image.open(path) as opened:
            opened.draft("RGB", (80, 80))
            picture = opened.convert("RGB")
        box = standard.square(*picture.size)
        wanted = picture.resize((40, 40), Image.Resampling.LANCZOS, box=box, reducing_gap=standard.GAP)
        assert standard.standard(path, 40).tobytes() == wanted.tobytes()


class TestOrientation:
    @pytest.mark.parametrize("orientation", UPRIGHT)
    @pytest.mark.parametrize("suffix", ["png", "webp", "tif", "jpg", "avif"])
    def test_pictures_are_turned_upright(self, tmp_path, orientation, suffix):
        options = {"webp": {"lossless": True}, "avif": {"quality": 100}}.get(suffix, {})
        path = oriented(tmp_path / f"a.{suffix}", orientation, **options)
        plain = pixels(saved(tmp_path / f"plain.{suffix}", COLOURS, **options))
        assert (pixels(path) == UPRIGHT[orientation](plain)).all()
        assert conversions(path) == ("EXIF orientation applied" if orientation > 1 else "")
        assert decoding.upright_size(path) == pictures.read(path).size

    @pytest.mark.parametrize("orientation", UPRIGHT)
    def test_parents_of_morphs_are_turned_upright(self, tmp_path, orientation):
        path = oriented(tmp_path / "a.png", orientation)
        upright = saved(tmp_path / "upright.png", np.ascontiguousarray(UPRIGHT[orientation](COLOURS)))
        assert (standard.standard(path, 16) == standard.standard(upright, 16)).all()

    def test_landmarks_lie_in_the_upright_picture(self, tmp_path):
        parents = {"a": oriented(tmp_path / "a.png", 6), "b": saved(tmp_path / "b.png", COLOURS)}
        (tmp_path / "points.csv").write_text("fname,x,y\na,3,38\nb,38,3\n")
        points = landmark_templates.landmarks(tmp_path / "points.csv", parents, 24)
        assert points["a"].tolist() == [[3, 30]]  # of 24 x 40: the centre square begins 8 pixels down
        assert points["b"].tolist() == [[30, 3]]

    def test_the_contact_sheet_shows_parents_upright(self, tmp_path):
        turned = oriented(tmp_path / "turned.png", 6)
        upright = saved(tmp_path / "upright.png", np.ascontiguousarray(UPRIGHT[6](COLOURS)))
        row = {"id": "x~y", "group": "g", "parent_a": "x", "parent_b": "y", "path": str(upright)}
        sheet = contact_sheet(pd.DataFrame([row]), {"x": turned, "y": upright}, 0)
        shown = np.asarray(sheet)[TITLE : TITLE + TILE, : 3 * TILE]
        assert (shown[:, :TILE] == shown[:, 2 * TILE :]).all()

    @pytest.mark.parametrize("value", [0, 9, 255])
    def test_an_orientation_that_does_not_exist_turns_nothing(self, tmp_path, value):
        assert (pixels(oriented(tmp_path / "a.png", value)) == COLOURS).all()

    @pytest.mark.filterwarnings("ignore:Corrupt EXIF|Truncated File:UserWarning")
    @pytest.mark.parametrize(
        "exif", [b"Exif\0\0", b"Exif\0\0MM\0*\0\0\0\x08\0\x09", b"Exif\0\0nonsense here"]
    )
    def test_exif_that_nobody_can_read_turns_nothing(self, tmp_path, exif):
        assert (pixels(saved(tmp_path / "a.png", COLOURS, exif=exif)) == COLOURS).all()


class TestDepth:
    """Each grey of 8 bits, from files of 16 bits."""

    deep = GREY.astype(np.uint16) * 257

    def shown(self, path):
        assert conversions(path) == ""
        found = pixels(path)
        assert (found == found[..., :1]).all()
        return found[..., 0]

    def test_png(self, tmp_path):
        assert (self.shown(saved(tmp_path / "a.png", self.deep)) == GREY).all()
        assert (self.shown(png(tmp_path / "b.png", self.deep)) == GREY).all()

    def test_colour_and_grey_agree(self, tmp_path):
        values = RNG.integers(0, 1 << 16, (9, 7), np.uint16)
        grey, colour = (
            pixels(png(tmp_path / f"{n}.png", v)) for n, v in ((1, values), (3, np.dstack([values] * 3)))
        )
        assert (grey == colour).all()
        colour = pixels(tiff(tmp_path / "a.tif", np.dstack([values] * 3).astype("<u2")))
        assert (grey == colour).all()

    @pytest.mark.parametrize("order", "<>")
    def test_tiff_in_either_order_of_bytes(self, tmp_path, order):
        assert (self.shown(tiff(tmp_path / "a.tif", self.deep.astype(f"{order}u2"))) == GREY).all()

    def test_tiff_whose_0_is_white(self, tmp_path):
        assert (self.shown(tiff(tmp_path / "a.tif", self.deep, white=0)) == 255 - GREY).all()

    def test_tiff_of_12_bits(self, tmp_path):
        values = GREY.astype(np.uint16) * 16 + GREY // 16
        assert (self.shown(tiff(tmp_path / "a.tif", values, bits=12)) == GREY).all()

    @pytest.mark.parametrize("suffix", ["jp2", "pgm"])
    def test_other_formats(self, tmp_path, suffix):
        assert (self.shown(saved(tmp_path / f"a.{suffix}", self.deep)) == GREY).all()

    def test_pgm_of_12_bits(self, tmp_path):
        values = (GREY.astype(int) * 4095 // 255).astype(">u2")
        (tmp_path / "a.pgm").write_bytes(b"P5 16 16 4095\n" + values.tobytes())
        assert np.abs(self.shown(tmp_path / "a.pgm").astype(int) - GREY).max() <= 1

    def test_a_black_picture_is_black(self, tmp_path):
        assert not pixels(saved(tmp_path / "a.png", self.deep * 0)).any()


class TestColour:
    def test_another_profile_changes_no_byte_and_is_counted(self, tmp_path):
        path = saved(tmp_path / "a.png", COLOURS, icc_profile=profile(red_is_green))
        assert (pixels(path) == COLOURS).all()
        assert conversions(path) == "colour profile other than sRGB ignored"

    @pytest.mark.parametrize(
        "content",
        [b"nonsense", profile()[:200], profile(lambda icc: icc[:16] + b"GRAY" + icc[20:])],
        ids=["nonsense", "cut", "of another mode"],
    )
    def test_a_profile_that_says_nothing_is_ignored_and_counted(self, tmp_path, content):
        path = saved(tmp_path / "a.png", COLOURS, icc_profile=content)
        assert (pixels(path) == COLOURS).all()
        assert conversions(path) == "colour profile other than sRGB ignored"

    @pytest.mark.parametrize(
        ("ink", "colour"),
        [((0, 255, 255, 0), (255, 0, 0)), ((0, 0, 0, 0), (255, 255, 255)), ((255, 0, 0, 128), (0, 127, 127))],
    )
    @pytest.mark.parametrize("suffix", ["jpg", "tif"])
    def test_ink_is_converted_and_counted(self, tmp_path, ink, colour, suffix):
        path = saved(tmp_path / f"a.{suffix}", Image.new("CMYK", (16, 16), ink))
        assert np.abs(pixels(path).astype(int) - colour).max() <= 2
        assert conversions(path) == "CMYK converted by formula"

    @pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
    def test_transparency_is_dropped_and_counted(self, tmp_path, mode):
        alpha = np.full(COLOURS.shape[:2], 255, np.uint8)
        alpha[:9] = 0
        picture = Image.fromarray(np.dstack([COLOURS, alpha])).convert("LA" if mode == "LA" else "RGBA")
        options = {}
        if mode == "P":
            picture = Image.fromarray(COLOURS).quantize(16)
            options = {"transparency": 0}
        path = saved(tmp_path / "a.png", picture, **options)
        assert (pixels(path) == np.asarray(picture.convert("RGB"))).all()
        assert conversions(path) == "transparency dropped"

    def test_all_that_was_done_is_counted(self, tmp_path):
        paths = [oriented(tmp_path / f"{number}.png", number) for number in (1, 3, 6)]
        paths.append(oriented(tmp_path / "tagged.png", 8, icc_profile=profile(red_is_green)))
        assert pictures.remarks(pictures.hashes(paths)[1]) == [
            "EXIF orientation applied: 3 pictures",
            "colour profile other than sRGB ignored: 1 pictures",
        ]


def test_a_long_comment_costs_no_picture(tmp_path):
    comment = PngImagePlugin.PngInfo()
    comment.add_text("prompt", "x" * 3_000_000, zip=True)
    path = saved(tmp_path / "a.png", COLOURS, pnginfo=comment)
    assert (pixels(path) == COLOURS).all()


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
            ("a.tif", lambda p: saved(p, GREY.astype(np.float32) / 255), "floating point has no white: save"),
            ("a.tif", lambda p: saved(p, GREY.astype(np.int32) << 16), "signed integers of 32 bits"),
            ("a.tif", lambda p: tiff(p, GREY.astype("<i2"), sample_format=2), "signed integers of 16 bits"),
            ("a.png", lambda p: saved(p, GREY.astype(np.uint16)), "all values lie below 256 of 65536: save"),
            ("a.jpg", without_adobe, "does not say whether its ink is inverted: save it as RGB"),
            ("a.tif", lambda p: saved(p, Image.new("LAB", (9, 9))), "no RGB can be made of mode LAB: save"),
        ],
    )  # fmt: skip
    def test_what_has_no_single_right_value(self, tmp_path, name, write, message):
        path = write(tmp_path / name)
        with pytest.raises(InputError, match=rf"{name} \(.*{message}.*\)\nReplace the files"):
            pictures.hashes([path])

    def test_the_first_of_a_stereo_or_phone_picture_is_taken(self, tmp_path):
        path = film(tmp_path / "a.mpo")
        assert np.abs(pixels(path).astype(int) - COLOURS).mean() < 10

    @pytest.mark.parametrize(
        "form", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "MPO"]
    )
    @pytest.mark.parametrize("share", [0.5, 0.9])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_what_is_cut_off(self, tmp_path, form, share):
        content = BytesIO()
        Image.fromarray(RNG.integers(0, 256, (40, 60, 3), np.uint8)).save(content, form)
        (tmp_path / "a.jpg").write_bytes(content.getvalue()[: int(len(content.getvalue()) * share)])
        with pytest.raises(InputError, match=r"1 of 1 pictures cannot be read:\n.*a\.jpg \("):
            pictures.hashes([tmp_path / "a.jpg"])

    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    def test_a_bomb(self, tmp_path, monkeypatch):
        path = saved(tmp_path / "a.png", COLOURS)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", COLOURS.shape[0] * COLOURS.shape[1] // 2 - 1)
        with pytest.raises(InputError, match=r"a.png \(more than 958 pixels: scale it down\)"):
            pictures.hashes([path])
