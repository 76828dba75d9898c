"""A look at quality: parents and their morph side by side, for a seeded sample of each group."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from src.stimuli.morphs.standard import standard

SAMPLE = 6
TILE, GAP, TITLE = 112, 8, 16


def contact_sheet(morphs: pd.DataFrame, parents: Mapping[str, Path], seed: int) -> Image.Image:
    """One row per group: parent, morph, parent, of up to six of its morphs.

    Args:
        morphs: `id`, `group`, `parent_a`, `parent_b`, `path`.
        parents: id -> picture.
        seed: of the sample.
    """
    groups = sorted(morphs["group"].unique())
    width = SAMPLE * (3 * TILE + GAP) - GAP
    sheet = Image.new("RGB", (width, len(groups) * (TITLE + TILE + GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    for index, group in enumerate(groups):
        top = index * (TITLE + TILE + GAP)
        draw.text((2, top + 2), f"{group}: parent, morph, parent", fill="black")
        for column, row in enumerate(_sample(morphs[morphs["group"] == group], [seed, index])):
            for place, path in enumerate((parents[row.parent_a], row.path, parents[row.parent_b])):
                tile = Image.fromarray(standard(path, TILE))
                sheet.paste(tile, (column * (3 * TILE + GAP) + place * TILE, top + TITLE))
    return sheet


def _sample(morphs: pd.DataFrame, stream: list[int]) -> list[pd.Series]:
    rng = np.random.default_rng([*stream, 1])
    chosen = rng.choice(len(morphs), min(SAMPLE, len(morphs)), replace=False)
    return [morphs.iloc[number] for number in sorted(chosen)]
