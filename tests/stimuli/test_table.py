"""Check what a stimulus table refuses and notes, and what its hash depends on."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src import configs
from src.errors import InputError
from src.stimuli import build_table
from src.stimuli.loaders import fill_templates, phrases


def scenes(**columns):
    return pd.DataFrame({"id": ["b", "a", "c"], "valence": [0.1, 0.5, 0.9], **columns})


def faces(*groups):
    return pd.DataFrame({"id": ["a", "b"], "group": groups})


def words(templates=("a {}", "the {}"), listed=("x", "y")):
    return fill_templates(pd.DataFrame({"word": listed, "valence": [0.2, 0.7]}), templates)


def words_with(row, column, value):
    frame = words().astype({column: object})
    frame.loc[row, column] = value
    return frame


def test_rows_are_sorted_by_code_points():
    names = ["b", "a", "Z", "é", "a b", "10", "9"]
    frame = pd.DataFrame({"id": names, "valence": 0.5})
    assert build_table("scenes", frame, "here").frame["id"].tolist() == sorted(names)


@pytest.mark.parametrize(
    ("role", "frame", "message"),
    [
        ("scenes", scenes().drop(columns="valence"), "here: no column valence; found id. scenes need id, v"),
        ("scenes", scenes(id=["a", "b", "a"]), "here: 1 ids occur more than once, first 'a'"),
        ("scenes", scenes(valence=[0.1, 1.2, 0.4]), r"1 valences are not numbers in \[0, 1\].*1.2.* of 'a'"),
        ("scenes", scenes(valence=["x", 0.3, 0.4]), r"1 valences are not numbers in \[0, 1\], first x of"),
        ("scenes", scenes(sha256=["x", "y", "x"]), "here: 'c' is the same picture as 'b' .*1 such.*Keep one"),
        *(("faces", faces("g", none), "1 rows have no group, first 'b'") for none in (None, "", " ")),
        ("words", words().iloc[:3], "1 words do not occur in all 2 templates, first 'y'"),
        ("words", pd.concat([words(), words().iloc[:1].assign(id="z")]), "'x' occurs twice in the temp"),
        ("words", words_with(1, "sentence", None), "1 rows have no sentence, first 'y | 0'"),
        ("words", words_with(0, "valence", 0.3), "the word 'x' has several values of valence"),
    ],
)
def test_an_invalid_table_is_refused(role, frame, message):
    with pytest.raises(InputError, match=message):
        build_table(role, frame, "here")


def test_pictures_without_a_hash_are_no_copies():
    assert len(build_table("scenes", scenes(sha256=["x", None, None]), "here").frame) == 3


@pytest.mark.parametrize("templates", [[], ["no place"], ["{} {}"], ["a {}", "a {}"]])
def test_bad_templates_are_refused(templates):
    with pytest.raises(InputError, match="templates"):
        words(templates)


@pytest.mark.parametrize(
    ("first", "second"),
    [("caf\u00e9", "cafe\u0301"), ("old man", "old  man"), ("x", "x "), ("a\u00a0b", "a b")],
)
def test_texts_that_differ_only_in_form_are_refused(first, second):
    message = "words '.*' and '.*' differ in blanks or in Unicode form .*Write both alike"
    with pytest.raises(InputError, match=message):
        build_table("words", words(listed=(first, second)), "here")
    with pytest.raises(InputError, match=message.replace("words", "groups")):
        build_table("faces", faces(first, second), "here")


def test_words_that_differ_only_in_case_are_counted():
    table = build_table("words", words(listed=("polish", "Polish")), "here")
    assert table.items == 2
    assert table.notes == (
        "words that differ in case alone, which most encoders drop: 2, first Polish, polish",
    )


@given(st.permutations(range(4)))
def test_the_hash_depends_on_content_not_on_order_or_place(order):
    frame = words().assign(path="/here")
    first = build_table("words", frame, "one").hash
    assert build_table("words", frame.iloc[list(order)].assign(path="/there"), "two").hash == first
    assert build_table("words", frame.assign(notes=[["any"], {}, 1, None]), "two").hash == first
    assert build_table("words", frame.assign(valence=frame["valence"] + 0.01), "one").hash != first


def test_the_paper_has_864_label_phrases(job):
    cfg = job("dataset=photos", "dataset.root=x").cfg
    assert isinstance(cfg.labels, configs.LabelsConfig)
    frame = phrases(cfg.labels)
    assert len(frame) == 864
    assert frame["word"].is_unique
    assert frame.groupby("group").size().tolist() == [144] * 6
    assert sorted(cfg.labels.race_words) == sorted(cfg.faces.races)
    sentences = fill_templates(frame, cfg.templates)["sentence"].tolist()
    assert len(sentences) == 5184
    assert "This is the word afro-caribbean grandmother" in sentences
