"""Define what all figures share: colours, shapes, names, and file formats."""

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

# Okabe & Ito's palette, distinct for any colour vision; shapes differ too. Their yellow is too pale for
# lines on white: Tol's wine replaces it.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
# Maximum letters of a name in a figure.
ROOM = 40
DPI = 150
# Lower, as a page holds dozens of dense figures.
DENSE_DPI = 120


@dataclass(frozen=True)
class Drawing:
    """A figure to be written."""

    name: str  # name of its files, without suffix
    figure: Figure  # figure itself
    title: str  # title of the figure
    alternative: str  # text alternative, for readers who cannot see it
    caption: str = ""  # explanation of how to read it
    # True for thousands of points, written as pixels only: vectors would be slow and large.
    dense: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure as embedded in the page."""

    name: str  # name, title, alternative, caption: see `Drawing`
    title: str
    alternative: str
    caption: str
    source: str  # picture as a `data:` address; an `<img>` runs no scripts
    width: int  # width, height: size of the picture in CSS pixels
    height: int


def style(number: int) -> dict[str, Any]:
    """Return colour and shape of a series by its number: 64 distinct pairs."""
    shift = number // len(PALETTE)
    return {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[(number + shift) % len(MARKERS)]}


def plain(name: str, room: int = ROOM) -> str:
    """Return a name as text of a figure.

    A dollar sign would start a formula, a control character would break the file.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in str(name))
    return brief(printable, room).replace("$", r"\$")


def brief(name: str, room: int = ROOM) -> str:
    """Shorten a long name to both its ends, because names often differ in only one of them."""
    if len(name) <= room:
        return name
    return f"{name[: room - room // 3 - 1]}…{name[-(room // 3) :]}"


def save(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG with its text alternative as `Description`."""
    # Equivalent to `savefig` without its first drawing, which only measures the figure's extent; compresses
    # in half the time, to files that are 5 to 10% larger.
    figure.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path, metadata={"Description": alternative}, pil_kwargs={"compress_level": 2})


def save_vector(figure: Figure, title: str, alternative: str, path: Path) -> None:
    """Write an SVG with `<title>` and `<desc>`, letters as text, and reproducible bytes."""
    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "carryover"}):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": None})
    head, tag, rest = drawn.getvalue().partition("<svg ")
    attributes, end, content = rest.partition(">")
    labelled = f'role="img" aria-labelledby="title desc" {attributes}'
    descriptions = f'<title id="title">{escape(title)}</title><desc id="desc">{escape(alternative)}</desc>'
    path.write_text(f"{head}{tag}{labelled}{end}\n {descriptions}{content}", encoding="utf-8")


def _save_light(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG of 256 colours, visually identical at a quarter of the size."""
    figure.set_dpi(DENSE_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    quantized = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    description = PngInfo()
    description.add_itxt("Description", alternative)
    quantized.save(path, optimize=True, pnginfo=description)


def save_drawing(drawing: Drawing, folder: Path) -> Picture:
    """Write the files of a figure into a folder.

    Returns its picture for the page: the SVG, or the PNG of a dense figure.
    """
    png_path, svg_path = folder / f"{drawing.name}.png", folder / f"{drawing.name}.svg"
    if drawing.dense:
        _save_light(drawing.figure, drawing.alternative, png_path)
        source, kind = png_path, "image/png"
    else:
        save(drawing.figure, drawing.alternative, png_path)
        # The layout is already computed.
        drawing.figure.set_layout_engine("none")
        save_vector(drawing.figure, drawing.title, drawing.alternative, svg_path)
        source, kind = svg_path, "image/svg+xml"
    width, height = (round(float(inches) * 96) for inches in drawing.figure.get_size_inches())
    address = f"data:{kind};base64,{base64.b64encode(source.read_bytes()).decode()}"
    return Picture(drawing.name, drawing.title, drawing.alternative, drawing.caption, address, width, height)
