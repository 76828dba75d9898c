"""Both scores of every face at the paper's size, and the bare arithmetic of the same shapes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from src.bench.sizes import BLOCK, TEMPLATES, Size


def _random(size: Size, dtype: str) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    unit = torch.nn.functional.normalize
    shapes = (size.paper_faces, size.width), (TEMPLATES * size.paper_words, size.width)
    faces, words = (unit(torch.randn(*shape, generator=generator), dim=1) for shape in shapes)
    return faces.to(getattr(torch, dtype)), words.to(getattr(torch, dtype))


def _analysis(size: Size) -> float:
    import numpy as np

    from src.experiments.attributes import Pool
    from src.experiments.looks import Scores, looks

    faces, words = _random(size, "float32")
    valence = np.random.default_rng(0).uniform(size=(size.paper_words, 1))
    order = np.argsort(valence[:, 0])
    rows = np.arange(size.paper_words)
    found = [
        Pool(rows + number * size.paper_words, str(number), [order[-25:]], [order[:25]], valence, size.k)
        for number in range(TEMPLATES)
    ]
    start = time.perf_counter()
    scores = Scores(len(faces), found, 1)
    for look in looks(faces, words, found):
        scores.see(look)
    return time.perf_counter() - start


def _product(size: Size, dtype: str) -> float:
    faces, words = _random(size, dtype)
    start = time.perf_counter()
    for block in faces.split(BLOCK):
        for template in words.split(size.paper_words):
            block @ template.T
    return time.perf_counter() - start


def _top_k(size: Size, dtype: str) -> float:
    import torch

    generator = torch.Generator().manual_seed(0)
    near = torch.rand(BLOCK, size.paper_words, generator=generator).to(getattr(torch, dtype))
    start = time.perf_counter()
    for block in range(0, size.paper_faces, BLOCK):
        for _ in range(TEMPLATES):
            near[: size.paper_faces - block].topk(size.k, dim=1)
    return time.perf_counter() - start


ARITHMETIC: dict[str, tuple[str, Callable[[Size], float]]] = {
    "scores": ("both scores of every face", _analysis),
    "product32": ("bare matrix product, float32", lambda size: _product(size, "float32")),
    "product64": ("bare matrix product, float64", lambda size: _product(size, "float64")),
    "topk32": ("bare torch.topk, float32", lambda size: _top_k(size, "float32")),
    "topk64": ("bare torch.topk, float64", lambda size: _top_k(size, "float64")),
}
