"""What models would cost on data of any size, on paper: rates, measured or assumed, multiplied out.

python -m benchmarks.costs
python -m benchmarks.costs --cpu 60 --gpu 400
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.rates import Rates, measured, predicted
from benchmarks.sizes import job_config
from src.configs import CHECKOUT
from src.errors import replace_unprintable

RESULTS = CHECKOUT / "benchmarks" / "results"
MODELS = ("clip_b32", "clip_l14", "openclip_h14", "siglip2_b16", "blip2")
# Vectors that BLIP-2 has of an image; bytes of a picture of 224 pixels; tokens that fill a context.
QUERIES, PICTURE, CONTEXT = 32, 3 * 224**2, 77
# What the analysis takes of its own beside vectors on disk: a tile, a block, what is nearest, an interpreter.
ANALYSIS = 1.0e9


@dataclass(frozen=True)
class Data:
    """How much is shown.

    Attributes:
        name: of the data.
        images, texts: how many.
        tokens: of a text, on average.
        analysis: what is analysed.
        similarities: of images and texts that it takes.
        targets: of all its experiments.
        corpus: rows of its largest corpus.
    """

    name: str
    images: float
    texts: float
    tokens: int
    analysis: str
    similarities: float
    targets: float
    corpus: float


WORDS, LABELS, FACES = 120_000, 5184, 86_744
BOTH = 2 * FACES * LABELS, FACES + LABELS
IMAGES, TEXTS, K = 6000 + 900, WORDS + LABELS, 500
# Images are shown to words and to labels, texts to faces and to scenes.
PAPER = 2 * IMAGES * TEXTS, 2 * (IMAGES + TEXTS)
DATA = (
    Data("the paper", IMAGES, TEXTS, 9, "eight experiments", *PAPER, WORDS),
    Data("FairFace", FACES, LABELS, 9, "faces and labels, both ways", *BOTH, FACES),
    Data("LAION, a tenth of a billion", 1e8, 1e8, 20, "labels to faces", 1e8 * LABELS, LABELS, 1e8),
    Data("LAION, a billion", 1e9, 1e9, 20, "labels to faces", 1e9 * LABELS, LABELS, 1e9),
)


@dataclass(frozen=True)
class Model:
    """What a model takes.

    Attributes:
        name: its YAML's.
        parameters: how many.
        image, text: GFLOPs of an image, and of a text that fills the context.
        width, vectors: of an image's vectors.
    """

    name: str
    parameters: float
    image: float
    text: float
    width: int
    vectors: int


@dataclass(frozen=True)
class Cost:
    """Of one model on one data set; seconds and bytes.

    Attributes:
        cpu, gpu: seconds of embedding on two cores, or on one GPU.
        vectors, pictures: on disk.
        analysis: seconds of one core.
        memory: the larger of what embedding and analysis take.
    """

    cpu: float
    gpu: float
    vectors: float
    pictures: float
    analysis: float
    memory: float


def models() -> Iterator[Model]:
    """Those of conf/model that others trained."""
    from src import configs
    from src.encoders.catalogue import profile_of
    from src.encoders.protocol import family_of

    for name in MODELS:
        chosen = job_config(f"model={name}").model
        assert isinstance(chosen, configs.PretrainedConfig)
        family = family_of(chosen)
        known, profile = family.facts(chosen), profile_of(chosen.id)
        vectors = QUERIES if family.several(chosen, "faces") else 1
        own = 1e6 * known["parameters_millions"], known["gflops_image"], float(profile["gflops_text"])
        yield Model(name, *own, int(profile["width"]), vectors)


def cost(model: Model, data: Data, rates: Rates) -> Cost:
    """What a model takes on a data set. A text costs as many of its tower's FLOPs as it has tokens."""
    flops = 1e9 * (data.images * model.image + data.texts * model.text * data.tokens / CONTEXT)
    return Cost(
        cpu=flops / (1e9 * rates.cpu),
        gpu=flops / (1e12 * rates.gpu),
        vectors=4 * model.width * (data.images * model.vectors + data.texts),
        pictures=PICTURE * data.images,
        analysis=rates.analysis(data.similarities, model.width, model.vectors, data.targets * K),
        memory=max(4 * model.parameters + ANALYSIS, ANALYSIS + rates.row * data.corpus),
    )


def table(rates: Rates) -> str:
    """All models on all data, as Markdown."""
    lines = [
        "| data | model | GFLOP an image, a full text | embed: two cores | one GPU | vectors | pictures "
        "| memory | analysis: one core |",
        "|---" * 9 + "|",
    ]
    chosen = list(models())
    for data in DATA:
        for model in chosen:
            found = cost(model, data, rates)
            cells = [data.name, model.name, f"{model.image:.1f}, {model.text:.1f}", time_of(found.cpu)]
            cells += [time_of(found.gpu), size_of(found.vectors), size_of(found.pictures)]
            cells += [size_of(found.memory), f"{time_of(found.analysis)} ({data.analysis})"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def time_of(seconds: float) -> str:
    """Seconds in the largest unit of which there are two.

    >>> time_of(100), time_of(7300), time_of(9e8)
    ('100 s', '2.0 h', '29 years')
    """
    for name, unit in (("years", 365.25 * 86_400), ("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.{0 if seconds >= 10 * unit else 1}f} {name}"
    return f"{seconds:.0f} s"


def size_of(count: float) -> str:
    """Bytes in the largest unit of which there is one.

    >>> size_of(2.5e8), size_of(1.5e14)
    ('250 MB', '150 TB')
    """
    unit, name = next(
        ((unit, name) for unit, name in ((1e12, "TB"), (1e9, "GB")) if count >= unit), (1e6, "MB")
    )
    return f"{count / unit:.{0 if count >= 10 * unit else 1}f} {name}"


def compared(rates: Rates) -> str:
    """What the rates say of the experiments that were measured, as Markdown."""
    lines = ["| measured | seconds | on paper |", "|---" * 3 + "|"]
    for found in predicted(RESULTS, rates):
        lines.append(f"| {found.what} | {found.measured:.1f} | {found.said:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table, what was measured, and what the rates say of that."""
    replace_unprintable()
    default = Rates()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.costs")
    parser.add_argument("--cpu", type=float, default=default.cpu, help="GFLOP/s of a forward pass, two cores")
    parser.add_argument("--gpu", type=float, default=default.gpu, help="TFLOP/s of a forward pass, one GPU")
    parser.add_argument("--product", type=float, default=default.product, help="GFLOP/s of products, a core")
    asked = parser.parse_args()
    rates = Rates(asked.cpu, asked.gpu, asked.product)
    print(table(rates), f"As measured: {measured(RESULTS)}", compared(rates), sep="\n\n")


if __name__ == "__main__":
    main()
