"""Time the predict loop on sentences in six templates, and its peer: open_clip's `encode_text`."""

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file

from benchmarks.stand_ins import job_config
from benchmarks.timing import Comparison, min_seconds, seconds_of
from src import configs, encoders
from src.embeddings.predict import predict
from src.stimuli import Table, load

BATCH = 64
# Number of sentences that open_clip embeds; its seconds are scaled up to all sentences.
SAMPLE = 192
# The loop computes the common start of a template's sentences once, and no padding; open_clip computes all.
MIN_SPEEDUP = 20


def sentence_table(count: int) -> Table:
    """Return sentences of the built-in lexicon, evenly spaced."""
    lexicon = load(job_config("model=toy_s", "words.count=null"), "words").frame["sentence"].tolist()
    sentences = [str(lexicon[len(lexicon) * number // count]) for number in range(count)]
    return Table("words", pd.DataFrame({"id": sentences, "sentence": sentences}), count)


def time_texts(model: str, count: int) -> list[Comparison]:
    """Time a model of conf/model with random weights, on a CPU, in float32.

    `count` is the number of sentences.
    """
    network: Any = encoders.build_untrained(job_config(f"model={model}"))
    table = sentence_table(count)
    sentences = table.frame["sentence"].tolist()
    tokens = network.tokenize(sentences)
    sample_indices = torch.linspace(0, len(sentences) - 1, min(SAMPLE, len(sentences))).long()
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0)
    reference: list[torch.Tensor] = []

    def encode() -> None:
        with torch.inference_mode():
            batches = tokens[sample_indices].split(BATCH)
            reference[:] = [network.model.encode_text(batch, normalize=True) for batch in batches]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.safetensors"
        runs = {
            "loop": lambda: predict(network, table, BATCH, trainer, path, Path(folder))[1],
            "open_clip": lambda: seconds_of(encode) * len(sentences) / len(sample_indices),
        }
        seconds = min_seconds(runs)
        vectors = load_file(path)["embedding"][sample_indices].double()
    expected = torch.cat(reference).double()
    difference = float((vectors @ vectors.T - expected @ expected.T).abs().max())
    return [
        Comparison(
            f"{model}: predict loop, {len(sentences)} sentences",
            seconds["loop"],
            "open_clip's encode_text",
            seconds["open_clip"],
            MIN_SPEEDUP,
            f"cosines at most {difference:.0e} apart",
        )
    ]
