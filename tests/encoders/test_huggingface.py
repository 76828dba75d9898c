"""Check dual encoders of transformers against the library, and what is refused before any download."""

import json
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize

from src import configs, encoders
from src.encoders import hub, huggingface
from src.encoders.preprocessing import normalise_bytes
from src.errors import InputError
from tests.commands import FEW_DRAWS, command
from tests.conftest import store_overrides
from tests.encoders.dual_checkpoints import CONFIGS, build_model, converted_files, dual_files
from tests.encoders.small_checkpoints import COMMIT, open_clip_files, write_folder, write_to_cache
from tests.encoders.test_precision import error_bound, largest_error, skip_unless_computed
from tests.encoders.test_published_weights import opened as open_clip_encoder

SENTENCES = ["This is the word calm", "Here is the word ANTI-war", "a"]
SENTENCES += [f"THAT is the word {word}" for word in ("x", "ab", "the the", "is", "wordwordword")]
EXPS = configs.CONF / "exp"
PADDED = ("siglip", "siglip2", "siglip2_naflex")


def opened(id, **fields):
    return encoders.open_published(configs.HfEncoderConfig(name="tried", id=str(id), **fields), "cpu")


def picture(seed=0):
    generator = torch.Generator().manual_seed(seed)
    size = (50 + 9 * seed, 70, 3)
    return Image.fromarray(torch.randint(0, 256, size, generator=generator, dtype=torch.uint8).numpy())


PICTURES = [picture(seed) for seed in range(8)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a function that returns the files of a small checkpoint, made once."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = dual_files(name, tmp_path_factory.mktemp(name))
        return made[name]

    return make


@pytest.fixture
def folder(cache, files, tmp_path):
    """Return a function that writes a small checkpoint to a folder, some of its files changed."""

    def write(name, **changed):
        content = files(name) | {
            f"{stem}.json": json.dumps(value).encode() for stem, value in changed.items()
        }
        return write_folder(content, tmp_path / "own")

    return write


def embed(network, pictures, sentences):
    with torch.inference_mode():
        pixels = torch.stack([network.transform(picture) for picture in pictures])
        return network.encode_images(pixels), network.encode_texts(network.tokenize(sentences))


def reference(path, name):
    """Embed with the library alone, as its documentation of the family says."""
    model = transformers.AutoModel.from_pretrained(path, dtype=torch.float32)
    processor = transformers.AutoImageProcessor.from_pretrained(path, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    if name in PADDED:  # "make sure to set padding="max_length" as that's how the model was trained"
        sentences = [sentence.lower() for sentence in SENTENCES]
        tokens = tokenizer(
            sentences, padding="max_length", max_length=64, padding_side="right", return_tensors="pt"
        )
    else:
        tokens = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    with torch.inference_mode():
        images = model.get_image_features(**processor(PICTURES, return_tensors="pt")).pooler_output
        texts = model.get_text_features(**tokens).pooler_output
    if name == "flava":  # FlavaForPreTraining compares the first tokens
        images, texts = images[:, 0], texts[:, 0]
    return normalize(images, dim=-1), normalize(texts, dim=-1)


@pytest.mark.parametrize("name", CONFIGS)
def test_vectors_are_those_of_transformers_in_any_batch(folder, name):
    path = folder(name)
    network = opened(path).load()
    vectors = embed(network, PICTURES, SENTENCES)
    for ours, theirs in zip(vectors, reference(path, name), strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)
        assert torch.pdist(ours).min() > 1e-3  # different items have different vectors
    alone = [
        embed(network, [picture], [sentence]) for picture, sentence in zip(PICTURES, SENTENCES, strict=True)
    ]
    for batch, singles in zip(vectors, zip(*alone, strict=True), strict=True):
        assert torch.allclose(batch, torch.cat(singles), rtol=0, atol=1e-5)


def test_every_dual_encoder_of_transformers_is_tested_or_refused():
    """Check that an upgrade of transformers brings no class whose outputs nobody has looked at."""
    sources = Path(transformers.__file__).parent.glob("models/*/modeling_*.py")
    both = {
        path.parent.name
        for path in sources
        if all(f"def {x}(" in path.read_text() for x in huggingface.FEATURES)
    }
    tested = {type(config).__module__.split(".")[-2] for config, _ in CONFIGS.values()}
    assert both == tested | {kind.replace("-", "_") for kind in huggingface.REFUSED}


@pytest.mark.parametrize("name", ["blip", "chinese_clip", "clip", "pair", "siglip"])
def test_both_halves_of_preprocessing_are_the_processor_s(folder, name):
    network = opened(folder(name)).load()
    split = network.split_preprocessing()
    pixels = torch.stack([torch.from_numpy(split.resize(picture).copy()) for picture in PICTURES])
    assert pixels.dtype == torch.uint8
    expected = torch.stack([network.transform(picture) for picture in PICTURES])
    assert torch.equal(normalise_bytes(pixels, split.byte_values), expected)


def test_other_preprocessing_is_not_split(folder):
    assert opened(folder("align")).load().split_preprocessing() is None


# Trap: transformers loads weights in the type in which they were saved.
def test_weights_in_half_precision_are_computed_in_float32(folder):
    path = folder("clip")
    halved = {name: weights.bfloat16() for name, weights in load_file(path / "model.safetensors").items()}
    save_file(halved, path / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((path / "config.json").read_bytes()) | {"dtype": "bfloat16"}
    (path / "config.json").write_text(json.dumps(settings))
    network = opened(path).load()
    assert {weights.dtype for weights in network.parameters()} == {torch.float32}
    for ours, theirs in zip(embed(network, PICTURES, SENTENCES), reference(path, "clip"), strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-6)


# Trap: `get_*_features` return an output object, whose other fields are no vectors of the common space.
@pytest.mark.parametrize(
    ("output", "shape"),
    [
        (torch.zeros(8, 16), "NoneType"),
        ((torch.zeros(8, 5, 16), torch.zeros(8, 16)), "NoneType"),
        (SimpleNamespace(last_hidden_state=torch.zeros(8, 5, 16)), "NoneType"),
        (SimpleNamespace(pooler_output=torch.zeros(8, 5, 16)), r"\[8, 5, 16\]"),
    ],
    ids=["a tensor", "a tuple", "no vector", "all tokens"],
)
def test_only_a_vector_per_item_is_taken(folder, monkeypatch, output, shape):
    network = opened(folder("clip")).load()
    for name in huggingface.FEATURES:
        monkeypatch.setattr(network.model, name, lambda **_: output)
    pixels = torch.stack([network.transform(picture) for picture in PICTURES])
    for encode, inputs in (
        (network.encode_images, pixels),
        (network.encode_texts, network.tokenize(SENTENCES)),
    ):
        with pytest.raises(InputError, match=f"`pooler_output` of CLIPModel, got {shape}.*model=precomputed"):
            encode(inputs)


# Trap: SigLIP and SigLIP 2 were trained on padded texts, and SigLIP 2 on lower case.
@pytest.mark.parametrize("name", PADDED)
def test_siglip_s_texts_have_the_full_length_and_lower_case(folder, name):
    network = opened(folder(name)).load()
    tokens = network.tokenize(["a", "This is THE word"])
    assert tokens.shape == (2, 64)
    assert (tokens >= 0).all()
    assert network.count_relevant_tokens(tokens).tolist() == [64, 64]
    assert torch.equal(network.tokenize(["This is THE word"]), network.tokenize(["this is the word"]))


def test_the_length_of_a_padded_text_is_the_config_s(folder, files):
    settings = json.loads(files("siglip2")["config.json"])
    settings["text_config"]["max_position_embeddings"] = 16
    network = opened(folder("siglip2", config=settings), weights="random").load()
    assert network.tokenize(["a"]).shape == (1, 16)
    with pytest.raises(InputError, match="needs 17 tokens, the context holds 16"):
        network.tokenize(["a", "x" * 16])


def test_padding_of_other_families_is_ignored_and_long_texts_are_refused(folder):
    network = opened(folder("chinese_clip")).load()
    tokens = network.tokenize(["a", "the word"])
    assert tokens.shape == (2, 4)
    assert network.count_relevant_tokens(tokens).tolist() == [3, 4]
    with pytest.raises(InputError, match="needs 72 tokens, the context holds 64"):
        network.tokenize(["short", "x" * 70])


# Trap: code of a model repository.
@pytest.mark.parametrize("stem", ["config", "tokenizer_config", "preprocessor_config"])
def test_code_of_a_repository_is_refused_and_never_run(folder, files, tmp_path, stem):
    classes = {
        "AutoConfig": "code.Config", "AutoModel": "code.Model", "AutoImageProcessor": "code.Processor",
        "AutoTokenizer": [None, "code.Tokenizer"],
    }  # fmt: skip
    path = folder("clip", **{stem: json.loads(files("clip")[f"{stem}.json"]) | {"auto_map": classes}})
    (path / "code.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(InputError, match=rf"{stem}.json names code in the repository.*model=precomputed"):
        opened(path)
    assert not (tmp_path / "ran").exists()


TEXT_MODEL = {"model_type": "clip_text_model", "architectures": ["CLIPTextModelWithProjection"]}
REFUSALS = {
    "code": ({"model_type": "clip", "auto_map": {"AutoModel": "code.Model"}}, "auto_map"),
    "an unknown type": ({"model_type": "jina_clip"}, "no type of model 'jina_clip'"),
    "no type": ({}, "no type of model None"),
    "a text model": (TEXT_MODEL, "CLIPTextModel has no get_image_features and no get_text_features"),
    "a language model": ({"model_type": "qwen2_vl"}, "Qwen2VLModel has no get_text_features"),
    "BLIP-2": ({"model_type": "blip-2"}, "in different spaces. Use model=blip2"),
    "BLIP for retrieval": (
        {"model_type": "blip", "architectures": ["BlipForImageTextRetrieval"]},
        "weights are those of BlipForImageTextRetrieval, which lacks .* tensors of BlipModel",
    ),
    "CLIP for images": (
        {"model_type": "clip", "architectures": ["CLIPForImageClassification"]},
        "CLIPForImageClassification, which lacks .* of CLIPModel",
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_other_models_are_refused_before_anything_else_is_downloaded(cache, monkeypatch, kind):
    settings, message = REFUSALS[kind]
    requested = []

    def download(place, name):
        requested.append(name)
        return write_to_cache(cache, place.name, {name: json.dumps(settings).encode()}) / name

    monkeypatch.setattr(hub, "_download", download)
    with pytest.raises(InputError, match=message):
        opened("lab/encoder").identify_weights()
    assert requested == ["config.json"]


@pytest.mark.parametrize("content", ["{", "[]", '"clip"'])
def test_a_config_that_is_no_json_object_is_refused(folder, content):
    path = folder("clip")
    (path / "config.json").write_text(content)
    with pytest.raises(InputError, match="config.json: not a JSON object"):
        opened(path)


@pytest.mark.parametrize("name", ["pipeline", "CLIPProcessor", "no_such_class"])
def test_other_names_than_of_models_are_not_called(folder, files, monkeypatch, name):
    monkeypatch.setattr(transformers, name, pytest.fail, raising=False)
    path = folder("clip", config=json.loads(files("clip")["config.json"]) | {"architectures": [name]})
    assert opened(path).identify_weights()["revision"] == "folder"


def test_weights_are_read_from_safetensors_alone(folder, cache, files):
    path = folder("clip")
    torch.save(load_file(path / "model.safetensors"), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no model.safetensors .*Only safetensors are read"):
        opened(path).identify_weights()


def test_weights_without_a_tensor_are_refused(folder):
    path = folder("clip")
    state = load_file(path / "model.safetensors")
    del state["text_projection.weight"]
    save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="1 tensors are missing .* first text_projection.weight"):
        opened(path).load()


def test_weights_of_a_class_that_contains_the_dual_encoder_are_loaded(folder, tmp_path):
    path = folder("flava")
    expected = embed(opened(path).load(), PICTURES[:2], SENTENCES)
    model = transformers.FlavaForPreTraining(CONFIGS["flava"][0])
    model.flava.load_state_dict(build_model("flava").state_dict())
    model.save_pretrained(path)
    assert json.loads((path / "config.json").read_bytes())["architectures"] == ["FlavaForPreTraining"]
    for first, second in zip(expected, embed(opened(path).load(), PICTURES[:2], SENTENCES), strict=True):
        assert torch.allclose(first, second, atol=1e-6)


def test_a_repository_and_a_folder_share_a_key_and_each_file_is_in_it(cache, folder, files):
    write_to_cache(cache, "lab/encoder", files("siglip2"))
    path = folder("siglip2")
    first, second = opened("lab/encoder"), opened(path)
    assert first.identity == second.identity
    assert first.identify_weights() == second.identify_weights() | {"revision": COMMIT}
    with pytest.raises(InputError, match=r"\(model\.sha256\)"):
        opened(path, sha256="0" * 64).identify_weights()
    for name in ("config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"):
        changed = json.loads(files("siglip2")[name]) | {"comment": "changed"}
        (path / name).write_text(json.dumps(changed))
        assert opened(path).identity != second.identity, name
        (path / name).write_bytes(files("siglip2")[name])


def test_a_missing_model_names_the_command_that_fetches_it(cache):
    with pytest.raises(InputError, match="fetch model=hf model.id=lab/encoder model.revision=a6f597a3"):
        opened("lab/encoder", revision="a6f597a3")


@pytest.mark.parametrize("name", ["clip", "siglip2", "siglip2_naflex", "align", "flava"])
def test_half_precision_moves_vectors_by_its_roundoff(folder, name):
    skip_unless_computed("bf16")
    path = folder(name)
    single, half = opened(path), opened(path, precision="bf16")
    assert single.identity != half.identity
    network = half.load()
    for rounded, exact in zip(
        embed(network, PICTURES, SENTENCES), embed(single.load(), PICTURES, SENTENCES), strict=True
    ):
        assert rounded.dtype == torch.float32
        assert not torch.equal(rounded, exact)
        assert largest_error(rounded, exact) < error_bound("bf16", 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        raw = network._project_texts(network.tokenize(SENTENCES))
    assert not torch.equal(raw, raw.bfloat16().float())  # the projection is not rounded


def test_half_precision_of_an_unknown_projection_is_refused(folder):
    with pytest.raises(InputError, match="use model.precision=fp32"):
        opened(folder("tipsv2"), precision="bf16").load()


def test_random_weights_are_the_same_in_every_process(folder):
    path = folder("metaclip2")
    (path / "model.safetensors").unlink()
    first, second = (opened(path, weights="random") for _ in range(2))
    assert first.identify_weights()["revision"] == "random"
    assert all(map(torch.equal, *(embed(each.load(), PICTURES[:1], SENTENCES) for each in (first, second))))


@pytest.mark.parametrize("name", CONFIGS)
def test_the_size_is_known_from_the_config_alone(folder, name):
    path = folder(name)
    network = opened(path).load()
    width = network.encode_texts(network.tokenize(["a"])).shape[1]
    parameters = sum(weights.numel() for weights in network.model.parameters())
    for item in path.iterdir():
        if item.name != "config.json":
            item.unlink()
    size = huggingface.measure_size(configs.HfEncoderConfig(id=str(path)))
    assert size == {"parameters_millions": f"{parameters / 1e6:.2f}", "width": str(width)}
    assert huggingface.measure_size(configs.HfEncoderConfig(id="lab/encoder")) == {}


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    """Write the same weights for open_clip and for transformers: return both folders."""
    made = tmp_path_factory.mktemp("doors")
    clip = open_clip_files("ViT-B-32-quickgelu", made)
    converted = converted_files(clip, made / "converted")
    return write_folder(clip, made / "first"), write_folder(converted, made / "second")


def test_the_same_weights_give_the_same_vectors_through_both_doors(cache, doors):
    networks = open_clip_encoder(doors[0]).load(), opened(doors[1]).load()
    # Where an odd number of rows is cut, the two crops may differ by a pixel: take squares.
    pictures = [picture.crop((0, 0, 50, 50)) for picture in PICTURES]
    assert torch.equal(*(network.tokenize(SENTENCES).clamp(min=0)[:, :4] for network in networks))
    for first, second in zip(*(embed(network, pictures, SENTENCES) for network in networks), strict=True):
        assert torch.allclose(first, second, rtol=0, atol=1e-5)


@pytest.mark.thorough
def test_the_same_weights_give_the_same_rho_through_both_doors(cache, doors, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    small = ["faces.per_group=12", "scenes.count=60", "words.count=60", "protocol.k=20", *FEW_DRAWS]
    small += ["protocol.extremes=8", "protocol.set_size=10", "trainer=cpu", "trainer.workers=0"]
    analyses = []
    for family, path in zip(("open_clip", "hf"), doors, strict=True):
        model = [f"model={family}", f"model.id={path}"]
        swept = command(
            tmp_path / family, "-m", "exp=glob(*_to_*)", *model, *small, *store_overrides(tmp_path / "stores")
        )
        assert swept.code == 0
        analyses.append(swept.analyses().sort_values(["exp", "stratum"], ignore_index=True))
    assert {*analyses[1]["model"]} == {"second"}
    assert analyses[0]["exp"].nunique() == 8
    assert analyses[0]["rho"].notna().sum() == 36  # of two groups, all scores are the same
    pd.testing.assert_series_equal(analyses[0]["rho"], analyses[1]["rho"], rtol=0, atol=1e-6)


FAMILIES = ("clip", "siglip", "siglip2", "metaclip2", "chinese_clip", "altclip", "align")
# The eight experiments of the paper, and all audits.
EXPERIMENTS = sorted(
    path.stem for pattern in ("*_to_*", "cles_*", "iat_*", "sobit_*") for path in EXPS.glob(f"{pattern}.yaml")
)


@pytest.mark.parametrize(
    "exps",
    [
        pytest.param(("faces_to_words", "cles_warmth"), marks=pytest.mark.thorough, id="some"),
        pytest.param(EXPERIMENTS, marks=[pytest.mark.exhaustive, pytest.mark.timeout(3000)], id="all"),
    ],
)
def test_experiments_and_audits_run_with_each_class_offline(cache, files, tmp_path, monkeypatch, exps):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    paths = [str(write_folder(files(name), tmp_path / name)) for name in FAMILIES]
    small = ["faces.per_group=14", "scenes.count=24", "words.count=24", "protocol.k=10", *FEW_DRAWS]
    small += ["protocol.extremes=5", "protocol.set_size=6", "protocol.top_k=20"]
    small += ["trainer=cpu", "trainer.workers=0", *store_overrides(tmp_path / "stores")]
    models = ["model=hf", f"model.id={','.join(paths)}"]
    swept = command(tmp_path / "swept", "-m", f"exp={','.join(exps)}", *models, *small)
    assert swept.code == 0
    run = swept.analyses().groupby("model")["exp"].agg(set).to_dict()
    assert run == {name: {*exps} for name in FAMILIES}
