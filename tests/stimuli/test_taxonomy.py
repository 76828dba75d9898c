"""Test how words are loaded by category and captioned, and lists of frequent words."""

import json
import string

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from src.configs import TaxonomyConfig, compose
from src.errors import InputError
from src.stimuli import taxonomy, wordlists

CAPTIONS = {
    "adjective": "a photo of {article} {word} person",
    "noun": "a photo of {article} {word}",
    "activity": "a photo of a person who is {word}",
}
NAMED_IN_THE_PAPER = (
    "criminal, delinquent, terrorist, disabled, mentally ill, addicted, homemaker, beautiful, chubby, old, "
    "tall, aggressive, calm, savage, third-world"
)


def config(categories=None, **settings):
    return TaxonomyConfig(**{"captions": CAPTIONS, "categories": categories or {}, **settings})


def from_file(tmp_path, content, name="list.yaml", **settings):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return config(path=str(path), **settings)


def triples(cfg):
    return [
        tuple(row) for row in taxonomy.load_words(cfg)[["category", "word", "type"]].itertuples(index=False)
    ]


@pytest.fixture(scope="module")
def shipped():
    return OmegaConf.to_object(compose(["taxonomy=sobit"])[0].taxonomy)


class TestShipped:
    def test_ten_categories_of_similar_size_with_all_types(self, shipped):
        frame = taxonomy.load_words(shipped)
        assert frame["category"].unique().tolist() == [
            *("criminal justice", "education and wealth", "health", "occupation", "appearance", "behaviour"),
            *("portrayal in media", "politics", "religion", "further stereotypes"),
        ]
        assert len(frame) >= 374
        assert frame["category"].value_counts().between(35, 45).all()
        assert set(frame["type"]) == {"adjective", "noun", "activity"}
        assert (pd.crosstab(frame["category"], frame["type"]) >= 4).all(axis=None)
        assert set(NAMED_IN_THE_PAPER.split(", ")) <= set(frame["word"])

    def test_captions_are_english(self, shipped):
        frame = taxonomy.load_words(shipped)
        captions = taxonomy.compose_captions(frame, shipped, "right").set_axis(frame["word"])
        assert captions["robbing a bank"] == "a photo of a person who is robbing a bank"
        assert captions["mentally ill"] == "a photo of a mentally ill person"
        activities = frame.loc[frame["type"] == "activity", "word"]
        assert activities.str.split().str[0].str.endswith("ing").all()
        # In this list, the first letter determines the article, with these exceptions.
        exceptions = {"university student": "a"}
        exceptions |= dict.fromkeys(("honest", "heir to a fortune", "MP", "HIV-positive"), "an")
        for word in frame.loc[frame["type"] != "activity", "word"]:
            expected = exceptions.get(word, "an" if word[0] in "aeiou" else "a")
            assert captions[word].startswith(f"a photo of {expected} {word}")


class TestWords:
    def test_two_layouts_in_two_formats(self, tmp_path):
        content = {"b": {"noun": ["thief", "'8'"], "adjective": ["old \t man"]}, "a": ["{word}", "thief"]}
        expected = [*(("b", "thief", "noun"), ("b", "'8'", "noun"), ("b", "old man", "adjective"))]
        expected += [("a", "{word}", "noun"), ("a", "thief", "noun")]
        text = json.dumps(content, indent="\t")  # tabs, which YAML refuses
        replaced = {"c": {}}  # a file takes the place of the categories
        assert (
            triples(from_file(tmp_path, text, "list.JSON", untyped="noun", categories=replaced)) == expected
        )
        assert triples(from_file(tmp_path, OmegaConf.to_yaml(content), untyped="noun")) == expected
        assert triples(from_file(tmp_path, "\ufeff" + text, "bom.json", untyped="noun")) == expected

    texts = st.text(string.ascii_letters + "éß'-0123456789 ", min_size=1).filter(str.strip)
    listed = st.dictionaries(
        texts,
        st.lists(texts, min_size=1, unique_by=lambda word: " ".join(word.split()).casefold()),
        min_size=1,
        max_size=4,
    ).filter(lambda lists: len({" ".join(name.split()).casefold() for name in lists}) == len(lists))

    @settings(max_examples=50)
    @given(listed)
    def test_lists_are_read_word_by_word(self, tmp_path_factory, listed):
        expected = [
            (" ".join(name.split()), " ".join(word.split()), "noun")
            for name, words in listed.items()
            for word in words
        ]
        cfg = from_file(tmp_path_factory.mktemp("list"), json.dumps(listed), "list.json", untyped="noun")
        assert triples(cfg) == expected
        assert triples(config({name: {"noun": words} for name, words in listed.items()})) == expected


PUBLISHED = {"jobs": ["doctor", "Third-World"], "acts": ["waving a flag", "calm"], "both": ["doctor"]}
TYPES = {"doctor": "noun", "third-world": "adjective", "waving  a flag": "activity", "calm": "adjective"}


def write_types(tmp_path, content, name="types.json"):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return {"types": str(path)}


class TestTypes:
    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("types.json", TYPES),
            ("types.yaml", OmegaConf.to_yaml(TYPES)),
            ("types.csv", "n,word,type\n" + "".join(f"1,{word},{kind}\n" for word, kind in TYPES.items())),
        ],
    )
    def test_a_second_file_gives_words_their_types(self, tmp_path, name, content):
        cfg = from_file(tmp_path, json.dumps(PUBLISHED), "list.json", **write_types(tmp_path, content, name))
        frame = taxonomy.load_words(cfg)
        kinds = ["noun", "adjective", "activity", "adjective", "noun"]
        assert frame["word"].tolist() == ["doctor", "Third-World", "waving a flag", "calm", "doctor"]
        assert frame["type"].tolist() == kinds
        captions = taxonomy.compose_captions(frame, cfg, "right")
        assert captions[0] == captions[4] == "a photo of a doctor"

    def test_words_without_a_type_are_named_or_typed_by_the_setting(self, tmp_path, caplog):
        types_setting = write_types(tmp_path, {"doctor": "noun", "waving a flag": "activity"})
        with pytest.raises(InputError, match=r"2 words have no type \(Third-World, calm\). Set taxonomy.ty"):
            taxonomy.load_words(from_file(tmp_path, json.dumps(PUBLISHED), "list.json", **types_setting))
        cfg = from_file(tmp_path, json.dumps(PUBLISHED), "list.json", untyped="adjective", **types_setting)
        for _ in range(2):  # the warning appears once
            kinds = [kind for _, _, kind in triples(cfg)]
            assert kinds == ["noun", "adjective", "activity", "adjective", "noun"]
        (record,) = caplog.records
        text = record.getMessage()
        assert "2 words without a type are captioned as adjective (taxonomy.untyped)" in text
        assert "'a photo of a Third-World person', 'a photo of a calm person'" in text
        assert "taxonomy.types=FILE" in text

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ({"doctor": "nuon"}, r"types.json, doctor: unknown type 'nuon'. Did you mean 'noun'\?"),
            ({"doctor": "job"}, r"'\+taxonomy.captions.job=\"a photo of \{article\} \{word\}\"'"),
            ({"dotcor": "noun"}, r"types.json: 1 words are in no category of .*list.json \(dotcor\)"),
            ({"doctor": ["noun"]}, r"doctor: expected a type, got \['noun'\]. Write lines of word: type"),
        ],
    )
    def test_mistakes(self, tmp_path, content, message):
        with pytest.raises(InputError, match=message):
            taxonomy.load_words(
                from_file(tmp_path, json.dumps(PUBLISHED), "list.json", **write_types(tmp_path, content))
            )

    def test_conflicting_types_and_missing_files(self, tmp_path):
        types_setting = write_types(tmp_path, {"thief": "adjective"})
        with pytest.raises(InputError, match=r"'thief' is noun in .*list.yaml and adjective in .*types.json"):
            taxonomy.load_words(from_file(tmp_path, "a: {noun: [thief]}", **types_setting))
        with pytest.raises(InputError, match=r"a.csv: no column word, type; found thief, noun. Name col"):
            taxonomy.load_words(
                from_file(tmp_path, "a: [thief]", **write_types(tmp_path, "thief,noun\n", "a.csv"))
            )
        for setting in ("path", "types"):
            with pytest.raises(InputError, match=rf"none.yaml: no such file. Set taxonomy.{setting}"):
                taxonomy.load_words(config({"a": {"noun": ["x"]}}, **{setting: "none.yaml"}))


class TestMistakes:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("a: {nouns: [thief]}", r"list\.yaml, a: unknown type 'nouns'. Did you mean 'noun'\? Known: adj"),
            ("a: {noun: [old, calm, Old]}", r"a: 'Old' is listed already, as 'old'\. Delete"),
            ("a: {noun: [naïve], adjective: [nai\u0308ve]}", "'naïve' is listed already"),
            ("a: {noun: , adjective: []}", "a: no words. Add some, or delete"),
            ("a: {noun: [no]}", r"a: False is not a word.*Quote no"),
            ("a: {noun: [old: bad]}", r"a: expected a word, got \{'old': 'bad'\}.*category: \["),
            ("a: {noun: [old]}\nA: {noun: [old]}", "category 'A' is listed already, as 'a'"),
            ("a: {noun: [old]}\na: {noun: [calm]}", r"list\.yaml: .*duplicate key a.*line 2"),
            ("a: {noun: &a [*a]}", "line 1: its references expand to more than"),
            ("- old", r"expected a mapping, got list\. Write category"),
            (b"a: {noun: [\xff]}", r"list\.yaml: .*Save it as text in UTF-8"),
            (
                "a: [old, calm, tall]\nb: {noun: [thief]}\nc: [kind, cruel, rude]",
                r"6 words have no type \(old, calm, tall, kind, cruel, …\). .*\(adjective, noun, activity\)",
            ),
        ],
    )
    def test_mistakes_in_a_file(self, tmp_path, content, message):
        with pytest.raises(InputError, match=f"(?s){message}"):
            taxonomy.load_words(from_file(tmp_path, content))
        with pytest.raises(InputError, match=r"list\.json: 'a' occurs twice"):
            taxonomy.load_words(
                from_file(tmp_path, '{"a": ["old"], "a": ["calm"]}', "list.json", untyped="noun")
            )

    @pytest.mark.parametrize("template", ["a photo", "{word} {x}", "{word!r}", "{word[0]}", "{word"])
    def test_mistakes_in_a_template(self, template):
        with pytest.raises(InputError, match=r"captions\.noun=.*\{word\}"):
            taxonomy.load_words(
                config({"a": {"adjective": ["old"]}}, captions={**CAPTIONS, "noun": template})
            )

    def test_repeated_captions(self):
        captions = {"adjective": "{article} {word} person", "noun": "{article} {word}"}
        both = {"adjective": ["old"], "noun": ["old person"]}
        with pytest.raises(InputError, match="a: by its caption, 'old person' .* as 'old'"):
            taxonomy.load_words(config({"a": both}, captions=captions))
        apart = {"a": {"adjective": ["old"]}, "b": {"noun": ["old person"]}}
        assert len(taxonomy.load_words(config(apart, captions=captions))) == 2


def caption(word, kind="adjective", article="right", **settings):
    frame = pd.DataFrame({"word": [word], "type": [kind]})
    return taxonomy.compose_captions(frame, config(**settings), article).item()


class TestCaptions:
    # The articles that speakers of British English choose.
    @pytest.mark.parametrize(
        ("article", "words"),
        [
            ("an", "hour, heir, honest, MP, FBI agent, X-ray, S-shaped, LGBT activist, a cappella, 'ugly'"),
            ("an", "HIV-positive, hiv, SUV driver, MI5 agent, Uber driver, über, élite, Éclair lover, ugly"),
            ("an", "8-year-old, 80-year-old, 800, 8, 11-year-old, 11, 18th-century, 1800s, 11,000, umpire"),
            ("a", "European, one-eyed, university student, unicorn, UFO, US citizen, once-rich, Ukrainian"),
            ("a", "1984, 110-year-old, 1,100, 9-year-old, NASA scientist, historic, house-proud, eulogist"),
            ("a", "third-world, mentally ill, yellow, well-read, unanimous, union leader, (useful), mit, !"),
        ],
    )
    def test_articles(self, article, words):
        for word in words.split(", "):
            assert caption(word) == f"a photo of {article} {word} person"

    def test_forms(self):
        captions = {"noun": "{article} unlikely {word}, {article} {word} and {article}"}
        assert caption("hour", "noun", captions=captions) == "an unlikely hour, an hour and a"
        assert caption("hour", "noun", "literal") == "a photo of a/an hour"
        for article in ("right", "literal"):
            assert caption("eating", "activity", article) == "a photo of a person who is eating"
        with pytest.raises(InputError, match="unknown type 'verb'"):
            caption("run", "verb")

    @settings(max_examples=50)
    @given(st.text(min_size=1), st.sampled_from(sorted(CAPTIONS)), st.sampled_from(["right", "literal"]))
    def test_the_word_is_unchanged(self, word, kind, article):
        result = caption(word, kind, article)
        before, after = CAPTIONS[kind].split("{word}")
        assert result in [before.replace("{article}", a_an) + word + after for a_an in ("a", "an", "a/an")]


class TestFrequent:
    def test_a_language(self):
        words = wordlists.list_frequent_words(config(), 10_000)
        assert words[0] == "the"
        assert {"man", "woman", "photo"} <= set(words[:2000])
        assert len(words) == len(set(words)) == 10_000
        assert all(word.isalpha() and word == word.lower() for word in words)
        assert wordlists.list_frequent_words(config(), 50) == words[:50]
        assert "में" in wordlists.list_frequent_words(config(language="hi"), 10)  # combining marks

    @pytest.mark.parametrize(
        ("settings", "content", "message"),
        [
            ({"language": "en-GB"}, b"", r"taxonomy\.language=en-GB: .*\ben, .*taxonomy\.vocabulary"),
            ({}, b"the\nof", r"protocol\.vocabulary=4: .*words\.txt has 2 words. Set protocol\.vocabulary"),
            ({}, b"the\n\nof\n the", r"words\.txt, line 4: 'the' repeats line 1"),
            ({}, b"the\nof\t99", r"words\.txt, line 2: 'of\\t99' has several words"),
        ],
    )
    def test_a_file(self, tmp_path, settings, content, message):
        (tmp_path / "words.txt").write_bytes("\ufeffthe\r\n\n Haus \ncafe\u0301\nnot\n".encode())
        cfg = config(vocabulary=str(tmp_path / "words.txt"))
        assert wordlists.list_frequent_words(cfg, 3) == ["the", "Haus", "café"]
        assert wordlists.list_frequent_words(cfg, 4)[-1] == "not"
        (tmp_path / "words.txt").write_bytes(content)
        with pytest.raises(InputError, match=message):
            wordlists.list_frequent_words(config(**settings) if settings else cfg, 4)
