"""The predict loop over pictures, beside the bare forward pass over tensors that are in memory already.

python -m src.bench.pictures
python -m src.bench.pictures --architecture ViT-L-14 --count 64 --side 448
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import count as numbers
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from src.bench.compared import Compared, in_turns, told

if TYPE_CHECKING:
    from src.encoders import Network
    from src.stimuli import Table

# Of the bare forward pass: with pictures resized before, and while resizing.
ASKED = (0.97, 0.9)


def pictures(
    architecture: str, count: int, side: int, batch_size: int, accelerator: str, precision: str
) -> list[Compared]:
    """The loop, and what it adds by itself, which a busy machine blurs less.

    Args:
        architecture: of open_clip; its weights are random.
        count: of pictures; they are drawn.
        side: of a picture, pixels.
        batch_size: pictures per forward pass.
        accelerator: Lightning's.
        precision: of the towers.
    """
    import torch

    torch.manual_seed(0)
    network = _network(architecture, precision)
    with TemporaryDirectory() as place:
        table = _table(Path(place), count, side)
        runs = dict(_runs(network, table, batch_size, accelerator, Path(place)))
        for run in runs.values():  # once unmeasured: libraries are loaded, memory is had
            run()
        (_, bare), *others = in_turns(runs).items()
    rows = []
    for number, (what, seconds) in enumerate(others):
        # A loop without a forward pass is one with it, less it.
        added = number >= len(ASKED)
        whole = bare + seconds if added else seconds
        asked = None if added else ASKED[number]
        rows.append(Compared(f"{architecture}: {what}", whole, "bare forward pass", bare, asked))
    return rows


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
    yield "what the loop adds, pictures resized before", lambda: loop(place / "kept", idle)
    yield "what the loop adds, resizing them", lambda: loop(place / next(fresh), idle)


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
    told(pictures(**vars(parser.parse_args())))


if __name__ == "__main__":
    main()
