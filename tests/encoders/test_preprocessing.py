"""Check both steps of preprocessing against open_clip's and BLIP-2's, and ids against CLIPTokenizer's.

Texts that are too long for the context are refused.
"""

import gzip
import json

import numpy as np
import pytest
import torch
import torchvision
from open_clip.tokenizer import SimpleTokenizer, bytes_to_unicode, default_bpe
from open_clip.transform import PreprocessCfg, image_transform, image_transform_v2
from PIL import Image

from src.encoders.openclip import OpenClip
from src.encoders.preprocessing import normalise_bytes, split_torchvision, split_transformers
from src.errors import InputError
from tests.encoders.small_checkpoints import blip2_files, write_folder
from tests.encoders.test_published_weights import open_blip2 as blip2

SIZE = {"height": 40, "width": 36}
SIZES = [(50, 70), (224, 224), (31, 33), (9, 300), (400, 17)]


def pictures():
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for size in SIZES]


def in_two_steps(split):
    pixels = torch.stack([torch.from_numpy(split.resize(picture).copy()) for picture in pictures()])
    assert pixels.dtype == torch.uint8
    return normalise_bytes(pixels, split.byte_values)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
@pytest.mark.parametrize("size", [32, 33, (24, 40)])
def test_both_halves_are_open_clip_s_transform(size, mode, interpolation):
    cfg = PreprocessCfg(
        size=size, mean=(0.48, 0.45, 0.40), std=(0.26, 0.5, 0.27), interpolation=interpolation,
        resize_mode=mode, fill_color=7,
    )  # fmt: skip
    transform = image_transform_v2(cfg, is_train=False)
    expected = torch.stack([transform(picture) for picture in pictures()])
    assert torch.equal(in_two_steps(split_torchvision(transform)), expected)


@pytest.mark.gpu
def test_bytes_are_normalised_on_a_gpu_with_the_same_bits():
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (5, 3, 31, 40), generator=generator, dtype=torch.uint8)
    values = torch.randn(3, 256, generator=generator)
    assert torch.equal(normalise_bytes(pixels.cuda(), values.cuda()).cpu(), normalise_bytes(pixels, values))


def with_processor(tmp_path, **settings):
    folder = write_folder(blip2_files(tmp_path / "made"), tmp_path / "own")
    path = folder / "preprocessor_config.json"
    config = json.loads((folder / path.name).read_text()) | settings
    path.write_text(json.dumps(config))
    return blip2(str(folder)).load()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"resample": 2, "image_mean": [0.1, 0.2, 0.3], "rescale_factor": 1 / 127},
        {"size": SIZE, "do_center_crop": True, "crop_size": {"height": 28, "width": 28}},
        {"do_normalize": False},
    ],
    ids=["as published", "other numbers", "cropped", "not normalised"],
)
def test_both_halves_are_blip_2_s_processor(cache, tmp_path, settings):
    network = with_processor(tmp_path, **settings)
    expected = torch.stack([network.transform(picture) for picture in pictures()])
    assert torch.equal(in_two_steps(network.split_preprocessing()), expected)


def geometry(**fields):
    return split_torchvision(image_transform_v2(PreprocessCfg(**fields), is_train=False)).geometry


def test_geometry_is_what_decides_the_bytes():
    default = geometry()
    assert geometry(mean=(0.5,) * 3, std=(0.5,) * 3) == default
    others = [geometry(size=336), geometry(interpolation="bilinear"), geometry(resize_mode="squash")]
    others += [geometry(resize_mode="longest"), geometry(resize_mode="longest", fill_color=1)]
    described = [json.dumps(other, sort_keys=True) for other in [default, *others]]
    assert len({*described}) == len(described)


def test_unknown_preprocessing_is_not_split(cache, tmp_path):
    from transformers import BlipImageProcessor

    steps, grey = image_transform(8, is_train=False).transforms, torchvision.transforms.Grayscale(3)
    unknown = [[*steps[:-1], grey, steps[-1]], [*steps[:-2], grey, *steps[-2:]], steps[:-1], steps[-2:]]
    unknown = [torchvision.transforms.Compose(other) for other in unknown]
    for transform in (*unknown, image_transform(8, is_train=True), lambda picture: picture):
        assert split_torchvision(transform) is None
    assert with_processor(tmp_path, do_pad=True, pad_size=SIZE).split_preprocessing() is None
    assert split_transformers(BlipImageProcessor()) is None


AWKWARD = [
    *("This is the word anti-war", "THEY ARE THE WORD Ku Klux Klan", "Here is the word façade"),
    *("Those are the word mother-in-law's", "that is the word  two   blanks ", "There is the word 24/7"),
    *("Here is the word cafe\u0301", "This is the word über-männlich", "This is the word <|x|>"),
]


@pytest.fixture(scope="module")
def ours():
    return OpenClip(None, None, SimpleTokenizer(context_length=77), "clip")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Build transformers' tokenizer from the same list of merges."""
    from transformers import CLIPTokenizer

    with gzip.open(default_bpe()) as file:
        merges = file.read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    signs = list(bytes_to_unicode().values())
    pieces = [*signs, *(sign + "</w>" for sign in signs), *("".join(merge.split()) for merge in merges)]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, "<|startoftext|>", "<|endoftext|>"])}
    folder = tmp_path_factory.mktemp("clip")
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    return CLIPTokenizer.from_pretrained(folder)


def ids(network, sentence):
    row = network.tokenize([sentence])[0].tolist()
    assert set(row[row.index(49407) + 1 :]) <= {0}
    return row[: row.index(49407) + 1]


@pytest.mark.parametrize("sentence", AWKWARD)
def test_ids_are_those_of_transformers(ours, theirs, sentence):
    assert ids(ours, sentence) == theirs(sentence)["input_ids"]
    # These ids were published with the model.
    assert ids(ours, "a photo of a cat") == [49406, 320, 1125, 539, 320, 2368, 49407]


def test_an_over_long_word_is_refused_not_cut(ours):
    fits = "hm " * 75
    assert ours.tokenize([fits])[0, -1] == 49407
    with pytest.raises(InputError, match="needs 78 tokens, the context has 77"):
        ours.tokenize([fits + "hm"])
    with pytest.raises(InputError, match="'This is the word xqxq"):
        ours.tokenize(["short", f"This is the word {'xq' * 80}"])
