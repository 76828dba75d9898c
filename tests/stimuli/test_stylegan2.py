"""Morphs by a generator of StyleGAN2-ADA's interface, with small random ones."""

import importlib
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from src.configs import MorphsConfig
from src.errors import InputError
from src.stimuli import morphs
from src.stimuli.morphs import networks, stylegan2
from src.storage import cache
from tests.stimuli.networks import Generator, Perceptual, saved, seeded

CHOICE = {"method": "stylegan2", "per_group": 3, "size": 24, "seed": 0, "workers": 2, "steps": 30}


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return saved(seeded(Generator), tmp_path_factory.mktemp("networks") / "generator.pt")


@pytest.fixture(scope="module")
def generator(archive):
    return networks.opened(archive, "faces.generator", networks.GENERATOR)


def shown(generator, w: torch.Tensor) -> np.ndarray:
    return stylegan2.midpoint(generator, w.numpy(), w.numpy(), generator.img_resolution)


def samples(generator, count: int) -> torch.Tensor:
    z = torch.randn(count, generator.z_dim, generator=torch.Generator().manual_seed(1))
    return generator.mapping(z, torch.zeros(count, 0))[:, 0].detach()


@pytest.fixture(scope="module")
def faces(generator, tmp_path_factory):
    """Four pictures that the generator made."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("faces")
    rows = []
    for number, w in enumerate(samples(generator, 4)):
        path = folder / f"{number}.png"
        Image.fromarray(shown(generator, w)).save(path)
        rows.append((str(number), "g", str(path), cache.file_hash(path)))
    return pd.DataFrame(rows, columns=["id", "group", "path", "sha256"])


@pytest.mark.parametrize("judge", ["pyramid", "perceptual"])
def test_a_picture_of_the_generator_is_found_again(generator, judge, tmp_path):
    features = stylegan2.pyramid
    if judge == "perceptual":
        network = networks.opened(saved(seeded(Perceptual), tmp_path / "vgg.pt"), "faces.perceptual")
        features = stylegan2.vgg(network)
    within = stylegan2.space(generator)
    start = shown(generator, within.mean[0, 0]).astype(float)
    for w in samples(generator, 2):
        picture = shown(generator, w)
        found = stylegan2.project(generator, within, features, picture, steps=125, seed=0)
        error = np.abs(shown(generator, torch.from_numpy(found)).astype(float) - picture).mean()
        # 3 of 255 grey levels; the mean face, where it starts, is 20 or more away.
        assert error < 3
        assert np.abs(start - picture).mean() > 20


def test_the_search_starts_from_the_mean_of_w(generator):
    within = stylegan2.space(generator)
    w = samples(generator, 5000)
    assert (within.mean[0, 0] - w.mean(dim=0)).abs().max() < 0.1 * w.std(dim=0).min()
    assert within.spread == pytest.approx(float(w.var(dim=0).sum() ** 0.5), rel=0.05)
    picture = shown(generator, w[0])
    found = stylegan2.project(generator, within, stylegan2.pyramid, picture, steps=1, seed=0)
    assert (found == within.mean.flatten().numpy()).all()  # the first step has a learning rate of 0


def test_a_morph_is_the_picture_of_the_midpoint(generator):
    a, b = samples(generator, 2)
    middle = stylegan2.midpoint(generator, a.numpy(), b.numpy(), 32)
    assert (middle == shown(generator, (a + b) / 2)).all()
    assert stylegan2.midpoint(generator, a.numpy(), b.numpy(), 20).shape == (20, 20, 3)


def test_the_ramps_are_those_of_the_paper():
    rates, noises = np.array([stylegan2.ramps(step / 1000) for step in range(1000)]).T
    assert rates[0] == 0
    assert rates[50:751] == pytest.approx(1)
    assert rates[25] == pytest.approx(0.5)
    assert rates[875] == pytest.approx(0.5)
    assert rates[999] < 1e-4
    assert noises[0] == 1
    assert noises[375] == pytest.approx(0.25)
    assert (noises[750:] == 0).all()


def test_every_parent_is_projected_once_and_an_interrupted_run_goes_on(archive, faces, tmp_path, monkeypatch):
    project, projected = stylegan2.project, []

    def counted(*arguments, **options):
        if len(projected) == 3:
            projected.append(None)
            raise KeyboardInterrupt
        projected.append(arguments)
        return project(*arguments, **options)

    monkeypatch.setattr(stylegan2, "project", counted)
    cfg = MorphsConfig(generator=str(archive), **CHOICE)
    with pytest.raises(KeyboardInterrupt):
        morphs.load(cfg, faces, tmp_path)
    frame, _, notes = morphs.load(cfg, faces, tmp_path)
    assert len(projected) == 1 + len({*frame["parent_a"], *frame["parent_b"]})
    assert notes[1] == "projected without a perceptual network: Laplacian pyramid and pixels"
    whole, _, _ = morphs.load(cfg, faces, tmp_path / "whole")
    assert frame["sha256"].tolist() == whole["sha256"].tolist()
    # Another network is another entry.
    perceptual = saved(seeded(Perceptual), tmp_path / "vgg.pt")
    other, _, notes = morphs.load(replace(cfg, perceptual=str(perceptual)), faces, tmp_path)
    assert other["sha256"].tolist() != frame["sha256"].tolist()
    assert len(notes) == 1


class Harmful:
    def __reduce__(self):
        return sys.exit, ("a pickle ran",)


@pytest.mark.parametrize("form", ["absent", "pickle", "torch.save", "no generator", "cut off", "unnamed"])
def test_a_network_that_cannot_be_used_is_refused_before_work(form, archive, faces, tmp_path):
    path, message = tmp_path / "network.pkl", r"not a TorchScript archive.*runs code.*networks\.py says how"
    if form == "absent":
        message = r"faces\.generator=.*network\.pkl: no such file.*exported to TorchScript"
    elif form == "pickle":
        path.write_bytes(pickle.dumps(Harmful()))
    elif form == "torch.save":
        torch.save({"G_ema": Harmful()}, path)
    elif form == "no generator":
        saved(seeded(Perceptual), path)
        message = "has no mapping, synthesis, z_dim, w_dim, num_ws, img_resolution"
    elif form == "cut off":
        content = archive.read_bytes()
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes(200) + content[middle + 200 :])
        message = "cannot be loaded"
    else:
        path, message = None, r"faces\.method=stylegan2 needs a generator"
    with pytest.raises(InputError, match=message):
        morphs.load(MorphsConfig(generator=path and str(path), **CHOICE), faces, tmp_path / "store")
    assert not list((tmp_path / "store").glob(".*/parents"))


class Published(torch.nn.Module):
    """What the recipe finds in a .pkl: optional labels, options that cannot be scripted."""

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
    lines = networks.__doc__.splitlines()
    recipe = "\n".join(line[4:] for line in lines if line.startswith("    ")) + "\n"
    recipe = recipe.replace("    def forward", "\n    def forward")
    (tmp_path / "recipe.py").write_text(recipe)
    (tmp_path / "ffhq.pkl").write_bytes(b"")
    legacy = SimpleNamespace(load_network_pkl=lambda _: {"G_ema": Published()})
    monkeypatch.setitem(sys.modules, "legacy", legacy)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    importlib.import_module("recipe")  # a file: scripting reads the source of what it scripts

    exported = networks.opened(tmp_path / "ffhq.pt", "faces.generator", networks.GENERATOR)
    w = samples(generator, 2)
    assert (samples(exported, 2) == w).all()
    assert (shown(exported, w[0]) == shown(generator, w[0])).all()
    target = shown(generator, w[0])
    found = stylegan2.project(
        exported, stylegan2.space(exported), stylegan2.pyramid, target, steps=60, seed=0
    )
    assert np.abs(shown(exported, torch.from_numpy(found)).astype(float) - target).mean() < 6
