"""Test the loaders of FHIBE, FACET, SISPI, SocialCounterfactuals, PAIRS and VisoGender on drawn copies."""

import shutil
from datetime import date

import numpy as np
import pytest
from PIL import Image

from src.configs import AxisConfig
from src.errors import InputError
from src.stimuli import build_table, fhibe, pictures
from src.stimuli.clusters import assign_clusters
from src.stimuli.fhibe import describe_version
from tests.stimuli import drawn_people
from tests.stimuli.drawn_people import FHIBE, FHIBE_FACES, FHIBE_PICTURES, change_cell, load, made

VERSION = "version fhibe.20250716.u.gT5_rFTA"
OLD = (
    "the version of 2025-07-16 is older than 60 days: people may have withdrawn since. Fetch the current one "
    "from https://fairnessbenchmark.ai.sony"
)


def sizes(frame):
    return frame["group"].value_counts().to_dict()


class TestFhibe:
    def test_people_describe_themselves(self, tmp_path):
        frame, count, notes = made("fhibe", tmp_path)
        groups = [
            f"{region} {gender}" for region in ("African", "Asian", "European") for gender in ("Women", "Men")
        ]
        assert sizes(frame) == dict.fromkeys(groups, 2) | {"African Women": 3}
        assert count == 18
        assert notes == [
            VERSION,
            OLD,
            "1 of people with several values of ancestry",
            "1 of people with several values of gender",
            "1 of another ancestry",
            "1 of another gender",
            "1 without age",
        ]
        row = frame.set_index("person").loc["s03"]  # its picture also shows s02; its cropped face does not
        assert row["path"].endswith("s02/i2/faces_crop_and_align_i2_s03.png")
        assert (row["ancestry"], row["gender"], row["age"], row["skin"]) == (
            "Asian",
            "Women",
            "18-29",
            "medium",
        )
        assert not {"box_left", "set"} & {*frame}
        assert frame["person"].value_counts()["s00"] == 2
        clusters = assign_clusters(build_table("faces", frame, "fhibe"))["cluster"]
        assert clusters.nunique() == 12

    @pytest.mark.thorough
    def test_full_pictures_have_boxes_and_those_of_two_people_are_left_out(self, tmp_path):
        frame, count, notes = made("fhibe", tmp_path, csv=FHIBE_PICTURES.partition("/")[2])
        assert "2 in pictures of several people" in notes
        assert (len(frame), count) == (11, 18)
        row = frame.iloc[0]
        assert row[["box_left", "box_top", "box_right", "box_bottom"]].tolist() == [3, 4.5, 13, 16.5]

    @pytest.mark.thorough
    def test_a_person_may_name_a_region_twice(self, tmp_path):
        drawn_people.fhibe(tmp_path)
        path = tmp_path / FHIBE_FACES
        change_cell(path, 2, "ancestry", "['0. Africa', '1. Northern Africa', '5. Western Africa']")
        assert len(load("fhibe", tmp_path)[0]) == 13
        axes = {"ancestry": AxisConfig("ancestry")}
        frame, _, notes = load("fhibe", tmp_path, axes=axes, group=["ancestry"])
        assert "6 of people with several values of ancestry" in notes
        assert set(frame["group"]) == {"Africa", "Europe", "Polynesia", "Western Africa"}

    def test_the_age_of_a_version_is_stated(self, tmp_path):
        folder = tmp_path / FHIBE
        assert describe_version(folder, date(2025, 9, 14)) == [VERSION]
        assert describe_version(folder, date(2025, 9, 15)) == [VERSION, OLD]
        for name in ("fhibe", "fhibe.20251399.x"):
            (note,) = describe_version(tmp_path / name, date(2025, 9, 15))
            assert note.startswith("version of FHIBE unknown")

    @pytest.mark.thorough
    def test_the_version_is_that_of_the_folder(self, tmp_path):
        folder = tmp_path / FHIBE
        drawn_people.fhibe(tmp_path)
        frame, _, notes = load("fhibe", folder)  # the folder itself
        assert (len(frame), notes[0]) == (13, VERSION)
        link = tmp_path / "latest"
        link.symlink_to(folder)
        assert load("fhibe", link)[2][0] == VERSION
        shutil.copytree(folder, tmp_path / "fhibe.20250816.u.abc_downsampled_public")
        with pytest.raises(InputError, match=r"several versions \(fhibe\.2025.*Delete all but the latest"):
            load("fhibe", tmp_path)

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("column", "cell", "message"),
        [
            ("pronoun", "['1. He/him/his'", r"row 3: pronoun: expected a list of labels .* got \"\['1. He"),
            ("pronoun", "[__import__('os')]", "row 3: pronoun: expected a list of labels"),
            ("ancestry", "[1]", "row 3: ancestry: expected a list of labels"),
            pytest.param("pronoun", "[" * 9000, "row 3: pronoun: expected a list of labels", id="deep"),
            ("age", "thirty", "row 3: age 'thirty' is not a number"),
            ("filepath", "../../etc/passwd", "row 3: .* leads out of faces.root"),
            ("face_bbox", "[1, 2]", None),
        ],
    )
    def test_bad_cells_are_refused_with_row_and_remedy(self, tmp_path, column, cell, message):
        drawn_people.fhibe(tmp_path)
        change_cell(tmp_path / FHIBE_FACES, 3, column, cell)
        if message is None:  # boxes are those of whole pictures
            assert len(load("fhibe", tmp_path)[0]) == 13
            change_cell(tmp_path / FHIBE_PICTURES, 3, column, cell)
            with pytest.raises(InputError, match=r"row 3: face_bbox must be \[left, top, width, height\]"):
                load("fhibe", tmp_path, csv=FHIBE_PICTURES.partition("/")[2])
            return
        with pytest.raises(InputError, match=f"fhibe_face_crop_align.csv, {message}"):
            load("fhibe", tmp_path)

    def test_a_folder_without_a_version_is_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"no folder fhibe\.DATE.*Set dataset\.root"):
            load("fhibe", tmp_path)


class TestFacet:
    def test_people_are_regions_of_pictures(self, tmp_path):
        frame, count, notes = made("facet", tmp_path)
        groups = [f"{skin} {gender}" for skin in ("Light", "Medium", "Dark") for gender in ("Women", "Men")]
        assert sizes(frame) == dict.fromkeys(groups, 2) | {"Light Women": 3}
        assert count == 18
        assert notes == [
            "1 whose box has no area",
            "1 with a tie between values of gender",
            "1 without skin",
            "1 of another gender",
            "1 rows of annotations.csv have no picture",
        ]
        row = frame.set_index("person").loc["1012"]
        assert row["path"].endswith("imgs_1/p0.jpg/0,3,395,403")
        full = np.asarray(Image.open(tmp_path / "imgs_1/p0.jpg"))
        assert np.array_equal(pictures.read(row["path"]), full[3:])
        assert frame["sha256"].is_unique
        assert set(frame["occupation"]) == {"doctor", "nurse"}
        table = build_table("faces", frame, "facet", expected=count, notes=notes)
        assert len(table.hash) == 64

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("column", "cell", "message"),
        [
            (
                "bounding_box",
                "{}",
                "row 4: bounding_box must be a JSON of numbers x, y, width and height, got '{}'",
            ),
            ("bounding_box", '{"x": NaN, "y": 1, "width": 1, "height": 1}', "row 4: bounding_box must be"),
            ("bounding_box", '{"x": 1e300, "y": 1, "width": 1, "height": 1}', "row 4: bounding_box must be"),
            (
                "gender_presentation_fem",
                "yes",
                "row 4: gender_presentation_fem must be a number of",
            ),
            ("skin_tone_4", "-1", "row 4: skin_tone_4 must be a number of annotators"),
            ("filename", "/etc/x.jpg", "row 4: '/etc/x.jpg' is a full path"),
        ],
    )
    def test_bad_cells_are_refused_with_row_and_remedy(self, tmp_path, column, cell, message):
        drawn_people.facet(tmp_path)
        change_cell(tmp_path / "annotations/annotations.csv", 4, column, cell)
        with pytest.raises(InputError, match=f"annotations.csv, {message}"):
            load("facet", tmp_path)

    @pytest.mark.thorough
    def test_a_box_outside_of_its_picture_is_refused(self, tmp_path):
        drawn_people.facet(tmp_path)
        cell = '{"x": 100, "y": 1, "width": 5, "height": 5}'
        change_cell(tmp_path / "annotations/annotations.csv", 4, "bounding_box", cell)
        with pytest.raises(InputError, match=r"p1\.jpg/100,1,105,6 \(the region .* outside of the 24 x 20"):
            load("facet", tmp_path)


class TestSispi:
    def test_a_tar_is_read_in_place_and_equals_its_folder(self, tmp_path):
        frame, count, notes = made("sispi", tmp_path)
        assert len(frame) == 32
        assert sizes(frame)["Latino Women"] == 4
        assert frame.groupby("set").size().to_dict() == dict.fromkeys(
            ["doctor 7", "doctor 102", "flight attendant 7", "flight attendant 102"], 8
        )
        assert count == 33
        assert notes == [
            "2 files are not pictures (SISPI_images/._doctor_7_female_asian.jpg, SISPI_images/README.md)",
            "1 pictures are not named like doctor_102_female_black.jpg (SISPI_images/doctor_7_female.jpg)",
        ]
        folder, count, _ = load("sispi", tmp_path, pictures="SISPI_images")
        assert (count, {*folder["sha256"]}) == (33, {*frame["sha256"]})
        assert frame["path"].str.contains("SISPI_images.tar/SISPI_images/").all()

    @pytest.mark.thorough
    def test_sets_are_drawn_entirely(self, tmp_path):
        frame, _, _ = made("sispi", tmp_path, per_group=2)
        assert frame.groupby("set").size().tolist() == [8, 8]

    @pytest.mark.thorough
    def test_other_names_and_an_absent_tar_are_refused(self, tmp_path):
        drawn_people.sispi(tmp_path)
        (tmp_path / "SISPI_images.tar").unlink()
        with pytest.raises(InputError, match=r"no such folder or tar\. Set dataset\.root"):
            load("sispi", tmp_path)
        for file in (tmp_path / "SISPI_images").glob("*_*.jpg"):
            file.rename(file.with_name(f"{file.stem.replace('_', '-')}.jpg"))
        with pytest.raises(InputError, match=r"no picture is named like doctor_102_female_black\.jpg; fou"):
            load("sispi", tmp_path, pictures="SISPI_images")


class TestSocialCounterfactuals:
    def test_pictures_in_parquet_files_are_sets(self, tmp_path):
        frame, count, notes = made("social_counterfactuals", tmp_path)
        assert (len(frame), count) == (24, 26)
        assert frame.groupby("set").size().to_dict() == {
            "race gender fire fighter_0": 12,
            "race gender nurse_1": 12,
        }
        assert notes == ["1 without race", "1 without gender"]
        assert set(frame["occupation"]) == {"fire fighter", "nurse"}
        assert frame["id"].iloc[0] == "data/train-00000-of-00002-0123456789abcdef.parquet/image/00"
        assert sizes(frame)["Middle Eastern Men"] == 2

    @pytest.mark.thorough
    def test_other_attributes_are_axes(self, tmp_path):
        axes = {name: AxisConfig(name) for name in ("physical", "gender")}
        frame, _, _ = made("social_counterfactuals", tmp_path, axes=axes, group=["physical"])
        assert frame[["physical", "gender"]].to_numpy().tolist() == [["obese", "male"]]

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"a1": None}, r"row 0: no set, attribute or type of an attribute \(14 such rows\)"),
            ({"a2_type": "race"}, "row 0: the same type of both attributes"),
            ({"a1_type": "file"}, "row 0: a type that names another column"),
            ({"counterfactual_set": b"x"}, "row 0: expected a text in column counterfactual_set"),
        ],
    )
    def test_bad_rows_are_refused(self, tmp_path, change, message):
        drawn_people.social_counterfactuals(tmp_path)
        path = min((tmp_path / "data").iterdir())
        table = drawn_people.pq.read_table(path)
        for name, value in change.items():
            column = drawn_people.pa.array([value] * len(table))
            table = table.set_column(table.column_names.index(name), name, column)
        drawn_people.pq.write_table(table, path)
        with pytest.raises(InputError, match=rf"train-00000.*parquet, {message}"):
            load("social_counterfactuals", tmp_path)

    @pytest.mark.thorough
    def test_an_absent_and_a_damaged_file_are_refused(self, tmp_path):
        with pytest.raises(InputError, match=r"data: no Parquet files\. Set dataset\.root"):
            load("social_counterfactuals", tmp_path)
        drawn_people.social_counterfactuals(tmp_path)
        for path in (tmp_path / "data").iterdir():
            drawn_people.pq.write_table(drawn_people.pq.read_table(path).slice(0, 0), path)
        with pytest.raises(InputError, match=r"data: no rows in its Parquet files\. Fetch"):
            load("social_counterfactuals", tmp_path)
        (tmp_path / "data/train-0.parquet").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
        with pytest.raises(InputError, match=r"train-0\.parquet: not a readable Parquet.* Fetch it again"):
            load("social_counterfactuals", tmp_path)


class TestPairs:
    def test_scenarios_are_sets(self, tmp_path):
        frame, count, notes = made("pairs", tmp_path)
        assert (len(frame), count) == (16, 16)
        assert sizes(frame) == {
            f"{race} {gender}": 4 for race in ("Black", "White") for gender in ("Men", "Women")
        }
        assert notes == ["1 files are not pictures (occupations/.DS_Store)"]
        assert frame.groupby("set").size().loc["status/phone"] == 4
        assert "black apron" in set(frame["scenario"])
        frame, _, notes = load("pairs", tmp_path, sections=["status"])
        assert (len(frame), notes[1]) == (4, "12 pictures of other sections")
        with pytest.raises(InputError, match=r"no pictures in crime; its folders .*Set faces\.sections"):
            load("pairs", tmp_path, sections=["crime"])


class TestVisoGender:
    def test_pictures_are_those_of_the_tables(self, tmp_path):
        frame, count, notes = made("visogender", tmp_path)
        assert (sizes(frame), count) == ({"Men": 4, "Women": 3}, 8)
        assert notes == ["1 rows of pictures have no picture"]
        tables = ["OO_Visogender.tsv", "OP_Visogender.tsv"]
        axes = {name: AxisConfig(name) for name in ("gender", "context")}
        frame, count, _ = load("visogender", tmp_path, tables=tables, axes=axes, group=["context", "gender"])
        assert (len(frame), count) == (15, 16)
        assert sizes(frame)["OP feminine"] == 4

    @pytest.mark.thorough
    def test_tables_that_overlap_or_lack_a_cell_are_refused(self, tmp_path):
        drawn_people.visogender(tmp_path)
        path = tmp_path / "OO_Visogender.tsv"
        shutil.copy(path, tmp_path / "OO_2.tsv")
        with pytest.raises(InputError, match=r"OO_1 occurs in two of faces\.tables"):
            load("visogender", tmp_path, tables=[path.name, "OO_2.tsv"])
        path.write_text(path.read_text().replace("\tmasculine\t", "\t\t"))
        with pytest.raises(InputError, match=r"OO_Visogender\.tsv, row 2: no Occupation_perceived_gender"):
            load("visogender", tmp_path)


def test_dates_of_versions_are_those_of_the_calendar():
    assert fhibe.VERSION.fullmatch("fhibe.20250708.m.k_2vTAkV")["version"] == "fhibe.20250708.m.k_2vTAkV"
