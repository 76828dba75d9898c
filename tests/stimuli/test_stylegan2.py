"""Test morphs by small random generators with StyleGAN2-ADA's interface."""

import importlib
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from src.configs import MorphsConfig
from src.errors import InputError
from src.stimuli import morphs
from src.stimuli.morphs import networks, stylegan2
from src.stimuli.pictures import standardise
from src.storage import cache
from tests.paths import CHECKOUT
from tests.security.test_no_code import Harmful
from tests.stimuli import drawn as drawn_faces
from tests.stimuli.networks import Generator, Perceptual, saved, seeded

CHOICE = {"method": "stylegan2", "per_group": 3, "size": 24, "seed": 0, "workers": 2, "steps": 30}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return saved(seeded(Generator), tmp_path_factory.mktemp("networks") / "generator.pt")


@pytest.fixture(scope="module")
def generator(archive):
    return networks.load_network(archive, "faces.generator", networks.GENERATOR_ATTRIBUTES)


def drawn(generator, w: torch.Tensor) -> np.ndarray:
    return stylegan2.midpoint(generator, w.numpy(), w.numpy(), generator.img_resolution)


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
        Image.fromarray(drawn(generator, w)).save(path)
        rows.append((str(number), "g", str(path), cache.file_hash(path)))
    return pd.DataFrame(rows, columns=["id", "group", "path", "sha256"])


@pytest.mark.parametrize("judge", ["pyramid", "perceptual"])
def test_a_picture_of_the_generator_is_projected_onto_its_w(generator, judge, tmp_path):
    features = stylegan2.pyramid
    if judge == "perceptual":
        network = networks.load_network(saved(seeded(Perceptual), tmp_path / "vgg.pt"), "faces.perceptual")
        features = stylegan2.vgg(network)
    space = stylegan2.estimate_space(generator)
    mean_face = drawn(generator, space[0][0, 0]).astype(float)
    for w in samples(generator, 2):
        picture = drawn(generator, w)
        projected = stylegan2.project(generator, space, features, picture, steps=125, seed=0)
        error = np.abs(drawn(generator, torch.from_numpy(projected)).astype(float) - picture).mean()
        # Of 255 grey levels; the projection starts at the mean face, more than 20 levels away.
        assert error < 3
        assert np.abs(mean_face - picture).mean() > 20


def test_a_morph_is_the_picture_of_the_midpoint(generator):
    a, b = samples(generator, 2)
    middle = stylegan2.midpoint(generator, a.numpy(), b.numpy(), 32)
    assert (middle == drawn(generator, (a + b) / 2)).all()
    assert stylegan2.midpoint(generator, a.numpy(), b.numpy(), 20).shape == (20, 20, 3)


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
        path = drawn_faces.picture(tmp_path / f"{number}.jpg", number)
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
    assert (drawn(exported, w[0]) == drawn(generator, w[0])).all()
