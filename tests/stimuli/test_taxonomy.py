"""Loaded words by category, their captions, and the frequent words beside them."""

import json
import string
import unicodedata

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from src.configs import TaxonomyConfig, compose
from src.errors import InputError
from src.stimuli import taxonomy

CAPTIONS = {
    "adjective": "a photo of {article} {word} person",
    "noun": "a photo of {article} {word}",
    "activity": "a photo of a person who is {word}",
}
NAMED_IN_THE_PAPER = [
    *(
        "criminal",
        "delinquent",
        "terrorist",
        "disabled",
        "mentally ill",
        "addicted",
        "homemaker",
        "beautiful",
    ),
    *("chubby", "old", "tall", "aggressive", "calm", "savage", "third-world"),
]


def config(categories=None, **settings):
    return TaxonomyConfig(**{"captions": CAPTIONS, "categories": categories or {}, **settings})


def file(tmp_path, content, name="list.yaml", **settings):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return config(path=str(path), **settings)


def triples(cfg):
    return [tuple(row) for row in taxonomy.words(cfg)[["category", "word", "type"]].itertuples(index=False)]


@pytest.fixture(scope="module")
def shipped():
    return OmegaConf.to_object(compose(["taxonomy=sobit"])[0].taxonomy)


class TestShipped:
    def test_ten_categories_of_one_size_about(self, shipped):
        frame = taxonomy.words(shipped)
        assert frame["category"].unique().tolist() == [
            *("criminal justice", "education and wealth", "health", "occupation", "appearance", "behaviour"),
            *("portrayal in media", "politics", "religion", "further stereotypes"),
        ]
        assert len(frame) >= 374
        assert frame["category"].value_counts().between(35, 45).all()

    def test_every_category_has_all_types(self, shipped):
        frame = taxonomy.words(shipped)
        assert set(frame["type"]) == {"adjective", "noun", "activity"}
        assert (pd.crosstab(frame["category"], frame["type"]) >= 4).all(axis=None)

    def test_the_words_that_the_paper_names(self, shipped):
        assert set(NAMED_IN_THE_PAPER) <= set(taxonomy.words(shipped)["word"])

    def test_captions_are_english(self, shipped):
        frame = taxonomy.words(shipped)
        captions = taxonomy.captioned(frame, shipped, "right").set_axis(frame["word"])
        assert captions["mentally ill"] == "a photo of a mentally ill person"
        assert captions["HIV-positive"] == "a photo of an HIV-positive person"
        assert captions["heir to a fortune"] == "a photo of an heir to a fortune"
        assert captions["university student"] == "a photo of a university student"
        assert captions["robbing a bank"] == "a photo of a person who is robbing a bank"
        activities = frame.loc[frame["type"] == "activity", "word"]
        assert activities.str.split().str[0].str.endswith("ing").all()
        # In this list a vowel's letter is a vowel's sound, but for these.
        sounds = {"university student": "a", "honest": "an", "heir to a fortune": "an", "MP": "an"}
        sounds["HIV-positive"] = "an"
        for word in frame.loc[frame["type"] != "activity", "word"]:
            expected = sounds.get(word, "an" if word[0] in "aeiou" else "a")
            assert captions[word].startswith(f"a photo of {expected} {word}")


class TestWords:
    def test_in_the_order_of_the_list(self):
        cfg = config({"b": {"noun": ["thief"], "adjective": ["old", "calm"]}, "a": {"activity": ["smiling"]}})
        assert triples(cfg) == [
            *(("b", "thief", "noun"), ("b", "old", "adjective"), ("b", "calm", "adjective")),
            ("a", "smiling", "activity"),
        ]

    def test_a_word_may_stand_in_two_categories(self):
        cfg = config({"a": {"adjective": ["savage"]}, "b": {"adjective": ["savage"], "noun": []}})
        assert triples(cfg) == [("a", "savage", "adjective"), ("b", "savage", "adjective")]

    def test_a_file_stands_instead_of_the_categories(self, tmp_path):
        cfg = file(tmp_path, "a: {noun: [thief]}")
        cfg.categories = {"b": {"noun": ["nobody"]}}
        assert triples(cfg) == [("a", "thief", "noun")]

    def test_two_layouts_in_two_formats(self, tmp_path):
        content = {"a": {"noun": ["thief"], "adjective": ["old"]}, "b": ["spy"]}
        expected = [("a", "thief", "noun"), ("a", "old", "adjective"), ("b", "spy", "noun")]
        written = json.dumps(content, indent="\t")  # tabs, which YAML refuses
        assert triples(file(tmp_path, written, "list.JSON", untyped="noun")) == expected
        assert triples(file(tmp_path, OmegaConf.to_yaml(content), untyped="noun")) == expected
        assert (
            triples(file(tmp_path, b"\xef\xbb\xbf" + written.encode(), "bom.json", untyped="noun"))
            == expected
        )

    def test_words_keep_digits_hyphens_apostrophes_and_quotes_keep_booleans(self, tmp_path):
        cfg = file(tmp_path, """a: ["no", "1984", 8-year-old, third-world, bachelor's student, '{word}']""")
        cfg.untyped = "adjective"
        words = ["no", "1984", "8-year-old", "third-world", "bachelor's student", "{word}"]
        assert triples(cfg) == [("a", word, "adjective") for word in words]

    def test_blanks_and_composition_are_normalised(self, tmp_path):
        cfg = file(
            tmp_path, f"' a ': [' mentally \t ill ', {unicodedata.normalize('NFD', 'naïve')}]", untyped="noun"
        )
        assert triples(cfg) == [("a", "mentally ill", "noun"), ("a", "naïve", "noun")]

    letters = st.text(string.ascii_letters + "éß'-0123456789 ", min_size=1).filter(str.strip)
    listed = st.dictionaries(
        letters,
        st.lists(letters, min_size=1, unique_by=lambda word: " ".join(word.split()).casefold()),
        min_size=1,
        max_size=4,
    ).filter(lambda all_: len({" ".join(name.split()).casefold() for name in all_}) == len(all_))

    @settings(max_examples=50)
    @given(listed)
    def test_any_list_comes_back_word_by_word(self, tmp_path_factory, listed):
        expected = [
            (" ".join(name.split()), " ".join(word.split()), "noun")
            for name, words in listed.items()
            for word in words
        ]
        cfg = file(tmp_path_factory.mktemp("list"), json.dumps(listed), "list.json", untyped="noun")
        assert triples(cfg) == expected
        assert triples(config({name: {"noun": words} for name, words in listed.items()})) == expected


PUBLISHED = {"jobs": ["doctor", "Third-World"], "acts": ["waving a flag", "calm"], "both": ["doctor"]}
TYPES = {"doctor": "noun", "third-world": "adjective", "waving  a flag": "activity", "calm": "adjective"}


def types(tmp_path, content, name="types.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return {"types": str(path)}


class TestTypes:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("types.json", TYPES),
            ("types.yaml", OmegaConf.to_yaml(TYPES)),
            (
                "types.csv",
                "number,word,type\n" + "".join(f"1,{word},{kind}\n" for word, kind in TYPES.items()),
            ),
        ],
    )
    def test_a_second_file_gives_words_their_types(self, tmp_path, name, content):
        cfg = file(tmp_path, json.dumps(PUBLISHED), "list.json", **types(tmp_path, content, name))
        frame = taxonomy.words(cfg)
        assert dict(zip(frame["word"], frame["type"], strict=True)) == {
            **{"doctor": "noun", "Third-World": "adjective", "waving a flag": "activity", "calm": "adjective"}
        }
        captions = taxonomy.captioned(frame, cfg, "right")
        assert captions[0] == captions[4] == "a photo of a doctor"

    def test_what_stands_in_neither_is_named_or_of_the_type_of_the_untyped(self, tmp_path, caplog):
        given = types(tmp_path, {"doctor": "noun", "waving a flag": "activity"})
        with pytest.raises(
            InputError, match=r"2 words have no type \(Third-World, calm\). Set taxonomy.types"
        ):
            taxonomy.words(file(tmp_path, json.dumps(PUBLISHED), "list.json", **given))
        cfg = file(tmp_path, json.dumps(PUBLISHED), "list.json", untyped="adjective", **given)
        assert [kind for _, _, kind in triples(cfg)] == ["noun", "adjective", "activity", "adjective", "noun"]
        assert "2 words without a type are captioned as adjective (taxonomy.untyped)" in caplog.text
        assert "'a photo of a Third-World person'" in caplog.text

    def test_the_type_of_the_untyped_is_said_once(self, tmp_path, caplog):
        cfg = file(tmp_path, '{"jobs": ["doctor", "nurse"]}', "list.json", untyped="adjective")
        for _ in range(2):
            taxonomy.words(cfg)
        (record,) = caplog.records
        assert "'a photo of a doctor person', 'a photo of a nurse person'" in record.getMessage()
        assert "taxonomy.types=FILE" in record.getMessage()

    def test_a_list_with_types_needs_none_and_says_nothing(self, tmp_path, caplog):
        cfg = file(tmp_path, "a: {noun: [thief]}", untyped="adjective", **types(tmp_path, {"Thief": "noun"}))
        assert triples(cfg) == [("a", "thief", "noun")]
        assert not caplog.records

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"doctor": "nuon"}, r"types.json, doctor: no type is called 'nuon'; did you mean noun\?"),
            (
                {"doctor": "profession"},
                r"'\+taxonomy.captions.profession=\"a photo of \{article\} \{word\}\"'",
            ),
            ({"dotcor": "noun"}, r"types.json: 1 words of it stand in no category of .*list.json \(dotcor\)"),
            ({"doctor": "noun", "Doctor": "noun"}, r"types.json: word 'Doctor' stands there already"),
            (
                {"doctor": ["noun"]},
                r"types.json, doctor: a type is looked for, found \['noun'\]. Write word: type",
            ),
            (["doctor"], r"types.json: .*Write word: type"),
            ("{", r"types.json: "),
        ],
    )
    def test_mistakes_in_it(self, tmp_path, content, message):
        with pytest.raises(InputError, match=message):
            taxonomy.words(file(tmp_path, json.dumps(PUBLISHED), "list.json", **types(tmp_path, content)))

    def test_two_types_for_one_word_and_no_file(self, tmp_path):
        given = types(tmp_path, {"thief": "adjective"})
        with pytest.raises(InputError, match=r"'thief' is noun in .*list.yaml and adjective in .*types.json"):
            taxonomy.words(file(tmp_path, "a: {noun: [thief]}", **given))
        with pytest.raises(InputError, match=r"gone.yaml: no such file. Set taxonomy.types to one"):
            taxonomy.words(file(tmp_path, "a: [thief]", types=str(tmp_path / "gone.yaml")))
        with pytest.raises(InputError, match=r"a.csv: no column word, type; found thief, noun. Name the col"):
            taxonomy.words(file(tmp_path, "a: [thief]", **types(tmp_path, "thief,noun\n", "a.csv")))


class TestMistakes:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (
                "a: {nouns: [thief]}",
                r"list\.yaml, a: no type is called 'nouns'; did you mean noun\?.*adjective",
            ),
            ("a: {xyz: [thief]}", r"no type is called 'xyz'\. There are adjective, noun, activity"),
            ("a: {noun: [old, calm, Old]}", r"a: 'Old' stands there already, as 'old'\. Delete"),
            ("a: {noun: [Old, old]}", "'old' stands there already, as 'Old'"),
            ("a: {noun: [old, ' old ']}", "'old' stands there already"),
            ("a: {noun: [old], adjective: [old]}", "'old' stands there already"),
            ("a: {noun: [naïve, nai\u0308ve]}", "'naïve' stands there already"),
            ("a: []", "a: no words. Add some, or delete"),
            ("a:", "a: no words"),
            ("a: {}", "a: no words"),
            ("a: {noun: , adjective: []}", "a: no words"),
            ("a: {noun: [old, ' ']}", "a: an empty word. Delete"),
            ("a: {noun: [no]}", r"a: False is no word.*quote it"),
            ("a: {noun: [1984]}", "a: 1984 is no word"),
            ("a: {noun: [~]}", "a: None is no word"),
            ("a: {noun: [1e3]}", "a: 1000.0 is no word"),
            (
                "a: {noun: [old: adjective]}",
                r"a: a word is looked for, found \{'old': 'adjective'\}.*category: \[",
            ),
            ("a: {noun: [[old]]}", r"found \['old'\]"),
            ("a: {noun: old}", "a: 'old' is no list"),
            ("a: {noun: {old: 1}}", "is no list"),
            ("a: old", "a: 'old' is no list"),
            ("no: {noun: [old]}", "False is no category.*quote"),
            ("' ': {noun: [old]}", "an empty category"),
            ("a: {noun: [old]}\nA: {noun: [old]}", "category 'A' stands there already, as 'a'"),
            ("a: {noun: [old]}\na: {noun: [calm]}", r"list\.yaml: .*duplicate key a.*line 2"),
            ("a: {noun: [old], noun: [calm]}", "duplicate key noun"),
            ("a: {noun: [old}", r"list\.yaml: .*line 1"),
            ("~: {noun: [old]}", "key type 'NoneType'"),
            ("a: ['${']", r"list\.yaml: .*\$\{"),
            ("a: &a [*a]", "line 1: references in it stand for more than"),
            ("- old", r"a mapping is expected, got list\. Write category"),
            ("", r"list\.yaml: no category\. Write category"),
            ("old", "old: no words"),
            (b"a: {noun: [\xff]}", r"list\.yaml: .*Save it as text in UTF-8"),
        ],
    )
    def test_of_a_file(self, tmp_path, content, message):
        with pytest.raises(InputError, match=f"(?s){message}"):
            taxonomy.words(file(tmp_path, content, untyped=None if "noun" in str(content) else "noun"))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ('{"a": ["old"], "a": ["calm"]}', r"list\.json: 'a' stands there twice"),
            ('{"a": ["old"]', r"list\.json: .*line 1"),
            ('{"a": [true]}', "True is no word"),
            ('["old"]', "a mapping is expected, got list"),
            ("[" * 100_000, "recursion"),
        ],
    )
    def test_of_json(self, tmp_path, content, message):
        with pytest.raises(InputError, match=message):
            taxonomy.words(file(tmp_path, content, "list.json", untyped="noun"))

    def test_without_a_type(self, tmp_path):
        content = "a: [old, calm, tall]\nb: {noun: [thief]}\nc: [kind, cruel, rude]"
        with pytest.raises(InputError) as error:
            taxonomy.words(file(tmp_path, content))
        assert "6 words have no type (old, calm, tall, kind, cruel, …). Set taxonomy.types" in str(
            error.value
        )
        assert "(adjective, noun, activity)" in str(error.value)

    def test_an_unknown_type_of_the_untyped(self):
        with pytest.raises(InputError, match="untyped: no type is called 'Noun'; did you mean noun"):
            taxonomy.words(config({"a": {"noun": ["thief"]}}, untyped="Noun"))

    def test_no_file(self, tmp_path):
        with pytest.raises(InputError, match=r"gone\.yaml: no such file. Set taxonomy\.path"):
            taxonomy.words(config(path=str(tmp_path / "gone.yaml")))
        with pytest.raises(InputError, match="no such file"):
            taxonomy.words(config(path=str(tmp_path)))

    def test_no_category(self):
        with pytest.raises(InputError, match="categories: no category"):
            taxonomy.words(config())

    @pytest.mark.parametrize(
        "template",
        [
            "a photo",
            "{article}",
            "{word} {noun}",
            "{word} {}",
            "{word!r}",
            "{word:>9}",
            "{word[0]}",
            "{word",
            "word}",
        ],
    )
    def test_of_a_template(self, template):
        with pytest.raises(InputError, match=r"captions\.noun=.*\{word\}"):
            taxonomy.words(config({"a": {"adjective": ["old"]}}, captions={**CAPTIONS, "noun": template}))

    def test_two_words_of_one_caption(self):
        captions = {"adjective": "{article} {word} person", "noun": "{article} {word}"}
        both = {"adjective": ["old"], "noun": ["old person"]}
        with pytest.raises(InputError, match="a: by its caption, 'old person' .* as 'old'"):
            taxonomy.words(config({"a": both}, captions=captions))
        apart = {"a": {"adjective": ["old"]}, "b": {"noun": ["old person"]}}
        assert len(taxonomy.words(config(apart, captions=captions))) == 2


def caption(word, kind="adjective", article="right", **settings):
    chosen = pd.DataFrame({"word": [word], "type": [kind]})
    return taxonomy.captioned(chosen, config(**settings), article).item()


class TestCaptions:
    # By ear: what a speaker of British English says.
    @pytest.mark.parametrize(
        ("article", "words"),
        [
            ("an", "hour, heir, honest, MP, FBI agent, X-ray, S-shaped, LGBT activist, a cappella, 'ugly'"),
            (
                "an",
                "HIV-positive, hiv, SUV driver, MI5 agent, Uber driver, über, élite, Éclair lover, ugly",
            ),
            ("an", "8-year-old, 80-year-old, 800, 8, 11-year-old, 11, 18th-century, 1800s, 11,000, umpire"),
            ("a", "European, one-eyed, university student, unicorn, UFO, US citizen, once-rich, Ukrainian"),
            ("a", "1984, 110-year-old, 1,100, 9-year-old, NASA scientist, historic, house-proud, eulogist"),
            ("a", "third-world, mentally ill, yellow, well-read, unanimous, union leader, (useful), mit, !"),
        ],
    )
    def test_articles(self, article, words):
        for word in words.split(", "):
            assert caption(word) == f"a photo of {article} {word} person"

    def test_an_article_agrees_with_what_follows_it(self):
        captions = {"noun": "{article} unlikely {word}, {article} {word} and {article}"}
        assert caption("hour", "noun", captions=captions) == "an unlikely hour, an hour and a"

    def test_literal(self):
        assert caption("hour", "noun", "literal") == "a photo of a/an hour"

    def test_no_article(self):
        for article in ("right", "literal"):
            assert caption("eating", "activity", article) == "a photo of a person who is eating"

    @settings(max_examples=50)
    @given(st.text(min_size=1), st.sampled_from(sorted(CAPTIONS)), st.sampled_from(["right", "literal"]))
    def test_the_word_stands_as_it_is(self, word, kind, article):
        made = caption(word, kind, article)
        before, after = CAPTIONS[kind].split("{word}")
        assert made in [before.replace("{article}", by) + word + after for by in ("a", "an", "a/an")]

    def test_the_index_is_kept(self):
        chosen = pd.DataFrame({"word": ["spy", "old"], "type": ["noun", "adjective"]}, index=[7, 3])
        made = taxonomy.captioned(chosen, config(), "right")
        assert made.to_dict() == {7: "a photo of a spy", 3: "a photo of an old person"}
        assert made.name == "caption"
        assert taxonomy.captioned(chosen[:0], config(), "right").empty

    def test_an_unknown_type(self):
        with pytest.raises(InputError, match="no type is called 'verb'"):
            caption("run", "verb")


class TestFrequent:
    def test_the_most_frequent_first(self):
        words = taxonomy.frequent(config(), 10_000)
        assert words[0] == "the"
        assert {"man", "woman", "photo"} <= set(words[:2000])
        assert len(words) == len(set(words)) == 10_000
        assert all(word.isalpha() and word == word.lower() for word in words)
        assert taxonomy.frequent(config(), 50) == words[:50]

    def test_marks_of_a_script_are_letters(self):
        assert "में" in taxonomy.frequent(config(language="hi"), 10)

    def test_an_unknown_language(self):
        with pytest.raises(
            InputError, match=r"taxonomy\.language=en-GB: .*\bde, .*\ben, .*taxonomy\.vocabulary"
        ):
            taxonomy.frequent(config(language="en-GB"), 10)

    def test_too_few(self):
        with pytest.raises(
            InputError, match=r"protocol\.vocabulary=10000000: wordfreq's 'en' has \d+ words. Set"
        ):
            taxonomy.frequent(config(), 10_000_000)

    def vocabulary(self, tmp_path, content):
        path = tmp_path / "words.txt"
        path.write_bytes(content)
        return config(vocabulary=str(path))

    def test_of_a_file(self, tmp_path):
        cfg = self.vocabulary(tmp_path, "\ufeffthe\r\n\n Haus \ncafe\u0301\nnot\n".encode())
        assert taxonomy.frequent(cfg, 3) == ["the", "Haus", "café"]
        assert taxonomy.frequent(cfg, 4)[-1] == "not"

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"the\nof", r"protocol\.vocabulary=3: .*words\.txt has 2 words. Set protocol\.vocabulary"),
            (b"the\n\nof\n the", r"words\.txt, line 4: 'the' stands in line 1 already"),
            (b"the\nof\t99", r"words\.txt, line 2: 'of\\t99' is not one word"),
            (b"\xff", "UTF-8"),
        ],
    )
    def test_mistakes_of_a_file(self, tmp_path, content, message):
        with pytest.raises(InputError, match=message):
            taxonomy.frequent(self.vocabulary(tmp_path, content), 3)

    def test_no_file(self, tmp_path):
        with pytest.raises(InputError, match=r"no such file. Set taxonomy\.vocabulary"):
            taxonomy.frequent(config(vocabulary=str(tmp_path / "gone")), 3)
