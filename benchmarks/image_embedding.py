"""The predict loop over pictures, beside the bare forward pass over tensors that are in memory already.

python -m benchmarks.image_embedding
python -m benchmarks.image_embedding clip_l14 --count 64 --side 448
python -m benchmarks.image_embedding clip_b32 clip_l14 blip2 --accelerator gpu --precision bf16 --compile
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from itertools import count as numbers
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.sizes import job_config
from benchmarks.timing import Compared, in_turns, seconds_of, told, turn_by_turn, turns
from src.errors import replace_unprintable

if TYPE_CHECKING:
    from src.encoders import Network
    from src.stimuli import Table

# Of the bare forward pass: with pictures resized before, and while resizing.
ASKED = (0.97, 0.9)
BARE, ADDS = "bare forward pass", "what the loop adds"
LOOPS = ("predict loop, pictures resized before", "predict loop, resizing them")
# Dense bf16 TFLOP/s that NVIDIA's data sheets give, by what a device's name holds; the first that fits.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312}
# A shared machine is a twentieth faster in one pass than in the next.
TURNS = 5


def pictures(
    model: str, count: int, side: int, accelerator: str, precision: str, compiled: bool = False
) -> list[Compared]:
    """The loop, and what it adds by itself, which a busy machine blurs less.

    Args:
        model: a YAML of conf/model; its weights are random.
        count: of pictures; they are drawn.
        side: of a picture, pixels.
        accelerator: Lightning's.
        precision: of the towers.
        compiled: the forward pass as torch.compile makes it, too; compiling is not counted.
    """
    import torch

    from src import encoders

    torch.manual_seed(0)
    cfg = job_config(f"model={model}", "model.weights=random", f"model.precision={precision}")
    network: Any = encoders.blank(cfg)
    with TemporaryDirectory() as place:
        table = _table(Path(place), count, side)
        runs = dict(_runs(network, table, cfg.model.batch_size, accelerator, Path(place)))
        if compiled:
            own = _bare(
                network, table, cfg.model.batch_size, accelerator, torch.compile(network.encode_images)
            )
            runs["compiled forward pass"] = own
        for run in runs.values():  # once unmeasured: libraries are loaded, memory is had
            run()
        times = turns(runs, TURNS)
    fastest = min(min(own) for name, own in times.items() if name.startswith(BARE))
    return list(_rows(model, times, _rate(count / fastest, cfg, accelerator)))


def _rows(model: str, times: Mapping[str, list[float]], rate: str) -> Iterator[Compared]:
    bare = [name for name in times if name.startswith(BARE)]
    adds = [(name, bare[-1]) for name in times if name.startswith(ADDS)]
    for what, peer in [*product([name for name in times if not name.startswith((BARE, ADDS))], bare), *adds]:
        seconds = times[what]
        if what.startswith(ADDS):
            # A loop without a forward pass is one with it, less it.
            seconds = [forward + added for forward, added in zip(times[peer], seconds, strict=True)]
        asked = dict(zip(LOOPS, ASKED, strict=True)).get(what)
        note = f"{rate}; {turn_by_turn(seconds, times[peer])}"
        yield Compared(f"{model}: {what}", min(seconds), peer, min(times[peer]), asked, note)


def _rate(images: float, cfg: Any, accelerator: str) -> str:
    """Images a second of the bare forward pass, and how much of what the device can that is."""
    from src.encoders import family_of

    teraflops = images * family_of(cfg.model).facts(cfg.model)["gflops_image"] / 1e3
    name, peak = _peak(accelerator)
    share = f", {teraflops / peak:.0%} of {name}" if peak else ""
    return f"bare: {images:.3g} images/s, {teraflops:.3g} TFLOP/s{share}"


def _peak(accelerator: str) -> tuple[str, float]:
    """A device's TFLOP/s: of a GPU its maker's, of a CPU those of a product of matrices; 0: unknown."""
    import torch

    if _device(accelerator).type == "cuda":
        name = torch.cuda.get_device_name()
        found = next((peak for part, peak in PEAKS.items() if part in name), 0)
        return f"the {found} (dense bf16) of {name}", found
    x = torch.randn(2048, 2048)
    seconds = in_turns({"product": lambda: seconds_of(lambda: x @ x)})["product"]
    return "a float32 matrix product", 2 * 2048**3 / seconds / 1e12


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
    yield f"{BARE} of batches", _bare(network, table, batch_size, accelerator)
    if _device(accelerator).type == "cpu":
        few = _in_passes(network, table)
        yield f"{BARE} in the loop's passes", _bare(network, table, batch_size, accelerator, few)
    yield LOOPS[0], lambda: loop(place / "kept")
    yield LOOPS[1], lambda: loop(place / next(fresh))
    yield f"{ADDS}, pictures resized before", lambda: loop(place / "kept", idle)
    yield f"{ADDS}, resizing them", lambda: loop(place / next(fresh), idle)


def _in_passes(network: Any, table: Table) -> Callable[[Any], Any]:
    """The forward pass of a batch, of as many pictures at a time as the loop shows a CPU."""
    import torch

    from src.embeddings import microbatches
    from src.stimuli import pictures

    one = network.transform(pictures.read(table.frame["path"].iloc[0]))
    with torch.inference_mode():
        most = microbatches.at_once(network.encode_images, one[None])
    return lambda batch: microbatches.encoded(network.encode_images, batch, most)


def _bare(
    network: Any, table: Table, batch_size: int, accelerator: str, encode: Callable[[Any], Any] | None = None
) -> Callable[[], float]:
    import torch

    from src.stimuli import pictures

    device = _device(accelerator)
    ready: Any = torch.stack([network.transform(pictures.read(path)) for path in table.frame["path"]])
    batches = [batch.to(device) for batch in ready.split(batch_size)]
    forward = encode or network.encode_images

    def shown() -> None:
        with torch.inference_mode():
            for batch in batches:
                forward(batch).cpu()

    def run() -> float:
        network.to(device)
        return seconds_of(shown)

    return run


def _device(accelerator: str) -> Any:
    import torch

    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")


def _idle(network: Any) -> Any:
    import torch

    class Idle(torch.nn.Module):
        transform, halves = network.transform, network.halves

        def encode_images(self, pixels: Any) -> Any:
            return pixels[:, 0, 0]

        encode_texts = encode_images

    return Idle()


def _table(place: Path, count: int, side: int) -> Table:
    from src.demo import world
    from src.stimuli import checked

    frame = world.scenes(place / "drawn", count=count, size=side, noise=0.1, seed=0)
    return checked("scenes", frame, "drawn")


def main() -> None:
    """Print what is found, as JSON."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_embedding")
    parser.add_argument("models", nargs="*", default=["clip_b32"])
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument(
        "--compile", action="store_true", help="the forward pass as torch.compile makes it, too"
    )
    asked = parser.parse_args()
    for model in asked.models:
        told(pictures(model, asked.count, asked.side, asked.accelerator, asked.precision, asked.compile))


if __name__ == "__main__":
    main()
