"""Sentences in six templates: the predict loop beside open_clip's own `encode_text`, of the same weights.

python -m benchmarks.text_embedding clip_b32 --sentences 9600
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.sizes import job_config
from benchmarks.timing import Compared, in_turns, told
from src.errors import replace_unprintable

BATCH = 64
# Sentences that open_clip is shown: its seconds are scaled up to all.
SHOWN = 192
ASKED = 20


def texts(model: str, sentences: int) -> list[Compared]:
    """One model with random weights, CPU, float32.

    Args:
        model: a YAML of conf/model.
        sentences: how many, evenly from all of the built-in lexicon's.
    """
    import pandas as pd
    import torch
    from safetensors.torch import load_file

    from src import configs, encoders
    from src.embeddings.predict import predict
    from src.stimuli import Table

    network: Any = encoders.blank(job_config(f"model={model}"))
    said = _sentences(sentences)
    tokens = network.tokenize(said)
    some = torch.linspace(0, len(said) - 1, min(SHOWN, len(said))).long()
    table = Table("words", pd.DataFrame({"id": said, "sentence": said}), len(said))
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0)
    theirs: list[torch.Tensor] = []

    def plain() -> float:
        start = time.perf_counter()
        with torch.inference_mode():
            theirs[:] = [network.model.encode_text(one, normalize=True) for one in tokens[some].split(BATCH)]
        return (time.perf_counter() - start) * len(said) / len(some)

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "vectors.safetensors"
        runs = {
            "loop": lambda: predict(network, table, BATCH, trainer, path, Path(place))[1],
            "plain": plain,
        }
        seconds = in_turns(runs)
        ours = load_file(path)["embedding"][some].double()
    wanted = torch.cat(theirs).double()
    apart = float((ours @ ours.T - wanted @ wanted.T).abs().max())
    return [
        Compared(
            f"{model}: predict loop, {len(said)} sentences",
            seconds["loop"],
            "open_clip's encode_text",
            seconds["plain"],
            ASKED,
            f"cosines at most {apart:.0e} apart",
        )
    ]


def _sentences(count: int) -> list[str]:
    from src.stimuli import load

    cfg = job_config("model=toy_s", "words.count=null")
    found = load(cfg, "words").frame["sentence"].tolist()
    return [str(found[len(found) * number // count]) for number in range(count)]


def main() -> None:
    """Print what is found, as JSON."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.text_embedding")
    parser.add_argument("models", nargs="*", default=["clip_b32", "clip_l14"])
    parser.add_argument("--sentences", type=int, default=9600)
    asked = parser.parse_args()
    for model in asked.models:
        told(texts(model, asked.sentences))


if __name__ == "__main__":
    main()
