"""Preprocessing in two halves, bit by bit what the libraries do in one."""

import json

import numpy as np
import open_clip
import pytest
import torch
import torchvision
from open_clip.transform import PreprocessCfg, image_transform, image_transform_v2
from PIL import Image

from src.encoders.preprocessing import normalised, of_torchvision, of_transformers
from tests.encoders import published as made
from tests.encoders.test_blip2 import opened as blip2

SIZES = [(50, 70), (224, 224), (31, 33), (9, 300), (400, 17)]


def pictures():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES]


def in_two(split):
    pixels = torch.stack([torch.from_numpy(split.resized(picture).copy()) for picture in pictures()])
    assert pixels.dtype == torch.uint8
    return normalised(pixels, split.values)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("size", [32, 33, (24, 40)])
def test_both_halves_are_open_clip_s_transform(size, mode, interpolation):
    cfg = PreprocessCfg(
        size=size, mean=(0.48, 0.45, 0.40), std=(0.26, 0.5, 0.27), interpolation=interpolation,
        resize_mode=mode, fill_color=7,
    )  # fmt: skip
    transform = image_transform_v2(cfg, is_train=False)
    whole = torch.stack([transform(picture) for picture in pictures()])
    assert torch.equal(in_two(of_torchvision(transform)), whole)


def processor(tmp_path, **said):
    folder = made.folder(made.blip2(tmp_path / "made"), tmp_path / "own")
    path = folder / "preprocessor_config.json"
    told = json.loads((folder / path.name).read_text()) | said
    path.write_text(json.dumps(told))
    return blip2(str(folder)).load()


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"resample": 2, "image_mean": [0.1, 0.2, 0.3], "rescale_factor": 1 / 127},
        {
            "size": {"height": 40, "width": 36},
            "do_center_crop": True,
            "crop_size": {"height": 28, "width": 28},
        },
        {"do_normalize": False},
    ],
    ids=["as published", "other numbers", "cropped", "not normalised"],
)
def test_both_halves_are_blip_2_s_processor(cache, tmp_path, said):
    network = processor(tmp_path, **said)
    whole = torch.stack([network.transform(picture) for picture in pictures()])
    assert torch.equal(in_two(network.halves()), whole)


def test_values_do_not_depend_on_where_a_byte_stands():
    split = of_torchvision(image_transform(8, is_train=False))
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(2, 3, 16, 16)
    found = normalised(every, split.values)
    for channel in range(3):
        assert torch.equal(found[1, channel].flatten(), split.values[channel])


def geometry(**fields):
    return of_torchvision(image_transform_v2(PreprocessCfg(**fields), is_train=False)).geometry


def test_geometry_is_what_decides_the_bytes():
    usual = geometry()
    assert geometry(mean=(0.5,) * 3, std=(0.5,) * 3) == usual
    others = [geometry(size=336), geometry(interpolation="bilinear"), geometry(resize_mode="squash")]
    others += [geometry(resize_mode="longest"), geometry(resize_mode="longest", fill_color=1)]
    described = [json.dumps(other, sort_keys=True) for other in [usual, *others]]
    assert len({*described}) == len(described)


def test_the_geometry_of_blip_2_leaves_out_its_numbers(cache, tmp_path):
    usual = processor(tmp_path / "a").halves().geometry
    assert processor(tmp_path / "b", image_mean=[0.1, 0.2, 0.3]).halves().geometry == usual
    assert processor(tmp_path / "c", resample=2).halves().geometry != usual


def test_what_is_not_known_is_not_taken_apart(cache, tmp_path):
    steps = image_transform(8, is_train=False).transforms
    grey = torchvision.transforms.Grayscale(3)
    for unknown in (
        torchvision.transforms.Compose([*steps[:-1], grey, steps[-1]]),
        torchvision.transforms.Compose([*steps[:-2], grey, *steps[-2:]]),
        torchvision.transforms.Compose(steps[:-1]),
        torchvision.transforms.Compose(steps[-2:]),
        open_clip.transform.image_transform(8, is_train=True),
        lambda picture: picture,
    ):
        assert of_torchvision(unknown) is None
    padded = processor(tmp_path, do_pad=True, pad_size={"height": 40, "width": 40})
    assert padded.halves() is None


def test_another_processor_is_not_taken_apart():
    from transformers import BlipImageProcessor

    assert of_transformers(BlipImageProcessor()) is None
