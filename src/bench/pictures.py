"""The predict loop over pictures, beside the bare forward pass over tensors that are in memory already.

python -m src.bench.pictures
python -m src.bench.pictures --architecture ViT-L-14 --count 64 --side 448
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from src.encoders import Network
    from src.stimuli import Table

REPEATS = 3


def pictures(
    architecture: str, count: int, side: int, batch_size: int, accelerator: str, precision: str
) -> list[dict[str, Any]]:
    """The loop and its parts: in turns, the least of several times.

    Args:
        architecture: of open_clip; its weights are random.
        count: of pictures; they are drawn.
        side: of a picture, pixels.
        batch_size: pictures per forward pass.
        accelerator: Lightning's.
        precision: of the towers.

    Returns:
        Rows: `what`; `seconds`; `share` of the bare forward pass in its own time and what the loop adds. The
        last two rows time what it adds by itself, which a busy machine blurs less.
    """
    import torch

    torch.manual_seed(0)
    network = _network(architecture, precision)
    with TemporaryDirectory() as place:
        table = _table(Path(place), count, side)
        runs = dict(_runs(network, table, batch_size, accelerator, Path(place)))
        for run in runs.values():  # once unmeasured: libraries are loaded, memory is had
            run()
        times = [[run() for run in runs.values()] for _ in range(REPEATS)]
    bare, *least = (min(own) for own in zip(*times, strict=True))
    # A loop without a forward pass is one with it, less it.
    whole = [bare, *least[:2], *(bare + added for added in least[2:])]
    return [
        {"what": f"{architecture}: {what}", "seconds": seconds, "share": bare / all_of_it}
        for what, seconds, all_of_it in zip(runs, [bare, *least], whole, strict=True)
    ]


def _runs(
    network: Network, table: Table, batch_size: int, accelerator: str, place: Path
) -> Iterator[tuple[str, Callable[[], float]]]:
    from src import configs
    from src.embeddings.predict import predict

    trainer = configs.TrainerConfig(accelerator=accelerator, workers=0)
    fresh = (str(number) for number in numbers())

    def loop(store: Path, shown: Any = network) -> float:
        return predict(shown, table, batch_size, trainer, place / "vectors.safetensors", store)[1]

    idle = _idle(network)
    yield "bare forward pass", _bare(network, table, batch_size, accelerator)
    yield "predict loop, pictures resized before", lambda: loop(place / "kept")
    yield "predict loop, resizing them", lambda: loop(place / next(fresh))
    yield "the loop without a forward pass, pictures resized before", lambda: loop(place / "kept", idle)
    yield "the loop without a forward pass, resizing them", lambda: loop(place / next(fresh), idle)


def _bare(network: Any, table: Table, batch_size: int, accelerator: str) -> Callable[[], float]:
    import torch

    from src.stimuli import pictures

    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    ready: Any = torch.stack([network.transform(pictures.read(path)) for path in table.frame["path"]])
    batches = [batch.to(device) for batch in ready.split(batch_size)]

    def run() -> float:
        network.to(device)
        start = time.perf_counter()
        with torch.inference_mode():
            for batch in batches:
                network.encode_images(batch).cpu()
        return time.perf_counter() - start

    return run


def _idle(network: Any) -> Any:
    import torch

    class Idle(torch.nn.Module):
        transform, halves = network.transform, network.halves

        def encode_images(self, pixels: Any) -> Any:
            return pixels[:, 0, 0]

        encode_texts = encode_images

    return Idle()


def _network(architecture: str, precision: str) -> Network:
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    from src.encoders.openclip import OpenClip

    model: Any = open_clip.create_model(architecture)
    transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return OpenClip(model.eval(), transform, None, architecture, precision).eval()


def _table(place: Path, count: int, side: int) -> Table:
    from src.demo import world
    from src.stimuli import checked

    frame = world.scenes(place / "drawn", count=count, size=side, noise=0.1, seed=0)
    return checked("scenes", frame, "drawn")


def main() -> None:
    """Print what is found, as JSON."""
    parser = argparse.ArgumentParser(prog="python -m src.bench.pictures")
    parser.add_argument("--architecture", default="ViT-B-32")
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    for row in pictures(**vars(parser.parse_args())):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
