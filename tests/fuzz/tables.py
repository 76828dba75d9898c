"""Parsers of stimuli: what publishers ship, what a lab lays out, what a taxonomy or a landmark file says."""

import csv
import io
import json
import re
import shutil
import tarfile
import zipfile
from functools import partial
from pathlib import Path
from unittest import mock

from PIL import Image

from src import configs
from src.stimuli import checked, pictures, taxonomy, texts, vocabulary
from src.stimuli.morphs import landmark_templates
from src.stimuli.obtain import _recorded
from src.stimuli.unpack import unpack
from tests.fuzz.harness import Parser
from tests.fuzz.structured import archive_changed, json_changed, yaml_changed
from tests.stimuli import drawn
from tests.stimuli.layouts import load

PLACE = (
    r"row \d+|line \d+|position \d+|no (column|face|such|age|lines)|\.(txt|csv) files|pictures|a face|"
    r"leads out|negative|valence"
)
CAPTIONS = {"noun": "a photo of {article} {word}", "adjective": "a photo of {article} {word} person"}


def table(layout: str, role: str, root: Path, **choice):
    frame, expected, notes = load(layout, root, **choice)
    if role == "words":
        frame = texts.in_templates(frame, ["a {}", "the {}"])
    return checked(role, frame, f"{role}={layout}", expected=expected, notes=notes)


def whole(count, folder: Path, found) -> None:
    """Every row of the file is in the table, or counted among what was left out; every text is one."""
    left = sum(int(note.split()[0]) for note in found.notes if re.match(r"\d+ (?!people|files)", note))
    assert found.expected == count(folder), f"rows counted {found.expected} of {count(folder)}"
    assert found.items + left == found.expected, "rows are used or told"
    assert len(found.hash) == 64
    found.statement().encode()
    for column in set(found.frame.columns) - {"valence", "age"}:
        "".join(map(str, found.frame[column])).encode()  # no lone surrogates, which nothing can store


def records(name: str, folder: Path, columns: tuple[str, ...]) -> int:
    """Rows below the header of a csv that hold anything, told without the code that is tested."""
    text = (folder / name).read_bytes().decode("utf-8-sig", "surrogateescape")  # unused cells may hold all
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), strict=True)]
    header = next(place for place, row in enumerate(rows) if {*columns} <= {*row})
    return sum(any(row) for row in rows[header + 1 :])


def faces(folder: Path, layout: str) -> None:
    """A layout with few pictures, for speed."""
    if layout == "fairface":
        drawn.fairface(folder, per_group=1)
    elif layout == "folder":
        drawn.folder(folder)
    elif layout == "cfd":
        drawn.cfd(folder, people=1)
    else:
        drawn.utkface(folder)


def lines(name: str, folder: Path) -> int:
    text = (folder / name).read_bytes().decode("utf-8-sig")
    found = [line.split("\t") for line in text.splitlines() if line.strip()]
    beside = [cell.strip().lower() for cell in found[0][1:]] if found else []
    headed = "valence" in beside and not any(
        re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) for cell in beside
    )
    return len(found) - headed


def names(layout: str, folder: Path) -> None:
    """The names of a layout's pictures as a file of lines."""
    getattr(drawn, layout)(folder / "drawn")
    found = sorted(path.name for path in (folder / "drawn").rglob("*") if path.is_file())
    shutil.copy(next((folder / "drawn").rglob("*.jpg")), folder / "one.jpg")
    shutil.rmtree(folder / "drawn")
    (folder / "names").write_text("\n".join(found))


def _named(folder: Path) -> list[bytes]:
    found = (folder / "names").read_bytes().replace(b"\0", b"/").replace(b"/", b"\n").split(b"\n\n")
    listed = [name for part in found for name in part.split(b"\n")]
    # A blank line joins two names by a line break, which a name may hold.
    return sorted({name[:200] for name in [*listed, *(part[:200] for part in found)] if name.strip(b".")})[
        :60
    ]


def by_names(layout: str, folder: Path):
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in _named(folder):
        # Each a picture of its own: what follows the end of a JPEG is not shown.
        content = (folder / "one.jpg").read_bytes() + name
        (root / name.decode("utf-8", "surrogateescape")).write_bytes(content)
    choice = {"pictures": ["."]} if layout == "cfd" else {}
    return table(layout, "faces", root, **choice)


def all_of(folder: Path) -> int:
    return sum(Path(name.decode("utf-8", "surrogateescape")).suffix.lower() in (".jpg", ".jpeg", ".png")
               and not name.startswith(b".") for name in _named(folder))  # fmt: skip


def words(name: str, folder: Path):
    cfg = configs.TaxonomyConfig(captions=CAPTIONS, path=str(folder / name), untyped="noun")
    found = taxonomy.words(cfg)
    return found.assign(caption=taxonomy.captioned(found, cfg, "right"))


def encodable(folder: Path, found) -> None:
    assert len(found)
    for column in found:
        "".join(map(str, found[column])).encode()


LISTED = {"crafts": {"noun": ["baker", "owl"], "adjective": ["calm"]}, "others": ["potter", "miller's"]}


def landmarked(folder: Path) -> None:
    for name in ("a", "b"):
        Image.new("RGB", (60, 60)).save(folder / f"{name}.png")
    (folder / "points").mkdir()
    (folder / "points" / "a.tem").write_text("# of a\n3\n10\t10\n50\t10.5\n30\t40\n1\n0 1 2\n")
    (folder / "points" / "b.tem").write_text("3\n11\t10\n51\t10\n30\t41\n")
    rows = [f"{name},{x},{y}" for name in "ab" for x, y in ((10, 10), (50, 10), (30, 40))]
    (folder / "points.csv").write_text("\n".join(["fname,x,y", *rows]) + "\n")


def landmarks(place: str, folder: Path):
    return landmark_templates.landmarks(folder / place, {name: folder / f"{name}.png" for name in "ab"}, 64)


def archived(kind: str, folder: Path) -> None:
    members = {"Set/ratings.csv": b"a,1\n", "Set/images/1.jpg": b"one" * 50, "Set/images/b/2.jpg": b""}
    (folder / "set").mkdir()
    if kind == "zip":
        with zipfile.ZipFile(folder / "set" / "archive", "w", zipfile.ZIP_DEFLATED) as packed:
            for name, content in members.items():
                packed.writestr(name, content)
        return
    with tarfile.open(folder / "set" / "archive", "w" if kind == "tar" else f"w:{kind}") as packed:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))


def unpacked(folder: Path):
    for name in ("ratings.csv", "images"):
        place = folder / "set" / name
        shutil.rmtree(place, ignore_errors=True)
        place.unlink(missing_ok=True)
    take = {"**/ratings.csv": "ratings.csv", "**/images": "images"}
    return unpack(folder / "set" / "archive", take, 1_000_000)


def nothing_escapes(folder: Path, _) -> None:
    assert {path.name for path in folder.iterdir()} == {"set"}
    assert {path.name for path in (folder / "set").iterdir()} == {"archive", "ratings.csv", "images"}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.name != "archive") < 1_100_000


def pictured(form: str, folder: Path) -> None:
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 1 << 22):
        drawn.picture(folder / "a.jpg", mode="RGBA" if form == "PNG" else "RGB", form=form)


def seen(folder: Path):
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 1 << 22):  # so that a bomb is small
        return pictures.hashes([folder / "a.jpg"])


def typed(folder: Path, found) -> None:
    assert found is None or (isinstance(found.bytes, int) and isinstance(found.sha256, str))


FACES = [
    Parser(
        f"{layout}: csv", file, partial(faces, layout=layout), partial(table, layout, "faces"),
        partial(whole, partial(records, file, columns=columns)), place=PLACE, named=(".jpg", ".png"),
    )
    for layout, file, columns in (
        ("fairface", "fairface_label_train.csv", ("file", "age", "gender", "race")),
        ("folder", "faces.csv", ("file", "ethnicity", "sex")),
    )
]  # fmt: skip
NORMING = Parser(
    "cfd: norming csv", "norming.csv", partial(faces, layout="cfd"),
    partial(table, "cfd", "faces", norming="norming.csv"), place=PLACE,
)  # fmt: skip
NAMES = [
    Parser(f"{layout}: names of pictures", "names", partial(names, layout), partial(by_names, layout),
           partial(whole, all_of), "_-.", named=("root",))
    for layout in ("cfd", "utkface")
]  # fmt: skip
RATINGS = [
    Parser("oasis: csv", "OASIS.csv", drawn.oasis, partial(table, "oasis", "scenes"),
           partial(whole, partial(records, "OASIS.csv", columns=("Theme", "Valence_mean"))), place=PLACE,
           named=(".jpg",)),
    Parser("nrc_vad: text", "NRC-VAD-Lexicon.txt", drawn.nrc_vad, partial(table, "nrc_vad", "words"),
           partial(whole, partial(lines, "NRC-VAD-Lexicon.txt")), "\t", place=PLACE, named=("words.path",)),
    Parser("nrc_vad_v2: text", "NRC-VAD-Lexicon-v2.1.txt", drawn.nrc_vad_v2,
           partial(table, "nrc_vad_v2", "words"),
           partial(whole, partial(lines, "NRC-VAD-Lexicon-v2.1.txt")), "\t", place=PLACE,
           named=("words.path",)),
    Parser("warriner: csv", "BRM-emot-submit.csv", drawn.warriner, partial(table, "warriner", "words"),
           partial(whole, partial(records, "BRM-emot-submit.csv", columns=("Word", "V.Mean.Sum"))),
           place=PLACE, named=("words.path",)),
]  # fmt: skip
LISTS = [
    Parser("taxonomy: yaml", "list.yaml",
           lambda folder: (folder / "list.yaml").write_text(
               "crafts: &c\n  noun: [baker, owl]\n  adjective:\n  - calm\nothers: [potter, \"miller's\"]\n"),
           partial(words, "list.yaml"), encodable, ":,[-{&*!", change=yaml_changed),
    Parser("taxonomy: json", "list.json",
           lambda folder: (folder / "list.json").write_text(json.dumps(LISTED)),
           partial(words, "list.json"), encodable, ':,["{', change=json_changed),
    Parser("vocabulary: text", "words.txt",
           lambda folder: (folder / "words.txt").write_text("the\nof\nand\nстол\n"),
           lambda folder: vocabulary.frequent(
               configs.TaxonomyConfig(captions={}, vocabulary=str(folder / "words.txt")), 3),
           separators="\n", named=("words.txt",)),
    Parser("landmarks: tem", "points/a.tem", landmarked, partial(landmarks, "points"), separators="\t",
           named=("points",)),
    Parser("landmarks: csv", "points.csv", landmarked, partial(landmarks, "points.csv"),
           place=PLACE + r"|parents|no \.tem"),
]  # fmt: skip
FILES = [
    *(Parser(f"archive: {kind}", "set/archive", partial(archived, kind), unpacked, nothing_escapes,
             change=archive_changed)
      for kind in ("zip", "tar", "gz", "bz2", "xz")),
    *(Parser(f"picture: {form.lower()}", "a.jpg", partial(pictured, form), seen)
      for form in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")),
    Parser("download: record", "a.zip.json",
           lambda folder: (folder / "a.zip.json").write_text('{"url": "u", "bytes": 3, "sha256": "ab"}'),
           lambda folder: _recorded(folder / "a.zip.json", "u"), typed, ':,"',
           json_changed),
]  # fmt: skip
PARSERS = [*FACES, NORMING, *NAMES, *RATINGS, *LISTS, *FILES]
