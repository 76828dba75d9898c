"""Define what all figures share: colours, shapes, names, and file formats."""

import base64
import io
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import vl_convert
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

matplotlib.use("Agg")
# Its letters in figures that are converted from SVG.
vl_convert.register_font_directory(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf"))

# Okabe & Ito's palette, distinct for any colour vision; shapes differ too. Their yellow is too pale for
# lines on white: Tol's wine replaces it.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
# Maximum letters of a name in a figure.
ROOM = 40
DPI = 150
# Per inch: its converter of SVG takes a CSS pixel for a point.
POINTS, CSS_PIXELS = 72, 96
# Widths of a column in inches, of the IEEE's journals and of the ACL's proceedings. The page has the former,
# figures for the latter lie in a folder of their own.
COLUMN, ACL, ACL_FOLDER = 3.5, 3.03, "acl"
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


def style_of(number: int) -> dict[str, Any]:
    """Return colour and shape of a series by its number: 64 distinct pairs."""
    shift = number // len(PALETTE)
    return {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[(number + shift) % len(MARKERS)]}


def clean(name: str, room: int = ROOM) -> str:
    """Return a name as text of a figure.

    A dollar sign would start a formula, a control character would break the file.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in str(name))
    return shorten(printable, room).replace("$", r"\$")


def shorten(name: str, room: int = ROOM) -> str:
    """Shorten a long name to both its ends, because names often differ in only one of them."""
    if len(name) <= room:
        return name
    return f"{name[: room - room // 3 - 1]}…{name[-(room // 3) :]}"


def save_png(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG with its text alternative as `Description`."""
    # Equivalent to `savefig` without its first drawing, which only measures the figure's extent; compresses
    # in half the time, to files that are 5 to 10% larger.
    figure.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path, metadata={"Description": alternative}, pil_kwargs={"compress_level": 2})


def _save_vectors(drawing: Drawing, path: Path) -> None:
    """Write a figure as SVG, and the same as PNG and PDF next to it.

    The SVG has `<title>` and `<desc>`, letters as text, and reproducible bytes.
    """
    drawn = io.StringIO()
    # A short list of fonts: each piece of text names it.
    letters: dict[Any, Any] = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context({**letters, "svg.hashsalt": "carryover"}):
        canvas: Any = FigureCanvasSVG(drawing.figure)
        canvas.print_svg(drawn, metadata={"Date": None, "Creator": None})
    head, tag, rest = drawn.getvalue().partition("<svg ")
    attributes, end, content = rest.partition(">")
    labelled = f'role="img" aria-labelledby="title desc" {attributes}'
    descriptions = f'<title id="title">{escape(drawing.title)}</title>'
    descriptions += f'<desc id="desc">{escape(drawing.alternative)}</desc>'
    vector = f"{head}{tag}{labelled}{end}\n {descriptions}{content}"
    path.write_text(vector, encoding="utf-8")
    path.with_suffix(".pdf").write_bytes(vl_convert.svg_to_pdf(vector))
    picture = Image.open(io.BytesIO(vl_convert.svg_to_png(vector, ppi=DPI * POINTS / CSS_PIXELS)))
    png = path.with_suffix(".png")
    picture.save(png, compress_level=2, dpi=(DPI, DPI), pnginfo=_description(drawing.alternative))


def _description(alternative: str) -> PngInfo:
    description = PngInfo()
    description.add_itxt("Description", alternative)
    return description


def _save_light(figure: Figure, alternative: str, path: Path) -> None:
    """Write a PNG of 256 colours, visually identical at a quarter of the size."""
    figure.set_dpi(DENSE_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    quantized = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    quantized.save(path, optimize=True, pnginfo=_description(alternative))


def save_drawing(drawing: Drawing, folder: Path) -> Picture:
    """Write the files of a figure into a folder: SVG, PNG and PDF, or the PNG of a dense figure.

    A figure as wide as a column is also written at the width of the ACL's, into a folder of its own. Returns
    its picture for the page: the SVG, or the PNG of a dense figure.
    """
    if drawing.dense:
        source, kind = folder / f"{drawing.name}.png", "image/png"
        _save_light(drawing.figure, drawing.alternative, source)
    else:
        source, kind = folder / f"{drawing.name}.svg", "image/svg+xml"
        _save_vectors(drawing, source)
        if drawing.figure.get_figwidth() == COLUMN:
            (folder / ACL_FOLDER).mkdir(exist_ok=True)
            drawing.figure.set_figwidth(ACL)
            _save_vectors(drawing, folder / ACL_FOLDER / source.name)
            drawing.figure.set_figwidth(COLUMN)
    width, height = (round(float(inches) * CSS_PIXELS) for inches in drawing.figure.get_size_inches())
    address = f"data:{kind};base64,{base64.b64encode(source.read_bytes()).decode()}"
    return Picture(drawing.name, drawing.title, drawing.alternative, drawing.caption, address, width, height)
