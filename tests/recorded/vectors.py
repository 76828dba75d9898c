"""Compute recorded outputs of encoder families, the embedding loop, and tables of stimuli."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import open_clip
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

from src import configs, encoders, stimuli
from src.embeddings import load_embeddings, precomputed_vectors
from src.jobs.identity import Job
from tests.conftest import precomputed as precomputed_folder
from tests.conftest import store_overrides
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.embedding_server import MODEL, serve_vectors
from tests.encoders.small_checkpoints import SMALL, blip2_files, open_clip_files, write_folder

TINY = ["model=toy_s", "model.name=recorded", "model.width=32", "model.layers=1", "model.embed_dim=8"]
TINY += ["model.pairs=16", "model.steps=3", "faces.per_group=2", "scenes.count=60", "words.count=60"]
TINY += ["trainer=cpu", "trainer.workers=0"]
SENTENCES = ["This is the word calm", "Here is the word anti-war", "a"]


def embed(network: Any) -> dict[str, Any]:
    """Embed two pictures and three sentences."""
    pictures = np.random.default_rng(0).integers(0, 256, (2, 50, 70, 3), dtype=np.uint8)
    with torch.inference_mode():
        pixels = torch.stack([network.transform(Image.fromarray(picture)) for picture in pictures])
        images, texts = network.encode_images(pixels), network.encode_texts(network.tokenize(SENTENCES))
    return {"images": images.flatten(0, -2), "texts": texts}


def open_clip_outputs(folder: Path) -> dict[str, Any]:
    """Embed with two small architectures whose weights are drawn with a seed."""
    outputs = {}
    with mock.patch.dict(open_clip.factory._MODEL_CONFIGS, SMALL):
        for architecture in ("ViT-B-32-quickgelu", "ViT-B-16-SigLIP2"):
            path = write_folder(open_clip_files(architecture, folder), folder / architecture)
            config = configs.OpenClipConfig(name="recorded", id=str(path))
            network = encoders.open_published(config, "cpu").load()
            outputs |= {f"{architecture}_{name}": rows for name, rows in embed(network).items()}
    return outputs


def half_precision_outputs(folder: Path) -> dict[str, Any]:
    """Embed in bf16 with a small architecture, and list the layers with weights in bf16."""
    with mock.patch.dict(open_clip.factory._MODEL_CONFIGS, SMALL):
        path = write_folder(open_clip_files("ViT-B-32-quickgelu", folder), folder / "model")
        config = configs.OpenClipConfig(name="recorded", id=str(path), precision="bf16")
        network = encoders.open_published(config, "cpu").load()
    names = [name for name, weight in network.named_parameters() if weight.dtype == torch.bfloat16]
    return embed(network) | {"in_bf16": names}


def blip2_outputs(folder: Path) -> dict[str, Any]:
    """Embed with a small BLIP-2, pooled by maximum and by mean."""
    path = write_folder(blip2_files(folder / "made"), folder / "model")
    outputs = {}
    for pooling in ("max", "mean"):
        config = configs.Blip2Config(name="recorded", id=str(path), pooling=pooling)
        network = encoders.open_published(config, "cpu").load()
        outputs |= {f"{pooling}_{name}": rows for name, rows in embed(network).items()}
    return outputs


def hf_outputs(folder: Path) -> dict[str, Any]:
    """Embed with four small dual encoders of transformers, each pooled or padded in its own way."""
    outputs = {}
    for name in ("siglip2", "chinese_clip", "flava", "aimv2"):
        path = write_folder(dual_files(name, folder / name), folder / f"{name}_model")
        network = encoders.open_published(
            configs.HfEncoderConfig(name="recorded", id=str(path)), "cpu"
        ).load()
        outputs |= {f"{name}_{kind}": rows for kind, rows in embed(network).items()}
    return outputs


def served_outputs(folder: Path) -> dict[str, Any]:
    """Embed with a server that computes vectors from the pixels and bytes it gets, in both dialects."""
    outputs = {}
    with serve_vectors() as (_, url):
        for dialect in ("messages", "input"):
            config = configs.ServedConfig(
                url=url, id=MODEL, dialect=dialect, max_edge=40, answers=str(folder)
            )
            network = encoders.open_published(config, "cpu").load()
            outputs |= {f"{dialect}_{kind}": rows for kind, rows in embed(network).items()}
    return outputs


def sentence_transformers_outputs(folder: Path) -> dict[str, Any]:
    """Embed with a small dual encoder and a small language model, each with an instruction."""
    from tests.encoders.embedder_checkpoints import embedder_files  # takes seconds

    outputs = {}
    for name in ("clip_dense", "qwen3_vl"):
        path = write_folder(embedder_files(name, folder / name), folder / f"{name}_model")
        config = configs.SentenceTransformersConfig(name="recorded", id=str(path), prompt_name="query")
        network = encoders.open_published(config, "cpu").load()
        outputs |= {f"{name}_{kind}": rows for kind, rows in embed(network).items()}
    return outputs


def stimuli_outputs(folder: Path) -> dict[str, Any]:
    """Load tables of built-in texts, and those of a folder of precomputed vectors."""
    cfg = _job(folder, "words.count=60", "model=toy_s")
    outputs = {}
    for role in ("words", "labels"):
        frame = stimuli.load(cfg, role).frame
        for column in ("id", "group", "valence", "sentence"):
            if column in frame:
                outputs[f"{role}.{column}"] = frame[column].tolist()[:: len(frame) // 20]
    vectors_folder = precomputed_folder(folder / "given")
    cfg = _job(folder, "model=precomputed", f"model.path={vectors_folder}")
    for role in stimuli.ROLES:
        frame = stimuli.load(cfg, role).frame
        columns = [column for column in ("id", "group", "valence") if column in frame]
        outputs |= {f"given_{role}.{column}": frame[column].tolist()[::7] for column in columns}
    return outputs


def toy_outputs(folder: Path) -> dict[str, Any]:
    """Train a tiny toy for three steps and embed with it."""
    cfg = _job(folder, *TINY)
    network = encoders.open_encoder(cfg, lambda role: stimuli.load(cfg, role)).load()
    return embed(network)


def embeddings_outputs(folder: Path) -> dict[str, Any]:
    """Embed two roles with an untrained toy; read and renormalise precomputed vectors."""
    cfg = _job(folder, *TINY, "model.steps=0", "model.batch_size=50")
    outputs = {}
    for role in ("faces", "words"):
        rows = load_embeddings(cfg, role, lambda name: stimuli.load(cfg, name)).vectors
        outputs[role] = rows[:: max(1, len(rows) // 6)]
    vectors_folder = precomputed_folder(folder / "given", width=4)
    for role in ("faces", "words"):
        path = vectors_folder / f"{role}.safetensors"
        save_file({"embedding": load_file(path)["embedding"] * np.float32(1.0008)}, path)
        outputs[f"renormalised_{role}"] = precomputed_vectors.read_vectors(vectors_folder, role).vectors[:6]
    return outputs


def _job(folder: Path, *overrides: str) -> configs.RunConfig:
    return Job.of(*configs.compose([*overrides, *store_overrides(folder)]), str(folder / "output")).cfg
