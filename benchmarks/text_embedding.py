"""Time sentences in six templates: the predict loop beside open_clip's `encode_text`, of the same weights."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.sizes import job_config
from benchmarks.timing import Compared, in_turns, seconds_of

BATCH = 64
# Sentences that open_clip is shown: its seconds are scaled up to all.
SHOWN = 192
ASKED = 20


def texts(model: str, sentences: int) -> list[Compared]:
    """Time one model with random weights, on a CPU, in float32.

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

    def encode() -> None:
        with torch.inference_mode():
            theirs[:] = [network.model.encode_text(one, normalize=True) for one in tokens[some].split(BATCH)]

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "vectors.safetensors"
        runs = {
            "loop": lambda: predict(network, table, BATCH, trainer, path, Path(place))[1],
            "plain": lambda: seconds_of(encode) * len(said) / len(some),
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
