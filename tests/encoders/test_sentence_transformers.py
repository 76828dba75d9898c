"""Check multimodal embedders of sentence-transformers against the library, and what is refused."""

import hashlib
import json

import pandas as pd
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling
from torch.nn.functional import normalize

from src import configs, encoders
from src.embeddings.predict import predict
from src.encoders import hub, sentence_transformer
from src.errors import InputError
from src.jobs.identity import Job
from src.stimuli import build_table
from tests.commands import FEW_DRAWS, command
from tests.conftest import store_overrides
from tests.embeddings.test_store import TRAINER
from tests.encoders.embedder_checkpoints import NAMES, PROMPTS, embedder_files, language_files, load_first
from tests.encoders.small_checkpoints import COMMIT, write_folder, write_to_cache
from tests.encoders.test_huggingface import PICTURES, SENTENCES
from tests.encoders.test_precision import error_bound, largest_error, skip_unless_computed
from tests.paths import CHECKOUT

FULL = {"processing_kwargs": {"text": {"padding": "max_length", "max_length": 64, "padding_side": "right"}}}


def opened(id, **fields):
    config = configs.SentenceTransformersConfig(name="tried", id=str(id), **fields)
    return encoders.open_published(config, "cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a function that returns the files of a small embedder, made once."""
    made = {}

    def make(name):
        if name not in made:
            scratch = tmp_path_factory.mktemp(name)
            made[name] = language_files(scratch) if name == "published" else embedder_files(name, scratch)
        return made[name]

    return make


@pytest.fixture
def folder(cache, files, tmp_path):
    """Return a function that writes a small embedder to a folder, some of its files changed or left out."""

    def write(name, changed=()):
        content = files(name) | {key: json.dumps(value).encode() for key, value in dict(changed).items()}
        return write_folder(content, tmp_path / "own")

    return write


def embed(network, pictures, sentences, size=8):
    """Embed pictures and sentences as the project does: sentences of the same length share a batch."""
    with torch.inference_mode():
        pixels = [network.transform(picture) for picture in pictures]
        many = network.max_pictures or size
        chunks = [pixels[start : start + many] for start in range(0, len(pixels), many)]
        images = torch.cat([network.encode_images(torch.stack(chunk)) for chunk in chunks])
        tokens = network.tokenize(sentences)
        lengths = network.count_relevant_tokens(tokens)
        texts = {}
        for length in lengths.unique().tolist():
            rows = (lengths == length).nonzero().flatten()
            for some in rows.split(size):
                vectors = network.encode_texts(tokens[some, :length])
                texts |= dict(zip(some.tolist(), vectors, strict=True))
        return images, torch.stack([texts[row] for row in range(len(sentences))])


def load_library(path):
    return SentenceTransformer(
        str(path), device="cpu", local_files_only=True, model_kwargs={"dtype": torch.float32}
    )


def reference(model, name, **options):
    """Embed with the library alone, without padding; SigLIP 2 as its documentation says."""
    sentences, padding = (SENTENCES, {}) if name != "siglip2" else ([s.lower() for s in SENTENCES], FULL)
    options = {"convert_to_tensor": True, "normalize_embeddings": True, "batch_size": 1} | options
    return model.encode(PICTURES, **options), model.encode(sentences, **options, **padding)


def check_equal(ours, theirs, atol=1e-6):
    for first, second in zip(ours, theirs, strict=True):
        assert first.dtype == torch.float32
        assert (first - second).abs().max() <= atol


@pytest.mark.parametrize("name", NAMES)
def test_vectors_are_those_of_the_library_in_any_batch(folder, name):
    path = folder(name)
    network = opened(path).load()
    vectors = embed(network, PICTURES, SENTENCES)
    library = load_library(path)
    check_equal(vectors, reference(library, name))
    check_equal(vectors, reference(library, name, batch_size=8), atol=1e-5)
    for ours in vectors:
        assert torch.pdist(ours).min() > 1e-3  # different items have different vectors
    check_equal(vectors, embed(network, PICTURES, SENTENCES, size=1), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "fields"),
    [*((name, {}) for name in NAMES), ("qwen3_vl", {"truncate_dim": 8}), ("published", {"pooling": "mean"})],
)
def test_the_size_is_known_from_small_files(folder, name, fields):
    path = folder(name)
    network = opened(path, **fields).load()
    width = network.encode_texts(network.tokenize(["a"])).shape[1]
    parameters = sum(weights.numel() for weights in network.model.parameters())
    for item in path.rglob("*.safetensors"):
        item.unlink()
    size = sentence_transformer.measure_size(configs.SentenceTransformersConfig(id=str(path), **fields))
    assert size == {"parameters_millions": f"{parameters / 1e6:.2f}", "width": str(width)}
    (path / "modules.json").unlink(missing_ok=True)
    assert sentence_transformer.measure_size(configs.SentenceTransformersConfig(id=str(path))) == {}


def test_a_model_without_modules_pools_as_configured(folder):
    path = folder("published")
    with pytest.raises(InputError, match="no modules.json .* set model.pooling to .* average the tokens"):
        opened(path)
    vectors = embed(opened(path, pooling="lasttoken").load(), PICTURES, SENTENCES)
    files = {item.name: item.read_bytes() for item in path.iterdir()}
    first = load_first(files, path / "again")
    model = SentenceTransformer(modules=[first, Pooling(32, "lasttoken")], device="cpu")
    check_equal(vectors, reference(model, "published"))
    averaged = embed(opened(path, pooling="mean").load(), PICTURES, SENTENCES)
    assert not torch.allclose(vectors[1], averaged[1], atol=1e-3)


# Trap: the vector of a language model is its last hidden state after the final norm.
def test_the_vector_of_a_language_model_comes_after_its_final_norm(folder):
    network = opened(folder("qwen3_vl")).load()
    states = []
    norm = network.model.transformers_model.language_model.norm
    norm.register_forward_hook(lambda _, inputs, output: states.append((inputs[0], output)))
    tokens = network.tokenize(["this is the word"])
    with torch.inference_mode():
        (vector,) = network.encode_texts(tokens)
    before, after = (normalize(state[0, -1], dim=0) for state in states[0])
    assert torch.allclose(vector, after, atol=1e-6)
    assert not torch.allclose(vector, before, atol=1e-2)


# The vectors of a longer batch move where it is padded: none is.
@pytest.mark.parametrize("name", ["clip_dense", "qwen3_vl"])
def test_no_text_is_padded(folder, name):
    network = opened(folder(name)).load()
    tokens = network.tokenize(SENTENCES)
    lengths = network.count_relevant_tokens(tokens)
    assert len(lengths.unique()) > 3
    for row, length in zip(tokens, lengths.tolist(), strict=True):
        assert (row[:length] >= 0).all()
        assert (row[length:] == -1).all()


# Trap: SigLIP and SigLIP 2 were trained on padded texts, SigLIP 2 on lower case; the library does neither.
def test_siglip_s_texts_have_the_full_length_and_lower_case(folder):
    path = folder("siglip2")
    network = opened(path).load()
    tokens = network.tokenize(["a", "This is THE word"])
    assert network.count_relevant_tokens(tokens).tolist() == [64, 64]
    assert torch.equal(network.tokenize(["This is THE word"]), network.tokenize(["this is the word"]))
    _, texts = embed(network, PICTURES[:1], SENTENCES)
    theirs = load_library(path).encode(SENTENCES, convert_to_tensor=True, normalize_embeddings=True)
    assert not torch.allclose(texts, theirs, atol=1e-2)
    with pytest.raises(InputError, match="needs 65 tokens .* the context holds 64"):
        network.tokenize(["a", "x" * 64])


def test_long_texts_are_refused_and_not_truncated(folder):
    network = opened(folder("qwen3_vl"), prompt="x" * 400).load()
    assert network.tokenize(["a"]).shape[1] < 512
    with pytest.raises(InputError, match="needs 5.. tokens with its instruction, the context holds 512"):
        network.tokenize(["a", "x" * 100])


def test_texts_longer_than_a_tokenizer_s_limit_are_refused(folder):
    network = opened(folder("legacy_clip")).load()
    with pytest.raises(InputError, match="needs 72 tokens with its instruction, the context holds 64"):
        network.tokenize(["a", "x" * 70])


@pytest.mark.parametrize("name", ["clip_dense", "qwen3_vl"])
@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"prompt": ""}, {"prompt": ""}),
        ({"prompt": "Say what it is: "}, {"prompt": "Say what it is: "}),
        ({"prompt_name": "match"}, {"prompt_name": "match"}),
    ],
    ids=["default", "neutral", "text", "name"],
)
def test_an_instruction_is_the_library_s(folder, name, fields, options):
    path = folder(name)
    encoder = opened(path, **fields)
    ours = embed(encoder.load(), PICTURES, SENTENCES, 1)  # one by one, as in the reference
    check_equal(ours, reference(load_library(path), name, **options))


def test_each_instruction_has_a_key(folder):
    path = folder("clip_dense")  # its default is that of the name query
    default, neutral, named, written = (
        opened(path, **fields)
        for fields in ({}, {"prompt": ""}, {"prompt_name": "match"}, {"prompt": PROMPTS["query"]})
    )
    assert default.identity == written.identity
    prompts = [encoder.identity["prompt"] for encoder in (default, neutral, named)]
    assert prompts == [PROMPTS["query"], "", PROMPTS["match"]]
    assert opened(folder("qwen3_vl")).identity["prompt"] == ""


def test_an_unknown_instruction_is_refused_before_weights_are_read(folder):
    path = folder("qwen3_vl")
    (path / "model.safetensors").unlink()
    with pytest.raises(
        InputError, match="model.prompt_name=find: .* has only document, match, query. Choose"
    ):
        opened(path, prompt_name="find")
    with pytest.raises(InputError, match="model.prompt_name=query: expected one of them"):
        opened(path, prompt_name="query", prompt="find: ")


@pytest.mark.parametrize(
    ("options", "name", "protocol"),
    [
        ([], "own", "paper"),
        (["model.prompt=null"], "own", "paper"),
        (["model.prompt="], "own", "paper+prompt="),
        (["model.prompt='Find it: '", "protocol.k=9"], "own", "paper+k=9+prompt=Find it:"),
        (["model.prompt_name=match"], "own", "paper+prompt_name=match"),
        # A plus sign separates the parts of a name.
        (["model.prompt='a+template+\n b'"], "own", "paper+prompt=a template b"),
        (["model.truncate_dim=8", "model.prompt=x"], "own+truncate_dim=8", "paper+prompt=x"),
    ],
)
def test_an_instruction_makes_a_specification_and_no_model(job, folder, options, name, protocol):
    composed = job("model=sentence_transformers", f"model.id={folder('qwen3_vl')}", *options)
    assert (composed.model, composed.protocol) == (name, protocol)
    assert composed.protocol.endswith(composed.instruction)
    assert encoders.name_family(composed.cfg.model) == "own, unknown"


def test_instructions_differ_in_key_and_label(job, folder):
    model = ["model=sentence_transformers", f"model.id={folder('qwen3_vl')}"]
    first, second = job(*model), job(*model, "model.prompt=x")
    assert first.config_hash != second.config_hash
    assert first.label != second.label
    # A YAML of this program has the model's own instruction.
    shipped = job("model=qwen3_vl_embedding_2b", "model.prompt=")
    assert (shipped.model, shipped.protocol) == ("qwen3_vl_embedding_2b", "paper+prompt=")


def test_a_yaml_of_another_folder_names_its_instruction(tmp_path):
    path = tmp_path / "conf" / "model" / "mine.yaml"
    path.parent.mkdir(parents=True)
    schema = "defaults: [/schema/sentence_transformers@_here_, _self_]\nid: a/b\n"
    for line, options, instruction in [
        ("", [], ""),
        ("", ["model.prompt=y"], "+prompt=y"),
        ("prompt: x\n", [], "+prompt=x"),
        ("prompt: x\n", ["model.prompt=null"], ""),
    ]:
        path.write_text(schema + line)
        composed = configs.compose([f"hydra.searchpath=[file://{path.parents[1]}]", "model=mine", *options])
        named = Job.of(*composed, str(tmp_path))
        assert (named.model, named.protocol) == ("mine", f"paper{instruction}")


@pytest.mark.parametrize("name", ["legacy_clip", "qwen3_vl"])
def test_fewer_dimensions_are_normalised_again(folder, name):
    path = folder(name)
    vectors = embed(opened(path, truncate_dim=8).load(), PICTURES, SENTENCES, 1)  # as in the reference
    check_equal(vectors, reference(load_library(path), name, truncate_dim=8))
    for ours in vectors:
        assert ours.shape == (8, 8)
        assert torch.allclose(ours.norm(dim=1), torch.ones(8), atol=1e-6)
    assert opened(path, truncate_dim=8).identity != opened(path).identity
    network = opened(path, truncate_dim=33).load()
    with pytest.raises(
        InputError, match="truncate_dim=33, but its vectors have .. dimensions. Choose from 1"
    ):
        embed(network, PICTURES[:1], SENTENCES[:1])


def test_the_width_in_the_model_s_files_is_used(folder, files):
    settings = json.loads(files("qwen3_vl")["config_sentence_transformers.json"]) | {"truncate_dim": 12}
    path = folder("qwen3_vl", {"config_sentence_transformers.json": settings})
    vectors = embed(opened(path).load(), PICTURES, SENTENCES)
    assert vectors[0].shape == (8, 12)
    check_equal(vectors, reference(load_library(path), "qwen3_vl"))
    assert opened(path).identity["truncate_dim"] == 12


# Trap: transformers loads weights in the type in which they were saved.
def test_weights_in_half_precision_are_computed_in_float32(folder, files):
    path = folder(
        "qwen3_vl", {"config.json": json.loads(files("qwen3_vl")["config.json"]) | {"dtype": "bfloat16"}}
    )
    halved = {name: weights.bfloat16() for name, weights in load_file(path / "model.safetensors").items()}
    save_file(halved, path / "model.safetensors", metadata={"format": "pt"})
    network = opened(path).load()
    assert {weights.dtype for weights in network.parameters()} == {torch.float32}
    check_equal(embed(network, PICTURES, SENTENCES), reference(load_library(path), "qwen3_vl"))


@pytest.mark.parametrize(
    "name", [pytest.param("legacy_clip", marks=pytest.mark.thorough), "clip_dense", "qwen3_vl"]
)
def test_half_precision_moves_vectors_by_its_roundoff(folder, name):
    skip_unless_computed("bf16")
    path = folder(name)
    single, half = opened(path), opened(path, precision="bf16")
    assert single.identity != half.identity
    network = half.load()
    both = (embed(each, PICTURES, SENTENCES) for each in (network, single.load()))
    for rounded, exact in zip(*both, strict=True):
        assert rounded.dtype == torch.float32
        assert not torch.equal(rounded, exact)
        assert largest_error(rounded, exact) < error_bound("bf16", 8)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        raw = network._embed_texts(network.tokenize(SENTENCES))
    assert not torch.equal(raw, raw.bfloat16().float())  # what follows the towers is not rounded


# Trap: code of a model repository.
CODE = {"AutoConfig": "code.Config", "AutoModel": "code.Model", "AutoProcessor": "code.Processor"}


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_code_of_a_repository_is_refused_and_never_run(folder, files, tmp_path, name):
    path = folder("qwen3_vl", {name: json.loads(files("qwen3_vl")[name]) | {"auto_map": CODE}})
    (path / "code.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(InputError, match=f"{name} names code in the repository.*model=precomputed"):
        opened(path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("kind", ["code.Transformer", "os.path.join", "sentence_transformersx.Transformer"])
def test_a_module_of_another_package_is_refused_and_never_run(folder, files, tmp_path, place, kind):
    modules = json.loads(files("qwen3_vl")["modules.json"])
    modules[place]["type"] = kind
    path = folder("qwen3_vl", {"modules.json": modules})
    (path / "code.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(
        InputError, match=f"modules.json names {kind}, code outside .* never run.*precomputed"
    ):
        opened(path)
    assert not (tmp_path / "ran").exists()


def test_an_activation_of_another_package_is_refused(folder, files):
    settings = json.loads(files("clip_dense")["1_Dense/config.json"]) | {"activation_function": "code.Gelu"}
    with pytest.raises(InputError, match="1_Dense/config.json names the activation code.Gelu"):
        opened(folder("clip_dense", {"1_Dense/config.json": settings}))


def modules_of(*kinds):
    return [
        {
            "idx": i,
            "name": str(i),
            "path": "" if not i else f"{i}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for i, kind in enumerate(kinds)
    ]


TEXT_MODEL = {"modules.json": modules_of("Transformer", "Pooling"), "config.json": {"model_type": "bert"}}
QWEN = {"modules.json": modules_of("Transformer", "Pooling"), "config.json": {"model_type": "qwen3_vl"}}
BOTH = {name: {"method": "forward", "method_output_name": "last_hidden_state"} for name in ("text", "image")}
# What is refused -> files of the repository, and the message.
REFUSALS = {
    "texts alone, saved long ago": (
        TEXT_MODEL | {"sentence_bert_config.json": {"max_seq_length": 256, "do_lower_case": False}},
        "it embeds text alone .* expected text and image",
    ),
    "texts alone": (
        QWEN | {"sentence_bert_config.json": {"modality_config": {"text": BOTH["text"]}}},
        "it embeds text alone .* expected text and image",
    ),
    "pictures alone": (
        QWEN | {"sentence_bert_config.json": {"modality_config": {"image": BOTH["image"]}}},
        "it embeds image alone .* expected text and image",
    ),
    "static vectors": (
        {"modules.json": modules_of("StaticEmbedding")},
        "names StaticEmbedding, which takes texts",
    ),
    "a router": ({"modules.json": modules_of("Router")}, "names Router, .* not supported"),
    "a module that is not supported": (
        {"modules.json": modules_of("Transformer", "LSTM")},
        "names LSTM, which is not supported; expected Dense or Normalize or Pooling",
    ),
    "sparse vectors": (
        QWEN | {"config_sentence_transformers.json": {"model_type": "SparseEncoder"}},
        "says SparseEncoder, expected SentenceTransformer",
    ),
    "scores": (
        QWEN | {"sentence_bert_config.json": {"modality_config": BOTH, "transformer_task": "any-to-any"}},
        "says any-to-any, expected feature-extraction",
    ),
    "BLIP-2": (
        QWEN
        | {"config.json": {"model_type": "blip-2"}, "sentence_bert_config.json": {"modality_config": BOTH}},
        "lacks its projections. Use model=blip2",
    ),
    "AIMv2": (
        QWEN
        | {"config.json": {"model_type": "aimv2"}, "sentence_bert_config.json": {"modality_config": BOTH}},
        "Use model=hf",
    ),
    "an unknown type": (
        QWEN
        | {
            "config.json": {"model_type": "jina_clip"},
            "sentence_bert_config.json": {"modality_config": BOTH},
        },
        "no type of model 'jina_clip'",
    ),
    "code": (
        QWEN
        | {
            "config.json": {"model_type": "clip", "auto_map": CODE},
            "sentence_bert_config.json": {"modality_config": BOTH},
        },
        "config.json names code in the repository",
    ),
    "an adapter": (
        QWEN | {"adapter_config.json": {}, "sentence_bert_config.json": {"modality_config": BOTH}},
        "adapter .* of another model. Merge them",
    ),
    "a tokenizer elsewhere": (
        QWEN
        | {"sentence_bert_config.json": {"modality_config": BOTH, "tokenizer_name_or_path": "lab/other"}},
        r"takes the tokenizer of another repository \(lab/other\)",
    ),
    "a path out of the repository": (
        {"modules.json": [modules_of("Transformer")[0] | {"path": "../other"}]},
        "names the folder '../other', expected a subfolder",
    ),
    "no list": ({"modules.json": {}}, "modules.json: not a list of modules"),
    "a list of texts": ({"modules.json": ["Transformer"]}, "modules.json: not a list of modules"),
    "instructions that are none": (
        QWEN
        | {
            "config_sentence_transformers.json": {"prompts": [1]},
            "sentence_bert_config.json": {"modality_config": BOTH},
        },
        r"expected prompts as dict, got \[1\]",
    ),
}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [*((kind, {}) for kind in REFUSALS), ("an adapter", {"pooling": "lasttoken"})],
)
def test_other_models_are_refused_before_anything_large_is_downloaded(cache, monkeypatch, kind, fields):
    content, message = REFUSALS[kind]
    if fields:
        content = {name: value for name, value in content.items() if name != "modules.json"}
    requested = []

    def download(place, name):
        requested.append(name)
        if name not in content:
            return None
        return write_to_cache(cache, place.name, {name: json.dumps(content[name]).encode()}) / name

    monkeypatch.setattr(hub, "_download", download)
    with pytest.raises(InputError, match=message):
        opened("lab/encoder", **fields).identify_weights()
    assert "config.json" in content or "config.json" not in requested
    assert not any(
        name.startswith(("model", "tokenizer.", "vocab")) and name != "modules.json" for name in requested
    )


@pytest.mark.parametrize("known", [False, True])
def test_modules_are_requested_unless_they_are_known_to_be_absent(cache, monkeypatch, known):
    snapshot = write_to_cache(cache, "lab/encoder", {"config.json": b"{}"})
    if known:
        for name in ("modules.json", "adapter_config.json"):
            path = snapshot.parents[1] / ".no_exist" / COMMIT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    requested = []

    def download(place, name):
        requested.append((place.revision, name))
        return write_to_cache(cache, place.name, {name: b"[]"}) / name

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_download", download)
    files = hub.locate_files(
        hub.Source("lab/encoder"), [("config.json",)], decisive=["modules.json", "adapter_config.json"]
    )
    expected = [] if known else [(COMMIT, "modules.json"), (COMMIT, "adapter_config.json")]
    assert requested == expected
    assert [*files] == ["config.json", *(name for _, name in expected)]


def test_a_repository_with_modules_refuses_pooling_whatever_is_cached(cache, monkeypatch):
    write_to_cache(cache, "lab/encoder", {"config.json": b"{}"})

    def download(place, name):
        return write_to_cache(cache, place.name, {name: b"[]"}) / name if name == "modules.json" else None

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_download", download)
    with pytest.raises(InputError, match="model.pooling=mean, but its modules.json says how it pools. Leave"):
        opened("lab/encoder", pooling="mean")


def test_modules_are_taken_as_absent_where_the_hub_cannot_be_reached(cache, monkeypatch):
    write_to_cache(cache, "lab/encoder", {"config.json": b"{}"})

    def download(place, name):
        raise hub._FetchError("the hub cannot be reached")

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "_download", download)
    files = hub.locate_files(hub.Source("lab/encoder"), [("config.json",)], decisive=["modules.json"])
    assert [*files] == ["config.json"]


def test_pooling_is_refused_where_it_would_replace_the_model_s_or_means_nothing(folder, files):
    with pytest.raises(InputError, match="model.pooling=mean, but its modules.json says how it pools. Leave"):
        opened(folder("qwen3_vl"), pooling="mean")
    path = folder("legacy_clip")
    with pytest.raises(InputError, match="model.pooling=mean needs a multimodal language model, got clip"):
        opened(path / "0_CLIPModel", pooling="mean")


@pytest.mark.parametrize("module", ["", "1_Dense/"])
def test_weights_are_read_from_safetensors_alone(folder, module):
    path = folder("clip_dense")
    weights = path / f"{module}model.safetensors"
    torch.save(load_file(weights), weights.with_name("pytorch_model.bin"))
    weights.unlink()
    with pytest.raises(InputError, match=f"no {module}model.safetensors .*Only safetensors are read"):
        opened(path).identify_weights()


# Trap: the library draws missing tensors at random, without a word.
@pytest.mark.parametrize("name", ["legacy_clip", "qwen3_vl"])
def test_weights_without_a_tensor_are_refused(folder, name):
    path = folder(name)
    (weights,) = path.rglob("model.safetensors")
    state = load_file(weights)
    del state[sorted(state)[0]]
    save_file(state, weights, metadata={"format": "pt"})
    with pytest.raises(InputError, match="1 tensors are missing"):
        opened(path).load()


@pytest.mark.parametrize("name", ["legacy_clip", "clip_dense", "qwen3_vl"])
def test_a_repository_and_a_folder_share_a_key_and_each_file_is_in_it(cache, folder, files, name):
    write_to_cache(cache, "lab/encoder", files(name))
    path = folder(name)
    first, second = opened("lab/encoder"), opened(path)
    assert first.identity == second.identity
    assert first.identify_weights() == second.identify_weights() | {"revision": COMMIT}
    with pytest.raises(InputError, match=r"\(model\.sha256\)"):
        opened(path, sha256="0" * 64).identify_weights()
    for file in files(name):
        if file.endswith(".json"):
            content = json.loads(files(name)[file])
            content = (
                content | {"comment": ""}
                if isinstance(content, dict)
                else [content[0] | {"x": 1}, *content[1:]]
            )
            (path / file).write_text(json.dumps(content))
            assert opened(path).identity != second.identity, file
            (path / file).write_bytes(files(name)[file])


def test_each_weight_is_in_the_hash(folder):
    path = folder("clip_dense")
    before = opened(path).identify_weights()["sha256"]
    state = load_file(path / "1_Dense" / "model.safetensors")
    save_file({name: 2 * weights for name, weights in state.items()}, path / "1_Dense" / "model.safetensors")
    assert opened(path).identify_weights()["sha256"] != before


def test_a_missing_model_names_the_command_that_fetches_it(cache):
    with pytest.raises(InputError, match="fetch model=sentence_transformers model.id=lab/encoder model.rev"):
        opened("lab/encoder", revision="a6f597a3")
    with pytest.raises(InputError, match="model.id=lab/encoder model.pooling=lasttoken"):
        opened("lab/encoder", pooling="lasttoken")


@pytest.mark.parametrize("name", ["clip_dense", "qwen3_vl"])
def test_random_weights_are_the_same_in_every_process(folder, name):
    path = folder(name)
    for weights in path.rglob("model.safetensors"):
        weights.unlink()
    first, second = (opened(path, weights="random") for _ in range(2))
    assert first.identify_weights()["revision"] == "random"
    both = [embed(each.load(), PICTURES[:1], SENTENCES) for each in (first, second)]
    assert all(map(torch.equal, *both))


@pytest.mark.parametrize("name", ["legacy_clip", "qwen3_vl"])
def test_pictures_of_all_sizes_are_embedded_together(folder, tmp_path, name):
    path = folder(name)
    rows = []
    for number, picture in enumerate(PICTURES):
        place = tmp_path / f"{number}.png"
        picture.save(place)
        digest = hashlib.sha256(place.read_bytes()).hexdigest()
        rows.append({"id": str(number), "valence": 0.5, "path": str(place), "sha256": digest})
    table = build_table("scenes", pd.DataFrame(rows), "test")
    predict(opened(path).load(), table, 4, TRAINER, tmp_path / "vectors", tmp_path / "pictures")
    vectors = load_file(tmp_path / "vectors")["embedding"]
    check_equal([vectors], reference(load_library(path), name)[:1])


@pytest.mark.thorough
def test_a_plan_lists_the_vectors_of_each_instruction(folder, tmp_path, capsys):
    model = ["model=sentence_transformers", f"model.id={folder('qwen3_vl')}", "model.prompt=null,''"]
    assert command(tmp_path / "plan", "-m", *model, "plan=true", *store_overrides(tmp_path)).code == 0
    planned = capsys.readouterr().out
    assert "embed demo words with own " in planned
    assert "embed demo words with own+prompt= " in planned


# All experiments and audits, but those that need sets of matched pictures or iEAT's; and one of each study.
EXPERIMENTS = {path.stem for path in (CHECKOUT / "conf" / "exp").glob("*.yaml")}
EXPERIMENTS -= {"matched", "matched_words", "eat_ieat"}
SOME = {"faces_to_words", "cles_warmth", "sobit_retrieval"}
FIND = ("null,'find: '", ["", "+prompt=find:"])


# Two instructions of a language model side by side, without a network.
@pytest.mark.parametrize(
    ("name", "prompts", "instructions", "exps"),
    [
        pytest.param("legacy_clip", "null", [""], EXPERIMENTS, marks=pytest.mark.exhaustive),
        pytest.param("qwen3_vl", *FIND, SOME, marks=pytest.mark.thorough, id="qwen3_vl-some"),
        pytest.param("qwen3_vl", *FIND, EXPERIMENTS, marks=pytest.mark.exhaustive, id="qwen3_vl-all"),
    ],
)
def test_experiments_and_audits_run_offline(folder, tmp_path, monkeypatch, name, prompts, instructions, exps):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    small = ["faces.per_group=14", "scenes.count=24", "words.count=24", "protocol.k=10", *FEW_DRAWS]
    small += [
        "protocol.extremes=5",
        "protocol.set_size=6",
        "protocol.top_k=20",
        "trainer=cpu",
        "trainer.workers=0",
    ]
    model = ["model=sentence_transformers", f"model.id={folder(name)}", f"model.prompt={prompts}"]
    exp = "exp=glob(*)" if exps == EXPERIMENTS else f"exp={','.join(sorted(exps))}"
    swept = command(tmp_path / "swept", "-m", exp, *model, *small, *store_overrides(tmp_path))
    assert swept.code == 0
    analyses = swept.analyses()
    assert {*analyses["model"]} == {"own"}
    protocol = {*analyses["protocol"][analyses["protocol"].str.endswith("+top_k=20")]}.pop()
    by_protocol = analyses.groupby("protocol")["exp"].agg(set).to_dict()
    assert by_protocol == {protocol + instruction: exps for instruction in instructions}
    levels = analyses[analyses["exp"] == "faces_to_words"].groupby("protocol")["level"].first()
    assert levels.nunique() == len(instructions)
