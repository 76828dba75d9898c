"""Loaders of published layouts: what they keep, what they say, what they refuse."""

from pathlib import Path

import pandas as pd
import pytest

from src.errors import InputError
from src.stimuli import fairface, lexicons, oasis
from tests.stimuli import drawn

CHOICE = {
    "races": {"Asian": ["East Asian"], "Black": ["Black"]},
    "genders": {"Men": ["Male"], "Women": ["Female"]},
    "ages": None,
    "per_group": None,
    "seed": 0,
}


def load_faces(root: Path, **changed):
    return fairface.load(root, "fairface_label_train.csv", **CHOICE | changed)


def load_scenes(root: Path):
    return oasis.load(root, "OASIS.csv", "images")


def edit(path: Path, old: str, new: str) -> None:
    content = path.read_bytes().decode()
    assert old in content
    path.write_bytes(content.replace(old, new, 1).encode())


class TestFairFace:
    def test_groups_are_what_the_config_names(self, tmp_path):
        frame, expected, notes = load_faces(drawn.fairface(tmp_path))
        assert sorted(frame["group"].unique()) == ["Asian Men", "Asian Women", "Black Men", "Black Women"]
        assert frame.groupby("group").size().tolist() == [3, 3, 3, 3]
        assert frame["sha256"].nunique() == 12
        assert expected == 24
        assert notes == ["12 of other races, genders or ages"]

    def test_ages_can_be_chosen(self, tmp_path):
        frame, _, _ = load_faces(drawn.fairface(tmp_path), ages=["20-29", "30-39"])
        assert sorted(frame["age"].unique()) == ["20-29", "30-39"]

    def test_a_draw_is_seeded_and_stated(self, tmp_path):
        root = drawn.fairface(tmp_path)
        first, _, notes = load_faces(root, per_group=2)
        assert first.groupby("group").size().tolist() == [2, 2, 2, 2]
        assert notes[-1] == "4 left by faces.per_group=2"
        again, _, _ = load_faces(root, per_group=2)
        pd.testing.assert_frame_equal(first, again)
        assert any(not first.equals(load_faces(root, per_group=2, seed=s)[0]) for s in range(1, 6))

    def test_too_few_faces_are_refused_with_what_there_is(self, tmp_path):
        with pytest.raises(InputError, match=r"5 faces per group.*'Asian Men': 3.*faces.per_group=3 or less"):
            load_faces(drawn.fairface(tmp_path), per_group=5)

    def test_a_race_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(InputError, match=r"no face has race 'Martian'.*found Black, East Asian"):
            load_faces(drawn.fairface(tmp_path), races={"Martian": ["Martian"]})

    def test_a_choice_that_no_face_meets_is_refused(self, tmp_path):
        root = drawn.fairface(tmp_path, per_group=1)
        edit(root / "fairface_label_train.csv", "20-29,Male,Indian", "30-39,Male,Indian")
        with pytest.raises(InputError, match="no face is of a chosen race, gender and age at once"):
            load_faces(root, ages=["30-39"])

    def test_a_missing_root_says_what_to_set(self, tmp_path):
        with pytest.raises(InputError, match=r"no such file. Set dataset.root"):
            load_faces(tmp_path / "nowhere")

    def test_a_csv_without_pictures_is_refused(self, tmp_path):
        root = drawn.fairface(tmp_path)
        for path in (root / "train").iterdir():
            path.unlink()
        with pytest.raises(InputError, match="none of the 12 pictures that it names is there"):
            load_faces(root)

    def test_absent_pictures_are_counted(self, tmp_path):
        root = drawn.fairface(tmp_path)
        (root / "train" / "1.jpg").unlink()
        frame, _, notes = load_faces(root)
        assert len(frame) == 11
        assert "1 rows of fairface_label_train.csv have no picture" in notes

    @pytest.mark.parametrize("content", [b"", b"no picture", None])
    def test_a_broken_picture_is_refused_by_name(self, tmp_path, content):
        root = drawn.fairface(tmp_path)
        path = root / "train" / "2.jpg"
        path.write_bytes(path.read_bytes()[:300] if content is None else content)
        with pytest.raises(InputError, match=r"1 of 12 pictures cannot be read:\n.*2\.jpg \("):
            load_faces(root)

    def test_a_row_twice_is_refused_with_both_rows(self, tmp_path):
        root = drawn.fairface(tmp_path)
        edit(root / "fairface_label_train.csv", "train/3.jpg", "train/2.jpg")
        with pytest.raises(InputError, match=r"row 4: file 'train/2.jpg' stands in row 3 already"):
            load_faces(root)

    def test_a_missing_column_is_named(self, tmp_path):
        root = drawn.fairface(tmp_path)
        edit(root / "fairface_label_train.csv", "gender", "sex")
        with pytest.raises(InputError, match=r"no column gender; found file, age, sex"):
            load_faces(root)

    def test_a_short_row_is_refused(self, tmp_path):
        root = drawn.fairface(tmp_path)
        edit(root / "fairface_label_train.csv", ",Black,True", "")
        with pytest.raises(InputError, match=r"row 2: 3 cells where the header has 5"):
            load_faces(root)

    def test_a_csv_in_another_encoding_is_refused(self, tmp_path):
        root = drawn.fairface(tmp_path)
        (root / "fairface_label_train.csv").write_bytes("file,age\né".encode("latin-1"))
        with pytest.raises(InputError, match="Save it as a csv in UTF-8"):
            load_faces(root)


class TestOasis:
    def test_dirt_of_the_published_files_is_handled(self, tmp_path):
        frame, expected, notes = load_scenes(drawn.oasis(tmp_path))
        assert expected == 6
        assert notes == []
        assert frame["id"].tolist() == [f"War {n}" for n in range(1, 7)]
        assert frame["valence"].tolist() == pytest.approx([n / 6 for n in range(6)])

    def test_rows_without_a_picture_are_counted(self, tmp_path):
        root = drawn.oasis(tmp_path)
        (root / "images" / "War 5.jpg").unlink()
        frame, expected, notes = load_scenes(root)
        assert (len(frame), expected) == (5, 6)
        assert notes == ["1 rows of OASIS.csv have no picture"]

    @pytest.mark.parametrize("rating", ["0.5", "7.1", "high", "nan", ""])
    def test_a_rating_out_of_range_is_refused(self, tmp_path, rating):
        root = drawn.oasis(tmp_path)
        edit(root / "OASIS.csv", "Pixabay,4,", f"Pixabay,{rating},")
        with pytest.raises(InputError, match=rf"row 5: Valence_mean '{rating}' of 'War 4'.*from 1 to 7"):
            load_scenes(root)

    def test_a_theme_twice_is_refused(self, tmp_path):
        root = drawn.oasis(tmp_path)
        edit(root / "OASIS.csv", "War 4", "War 1")
        with pytest.raises(InputError, match=r"row 5: Theme 'War 1' stands in row 2 already"):
            load_scenes(root)


class TestNrcVad:
    def test_every_row_is_a_word(self, tmp_path):
        frame, expected, notes = lexicons.nrc_vad(drawn.nrc_vad(tmp_path))
        assert frame["word"].tolist() == ["abandon", "abdominal", "null", "nan", "a la carte"]
        assert (expected, notes) == (5, [])

    @pytest.mark.parametrize(
        ("line", "message"),
        [
            ("word", r"row 6: 'word' is not word, tab, valence"),
            ("word\tx", r"row 6: .* is not word, tab, valence"),
            ("word\t1.2", r"row 6: valence 1.2 of 'word' is outside"),
            ("word\tnan", r"row 6: valence nan of 'word' is outside"),
            ("null\t0.5", r"row 6: 'null' stands in row 3 already"),
            ("\t0.5", r"row 6: .* is not word, tab, valence"),
            ("\n null \t0.5", r"row 7: 'null' stands in row 3 already"),
        ],
    )
    def test_a_bad_row_is_named(self, tmp_path, line, message):
        root = drawn.nrc_vad(tmp_path)
        with (root / "NRC-VAD-Lexicon.txt").open("a") as file:
            file.write(line + "\n")
        with pytest.raises(InputError, match=message):
            lexicons.nrc_vad(root)

    def test_another_encoding_is_refused(self, tmp_path):
        (drawn.nrc_vad(tmp_path) / "NRC-VAD-Lexicon.txt").write_bytes("é\t0.5".encode("latin-1"))
        with pytest.raises(InputError, match="Save it as text in UTF-8"):
            lexicons.nrc_vad(tmp_path)

    def test_an_absent_lexicon_says_what_to_set(self, tmp_path):
        with pytest.raises(InputError, match="no such file or folder. Set words.path"):
            lexicons.nrc_vad(tmp_path / "nowhere")
        with pytest.raises(InputError, match=r"0 \.txt files"):
            lexicons.nrc_vad(tmp_path)


class TestVader:
    def test_alphabetic_words_with_ratings_in_range(self):
        frame, expected, notes = lexicons.vader(None, 0)
        assert frame["word"].str.fullmatch("[a-z]+").all()
        assert frame["word"].is_unique
        assert frame["valence"].between(0, 1).all()
        assert expected - len(frame) == sum(int(note.split()[0]) for note in notes)
        assert len(notes) == 2
        # From the lexicon itself: abandon has a mean of -1.9.
        assert frame.set_index("word")["valence"]["abandon"] == pytest.approx((4 - 1.9) / 8)

    def test_a_draw_is_seeded(self):
        first, again, other = (lexicons.vader(100, seed)[0] for seed in (0, 0, 1))
        assert first.equals(again)
        assert not first.equals(other)

    def test_more_words_than_there_are_is_refused(self):
        with pytest.raises(InputError, match="Ask for fewer, or null"):
            lexicons.vader(10**6, 0)
