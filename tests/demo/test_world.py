"""The drawn world: the same bytes for the same seed, and groups balanced in expression."""

import colorsys

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.configs import AbstractConfig, AvatarsConfig
from src.configs.roles import PeopleConfig
from src.demo import world
from src.errors import InputError
from src.storage import cache

FACES = {
    "per_group": 4,
    "size": 32,
    "seed": 0,
    "peoples": {"Niffite": PeopleConfig(0.3, "horns"), "Luupite": PeopleConfig(0.5, "ears")},
    "genders": {"Women": 0.7, "Men": 0.3},
    "hue_sd": 0.05,
    "hair_sd": 0.2,
    "places": {"meadow": 0.3, "lake": 0.55},
}
SCENES = {"count": 12, "size": 32, "noise": 0.05, "seed": 0}


def test_faces_of_every_group_show_the_same_expressions(tmp_path):
    frame = world.faces(AvatarsConfig(**FACES), tmp_path)
    assert sorted(frame["group"].unique()) == ["Luupite Men", "Luupite Women", "Niffite Men", "Niffite Women"]
    for _, rows in frame.groupby("group"):
        assert sorted(rows["valence"]) == pytest.approx([0.125, 0.375, 0.625, 0.875])
        assert sorted(rows["place"]) == ["lake", "lake", "meadow", "meadow"]
    assert frame["sha256"].is_unique
    with Image.open(frame["path"][0]) as picture:
        assert picture.size == (32, 32)


@pytest.mark.parametrize(
    ("draw", "kind", "chosen"),
    [(world.faces, AvatarsConfig, FACES), (world.scenes, AbstractConfig, SCENES)],
)
def test_a_seed_gives_the_same_bytes(tmp_path, draw, kind, chosen):
    first, again, other = (
        draw(kind(**chosen | {"seed": seed}), tmp_path / name)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    pd.testing.assert_frame_equal(first.drop(columns="path"), again.drop(columns="path"))
    assert not first["sha256"].equals(other["sha256"])


def test_a_picture_that_was_tampered_with_is_drawn_anew(tmp_path):
    first = world.scenes(AbstractConfig(**SCENES), tmp_path)
    Image.new("RGB", (32, 32)).save(first["path"][3])
    again = world.scenes(AbstractConfig(**SCENES), tmp_path)
    assert cache.file_hash(tmp_path / again["path"][3]) == first["sha256"][3]


def test_a_scene_s_brightness_and_warmth_follow_its_valence(tmp_path):
    frame = world.scenes(AbstractConfig(**SCENES | {"count": 60}), tmp_path)
    pixels = [np.asarray(Image.open(path), dtype=float).mean(axis=(0, 1)) for path in frame["path"]]
    red, _, blue = np.array(pixels).T
    assert np.corrcoef(frame["valence"], red - blue)[0, 1] > 0.8
    assert np.corrcoef(frame["valence"], red + blue)[0, 1] > 0.8


def test_an_unknown_crest_is_refused(tmp_path):
    with pytest.raises(InputError, match="no crest is called 'wings'"):
        world.faces(AvatarsConfig(**FACES | {"peoples": {"X": PeopleConfig(0.1, "wings")}}), tmp_path)


def test_a_background_tells_the_place_whoever_stands_there(tmp_path):
    frame = world.faces(AvatarsConfig(**FACES | {"per_group": 12}), tmp_path)
    corners = [np.asarray(Image.open(path), dtype=float)[0, 0] for path in frame["path"]]
    hues = np.array([colorsys.rgb_to_hsv(*corner)[0] for corner in corners])
    for place, hue in FACES["places"].items():
        assert hues[frame["place"] == place] == pytest.approx(hue, abs=0.06)
