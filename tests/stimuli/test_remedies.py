"""Remedies fit their source: a lab's own files are never said to be fetched again."""

import re
import shutil

import pytest

from src.errors import InputError
from tests.stimuli import drawn
from tests.stimuli.layouts import load
from tests.stimuli.test_mistakes import CSV, edited


def refusal(layout, root, **choice):
    with pytest.raises(InputError) as error:
        load(layout, root, **choice)
    return str(error.value)


def backslashed(root, csv="faces.csv"):
    """Write the paths of a csv as Windows does."""
    path = root / csv
    path.write_text(path.read_text().replace("/", "\\"))


class TestBackslashes:
    def test_paths_of_windows_are_read_and_noted(self, tmp_path):
        frame, expected, notes = load("folder", drawn.folder(tmp_path))
        backslashed(tmp_path)
        again, still, noted = load("folder", tmp_path)
        assert again.equals(frame)
        assert (still, notes) == (expected, [])
        assert noted == ["paths of faces.csv with \\ in place of / in 12 rows"]

    def test_so_are_those_of_a_published_csv_that_windows_saved_again(self, tmp_path):
        frame, _, notes = load("fairface", drawn.fairface(tmp_path))
        backslashed(tmp_path, "fairface_label_train.csv")
        again, _, noted = load("fairface", tmp_path)
        assert again.equals(frame)
        assert noted == ["paths of fairface_label_train.csv with \\ in place of / in 24 rows", *notes]

    def test_a_picture_that_stands_in_both_ways_stands_twice(self, tmp_path):
        drawn.folder(tmp_path)
        edited("faces.csv", "right/2.png", r"right\0.png")(tmp_path)
        assert "file 'right/0.png' stands in row 2 already" in refusal("folder", tmp_path)

    def test_a_name_that_holds_a_backslash_is_left_as_it_is(self, tmp_path):
        drawn.folder(tmp_path)
        (tmp_path / "left" / "1.png").rename(tmp_path / r"left\1.png")
        edited("faces.csv", "left/1.png", r"left\1.png")(tmp_path)
        frame, _, notes = load("folder", tmp_path)
        assert (r"left\1.png" in set(frame["id"]), notes) == (True, [])

    @pytest.mark.parametrize("path", [r"C:\faces\1.png", "{root}/left/1.png", r"\\server\faces\1.png"])
    def test_a_full_path_is_said_to_be_one(self, tmp_path, path):
        drawn.folder(tmp_path)
        edited("faces.csv", "left/1.png", path.format(root=tmp_path))(tmp_path)
        said = refusal("folder", tmp_path)
        assert "is a full path. Write it as it is below faces.root" in said
        assert "leads out" not in said


PUBLISHED = re.compile("publish|archive|make data|fetch|download", re.IGNORECASE)


class TestOwnFolder:
    @pytest.mark.parametrize(
        ("choice", "message"),
        [
            ({"file": "filepath"}, "no column filepath; found file, ethnicity"),
            ({"group": ["race"]}, "no column race; found file, ethnicity"),
            ({"file": "site"}, "none of the 12 pictures"),
        ],
    )
    def test_its_columns_are_named_by_their_settings(self, tmp_path, choice, message):
        drawn.folder(tmp_path)
        lines = (tmp_path / "faces.csv").read_text().splitlines()
        lines[1:] = [f"{line}{number}" for number, line in enumerate(lines[1:])]
        (tmp_path / "faces.csv").write_text("\n".join(lines) + "\n")
        said = refusal("folder", tmp_path, **choice)
        assert message in said
        assert "faces.file" in said
        assert not PUBLISHED.search(said)

    def test_pictures_in_another_place(self, tmp_path):
        drawn.folder(tmp_path)
        (tmp_path / "left").rename(tmp_path / "elsewhere")
        shutil.rmtree(tmp_path / "right")
        said = refusal("folder", tmp_path)
        assert "none of the 12 pictures" in said
        assert "faces.root" in said
        assert "faces.file" in said
        assert not PUBLISHED.search(said)

    @pytest.mark.parametrize("per_group", [None, 1])
    def test_a_group_without_a_picture(self, tmp_path, per_group):
        drawn.folder(tmp_path)
        for number in (0, 3):
            (tmp_path / ("left" if number % 2 else "right") / f"{number}.png").unlink()
        said = refusal("folder", tmp_path, per_group=per_group)
        assert "groups without a face" in said
        assert "per_group=0" not in said
        assert "delete the rows" in said

    def test_landmarks(self, tmp_path):
        from src.stimuli.morphs import landmark_templates

        (tmp_path / "points.csv").write_text("name,x,y\na,1,2\n")
        with pytest.raises(
            InputError, match="no column fname; found name, x, y. Set faces.landmarks"
        ) as error:
            landmark_templates.landmarks(tmp_path / "points.csv", {"a": tmp_path / "a.png"}, 64)
        assert not PUBLISHED.search(str(error.value))


@pytest.mark.parametrize("layout", ["fairface", "cfd", "utkface"])
def test_pictures_that_are_not_the_published_ones_have_a_loader(tmp_path, layout):
    drawn.picture(tmp_path / "Images" / "CFD" / "me.jpg")
    (tmp_path / "fairface_label_train.csv").write_text("path,sex\nme.jpg,F\n")
    assert "faces=folder" in refusal(layout, tmp_path)


def test_scenes_in_another_place_name_their_settings(tmp_path):
    drawn.oasis(tmp_path)
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    said = refusal("oasis", tmp_path)
    assert "set scenes.root and scenes.pictures" in said
    assert not PUBLISHED.search(said)


class TestScale:
    @pytest.mark.parametrize(
        ("layout", "old", "new", "message"),
        [
            ("oasis", "Pixabay,4,", "Pixabay,8.5,", "8.5' of 'War 4' is outside [1, 7]"),
            ("warriner", ",4,", ",62,", "62' of 'null' is outside [1, 9]"),
            ("nrc_vad", "null\t0.3", "null\t6.26", "6.26' of 'null' is outside [0, 1]"),
            ("nrc_vad_v2", "joy\t1", "joy\t8", "8' of 'joy' is outside [-1, 1]"),
        ],
    )
    def test_a_rating_off_the_scale_names_the_ends_of_the_scale(self, tmp_path, layout, old, new, message):
        getattr(drawn, layout)(tmp_path)
        edited(CSV[layout], old, new)(tmp_path)
        said = refusal(layout, tmp_path)
        role = "scenes" if layout == "oasis" else "words"
        assert message in said
        assert f"{role}.lowest and {role}.highest" in said
        assert "delete" not in said

    @pytest.mark.parametrize("rating", ["high", "", "6,26"])
    def test_what_is_no_number_is_not_a_matter_of_scale(self, tmp_path, rating):
        drawn.oasis(tmp_path)
        edited("OASIS.csv", "Pixabay,4,", f'Pixabay,"{rating}",')(tmp_path)
        said = refusal("oasis", tmp_path)
        assert f"row 5: Valence_mean {rating!r} of 'War 4' is not a number" in said
        assert "highest" not in said

    def test_another_scale_is_rescaled(self, tmp_path):
        drawn.oasis(tmp_path)
        edited("OASIS.csv", "Pixabay,6,", "Pixabay,9,")(tmp_path)
        frame, _, _ = load("oasis", tmp_path, lowest=1, highest=9)
        assert frame["valence"].tolist() == pytest.approx([0, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 1])
        drawn.nrc_vad(tmp_path)
        path = tmp_path / CSV["nrc_vad"]
        path.write_text("calm\t6.5\ngrim\t1\nglad\t9\n")
        words, _, _ = load("nrc_vad", path, lowest=1, highest=9)
        assert words["valence"].tolist() == pytest.approx([5.5 / 8, 0, 1])

    @pytest.mark.parametrize("layout", ["oasis", "nrc_vad", "warriner"])
    def test_a_scale_that_ends_where_it_begins_is_refused(self, tmp_path, layout):
        getattr(drawn, layout)(tmp_path)
        assert "must be below" in refusal(layout, tmp_path, lowest=3, highest=3)

    def test_the_settings_of_the_yaml_reach_the_loader(self, tmp_path, job):
        from src import stimuli

        drawn.oasis(tmp_path / "oasis")
        drawn.warriner(tmp_path / "warriner")
        settings = ["scenes.highest=13", "words=warriner", "words.lowest=-7", "words.word=V.SD.Sum"]
        cfg = job("dataset=photos", f"dataset.root={tmp_path}", *settings[:3]).cfg
        assert stimuli.load(cfg, "scenes").frame["valence"].max() == pytest.approx(5 / 12)
        assert stimuli.load(cfg, "words").frame["valence"].min() == pytest.approx(8 / 16)
        with pytest.raises(InputError, match="V.SD.Sum '2.21' stands in row 2 already"):
            stimuli.load(job("dataset=photos", f"dataset.root={tmp_path}", *settings[1:2], *settings[3:]).cfg,
                         "words")  # fmt: skip
