"""What all figures share: colours, shapes, names, and how they are written."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

matplotlib.use("Agg")

# Okabe & Ito's palette, told apart by readers of any colour vision; shapes besides. Their yellow is too
# pale for lines on white: Tol's wine stands in its place.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
# Letters of a name that have room in a figure.
ROOM = 40
DPI = 150
# A page holds dozens of dense figures.
DENSE_DPI = 120


@dataclass(frozen=True)
class Drawing:
    """A figure to be written.

    Attributes:
        name: of its files.
        figure: it.
        title: what it shows.
        alternative: the same in words, for who cannot see it.
        caption: how to read it.
        dense: thousands of points: as pixels only, for as vectors it would be slow and large.
    """

    name: str
    figure: Figure
    title: str
    alternative: str
    caption: str = ""
    dense: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it.

    Attributes:
        name, title, alternative, caption: see `Drawing`.
        source: the picture itself as a `data:` address. In an `<img>` nothing in it can run.
        width, height: of the picture, CSS pixels.
    """

    name: str
    title: str
    alternative: str
    caption: str
    source: str
    width: int
    height: int


def style(number: int) -> dict[str, Any]:
    """Colour and shape of the series of a number: 64 pairs before one comes again."""
    shift = number // len(PALETTE)
    return {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[(number + shift) % len(MARKERS)]}


def plain(name: str, room: int = ROOM) -> str:
    """A name as text of a figure.

    A dollar sign would start a formula, a control character break the file.
    """
    return brief("".join(letter if letter.isprintable() else " " for letter in str(name)), room).replace(
        "$", r"\$"
    )


def brief(name: str, room: int = ROOM) -> str:
    """Of a long name both ends, for names often differ in one of them only."""
    if len(name) <= room:
        return name
    return f"{name[: room - room // 3 - 1]}…{name[-(room // 3) :]}"


def save(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG that carries its text alternative as `Description`."""
    # What `savefig` comes down to, less a first drawing that only looks for the figure's extent; compressed
    # in half the time, to 5 to 10% more.
    figure.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path, metadata={"Description": alternative}, pil_kwargs={"compress_level": 2})


def save_vector(figure: Figure, title: str, alternative: str, path: Path) -> None:
    """Write an SVG with `<title>` and `<desc>`; its letters stay letters, the same figure the same bytes."""
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "carryover"}):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": None})
    head, tag, rest = drawn.getvalue().partition("<svg ")
    attributes, end, content = rest.partition(">")
    named = f'role="img" aria-labelledby="title desc" {attributes}'
    said = f'<title id="title">{escape(title)}</title><desc id="desc">{escape(alternative)}</desc>'
    path.write_text(f"{head}{tag}{named}{end}\n {said}{content}", encoding="utf-8")


def _save_light(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG of 256 colours, none off by more than can be seen: a quarter of the weight."""
    figure.set_dpi(DENSE_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    description = PngInfo()
    description.add_itxt("Description", alternative)
    few.save(path, optimize=True, pnginfo=description)


def keep(drawing: Drawing, folder: Path) -> Picture:
    """Write a figure's files into a folder.

    Returns:
        The picture that the page shows: the SVG, or the PNG of a dense one.
    """
    pixels, vectors = folder / f"{drawing.name}.png", folder / f"{drawing.name}.svg"
    if drawing.dense:
        _save_light(drawing.figure, drawing.alternative, pixels)
        shown, kind = pixels, "image/png"
    else:
        save(drawing.figure, drawing.alternative, pixels)
        # It is laid out by now; once is enough.
        drawing.figure.set_layout_engine("none")
        save_vector(drawing.figure, drawing.title, drawing.alternative, vectors)
        shown, kind = vectors, "image/svg+xml"
    width, height = (round(float(inches) * 96) for inches in drawing.figure.get_size_inches())
    return Picture(
        name=drawing.name,
        title=drawing.title,
        alternative=drawing.alternative,
        caption=drawing.caption,
        source=f"data:{kind};base64,{base64.b64encode(shown.read_bytes()).decode()}",
        width=width,
        height=height,
    )
