"""Encoders with weights of others: found where the hub's cache has them, refused where they are not right."""

import json
import os
import pickle
from pathlib import Path

import open_clip
import pandas as pd
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn.functional import normalize

from src import configs, encoders
from src.encoders import hub
from src.errors import InputError
from src.storage.cache import NotStored, dry
from tests.encoders import published as made

SENTENCES = ["This is the word calm", "Here is the word anti-war", "a"]


def config(id, **fields):
    return configs.OpenClipConfig(name="tried", id=id, **fields)


def opened(id, **fields):
    return encoders.published_encoder(config(id, **fields), "cpu")


def picture(seed=0):
    pixels = torch.randint(
        0, 256, (50, 70, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )
    return Image.fromarray(pixels.numpy())


def vectors(network):
    with torch.inference_mode():
        pixels = torch.stack([network.transform(picture(seed)) for seed in range(3)])
        return network.encode_images(pixels), network.encode_texts(network.tokenize(SENTENCES))


@pytest.mark.parametrize(
    ("architecture", "tag"),
    [("ViT-B-32-quickgelu", "openai"), ("RN50", "cc12m"), ("ViT-B-16-SigLIP2", "webli")],
)
def test_weights_in_the_cache_give_open_clip_s_own_vectors(
    cache, small, tmp_path, architecture, tag, monkeypatch
):
    if architecture == "RN50":  # its published weights want QuickGELU: another entry of the list
        monkeypatch.setitem(open_clip.pretrained._PRETRAINED["RN50"]["cc12m"], "quick_gelu", False)
    files = made.clip(architecture, tmp_path)
    made.place(cache, made.repository(architecture, tag), files)
    encoder = opened(f"{architecture}/{tag}")
    assert encoder.weights()["revision"] == made.COMMIT
    images, texts = vectors(encoder.load())

    theirs = made.build(architecture, tmp_path)
    theirs.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    folder = made.folder(files, tmp_path / "own")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(SENTENCES)
    entry = open_clip.get_pretrained_cfg(architecture, tag)
    size = theirs.visual.image_size
    size = size if isinstance(size, int) else size[0]
    prepared = open_clip.transform.image_transform_v2(
        open_clip.transform.PreprocessCfg(
            size=size, mean=entry["mean"], std=entry["std"], interpolation=entry["interpolation"],
            resize_mode=entry["resize_mode"],
        ),
        is_train=False,
    )  # fmt: skip
    pixels = torch.stack([prepared(picture(seed)) for seed in range(3)])
    with torch.inference_mode():
        assert torch.equal(images, normalize(theirs.encode_image(pixels), dim=-1))
        # Another order of the same sums.
        assert torch.allclose(texts, normalize(theirs.encode_text(tokens), dim=-1), rtol=0, atol=1e-6)


def test_a_repository_and_a_folder_of_the_same_files_give_the_same_vectors(cache, tmp_path):
    files = made.clip("ViT-B-32-quickgelu", tmp_path)
    made.place(cache, "lab/encoder", files)
    folder = made.folder(files, tmp_path / "own")
    first, second = opened("hf-hub:lab/encoder"), opened(str(folder))
    assert first.weights()["sha256"] == second.weights()["sha256"]
    assert second.weights()["revision"] == "folder"
    assert first.identity == second.identity
    for ours, theirs in zip(vectors(first.load()), vectors(second.load()), strict=True):
        assert torch.equal(ours, theirs)


def test_a_text_tower_of_transformers_reads_its_config_and_tokeniser_from_the_cache(cache, tmp_path):
    from transformers import RobertaConfig

    small = RobertaConfig(
        vocab_size=200, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=48, pad_token_id=0,
    )  # fmt: skip
    small.save_pretrained(tmp_path / "text")
    made.place(cache, "lab/text", {"config.json": (tmp_path / "text" / "config.json").read_bytes()})
    made.place(cache, "lab/words", made.tokenizer())
    described = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {
            "hf_model_name": str(tmp_path / "text"), "hf_tokenizer_name": "lab/words", "context_length": 32,
            "hf_pooler_type": "mean_pooler", "hf_proj_type": "mlp",
        },
    }  # fmt: skip
    made.SMALL["tried"] = described
    try:
        files = made.clip("tried", tmp_path)
    finally:
        del made.SMALL["tried"]
    files["open_clip_config.json"] = files["open_clip_config.json"].replace(
        str(tmp_path / "text").encode(), b"lab/text"
    )
    made.place(cache, "lab/encoder", {name: files[name] for name in files if "tokenizer" not in name})
    network = opened("hf-hub:lab/encoder").load()
    assert vectors(network)[1].shape == (3, 16)
    with pytest.raises(InputError, match="needs 4[0-9] tokens, the context holds 32"):
        network.tokenize(["short", "x" * 40])


def test_absent_weights_name_the_model_the_cache_and_the_command(cache):
    with pytest.raises(InputError) as raised:
        opened("ViT-B-32-quickgelu/openai", revision="a6f597a3").weights()
    said = str(raised.value)
    assert "timm/vit_base_patch32_clip_224.openai at a6f597a3: open_clip_model.safetensors" in said
    assert str(cache) in said
    assert (
        "src.encoders fetch model=open_clip model.id=ViT-B-32-quickgelu/openai model.revision=a6f597a3"
        in said
    )


def test_weights_of_another_revision_are_not_taken(cache, small, tmp_path):
    made.place(
        cache, made.repository("ViT-B-32-quickgelu", "openai"), made.clip("ViT-B-32-quickgelu", tmp_path)
    )
    with pytest.raises(InputError, match="cannot be fetched"):
        opened("ViT-B-32-quickgelu/openai", revision="f" * 40).weights()


def test_nothing_is_fetched_where_nothing_is_to_be_built(cache):
    with dry(), pytest.raises(NotStored):
        opened("ViT-B-32-quickgelu/openai").weights()


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("ViT-B-32/openai", "trained with QuickGELU.*Say model.id=ViT-B-32-quickgelu/openai"),
        ("ViT-B-32-quickgelu/openia", "Did you mean ViT-B-32-quickgelu/openai"),
        ("nowhere", "has to be architecture/weights"),
    ],
)
def test_what_is_no_encoder_is_refused(cache, id, said):
    with pytest.raises(InputError, match=said):
        opened(id)


def test_a_cut_or_changed_file_of_the_cache_is_refused(cache, small, tmp_path):
    repository = made.repository("ViT-B-32-quickgelu", "openai")
    files = made.clip("ViT-B-32-quickgelu", tmp_path)
    snapshot = made.place(cache, repository, files)
    blob = (snapshot / "open_clip_model.safetensors").resolve()
    whole = blob.read_bytes()
    for content in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1])):
        blob.write_bytes(content)
        os.utime(blob, (0, len(content) ^ content[-1]))
        with pytest.raises(InputError, match="cut or changed since it was fetched"):
            opened("ViT-B-32-quickgelu/openai").weights()


def test_other_weights_than_asked_for_are_refused(cache, tmp_path):
    folder = made.folder(made.clip("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    digest = hub.sha256([folder / "open_clip_model.safetensors"])
    assert opened(str(folder), sha256=digest).weights()["sha256"] == digest
    with pytest.raises(InputError, match="model.sha256 asks for"):
        opened(str(folder), sha256="0" * 64).weights()


@pytest.mark.parametrize("harm", ["cut", "a tensor less", "another shape"])
def test_weights_that_do_not_fit_are_refused(cache, tmp_path, harm):
    folder = made.folder(made.clip("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    path = folder / "open_clip_model.safetensors"
    state = load_file(path)
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    elif harm == "a tensor less":
        del state["visual.proj"]
        save_file(state, path)
    else:
        save_file(state | {"visual.proj": torch.zeros(64, 25)}, path)
    with pytest.raises(InputError, match="cannot be loaded"):
        opened(str(folder)).load()


class _Hostile:
    def __reduce__(self):
        return (Path.touch, (Path(os.environ["HOSTILE"]),))


def test_no_pickled_code_runs(cache, tmp_path, monkeypatch):
    """The same checkpoint as a pickle loads as long as it holds tensors alone."""
    files = made.clip("ViT-B-32-quickgelu", tmp_path)
    folder = made.folder({"open_clip_config.json": files["open_clip_config.json"]}, tmp_path / "own")
    state = load_file(tmp_path / "weights.safetensors")
    torch.save(state, folder / "open_clip_pytorch_model.bin")
    assert vectors(opened(str(folder)).load())[0].shape == (3, 24)
    monkeypatch.setenv("HOSTILE", str(tmp_path / "ran"))
    torch.save(state | {"extra": _Hostile()}, folder / "open_clip_pytorch_model.bin")
    with pytest.raises(InputError, match="hold more than tensors"):
        opened(str(folder)).load()
    assert not (tmp_path / "ran").exists()
    pickle.loads(pickle.dumps(_Hostile()))  # what would have happened
    assert (tmp_path / "ran").exists()


def test_random_weights_are_asked_for_by_name_and_always_the_same(cache, small):
    encoder = opened("ViT-B-32-quickgelu/openai", weights="random")
    assert encoder.weights()["revision"] == "random"
    torch.manual_seed(5)
    first = vectors(encoder.load())
    for ours, again in zip(first, vectors(encoder.load()), strict=True):
        assert torch.equal(ours, again)


def test_eight_experiments_of_one_model_ask_the_hub_once(cache, monkeypatch):
    asked = []
    monkeypatch.setattr(hub, "_download", lambda place, name: asked.append(name) or _refuse())
    for _ in range(8):
        with pytest.raises(InputError, match="out of reach"):
            opened("ViT-B-32-quickgelu/openai").weights()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("fields", "kwargs"),
    [({}, {}), ({}, {"strip_sep_token": True}), ({"pad_token": "[SEP]"}, {})],
    ids=["plain", "separator dropped", "padded with the end"],
)
def test_a_cut_text_is_noticed_whatever_the_padding(cache, tmp_path, fields, kwargs):
    files = with_config(
        made.clip("ViT-B-16-SigLIP2", tmp_path),
        lambda said: said["text_cfg"]["tokenizer_kwargs"].update(kwargs),
    )
    network = opened(str(made.folder(files | made.tokenizer(**fields), tmp_path / "own"))).load()
    assert network.tokenize(["x" * 60]).shape == (1, 64)
    with pytest.raises(InputError, match="needs 72 tokens, the context holds 64"):
        network.tokenize(["short", "x" * 70])


def with_config(files, change):
    described = json.loads(files["open_clip_config.json"])
    change(described["model_cfg"])
    return files | {"open_clip_config.json": json.dumps(described).encode()}


CODE = """
from pathlib import Path
from transformers import PreTrainedTokenizerFast
Path({ran!r}).touch()
class Tok(PreTrainedTokenizerFast):
    pass
"""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda said: said["text_cfg"]["tokenizer_kwargs"].update(trust_remote_code=True),
            "tokenizer_kwargs",
        ),
        (
            lambda said: said["vision_cfg"].update(timm_model_name="hf-hub:evil/x"),
            "timm_model_name hf-hub:evil/x",
        ),
        (lambda _: None, "cannot be loaded"),
    ],
)
def test_a_repository_cannot_bring_its_own_code(cache, tmp_path, change, said):
    files = with_config(made.clip("ViT-B-16-SigLIP2", tmp_path), change)
    files |= made.tokenizer(tokenizer_class="Tok", auto_map={"AutoTokenizer": [None, "tok.Tok"]})
    files["tok.py"] = CODE.format(ran=str(tmp_path / "ran")).encode()
    folder = made.folder(files, tmp_path / "own")
    with pytest.raises(InputError, match=said):
        opened(str(folder)).load()
    assert not (tmp_path / "ran").exists()


def test_a_folder_and_the_cache_share_what_is_stored(cache, tmp_path):
    from src.embeddings import store
    from src.stimuli import Table

    files = made.clip("ViT-B-32-quickgelu", tmp_path)
    made.place(cache, "lab/encoder", files)
    folder = made.folder(files, tmp_path / "own")
    table = Table("words", pd.DataFrame({"id": ["a"], "word": ["a"]}), 1)
    keys = [store.decisive(opened(id), table, 7) for id in ("hf-hub:lab/encoder", str(folder))]
    assert keys[0] == keys[1]


def test_a_fetch_that_was_interrupted_asks_for_the_rest(cache, tmp_path, monkeypatch):
    """A tokeniser without its config might run, with other ids."""
    files = made.clip("ViT-B-16-SigLIP2", tmp_path)
    held: dict[str, bytes] = {}

    def download(place, name):
        if name not in files:
            return None
        if name == "tokenizer_config.json" and "interrupted" not in held:
            held["interrupted"] = b""
            raise KeyboardInterrupt
        held[name] = files[name]
        return made.place(cache, place.name, {name: files[name]}) / name

    monkeypatch.setattr(hub, "_download", download)
    described = with_config(files, lambda said: said["text_cfg"].update(hf_tokenizer_name="lab/encoder"))
    files = described
    with pytest.raises(KeyboardInterrupt):
        opened("hf-hub:lab/encoder")
    assert "tokenizer/tokenizer_config.json" in opened("hf-hub:lab/encoder").identity["files"]


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("", "model.id is empty"),
        (" ", "model.id is empty"),
        ("hf-hub:", "neither a folder that exists nor owner/name"),
        ("hf-hub:a/b/c", "neither a folder that exists nor owner/name"),
        ("local-dir:/x/y", "has to be architecture/weights"),
        ("README.md", "has to be architecture/weights"),
    ],
)
def test_a_strange_name_is_said_without_a_traceback(cache, id, said):
    with pytest.raises(InputError, match=said):
        opened(id).weights()


@pytest.mark.parametrize("change", [{"mode": "L"}, {"interpolation": "nearby"}, {"resize_mode": "stretch"}])
def test_a_strange_preprocessing_is_said(cache, tmp_path, change):
    files = made.clip("ViT-B-32-quickgelu", tmp_path)
    described = json.loads(files["open_clip_config.json"])
    described["preprocess_cfg"] |= change
    folder = made.folder(files | {"open_clip_config.json": json.dumps(described).encode()}, tmp_path / "own")
    with pytest.raises(InputError, match="cannot be loaded"):
        opened(str(folder)).load()


def test_a_folder_has_no_revision(cache, tmp_path):
    with pytest.raises(InputError, match="has no revision"):
        opened(str(tmp_path), revision="main")


def _refuse():
    raise hub._Refused("out of reach")
