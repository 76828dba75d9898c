"""Time the predict loop on sentences in six templates, and its peer: open_clip's `encode_text`."""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.sizes import job_config
from benchmarks.timing import Comparison, min_seconds, seconds_of

BATCH = 64
# Number of sentences that open_clip embeds; its seconds are scaled up to all sentences.
SAMPLE = 192
MIN_SPEEDUP = 20


def texts(model: str, sentences: int) -> list[Comparison]:
    """Time one model with random weights, on a CPU, in float32.

    Args:
        model: name of a YAML file in conf/model.
        sentences: number of sentences, evenly spaced among those of the built-in lexicon.
    """
    import pandas as pd
    import torch
    from safetensors.torch import load_file

    from src import configs, encoders
    from src.embeddings.predict import predict
    from src.stimuli import Table

    network: Any = encoders.blank(job_config(f"model={model}"))
    lines = _sentences(sentences)
    tokens = network.tokenize(lines)
    sample = torch.linspace(0, len(lines) - 1, min(SAMPLE, len(lines))).long()
    table = Table("words", pd.DataFrame({"id": lines, "sentence": lines}), len(lines))
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0)
    reference: list[torch.Tensor] = []

    def encode() -> None:
        with torch.inference_mode():
            reference[:] = [
                network.model.encode_text(batch, normalize=True) for batch in tokens[sample].split(BATCH)
            ]

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors.safetensors"
        runs = {
            "loop": lambda: predict(network, table, BATCH, trainer, path, Path(folder))[1],
            "open_clip": lambda: seconds_of(encode) * len(lines) / len(sample),
        }
        seconds = min_seconds(runs)
        vectors = load_file(path)["embedding"][sample].double()
    expected = torch.cat(reference).double()
    difference = float((vectors @ vectors.T - expected @ expected.T).abs().max())
    return [
        Comparison(
            f"{model}: predict loop, {len(lines)} sentences",
            seconds["loop"],
            "open_clip's encode_text",
            seconds["open_clip"],
            MIN_SPEEDUP,
            f"cosines at most {difference:.0e} apart",
        )
    ]


def _sentences(count: int) -> list[str]:
    """Return evenly spaced sentences of the built-in lexicon."""
    from src.stimuli import load

    cfg = job_config("model=toy_s", "words.count=null")
    texts = load(cfg, "words").frame["sentence"].tolist()
    return [str(texts[len(texts) * number // count]) for number in range(count)]
