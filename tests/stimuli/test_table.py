"""The stimulus table refuses what would quietly change an analysis."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src import configs
from src.errors import InputError
from src.stimuli import checked
from src.stimuli.texts import in_templates, phrases


def scenes(**columns):
    return pd.DataFrame({"id": ["b", "a", "c"], "valence": [0.1, 0.5, 0.9], **columns})


def words(templates=("a {}", "the {}")):
    return in_templates(pd.DataFrame({"word": ["x", "y"], "valence": [0.2, 0.7]}), templates)


def test_rows_are_sorted_by_id_as_code_points():
    names = ["b", "a", "Z", "é", "a b", "10", "9"]
    frame = pd.DataFrame({"id": names, "valence": 0.5})
    assert checked("scenes", frame, "here").frame["id"].tolist() == sorted(names)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (scenes().drop(columns="valence"), "here: no column valence; found id. scenes need id, valence"),
        (scenes().iloc[:0], "here: no scenes in it"),
        (scenes(id=["a", "b", "a"]), "here: 1 ids occur more than once, first 'a'"),
        (scenes(valence=[0.1, 1.2, 0.4]), r"1 valences are not numbers in \[0, 1\], first .*1.2.* of 'a'"),
        (scenes(valence=[0.1, None, 0.4]), r"1 valences are not numbers in \[0, 1\]"),
        (scenes(valence=["x", 0.3, 0.4]), r"1 valences are not numbers in \[0, 1\], first x of"),
    ],
)
def test_bad_scenes_are_refused(frame, message):
    with pytest.raises(InputError, match=message):
        checked("scenes", frame, "here")


@pytest.mark.parametrize("group", [None, "", " "])
def test_a_face_without_a_group_is_refused(group):
    with pytest.raises(InputError, match="1 rows have no group, first 'b'"):
        checked("faces", pd.DataFrame({"id": ["a", "b"], "group": ["g", group]}), "here")


def test_a_word_must_stand_once_in_each_template():
    frame = words()
    with pytest.raises(InputError, match="1 words do not stand in all 2 templates, first 'x'"):
        checked("words", frame[frame["id"] != "x | 1"], "here")
    twice = pd.concat([frame, frame.iloc[:1].assign(id="other")])
    with pytest.raises(InputError, match="the word 'x' stands twice in the template 'a {}'"):
        checked("words", twice, "here")


@pytest.mark.parametrize("column", ["word", "template", "sentence"])
def test_a_text_without_words_is_refused(column):
    frame = words().astype({column: object})
    frame.loc[1, column] = None
    with pytest.raises(InputError, match=f"1 rows have no {column}, first 'y | 0'"):
        checked("words", frame, "here")


def test_a_word_has_one_valence():
    frame = words()
    frame.loc[0, "valence"] = 0.3
    with pytest.raises(InputError, match="the word 'x' has more than one valence"):
        checked("words", frame, "here")


def test_a_picture_stands_once(tmp_path):
    frame = scenes(sha256=["x", "y", "x"])
    with pytest.raises(InputError, match=r"here: 'c' is the same picture as 'b' .*1 such rows.*Keep one row"):
        checked("scenes", frame, "here")
    for hashes in (["x", "y", "z"], ["x", None, None]):
        assert len(checked("scenes", scenes(sha256=hashes), "here").frame) == 3


@pytest.mark.parametrize(
    ("first", "second"),
    [("caf\u00e9", "cafe\u0301"), ("old man", "old  man"), ("x", "x "), ("a\u00a0b", "a b")],
)
def test_texts_that_differ_in_form_alone_are_refused(first, second):
    items = pd.DataFrame({"word": [first, second], "valence": [0.2, 0.7]})
    message = "words '.*' and '.*' differ in blanks or in Unicode form .*Write both alike"
    with pytest.raises(InputError, match=message):
        checked("words", in_templates(items, ["a {}", "the {}"]), "here")
    with pytest.raises(InputError, match=message.replace("words", "groups")):
        checked("faces", pd.DataFrame({"id": ["a", "b"], "group": [first, second]}), "here")


def test_words_that_differ_in_case_are_two_and_counted():
    items = pd.DataFrame({"word": ["polish", "Polish", "x"], "valence": [0.2, 0.7, 0.5]})
    table = checked("words", in_templates(items, ["a {}", "the {}"]), "here")
    assert table.items == 3
    assert table.notes == (
        "words that differ in case alone, which most encoders drop: 2, first Polish, polish",
    )


@pytest.mark.parametrize("templates", [[], ["no place"], ["{} {}"], ["a {}", "a {}"]])
def test_bad_templates_are_refused(templates):
    with pytest.raises(InputError, match="templates"):
        words(templates)


@given(st.permutations(range(4)))
def test_the_hash_is_of_the_content_not_of_order_or_place(order):
    frame = words().assign(path="/here")
    shuffled = frame.iloc[list(order)].assign(path="/there")
    assert checked("words", frame, "one").hash == checked("words", shuffled, "two").hash
    extra = frame.assign(notes=[["any"], {}, 1, None])
    assert checked("words", frame, "one").hash == checked("words", extra, "two").hash
    changed = frame.assign(valence=frame["valence"] + 0.01)
    assert checked("words", frame, "one").hash != checked("words", changed, "one").hash


def test_the_papers_labels_number_864_phrases(job):
    made = job("dataset=photos", "dataset.root=x").cfg
    assert isinstance(made.labels, configs.LabelsConfig)
    frame = phrases(made.labels)
    assert len(frame) == 864
    assert frame["word"].is_unique
    assert frame.groupby("group").size().tolist() == [144] * 6
    assert sorted(made.labels.race_words) == sorted(made.faces.races)
    assert len(in_templates(frame, made.templates)) == 5184
    assert "This is the word afro-caribbean grandmother" in set(
        in_templates(frame, made.templates)["sentence"]
    )
