"""BLIP-2's contrastive head against transformers' own."""

import json

import pytest
import torch
from transformers import Blip2ForImageTextRetrieval

from src import configs, encoders
from src.errors import InputError
from src.metrics import similarity
from tests.encoders import published as made
from tests.encoders.test_open_clip_weights import SENTENCES, picture, vectors

REPOSITORY = "Salesforce/blip2-itm-vit-g"


def opened(id=REPOSITORY, **fields):
    return encoders.published_encoder(configs.Blip2Config(name="tried", id=id, **fields), "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return made.blip2(tmp_path_factory.mktemp("blip2"))


def test_similarities_are_those_of_transformers(cache, files, tmp_path):
    made.place(cache, REPOSITORY, files)
    network = opened().load()
    images, texts = vectors(network)
    assert images.shape == (3, 32, 16)
    assert texts.shape == (3, 16)
    for found in (images, texts):
        assert torch.allclose(found.norm(dim=-1), torch.ones(found.shape[:-1]))
    theirs = Blip2ForImageTextRetrieval.from_pretrained(made.folder(files, tmp_path / "own"))
    pixels = torch.stack([network.transform(picture(seed)) for seed in range(3)])
    tokens = network.tokenize(SENTENCES)
    for row, sentence in enumerate(SENTENCES):
        # One sentence at a time, unpadded: the mask of the padding must make no difference.
        ids = tokens[row][tokens[row] != 0][None].expand(3, -1)
        with torch.inference_mode():
            wanted = theirs(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids))
        ours = similarity(images, texts)[:, row]
        assert torch.allclose(ours.float(), wanted.logits_per_image[:, 0].float(), atol=1e-5), sentence


def test_the_mean_of_the_queries_is_the_other_reading(cache, files):
    made.place(cache, REPOSITORY, files)
    each, _ = vectors(opened().load())
    mean, _ = vectors(opened(pooling="mean").load())
    assert mean.shape == (3, 16)
    assert torch.allclose(mean, torch.nn.functional.normalize(each.mean(dim=1), dim=-1), atol=1e-6)
    assert opened().identity != opened(pooling="mean").identity


@pytest.mark.parametrize("form", ["sharded", "pickled"])
def test_other_forms_of_the_same_weights_give_the_same_vectors(cache, files, tmp_path, form):
    other = made.blip2(tmp_path / form, **{form: True})
    assert len([name for name in other if name.startswith(("model", "pytorch_model"))]) > (form == "sharded")
    first, second = made.folder(files, tmp_path / "first"), made.folder(other, tmp_path / "second")
    for ours, theirs in zip(
        vectors(opened(str(first)).load()), vectors(opened(str(second)).load()), strict=True
    ):
        assert torch.allclose(ours, theirs, atol=1e-6)
    if form == "sharded":
        (second / next(name for name in other if "00002" in name)).unlink()
        with pytest.raises(InputError, match="no model-00002"):
            opened(str(second)).weights()


def test_a_tensor_that_is_missing_is_never_made_up(cache, files, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = made.folder(files, tmp_path / "own")
    state = load_file(folder / "model.safetensors")
    del state["text_projection.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="1 tensors lack or misfit, first text_projection.weight"):
        opened(str(folder)).load()


def test_an_over_long_text_is_refused(cache, files):
    made.place(cache, REPOSITORY, files)
    with pytest.raises(InputError, match="needs 72 tokens, the context holds 64"):
        opened().load().tokenize(["a", "x" * 70])


def test_absence_is_said(cache):
    with pytest.raises(InputError, match=r"config.json.*fetch model=blip2 model.id=Salesforce/blip2"):
        opened()


def test_what_prepares_the_pictures_is_in_the_key(cache, files, tmp_path):
    plain = made.folder(files, tmp_path / "plain")
    other = made.folder(files, tmp_path / "other")
    said = json.loads(files["preprocessor_config.json"]) | {"image_mean": [0.1, 0.2, 0.3]}
    (other / "processor_config.json").write_text(json.dumps({"image_processor": said}))
    (first, second) = (opened(str(folder)) for folder in (plain, other))
    assert first.identity != second.identity
    # transformers 5 saves this one alone.
    (other / "preprocessor_config.json").unlink()
    network = opened(str(other)).load()
    assert not torch.equal(network.transform(picture()), first.load().transform(picture()))


@pytest.mark.parametrize("index", [[], *({"weight_map": x} for x in ({}, {"a": 1}, {"a": "../b"}))])
def test_an_index_that_names_no_files_of_its_own_is_refused(cache, files, tmp_path, index):
    folder = made.folder(files, tmp_path / "own")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match="not an index of weights"):
        opened(str(folder)).weights()


def test_a_mistyped_folder_is_said(cache):
    with pytest.raises(InputError, match="neither a folder that exists nor owner/name"):
        opened("/nowhere/at/all")
