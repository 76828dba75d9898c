"""Compare the predict loop in bf16 on a CPU with the bare module in bf16 and with the loop in float32."""

from copy import deepcopy
from functools import partial
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file

from benchmarks.image_embedding import time_forward
from benchmarks.stand_ins import job_config
from benchmarks.text_embedding import sentence_table
from benchmarks.timing import Comparison, min_seconds
from src import configs, encoders
from src.demo import world
from src.embeddings.predict import predict
from src.stimuli import build_table, pictures

# Instructions with which a CPU computes in bf16. A CPU without them does 1/DIVISOR of the work.
INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
DIVISOR = 32
# Names of the runs; (run, peer, minimum speedup), where the peer None is the same run in float32.
WARM, COLD, TEXTS = "pictures resized before", "resizing pictures", "sentences"
BARE = "bare module in bf16"
PEERS = ((WARM, BARE, 0.8), (WARM, None, 4), (COLD, None, 3), (TEXTS, None, 1.5))


def time_half_precision(model: str, images: int, sentences: int) -> list[Comparison]:
    """Time a model of conf/model with random weights in bf16 and in float32, on a CPU.

    `images` and `sentences` are counts for a CPU with `INSTRUCTIONS`.
    """
    supported = torch.cpu.get_capabilities()
    if not any(supported.get(name) for name in INSTRUCTIONS):
        images, sentences = max(1, images // DIVISOR), max(1, sentences // DIVISOR)
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0)
    batch_size = job_config(f"model={model}").model.batch_size
    networks: dict[str, Any] = {}
    for precision in ("bf16", "fp32"):
        torch.manual_seed(0)
        cfg = job_config(f"model={model}", "model.weights=random", f"model.precision={precision}")
        networks[precision] = encoders.build_untrained(cfg)
    with TemporaryDirectory() as name:
        folder = Path(name)
        drawn = configs.AbstractConfig(count=images, size=224, noise=0.1, seed=0)
        tables = {"scenes": build_table("scenes", world.draw_scenes(drawn, folder / "drawn"), "drawn")}
        tables["words"] = sentence_table(sentences)
        new_name = map(str, numbers()).__next__

        def loop(precision: str, run: str) -> float:
            network, table = networks[precision], tables["words" if run == TEXTS else "scenes"]
            store = folder / (new_name() if run == COLD else "same")
            return predict(network, table, batch_size, trainer, folder / f"{precision} {run}", store)[1]

        paths = tables["scenes"].frame["path"]
        pixels: Any = torch.stack([networks["fp32"].transform(pictures.read(path)) for path in paths])
        bare = deepcopy(networks["fp32"].model).bfloat16().encode_image
        runs = {
            (precision, run): partial(loop, precision, run)
            for precision in networks
            for run in (WARM, COLD, TEXTS)
        }
        runs["bf16", BARE] = partial(time_forward, bare, pixels.bfloat16().split(batch_size))
        for run in runs.values():  # not timed: libraries are loaded, pictures are resized
            run()
        names = {f"{precision}, {run}": call for (precision, run), call in runs.items()}
        seconds = min_seconds(names)
        differences = {run: _difference(folder, run) for run in (WARM, COLD, TEXTS)}
    counts = {WARM: images, COLD: images, TEXTS: sentences}
    return [
        Comparison(
            f"{model}: predict loop in bf16, {counts[run]} {run}",
            seconds[f"bf16, {run}"],
            peer or "the same in float32",
            seconds[f"bf16, {peer}" if peer else f"fp32, {run}"],
            limit,
            f"1 - cosine with float32 at most {differences[run]:.0e}",
        )
        for run, peer, limit in PEERS
    ]


def _difference(folder: Path, run: str) -> float:
    """Return the largest 1 - cosine of the vectors in bf16 with those in float32."""
    half, single = (
        load_file(folder / f"{precision} {run}")["embedding"].double() for precision in ("bf16", "fp32")
    )
    return float((1 - torch.nn.functional.cosine_similarity(half, single)).max())
