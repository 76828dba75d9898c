"""Check that unusable files and settings are refused with the place and a remedy."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from src.errors import InputError
from src.stimuli.csvs import read_csv
from tests.stimuli import drawn
from tests.stimuli.layouts import load

CSV = {
    "fairface": "fairface_label_train.csv",
    "oasis": "OASIS.csv",
    "folder": "faces.csv",
    "cfd": "norming.csv",
    "warriner": "BRM-emot-submit.csv",
    "nrc_vad": "NRC-VAD-Lexicon.txt",
    "nrc_vad_v2": "NRC-VAD-Lexicon-v2.1.txt",
}
# Words of remedies for published files, which those for files of a lab must not contain.
PUBLISHED = re.compile("publish|archive|make data|fetch|download", re.IGNORECASE)
Mistake = Callable[[Path], object]


def edited(file: str, old: str, new: str) -> Mistake:
    """Return a mistake: the first `old` in a file is replaced, and line ends stay as they are."""

    def change(root: Path) -> None:
        content = (root / file).read_bytes().decode()
        assert old in content
        (root / file).write_bytes(content.replace(old, new, 1).encode())

    return change


def written(file: str, content: bytes) -> Mistake:
    return lambda root: (root / file).write_bytes(content)


def copied(file: str, to: str) -> Mistake:
    def change(root: Path) -> None:
        (root / to).parent.mkdir(exist_ok=True)
        shutil.copy(root / file, root / to)

    return change


def refusal(layout: str, root: Path, mistake: Mistake = lambda root: None, **choice) -> str:
    getattr(drawn, layout)(root)
    mistake(root)
    with pytest.raises(InputError) as error:
        load(layout, root, **choice)
    return str(error.value)


@pytest.mark.parametrize(
    ("layout", "choice", "message"),
    [
        ("fairface", {"per_group": 5}, r"5 faces per group.*'Asian Men': 3.*faces.per_group=3 or less"),
        ("fairface", {"races": {"Martian": ["Martian"]}}, r"has race 'Martian'.*found Black, East Asian"),
        ("cfd", {"races": {"L": ["L"]}}, r"groups without a face: {'L Men': 0, 'L Women': 1}"),
        ("cfd", {"pictures": ["Images/CFD", "Images/no"]}, "Images/no: no such folder. Set .*faces.pictures"),
        ("cfd", {"norming": "ages.csv"}, r"ages.csv: no such file. .* set faces.norming to it, or to null"),
        ("utkface", {"ages": [30, 20]}, r"faces.ages=\[30, 20\]: expected the youngest and the oldest"),
        ("folder", {"group": []}, "name the columns of the csv"),
        ("nrc_vad", {"lowest": -1}, r"none of 5 valences is negative.* words=nrc_vad, or set words.lowest=0"),
        ("nrc_vad_v2", {"lowest": 0}, r"row 3: valence -1.000 of 'abandon' is neg.* words=nrc_vad_v2"),
        ("oasis", {"lowest": 3, "highest": 3}, "expected finite numbers"),
    ],
)
def test_choices_that_the_files_cannot_serve(tmp_path, layout, choice, message):
    assert re.search(message, refusal(layout, tmp_path, **choice))


@pytest.mark.parametrize(
    ("layout", "old", "new", "message"),
    [
        ("fairface", "gender", "sex", r"no column gender; found file, age, sex"),
        ("fairface", ",Black,True", "", r"row 2: 3 cells where the header has 5"),
        ("oasis", "War 4", "War 1", r"row 5: Theme 'War 1' repeats row 2"),
        *(
            ("oasis", "Pixabay,4,", f"Pixabay,{rating},", rf"Valence_mean '{rating}' of 'War 4' is {why}")
            for rating, why in (
                *(("0.5", r"outside \[1, 7\].*set scenes.lowest"), ("inf", "outside"), ("nan", "not a num")),
            )
        ),
        ("folder", "left/1.png", "./right/0.png", r"row 3: file 'right/0.png' repeats row 2"),
        ("folder", "right/2.png", r"right\0.png", "file 'right/0.png' repeats row 2"),
        *(("folder", "left/1.png", p, "leads out of faces.root.") for p in ("left/../../1.png", r"..\1.png")),
        ("fairface", "train/2.jpg", "train/../../1", r"csv, row 3: .* leads out of faces.root. Correct"),
        *(("oasis", "War 4", p, r"OASIS.csv, row 5: .* leads out of scenes.root") for p in ("../1", r"..\1")),
        ("oasis", "War 4", "/etc/passwd", r"OASIS.csv, row 5: .* is a full path. Write"),
        *(("folder", "left/1.png", p, "is a full path") for p in ("/left/1.png", r"\\server\faces\1.png")),
        ("folder", ",Sami,F,", ",,F,", r"row 3: no ethnicity \(1 such rows\)"),
        ("warriner", ",4,", ",NA,", "row 3: V.Mean.Sum 'NA' of 'null' is not a number"),
        ("nrc_vad", "a la carte\t0.7", "word\n", r"row 5: no tab in 'word'"),
        ("nrc_vad", "a la carte\t0.7", "\t0.5", r"row 5: no word"),
        ("nrc_vad", "a la carte\t0.7", "\n null \t0.5", r"row 6: word 'null' repeats row 3"),
        (
            "warriner",
            ",4,",
            ',"4,5",',
            "row 3: V.Mean.Sum '4,5' of 'null' is a number with a decimal comma. Write",
        ),
        ("nrc_vad", "abandon\t0.052", "abandon\t0,052", r"row 1: valence '0,052' of .* decimal comma"),
        ("nrc_vad", "abandon\t0.052", "abandon\tlow", r"row 1: valence 'low' of 'abandon' is not a number"),
    ],
)
def test_bad_rows_are_named(tmp_path, layout, old, new, message):
    assert re.search(message, refusal(layout, tmp_path, edited(CSV[layout], old, new)))


@pytest.mark.parametrize(
    ("layout", "mistake", "message"),
    [
        ("fairface", lambda root: shutil.rmtree(root / "train"), "none of its 12 pictures exists"),
        ("cfd", copied("Images/CFD/AF-001/CFD-AF-001-025-N.jpg", "Images/CFD/copy/CFD-AF-001-025-N.JPG"),
         r"CFD-AF-001-025-N is already at .*AF-001/CFD-AF-001-025-N.jpg \(1 such pictures\). Delete the"),
        ("fairface", written("train/2.jpg", b""), r"1 of 12 pictures cannot be read:\n.*2\.jpg \(empty file"),
        ("folder", lambda root: [(root / name).unlink() for name in ("right/0.png", "left/3.png")],
         "groups without a face.*delete the rows"),
        ("nrc_vad", written("other.txt", b""), r"2 \.txt files \(NRC-VAD-Lexicon.txt, other.txt\)"),
    ],
)  # fmt: skip
def test_files_that_differ_from_the_published_ones(tmp_path, layout, mistake, message):
    assert re.search(message, refusal(layout, tmp_path, mistake))


@pytest.mark.parametrize(
    ("layout", "absent", "empty"),
    [
        ("utkface", "no such folder. Set dataset.root", "no picture is named like 25_0_1_.*found no picture"),
        ("folder", "no such file. Set faces.root", "no such file"),
        ("nrc_vad", "no such file or folder. Set words.path", r"0 \.txt files"),
    ],
)
def test_absent_and_empty_folders(tmp_path, layout, absent, empty):
    with pytest.raises(InputError, match=absent):
        load(layout, tmp_path / "nowhere")
    with pytest.raises(InputError, match=empty):
        load(layout, tmp_path)


@pytest.mark.parametrize(
    ("layout", "message"), [("fairface", ""), ("cfd", "001-025-N.jpg; found 1 pictures, first '1.jpg'.*")]
)
def test_other_pictures_have_another_loader(tmp_path, layout, message):
    drawn.picture(tmp_path / "Images" / "CFD" / "1.jpg")
    (tmp_path / CSV["fairface"]).write_text("path,sex\n1.jpg,F\n")
    with pytest.raises(InputError, match=message + "faces=folder"):
        load(layout, tmp_path)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"group": ["race"]}, "no column race; found file, ethnicity"),
        ({"file": "number"}, "none of its 12 pictures"),
    ],
)
def test_settings_of_the_columns_of_a_lab_are_named(tmp_path, choice, message):
    def numbered(root):
        lines = (root / "faces.csv").read_text().splitlines()
        lines = [f"{line},{number or 'number'}" for number, line in enumerate(lines)]
        (root / "faces.csv").write_text("\n".join(lines) + "\n")

    text = refusal("folder", tmp_path, numbered, **choice)
    assert message in text
    assert "faces.file" in text
    assert not PUBLISHED.search(text)


def test_windows_paths_are_read_and_noted_unless_a_file_has_the_name(tmp_path):
    frame, expected, notes = load("fairface", drawn.fairface(tmp_path))
    path = tmp_path / CSV["fairface"]
    path.write_text(path.read_text().replace("/", "\\"))
    again, count, new_notes = load("fairface", tmp_path)
    assert again.equals(frame)
    assert count == expected
    assert new_notes == [f"paths of {path.name} with \\ in place of / in 24 rows", *notes]
    drawn.folder(tmp_path)
    (tmp_path / "left" / "1.png").rename(tmp_path / r"left\1.png")
    edited("faces.csv", "left/1.png", r"left\1.png")(tmp_path)
    frame, _, notes = load("folder", tmp_path)
    assert (r"left\1.png" in set(frame["id"]), notes) == (True, [])


def test_another_scale_is_rescaled(tmp_path):
    drawn.oasis(tmp_path)
    edited("OASIS.csv", "Pixabay,6,", "Pixabay,9,")(tmp_path)
    frame, _, _ = load("oasis", tmp_path, lowest=1, highest=9)
    assert frame["valence"].tolist() == pytest.approx([0, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 1])
    (tmp_path / "a.txt").write_text("calm\t6.5\ngrim\t1\nglad\t9\n")
    words, _, _ = load("nrc_vad", tmp_path / "a.txt", lowest=1, highest=9)
    assert words["valence"].tolist() == pytest.approx([5.5 / 8, 0, 1])


LONG = 140_000
UNUSED = {
    "longer than a book": ("1;" * LONG).encode(),
    "JSON over several lines": ('"' + json.dumps({"a": "b\n"}, indent=1).replace('"', '""') + '"').encode(),
    "Latin-1": "Curaçao".encode("latin-1"),
    "a NUL": b"a\0b",
}


@pytest.mark.parametrize("unused", UNUSED.values(), ids=UNUSED)
def test_unused_cells_may_contain_anything(tmp_path, unused):
    (tmp_path / "a.csv").write_bytes(b"file,outline,race\na.jpg," + unused + b",A\nb.jpg,,B\n")
    rows = read_csv(tmp_path / "a.csv", ["file", "race"], "")
    assert rows.to_dict("list") == {"file": ["a.jpg", "b.jpg"], "race": ["A", "B"], "row": [2, 3]}
    faces = drawn.folder(tmp_path) / "faces.csv"
    faces.write_bytes(faces.read_bytes().replace(b"Oslo", unused, 1))
    assert len(load("folder", tmp_path)[0]) == 12


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"file,race,race\na.jpg,A,B\n", "row 1: the column race occurs 2 times. Rename one"),
        (b"file,race\na," + b"a" * 2 * 10**6, "row 2: race has 2,000,000 characters; the limit is 1,048,576"),
        ("file,race\na,Curaçao".encode("latin-1"), "row 2: race contains bytes that are not UTF-8"),
        ("file,race\na,b\n".encode("utf-16-le"), "row 1: .*NUL.* Save it as a csv in UTF-8"),
    ],
)
def test_used_columns_are_unique_and_their_cells_bounded_text(tmp_path, content, message):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=f"a.csv, {message}") as error:
        read_csv(tmp_path / "a.csv", ["file", "race"], "")
    assert len(str(error.value)) < 400
