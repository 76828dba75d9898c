"""Test what loaders of pictures and words select, how they count the rest, and how they treat copies."""

import shutil

import pandas as pd
import pytest

from src import configs, stimuli
from src.errors import InputError
from src.stimuli import lexicons, loaders
from tests.paths import SHARED
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
def test_configs_locate_their_layout(tmp_path, job, role, layout, folder, settings, items, expected):
    root = getattr(drawn, layout)(tmp_path / folder)
    if layout == "folder":
        settings = [f"faces.root={root}", *settings]
    resolved = job("dataset=photos", f"dataset.root={tmp_path}", f"{role}={layout}", *settings)
    table = stimuli.load(resolved.cfg, role)
    assert (table.n_items, table.n_source_items) == (items, expected)
    if layout in ("fairface", "cfd", "utkface"):
        assert table.groups == SIX  # as the labels of dataset=photos name them


@pytest.mark.parametrize(
    ("layout", "per_group", "left"), [("fairface", 2, 4), ("cfd", 1, 6), ("utkface", 2, 8), ("folder", 1, 6)]
)
def test_draws_are_seeded_and_stated(tmp_path, layout, per_group, left):
    first, _, notes = made(layout, tmp_path, per_group=per_group)
    assert set(first.groupby("group").size()) == {per_group}
    assert first["sha256"].nunique() == first["id"].nunique() == len(first)
    assert f"{left} left out by faces.per_group={per_group}" in notes
    again, *others = (load(layout, tmp_path, per_group=per_group, seed=seed)[0] for seed in range(6))
    pd.testing.assert_frame_equal(first, again)
    assert any(not first.equals(other) for other in others)


def test_draws_are_unchanged(tmp_path):
    # Recorded ids: published results name a seed, which must always draw the same pictures.
    frame, _, _ = made("fairface", tmp_path, per_group=2)
    assert frame["id"].tolist() == [f"train/{number}.jpg" for number in (1, 3, 5, 6, 8, 9, 10, 12)]
    other, _, _ = load("fairface", tmp_path, per_group=2, genders={"Women": ["Female"], "Men": ["Male"]})
    assert other["id"].tolist() == frame["id"].tolist()


def test_copies_made_by_a_file_manager_are_left_out(tmp_path):
    before, expected, _ = made("cfd", tmp_path)
    folder = tmp_path / "Images/CFD/AF-001"
    shutil.copy(folder / "CFD-AF-001-025-N.jpg", folder / "CFD-AF-001-025-N copy.jpg")
    frame, count, notes = load("cfd", tmp_path)
    assert (len(frame), count) == (len(before), expected + 1)
    assert any("are not named like" in note and "025-N copy.jpg" in note for note in notes)


def test_fairface(tmp_path):
    frame, expected, notes = made("fairface", tmp_path)
    groups = ["Asian Men", "Asian Women", "Black Men", "Black Women"]
    assert frame.groupby("group").size().to_dict() == dict.fromkeys(groups, 3)
    assert (expected, notes) == (24, ["12 of other races, genders or ages"])
    (tmp_path / "train/1.jpg").unlink()
    frame, expected, notes = load("fairface", tmp_path, ages=["20-29", "30-39"])
    assert sorted(frame["age"].unique()) == ["20-29", "30-39"]
    assert (len(frame), expected) == (7, 24)
    assert "1 rows of fairface_label_train.csv have no picture" in notes


class TestCfd:
    def test_neutral_faces_of_the_paper_s_groups(self, tmp_path):
        frame, expected, notes = made("cfd", tmp_path)
        assert frame.groupby("group").size().to_dict() == dict.fromkeys(SIX, 2)
        assert set(frame["expression"]) == {"N"}
        row = frame.set_index("id").loc["CFD-BF-002-025-N"]
        assert (row["group"], row["race"], row["gender"]) == ("Black Women", "Black", "Women")
        assert row["path"].endswith("Images/CFD/BF-002/CFD-BF-002-025-N.jpg")
        assert {path.rsplit(".")[-1] for path in frame["path"]} == {"jpg", "JPG", "jpeg"}
        assert expected == 20
        assert notes == [
            "3 files are not pictures (.DS_Store, ._CFD-LF-200-058-N.jpg, read me.txt)",
            "1 pictures are not named like CFD-BF-001-025-N.jpg (CFD-LF-200-N.jpg)",
            "7 of other races, genders or expressions",
        ]

    def test_extensions_of_the_database(self, tmp_path):
        groups = {"races": {"Multiracial": ["M"], "Indian": ["I"]}, "genders": {"Women": ["F"]}}
        folders = {"pictures": ["Images/CFD-MR", "Images/CFD-INDIA"], "norming": "norming.csv"}
        frame, expected, notes = made("cfd", tmp_path, **folders, **groups)
        assert frame["group"].value_counts().to_dict() == {"Multiracial Women": 1, "Indian Women": 3}
        assert expected == 4
        assert notes == [
            "1 people have more than one picture of an expression; all are used",
            "age is AgeRated of norming.csv",
            "2 people have no age in norming.csv, first IF-644",
        ]
        assert frame.set_index("id")["age"].dropna().to_dict() == {"CFD-IF-601-519-N": 41.5}

    def test_ages_of_the_norming_data(self, tmp_path):
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


def test_utkface(tmp_path):
    frame, expected, notes = made("utkface", tmp_path)
    sizes = dict.fromkeys(SIX, 3) | {"Black Men": 4, "White Men": 4}
    assert frame.groupby("group").size().to_dict() == sizes
    row = frame.set_index("id").loc["40_1_2_201701124000000"]
    assert (row["group"], row["age"]) == ("Asian Women", 40)
    assert expected == 35
    assert notes == [
        "3 pictures are not named like 25_0_1_20170116174525125.jpg (39_1_20170116174525125.jpg.chip.jpg, "
        "53__0_20170116184028385.jpg.chip.jpg, 61_3_20170109150557335.jpg.chip.jpg)",
        "12 of other races, genders or ages",
    ]
    frame, _, notes = load("utkface", tmp_path, ages=[20, 30])
    assert sorted(frame["age"].unique()) == [20, 24, 30]
    assert notes[-1] == "19 of other races, genders or ages"


def test_any_columns_of_a_folder_name_a_group_and_the_csv_may_lie_elsewhere(tmp_path):
    frame, expected, notes = made("folder", tmp_path / "pictures")
    groups = [f"{race} {gender}" for race in ("Roma", "Sami", "Sorb") for gender in "FM"]
    assert frame["group"].value_counts().to_dict() == dict.fromkeys(groups, 2)
    assert (frame["race"] + " " + frame["gender"]).tolist() == frame["group"].tolist()
    assert (expected, notes) == (12, [])
    moved = (tmp_path / "pictures/faces.csv").rename(tmp_path / "elsewhere.csv")
    for group, first_group in ((["sex"], "F"), (["site", "sex", "ethnicity"], "Oslo F Roma")):
        frame, _, _ = load("folder", tmp_path / "pictures", csv=str(moved), group=group)
        assert frame.set_index("id")["group"]["right/0.png"] == first_group
        assert len(frame) == 12
        assert "race" not in frame


def test_oasis_with_either_case_of_its_folder(tmp_path):
    before, expected, notes = made("oasis", tmp_path)
    assert (expected, notes) == (6, [])
    assert before["id"].tolist() == [f"War {n}" for n in range(1, 7)]
    assert before["valence"].tolist() == pytest.approx([n / 6 for n in range(6)])
    (tmp_path / "images").rename(tmp_path / "Images")
    frame, _, notes = load("oasis", tmp_path)
    assert frame["sha256"].equals(before["sha256"])
    assert notes == []


def test_oasis_by_full_paths_needs_no_root(tmp_path):
    folder = drawn.oasis(tmp_path / "oasis")
    places = {"csv": str(folder / "OASIS.csv"), "pictures": str(folder / "images")}
    frame, _, _ = load("oasis", tmp_path / "nowhere", **places)
    assert len(frame) == 6
    with pytest.raises(InputError, match="none of its 6 pictures exists"):
        load("oasis", tmp_path / "nowhere", **places | {"pictures": "images"})


# A layout, one of its pictures, another that is overwritten with it, and the message.
PAIRS = [
    ("folder", "right/0.png", "left/5.png", r"row 7 .* row 2 .* with group Roma F \(here Sorb F\); 1 such"),
    ("cfd", "Images/CFD/BF-001/CFD-BF-001-025-N.jpg", "Images/CFD/BF-002/CFD-BF-002-025-N.jpg",
     r"CFD-BF-002-025-N.jpg: the same picture, byte for byte, as .*CFD-BF-001-025-N.jpg; 1 such"),
    ("oasis", "images/War 1.jpg", "images/War 4.jpg", r"row 5 .*War 4.*row 2 .*War 1.* with valence 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("layout", "first", "second", "message"), PAIRS)
def test_duplicates_are_refused_or_dropped(tmp_path, layout, first, second, message):
    getattr(drawn, layout)(tmp_path)
    before, expected, notes = load(layout, tmp_path)
    shutil.copy(tmp_path / first, tmp_path / second)
    role = "scenes" if layout == "oasis" else "faces"
    remedy = f"Delete one .* set {role}.duplicates=drop to keep"
    with pytest.raises(InputError, match=rf"{message}(?s:.)*{remedy}"):
        load(layout, tmp_path)
    frame, count, new_notes = load(layout, tmp_path, duplicates="drop")
    assert count == expected
    assert frame["path"].tolist() == [path for path in before["path"] if path != str(tmp_path / second)]
    (note,) = set(new_notes) - set(notes)
    assert note.startswith("1 pictures occur a second time")
    assert list(frame.columns) == list(before.columns)


def test_a_group_of_copies_alone_is_refused_by_the_settings_of_its_layout(tmp_path):
    drawn.folder(tmp_path)
    frame, _, _ = load("folder", tmp_path)
    group = frame["group"].iloc[-1]
    for path in frame["path"][frame["group"] == group]:
        shutil.copy(frame["path"][frame["group"] != group].iloc[0], path)
    with pytest.raises(InputError, match=rf"groups without a face: .*'{group}': 0.*delete their rows.$"):
        load("folder", tmp_path, duplicates="drop")


def test_draws_are_of_distinct_pictures_and_unchanged_without_copies(tmp_path):
    drawn.fairface(tmp_path, per_group=4)
    with_stop, _, _ = load("fairface", tmp_path, per_group=3)
    with_drop, _, _ = load("fairface", tmp_path, per_group=3, duplicates="drop")
    assert with_drop.equals(with_stop)
    shutil.copy(tmp_path / "train/1.jpg", tmp_path / "train/2.jpg")
    for seed in range(5):
        frame, _, notes = load("fairface", tmp_path, per_group=3, seed=seed, duplicates="drop")
        assert "train/2.jpg" not in set(frame["id"])
        assert set(frame.groupby("group").size()) == {3}
        assert "1 pictures occur a second time (faces.duplicates=drop)" in notes
        with pytest.raises(InputError, match="byte for byte"):  # whichever pictures are drawn
            load("fairface", tmp_path, per_group=3, seed=seed)


def test_settings_of_duplicates(job, tmp_path):
    drawn.folder(tmp_path)
    shutil.copy(tmp_path / "right/0.png", tmp_path / "left/5.png")
    overrides = ["dataset=photos", "dataset.root=x", "faces=folder", f"faces.root={tmp_path}"]
    overrides += ["faces.csv=faces.csv", "faces.group=[ethnicity,sex]"]
    cfg = job(*overrides).cfg
    with pytest.raises(InputError, match="set faces.duplicates=drop"):
        stimuli.load(cfg, "faces")
    with pytest.raises(InputError, match=r"set faces\.parents\.duplicates=drop"):
        loaders.load_parents(cfg.faces, cfg.store)
    cfg = job(*overrides, "faces.duplicates=drop").cfg
    assert stimuli.load(cfg, "faces").describe() == (
        "faces: 11 used of 12 (1 pictures occur a second time, 1 of them with another group "
        "(faces.duplicates=drop))"
    )
    (note,) = loaders.load_parents(cfg.faces, cfg.store).notes
    assert note.endswith("(faces.parents.duplicates=drop)")
    with pytest.raises(InputError, match=r"faces.duplicates=keep: must be one of stop, drop"):
        job("dataset=photos", "dataset.root=x", "faces.duplicates=keep")


class TestNrcVad:
    def test_every_row_is_a_word_with_or_without_a_header(self, tmp_path):
        frame, expected, notes = made("nrc_vad", tmp_path)
        assert frame["word"].tolist() == ["abandon", "abdominal", "null", "nan", "a la carte"]
        assert frame["valence"].tolist() == [0.052, 0.49, 0.3, 0.31, 0.7]
        assert (expected, notes) == (5, [])
        path = tmp_path / "NRC-VAD-Lexicon.txt"
        path.write_text("Word\tValence\tArousal\tDominance\n" + path.read_text())
        again, expected, _ = load("nrc_vad", tmp_path)
        assert again.equals(frame)
        assert expected == 5

        path.write_text("word\t0.6\t0.2\t0.1\n")  # here a word, although headers begin with it
        assert load("nrc_vad", tmp_path)[0]["word"].tolist() == ["word"]

    def test_version_2_has_another_scale(self, tmp_path):
        frame, expected, notes = made("nrc_vad_v2", tmp_path)
        assert frame["word"].tolist() == ["valence", "abandon", "power surge", "joy"]
        assert frame["valence"].tolist() == [0.75, 0, 0.5, 1]
        assert (expected, notes) == (4, [])

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("arousal-NRC-VAD-Lexicon.txt", "joy\t0.1\n", "arousal.*: .*not valence. .*words.path"),
            ("a.txt", "word,valence\njoy,0.9\n", "row 1: no tab in 'word,valence'. Write word, tab"),
        ],
    )
    def test_other_files_are_refused(self, tmp_path, name, content, message):
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=message):
            load("nrc_vad", tmp_path / name)


def test_warriner_is_rescaled_from_1_to_9_in_any_language(tmp_path):
    frame, expected, notes = made("warriner", tmp_path)
    assert frame["word"].tolist() == ["aardvark", "null", "worst", "best"]
    assert frame["valence"].tolist() == pytest.approx([5.26 / 8, 3 / 8, 0, 1])
    assert (expected, notes) == (4, [])
    moved = (tmp_path / "BRM-emot-submit.csv").rename(tmp_path / "ratings.csv")
    assert load("warriner", tmp_path)[0].equals(load("warriner", moved)[0])
    path = tmp_path / "spanish.csv"
    path.write_text("\ufeffPalabra,Inglés,ValenceMean\nalegría,joy,8.2\nnulo,null,4\n", "utf-8")
    with pytest.raises(InputError, match=r"no column Word, V.Mean.Sum; found Palabra.* Set words.word"):
        load("warriner", path)
    frame, _, _ = load("warriner", path, word="Palabra", valence="ValenceMean")
    assert frame["word"].tolist() == ["alegría", "nulo"]
    assert frame["valence"].tolist() == pytest.approx([7.2 / 8, 3 / 8])


def test_vader_words_are_alphabetic_and_drawn_by_seed():
    frame, expected, notes = lexicons.load_vader(configs.VaderConfig(None, 0))
    assert frame["word"].str.fullmatch("[a-z]+").all()
    assert frame["word"].is_unique
    assert frame["valence"].between(0, 1).all()
    assert expected - len(frame) == sum(int(note.split()[0]) for note in notes)
    # From the lexicon itself: abandon has a mean of -1.9.
    assert frame.set_index("word")["valence"]["abandon"] == pytest.approx((4 - 1.9) / 8)
    first, again, other = (lexicons.load_vader(configs.VaderConfig(100, seed))[0] for seed in (0, 0, 1))
    assert first.equals(again)
    assert not first.equals(other)
    with pytest.raises(InputError, match="Set fewer, or null"):
        lexicons.load_vader(configs.VaderConfig(10**6, 0))


GERMAN = [
    "English Word\tValence\tArousal\tDominance\tGerman Word",
    "abandon\t0.052\t0.5\t0.2\tverlassen",
    "leave\t0.250\t0.5\t0.2\tverlassen",
    "joy\t0.98\t0.8\t0.7\tFreude",
    "yea\t0.7\t0.4\t0.5\tNO TRANSLATION",
    "nay\t0.3\t0.4\t0.5\t",
]


class TestTranslations:
    @pytest.fixture
    def german(self, tmp_path):
        path = tmp_path / "German-NRC-VAD-Lexicon.txt"
        path.write_text("\n".join(GERMAN) + "\n", "utf-8-sig")
        return path

    def test_the_language_must_be_chosen(self, german):
        message = r"Lexicon.txt, row 1: several columns of words. .* one of English Word, German Word"
        with pytest.raises(InputError, match=message):
            load("nrc_vad", german.parent)

    def test_either_column_can_be_chosen(self, german):
        frame, expected, notes = load("nrc_vad", german, word="English Word")
        assert frame["word"].tolist() == ["abandon", "leave", "joy", "yea", "nay"]
        assert (expected, notes) == (5, [])
        frame, expected, notes = load("nrc_vad", german, word="German Word")
        assert frame["word"].tolist() == ["verlassen", "Freude"]
        assert frame["valence"].tolist() == pytest.approx([0.151, 0.98])
        assert expected == 5
        assert notes == [
            "2 have no German Word",
            "1 repeat a word of German Word, whose valence is the mean of its rows",
        ]

    def test_unknown_columns_and_missing_headers(self, german):
        with pytest.raises(InputError, match=r"row 1: no column German; found English Word, .*Set words"):
            load("nrc_vad", german, word="German")
        drawn.nrc_vad(german.parent / "bare")
        with pytest.raises(
            InputError, match=r"row 1: no header with German. Write one, or set words.word=null"
        ):
            load("nrc_vad", german.parent / "bare", word="German")
        german.write_text("\n".join(GERMAN[1:]) + "\n", "utf-8")
        with pytest.raises(InputError, match=r"row 1: 'verlassen' after word, .* no header.*set words.word"):
            load("nrc_vad", german)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the published files are not at hand")
def test_published_files():
    frame, expected, notes = load("oasis", SHARED / "oasis")
    assert (len(frame), expected) == (806, 900)
    assert notes == ["94 rows of OASIS.csv have no picture"]
    # Acorns 1 is rated 4.68627451 of 7.
    assert frame.set_index("id")["valence"]["Acorns 1"] == pytest.approx(3.68627451 / 6)
    assert {"War 2", "Monkey 3"} <= set(frame["id"])
    frame, expected, notes = load("nrc_vad", SHARED / "nrc_vad")
    assert (len(frame), expected, notes) == (19_971, 19_971, [])
    assert {"null", "abdominal"} <= set(frame["word"])
    assert frame["word"].str.contains(" ").sum() == 132
    frame, expected, _ = load("fairface", SHARED / "fairface", ages=["20-29"], per_group=30)
    assert expected == 6_000
    assert frame.groupby("group").size().tolist() == [30] * 4
    assert frame["age"].unique() == ["20-29"]
