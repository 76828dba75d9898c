"""Test morphs by optical flow and by landmarks, and files of landmarks."""

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
from src.stimuli.morphs import midpoints
from src.stimuli.morphs.landmark_templates import landmarks
from tests.stimuli import drawn


def texture(shift: float = 0, size: int = 96) -> np.ndarray:
    """Draw soft spots, moved to the right by a number of pixels."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:size, :size]
    spots = zip(rng.uniform(0, size, (60, 2)), rng.normal(size=(60, 3)), strict=True)
    layers = [
        np.exp(-((x - shift - cx) ** 2 + (y - cy) ** 2) / 60)[..., None] * color for (cx, cy), color in spots
    ]
    return np.clip(128 + 90 * sum(layers), 0, 255).astype(np.uint8)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a.astype(float) - b).mean())


def test_flow_moves_a_picture_half_the_way():
    a, b, middle = texture(-4), texture(4), texture(0)
    inner = np.s_[12:-12, 12:-12]
    assert distance(midpoints.warp_by_flow(a, b)[inner], middle[inner]) < 2
    assert distance(((a.astype(int) + b) // 2)[inner], middle[inner]) > 8


def test_flow_is_symmetric():
    rng = np.random.default_rng(0)
    options = {"crest": "horns", "prominence": 1, "hair": 0.5, "contents": drawn.CONTENTS, "size": 96}
    a, b, c = (np.asarray(avatar(hue=hue, valence=hue, rng=rng, **options)) for hue in (0.2, 0.5, 0.8))
    assert (midpoints.warp_by_flow(a, b) == midpoints.warp_by_flow(b, a)).all()
    assert (midpoints.warp_by_flow(b, c) == midpoints.warp_by_flow(c, b)).all()
    assert (midpoints.warp_by_flow(a, a) == a).all()


def test_landmarks_move_a_picture_half_the_way():
    a, b, middle = texture(-4), texture(4), texture(0)
    points = np.random.default_rng(0).uniform(10, 85, (60, 2))
    result = midpoints.warp_by_landmarks(a, b, points - [4, 0], points + [4, 0])
    inner = np.s_[20:-20, 20:-20]
    assert distance(result[inner], middle[inner]) < 1
    assert (result == midpoints.warp_by_landmarks(b, a, points + [4, 0], points - [4, 0])).all()


def test_equal_shapes_are_averaged_and_points_outside_are_ignored():
    a, b = texture(-4), texture(4)
    points = np.array([[20.0, 30], [60, 20], [50, 70]])
    average = (a.astype(int) + b + 1) // 2
    assert distance(midpoints.warp_by_landmarks(a, b, points, points), average) < 0.01
    with_outside = np.concatenate([points, [[-30.0, 50]]]), np.concatenate([points, [[40.0, 50]]])
    assert distance(midpoints.warp_by_landmarks(a, b, *with_outside), average) < 0.01


class TestLandmarkFiles:
    """Test files with five landmarks of each of four pictures."""

    @pytest.fixture
    def parents(self, tmp_path) -> dict[str, Path]:
        (tmp_path / "pictures").mkdir()
        for name in "abcd":
            Image.fromarray(texture()).crop((0, 0, 96, 80)).save(tmp_path / "pictures" / f"{name}.png")
        return {f"id/{name}": tmp_path / "pictures" / f"{name}.png" for name in "abcd"}

    @pytest.fixture
    def points(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(1)
        return {name: rng.uniform(10, 70, (5, 2)).round(2) for name in "abcd"}

    def write_folder(self, path: Path, points, suffix=".tem") -> Path:
        path.mkdir()
        for name, face in points.items():
            lines = [f"{x}\t{y}" for x, y in face]
            if suffix == ".tem":
                rest = ("", "2", "0", "3", "0 1 2", "0", "2", "3 4", "a.jpg\xff\x00")
                lines = ["# points", str(len(face)), *lines, *rest]
            (path / f"{name}{suffix}").write_bytes(("\n".join(lines) + "\n").encode("latin-1"))
        return path

    def write_csv(self, path: Path, points, pattern="{}.tem") -> Path:
        rows = [f"{pattern.format(name)},{x},{y}" for name, face in points.items() for x, y in face]
        path.write_text("\n".join(["fname,x,y", *rows]) + "\n")
        return path

    def test_all_forms_agree(self, tmp_path, parents, points):
        for path in (
            self.write_folder(tmp_path / "tem", points),
            self.write_folder(tmp_path / "txt", points, ".txt"),
            self.write_csv(tmp_path / "published.csv", points),
            self.write_csv(tmp_path / "ids.csv", points, "id/{}"),
            self.write_csv(tmp_path / "files.csv", points, "{}.png"),
        ):
            result = landmarks(path, parents, size=40)
            assert list(result) == list(parents)
            for name, face in points.items():
                # Of 96 x 80 pixels, 8 columns are cut off at the left, and two pixels become one.
                assert result[f"id/{name}"] == pytest.approx((face + 0.5 - [8, 0]) / 2 - 0.5)

        picture = parents["id/a"].rename(tmp_path / "CFD-WM-257-161-N.png")
        path = self.write_csv(tmp_path / "cfd.csv", {"CFD_WM-257-161-N": np.array([[20.0, 30]])})
        assert list(landmarks(path, {"WM-257": picture}, 40)) == ["WM-257"]

    @pytest.mark.parametrize(
        "content", ["5\n1 2\n3 4\n", "eyes\n", "1 2 3\n4 5 6\n", "", "1 nan", "1 2\n3\n"]
    )
    def test_files_that_hold_no_landmarks_are_refused(self, tmp_path, parents, points, content):
        folder = self.write_folder(tmp_path / "tem", points)
        (folder / "b.tem").write_text(content)
        with pytest.raises(InputError, match=r"b\.tem: not landmarks"):
            landmarks(folder, parents, 40)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda p: [p.pop("b"), p.pop("d")], r"2 of 4 parents have no landmarks: id/b, id/d\. Add them"),
            (lambda p: p["b"].__setitem__(2, (96.2, 30)), "1 of 4 .* points outside their picture: id/b"),
            (lambda p: p["b"].__setitem__(2, (30, -3)), "1 of 4 .* points outside their picture: id/b"),
            (
                lambda p: p.update(c=p["c"][:4]),
                r"1 of 4 parents do not have 5 points like the first: id/c \(4\)",
            ),
            (lambda p: p.update(a=[["left", 3]]), r"points\.csv, row 2: x 'left' is not a number"),
        ],
    )
    def test_mistakes(self, tmp_path, parents, points, change, message):
        change(points)
        with pytest.raises(InputError, match=message):
            landmarks(self.write_csv(tmp_path / "points.csv", points), parents, 40)

    def test_missing_and_ambiguous_files(self, tmp_path, parents, points):
        with pytest.raises(InputError, match="no such file or folder. Set faces.landmarks"):
            landmarks(tmp_path / "nowhere", parents, 40)
        other = parents["id/a"].rename(tmp_path / "b.png")
        with pytest.raises(InputError, match=r"2 of 4 parents share landmarks: id/a, id/b"):
            landmarks(self.write_folder(tmp_path / "tem", points), parents | {"id/a": other}, 40)


def test_morphs_depend_on_landmarks(tmp_path):
    avatars = drawn.avatars(4, 48, {"Niffite": PeopleConfig(0.3, "horns")})
    faces = world.faces(avatars, tmp_path)
    coordinates = np.random.default_rng(0).uniform(10, 38, (4, 6, 2))
    cfg = configs.MorphsConfig(method="landmark", per_group=3, size=32, seed=0, workers=1)

    def load_morphs(points: np.ndarray) -> pd.DataFrame:
        rows = [(name, *point) for name, face in zip(faces["id"], points, strict=True) for point in face]
        pd.DataFrame(rows, columns=["fname", "x", "y"]).to_csv(tmp_path / "points.csv", index=False)
        return morphs.load(replace(cfg, landmarks=str(tmp_path / "points.csv")), faces, tmp_path)[0]

    first = load_morphs(coordinates)
    assert load_morphs(coordinates).equals(first)
    assert (load_morphs(coordinates + 1)["sha256"] != first["sha256"]).any()
    with pytest.raises(InputError, match=r"faces.method=landmark needs landmarks. Set faces.landmarks"):
        morphs.load(cfg, faces, tmp_path)
