"""List parsers of vectors and weights: precomputed folders, the store, checkpoints that others made."""

import functools
import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from safetensors.torch import save, save_file

from src import configs
from src.embeddings import precomputed_vectors
from src.encoders import hub, huggingface, open_clip_weights, pretrained, sentence_transformer
from src.stimuli import Table, build_table
from src.stimuli.loaders import load_precomputed
from src.storage import cache
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import SMALL, build_open_clip, write_folder
from tests.fuzz.harness import Parser
from tests.fuzz.structured import json_changed, parquet_changed, tensors_changed

ROWS = 6
# With few tokens, a file has kilobytes.
TINY = {**SMALL["ViT-B-32-quickgelu"], "embed_dim": 8}
TINY = {**TINY, "vision_cfg": {**TINY["vision_cfg"], "width": 64, "image_size": 16}}
TINY = {**TINY, "text_cfg": {**TINY["text_cfg"], "vocab_size": 20, "context_length": 8}}


def vectors(folder: Path) -> None:
    """Write faces with two vectors each, words, and prompts."""
    rng = np.random.default_rng(0)
    ids = [f"f{number}" for number in range(ROWS)]
    words = [f"w{number // 2}" for number in range(ROWS)]
    frames = {
        "faces": pd.DataFrame({"id": ids, "group": ["A", "B"] * (ROWS // 2)}),
        "words": pd.DataFrame(
            {"id": ids, "word": words, "template": ["a {}", "the {}"] * (ROWS // 2), "sentence": ids,
             "valence": [0.1, 0.1, 0.5, 0.5, 1, 1]}
        ),
        "prompts": pd.DataFrame({"id": ids, "sentence": [f"A photo of {name}" for name in ids]}),
    }  # fmt: skip
    for role, frame in frames.items():
        gaussian = rng.normal(size=(ROWS, 2, 4) if role == "faces" else (ROWS, 4))
        unit = torch.from_numpy(gaussian / np.linalg.norm(gaussian, axis=-1, keepdims=True)).float()
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": unit}, folder / f"{role}.safetensors")


def read(role: str, folder: Path):
    table = load_precomputed(folder, role)
    return table, precomputed_vectors.read_vectors(folder, role)


def prompts(folder: Path):
    """Return the vector of one prompt."""
    wanted = Table("prompts", pd.DataFrame({"sentence": ["A photo of f1"]}), 1)
    loaded = precomputed_vectors.read_prompt_vectors(folder, wanted)
    assert loaded.vectors.shape == (1, 4)
    return loaded


def rows_and_vectors(role: str, folder: Path, pair) -> None:
    table, result = pair
    assert len(table.frame) == len(result.vectors) == pq.read_metadata(folder / f"{role}.parquet").num_rows
    assert ((result.vectors.double().norm(dim=-1) - 1).abs() < 1e-6).all()
    build_table(role, table.frame, "again")


def entry(folder: Path) -> Path:
    """Return an entry of the store, recomputed if it is damaged."""
    cache._verified.clear()
    return cache.fetch(folder, "entry", lambda draft: (draft / "a.bin").write_bytes(b"abc") and {"a": 1})


def complete_entry(folder: Path, path: Path) -> None:
    cache._verified.clear()
    assert cache.find_damage(path) == ""
    assert (path / "a.bin").read_bytes() == b"abc"
    assert cache.read_manifest(path)["files"]["a.bin"]["bytes"] == 3


@functools.cache
def network() -> bytes:
    """Return weights of the tiny open_clip model, as safetensors."""
    with tempfile.TemporaryDirectory() as temporary:
        SMALL["fuzzed"] = TINY
        model = build_open_clip("fuzzed", Path(temporary))
        del SMALL["fuzzed"]
    return save({name: value.contiguous() for name, value in model.state_dict().items()})


def openclip(form: str, folder: Path) -> None:
    from safetensors.torch import load

    described = {"model_cfg": TINY, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    if form == "safetensors":
        (folder / "open_clip_model.safetensors").write_bytes(network())
        return
    path = folder / "open_clip_pytorch_model.bin"
    torch.save(load(network()), path, _use_new_zipfile_serialization=form == "pickle")


def opened(folder: Path):
    hub._hashes.clear()
    config = configs.OpenClipConfig(name="fuzzed", id=str(folder), precision="fp32", weights="pretrained")
    loaded = open_clip_weights.open_encoder(config, "cpu")
    loaded.identify_weights()
    return loaded.load()


@functools.cache
def dual_encoder() -> dict[str, bytes]:
    """Return the files of a tiny dual encoder of transformers."""
    with tempfile.TemporaryDirectory() as temporary:
        return dual_files("clip", Path(temporary))


def opened_dual(folder: Path):
    hub._hashes.clear()
    config = configs.HfEncoderConfig(name="fuzzed", id=str(folder))
    loaded = huggingface.open_encoder(config, "cpu")
    loaded.identify_weights()
    return loaded.load()


@functools.cache
def embedder() -> dict[str, bytes]:
    """Return the files of a tiny multimodal embedder of sentence-transformers."""
    from tests.encoders.embedder_checkpoints import embedder_files  # takes seconds

    with tempfile.TemporaryDirectory() as temporary:
        return embedder_files("clip_dense", Path(temporary))


def opened_embedder(folder: Path):
    hub._hashes.clear()
    config = configs.SentenceTransformersConfig(name="fuzzed", id=str(folder))
    loaded = sentence_transformer.open_encoder(config, "cpu")
    loaded.identify_weights()
    return loaded.load()


def indexed(folder: Path) -> None:
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in index["weight_map"].values():
        (folder / name).write_bytes(b"")


def sharded(folder: Path):
    place = hub.Source(str(folder), is_folder=True, remedy="Put the files of a model there.")
    return pretrained.locate_transformers_weights(place)


def language(folder: Path) -> None:
    from tests.generators.checkpoint import write_checkpoint

    write_checkpoint(folder)


def generative(folder: Path):
    from src.generators import model_weights

    hub._hashes.clear()
    config = configs.HfConfig(id=str(folder), batch_size=4, most=4)
    loaded = model_weights.locate(config)
    loaded.read_metadata()
    return model_weights.load(loaded, torch.device("cpu"))


WEIGHTS = partial(Parser, named=("/",))
PARSERS = [
    *(Parser(f"precomputed: {role}.parquet", f"{role}.parquet", vectors, partial(read, role),
             partial(rows_and_vectors, role), named=(f"{role}.safetensors",),
             change=parquet_changed)
      for role in ("faces", "words")),
    *(Parser(f"precomputed: {role}.safetensors", f"{role}.safetensors", vectors, partial(read, role),
             partial(rows_and_vectors, role), ':,"[', change=tensors_changed)
      for role in ("faces", "words")),
    Parser("precomputed: prompts.parquet", "prompts.parquet", vectors, prompts,
           named=("prompts.safetensors",), change=parquet_changed),
    Parser("store: manifest", "entry/manifest.json", entry, entry, complete_entry, ':,"{',
           change=json_changed),
    WEIGHTS("open_clip: config", "open_clip_config.json", partial(openclip, "safetensors"), opened,
            separators=':,"[{', change=json_changed),
    WEIGHTS("open_clip: safetensors", "open_clip_model.safetensors", partial(openclip, "safetensors"), opened,
            separators=':,"[{', change=tensors_changed),
    WEIGHTS("open_clip: pickle", "open_clip_pytorch_model.bin", partial(openclip, "pickle"), opened),
    WEIGHTS("open_clip: old pickle", "open_clip_pytorch_model.bin", partial(openclip, "legacy"), opened),
    *(WEIGHTS(f"dual encoder: {name}", f"{name}.json", lambda folder: write_folder(dual_encoder(), folder),
              opened_dual, separators=':,"[{', change=json_changed)
      for name in ("config", "preprocessor_config", "tokenizer_config")),
    *(WEIGHTS(f"sentence-transformers: {name}", name, lambda folder: write_folder(embedder(), folder),
              opened_embedder, separators=':,"[{', change=json_changed)
      for name in ("modules.json", "sentence_bert_config.json")),
    WEIGHTS("transformers: index", "model.safetensors.index.json", indexed, sharded, separators=':,"{',
            change=json_changed),
    *(WEIGHTS(f"transformers: {name}", f"{name}.json", language, generative, separators=':,"[{',
              change=json_changed)
      for name in ("config", "tokenizer")),
]  # fmt: skip
