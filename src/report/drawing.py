"""Define the colours and shapes of figures, shorten their names, and write their files."""

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
# The converter of SVG uses matplotlib's fonts.
vl_convert.register_font_directory(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf"))

# Okabe & Ito's palette, distinct for any colour vision; shapes differ too. Their yellow is too pale for
# lines on white: Tol's wine replaces it.
PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
# Maximum letters of a name in a figure.
MAX_LETTERS = 40
DPI = 150
# The converter of SVG takes a CSS pixel for a point.
POINTS_PER_INCH, CSS_PIXELS_PER_INCH = 72, 96
# Width of a column in inches: in the IEEE's journals, which the page uses, and in the ACL's proceedings,
# whose figures are in a folder of their own.
COLUMN_WIDTH, ACL_COLUMN_WIDTH, ACL_FOLDER = 3.5, 3.03, "acl"
# Resolution of dense figures; lower, because a page may have dozens.
DENSE_DPI = 120


@dataclass(frozen=True)
class Drawing:
    """A figure to be written."""

    name: str  # name of its files, without suffix
    figure: Figure  # figure itself
    title: str  # title of the figure
    alt_text: str  # text in place of the figure, for readers who cannot see it
    caption: str = ""  # explanation of how to read it
    # Whether it has thousands of points; it is then written as PNG only, as SVG would be slow and large.
    dense: bool = False


@dataclass(frozen=True)
class Picture:
    """A figure as embedded in the page."""

    # The first four fields are the same as in `Drawing`.
    name: str
    title: str
    alt_text: str
    caption: str
    source: str  # picture as a `data:` address; an `<img>` runs no scripts
    width: int  # width and height in CSS pixels
    height: int


def style_of(index: int) -> dict[str, Any]:
    """Return colour and shape of a series by its index; 64 combinations are distinct."""
    shift = index // len(PALETTE)
    return {"color": PALETTE[index % len(PALETTE)], "marker": MARKERS[(index + shift) % len(MARKERS)]}


def clean(name: str, max_letters: int = MAX_LETTERS) -> str:
    """Make a name safe and short enough for a figure.

    A dollar sign would start a formula.
    """
    return shorten(_make_printable(str(name)), max_letters).replace("$", r"\$")


def _make_printable(text: str) -> str:
    """Replace letters that are not printable by blanks; a control character would make an SVG invalid."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def shorten(name: str, max_letters: int = MAX_LETTERS) -> str:
    """Shorten a long name in the middle, because names often differ only at one end."""
    if len(name) <= max_letters:
        return name
    end_length = max_letters // 3
    return f"{name[: max_letters - end_length - 1]}…{name[-end_length:]}"


def save_png(figure: Figure, alt_text: str, path: Path) -> None:
    """Write a PNG with its alt text as `Description`."""
    # Equivalent to `savefig`, but draws once (its first drawing only measures the figure's extent), and
    # compresses in half the time, to files that are 5 to 10% larger.
    figure.set_dpi(DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.print_png(path, metadata={"Description": alt_text}, pil_kwargs={"compress_level": 2})


def _save_vectors(drawing: Drawing, path: Path) -> None:
    """Write a figure as SVG, PNG and PDF.

    The SVG has `<title>` and `<desc>`, letters as text, and reproducible bytes.
    """
    svg_file = io.StringIO()
    # A single font: each text in the SVG repeats the list of fonts.
    font_options: dict[Any, Any] = {"svg.fonttype": "none", "font.sans-serif": ["DejaVu Sans"]}
    with matplotlib.rc_context({**font_options, "svg.hashsalt": "carryover"}):
        canvas: Any = FigureCanvasSVG(drawing.figure)
        canvas.print_svg(svg_file, metadata={"Date": None, "Creator": None})
    head, tag, rest = svg_file.getvalue().partition("<svg ")
    attributes, end, content = rest.partition(">")
    labelled = f'role="img" aria-labelledby="title desc" {attributes}'
    title, alt_text = (escape(_make_printable(text)) for text in (drawing.title, drawing.alt_text))
    descriptions = f'<title id="title">{title}</title><desc id="desc">{alt_text}</desc>'
    svg = f"{head}{tag}{labelled}{end}\n {descriptions}{content}"
    path.write_text(svg, encoding="utf-8")
    path.with_suffix(".pdf").write_bytes(vl_convert.svg_to_pdf(svg))
    picture = Image.open(
        io.BytesIO(vl_convert.svg_to_png(svg, ppi=DPI * POINTS_PER_INCH / CSS_PIXELS_PER_INCH))
    )
    png = path.with_suffix(".png")
    picture.save(png, compress_level=2, dpi=(DPI, DPI), pnginfo=_build_description(drawing.alt_text))


def _build_description(alt_text: str) -> PngInfo:
    description = PngInfo()
    description.add_itxt("Description", alt_text)
    return description


def _save_quantized(figure: Figure, alt_text: str, path: Path) -> None:
    """Write a PNG of 256 colours, visually identical at a quarter of the size."""
    figure.set_dpi(DENSE_DPI)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    quantized = picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    quantized.save(path, optimize=True, pnginfo=_build_description(alt_text))


def save_drawing(drawing: Drawing, folder: Path) -> Picture:
    """Write the files of a figure into a folder: SVG, PNG and PDF, or the PNG of a dense figure.

    A figure as wide as a column is also written at the width of the ACL's column, into `ACL_FOLDER`. Returns
    the picture for the page: the SVG, or the PNG of a dense figure.
    """
    if drawing.dense:
        source, kind = folder / f"{drawing.name}.png", "image/png"
        _save_quantized(drawing.figure, drawing.alt_text, source)
    else:
        source, kind = folder / f"{drawing.name}.svg", "image/svg+xml"
        _save_vectors(drawing, source)
        if drawing.figure.get_figwidth() == COLUMN_WIDTH:
            (folder / ACL_FOLDER).mkdir(exist_ok=True)
            drawing.figure.set_figwidth(ACL_COLUMN_WIDTH)
            _save_vectors(drawing, folder / ACL_FOLDER / source.name)
            drawing.figure.set_figwidth(COLUMN_WIDTH)
    width, height = (
        round(float(inches) * CSS_PIXELS_PER_INCH) for inches in drawing.figure.get_size_inches()
    )
    address = f"data:{kind};base64,{base64.b64encode(source.read_bytes()).decode()}"
    return Picture(drawing.name, drawing.title, drawing.alt_text, drawing.caption, address, width, height)
