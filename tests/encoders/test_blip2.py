"""Check BLIP-2's contrastive head against transformers."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Blip2ForImageTextRetrieval

from src import configs, encoders
from src.errors import InputError
from src.metrics import similarity
from tests.encoders.small_checkpoints import blip2_files, write_folder, write_to_cache
from tests.encoders.test_open_clip_weights import SENTENCES, picture, vectors

REPOSITORY = "Salesforce/blip2-itm-vit-g"


def opened(id=REPOSITORY, **fields):
    return encoders.published_encoder(configs.Blip2Config(name="tried", id=str(id), **fields), "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return blip2_files(tmp_path_factory.mktemp("blip2"))


@pytest.fixture
def checkpoint(cache, files, tmp_path):
    return write_folder(files, tmp_path / "own")


def test_similarities_are_those_of_transformers(checkpoint, cache, files):
    write_to_cache(cache, REPOSITORY, files)
    network = opened().load()
    images, texts = vectors(network)
    assert images.shape == (3, 32, 16)
    assert texts.shape == (3, 16)
    for embedded in (images, texts):
        assert torch.allclose(embedded.norm(dim=-1), torch.ones(embedded.shape[:-1]))
    reference = Blip2ForImageTextRetrieval.from_pretrained(checkpoint)
    pixels = torch.stack([network.transform(picture(seed)) for seed in range(3)])
    tokens, cosines = network.tokenize(SENTENCES), similarity(images, texts)
    for row, sentence in enumerate(SENTENCES):
        # The reference gets one sentence without padding: masked padding must make no difference.
        ids = tokens[row][tokens[row] != 0][None].expand(3, -1)
        with torch.inference_mode():
            expected = reference(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids))
        assert torch.allclose(cosines[:, row].float(), expected.logits_per_image[:, 0], atol=1e-5), sentence
    with pytest.raises(InputError, match="needs 72 tokens, the context holds 64"):
        network.tokenize(["a", "x" * 70])


def test_the_mean_of_the_queries_is_the_other_specification(checkpoint):
    variants = [opened(checkpoint, pooling=pooling) for pooling in ("max", "mean")]
    (queries, _), (mean, _) = (vectors(encoder.load()) for encoder in variants)
    assert torch.allclose(mean, torch.nn.functional.normalize(queries.mean(dim=1), dim=-1), atol=1e-6)
    assert variants[0].identity != variants[1].identity


@pytest.mark.parametrize("form", ["sharded", "pickled"])
def test_other_forms_of_the_same_weights_give_the_same_vectors(checkpoint, tmp_path, form):
    saved = blip2_files(tmp_path / form, **{form: True})
    assert len([name for name in saved if name.startswith(("model", "pytorch_model"))]) > (form == "sharded")
    second = write_folder(saved, tmp_path / "second")
    for plain, other in zip(vectors(opened(checkpoint).load()), vectors(opened(second).load()), strict=True):
        assert torch.allclose(plain, other, atol=1e-6)
    if form == "sharded":
        (second / next(name for name in saved if "00002" in name)).unlink()
        with pytest.raises(InputError, match="no model-00002"):
            opened(second).weights()


def test_the_config_of_the_image_processor_is_in_the_key(checkpoint, files, tmp_path):
    other = write_folder(files, tmp_path / "other")
    processor = json.loads(files["preprocessor_config.json"]) | {"image_mean": [0.1, 0.2, 0.3]}
    (other / "processor_config.json").write_text(json.dumps({"image_processor": processor}))
    assert opened(checkpoint).identity != opened(other).identity
    # transformers 5 saves processor_config.json alone.
    (other / "preprocessor_config.json").unlink()
    assert not torch.equal(*(opened(path).load().transform(picture()) for path in (checkpoint, other)))


def test_weights_without_a_tensor_and_an_index_of_foreign_files_are_refused(checkpoint):
    state = load_file(checkpoint / "model.safetensors")
    del state["text_projection.weight"]
    save_file(state, checkpoint / "model.safetensors", metadata={"format": "pt"})
    message = "1 tensors are missing or have another shape, first text_projection.weight"
    with pytest.raises(InputError, match=message):
        opened(checkpoint).load()
    (checkpoint / "model.safetensors").unlink()
    for index in ([], *({"weight_map": names} for names in ({}, {"a": 1}, {"a": "../b"}))):
        (checkpoint / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(InputError, match="not an index of weights"):
            opened(checkpoint).weights()
