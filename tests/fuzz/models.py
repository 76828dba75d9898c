"""Parsers of vectors and weights: precomputed folders, the store, checkpoints that others made."""

import functools
import io
import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from safetensors.torch import save, save_file

from src import configs
from src.embeddings import precomputed_vectors
from src.encoders import hub, open_clip_weights, transformers_files
from src.stimuli import Table, checked
from src.stimuli import precomputed_tables as tables
from src.storage import cache
from tests.encoders.published import SMALL, build
from tests.fuzz.harness import Parser
from tests.fuzz.structured import json_changed, parquet_changed, tensors_changed

ROWS = 6
# Few tokens: a file of kilobytes.
TINY = {**SMALL["ViT-B-32-quickgelu"], "embed_dim": 8}
TINY = {**TINY, "vision_cfg": {**TINY["vision_cfg"], "width": 64, "image_size": 16}}
TINY = {**TINY, "text_cfg": {**TINY["text_cfg"], "vocab_size": 20, "context_length": 8}}


def vectors(folder: Path) -> None:
    """Faces as pictures with two vectors each, words, and prompts."""
    rng = np.random.default_rng(0)
    ids = [f"f{number}" for number in range(ROWS)]
    said = [f"w{number // 2}" for number in range(ROWS)]
    own = {
        "faces": pd.DataFrame({"id": ids, "group": ["A", "B"] * (ROWS // 2)}),
        "words": pd.DataFrame(
            {"id": ids, "word": said, "template": ["a {}", "the {}"] * (ROWS // 2), "sentence": ids,
             "valence": [0.1, 0.1, 0.5, 0.5, 1, 1]}
        ),
        "prompts": pd.DataFrame({"id": ids, "sentence": [f"A photo of {name}" for name in ids]}),
    }  # fmt: skip
    for role, frame in own.items():
        drawn = rng.normal(size=(ROWS, 2, 4) if role == "faces" else (ROWS, 4))
        unit = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)).float()
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": unit}, folder / f"{role}.safetensors")


def read(role: str, folder: Path):
    table = tables.load(folder, role)
    return table, precomputed_vectors.read(folder, role)


def prompts(folder: Path):
    wanted = Table("prompts", pd.DataFrame({"sentence": ["A photo of f1"]}), 1)
    return precomputed_vectors.texts(folder, wanted)


def rows_and_vectors(role: str, folder: Path, found) -> None:
    table, own = found
    assert len(table.frame) == len(own.vectors) == pq.read_metadata(folder / f"{role}.parquet").num_rows
    assert len(table.hash) == 64
    norms = own.vectors.double().norm(dim=-1)
    assert ((norms - 1).abs() < 1e-6).all()
    checked(role, table.frame, "again")


def one_vector(folder: Path, found) -> None:
    assert found.vectors.shape == (1, 4)


def stored(folder: Path) -> None:
    cache.fetch(folder, "entry", lambda draft: (draft / "a.bin").write_bytes(b"abc") and {"said": 1})


def entry(folder: Path):
    """An entry of the store: as it was written, or made anew."""
    cache._sound.clear()
    made = cache.fetch(folder, "entry", lambda draft: (draft / "a.bin").write_bytes(b"abc") and {"said": 1})
    cache._sound.clear()
    return made


def whole_entry(folder: Path, found: Path) -> None:
    assert cache.damaged(found) == ""
    assert (found / "a.bin").read_bytes() == b"abc"
    assert cache.manifest(found)["files"]["a.bin"]["bytes"] == 3


@functools.cache
def network() -> bytes:
    """Weights of the tiny open_clip model, as safetensors."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        SMALL["fuzzed"] = TINY
        model = build("fuzzed", Path(place))
        del SMALL["fuzzed"]
    return save({name: value.contiguous() for name, value in model.state_dict().items()})


def openclip(form: str, folder: Path) -> None:
    from safetensors.torch import load

    described = {"model_cfg": TINY, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (folder / "open_clip_config.json").write_text(json.dumps(described))
    if form == "pickle":
        torch.save(load(network()), folder / "open_clip_pytorch_model.bin")
    elif form == "legacy":
        torch.save(
            load(network()), folder / "open_clip_pytorch_model.bin", _use_new_zipfile_serialization=False
        )
    else:
        (folder / "open_clip_model.safetensors").write_bytes(network())


def opened(folder: Path):
    hub._hashes.clear()
    asked = configs.OpenClipConfig(name="fuzzed", id=str(folder), precision="fp32", weights="pretrained")
    found = open_clip_weights.encoder(asked, "cpu")
    found.weights()
    return found.load()


def finite(folder: Path, found) -> None:
    assert found is not None


def pickled(folder: Path) -> None:
    openclip("pickle", folder)
    made = io.BytesIO()
    pickle.dump({"a": [1, 2.5, "x", (None, True)]}, made, protocol=2)
    (folder / "open_clip_pytorch_model.bin").write_bytes(made.getvalue())


def indexed(folder: Path) -> None:
    named = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(named))
    for name in named["weight_map"].values():
        (folder / name).write_bytes(b"")


def sharded(folder: Path):
    return transformers_files.files(
        hub.Place(str(folder), folder=True, remedy="Put the files of a model there.")
    )


def language(folder: Path) -> None:
    from tests.generators.checkpoint import saved

    saved(folder)


def asked(folder: Path):
    from src.generators import hub_weights as generative

    hub._hashes.clear()
    config = configs.HfConfig(id=str(folder), batch_size=4, most=4)
    found = generative.find(config)
    found.said(), found.files()
    return generative.load(found, torch.device("cpu"))


PARSERS = [
    *(Parser(f"precomputed: {role}.parquet", f"{role}.parquet", vectors, partial(read, role),
             partial(rows_and_vectors, role), named=(f"{role}.safetensors",),
             change=parquet_changed)
      for role in ("faces", "words")),
    *(Parser(f"precomputed: {role}.safetensors", f"{role}.safetensors", vectors, partial(read, role),
             partial(rows_and_vectors, role), ':,"[', change=tensors_changed)
      for role in ("faces", "words")),
    Parser("precomputed: prompts.parquet", "prompts.parquet", vectors, prompts, one_vector,
           named=("prompts.safetensors",), change=parquet_changed),
    Parser("store: manifest", "entry/manifest.json", stored, entry, whole_entry, ':,"{', change=json_changed),
    Parser("open_clip: config", "open_clip_config.json", partial(openclip, "safetensors"), opened, finite,
           ':,"[{', named=("/",), change=json_changed),
    Parser("open_clip: safetensors", "open_clip_model.safetensors", partial(openclip, "safetensors"), opened,
           finite, ':,"[{', named=("/",), change=tensors_changed),
    Parser("open_clip: pickle", "open_clip_pytorch_model.bin", partial(openclip, "pickle"), opened, finite,
           named=("/",)),
    Parser("open_clip: old pickle", "open_clip_pytorch_model.bin", partial(openclip, "legacy"), opened,
           finite, named=("/",)),
    Parser("transformers: index", "model.safetensors.index.json", indexed, sharded, separators=':,"{',
           named=("/",), change=json_changed),
    Parser("transformers: config", "config.json", language, asked, finite, ':,"[{', named=("/",),
           change=json_changed),
    Parser("transformers: tokenizer", "tokenizer.json", language, asked, finite, ':,"[{', named=("/",),
           change=json_changed),
]  # fmt: skip
