"""Check stimulus tables: refusals, notes, hashes, and clusters (docs/methods.md, section 6.1, by hand)."""

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from src import configs
from src.errors import InputError
from src.stimuli import build_table, clusters
from src.stimuli.loaders import compose_phrases, fill_templates
from tests.paths import CHECKOUT
from tests.stimuli.test_loaders import made


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


def test_rows_are_sorted_by_code_points_and_pictures_without_a_hash_are_no_copies():
    names = ["b", "a", "Z", "é", "a b", "10", "9"]
    frame = pd.DataFrame({"id": names, "valence": 0.5})
    assert build_table("scenes", frame, "here").frame["id"].tolist() == sorted(names)
    for absent in (None, ""):
        assert len(build_table("scenes", scenes(sha256=["x", absent, absent]), "here").frame) == 3


def test_ratings_that_exceed_the_scale_by_rounding_are_clipped():
    table = build_table("scenes", scenes(valence=[-3e-8, 0.5, 1 + 1.2e-7]), "here")
    assert table.frame["valence"].tolist() == [0.5, 0, 1]


@pytest.mark.parametrize(
    ("role", "frame", "message"),
    [
        ("scenes", scenes().drop(columns="valence"), "here: no column valence; found id. scenes need id, v"),
        ("scenes", scenes(id=["a", "b", "a"]), "here: 1 ids occur more than once, first 'a'"),
        ("scenes", scenes(valence=[0.1, 1.2, 0.4]), r"1 valences are not numbers in \[0, 1\].*1.2.* of 'a'"),
        ("scenes", scenes(valence=[0.1, 1.00001, 0.4]), r"1 valences are not numbers in \[0, 1\]"),
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
    assert table.n_items == 2
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
    frame = compose_phrases(cfg.labels)
    assert len(frame) == 864
    assert frame["word"].is_unique
    assert frame.groupby("group").size().tolist() == [144] * 6
    assert sorted(cfg.labels.race_words) == sorted(cfg.faces.races)
    sentences = fill_templates(frame, cfg.templates)["sentence"].tolist()
    assert len(sentences) == 5184
    assert "This is the word afro-caribbean grandmother" in sentences


def table(role, rows, **columns):
    frame = pd.DataFrame(rows).assign(**columns)
    frame = fill_templates(frame, ["a {}", "the {}"]) if "word" in frame else frame
    return build_table(role, frame, "t")


def ways_by_item(corpus):
    frame = clusters.assign_clusters(corpus)
    names = corpus.frame["word" if "word" in corpus.frame else "id"]
    return {item: tuple(row) for item, row in zip(names, frame.to_numpy(), strict=True)}


def test_race_words_form_eleven_pairs_and_fourteen_alone():
    races = yaml.safe_load((CHECKOUT / "conf/labels/race_gender.yaml").read_text("utf-8"))["race_words"]
    words = [word for words in races.values() for word in words]
    lemmas = clusters.map_lemmas(words)
    sizes = pd.Series(lemmas).value_counts()
    assert (len(words), (sizes == 2).sum(), (sizes == 1).sum()) == (36, 11, 14)
    assert lemmas["englishmen"] == "englishman"
    assert lemmas["chinese"] == "chinese"


def test_words_are_clustered_by_the_stem_of_the_lower_cased_word():
    corpus = table(
        "words", {"word": ["Attack", "attacks", "attacked", "happy", "Happiness", "cat"]}, valence=0.5
    )
    assert [*clusters.assign_clusters(corpus)] == ["cluster"]
    stems = {word: cluster for word, (cluster,) in ways_by_item(corpus).items()}
    assert stems["Attack"] == stems["attacks"] == stems["attacked"]
    assert stems["happy"] == stems["Happiness"] != stems["cat"]


def test_images_are_clusters_unless_the_table_brings_clusters_and_morphs_are_of_their_parents(tmp_path):
    scenes = {"id": ["Dog 1", "Dog 2", "Cat 1"], "valence": 0.5}
    assert ways_by_item(table("scenes", scenes)) == {name: (name,) for name in scenes["id"]}
    brought = table("scenes", scenes, cluster=["Dog", "Dog", None])
    assert ways_by_item(brought) == {"Dog 1": ("Dog",), "Dog 2": ("Dog",), "Cat 1": ("Cat 1",)}
    # Stored results of other clusters are not reused.
    words = table("words", {"word": ["run", "runs"], "valence": 0.5}, cluster=["x", "y"])
    assert ways_by_item(words) == {"run": ("x",), "runs": ("y",)}
    parents = {"parent_a": ["a", "b", None], "parent_b": ["b", "c", None]}
    faces = {"id": ["a~b", "b~c", "d"], "group": "g"} | parents
    frame = clusters.assign_clusters(table("faces", faces))
    assert frame.to_numpy().tolist() == [["a", "b"], ["b", "c"], ["d", "d"]]
    assert clusters.merge_linked(frame).tolist() == ["a", "a", "d"]
    assert made("oasis", tmp_path)[0]["cluster"].tolist() == ["War"] * 6


GRID = [
    {"word": f"{race} {gender}", "group": f"{race[0]} {gender[-1]}", "race_word": race, "gender_word": gender}
    for race in ("ab", "abs", "cd", "cds")
    for gender in ("salesman", "salesmen", "aunt", "uncle")
]


@pytest.mark.parametrize("has_columns", [True, False])
def test_labels_are_clustered_by_two_lemmas(has_columns):
    rows = pd.DataFrame(GRID)
    rows["group"] = rows["race_word"].str[0] + rows["gender_word"].str[0].map({"s": "m", "u": "m", "a": "w"})
    if not has_columns:
        # A word that is guessed from phrases must share its groups with another: aunt does not.
        rows = rows[rows["gender_word"] != "aunt"].drop(columns=["race_word", "gender_word"])
    corpus = table("labels", rows)
    assert [*clusters.assign_clusters(corpus)] == ["race_lemma", "gender_lemma"]
    names_by_row = ways_by_item(corpus)
    assert names_by_row["abs salesmen"] == ("ab", "salesman")
    assert names_by_row["cds uncle"] == ("cd", "uncle")


def test_labels_without_a_grid_are_single_phrases_unless_columns_name_their_words():
    incomplete = pd.DataFrame(GRID[1:])
    assert ways_by_item(table("labels", incomplete))["abs salesmen"] == ("ab", "salesman")
    guessed = table("labels", incomplete.drop(columns=["race_word", "gender_word"]))
    assert ways_by_item(guessed)["abs salesmen"] == ("abs salesmen",)
    alone = {"word": ["ab", "ab man"], "group": "x", "race_word": ["ab", "ab"], "gender_word": ["", "man"]}
    assert ways_by_item(table("labels", alone))["ab"] == ("ab", "ab")


@given(edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12))
def test_faces_linked_by_parents_are_a_component(edges):
    parents = pd.DataFrame(edges, columns=["parent_a", "parent_b"]).astype(str)
    names_by_row = clusters.merge_linked(parents)
    # Merge the sets of parents that overlap, until none does.
    components = [{a, b} for a, b in parents.to_numpy()]
    for a, b in parents.to_numpy():
        joint = [names for names in components if {a, b} & names]
        components = [names for names in components if names not in joint] + [set().union(*joint)]
    for (a, _), cluster in zip(parents.to_numpy(), names_by_row, strict=True):
        (names,) = [names for names in components if a in names]
        assert cluster == min(names)


def test_brought_clusters_change_the_key_of_jobs_but_not_that_of_vectors():
    frame = pd.DataFrame({"id": ["a", "b"], "group": ["g", "h"]})
    without, first, second = (
        build_table("faces", frame.assign(**columns), "t")
        for columns in ({}, {"cluster": ["x", "y"]}, {"cluster": ["x", "x"]})
    )
    assert without.hash == first.hash == second.hash
    assert len({without.cluster_hash, first.cluster_hash, second.cluster_hash}) == 3
