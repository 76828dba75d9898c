"""List parsers of stimuli: published datasets, folders of a lab, taxonomies, landmarks, archives."""

import csv
import io
import json
import re
import shutil
from functools import partial
from pathlib import Path
from unittest import mock

from PIL import Image

from src import configs
from src.stimuli import build_table, lexicons, loaders, norms, pictures, taxonomy, wordlists
from src.stimuli.download import _read_record
from src.stimuli.morphs import landmark_templates
from src.stimuli.unpack import unpack
from tests.fuzz.harness import Parser
from tests.fuzz.structured import json_changed, yaml_changed
from tests.stimuli import drawn
from tests.stimuli.layouts import load

# What a refusal must name: the place in a file (row, line, column …), or what the entire file lacks.
PLACE = (
    r"row \d+|line \d+|position \d+|no (column|face|such|age|lines)|\.(txt|csv) files|pictures|a face|"
    r"leads out|negative|valence|files of"
)
CAPTIONS = {"noun": "a photo of {article} {word}", "adjective": "a photo of {article} {word} person"}


def load_table(layout: str, role: str, root: Path, **settings):
    frame, expected, notes = load(layout, root, **settings)
    if role == "words":
        frame = loaders.fill_templates(frame, ["a {}", "the {}"])
    return build_table(role, frame, f"{role}={layout}", expected=expected, notes=notes)


def load_norms(root: Path):
    cfg = configs.NormsConfig(str(root / "norms.csv"), "es", "Word", "ValenceMean", 1, 9)
    frame, expected, notes = norms.load(cfg)
    return build_table("words", loaders.fill_templates(frame, ["a {}"]), "n", expected=expected, notes=notes)


def load_translations(root: Path):
    cfg = configs.NrcVadConfig(str(root), None, 0, 1, "Spanish")
    frame, expected, notes = lexicons.load_nrc_vad(cfg)
    return build_table("words", loaders.fill_templates(frame, ["a {}"]), "n", expected=expected, notes=notes)


def check_complete(count, folder: Path, table) -> None:
    """Check that every row is used or counted as left out, and that every text can be stored."""
    # Notes count rows, except those that count people, files or groups.
    left_out = sum(
        int(note.split()[0]) for note in table.notes if re.match(r"\d+ (?!people|files|groups)", note)
    )
    assert table.n_source_items == count(folder), (
        f"{table.n_source_items} rows were counted, not {count(folder)}"
    )
    unreported = table.n_source_items - table.n_items - left_out
    assert unreported == 0, f"{unreported} rows are neither used nor reported as left out"
    assert len(table.hash) == 64
    table.describe().encode()
    table.frame.to_csv().encode()  # no unpaired surrogates, which nothing can store


def count_records(name: str, folder: Path, columns: tuple[str, ...]) -> int:
    """Count the non-empty rows below the header of a csv, independently of the code under test."""
    # Cells that the parser does not read may hold any bytes.
    text = (folder / name).read_bytes().decode("utf-8-sig", "surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), strict=True)]
    header = next(place for place, row in enumerate(rows) if {*columns} <= {*row})
    return sum(any(row) for row in rows[header + 1 :])


def count_lines(name: str, folder: Path) -> int:
    """Count the non-empty lines of a list of words, less a header line."""
    text = (folder / name).read_bytes().decode("utf-8-sig")
    rows = [line.split("\t") for line in text.splitlines() if line.strip()]
    header = [cell.strip().lower() for cell in rows[0][1:]] if rows else []
    numbers = [cell for cell in header if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell)]
    return len(rows) - ("valence" in header and not numbers)


def write_names(layout: str, folder: Path) -> None:
    """Write the names of a layout's files, a line each, and keep one of the pictures."""
    getattr(drawn, layout)(folder / "drawn")
    listed = sorted(path.name for path in (folder / "drawn").rglob("*") if path.is_file())
    shutil.copy(next((folder / "drawn").rglob("*.jpg")), folder / "first.jpg")
    shutil.rmtree(folder / "drawn")
    (folder / "names").write_text("\n".join(listed))


def _file_names(folder: Path) -> list[bytes]:
    groups = (folder / "names").read_bytes().replace(b"\0", b"/").replace(b"/", b"\n").split(b"\n\n")
    listed = [name for group in groups for name in group.split(b"\n")]
    # Each group of lines between blank lines is also taken as one name: a file name may contain line breaks.
    usable = {name[:200] for name in [*listed, *(group[:200] for group in groups)] if name.strip(b".")}
    return sorted(usable)[:60]


def load_names(layout: str, folder: Path):
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name in _file_names(folder):
        # The name makes each file unique; it still decodes, as what follows the end of a JPEG is ignored.
        content = (folder / "first.jpg").read_bytes() + name
        (root / name.decode("utf-8", "surrogateescape")).write_bytes(content)
    settings = {"pictures": ["."]} if layout == "cfd" else {}
    return load_table(layout, "faces", root, **settings)


def count_picture_names(folder: Path) -> int:
    paths = [Path(name.decode("utf-8", "surrogateescape")) for name in _file_names(folder)]
    suffixes = [path.suffix.lower() for path in paths if not path.name.startswith(".")]
    return sum(suffix in (".jpg", ".jpeg", ".png") for suffix in suffixes)


def load_words(name: str, folder: Path):
    cfg = configs.TaxonomyConfig(captions=CAPTIONS, path=str(folder / name), untyped="noun")
    rows = taxonomy.load_words(cfg)
    return rows.assign(caption=taxonomy.compose_captions(rows, cfg, "right"))


def check_words(folder: Path, rows) -> None:
    assert len(rows)
    rows.to_csv().encode()


LISTED = {"crafts": {"noun": ["baker", "owl"], "adjective": ["calm"]}, "others": ["potter", "miller's"]}


def write_landmarks(folder: Path) -> None:
    for name in ("a", "b"):
        Image.new("RGB", (60, 60)).save(folder / f"{name}.png")
    (folder / "points").mkdir()
    (folder / "points" / "a.tem").write_text("# of a\n3\n10\t10\n50\t10.5\n30\t40\n1\n0 1 2\n")
    (folder / "points" / "b.tem").write_text("3\n11\t10\n51\t10\n30\t41\n")
    rows = [f"{name},{x},{y}" for name in "ab" for x, y in ((10, 10), (50, 10), (30, 40))]
    (folder / "points.csv").write_text("\n".join(["fname,x,y", *rows]) + "\n")


def load_landmarks(place: str, folder: Path):
    return landmark_templates.load_landmarks(
        folder / place, {name: folder / f"{name}.png" for name in "ab"}, 64
    )


def write_archive(kind: str, folder: Path) -> None:
    (folder / "Set" / "images" / "b").mkdir(parents=True)
    members = {"ratings.csv": b"a,1\n", "images/1.jpg": b"one" * 50, "images/b/2.jpg": b""}
    for name, content in members.items():
        (folder / "Set" / name).write_bytes(content)
    (folder / "set").mkdir()
    form = {"gz": "gztar", "bz2": "bztar", "xz": "xztar"}.get(kind, kind)
    path = shutil.make_archive(str(folder / "made"), form, folder, "Set")
    Path(path).rename(folder / "set" / "archive")
    shutil.rmtree(folder / "Set")


def unpack_archive(folder: Path):
    shutil.rmtree(folder / "set" / "images", ignore_errors=True)
    (folder / "set" / "ratings.csv").unlink(missing_ok=True)
    take = {"**/ratings.csv": "ratings.csv", "**/images": "images"}
    return unpack(folder / "set" / "archive", take, 1_000_000)


def check_unpacked(folder: Path, _) -> None:
    assert {path.name for path in folder.iterdir()} == {"set"}
    assert {path.name for path in (folder / "set").iterdir()} == {"archive", "ratings.csv", "images"}
    assert not any(path.is_symlink() for path in folder.rglob("*"))
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.name != "archive") < 1_100_000


def write_picture(form: str, folder: Path) -> None:
    drawn.picture(folder / "a.jpg", mode="RGBA" if form == "PNG" else "RGB", form=form)


def hash_picture(folder: Path):
    with mock.patch.object(Image, "MAX_IMAGE_PIXELS", 1 << 22):  # so that a bomb is small
        return pictures.hash_pictures([folder / "a.jpg"])


def check_record(folder: Path, record) -> None:
    assert record is None or (isinstance(record.bytes, int) and isinstance(record.sha256, str))


FACES = [
    Parser("fairface: csv", "fairface_label_train.csv", partial(drawn.fairface, per_group=1),
           partial(load_table, "fairface", "faces"),
           partial(check_complete, partial(count_records, "fairface_label_train.csv",
                                           columns=("file", "age", "gender", "race"))),
           place=PLACE, named=(".jpg", ".png")),
    Parser("folder: csv", "faces.csv", drawn.folder, partial(load_table, "folder", "faces"),
           partial(check_complete, partial(count_records, "faces.csv", columns=("file", "ethnicity", "sex"))),
           place=PLACE, named=(".jpg", ".png")),
    Parser("cfd: norming csv", "norming.csv", partial(drawn.cfd, people=1),
           partial(load_table, "cfd", "faces", norming="norming.csv"), place=PLACE),
]  # fmt: skip
NAMES = [
    Parser(f"{layout}: names of pictures", "names", partial(write_names, layout), partial(load_names, layout),
           partial(check_complete, count_picture_names), "_-.", named=("root",))
    for layout in ("cfd", "utkface")
]  # fmt: skip
RATINGS = [
    Parser("oasis: csv", "OASIS.csv", drawn.oasis, partial(load_table, "oasis", "scenes"),
           partial(check_complete, partial(count_records, "OASIS.csv", columns=("Theme", "Valence_mean"))),
           place=PLACE, named=(".jpg",)),
    Parser("nrc_vad: text", "NRC-VAD-Lexicon.txt", drawn.nrc_vad, partial(load_table, "nrc_vad", "words"),
           partial(check_complete, partial(count_lines, "NRC-VAD-Lexicon.txt")), "\t", place=PLACE,
           named=("words.path",)),
    Parser("nrc_vad_v2: text", "NRC-VAD-Lexicon-v2.1.txt", drawn.nrc_vad_v2,
           partial(load_table, "nrc_vad_v2", "words"),
           partial(check_complete, partial(count_lines, "NRC-VAD-Lexicon-v2.1.txt")), "\t", place=PLACE,
           named=("words.path",)),
    Parser("warriner: csv", "BRM-emot-submit.csv", drawn.warriner, partial(load_table, "warriner", "words"),
           partial(check_complete, partial(count_records, "BRM-emot-submit.csv",
                                           columns=("Word", "V.Mean.Sum"))),
           place=PLACE, named=("words.path",)),
    Parser("norms: csv", "norms.csv", drawn.norms, load_norms,
           partial(check_complete, partial(count_records, "norms.csv", columns=("Word", "ValenceMean"))),
           place=PLACE, named=("words.path",)),
    Parser("translations: text", "OneFilePerLanguage/Spanish-NRC-VAD-Lexicon.txt", drawn.translations,
           load_translations, separators="\t;", place=PLACE, named=("words.path",)),
]  # fmt: skip
LISTS = [
    Parser("taxonomy: yaml", "list.yaml",
           lambda folder: (folder / "list.yaml").write_text(
               "crafts: &c\n  noun: [baker, owl]\n  adjective:\n  - calm\nothers: [potter, \"miller's\"]\n"),
           partial(load_words, "list.yaml"), check_words, ":,[-{&*!", change=yaml_changed),
    Parser("taxonomy: json", "list.json",
           lambda folder: (folder / "list.json").write_text(json.dumps(LISTED)),
           partial(load_words, "list.json"), check_words, ':,["{', change=json_changed),
    Parser("vocabulary: text", "words.txt",
           lambda folder: (folder / "words.txt").write_text("the\nof\nand\nстол\n"),
           lambda folder: wordlists.list_frequent_words(
               configs.TaxonomyConfig(captions={}, vocabulary=str(folder / "words.txt")), 3),
           separators="\n", named=("words.txt",)),
    Parser("landmarks: tem", "points/a.tem", write_landmarks, partial(load_landmarks, "points"),
           separators="\t", named=("points",)),
    Parser("landmarks: csv", "points.csv", write_landmarks, partial(load_landmarks, "points.csv"),
           place=PLACE + r"|parents|no \.tem"),
]  # fmt: skip
FILES = [
    *(Parser(f"archive: {kind}", "set/archive", partial(write_archive, kind), unpack_archive, check_unpacked)
      for kind in ("zip", "tar", "gz", "bz2", "xz")),
    *(Parser(f"picture: {form.lower()}", "a.jpg", partial(write_picture, form), hash_picture)
      for form in ("JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP")),
    Parser("download: record", "a.zip.json",
           lambda folder: (folder / "a.zip.json").write_text('{"url": "u", "bytes": 3, "sha256": "ab"}'),
           lambda folder: _read_record(folder / "a.zip.json", "u"), check_record, ':,"',
           json_changed),
]  # fmt: skip
PARSERS = [*FACES, *NAMES, *RATINGS, *LISTS, *FILES]
