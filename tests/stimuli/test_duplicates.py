"""Pictures that occur twice stop a job, or are dropped and counted, whatever they are called."""

import shutil

import pytest

from src import stimuli
from src.errors import InputError
from src.stimuli import loaders
from tests.stimuli import drawn
from tests.stimuli.layouts import load

# A layout, a picture of it, another under which the same bytes are found, and the words that name both.
PAIRS = [
    ("folder", "right/0.png", "right/6.png", r"faces.csv, row 8 \(.*6.png\): .* as .*, row 2 \(.*0.png\)"),
    ("folder", "right/0.png", "left/5.png", r"row 7 .* row 2 .* with group Roma F \(here Sorb F\); 1 such"),
    ("fairface", "train/1.jpg", "train/2.jpg", r"_train.csv, row 3 \(.*2.jpg\): .* row 2 \(.*/1.jpg\)"),
    ("fairface", "train/1.jpg", "train/4.jpg", r"with group Black Men \(here Black Women\)"),
    ("cfd", "Images/CFD/BF-001/CFD-BF-001-025-N.jpg", "Images/CFD/BF-002/CFD-BF-002-025-N.jpg",
     r"CFD-BF-002-025-N.jpg: the same picture, byte for byte, as .*CFD-BF-001-025-N.jpg; 1 such"),
    ("utkface", "20_0_0_201701002000000.jpg.chip.jpg", "20_1_0_201701102000000.jpg.chip.jpg",
     r"20_1_0_.*: .* as .*20_0_0_.* with group White Men \(here White Women\)"),
    ("oasis", "images/War 1.jpg", "images/War 4.jpg", r"row 5 .*War 4.*row 2 .*War 1.* with valence 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "first", "second", "message"), PAIRS)
def test_it_stops_and_names_both(tmp_path, layout, first, second, message):
    getattr(drawn, layout)(tmp_path)
    shutil.copy(tmp_path / first, tmp_path / second)
    role = "scenes" if layout == "oasis" else "faces"
    with pytest.raises(
        InputError, match=rf"{message}(?s:.)*Delete one .* set {role}.duplicates=drop to keep"
    ):
        load(layout, tmp_path)


@pytest.mark.parametrize(("layout", "first", "second"), [pair[:3] for pair in PAIRS])
def test_drop_keeps_the_first_and_counts_the_others(tmp_path, layout, first, second):
    getattr(drawn, layout)(tmp_path)
    before, expected, notes = load(layout, tmp_path)
    shutil.copy(tmp_path / first, tmp_path / second)
    frame, still, said = load(layout, tmp_path, duplicates="drop")
    assert still == expected
    assert frame["path"].tolist() == [path for path in before["path"] if path != str(tmp_path / second)]
    assert [note.split(" (")[0].split(",")[0] for note in said if note not in notes] == [
        "1 pictures occur a second time"
    ]
    assert list(frame.columns) == list(before.columns)


def test_a_draw_is_of_distinct_pictures_and_stays_what_it_was_without_copies(tmp_path):
    drawn.fairface(tmp_path, per_group=4)
    drawn_before, _, _ = load("fairface", tmp_path, per_group=3)
    dropping, _, _ = load("fairface", tmp_path, per_group=3, duplicates="drop")
    assert dropping.equals(drawn_before)
    shutil.copy(tmp_path / "train/1.jpg", tmp_path / "train/2.jpg")
    for seed in range(5):
        frame, _, notes = load("fairface", tmp_path, per_group=3, seed=seed, duplicates="drop")
        assert "train/2.jpg" not in set(frame["id"])
        assert set(frame.groupby("group").size()) == {3}
        assert "1 pictures occur a second time (faces.duplicates=drop)" in notes
        # Whichever are drawn: it is the data that hold a picture twice.
        with pytest.raises(InputError, match="byte for byte"):
            load("fairface", tmp_path, per_group=3, seed=seed)


def test_three_of_a_kind_are_two_too_many_and_labels_that_differ_are_counted(tmp_path):
    drawn.folder(tmp_path)
    for other in ("right/6.png", "left/5.png"):
        shutil.copy(tmp_path / "right/0.png", tmp_path / other)
    _, _, notes = load("folder", tmp_path, duplicates="drop")
    assert notes == [
        "2 pictures occur a second time, 2 of them with another group (faces.duplicates=drop)",
    ]


def test_two_empty_files_are_unreadable_not_the_same(tmp_path):
    drawn.folder(tmp_path)
    for name in ("right/0.png", "left/5.png"):
        (tmp_path / name).write_bytes(b"")
    for duplicates in ("stop", "drop"):
        with pytest.raises(InputError, match="2 of 12 pictures cannot be read"):
            load("folder", tmp_path, duplicates=duplicates)


def test_a_group_that_is_left_without_a_face_is_refused(tmp_path):
    drawn.folder(tmp_path)
    for number in (1, 4):  # both faces of Sami F
        shutil.copy(tmp_path / "right/0.png", tmp_path / ("left/1.png" if number == 1 else "right/4.png"))
    with pytest.raises(InputError, match="groups without a face: .*'Sami F': 0"):
        load("folder", tmp_path, duplicates="drop")


class TestSettings:
    def faces(self, job, root, *settings):
        drawn.folder(root)
        shutil.copy(root / "right/0.png", root / "left/5.png")
        chosen = ["faces.csv=faces.csv", f"faces.root={root}", "faces.group=[ethnicity,sex]"]
        return job("dataset=photos", "dataset.root=x", "faces=folder", *chosen, *settings).cfg

    def test_a_job_stops(self, job, tmp_path):
        with pytest.raises(InputError, match="set faces.duplicates=drop"):
            stimuli.load(self.faces(job, tmp_path), "faces")

    def test_the_statement_counts_what_was_dropped(self, job, tmp_path):
        table = stimuli.load(self.faces(job, tmp_path, "faces.duplicates=drop"), "faces")
        assert table.statement() == (
            "faces: 11 used of 12 (1 pictures occur a second time, 1 of them with another group "
            "(faces.duplicates=drop))"
        )

    def test_another_word_is_refused(self, job, tmp_path):
        with pytest.raises(InputError, match=r"faces.duplicates=keep: must be one of stop, drop"):
            job("dataset=photos", "dataset.root=x", "faces.duplicates=keep")

    def test_parents_of_morphs_name_their_own_setting(self, job, tmp_path):
        cfg = self.faces(job, tmp_path)
        with pytest.raises(InputError, match=r"set faces\.parents\.duplicates=drop"):
            loaders.parents(cfg.faces, cfg.store)
        cfg.faces.duplicates = "drop"
        (note,) = loaders.parents(cfg.faces, cfg.store).notes
        assert note.endswith("(faces.parents.duplicates=drop)")
