"""Test morphs by optical flow, by landmarks and by small generators of StyleGAN2-ADA's interface."""

import importlib
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from src import configs
from src.configs import MorphsConfig
from src.configs.roles import PeopleConfig
from src.demo import world
from src.demo.avatars import draw_avatar
from src.errors import InputError
from src.stimuli import morphs
from src.stimuli.morphs import midpoints, networks, stylegan2
from src.stimuli.morphs.landmark_templates import load_landmarks
from src.stimuli.pictures import standardise
from src.storage import cache
from tests.paths import CHECKOUT
from tests.security.test_no_code import Harmful
from tests.stimuli import drawn
from tests.stimuli.networks import Generator, Perceptual, saved, seeded


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


def test_flow_moves_a_picture_half_the_way_and_is_symmetric():
    a, b, middle = texture(-4), texture(4), texture(0)
    inner = np.s_[12:-12, 12:-12]
    assert distance(midpoints.morph_by_flow(a, b)[inner], middle[inner]) < 2
    assert distance(((a.astype(int) + b) // 2)[inner], middle[inner]) > 8
    rng = np.random.default_rng(0)
    options = {"crest": "horns", "prominence": 1, "hair": 0.5, "contents": drawn.CONTENTS, "size": 96}
    a, b, c = (np.asarray(draw_avatar(hue=hue, valence=hue, rng=rng, **options)) for hue in (0.2, 0.5, 0.8))
    assert (midpoints.morph_by_flow(a, b) == midpoints.morph_by_flow(b, a)).all()
    assert (midpoints.morph_by_flow(b, c) == midpoints.morph_by_flow(c, b)).all()
    assert (midpoints.morph_by_flow(a, a) == a).all()


def test_landmarks_move_a_picture_half_the_way_and_points_outside_are_ignored():
    a, b, middle = texture(-4), texture(4), texture(0)
    points = np.random.default_rng(0).uniform(10, 85, (60, 2))
    result = midpoints.morph_by_landmarks(a, b, points - [4, 0], points + [4, 0])
    inner = np.s_[20:-20, 20:-20]
    assert distance(result[inner], middle[inner]) < 1
    assert (result == midpoints.morph_by_landmarks(b, a, points + [4, 0], points - [4, 0])).all()
    # Equal shapes are averaged.
    points = np.array([[20.0, 30], [60, 20], [50, 70]])
    average = (a.astype(int) + b + 1) // 2
    assert distance(midpoints.morph_by_landmarks(a, b, points, points), average) < 0.01
    with_outside = np.concatenate([points, [[-30.0, 50]]]), np.concatenate([points, [[40.0, 50]]])
    assert distance(midpoints.morph_by_landmarks(a, b, *with_outside), average) < 0.01


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
            result = load_landmarks(path, parents, size=40)
            assert list(result) == list(parents)
            for name, face in points.items():
                # Of 96 x 80 pixels, 8 columns are cut off at the left, and two pixels become one.
                assert result[f"id/{name}"] == pytest.approx((face + 0.5 - [8, 0]) / 2 - 0.5)

        picture = parents["id/a"].rename(tmp_path / "CFD-WM-257-161-N.png")
        path = self.write_csv(tmp_path / "cfd.csv", {"CFD_WM-257-161-N": np.array([[20.0, 30]])})
        assert list(load_landmarks(path, {"WM-257": picture}, 40)) == ["WM-257"]

    @pytest.mark.parametrize(
        "content", ["5\n1 2\n3 4\n", "eyes\n", "1 2 3\n4 5 6\n", "", "1 nan", "1 2\n3\n"]
    )
    def test_files_that_hold_no_landmarks_are_refused(self, tmp_path, parents, points, content):
        folder = self.write_folder(tmp_path / "tem", points)
        (folder / "b.tem").write_text(content)
        with pytest.raises(InputError, match=r"b\.tem: invalid landmark file"):
            load_landmarks(folder, parents, 40)

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
            load_landmarks(self.write_csv(tmp_path / "points.csv", points), parents, 40)

    def test_missing_and_ambiguous_files(self, tmp_path, parents, points):
        with pytest.raises(InputError, match="no such file or folder. Set faces.landmarks"):
            load_landmarks(tmp_path / "nowhere", parents, 40)
        other = parents["id/a"].rename(tmp_path / "b.png")
        with pytest.raises(InputError, match=r"2 of 4 parents share landmarks: id/a, id/b"):
            load_landmarks(self.write_folder(tmp_path / "tem", points), parents | {"id/a": other}, 40)


def test_morphs_depend_on_landmarks(tmp_path):
    avatars = drawn.avatars(4, 48, {"Niffite": PeopleConfig(0.3, "horns")})
    faces = world.draw_faces(avatars, tmp_path)
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


CHOICE = {"method": "stylegan2", "per_group": 3, "size": 24, "seed": 0, "workers": 2, "steps": 30}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return saved(seeded(Generator), tmp_path_factory.mktemp("networks") / "generator.pt")


@pytest.fixture(scope="module")
def generator(archive):
    return networks.load_network(archive, "faces.generator", networks.GENERATOR_ATTRIBUTES)


def draw_from(generator, w: torch.Tensor) -> np.ndarray:
    return stylegan2.synthesise_midpoint(generator, w.numpy(), w.numpy(), generator.img_resolution)


def samples(generator, count: int) -> torch.Tensor:
    z = torch.randn(count, generator.z_dim, generator=torch.Generator().manual_seed(1))
    return generator.mapping(z, torch.zeros(count, 0))[:, 0].detach()


@pytest.fixture(scope="module")
def faces(generator, tmp_path_factory):
    """Draw four pictures by the generator."""
    folder = tmp_path_factory.mktemp("faces")
    rows = []
    for number, w in enumerate(samples(generator, 4)):
        path = folder / f"{number}.png"
        Image.fromarray(draw_from(generator, w)).save(path)
        rows.append((str(number), "g", str(path), cache.file_hash(path)))
    return pd.DataFrame(rows, columns=["id", "group", "path", "sha256"])


@pytest.mark.parametrize("judge", ["pyramid", "perceptual"])
def test_a_picture_of_the_generator_is_projected_onto_its_w(generator, judge, tmp_path):
    features = stylegan2.compute_laplacian_pyramid
    if judge == "perceptual":
        network = networks.load_network(saved(seeded(Perceptual), tmp_path / "vgg.pt"), "faces.perceptual")
        features = stylegan2.make_vgg_features(network)
    space = stylegan2.estimate_latent_space(generator)
    mean_face = draw_from(generator, space[0][0, 0]).astype(float)
    for w in samples(generator, 2):
        picture = draw_from(generator, w)
        projected = stylegan2.project(generator, space, features, picture, steps=125, seed=0)
        error = np.abs(draw_from(generator, torch.from_numpy(projected)).astype(float) - picture).mean()
        # Of 255 grey levels; the projection starts at the mean face, more than 20 levels away.
        assert error < 3
        assert np.abs(mean_face - picture).mean() > 20


def test_a_morph_is_the_picture_of_the_midpoint(generator):
    a, b = samples(generator, 2)
    middle = stylegan2.synthesise_midpoint(generator, a.numpy(), b.numpy(), 32)
    assert (middle == draw_from(generator, (a + b) / 2)).all()
    assert stylegan2.synthesise_midpoint(generator, a.numpy(), b.numpy(), 20).shape == (20, 20, 3)


def test_every_parent_is_projected_once_even_after_an_interruption(archive, faces, tmp_path, monkeypatch):
    project, projections = stylegan2.project, []

    def counted(*arguments, **options):
        if len(projections) == 3:
            projections.append(None)
            raise KeyboardInterrupt
        projections.append(arguments)
        return project(*arguments, **options)

    monkeypatch.setattr(stylegan2, "project", counted)
    cfg = MorphsConfig(generator=str(archive), **CHOICE)
    with pytest.raises(KeyboardInterrupt):
        morphs.load(cfg, faces, tmp_path)
    frame, _, notes = morphs.load(cfg, faces, tmp_path)
    assert len(projections) == 1 + len({*frame["parent_a"], *frame["parent_b"]})
    assert notes[1] == "projected without a perceptual network: Laplacian pyramid and pixels"
    complete, _, _ = morphs.load(cfg, faces, tmp_path / "complete")
    assert frame["sha256"].tolist() == complete["sha256"].tolist()
    # Another perceptual network makes another entry of the store.
    perceptual = saved(seeded(Perceptual), tmp_path / "vgg.pt")
    other, _, notes = morphs.load(replace(cfg, perceptual=str(perceptual)), faces, tmp_path)
    assert other["sha256"].tolist() != frame["sha256"].tolist()
    assert len(notes) == 1


def test_parents_in_the_table_are_photographs_in_the_size_of_the_morphs(archive, generator, tmp_path):
    rows = []
    for number in range(5):
        path = drawn.picture(tmp_path / f"{number}.jpg", number)
        rows.append((str(number), "g", str(path), cache.file_hash(path)))
    faces = pd.DataFrame(rows, columns=["id", "group", "path", "sha256"])
    choice = CHOICE | {"morphs": "families", "per_group": 15, "steps": 1}
    frame, _, _ = morphs.load(MorphsConfig(generator=str(archive), **choice), faces, tmp_path / "store")
    assert len(frame) == 15
    assert generator.img_resolution != CHOICE["size"]
    parents = frame[frame["parent_a"] == frame["parent_b"]].set_index("id")["path"]
    for name, path in faces.set_index("id")["path"].items():
        with Image.open(parents[name]) as picture:
            assert (np.asarray(picture) == standardise(path, CHOICE["size"])).all()


@pytest.mark.parametrize("form", ["absent", "pickle", "torch.save", "no generator"])
def test_unusable_networks_are_refused_before_work(form, faces, tmp_path):
    path, message = tmp_path / "network.pkl", r"not a TorchScript archive.*runs code.*data\.md describes how"
    if form == "absent":
        message = r"faces\.generator=.*network\.pkl: no such file.*to export a StyleGAN2"
    elif form == "pickle":
        path.write_bytes(pickle.dumps(Harmful(tmp_path / "ran")))
    elif form == "torch.save":
        torch.save({"G_ema": Harmful(tmp_path / "ran")}, path)
    else:
        saved(seeded(Perceptual), path)
        message = "has no mapping, synthesis, z_dim, w_dim, num_ws, img_resolution"
    with pytest.raises(InputError, match=message):
        morphs.load(MorphsConfig(generator=str(path), **CHOICE), faces, tmp_path / "store")
    assert not list((tmp_path / "store").glob(".*/parents"))
    assert not (tmp_path / "ran").exists()


class Published(torch.nn.Module):
    """A network as the recipe loads it: optional labels, options that cannot be scripted."""

    def __init__(self):
        super().__init__()
        inner = seeded(Generator)
        self.z_dim, self.w_dim, self.num_ws = inner.z_dim, inner.w_dim, inner.num_ws
        self.img_resolution = inner.img_resolution
        self.mapping = Loose(lambda z, c, **_: inner.mapping(z, z[:, :0]), inner.mapping)
        self.synthesis = Loose(
            lambda ws, noise_mode, **_: inner.synthesis(ws, noise_mode=noise_mode), inner.synthesis
        )


class Loose(torch.nn.Module):
    def __init__(self, call, net):
        super().__init__()
        self.call, self.net = call, net

    def forward(self, *arguments, **options):
        return self.call(*arguments, **options)


def test_the_recipe_of_the_docs_exports_a_generator(generator, tmp_path, monkeypatch):
    page = (CHECKOUT / "docs" / "data.md").read_text("utf-8")
    (tmp_path / "recipe.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    (tmp_path / "ffhq.pkl").write_bytes(b"")
    legacy = SimpleNamespace(load_network_pkl=lambda _: {"G_ema": Published()})
    monkeypatch.setitem(sys.modules, "legacy", legacy)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    importlib.import_module("recipe")  # imported from a file, whose source scripting reads

    exported = networks.load_network(tmp_path / "ffhq.pt", "faces.generator", networks.GENERATOR_ATTRIBUTES)
    w = samples(generator, 2)
    assert (samples(exported, 2) == w).all()
    assert (draw_from(exported, w[0]) == draw_from(generator, w[0])).all()
