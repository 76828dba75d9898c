"""Sentences in six templates: the predict loop beside open_clip's own `encode_text`, with random weights."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from src.bench.sizes import Size

MODELS = {"clip_b32": "ViT-B-32", "clip_l14": "ViT-L-14"}
BATCH = 64


def sentences(count: int) -> list[str]:
    """So many sentences: words of the built-in lexicon in the six templates."""
    from src import configs
    from src.jobs import Job
    from src.stimuli import load

    cfg = Job.of(*configs.compose(["model=toy_s", "words.count=null"]), "").cfg
    found = load(cfg, "words").frame["sentence"].tolist()
    # As many of each template, whatever the order of the table.
    step = max(1, len(found) // count)
    return found[::step][:count]


def loop(model: str, size: Size) -> float:
    """Seconds of the predict loop."""
    import pandas as pd

    from src import configs
    from src.embeddings.predict import predict
    from src.stimuli import Table

    network, said = _network(model), sentences(size.sentences)
    table = Table("words", pd.DataFrame({"id": said, "sentence": said}), len(said))
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0)
    with tempfile.TemporaryDirectory() as place:
        return predict(network, table, BATCH, trainer, Path(place) / "vectors.safetensors", Path(place))[1]


def plain(model: str, size: Size) -> float:
    """Seconds of open_clip's own."""
    import torch

    network, said = _network(model), sentences(size.sentences)
    tokens = network.tokenize(said)
    start = time.perf_counter()
    with torch.inference_mode():
        for batch in tokens.split(BATCH):
            network.model.encode_text(batch, normalize=True)
    return time.perf_counter() - start


def _network(model: str) -> Any:
    from src import configs, encoders
    from src.jobs import Job

    return encoders.blank(Job.of(*configs.compose([f"model={model}"]), "").cfg)


TEXTS: dict[str, tuple[str, Callable[[Size], float]]] = {
    f"{model}_{kind}": (f"texts: {name}, {said}", partial(function, model))
    for model, name in MODELS.items()
    for kind, said, function in (("loop", "predict loop", loop), ("plain", "open_clip's encode_text", plain))
}
