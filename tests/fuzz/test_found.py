"""What bad files once did: each ended in a traceback, was waited for, or lost rows without a word."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from src import configs
from src.errors import InputError
from src.generators import answer_log
from src.stimuli import pictures, taxonomy
from src.stimuli.csvs import read_csv
from src.stimuli.morphs import landmark_templates
from src.stimuli.obtain import _recorded
from src.stimuli.unpack import unpack
from src.studies.subtler import domains, items
from tests.fuzz import tables
from tests.fuzz.answers import asked
from tests.stimuli import drawn
from tests.stimuli.layouts import load


def changed(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_a_quote_without_its_other_half_swallows_no_rows(tmp_path):
    drawn.fairface(tmp_path)
    file = tmp_path / "fairface_label_train.csv"
    changed(file, b"train/3.jpg,more than 70,Male,Black,True", b'train/3.jpg,more than 70,Male,Black,"True')
    with pytest.raises(
        InputError, match=r"train.csv, row 4: unexpected end of data. Save it .* quote .* doubled"
    ):
        load("fairface", tmp_path)


def test_items_below_a_quote_without_its_other_half_are_missed(tmp_path):
    asked(tmp_path)
    changed(tmp_path / "items.csv", b",Option 2", b',"Option 2')
    with pytest.raises(InputError, match=r"items.csv, row 3: "):
        items.read(tmp_path / "items.csv")


@pytest.mark.parametrize(
    ("layout", "file"),
    [("oasis", "OASIS.csv"), ("warriner", "BRM-emot-submit.csv"), ("fairface", "fairface_label_train.csv")],
)
def test_a_header_alone_is_refused(tmp_path, layout, file):
    getattr(drawn, layout)(tmp_path)
    header = (tmp_path / file).read_bytes().replace(b"\r", b"\n").partition(b"\n")[0]
    (tmp_path / file).write_bytes(header + b"\n")
    with pytest.raises(InputError, match=rf"{file}: no rows below the header in row 1. Add one"):
        load(layout, tmp_path)


def test_norming_data_without_people_are_refused(tmp_path):
    drawn.cfd(tmp_path)
    (tmp_path / "norming.csv").write_text("Model,AgeSelf,AgeRated\n")
    with pytest.raises(InputError, match=r"norming.csv: no rows below the header"):
        load("cfd", tmp_path, norming="norming.csv")


def test_ages_that_nobody_has_are_none(tmp_path):
    drawn.cfd(tmp_path)
    changed(tmp_path / "norming.csv", b"AF-001,NA,30.5", b"AF-001,NA,1e400")
    changed(tmp_path / "norming.csv", b"AM-001,NA,31.5", b"AM-001,NA,-3")
    frame, _, notes = load("cfd", tmp_path, norming="norming.csv")
    assert frame.set_index("person" if "person" in frame else "id")["age"].dropna().between(0, 130).all()
    assert any(note.startswith(f"{2 + 6} people have no age") for note in notes)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"term\tvalence\tarousal\n"])
def test_a_lexicon_without_words_is_refused(tmp_path, content):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=r"a.txt: no lines of word, tab, valence in it. Name another"):
        load("nrc_vad", tmp_path / "a.txt")


def test_a_column_that_stands_twice_is_not_taken_by_lot(tmp_path):
    (tmp_path / "a.csv").write_text("file,race,race\na.jpg,A,B\n")
    with pytest.raises(
        InputError, match=r"a.csv, row 1: the column race stands there 2 times. Rename or delete"
    ):
        read_csv(tmp_path / "a.csv", ["file", "race"], "")


def test_a_name_longer_than_a_file_may_have_is_no_picture(tmp_path):
    drawn.folder(tmp_path)
    changed(tmp_path / "faces.csv", b"left/1.png", b"left/" + b"a" * 300 + b".png")
    frame, expected, notes = load("folder", tmp_path)
    assert (len(frame), expected, notes) == (11, 12, ["1 rows of faces.csv have no picture"])


def test_a_name_that_is_not_utf_8_is_named_or_left_out(tmp_path):
    root = drawn.utkface(tmp_path)
    strange = os.fsencode(root) + b"/0caf\xe9\n.jpg"
    drawn.picture(tmp_path / "x.jpg").rename(Path(os.fsdecode(strange)))
    assert any("0caf\\udce9\\n.jpg" in note for note in load("utkface", root)[2])
    Path(os.fsdecode(strange)).rename(root / "20_0_0_20170100\udce9.jpg")
    with pytest.raises(InputError, match=r"20_0_0_20170100\\udce9.jpg: the name is not UTF-8. Rename"):
        load("utkface", root)


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="no such file"):
        domains.read(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="not a file. Name another folder"):
        answer_log.Kept(tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match="no such file or folder"):
        load("nrc_vad", tmp_path / "pipe.yaml")
    with pytest.raises(InputError, match=r"pipe.yaml: no such file. Fetch it"):
        unpack(tmp_path / "pipe.yaml", {"**/images": "images"}, 10**6)
    with pytest.raises(InputError, match=r"pipe.yaml: not a record of a file \(not a file\). Delete it"):
        _recorded(tmp_path / "pipe.yaml", "u")


def test_half_of_a_character_is_no_word(tmp_path):
    for name, text in (("a.yaml", 'crafts: ["\\ud800x"]'), ("a.json", '{"crafts": ["\\ud800x"]}')):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=rf"{name}, crafts: .* holds half of a character. Write it"):
            taxonomy.words(
                configs.TaxonomyConfig(captions=tables.CAPTIONS, path=str(tmp_path / name), untyped="noun")
            )


@pytest.mark.parametrize(
    "text", ["[" * 3000, "? {a: 1}: b", "!!set {a}", "a: !!binary ''", "!!omap [a: 1]", "- " * 3000]
)
def test_what_yaml_knows_and_no_list_has_is_refused(tmp_path, text):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=r"a.yaml.*(Correct it|Write category|quote it)"):
        taxonomy.words(
            configs.TaxonomyConfig(captions=tables.CAPTIONS, path=str(tmp_path / "a.yaml"), untyped="noun")
        )


@pytest.mark.parametrize("count", ["0", "-1", "-5"])
def test_a_number_of_points_below_one_drops_none(tmp_path, count):
    tables.landmarked(tmp_path)
    changed(tmp_path / "points" / "a.tem", b"3\n10", f"{count}\n10".encode())
    with pytest.raises(
        InputError, match=rf"a.tem: not landmarks \(the number of points is {count}\). Write one"
    ):
        landmark_templates.landmarks(tmp_path / "points", {"a": tmp_path / "a.png"}, 64)


def test_a_damaged_archive_is_not_said_to_lack_room(tmp_path):
    (tmp_path / "set").mkdir()
    tables.archived("bz2", tmp_path / "set")
    archive = tmp_path / "set" / "set" / "archive"
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(InputError, match=r"archive: (damaged|neither a whole zip).*fetch it anew"):
        unpack(archive, {"**/images": "images"}, 10**6)


def test_a_size_that_is_none_in_a_header_of_tar_is_damage(tmp_path):
    with tarfile.open(tmp_path / "a", "w", format=tarfile.PAX_FORMAT) as packed:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"size": "-1", "GNU.sparse.major": "1", "GNU.sparse.minor": "0"}
        packed.addfile(info, io.BytesIO())
    with pytest.raises(InputError, match=r"a: "):
        unpack(tmp_path / "a", {"**/images": "images"}, 10**6)


@pytest.mark.parametrize(
    "text", ["[" * 30_000, '{"url": "u", "bytes": "3", "sha256": "ab"}', '{"url": "u"}', "[]"]
)
def test_a_record_of_another_kind_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(InputError, match=r"a.json: not a record of a file \(.*\). Delete it"):
        _recorded(tmp_path / "a.json", "u")


def test_a_decoder_that_stumbles_names_the_picture(tmp_path, monkeypatch):
    drawn.picture(tmp_path / "a.jpg")

    def stumbles(path):
        raise IndexError

    monkeypatch.setattr(pictures, "decode", stumbles)
    with pytest.raises(InputError, match=r"a.jpg \(IndexError\(\)\)"):
        pictures.hashes([tmp_path / "a.jpg"])
