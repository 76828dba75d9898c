"""Loaders of published layouts: what they keep, and what they say of the rest."""

import shutil

import pandas as pd
import pytest

from src import stimuli
from tests.stimuli import drawn
from tests.stimuli.layouts import load, made

SIX = [f"{race} {gender}" for race in ("Asian", "Black", "White") for gender in ("Men", "Women")]


@pytest.mark.parametrize(
    ("role", "layout", "folder", "settings", "items", "expected"),
    [
        ("faces", "fairface", "fairface", ["faces.per_group=2"], 12, 24),
        ("faces", "cfd", "cfd", [], 12, 20),
        ("faces", "utkface", "utkface", ["faces.per_group=null"], 20, 35),
        ("faces", "folder", "mine", ["faces.csv=faces.csv", "faces.group=[ethnicity,sex]"], 12, 12),
        ("scenes", "oasis", "oasis", [], 6, 6),
        ("words", "nrc_vad", "nrc_vad", [], 5, 5),
        ("words", "nrc_vad_v2", "nrc_vad_v2", [], 4, 4),
        ("words", "warriner", "warriner", [], 4, 4),
    ],
)
def test_a_yaml_finds_its_layout_below_the_root(
    tmp_path, job, role, layout, folder, settings, items, expected
):
    root = getattr(drawn, layout)(tmp_path / folder)
    if layout == "folder":
        settings = [f"faces.root={root}", *settings]
    made = job("dataset=photos", f"dataset.root={tmp_path}", f"{role}={layout}", *settings)
    table = stimuli.load(made.cfg, role)
    assert (table.items, table.expected) == (items, expected)
    if layout in ("fairface", "cfd", "utkface"):
        assert table.groups == SIX  # as the labels of dataset=photos name them


@pytest.mark.parametrize(
    ("layout", "per_group", "left"),
    [("fairface", 2, 4), ("cfd", 1, 6), ("utkface", 2, 8), ("folder", 1, 6)],
)
def test_a_draw_is_seeded_and_stated(tmp_path, layout, per_group, left):
    first, _, notes = made(layout, tmp_path, per_group=per_group)
    assert set(first.groupby("group").size()) == {per_group}
    assert f"{left} left by faces.per_group={per_group}" in notes
    again, *others = (load(layout, tmp_path, per_group=per_group, seed=seed)[0] for seed in range(6))
    pd.testing.assert_frame_equal(first, again)
    assert any(not first.equals(other) for other in others)


def test_a_draw_stays_what_it_was(tmp_path):
    # Recorded: a seed is part of a published result.
    frame, _, _ = made("fairface", tmp_path, per_group=2)
    assert frame["id"].tolist() == [f"train/{number}.jpg" for number in (1, 3, 5, 6, 8, 9, 10, 12)]
    other, _, _ = load("fairface", tmp_path, per_group=2, genders={"Women": ["Female"], "Men": ["Male"]})
    assert other["id"].tolist() == frame["id"].tolist()


@pytest.mark.parametrize(
    ("layout", "picture", "copy"),
    [
        ("cfd", "Images/CFD/AF-001/CFD-AF-001-025-N.jpg", "Images/CFD/AF-001/CFD-AF-001-025-N copy.jpg"),
        ("utkface", "20_0_0_201701002000000.jpg.chip.jpg", "20_0_0_201701002000000.jpg.chip (1).jpg"),
    ],
)
def test_a_copy_that_a_file_manager_named_is_left_out(tmp_path, layout, picture, copy):
    before, expected, _ = made(layout, tmp_path)
    shutil.copy(tmp_path / picture, tmp_path / copy)
    frame, found, notes = load(layout, tmp_path)
    assert (len(frame), found) == (len(before), expected + 1)
    assert any("are not named like" in note and copy.split("/")[-1] in note for note in notes)


@pytest.mark.parametrize(
    ("layout", "rows"), [("fairface", 12), ("cfd", 12), ("utkface", 20), ("folder", 12), ("oasis", 6)]
)
def test_pictures_are_hashed(tmp_path, layout, rows):
    frame, _, _ = made(layout, tmp_path)
    assert len(frame) == rows
    assert frame["sha256"].nunique() == frame["id"].nunique() == rows


class TestFairFace:
    def test_groups_are_what_the_config_names(self, tmp_path):
        frame, expected, notes = made("fairface", tmp_path)
        assert sorted(frame["group"].unique()) == ["Asian Men", "Asian Women", "Black Men", "Black Women"]
        assert frame.groupby("group").size().tolist() == [3, 3, 3, 3]
        assert expected == 24
        assert notes == ["12 of other races, genders or ages"]

    def test_ages_can_be_chosen(self, tmp_path):
        frame, _, _ = made("fairface", tmp_path, ages=["20-29", "30-39"])
        assert sorted(frame["age"].unique()) == ["20-29", "30-39"]


class TestCfd:
    def test_the_papers_groups_with_neutral_faces(self, tmp_path):
        frame, expected, notes = made("cfd", tmp_path)
        assert frame.groupby("group").size().to_dict() == dict.fromkeys(SIX, 2)
        assert set(frame["expression"]) == {"N"}
        row = frame.set_index("id").loc["CFD-BF-002-025-N"]
        assert (row["group"], row["race"], row["gender"]) == ("Black Women", "Black", "Women")
        assert row["path"].endswith("Images/CFD/BF-002/CFD-BF-002-025-N.jpg")
        assert expected == 20
        assert notes == [
            "3 files that are no pictures (.DS_Store, ._CFD-LF-200-058-N.jpg, read me.txt)",
            "1 pictures are not named like CFD-BF-001-025-N.jpg (CFD-LF-200-N.jpg)",
            "7 of other races, genders or expressions",
        ]

    def test_suffixes_are_read_in_any_case(self, tmp_path):
        frame, _, _ = made("cfd", tmp_path, expressions=["N", "HC"])
        assert {path.rsplit(".")[-1] for path in frame["path"]} == {"jpg", "JPG", "jpeg"}
        assert frame["expression"].value_counts().to_dict() == {"N": 12, "HC": 6}

    def test_the_extensions_of_the_database_are_read_where_they_are_listed(self, tmp_path):
        frame, expected, notes = made(
            "cfd",
            tmp_path,
            pictures=["Images/CFD-MR", "Images/CFD-INDIA"],
            races={"Multiracial": ["M"], "Indian": ["I"]},
            genders={"Women": ["F"]},
            norming="norming.csv",
        )
        assert frame["group"].value_counts().to_dict() == {"Multiracial Women": 1, "Indian Women": 3}
        assert expected == 4
        assert notes == [
            "1 people have more than one picture of an expression, all kept",
            "age is AgeRated of norming.csv",
            "2 people have no age in norming.csv, first IF-644",
        ]
        assert frame.set_index("id")["age"].dropna().to_dict() == {"CFD-IF-601-519-N": 41.5}

    def test_ages_come_from_the_norming_data(self, tmp_path):
        frame, _, notes = made("cfd", tmp_path, norming="norming.csv", expressions=["HC"])
        assert frame.sort_values("id")["age"].tolist() == [30.5, 31.5, 32.5, 33.5, 34.5, 35.5]
        assert notes[-1] == "age is AgeRated of norming.csv"
        path = tmp_path / "norming.csv"
        path.write_text(path.read_text().replace("BM-001,NA", "BM-001,29"))
        frame, _, notes = load("cfd", tmp_path, norming="norming.csv", expressions=["HC"])
        assert frame.set_index("id")["age"].dropna().to_dict() == {"CFD-BM-001-025-HC": 29}
        assert notes[-2:] == [
            "age is AgeSelf of norming.csv",
            "5 people have no age in norming.csv, first AF-001",
        ]


class TestUtkFace:
    def test_the_name_says_who_it_is(self, tmp_path):
        frame, expected, notes = made("utkface", tmp_path)
        assert frame.groupby("group").size().to_dict() == dict.fromkeys(SIX, 3) | {
            "Black Men": 4,
            "White Men": 4,
        }
        row = frame.set_index("id").loc["40_1_2_201701124000000"]
        assert (row["group"], row["age"]) == ("Asian Women", 40)
        assert expected == 35
        assert notes == [
            "3 pictures are not named like 25_0_1_20170116174525125.jpg ("
            "39_1_20170116174525125.jpg.chip.jpg, 53__0_20170116184028385.jpg.chip.jpg, "
            "61_3_20170109150557335.jpg.chip.jpg)",
            "12 of other races, genders or ages",
        ]

    def test_ages_are_a_span_with_both_ends(self, tmp_path):
        frame, _, notes = made("utkface", tmp_path, ages=[20, 30])
        assert sorted(frame["age"].unique()) == [20, 24, 30]
        assert notes[-1] == "19 of other races, genders or ages"


class TestFolder:
    def test_two_columns_are_race_and_gender(self, tmp_path):
        frame, expected, notes = made("folder", tmp_path)
        assert frame["group"].value_counts().to_dict() == {
            f"{race} {gender}": 2 for race in ("Roma", "Sami", "Sorb") for gender in "FM"
        }
        assert (frame["race"] + " " + frame["gender"]).tolist() == frame["group"].tolist()
        assert (expected, notes) == (12, [])

    @pytest.mark.parametrize(
        ("group", "first"), [(["sex"], "F"), (["site", "sex", "ethnicity"], "Oslo F Roma")]
    )
    def test_any_columns_make_up_a_group(self, tmp_path, group, first):
        frame, _, _ = made("folder", tmp_path, group=group)
        assert frame.set_index("id")["group"]["right/0.png"] == first
        assert "race" not in frame

    def test_a_csv_elsewhere_is_named_by_its_full_path(self, tmp_path):
        csv = drawn.folder(tmp_path / "pictures") / "faces.csv"
        moved = csv.rename(tmp_path / "elsewhere.csv")
        frame, _, _ = load("folder", tmp_path / "pictures", csv=str(moved))
        assert len(frame) == 12


class TestOasis:
    def test_the_folder_of_the_archive_is_found_in_either_case(self, tmp_path):
        before, _, _ = made("oasis", tmp_path)
        (tmp_path / "images").rename(tmp_path / "Images")
        frame, _, notes = load("oasis", tmp_path)
        assert frame["sha256"].equals(before["sha256"])
        assert notes == []

    def test_dirt_of_the_published_files_is_handled(self, tmp_path):
        frame, expected, notes = made("oasis", tmp_path)
        assert expected == 6
        assert notes == []
        assert frame["id"].tolist() == [f"War {n}" for n in range(1, 7)]
        assert frame["valence"].tolist() == pytest.approx([n / 6 for n in range(6)])


@pytest.mark.parametrize(
    ("layout", "picture", "csv"),
    [
        ("fairface", "train/1.jpg", "fairface_label_train.csv"),
        ("oasis", "images/War 5.jpg", "OASIS.csv"),
        ("folder", "right/4.png", "faces.csv"),
    ],
)
def test_rows_without_a_picture_are_counted(tmp_path, layout, picture, csv):
    whole, expected, _ = made(layout, tmp_path)
    (tmp_path / picture).unlink()
    frame, still, notes = load(layout, tmp_path)
    assert (len(frame), still) == (len(whole) - 1, expected)
    assert f"1 rows of {csv} have no picture" in notes
