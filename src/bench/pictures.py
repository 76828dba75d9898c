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
        Rows: `what`; `seconds`; `ratio`, the share of it that the bare forward pass takes.
    """
    import torch

    torch.manual_seed(0)
    network = _network(architecture, precision)
    with TemporaryDirectory() as place:
        table = _table(Path(place), count, side)
        sides = dict(_sides(network, table, batch_size, accelerator, Path(place)))
        for side_ in sides.values():  # once unmeasured: libraries are loaded, memory is had
            side_()
        times = [[side_() for side_ in sides.values()] for _ in range(REPEATS)]
    least = [min(own) for own in zip(*times, strict=True)]
    return [
        {"what": f"{architecture}: {what}", "seconds": seconds, "ratio": least[0] / seconds}
        for what, seconds in zip(sides, least, strict=True)
    ]


def _sides(
    network: Network, table: Table, batch_size: int, accelerator: str, place: Path
) -> Iterator[tuple[str, Callable[[], float]]]:
    from src import configs
    from src.embeddings.predict import predict

    trainer = configs.TrainerConfig(accelerator=accelerator, workers=0)
    fresh = (str(number) for number in numbers())

    def loop(store: Path) -> float:
        return predict(network, table, batch_size, trainer, place / "vectors.safetensors", store)[1]

    yield "bare forward pass", _bare(network, table, batch_size, accelerator)
    yield "predict loop, pictures resized before", lambda: loop(place / "kept")
    yield "predict loop, resizing them", lambda: loop(place / next(fresh))
    yield "resizing alone", lambda: _resizing(network, table, place / next(fresh))


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


def _resizing(network: Network, table: Table, store: Path) -> float:
    from src.embeddings import pixels

    split = network.halves()
    assert split is not None
    start = time.perf_counter()
    pixels.resized(table, split, store)
    return time.perf_counter() - start


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
