"""What loaders refuse: one mistake each, and the words in which it is told."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from src.configs import VaderConfig
from src.errors import InputError
from src.stimuli import lexicons
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
Mistake = Callable[[Path], object]


def edited(file: str, old: str, new: str) -> Mistake:
    """One place of a file changed; line ends stay as they are."""

    def change(root: Path) -> None:
        content = (root / file).read_bytes().decode()
        assert old in content
        (root / file).write_bytes(content.replace(old, new, 1).encode())

    return change


def written(file: str, content: bytes) -> Mistake:
    return lambda root: (root / file).write_bytes(content)


def cut(file: str) -> Mistake:
    return lambda root: (root / file).write_bytes((root / file).read_bytes()[:300])


def removed(folder: str) -> Mistake:
    return lambda root: shutil.rmtree(root / folder)


def copied(file: str, to: str) -> Mistake:
    def change(root: Path) -> None:
        (root / to).parent.mkdir(exist_ok=True)
        shutil.copy(root / file, root / to)

    return change


def refused(layout: str, root: Path, mistake: Mistake, choice: dict, message: str) -> None:
    getattr(drawn, layout)(root)
    mistake(root)
    with pytest.raises(InputError, match=message):
        load(layout, root, **choice)


def nothing(root: Path) -> None:
    """The files are in order; the choice is not."""


@pytest.mark.parametrize(
    ("layout", "choice", "message"),
    [
        ("fairface", {"per_group": 5}, r"5 faces per group.*'Asian Men': 3.*faces.per_group=3 or less"),
        ("cfd", {"per_group": 3}, r"3 faces per group.*'Asian Men': 2.*faces.per_group=2 or less"),
        ("utkface", {"per_group": 9}, r"9 faces per group.*'Asian Men': 3.*faces.per_group=3 or less"),
        ("folder", {"per_group": 9}, r"9 faces per group.*'Roma F': 2.*faces.per_group=2 or less"),
        ("fairface", {"races": {"Martian": ["Martian"]}}, r"has race 'Martian'.*found Black, East Asian"),
        ("cfd", {"races": {"Indian": ["I"]}}, r"no face has race 'I'.*found A, B, L, W. Correct faces.races"),
        ("cfd", {"genders": {"Men": ["Male"]}}, r"no face has gender 'Male'.*found F, M"),
        ("cfd", {"expressions": ["HO"]}, r"has expression 'HO'.*found HC, N. Correct faces.expressions"),
        ("cfd", {"races": {"L": ["L"]}, "expressions": ["HC"]}, "race, gender and expression at once"),
        ("cfd", {"races": {"L": ["L"]}}, r"groups without a face: {'L Men': 0, 'L Women': 1}"),
        ("cfd", {"pictures": ["Images/CFD-X"]}, r"Images/CFD-X: no such folder. Set .* faces.pictures"),
        ("cfd", {"pictures": ["Images/CFD", "Images/no"]}, "Images/no: no such folder"),
        ("cfd", {"norming": "ages.csv"}, r"ages.csv: no such file. .* faces.norming, or leave that out"),
        ("utkface", {"races": {"Martian": ["7"]}}, r"has race '7' \(asked for by 'Martian'\); found 0, 1, 2"),
        ("utkface", {"ages": [90, 99]}, "no face is of a chosen race, gender and age at once"),
        ("utkface", {"ages": [30, 20]}, r"faces.ages=\[30, 20\]: must be youngest and oldest"),
        ("utkface", {"ages": [30]}, r"faces.ages=\[30\]: must be youngest and oldest"),
        ("folder", {"file": "picture"}, "no column picture; found file, ethnicity, sex, site"),
        ("folder", {"group": ["race"]}, "no column race; found file, ethnicity, sex, site"),
        ("folder", {"group": []}, "name the columns of the csv"),
        ("folder", {"csv": "none.csv"}, "no such file. Set faces.root"),
        ("nrc_vad", {"lowest": -1}, r"none of 5 valences is negative.* words=nrc_vad, or set words.lowest=0"),
        ("nrc_vad_v2", {"lowest": 0}, r"row 3: valence -1.000 of 'abandon' is neg.* words=nrc_vad_v2"),
    ],
)
def test_a_choice_that_the_files_cannot_serve_is_refused(tmp_path, layout, choice, message):
    refused(layout, tmp_path, nothing, choice, message)


@pytest.mark.parametrize(
    ("layout", "old", "new", "message"),
    [
        ("fairface", "train/3.jpg", "train/2.jpg", r"row 4: file 'train/2.jpg' stands in row 3 already"),
        ("fairface", "gender", "sex", r"no column gender; found file, age, sex"),
        ("fairface", ",Black,True", "", r"row 2: 3 cells where the header has 5"),
        ("oasis", "War 4", "War 1", r"row 5: Theme 'War 1' stands in row 2 already"),
        *(
            (
                "oasis",
                "Pixabay,4,",
                f"Pixabay,{rating},",
                rf"row 5: Valence_mean '{rating}' of 'War 4' is {problem}",
            )
            for rating, problem in (
                *(("0.5", r"outside \[1, 7\]"), ("7.1", "outside"), ("inf", "outside")),
                *(("high", "not a number"), ("nan", "not a number"), ("", "not a number")),
            )
        ),
        ("folder", "left/1.png", "right/0.png", r"row 3: file 'right/0.png' stands in row 2 already"),
        ("folder", "left/1.png", "./right/0.png", r"row 3: file 'right/0.png' stands in row 2 already"),
        *(
            ("folder", "left/1.png", path, r"row 3: .* leads out of the folder. Write a path below")
            for path in ("../1.png", "left/../../1.png", r"..\1.png")
        ),
        *(
            ("folder", "left/1.png", path, r"row 3: .* is a full path. Write it as it is below faces.root")
            for path in ("/left/1.png", r"C:\1.png")
        ),
        ("folder", ",Sami,F,", ",,F,", r"row 3: no ethnicity \(1 such rows\)"),
        ("folder", "left/1.png", "", r"row 3: no file \(1 such rows\)"),
        ("warriner", "worst", "null", r"row 4: Word 'null' stands in row 3 already"),
        ("warriner", "worst", "", r"row 4: no Word"),
        *(
            ("warriner", ",4,", f",{mean},", rf"row 3: V.Mean.Sum '{mean}' of 'null' is {problem}")
            for mean, problem in (
                *(("0.9", r"outside \[1, 9\]"), ("9.01", "outside")),
                *(("NA", "not a number"), ("", "not a number")),
            )
        ),
        ("warriner", "V.Mean.Sum", "Valence", r"no column V.Mean.Sum; found , Word, Valence"),
        *(
            ("nrc_vad", "a la carte\t0.7", line, message)
            for line, message in (
                ("word\n", r"row 5: no tab in 'word'"),
                ("word\tx", r"row 5: valence 'x' of 'word' is not a number"),
                ("word\tvalence", r"row 5: valence 'valence' of 'word' is not a number"),
                ("word\t1.2", r"row 5: valence '1.2' of 'word' is outside"),
                ("word\t-1.2", r"row 5: valence '-1.2' of 'word' is outside"),
                ("word\tnan", r"row 5: valence 'nan' of 'word' is not a number"),
                ("null\t0.5", r"row 5: word 'null' stands in row 3 already"),
                ("\t0.5", r"row 5: no word"),
                ("\n null \t0.5", r"row 6: word 'null' stands in row 3 already"),
            )
        ),
        ("nrc_vad", "abandon\t0.052", "abandon\tlow", r"row 1: valence 'low' of 'abandon' is not a number"),
        ("nrc_vad_v2", "joy\t1", "joy\t1.1", r"row 5: valence '1.1' of 'joy' is outside \[-1, 1\]"),
        ("nrc_vad_v2", "joy", "abandon", r"row 5: word 'abandon' stands in row 3 already"),
    ],
)
def test_a_bad_row_is_named(tmp_path, layout, old, new, message):
    refused(layout, tmp_path, edited(CSV[layout], old, new), {}, message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Model", "Target", "no column Model; found CFD 3.0"),
        ("AgeSelf,AgeRated", "Old,Young", "no age in AgeSelf or AgeRated"),
        ("AM-001", "AF-001", "row 6: person 'AF-001' stands in row 5 already"),
    ],
)
def test_norming_data_that_give_no_ages_are_refused(tmp_path, old, new, message):
    refused("cfd", tmp_path, edited(CSV["cfd"], old, new), {"norming": CSV["cfd"]}, message)


@pytest.mark.parametrize(
    ("layout", "mistake", "message"),
    [
        ("fairface", removed("train"), "none of the 12 pictures that it names is there"),
        ("cfd", removed("Images/CFD"), r"Images/CFD: no such folder. Set dataset.root"),
        ("cfd", copied("Images/CFD/AF-001/CFD-AF-001-025-N.jpg", "Images/CFD/copy/CFD-AF-001-025-N.JPG"),
         r"CFD-AF-001-025-N is at .*AF-001/CFD-AF-001-025-N.jpg already \(1 such pictures\)"),
        ("utkface", copied("20_0_0_201701002000000.jpg.chip.jpg", "wild/20_0_0_201701002000000.jpg"),
         r"20_0_0_201701002000000 is at .* already \(1 such pictures\). Delete the copies"),
        ("fairface", written("train/2.jpg", b""), r"1 of 12 pictures cannot be read:\n.*2\.jpg \(empty file"),
        ("fairface", written("train/2.jpg", b"no picture"), r"1 of 12 pictures.*:\n.*2\.jpg \("),
        ("fairface", cut("train/2.jpg"), r"1 of 12 pictures cannot be read:\n.*2\.jpg \("),
        ("cfd", cut("Images/CFD/AF-001/CFD-AF-001-025-N.jpg"), r"1 of 12 pictures.*:\n.*001-025-N\.jpg \("),
        ("folder", cut("left/1.png"), r"1 of 12 pictures cannot be read:\n.*1\.png \("),
        ("fairface", written(CSV["fairface"], "file,âge\né".encode("latin-1")), "Save it as a csv in UTF-8"),
        ("nrc_vad", written(CSV["nrc_vad"], "é\t0.5".encode("latin-1")), "Save it as text in UTF-8"),
        ("nrc_vad", written("other.txt", b""), r"2 \.txt files \(NRC-VAD-Lexicon.txt, other.txt\)"),
        ("warriner", written("other.csv", b""), r"2 \.csv files \(BRM-emot-submit.csv, other.csv\)"),
    ],
)  # fmt: skip
def test_files_that_are_not_as_published_are_refused(tmp_path, layout, mistake, message):
    refused(layout, tmp_path, mistake, {}, message)


@pytest.mark.parametrize(
    ("layout", "absent", "empty"),
    [
        ("fairface", "no such file. Set dataset.root", "no such file"),
        ("cfd", "no such folder. Set dataset.root", "no such folder"),
        ("utkface", "no such folder. Set dataset.root", "no picture is named like 25_0_1_.*found no picture"),
        ("folder", "no such file. Set faces.root", "no such file"),
        ("oasis", "no such file. Set dataset.root", "no such file"),
        ("nrc_vad", "no such file or folder. Set words.path", r"0 \.txt files"),
        ("warriner", "no such file or folder. Set words.path", r"0 \.csv files"),
    ],
)
def test_an_absent_or_empty_folder_says_what_to_set(tmp_path, layout, absent, empty):
    with pytest.raises(InputError, match=absent):
        load(layout, tmp_path / "nowhere")
    with pytest.raises(InputError, match=empty):
        load(layout, tmp_path)


def test_a_choice_that_no_face_meets_is_refused(tmp_path):
    drawn.fairface(tmp_path, per_group=1)
    edited(CSV["fairface"], "20-29,Male,Indian", "30-39,Male,Indian")(tmp_path)
    with pytest.raises(InputError, match="no face is of a chosen race, gender and age at once"):
        load("fairface", tmp_path, ages=["30-39"])


def test_a_folder_of_other_pictures_is_no_cfd(tmp_path):
    drawn.picture(tmp_path / "Images" / "CFD" / "1.jpg")
    with pytest.raises(InputError, match=r"named like CFD-BF-001-025-N.jpg; found 1 pictures, first '1.jpg'"):
        load("cfd", tmp_path)


def test_more_words_than_vader_has_are_refused():
    with pytest.raises(InputError, match="Ask for fewer, or null"):
        lexicons.vader(VaderConfig(10**6, 0))
