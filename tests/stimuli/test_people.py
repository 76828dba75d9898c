"""Test tables of faces with any axes, persons, sets and regions, read from a csv or a Parquet file."""

import numpy as np
import pandas as pd
import pytest

from src import configs, stimuli
from src.configs import AxisConfig
from src.errors import InputError
from src.stimuli import build_table, group_sampling, people
from src.stimuli.clusters import assign_clusters
from src.stimuli.table import BOX
from tests.stimuli import drawn

ROWS = [
    # file, sex, skin, age, subject, scene, and the edges of the face
    ("a/0.jpg", "Male", "2.0", "35", "p1", "s1", "1", "1", "5", "6"),
    ("a/1.jpg", "Female", "5", "36", "p2", "s1", "", "", "", ""),
    ("a/2.jpg", "male", "6", "70", "p1", "s2", "0", "0.5", "4", "4"),
    ("a/3.jpg", "Female", "6", "18", "", "s2", "1", "1", "5", "6"),
    ("a/4.jpg", "Other", "1", "17", "p4", "", "1", "1", "5", "6"),
    ("a/5.jpg", "", "1", "", "p5", "", "1", "1", "5", "6"),
    ("a/6.jpg", "Female", "1", "", "p5", "", "1", "1", "5", "6"),
]
COLUMNS = ["file", "sex", "skin", "age", "subject", "scene", "x0", "y0", "x1", "y1"]
AXES = {
    "gender": AxisConfig("sex", values={"Men": ["Male", "male"], "Women": ["Female"]}),
    "skin": AxisConfig("skin", bins={"light": [1, 3], "dark": [4, 6]}),
    "age": AxisConfig("age", bins={"young": [18, 35], "old": [36, 120]}),
}


def listing(folder, name="faces.csv", rows=ROWS, **renamed):
    """Write pictures and a file that lists them, some of its columns renamed; return the settings."""
    for number in range(len(ROWS)):
        drawn.picture(folder / "a" / f"{number}.jpg", number)
    frame = pd.DataFrame(rows, columns=COLUMNS)
    if name.endswith("csv"):
        frame.rename(columns=renamed).to_csv(folder / name, index=False)
    else:
        numbers = {column: pd.to_numeric(frame[column]) for column in ("skin", "age", *COLUMNS[-4:])}
        frame.assign(**numbers).rename(columns=renamed).to_parquet(folder / name)
    settings = {"root": str(folder), "listing": name, "file": "file", "axes": AXES, "group": ["gender"]}
    return settings | {"per_group": None}


def load(folder, name="faces.csv", rows=ROWS, **settings):
    return people.load_listing(configs.ListingConfig(**listing(folder, name, rows) | settings))


FULL = {"person": "subject", "set": "scene", "box": COLUMNS[-4:]}


@pytest.mark.parametrize("name", ["faces.csv", "faces.parquet"])
def test_values_are_mapped_and_numbers_binned(tmp_path, name):
    frame, count, notes = load(tmp_path, name, group=["age", "gender"], **FULL)
    assert frame["group"].tolist() == ["young Men", "old Women", "old Men", "young Women"]
    assert frame["skin"].tolist() == ["light", "dark", "dark", "dark"]
    assert frame["person"].tolist() == ["p1", "p2", "p1", None]
    assert frame["set"].tolist() == ["s1", "s1", "s2", "s2"]
    assert count == 7
    # Each face is counted once, by its first missing value.
    assert notes == ["1 without gender", "1 of another gender", "1 without age"]
    table = build_table("faces", frame.drop(columns="conversions"), "x")
    np.testing.assert_array_equal(
        table.frame[list(BOX)], [[1, 1, 5, 6], [np.nan] * 4, [0, 0.5, 4, 4], [1, 1, 5, 6]]
    )
    assert table.attributes == ["gender", "skin", "age"]


def test_empty_groups_and_numbers_outside_the_bins_are_counted(tmp_path):
    bins = {"age": AxisConfig("age", bins={"young": [18, 35], "old": [36, 69]})}
    frame, _, notes = load(tmp_path, axes=AXES | bins, group=["skin", "gender"])
    assert frame["group"].tolist() == ["light Men", "dark Women", "dark Women"]
    assert notes == [
        "1 without gender", "1 of another gender", "1 without age", "1 outside the bins of age",
        "2 groups have no face (dark Men, light Women)",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": []}, r"faces.group=\[\]: name the axes"),
        ({"group": ["race"]}, r"'race' is not among faces.axes.*Name some of gender, skin, age"),
        ({"group": ["age", "age"]}, "'age' occurs twice"),
        ({"axes": {"set": AXES["age"]}, "group": ["set"]}, "faces.axes.set: the name is reserved"),
        ({"axes": {"a:b": AXES["age"]}, "group": ["a:b"]}, "contains a colon"),
        (
            {"axes": {"gender": AxisConfig("sex", {"Men": ["Man"]})}},
            r"faces.csv: no face has sex 'Man' \(for 'Men'\); found Female, Male, Other, male. Correct "
            "faces.axes.gender.values.",
        ),
        ({"axes": {"gender": AxisConfig("sex", {"a": ["Male"], "b": ["Male"]})}}, "'Male' occurs twice"),
        ({"axes": {"gender": AxisConfig("sex", {"a": ["Male"]}, {"b": [1, 2]})}}, "has values and bins"),
        ({"axes": {"gender": AxisConfig("sex", bins={"b": [1, 2]})}}, "row 2: sex 'Male' is not a number"),
        ({"axes": {"gender": AxisConfig("sex", {"a": [False]})}}, "False is no text. Put quotes"),
        (
            {"axes": {"gender": AxisConfig("age", bins={"b": ["1", 2]})}},
            "expected its lowest and highest",
        ),
        ({"axes": {"gender": AxisConfig("age", bins={"b": [2, 1]})}}, "expected its lowest and highest"),
        ({"axes": {"gender": AxisConfig("age", bins={"b": [1, 2], "c": [2, 3]})}}, "overlap"),
        ({"axes": {"gender": AxisConfig("age", bins={"b": [300, 400]})}}, "no face has a chosen value"),
        ({"axes": {"gender": AxisConfig("gendr")}}, "no column gendr"),
        ({"person": "who"}, "no column who; found"),
        ({"box": ["x0"]}, "expected four columns"),
        ({"box": ["x1", "y0", "x0", "y1"]}, r"row 2: expected the left, top.*got 5, 1, 1, 6 \(3 such rows\)"),
        ({"box": ["sex", "y0", "x0", "y1"]}, "row 2: expected the left, top"),
        ({"file": "age"}, "row 7: no age"),
        ({"file": "scene"}, "row 6: no scene"),
        ({"file": "sex"}, "row 7: no sex"),
        ({"file": "skin"}, "row 5: file '6' repeats row 4"),
        ({"listing": "none.parquet"}, "none.parquet: no such file. Set faces.root"),
        ({"per_group": 3}, r"3 faces per group requested, found .'Men': 2, 'Women': 2"),
    ],
)
def test_mistakes_are_named(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        load(tmp_path, **settings)


@pytest.mark.parametrize("name", ["../out.jpg", "/out.jpg", "C:\\out.jpg"])
def test_pictures_outside_of_the_folder_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="row 2: .*(leads out|full path)"):
        load(tmp_path, rows=[(name, *ROWS[0][1:]), *ROWS[1:]])


def test_damaged_and_lacking_parquet_files(tmp_path):
    settings = listing(tmp_path, "faces.parquet")
    with pytest.raises(InputError, match="faces.parquet: no column who; found file, sex"):
        people.load_listing(configs.ListingConfig(**settings | {"person": "who"}))
    (tmp_path / "faces.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="faces.parquet: not a Parquet file"):
        people.load_listing(configs.ListingConfig(**settings))


def test_a_named_index_of_a_parquet_file_is_a_column(tmp_path):
    cfg = configs.ListingConfig(**listing(tmp_path, "faces.parquet"))
    expected, _, _ = people.load_listing(cfg)
    path = tmp_path / "faces.parquet"
    pd.read_parquet(path).set_index("file").to_parquet(path)
    pd.testing.assert_frame_equal(people.load_listing(cfg)[0], expected)


@pytest.mark.parametrize("name", ["faces.csv", "faces.parquet"])
def test_a_used_column_may_be_named_id_but_not_row(tmp_path, name):
    def load_persons(column):
        settings = listing(tmp_path, name, subject=column)
        return people.load_listing(configs.ListingConfig(**settings | {"person": column}))

    frame, _, _ = load_persons("id")
    assert frame["id"].tolist() == [f"a/{number}.jpg" for number in range(4)]
    assert frame["person"].tolist() == ["p1", "p2", "p1", None]
    with pytest.raises(InputError, match=f"{name}: the name of the column row is reserved"):
        load_persons("row")


def test_sets_are_drawn_entirely(tmp_path):
    drawn_sets = []
    rows = [*ROWS[:4], *((*row[:5], "", *row[6:]) for row in ROWS[4:6])]
    for seed in range(9):
        settings = {"axes": {"gender": AXES["gender"]}, "per_group": 1, "seed": seed, **FULL}
        frame, _, notes = load(tmp_path, rows=rows, **settings)
        assert frame["group"].tolist() == ["Men", "Women"]
        assert frame["set"].nunique() == 1
        drawn_sets += frame["set"].unique().tolist()
        assert "2 left out by faces.per_group=1" in notes
    assert {*drawn_sets} == {"s1", "s2"}


def test_sets_that_would_exceed_the_number_are_skipped():
    frame = pd.DataFrame(
        {"id": list("abcdef"), "group": list("XXYXYY"), "set": list("111") + ["2", "2", None]}
    )
    for seed in range(20):
        rows = group_sampling._draw_sets(frame, 1, np.random.default_rng(seed))
        assert "".join(frame["id"][rows]) in {"de", "f"}  # set 1 has two of X; both others have one of Y


def test_sets_that_leave_a_group_no_face_are_refused_and_small_groups_noted(tmp_path):
    settings = {"axes": {"gender": AXES["gender"]}, **FULL}
    rows = [*((*row[:5], "s1", *row[6:]) for row in ROWS[:3]), ROWS[3]]  # set s1 has two men
    with pytest.raises(InputError, match=r"leaves groups .*: {'Men': 0, 'Women': 1}. Raise faces.per_group"):
        load(tmp_path, rows=rows, per_group=1, **settings)
    rows = [*ROWS[:4], (*ROWS[6][:5], "s2", *ROWS[6][6:])]  # the sets have three women together
    _, _, notes = load(tmp_path, rows=rows, per_group=2, **settings)
    assert notes[-1].startswith("groups with fewer, as sets are drawn whole (Men: 1")


def test_axes_are_chosen_on_the_command_line(tmp_path, job):
    listing(tmp_path)
    resolved = job(
        "dataset=demo", "faces=people", f"faces.root={tmp_path}", "faces.listing=faces.csv",
        "faces.person=subject", "faces.group=[gender,age]", "~faces.axes.race",
        "faces.axes.gender.column=sex",
        "+faces.axes.gender={values:{Men:[Male,male],Women:[Female]}}",
        "+faces.axes={age:{column:age,bins:{young:[18,35],old:[36,120]}}}",
    )  # fmt: skip
    table = stimuli.load(resolved.cfg, "faces")
    assert table.groups == ["Men old", "Men young", "Women old", "Women young"]


def faces(**columns):
    rows = len(next(iter(columns.values())))
    frame = pd.DataFrame({"id": [f"f{row}" for row in range(rows)], "group": "A"})
    return build_table("faces", frame.assign(**columns), "x")


def test_people_and_sets_are_clusters():
    table = faces(person=["a", "a", None, "", "set s"])
    assert assign_clusters(table)["cluster"].tolist() == ["a", "a", "f2", "f3", "set s"]
    # p links s1 and s2; person s3 is not set s3; a face without a set belongs to its person.
    table = faces(set=["s1", "s1", "s2", "s3", "", None], person=["p", None, "p", "q", "s3", "q"])
    assert assign_clusters(table)["cluster"].tolist() == [*["set s1"] * 3, "set s3", "s3", "set s3"]


def test_what_is_known_of_people_changes_the_key_of_jobs_but_not_that_of_vectors():
    plain = faces(path=["x", "y"])
    assert plain.people_hash == ""
    known = {
        "person": ["a", "b"], "set": ["s", "s"], "skin": ["light", "dark"], "occupation": ["cook", "cook"],
    }  # fmt: skip
    tables = [faces(**{name: values}) for name, values in known.items()]
    tables += [
        faces(skin=["dark", "light"]),
        faces(**dict(zip(BOX, np.arange(8).reshape(4, 2), strict=True))),
    ]
    assert {table.hash for table in tables} == {plain.hash}
    assert len({table.people_hash for table in tables}) == len(tables)


def test_edges_come_in_fours():
    with pytest.raises(InputError, match="x: no column box_right, box_bottom. Add it, or leave out box_left"):
        faces(box_left=[1], box_top=[1])
    with pytest.raises(InputError, match="x: 'f0': expected the left"):
        faces(box_left=[1], box_top=[1], box_right=[np.inf], box_bottom=[2])
