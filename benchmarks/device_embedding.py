"""Time the embedding loop on a device, and its peer: the compiled forward pass over batches in its memory.

Its vectors are compared with the CPU's.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.image_embedding import idle_encoder, time_forward
from benchmarks.profiles import blip2_config
from benchmarks.sizes import GpuEncoder
from benchmarks.stand_ins import job_config
from benchmarks.text_embedding import sentence_table
from benchmarks.timing import min_seconds
from src import configs, encoders
from src.demo import world
from src.embeddings.predict import predict
from src.encoders import pretrained
from src.encoders.precision import encode_unit_vectors
from src.stimuli import Table, pictures

# Part of a device's name -> dense bf16 TFLOP/s in NVIDIA's data sheets; the first match counts.
PEAKS = {
    **{"H200 NVL": 835.0, "H200": 989.0, "H100 NVL": 835.0, "H100 PCIe": 756.0, "H100": 989.0},
    **{"A100": 312.0, "L40S": 362.0},
}
PRECISION = "bf16"
SIDE = 224  # width and height of a picture in pixels
# Names of runs. The difference between all and half of the stimuli excludes the start of the loop, which
# moves the network to the device and back.
BARE, COMPILED, LOOP, HOST = "forward pass", "compiled forward pass", "loop", "loop without forward pass"
HALF = ", half of the stimuli"
VECTORS = "vectors.safetensors"
# Function that runs the loop of an encoder over a table and returns its seconds.
Loop = Callable[[Any, Table], float]


def measure_encoder(size: GpuEncoder, device: torch.device) -> Iterator[dict[str, Any]]:
    """Compare the vectors of an encoder with the CPU's, and time it in bf16; its weights are random."""
    cfg = job_config(f"model={size.model}")
    network = build(cfg, PRECISION)
    with TemporaryDirectory() as name:
        folder = Path(name)
        tables = {"pictures": picture_table(size.pictures, size.compared, folder)}
        if size.sentences:
            tables["sentences"] = sentence_table(size.sentences)
        exact = build(cfg, "fp32")
        for kind, table in tables.items():
            errors = compare_vectors(network, exact, _first(table, size.compared), device, folder)
            yield {"what": f"{size.model}: {kind}, 1 - cosine", **errors}
        del exact
        for kind, table in tables.items():
            loop = partial(run_loop, batch_size=size.batch, device=device, folder=folder)
            runs = FORWARD[kind](network, table, size, device) | loop_runs(network, table, loop)
            for run in runs.values():  # not timed: networks are compiled, pictures are resized
                run()
            cost = _cost(cfg, device) if kind == "pictures" else {}
            speed = describe_speed(len(table.frame), min_seconds(runs, size.rounds), **cost)
            yield {"what": f"{size.model}: {kind}", "batch": size.batch, **speed}


def _cost(cfg: configs.RunConfig, device: torch.device) -> dict[str, float | None]:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"gflops": encoders.family_of(cfg.model).facts(cfg.model)["gflops_image"], "peak": find_peak(name)}


def build(cfg: configs.RunConfig, precision: str) -> Any:
    """Build the encoder of a config with random weights, without files of the hub."""
    if not isinstance(cfg.model, configs.Blip2Config):
        assert isinstance(cfg.model, configs.EncoderConfig)
        return encoders.build_untrained(replace(cfg, model=replace(cfg.model, precision=precision)))
    from transformers import Blip2ForImageTextRetrieval
    from transformers.models.blip.image_processing_pil_blip import BlipImageProcessorPil

    from src.encoders.blip2 import Blip2

    network = pretrained.build_seeded(lambda: Blip2ForImageTextRetrieval(blip2_config()))
    processor = BlipImageProcessorPil(size={"height": SIDE, "width": SIDE})
    return Blip2(network, processor, None, str(cfg.model.name), cfg.model.pooling, precision).eval()


def picture_table(count: int, distinct: int, folder: Path) -> Table:
    """Draw distinct pictures, and return a table that repeats them."""
    drawn = configs.AbstractConfig(count=distinct, size=SIDE, noise=0.1, seed=0)
    frame = world.draw_scenes(drawn, folder / "drawn")
    frame = frame.iloc[np.arange(count) % distinct].assign(id=[f"{number:06d}" for number in range(count)])
    return Table("scenes", frame.reset_index(drop=True), count)


def _first(table: Table, count: int) -> Table:
    return Table(table.role, table.frame.head(count), count)


def run_loop(encoder: Any, table: Table, batch_size: int, device: torch.device, folder: Path) -> float:
    """Embed a table into a file of a folder, and return the seconds that this took."""
    accelerator = "gpu" if device.type == "cuda" else device.type
    trainer = configs.TrainerConfig(accelerator=accelerator, workers=0)
    return predict(encoder, table, batch_size, trainer, folder / VECTORS, folder / "pictures")[1]


def compare_vectors(
    half: Any, single: Any, table: Table, device: torch.device, folder: Path
) -> dict[str, float]:
    """Return the largest 1 - cosine of vectors on a device, in bf16 and fp32, with those of a CPU in fp32."""

    def embed(network: Any, device: torch.device) -> Tensor:
        # Several batches, so that one is computed while another is copied.
        run_loop(network, table, max(1, len(table.frame) // 4), device, folder)
        return normalize(load_file(folder / VECTORS)["embedding"].double(), dim=-1)

    expected = embed(single, torch.device("cpu"))
    networks = {PRECISION: half, "fp32": single}
    return {
        precision: float((1 - (embed(network, device) * expected).sum(dim=-1)).max())
        for precision, network in networks.items()
    }


def picture_runs(
    network: Any, table: Table, size: GpuEncoder, device: torch.device
) -> dict[str, Callable[[], float]]:
    """Return runs of the forward pass over the batches of the loop, whose pictures repeat."""
    paths = table.frame["path"].head(size.compared)
    pixels = torch.stack([network.transform(pictures.read(path)) for path in paths]).to(device)
    batch = pixels.repeat(size.batch // size.compared, 1, 1, 1)
    batches = [batch] * (len(table.frame) // size.batch)
    return forward_runs(network, network.encode_images, batches, device)


def sentence_runs(
    network: Any, table: Table, size: GpuEncoder, device: torch.device
) -> dict[str, Callable[[], float]]:
    """Return runs of open_clip's `encode_text` over two batches, with seconds scaled up to all sentences."""
    rows = np.linspace(0, len(table.frame) - 1, 2 * size.batch).astype(int)
    tokens = network.tokenize(table.frame["sentence"].iloc[rows].tolist()).to(device)

    def encode(tokens: Tensor) -> Tensor:
        return encode_unit_vectors(network.model.encode_text, tokens, PRECISION)

    runs = forward_runs(network, encode, tokens.split(size.batch), device)
    return {name: partial(_scaled, run, len(table.frame) / len(rows)) for name, run in runs.items()}


# Kind of stimuli -> function that returns the runs of their forward pass.
FORWARD = {"pictures": picture_runs, "sentences": sentence_runs}


def _scaled(run: Callable[[], float], factor: float) -> float:
    return run() * factor


def forward_runs(
    network: Any, encode: Callable[[Tensor], Tensor], batches: Any, device: torch.device
) -> dict[str, Callable[[], float]]:
    """Return runs of a forward pass over batches on a device, as it is and compiled.

    On a CPU, where compiling takes minutes, the pass is only traced.
    """
    compiled = torch.compile(encode, backend="inductor" if device.type == "cuda" else "eager")

    def run(encode: Callable[[Tensor], Tensor]) -> float:
        network.to(device)  # Lightning moves it back
        return time_forward(encode, batches)

    return {BARE: partial(run, encode), COMPILED: partial(run, compiled)}


def loop_runs(network: Any, table: Table, loop: Loop) -> dict[str, Callable[[], float]]:
    """Return runs of the loop with and without the forward pass, over all and over half of the stimuli."""
    half = _first(table, len(table.frame) // 2)
    return {
        LOOP: partial(loop, network, table),
        LOOP + HALF: partial(loop, network, half),
        HOST: partial(loop, idle_encoder(network), table),
        HOST + HALF: partial(loop, idle_encoder(network), half),
    }


def describe_speed(
    count: int, seconds: Mapping[str, float], gflops: float | None = None, peak: float | None = None
) -> dict[str, Any]:
    """Describe the speed of the loop and of its forward pass.

    Args:
        count: number of stimuli.
        seconds: seconds of each run over all stimuli, or over half of them (`HALF`).
        gflops: GFLOPs of a picture.
        peak: peak TFLOP/s of the device; None: unknown.

    Returns:
        Stimuli per second after the start of the loop (`per_second`), of the loop without its forward pass
        (`host_per_second`) and of both forward passes; shares. None: unknown, or too few stimuli to tell.
    """
    loop, host = (_rate(count / 2, seconds[name] - seconds[name + HALF]) for name in (LOOP, HOST))
    bare, compiled = (_rate(count, seconds[name]) for name in (BARE, COMPILED))
    teraflops = loop * gflops / 1e3 if loop and gflops else None
    return {
        "count": count,
        "per_second": loop,
        "forward_per_second": bare,
        "compiled_per_second": compiled,
        "host_per_second": host,
        "share_of_compiled": loop / compiled if loop and compiled else None,
        # Share of the loop's time in which the device waits: for data, or until vectors are copied.
        "waiting_share": max(0.0, 1 - loop / bare) if loop and bare else None,
        "loader_limits": host < bare if host and bare else None,
        "start_seconds": 2 * seconds[LOOP + HALF] - seconds[LOOP],
        "teraflops": teraflops,
        "peak_teraflops": peak,
        "share_of_peak": teraflops / peak if teraflops and peak else None,
        "seconds": dict(seconds),
    }


def _rate(count: float, seconds: float) -> float | None:
    return count / seconds if seconds > 0 else None


def find_peak(device_name: str) -> float | None:
    """Return the peak of a device in dense bf16, TFLOP/s; None if it is unknown.

    >>> find_peak("NVIDIA H100 PCIe"), find_peak("cpu")
    (756.0, None)
    """
    return next((peak for name, peak in PEAKS.items() if name in device_name), None)
