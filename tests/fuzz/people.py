"""List parsers of datasets of people, and of pictures in Parquet files and tars."""

import csv
import hashlib
import io
import re
import shutil
import tarfile
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from src.stimuli import build_table, pictures, shards
from tests.fuzz.harness import Parser
from tests.fuzz.structured import parquet_changed
from tests.fuzz.tables import PLACE, check_complete, count_records
from tests.stimuli import drawn, drawn_people

TAR, PARQUET = "SISPI_images.tar", "data/train-00000-of-00001-0123456789abcdef.parquet"
FHIBE_COLUMNS = ("filepath", "ancestry", "pronoun", "age", "apparent_skin_color", "subject_id")
FACET_COLUMNS = ("filename", "bounding_box", "person_id", "class1")


def load_table(name: str, folder: Path):
    frame, expected, notes = drawn_people.load(name, folder)
    return build_table("faces", frame, f"faces={name}", expected=expected, notes=notes)


def count_tsv(folder: Path) -> int:
    text = (folder / "OO_Visogender.tsv").read_bytes().decode("utf-8-sig", "surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    reader = csv.reader(io.StringIO(text), "excel-tab", quoting=csv.QUOTE_NONE)
    rows = [[cell.strip() for cell in row] for row in reader]
    header = next(place for place, row in enumerate(rows) if {"IDX", "Occupation"} <= {*row})
    return sum(any(row) for row in rows[header + 1 :])


def write_single_shard(folder: Path) -> None:
    drawn_people.social_counterfactuals(folder)
    first, second = sorted((folder / "data").iterdir())
    pq.write_table(pq.read_table(first), folder / PARQUET, row_group_size=5)
    first.unlink()
    second.unlink()


def read_rows(folder: Path):
    """Read the pictures of a Parquet file, one by one, and refuse it as a table of pictures would."""
    shard = folder / PARQUET
    count = len(shards.read_texts(shard, ["a1"], "Fetch it again."))
    paths = [Path(f"{shard}/image/{row}") for row in range(count)]
    return [pictures.hash_pictures(paths)]


def write_tar(folder: Path) -> None:
    drawn_people.sispi(folder)
    shutil.rmtree(folder / "SISPI_images")


def check_tar(folder: Path, table) -> None:
    """Check that pictures of the table are those that tarfile itself reads."""
    with tarfile.open(folder / TAR, "r:") as tar:
        members = {entry.name.removeprefix("./"): entry for entry in tar if entry.isreg()}
        for path in table.frame["path"]:
            file = tar.extractfile(members[path.partition(".tar/")[2]])
            assert file is not None
            assert pictures.hash_picture(path) == hashlib.sha256(file.read()).hexdigest()


def write_names(name: str, folder: Path) -> None:
    """Write the paths of a layout's pictures, a line each, and keep one of the pictures."""
    getattr(drawn_people, name)(folder / "drawn")
    files = sorted(path for path in (folder / "drawn/data").rglob("*") if path.is_file())
    listed = [path.relative_to(folder / "drawn/data").as_posix() for path in files]
    shutil.copy(drawn.picture(folder / "one.png", form="PNG"), folder / "first.png")
    shutil.rmtree(folder / "drawn")
    (folder / "names").write_text("\n".join(listed))


def load_names(name: str, folder: Path):
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for listed in sorted({*(folder / "names").read_bytes().split(b"\n")})[:40]:
        names = [item[:60] for item in listed.replace(b"\0", b"").split(b"/") if item.strip(b".")]
        path = root.joinpath("data", *(item.decode("utf-8", "surrogateescape") for item in names[:4]))
        if not names or path.exists() or any(parent.is_file() for parent in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((folder / "first.png").read_bytes() + listed)
    return load_table(name, root)


def check_names(folder: Path, table) -> None:
    left_out = sum(int(note.split()[0]) for note in table.notes if re.match(r"\d+ (?!files|groups)", note))
    assert table.n_source_items == table.n_items + left_out
    table.describe().encode()


PARSERS = [
    Parser("fhibe: csv", drawn_people.FHIBE_FACES, drawn_people.fhibe, partial(load_table, "fhibe"),
           partial(check_complete, partial(count_records, drawn_people.FHIBE_FACES, columns=FHIBE_COLUMNS)),
           place=PLACE, named=(".png",)),
    Parser("facet: csv", "annotations/annotations.csv", drawn_people.facet, partial(load_table, "facet"),
           partial(check_complete, partial(count_records, "annotations/annotations.csv",
                                           columns=FACET_COLUMNS)),
           place=PLACE + "|no person", named=(".jpg",)),
    Parser("sispi: tar", TAR, write_tar, partial(load_table, "sispi"), check_tar),
    Parser("social_counterfactuals: parquet", PARQUET, write_single_shard,
           partial(load_table, "social_counterfactuals"), check_names, change=parquet_changed,
           named=("data",)),
    Parser("pictures: parquet", PARQUET, write_single_shard, read_rows, change=parquet_changed,
           named=("pictures cannot be read",)),
    Parser("pairs: names of pictures", "names", partial(write_names, "pairs"), partial(load_names, "pairs"),
           check_names, "_-./", named=("root",)),
    Parser("visogender: tsv", "OO_Visogender.tsv", drawn_people.visogender,
           partial(load_table, "visogender"), partial(check_complete, count_tsv), "\t", place=PLACE,
           named=("pictures", "root")),
]  # fmt: skip
