"""Check each perturbation against an independent reference, and the regions of faces that they need."""

import hashlib
import inspect
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from PIL import Image
from scipy.ndimage import gaussian_filter

from src import configs
from src.errors import InputError, NotApplicable
from src.stimuli import build_table, face_regions, perturbations, pictures
from src.stimuli.perturbations import Perturbation, check_perturbation
from tests.stimuli.test_decoding import orientation, saved
from tests.stimuli.test_morph_methods import texture

RNG = np.random.default_rng(0)
NOISE = Image.fromarray(RNG.integers(0, 256, (48, 64, 3), np.uint8))
BOX = (10.0, 8.0, 50.0, 40.0)
DIGEST = hashlib.sha256(b"picture").hexdigest()
NAMES = ["blur_background", "grey_background", "crop_face", "grey", "flip", "jpeg", "mask_patches"]


def array(picture: Image.Image) -> np.ndarray:
    assert picture.mode == "RGB"
    return np.asarray(picture).astype(int)


def ellipse(width: int, height: int, box) -> np.ndarray:
    """Return whether the centre of each pixel lies in the ellipse, pixel by pixel."""
    left, upper, right, lower = box
    inside = np.zeros((height, width), dtype=bool)
    for y in range(height):
        for x in range(width):
            across = (x + 0.5 - (left + right) / 2) / ((right - left) / 2)
            down = (y + 0.5 - (upper + lower) / 2) / ((lower - upper) / 2)
            inside[y, x] = across**2 + down**2 <= 1
    return inside


def test_a_background_is_blurred_by_a_gaussian_and_the_face_is_untouched():
    picture = Image.fromarray(texture(size=80)[:64])
    result, inside = array(perturbations.blur_background(picture, BOX, 0.05)), ellipse(80, 64, BOX)
    assert np.array_equal(result[inside], array(picture)[inside])
    sigma = 0.05 * 64
    expected = np.stack(
        [gaussian_filter(array(picture)[..., c].astype(float), sigma, mode="nearest") for c in range(3)],
        axis=2,
    )
    # Pillow approximates the Gaussian by three box filters.
    assert np.abs(result - expected)[~inside].max() <= 10
    assert np.abs(result - expected)[~inside].mean() < 1 < np.abs(array(picture) - expected)[~inside].mean()


@pytest.mark.parametrize("box", [BOX, (-20.0, -9.5, 30.2, 20.9), (-50.0, -50.0, 200.0, 200.0)])
def test_a_background_is_grey_outside_the_ellipse(box):
    inside = ellipse(64, 48, box)
    expected = np.where(inside[..., None], array(NOISE), 100)
    assert np.array_equal(array(perturbations.grey_background(NOISE, box, 100)), expected)


def test_a_face_is_cropped_to_the_pixels_of_its_box_within_the_picture():
    assert np.array_equal(
        array(perturbations.crop_face(NOISE, (3.2, 4.0, 20.1, 30.0))), array(NOISE)[4:30, 3:21]
    )
    assert np.array_equal(array(perturbations.crop_face(NOISE, (-5, -5, 70, 9.5))), array(NOISE)[:10])


def test_grey_is_the_luma_of_bt_601_and_a_flip_reverses_the_columns():
    red, green, blue = np.moveaxis(array(NOISE), 2, 0)
    luma = (0.299 * red + 0.587 * green + 0.114 * blue)[..., None]
    assert np.abs(array(perturbations.grey(NOISE)) - luma).max() <= 0.51
    assert np.array_equal(array(perturbations.flip(NOISE)), array(NOISE)[:, ::-1])


def test_jpeg_loses_more_the_lower_the_quality_and_is_what_a_file_would_give():
    smooth = Image.fromarray(texture(size=64))
    errors = [
        np.abs(array(perturbations.jpeg(smooth, quality)) - array(smooth)).mean() for quality in (5, 30, 95)
    ]
    assert errors[0] > errors[1] > errors[2] > 0
    file = BytesIO()
    smooth.save(file, "JPEG", quality=30)
    assert np.array_equal(array(perturbations.jpeg(smooth, 30)), array(Image.open(file)))


def test_the_declared_share_of_squares_is_masked_and_the_digest_decides_which():
    result = array(perturbations.mask_patches(NOISE, 0.125, 0.25, 7, DIGEST))
    squares = [
        (result[y : y + 6, x : x + 6] == 7).all() for y in range(0, 48, 6) for x in range(0, 64, 6)
    ]  # 8 rows, 11 columns, of which the last is cut off
    assert sum(squares) == round(0.25 * 8 * 11)
    changed = (result != array(NOISE)).any(axis=2)
    assert (result[changed] == 7).all()
    assert np.array_equal(result, array(perturbations.mask_patches(NOISE, 0.125, 0.25, 7, DIGEST)))
    other = perturbations.mask_patches(NOISE, 0.125, 0.25, 7, DIGEST[::-1])
    assert not np.array_equal(result, array(other))
    assert np.array_equal(array(perturbations.mask_patches(NOISE, 0.125, 0, 7, DIGEST)), array(NOISE))


def faces(folder, files, boxes=None) -> configs.RoleConfig:
    rows = [{"id": path.name, "group": f"g{i % 2}", "path": str(path)} for i, path in enumerate(files)]
    frame = pictures.add_hashes(pd.DataFrame(rows)).drop(columns="conversions")
    if boxes is not None:
        frame[[*face_regions.BOX_COLUMNS]] = boxes
    return build_table("faces", frame, str(folder))


def config(name, face_box=(0.2, 0.2, 0.8, 0.8), folder=None, **changes):
    """Return the config of a job as far as perturbations read it, with the YAML of a perturbation."""
    fields = OmegaConf.to_container(OmegaConf.load(configs.CONF / "perturb" / f"{name}.yaml"))
    del fields["defaults"]
    by_name = {function.__name__: kind for kind, function in perturbations.FUNCTIONS.items()}
    perturb = by_name.get(name, configs.PerturbConfig)(**fields | changes)
    portraits = configs.AvatarsConfig(face_box=face_box and [*face_box])
    return SimpleNamespace(perturb=perturb, faces=portraits, model=SimpleNamespace(precomputed=folder))


@pytest.mark.parametrize("name", NAMES)
def test_pictures_of_all_kinds_are_perturbed_upright_in_8_bit_rgb(tmp_path, name):
    base = texture(size=60)[:40]
    deep = (base[..., 0].astype(np.uint16) << 8) + 7
    files = [
        saved(tmp_path / "plain.png", base),
        saved(tmp_path / "turned.png", np.rot90(base), exif=orientation(6)),  # upright: as plain.png
        saved(tmp_path / "alpha.png", np.dstack([base, np.full(base.shape[:2], 90, np.uint8)])),
        saved(tmp_path / "deep.png", deep),
    ]
    table = faces(tmp_path, files, [(15, 10, 45, 30)] * 4)
    cfg = config(name)
    built = perturbations.build_perturbation(cfg, table)
    results = {
        row["id"]: array(built.apply(pictures.read(row["path"]), index))
        for index, row in table.frame.iterrows()
    }
    expected = results["plain.png"]
    if name != "mask_patches":  # another file has another SHA-256, and another mask
        assert np.array_equal(results["turned.png"], expected)
        assert np.array_equal(results["alpha.png"], expected)
    grey = results["deep.png"]
    assert grey.shape == expected.shape
    assert (grey == grey[..., :1]).all()
    assert expected.shape == ((24, 36, 3) if name == "crop_face" else (40, 60, 3))


def test_boxes_are_enlarged_and_portraits_share_a_box_of_the_centre_square(tmp_path):
    files = [saved(tmp_path / "a.png", texture(size=100)[:50]), saved(tmp_path / "b.png", texture(3, 50))]
    cfg = config("crop_face", margin=0.5, face_box=(0.25, 0.25, 0.75, 0.75))
    boxed = perturbations.build_perturbation(cfg, faces(tmp_path, files, [(20, 20, 40, 30), (0, 0, 10, 10)]))
    assert [boxed.apply(pictures.read(files[i]), i).size for i in (0, 1)] == [(40, 20), (15, 15)]
    table = faces(tmp_path, files)
    shared = perturbations.build_perturbation(cfg, table)
    cropped = shared.apply(pictures.read(files[0]), 0)
    assert np.array_equal(array(cropped), array(pictures.read(files[0]))[:, 25:75])
    notes = check_perturbation(cfg, {"faces": table})
    assert (
        notes[-1] == "face region: the same box in all portraits, 0.25, 0.25, 0.75, 0.75 of the centre square"
    )


def test_the_region_used_is_noted_and_boxes_beyond_the_picture_are_counted(tmp_path):
    files = [saved(tmp_path / f"{i}.png", texture(i, 40)) for i in range(3)]
    table = faces(tmp_path, files, [(5, 5, 20, 20), (-3, 5, 20, 20), (5, 5, 20, 41)])
    notes = check_perturbation(config("blur_background"), {"faces": table})
    assert notes == [
        "perturb=blur_background: pictures of faces are perturbed",
        "face region: the boxes of the data; 2 reach beyond their picture and are cut at its edge",
    ]


def test_faces_without_a_region_are_counted_and_named(tmp_path):
    files = [saved(tmp_path / f"{i}.png", texture(i, 40)) for i in range(3)]
    table = faces(tmp_path, files, [(5, 5, 20, 20), (np.nan,) * 4, (50, 5, 70, 20)])
    message = (
        r"perturb=crop_face: of 3 faces, 1 have no box: 1.png; 1 have a box whose centre is outside the "
        r"picture: 2.png. Correct box_left, .* or choose a perturbation that"
    )
    with pytest.raises(InputError, match=r"'0.png': expected the left, top, .* \(2 such rows\)"):
        faces(tmp_path, files, [(np.nan, 5, 20, 20), (9, 9, 9, 20), (5, 5, 20, 20)])
    with pytest.raises(InputError, match=message):
        check_perturbation(config("crop_face"), {"faces": table})
    unknown = config("crop_face", face_box=None)
    with pytest.raises(InputError, match=r"faces is unknown. Choose faces=people, and set faces.box"):
        check_perturbation(unknown, {"faces": faces(tmp_path, files)})
    wrong = config("crop_face", face_box=(0.5, 0, 0.2, 1))
    with pytest.raises(
        InputError, match=r"faces.face_box=\[0.5, 0, 0.2, 1\]: expected LEFT,TOP,RIGHT,BOTTOM"
    ):
        check_perturbation(wrong, {"faces": faces(tmp_path, files)})


def test_what_cannot_be_perturbed_is_refused(tmp_path):
    table = faces(tmp_path, [saved(tmp_path / "a.png", texture())])
    with pytest.raises(InputError, match=r"perturb.roles: expected faces or scenes, got words. Correct"):
        check_perturbation(config("grey", roles=["words"]), {"faces": table})
    with pytest.raises(InputError, match=r"perturb=blur_background.*: scenes have no face"):
        check_perturbation(config("blur_background", roles=["scenes"]), {"faces": table})
    with pytest.raises(NotApplicable, match=r"changes faces, the experiment uses scenes, words"):
        check_perturbation(config("blur_background"), {"scenes": None, "words": None})
    vectors = config("grey", folder=tmp_path)
    with pytest.raises(NotApplicable, match=r"model=precomputed has vectors of pictures as they are"):
        check_perturbation(vectors, {"faces": table})
    assert check_perturbation(config("none"), {"faces": table}) == []


def test_the_identity_holds_what_decides_pixels_and_nothing_else(tmp_path):
    files = [saved(tmp_path / f"{i}.png", texture(i, 40)) for i in range(2)]
    table, boxed = faces(tmp_path, files), faces(tmp_path, files, [(5, 5, 20, 20)] * 2)
    assert table.hash == boxed.hash

    def identity(name, used=table, **changes):
        return perturbations.build_perturbation(config(name, **changes), used).identity

    assert identity("grey") == identity("grey", boxed) == identity("grey", roles=["faces"])
    assert identity("jpeg") != identity("jpeg", quality=16)
    assert identity("crop_face") != identity("crop_face", boxed)
    moved = faces(tmp_path, files, [(5, 5, 20, 20), (6, 5, 20, 20)])
    assert identity("crop_face", moved) != identity("crop_face", boxed)
    assert identity("crop_face", boxed, face_box=(0, 0, 1, 1)) == identity("crop_face", boxed)
    assert perturbations.build_perturbation(config("none"), table) is None


def test_every_function_and_yaml_is_registered():
    yamls = {path.stem for path in (configs.CONF / "perturb").glob("*.yaml")}
    assert yamls == {*NAMES, "none"}
    assert {function.__name__ for function in perturbations.FUNCTIONS.values()} == {*NAMES}
    for config_class, function in perturbations.FUNCTIONS.items():
        names = {*vars(Perturbation(config_class(), [])), *config_class.__dataclass_fields__}
        assert {*inspect.signature(function).parameters} - {"picture", "box", "digest"} <= names
