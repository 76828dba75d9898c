"""Time the predict loop over pictures, and its peer: the bare forward pass over tensors in memory.

python -m benchmarks.image_embedding
python -m benchmarks.image_embedding clip_l14 --count 64 --side 448
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count as numbers
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.stand_ins import job_config
from benchmarks.timing import Comparison, describe_speedups, min_seconds, seconds_by_round, seconds_of
from src import configs, encoders
from src.demo import world
from src.embeddings.batches import encode_in_microbatches, measure_microbatch_size
from src.embeddings.predict import predict
from src.errors import replace_unprintable
from src.stimuli import Table, build_table, pictures

# First words of the names of two kinds of runs.
BARE, ADDS = "bare forward pass", "what the loop adds"
# Minimum speedups over the bare forward pass.
MIN_SPEEDUPS = {"predict loop, pictures resized before": 0.97, "predict loop, resizing them": 0.9}
# Number of rounds: on a shared machine, times of the same pass differ by a twentieth.
ROUNDS = 5


def time_pictures(model: str, count: int, side: int = 224, precision: str = "fp32") -> list[Comparison]:
    """Time the predict loop on a CPU, and its overhead alone, which varies less on a busy machine.

    The model of conf/model has random weights; `count` pictures of `side` pixels are drawn at random.
    """
    torch.manual_seed(0)
    cfg = job_config(f"model={model}", "model.weights=random", f"model.precision={precision}")
    network: Any = encoders.build_untrained(cfg)
    with TemporaryDirectory() as name:
        folder = Path(name)
        frame = world.draw_scenes(
            configs.AbstractConfig(count=count, size=side, noise=0.1, seed=0), folder / "drawn"
        )
        table = build_table("scenes", frame, "drawn")
        runs = dict(_runs(network, table, cfg.model.batch_size, folder))
        for run in runs.values():  # not timed: libraries are loaded, memory is allocated
            run()
        times = seconds_by_round(runs, ROUNDS)
    fastest = min(min(seconds) for name, seconds in times.items() if name.startswith(BARE))
    return list(_rows(model, times, _rate(count / fastest, cfg)))


def _rows(model: str, times: Mapping[str, list[float]], rate: str) -> Iterator[Comparison]:
    """Compare each run, by its seconds per round, with the bare forward passes; notes begin with `rate`."""
    bare = [name for name in times if name.startswith(BARE)]
    extra = [(name, bare[-1]) for name in times if name.startswith(ADDS)]
    for what, peer in [*product([name for name in times if not name.startswith((BARE, ADDS))], bare), *extra]:
        seconds = times[what]
        if what.startswith(ADDS):
            # These seconds are of a loop without a forward pass: add those of the bare forward pass.
            seconds = [forward + added for forward, added in zip(times[peer], seconds, strict=True)]
        note = f"{rate}; {describe_speedups(seconds, times[peer])}"
        yield Comparison(
            f"{model}: {what}", min(seconds), peer, min(times[peer]), MIN_SPEEDUPS.get(what), note
        )


def _rate(images: float, cfg: Any) -> str:
    """Describe the images per second of the bare forward pass, and its share of a measured peak."""
    teraflops = images * encoders.family_of(cfg.model).facts(cfg.model)["gflops_image"] / 1e3
    x = torch.randn(2048, 2048)
    seconds = min_seconds({"product": lambda: seconds_of(lambda: x @ x)})["product"]
    share = teraflops / (2 * 2048**3 / seconds / 1e12)
    return f"bare: {images:.3g} images/s, {teraflops:.3g} TFLOP/s, {share:.0%} of a float32 matrix product"


def _runs(
    network: Any, table: Table, batch_size: int, folder: Path
) -> Iterator[tuple[str, Callable[[], float]]]:
    """Yield the name of each run, and a function that does it and returns its seconds."""
    trainer, path = configs.TrainerConfig(accelerator="cpu", workers=0), folder / "vectors.safetensors"
    pixels: Any = torch.stack([network.transform(pictures.read(path)) for path in table.frame["path"]])
    bare = partial(time_forward, batches=pixels.split(batch_size))

    # `store` returns the name of the folder of resized pictures: the same one each time, or a new one.
    def loop(encoder: Any, store: Callable[[], str]) -> float:
        return predict(encoder, table, batch_size, trainer, path, folder / store())[1]

    yield f"{BARE} of batches", partial(bare, network.encode_images)
    with torch.inference_mode():
        size = measure_microbatch_size(network.encode_images, pixels[:1])
    encode = partial(encode_in_microbatches, network.encode_images, size=size)
    yield f"{BARE} in the loop's passes", partial(bare, encode)
    new_name = map(str, numbers()).__next__
    for name, encoder in (("predict loop", network), (ADDS, idle_encoder(network))):
        yield f"{name}, pictures resized before", partial(loop, encoder, lambda: "same")
        yield f"{name}, resizing them", partial(loop, encoder, new_name)


def time_forward(encode: Callable[[Any], Any], batches: Sequence[Any]) -> float:
    """Time the forward pass over batches in memory, until all vectors are in the CPU's memory."""

    def encode_all() -> None:
        with torch.inference_mode():
            # A GPU computes all batches before the first copy.
            for vectors in [encode(batch) for batch in batches]:
                vectors.cpu()

    return seconds_of(encode_all)


def idle_encoder(network: Any) -> Any:
    """Return an encoder with a network's preprocessing whose forward pass takes hardly any time."""

    class Idle(torch.nn.Module):
        transform, split_preprocessing = network.transform, network.split_preprocessing
        tokenize, count_relevant_tokens = network.tokenize, network.count_relevant_tokens

        def encode_images(self, pixels: Any) -> Any:
            return pixels[:, 0, 0]

        def encode_texts(self, tokens: Any) -> Any:
            return tokens[:, :1].float()

    return Idle()


def main() -> None:
    """Print a line of JSON per comparison."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_embedding")
    parser.add_argument("models", nargs="*", default=["clip_b32"], help="names of YAML files in conf/model")
    parser.add_argument("--count", type=int, default=256, help="number of pictures")
    parser.add_argument("--side", type=int, default=224, help="width and height of a picture in pixels")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    options = parser.parse_args()
    for model in options.models:
        for row in time_pictures(model, options.count, options.side, options.precision):
            print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
