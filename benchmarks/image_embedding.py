"""Time the predict loop over pictures, beside the bare forward pass over tensors that are in memory already.

python -m benchmarks.image_embedding
python -m benchmarks.image_embedding clip_l14 --count 64 --side 448
python -m benchmarks.image_embedding clip_b32 clip_l14 blip2 --accelerator gpu --precision bf16 --compile
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from itertools import count as numbers
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.sizes import job_config
from benchmarks.timing import Compared, in_turns, seconds_of, turn_by_turn, turns
from src.errors import replace_unprintable

if TYPE_CHECKING:
    from src.stimuli import Table

BARE, ADDS = "bare forward pass", "what the loop adds"
# How many times as fast as the bare forward pass each should be at least.
LOOPS = {"predict loop, pictures resized before": 0.97, "predict loop, resizing them": 0.9}
# Dense bf16 TFLOP/s that NVIDIA's data sheets give, by what a device's name holds; the first that fits.
PEAKS = {"H200": 989, "H100 PCIe": 756, "H100": 989, "A100": 312}
# A shared machine is a twentieth faster in one pass than in the next.
TURNS = 5


def pictures(
    model: str,
    count: int,
    side: int = 224,
    accelerator: str = "cpu",
    precision: str = "fp32",
    compiled: bool = False,
) -> list[Compared]:
    """Time the loop, and what it adds by itself, which a busy machine blurs less.

    Args:
        model: a YAML of conf/model; its weights are random.
        count: number of pictures; they are drawn.
        side: pixels of a picture.
        accelerator: Lightning's.
        precision: of the towers.
        compiled: whether to time the forward pass as torch.compile makes it, too; compiling is not counted.
    """
    import torch

    from src import encoders
    from src.configs import AbstractConfig
    from src.demo import world
    from src.stimuli import checked

    torch.manual_seed(0)
    cfg = job_config(f"model={model}", "model.weights=random", f"model.precision={precision}")
    network: Any = encoders.blank(cfg)
    with TemporaryDirectory() as name:
        place = Path(name)
        drawn = world.scenes(AbstractConfig(count=count, size=side, noise=0.1, seed=0), place / "drawn")
        table = checked("scenes", drawn, "drawn")
        runs = dict(_runs(network, table, cfg.model.batch_size, accelerator, place, compiled))
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
        note = f"{rate}; {turn_by_turn(seconds, times[peer])}"
        yield Compared(f"{model}: {what}", min(seconds), peer, min(times[peer]), LOOPS.get(what), note)


def _rate(images: float, cfg: Any, accelerator: str) -> str:
    """Describe images a second of the bare forward pass, and the share of what the device can do."""
    from src.encoders import family_of

    teraflops = images * family_of(cfg.model).facts(cfg.model)["gflops_image"] / 1e3
    name, peak = _peak(accelerator)
    share = f", {teraflops / peak:.0%} of {name}" if peak else ""
    return f"bare: {images:.3g} images/s, {teraflops:.3g} TFLOP/s{share}"


def _peak(accelerator: str) -> tuple[str, float]:
    """Return a device's TFLOP/s: its maker's of a GPU, those of a matrix product of a CPU; 0: unknown."""
    import torch

    if _device(accelerator).type == "cuda":
        name = torch.cuda.get_device_name()
        peak = next((peak for part, peak in PEAKS.items() if part in name), 0)
        return f"the {peak} (dense bf16) of {name}", peak
    x = torch.randn(2048, 2048)
    seconds = in_turns({"product": lambda: seconds_of(lambda: x @ x)})["product"]
    return "a float32 matrix product", 2 * 2048**3 / seconds / 1e12


def _runs(
    network: Any, table: Table, batch_size: int, accelerator: str, place: Path, compiled: bool = False
) -> Iterator[tuple[str, Callable[[], float]]]:
    import torch

    from src import configs
    from src.embeddings import microbatches
    from src.embeddings.predict import predict
    from src.stimuli import pictures

    trainer, device = configs.TrainerConfig(accelerator=accelerator, workers=0), _device(accelerator)
    ready: Any = torch.stack([network.transform(pictures.read(path)) for path in table.frame["path"]])
    batches = [batch.to(device) for batch in ready.split(batch_size)]

    def bare(encode: Callable[[Any], Any]) -> float:
        network.to(device)

        def encode_all() -> None:
            with torch.inference_mode():
                for batch in batches:
                    encode(batch).cpu()

        return seconds_of(encode_all)

    def loop(encoder: Any, store: Callable[[], str]) -> float:
        return predict(encoder, table, batch_size, trainer, place / "vectors.safetensors", place / store())[1]

    yield f"{BARE} of batches", partial(bare, network.encode_images)
    if device.type == "cpu":
        with torch.inference_mode():
            few = microbatches.at_once(network.encode_images, ready[:1])
        encode = partial(microbatches.encoded, network.encode_images, most=few)
        yield f"{BARE} in the loop's passes", partial(bare, encode)
    fresh = map(str, numbers()).__next__
    for name, encoder in (("predict loop", network), (ADDS, _idle(network))):
        yield f"{name}, pictures resized before", partial(loop, encoder, lambda: "kept")
        yield f"{name}, resizing them", partial(loop, encoder, fresh)
    if compiled:
        yield "compiled forward pass", partial(bare, torch.compile(network.encode_images))


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


def main() -> None:
    """Print what is measured, a line of JSON per comparison."""
    replace_unprintable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_embedding")
    parser.add_argument("models", nargs="*", default=["clip_b32"])
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16", "fp16"])
    parser.add_argument("--compile", action="store_true", help="torch.compile's, too")
    given = parser.parse_args()
    for model in given.models:
        for row in pictures(
            model, given.count, given.side, given.accelerator, given.precision, given.compile
        ):
            print(json.dumps(asdict(row)), flush=True)


if __name__ == "__main__":
    main()
