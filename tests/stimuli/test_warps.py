"""Morphs by optical flow and by landmarks: what must come out, and which landmark files are refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src import configs
from src.configs.roles import PeopleConfig
from src.demo import world
from src.demo.avatars import avatar
from src.errors import InputError
from src.stimuli import morphs
from src.stimuli.morphs import flow, landmark
from src.stimuli.morphs.landmark_templates import landmarks


def texture(shift: float = 0, size: int = 96) -> np.ndarray:
    """Soft spots, moved to the right by a number of pixels."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:size, :size]
    spots = zip(rng.uniform(0, size, (60, 2)), rng.normal(size=(60, 3)), strict=True)
    parts = [
        np.exp(-((x - shift - cx) ** 2 + (y - cy) ** 2) / 60)[..., None] * colour
        for (cx, cy), colour in spots
    ]
    return np.clip(128 + 90 * sum(parts), 0, 255).astype(np.uint8)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(float) - b).mean())


class TestFlow:
    def test_a_moved_picture_is_morphed_to_half_the_way(self):
        a, b, middle = texture(-4), texture(4), texture(0)
        inner = np.s_[12:-12, 12:-12]
        assert distance(flow.morph(a, b)[inner], middle[inner]) < 2
        assert distance(((a.astype(int) + b) // 2)[inner], middle[inner]) > 8

    def test_the_two_parents_are_treated_alike(self):
        rng = np.random.default_rng(0)
        look = {"crest": "horns", "prominence": 1, "hair": 0.5, "place": 0.6, "size": 96}
        a, b, c = (np.asarray(avatar(hue=hue, valence=hue, rng=rng, **look)) for hue in (0.2, 0.5, 0.8))
        assert (flow.morph(a, b) == flow.morph(b, a)).all()
        assert (flow.morph(b, c) == flow.morph(c, b)).all()
        assert (flow.morph(a, a) == a).all()


class TestLandmark:
    def test_a_moved_picture_is_morphed_to_half_the_way(self):
        a, b, middle = texture(-4), texture(4), texture(0)
        points = np.random.default_rng(0).uniform(10, 85, (60, 2))
        result = landmark.morph(a, b, points - [4, 0], points + [4, 0])
        inner = np.s_[20:-20, 20:-20]
        assert distance(result[inner], middle[inner]) < 1
        assert (result == landmark.morph(b, a, points + [4, 0], points - [4, 0])).all()

    def test_equal_shapes_are_averaged_and_points_outside_are_not_used(self):
        a, b = texture(-4), texture(4)
        points = np.array([[20.0, 30], [60, 20], [50, 70]])
        plain = (a.astype(int) + b + 1) // 2
        assert distance(landmark.morph(a, b, points, points), plain) < 0.01
        moved = np.concatenate([points, [[-30.0, 50]]]), np.concatenate([points, [[40.0, 50]]])
        assert distance(landmark.morph(a, b, *moved), plain) < 0.01


class TestLandmarkFiles:
    """Landmarks of four avatars: eyes, mouth, chin and brow, put where a drawer might see them."""

    @pytest.fixture
    def parents(self, tmp_path) -> dict[str, Path]:
        for name in "abcd":
            (tmp_path / "pictures").mkdir(exist_ok=True)
            Image.fromarray(texture(size=96)).crop((0, 0, 96, 80)).save(tmp_path / "pictures" / f"{name}.png")
        return {f"id/{name}": tmp_path / "pictures" / f"{name}.png" for name in "abcd"}

    @pytest.fixture
    def points(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        return {name: rng.uniform(10, 70, (5, 2)).round(2) for name in "abcd"}

    def folder(self, path: Path, points, suffix=".tem") -> Path:
        path.mkdir()
        for name, own in points.items():
            lines = [f"{x}\t{y}" for x, y in own]
            end = b"\n"
            if suffix == ".tem":
                lines = [
                    "# points",
                    str(len(own)),
                    *lines,
                    "",
                    "2",
                    "0",
                    "3",
                    "0 1 2",
                    "0",
                    "2",
                    "3 4",
                    "a.jpg",
                ]
                end = b"\xff\x00\n"
            (path / f"{name}{suffix}").write_bytes("\n".join(lines).encode() + end)
        return path

    def csv(self, path: Path, points, named="{}.tem") -> Path:
        rows = [f"{named.format(name)},{x},{y}" for name, own in points.items() for x, y in own]
        path.write_text("\n".join(["fname,x,y", *rows]) + "\n")
        return path

    def test_every_form_says_the_same(self, tmp_path, parents, points):
        places = [
            self.folder(tmp_path / "tem", points),
            self.folder(tmp_path / "txt", points, ".txt"),
            self.csv(tmp_path / "published.csv", points),
            self.csv(tmp_path / "ids.csv", points, "id/{}"),
            self.csv(tmp_path / "files.csv", points, "{}.png"),
        ]
        for place in places:
            found = landmarks(place, parents, size=40)
            assert list(found) == list(parents)
            for name, own in points.items():
                # 96 x 80 pixels: 8 are cut off at the left, two become one.
                assert found[f"id/{name}"] == pytest.approx((own + 0.5 - [8, 0]) / 2 - 0.5)

    def test_the_templates_of_cfd_are_found_by_their_own_names(self, tmp_path, parents):
        picture = parents["id/a"].rename(tmp_path / "CFD-WM-257-161-N.png")
        place = self.csv(tmp_path / "points.csv", {"CFD_WM-257-161-N": np.array([[20.0, 30]])})
        assert list(landmarks(place, {"WM-257": picture}, 40)) == ["WM-257"]

    def test_what_is_missing_is_counted_and_named(self, tmp_path, parents, points):
        del points["b"], points["d"]
        with pytest.raises(InputError, match=r"2 of 4 parents have no landmarks: id/b, id/d\. Add them"):
            landmarks(self.folder(tmp_path / "tem", points), parents, 40)
        with pytest.raises(InputError, match=r"nowhere: no such file or folder. Set faces.landmarks"):
            landmarks(tmp_path / "nowhere", parents, 40)
        with pytest.raises(InputError, match=r"no \.tem or \.txt file in it"):
            landmarks(tmp_path / "pictures", parents, 40)

    def test_another_number_of_points_is_refused(self, tmp_path, parents, points):
        points["c"] = points["c"][:4]
        with pytest.raises(InputError, match=r"1 of 4 parents have not 5 points like the first: id/c \(4\)"):
            landmarks(self.csv(tmp_path / "points.csv", points), parents, 40)

    @pytest.mark.parametrize("outside", [(96.2, 30), (30, 81), (-1, 30), (30, -3)])
    def test_points_outside_the_picture_are_refused(self, tmp_path, parents, points, outside):
        points["b"][2] = outside
        with pytest.raises(InputError, match=r"1 of 4 parents have points outside their picture: id/b\."):
            landmarks(self.csv(tmp_path / "points.csv", points), parents, 40)

    def test_one_file_for_two_pictures_of_one_name_is_refused(self, tmp_path, parents, points):
        (tmp_path / "other").mkdir()
        other = parents["id/a"].rename(tmp_path / "other" / "b.png")
        with pytest.raises(InputError, match=r"2 of 4 parents share their file's name: id/a, id/b"):
            landmarks(self.folder(tmp_path / "tem", points), parents | {"id/a": other}, 40)

    @pytest.mark.parametrize(
        "content", ["5\n1 2\n3 4\n", "eyes\n", "1 2 3\n4 5 6\n", "", "1 nan\n", "1 2\n3\n"]
    )
    def test_a_file_of_another_kind_is_refused(self, tmp_path, parents, points, content):
        place = self.folder(tmp_path / "tem", points)
        (place / "b.tem").write_text(content)
        with pytest.raises(InputError, match=r"b\.tem: not landmarks"):
            landmarks(place, parents, 40)

    def test_a_cell_that_is_no_number_is_named(self, tmp_path, parents, points):
        place = self.csv(tmp_path / "points.csv", points)
        place.write_text(place.read_text().replace(str(points["a"][1][0]), "left", 1))
        with pytest.raises(InputError, match=r"points\.csv, row 3: x 'left' is not a number"):
            landmarks(place, parents, 40)


def test_morphs_by_landmarks_are_made_and_depend_on_them(tmp_path):
    avatars = configs.AvatarsConfig(
        per_group=4,
        size=48,
        seed=0,
        peoples={"Niffite": PeopleConfig(0.3, "horns")},
        genders={"Men": 0.2},
        hue_sd=0.1,
        hair_sd=0.1,
        places={"lake": 0.45},
    )
    faces = world.faces(avatars, tmp_path)
    places = np.random.default_rng(0).uniform(10, 38, (4, 6, 2))
    cfg = configs.MorphsConfig(method="landmark", per_group=3, size=32, seed=0, workers=1)

    def made(points: np.ndarray) -> pd.DataFrame:
        rows = [(name, *point) for name, own in zip(faces["id"], points, strict=True) for point in own]
        pd.DataFrame(rows, columns=["fname", "x", "y"]).to_csv(tmp_path / "points.csv", index=False)
        return morphs.load(replace(cfg, landmarks=str(tmp_path / "points.csv")), faces, tmp_path)[0]

    first = made(places)
    assert made(places).equals(first)
    assert (made(places + 1)["sha256"] != first["sha256"]).any()
    with pytest.raises(InputError, match=r"faces.method=landmark needs landmarks. Set faces.landmarks"):
        morphs.load(cfg, faces, tmp_path)
