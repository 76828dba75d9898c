"""Check encoders with published weights, of open_clip and BLIP-2: vectors, files, and what is refused."""

import json
import os

import open_clip
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load, load_file, save, save_file
from torch.nn.functional import normalize
from transformers import Blip2ForImageTextRetrieval

from src import configs, encoders
from src.embeddings import store
from src.encoders import hub
from src.errors import InputError
from src.metrics import similarity
from src.stimuli import Table
from tests.encoders.small_checkpoints import (
    COMMIT,
    SMALL,
    blip2_files,
    build_open_clip,
    hub_repository,
    open_clip_files,
    tokenizer_files,
    write_folder,
    write_to_cache,
)

SENTENCES = ["This is the word calm", "Here is the word anti-war", "a"]
MODEL, SIGLIP = "ViT-B-32-quickgelu", "ViT-B-16-SigLIP2"
OPENAI, WEIGHTS, CONFIG = f"{MODEL}/openai", "open_clip_model.safetensors", "open_clip_config.json"


def opened(id, **fields):
    return encoders.open_published(configs.OpenClipConfig(name="tried", id=str(id), **fields), "cpu")


def picture(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Image.fromarray(torch.randint(0, 256, (50, 70, 3), generator=generator, dtype=torch.uint8).numpy())


def vectors(network):
    with torch.inference_mode():
        pixels = torch.stack([network.transform(picture(seed)) for seed in range(3)])
        return network.encode_images(pixels), network.encode_texts(network.tokenize(SENTENCES))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return open_clip_files(MODEL, tmp_path_factory.mktemp("clip"))


@pytest.fixture
def checkpoint(files, tmp_path):
    return write_folder(files, tmp_path / "own")


@pytest.fixture
def siglip(tmp_path):
    """Return a function that builds files of a SigLIP 2 with a changed config and tokenizer."""

    def make(change=lambda _: None, **tokenizer):
        files = open_clip_files(SIGLIP, tmp_path)
        config = json.loads(files[CONFIG])
        change(config["model_cfg"])
        return files | tokenizer_files(**tokenizer) | {CONFIG: json.dumps(config).encode()}

    return make


@pytest.mark.parametrize(("architecture", "tag"), [(MODEL, "openai"), ("RN50", "cc12m"), (SIGLIP, "webli")])
def test_weights_of_the_cache_give_open_clip_s_vectors(
    cache, small, tmp_path, architecture, tag, monkeypatch
):
    if architecture == "RN50":  # published for RN50-quickgelu; the random weights here are for RN50
        monkeypatch.setitem(open_clip.pretrained._PRETRAINED["RN50"]["cc12m"], "quick_gelu", False)
    files = open_clip_files(architecture, tmp_path)
    write_to_cache(cache, hub_repository(architecture, tag), files)
    encoder = opened(f"{architecture}/{tag}")
    assert encoder.identify_weights()["revision"] == COMMIT
    images, texts = vectors(encoder.load())

    reference = build_open_clip(architecture, tmp_path)
    reference.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    tokens = open_clip.get_tokenizer(f"local-dir:{write_folder(files, tmp_path / 'checkpoint')}")(SENTENCES)
    entry, size = open_clip.get_pretrained_cfg(architecture, tag), reference.visual.image_size
    entry = {name: entry[name] for name in ("mean", "std", "interpolation", "resize_mode")}
    settings = open_clip.transform.PreprocessCfg(size=size if isinstance(size, int) else size[0], **entry)
    preprocess = open_clip.transform.image_transform_v2(settings, is_train=False)
    pixels = torch.stack([preprocess(picture(seed)) for seed in range(3)])
    with torch.inference_mode():
        assert torch.equal(images, normalize(reference.encode_image(pixels), dim=-1))
        # The same sums, computed in another order.
        assert torch.allclose(texts, normalize(reference.encode_text(tokens), dim=-1), rtol=0, atol=1e-6)


def test_a_repository_and_a_folder_of_the_same_files_share_vectors_and_keys(cache, files, checkpoint):
    write_to_cache(cache, "lab/encoder", files)
    first, second = opened("hf-hub:lab/encoder"), opened(checkpoint)
    assert second.identify_weights()["revision"] == "folder"
    assert all(map(torch.equal, vectors(first.load()), vectors(second.load())))
    with pytest.raises(InputError, match=r"expected SHA-256 0000.* \(model\.sha256\)"):
        opened(checkpoint, sha256="0" * 64).identify_weights()
    table = Table("words", pd.DataFrame({"id": ["a"], "word": ["a"]}), 1)
    assert store.collect_identity(first, table, 7) == store.collect_identity(second, table, 7)


def test_a_text_tower_of_transformers_reads_config_and_tokeniser_from_the_cache(cache, tmp_path, monkeypatch):
    from transformers import RobertaConfig

    roberta = RobertaConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, pad_token_id=0,
    )  # fmt: skip
    roberta.save_pretrained(tmp_path / "text")
    text = {"hf_model_name": str(tmp_path / "text"), "hf_tokenizer_name": "lab/words", "context_length": 32}
    text |= {"hf_pooler_type": "mean_pooler", "hf_proj_type": "mlp"}
    vision = SMALL[MODEL]["vision_cfg"]
    monkeypatch.setitem(SMALL, "tried", {"embed_dim": 16, "vision_cfg": vision, "text_cfg": text})
    files = open_clip_files("tried", tmp_path)
    files[CONFIG] = files[CONFIG].replace(str(tmp_path / "text").encode(), b"lab/text")
    write_to_cache(cache, "lab/text", {"config.json": (tmp_path / "text" / "config.json").read_bytes()})
    write_to_cache(cache, "lab/words", tokenizer_files())
    write_to_cache(cache, "lab/encoder", {name: files[name] for name in (WEIGHTS, CONFIG)})
    network = opened("hf-hub:lab/encoder").load()
    assert vectors(network)[1].shape == (3, 16)
    with pytest.raises(InputError, match="needs 4[0-9] tokens, the context has 32"):
        network.tokenize(["short", "x" * 40])


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("ViT-B-32/openai", "trained with QuickGELU.*Choose model.id=ViT-B-32-quickgelu/openai"),
        ("ViT-B-32-quickgelu/openia", "Did you mean ViT-B-32-quickgelu/openai"),
        ("README.md", "Set it to architecture/weights"),
        ("hf-hub:", "neither a folder that exists nor owner/name"),
        ("x" * 300, "open_clip has no such architecture and weights"),
    ],
)
def test_an_unknown_id_is_refused(cache, id, message):
    with pytest.raises(InputError, match=message):
        opened(id).identify_weights()


def test_a_file_of_the_cache_that_is_cut_or_changed_or_of_another_revision_is_refused(cache, small, files):
    blob = (write_to_cache(cache, hub_repository(MODEL, "openai"), files) / WEIGHTS).resolve()
    with pytest.raises(InputError, match="cannot be fetched"):
        opened(OPENAI, revision="f" * 40).identify_weights()
    weights = files[WEIGHTS]
    for content in (weights[:-100], weights[:-1] + bytes([weights[-1] ^ 1])):
        blob.write_bytes(content)
        # Hashes are remembered by path, size and time of change: each content gets its own time.
        os.utime(blob, (0, len(content) ^ content[-1]))
        with pytest.raises(InputError, match="truncated or changed since it was fetched"):
            opened(OPENAI).identify_weights()


def without_projection(weights):
    return {name: tensor for name, tensor in load(weights).items() if name != "visual.proj"}


def preprocessing(**change):
    def changed(config):
        described = json.loads(config)
        return json.dumps(described | {"preprocess_cfg": described["preprocess_cfg"] | change}).encode()

    return changed


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (WEIGHTS, lambda weights: weights[:-100]),
        (WEIGHTS, lambda weights: save(without_projection(weights))),
        (WEIGHTS, lambda weights: save(without_projection(weights) | {"visual.proj": torch.zeros(64, 25)})),
        (CONFIG, preprocessing(interpolation="nearby")),
    ],
)
def test_files_that_do_not_fit_are_refused(cache, files, checkpoint, name, change):
    (checkpoint / name).write_bytes(change(files[name]))
    with pytest.raises(InputError, match="cannot be loaded"):
        opened(checkpoint).load()


@pytest.mark.parametrize(
    ("fields", "options"),
    [({}, {}), ({}, {"strip_sep_token": True}), ({"pad_token": "[SEP]"}, {})],
    ids=["plain", "separator dropped", "padded with the end"],
)
def test_a_cut_text_is_noticed_whatever_the_padding(cache, siglip, tmp_path, fields, options):
    files = siglip(lambda model: model["text_cfg"]["tokenizer_kwargs"].update(options), **fields)
    network = opened(write_folder(files, tmp_path / "own")).load()
    assert network.tokenize(["x" * 60]).shape == (1, 64)
    with pytest.raises(InputError, match="needs 72 tokens, the context has 64"):
        network.tokenize(["short", "x" * 70])


@pytest.mark.parametrize(
    ("tower", "change", "message"),
    [
        ("text_cfg", {"tokenizer_kwargs": {"trust_remote_code": True}}, "tokenizer_kwargs"),
        ("vision_cfg", {"timm_model_name": "hf-hub:evil/x"}, "timm_model_name hf-hub:evil/x"),
        ("text_cfg", {}, "cannot be loaded"),
    ],
)
def test_a_repository_cannot_run_code(cache, siglip, tmp_path, tower, change, message):
    tokenizer = {"tokenizer_class": "Tok", "auto_map": {"AutoTokenizer": [None, "tok.Tok"]}}
    files = siglip(lambda model: model[tower].update(change), **tokenizer)
    code = "import pathlib, transformers\n" + f"pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n"
    files["tok.py"] = (code + "class Tok(transformers.PreTrainedTokenizerFast): pass\n").encode()
    with pytest.raises(InputError, match=message):
        opened(write_folder(files, tmp_path / "own")).load()
    assert not (tmp_path / "ran").exists()


def test_an_interrupted_fetch_requests_the_remaining_files(cache, siglip, monkeypatch):
    """Check that a tokenizer without its config, which might load and give other ids, is completed."""
    files = siglip(lambda model: model["text_cfg"].update(hf_tokenizer_name="lab/encoder"))
    interrupts = [KeyboardInterrupt]

    def download(place, name):
        if name == "tokenizer_config.json" and interrupts:
            raise interrupts.pop()
        return write_to_cache(cache, place.name, {name: files[name]}) / name if name in files else None

    monkeypatch.setattr(hub, "_download", download)
    with pytest.raises(KeyboardInterrupt):
        opened("hf-hub:lab/encoder")
    assert "tokenizer/tokenizer_config.json" in opened("hf-hub:lab/encoder").identity["files"]


REPOSITORY = "Salesforce/blip2-itm-vit-g"


def open_blip2(id=REPOSITORY, **fields):
    return encoders.open_published(configs.Blip2Config(name="tried", id=str(id), **fields), "cpu")


@pytest.fixture(scope="module")
def blip2(tmp_path_factory):
    return blip2_files(tmp_path_factory.mktemp("blip2"))


@pytest.fixture
def blip2_folder(cache, blip2, tmp_path):
    return write_folder(blip2, tmp_path / "own")


def test_similarities_are_those_of_transformers(blip2_folder, cache, blip2):
    write_to_cache(cache, REPOSITORY, blip2)
    network = open_blip2().load()
    images, texts = vectors(network)
    assert images.shape == (3, 32, 16)
    assert texts.shape == (3, 16)
    for embedded in (images, texts):
        assert torch.allclose(embedded.norm(dim=-1), torch.ones(embedded.shape[:-1]))
    reference = Blip2ForImageTextRetrieval.from_pretrained(blip2_folder)
    pixels = torch.stack([network.transform(picture(seed)) for seed in range(3)])
    tokens, cosines = network.tokenize(SENTENCES), similarity(images, texts)
    for row, sentence in enumerate(SENTENCES):
        # The reference gets one sentence without padding: masked padding must make no difference.
        ids = tokens[row][tokens[row] != 0][None].expand(3, -1)
        with torch.inference_mode():
            expected = reference(pixel_values=pixels, input_ids=ids, attention_mask=torch.ones_like(ids))
        assert torch.allclose(cosines[:, row].float(), expected.logits_per_image[:, 0], atol=1e-5), sentence
    with pytest.raises(InputError, match="needs 72 tokens, the context has 64"):
        network.tokenize(["a", "x" * 70])


def test_the_mean_of_the_queries_is_the_other_specification(blip2_folder):
    variants = [open_blip2(blip2_folder, pooling=pooling) for pooling in ("max", "mean")]
    (queries, _), (mean, _) = (vectors(encoder.load()) for encoder in variants)
    assert torch.allclose(mean, torch.nn.functional.normalize(queries.mean(dim=1), dim=-1), atol=1e-6)
    assert variants[0].identity != variants[1].identity


@pytest.mark.parametrize("form", ["sharded", "pickled"])
def test_other_forms_of_the_same_weights_give_the_same_vectors(blip2_folder, tmp_path, form):
    saved = blip2_files(tmp_path / form, **{form: True})
    assert len([name for name in saved if name.startswith(("model", "pytorch_model"))]) > (form == "sharded")
    second = write_folder(saved, tmp_path / "second")
    for plain, other in zip(
        vectors(open_blip2(blip2_folder).load()), vectors(open_blip2(second).load()), strict=True
    ):
        assert torch.allclose(plain, other, atol=1e-6)
    if form == "sharded":
        (second / next(name for name in saved if "00002" in name)).unlink()
        with pytest.raises(InputError, match="no model-00002"):
            open_blip2(second).identify_weights()


def test_the_config_of_the_image_processor_is_in_the_key(blip2_folder, blip2, tmp_path):
    other = write_folder(blip2, tmp_path / "other")
    processor = json.loads(blip2["preprocessor_config.json"]) | {"image_mean": [0.1, 0.2, 0.3]}
    (other / "processor_config.json").write_text(json.dumps({"image_processor": processor}))
    assert open_blip2(blip2_folder).identity != open_blip2(other).identity
    # transformers 5 saves processor_config.json alone.
    (other / "preprocessor_config.json").unlink()
    assert not torch.equal(*(open_blip2(path).load().transform(picture()) for path in (blip2_folder, other)))


def test_weights_without_a_tensor_and_an_index_of_foreign_files_are_refused(blip2_folder):
    state = load_file(blip2_folder / "model.safetensors")
    del state["text_projection.weight"]
    save_file(state, blip2_folder / "model.safetensors", metadata={"format": "pt"})
    message = "1 tensors are missing or have another shape, first text_projection.weight"
    with pytest.raises(InputError, match=message):
        open_blip2(blip2_folder).load()
    (blip2_folder / "model.safetensors").unlink()
    for index in ([], *({"weight_map": names} for names in ({}, {"a": 1}, {"a": "../b"}))):
        (blip2_folder / "model.safetensors.index.json").write_text(json.dumps(index))
        with pytest.raises(InputError, match="not an index of weights"):
            open_blip2(blip2_folder).identify_weights()
