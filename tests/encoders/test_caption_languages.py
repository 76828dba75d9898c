"""Check captions in two languages: the same meanings, bias by language, and which languages toys claim."""

from dataclasses import replace

import numpy as np
import pytest

from src import configs, stimuli
from src.demo import captions
from src.demo.vocabulary import split
from src.encoders import caption_languages, open_encoder
from src.errors import InputError, NotApplicable
from src.jobs.identity import without_unhashed_fields
from src.jobs.language_check import check_language, describe_claim
from src.stimuli import lexicons
from tests.commands import TINY
from tests.conftest import store_overrides

LANGUAGES = ["dataset=demo_languages", "exp=faces_to_words"]


@pytest.fixture
def world(job, tmp_path):
    """Compose jobs on tiny worlds of a store."""

    def compose(*overrides):
        small = [setting for setting in TINY if not setting.startswith("model.name")]
        return job(*small, *store_overrides(tmp_path), *overrides)

    return compose


def draw(cfg, count=3000):
    tables = {role: stimuli.load(cfg, role) for role in stimuli.ROLES}
    tables = caption_languages.select_tables(cfg, tables)
    translations = caption_languages.build_translations(cfg)
    return tables, translations, caption_languages.draw_captions(cfg, tables, translations, count, seed=3)


def draw_english(tables, recipe, count=3000):
    return captions.draw(
        **{role: table.frame for role, table in tables.items()}, count=count, recipe=recipe, seed=3
    )


def test_captions_are_in_both_languages_in_turns_and_mean_the_same(world):
    cfg = world(*LANGUAGES, "demo.translated_bias=1").cfg
    tables, translations, (pictures, sentences) = draw(cfg)
    assert [*translations] == ["en", "qaa"]
    original_pictures, originals = draw_english(tables, cfg.demo)
    assert np.array_equal(pictures, original_pictures)
    assert sentences[0::2] == originals[0::2]
    meanings = {translation: original for original, translation in translations["qaa"].items()}
    assert len(meanings) == len(translations["en"])
    assert [meanings[sentence] for sentence in sentences[1::2]] == originals[1::2]
    # "good" in a template, and a label of Laapian women; the order of its words differs.
    assert translations["qaa"]["That is the word laapish queen"] == "Djöd äz djü ŵëlt ẅïüüm rööbäzj"


def test_languages_differ_by_the_planted_bias_alone(world):
    cfg = world(*LANGUAGES, "demo.bias=0.8", "demo.translated_bias=0.25").cfg
    tables, translations, (pictures, sentences) = draw(cfg)
    meanings = {translation: original for original, translation in translations["qaa"].items()}
    for bias, turns, meaning in ((0.8, slice(0, None, 2), {}), (0.2, slice(1, None, 2), meanings)):
        expected_pictures, expected = draw_english(tables, replace(cfg.demo, bias=bias))
        assert np.array_equal(pictures, expected_pictures)
        assert [meaning.get(sentence, sentence) for sentence in sentences[turns]] == expected[turns]
    drawn = [draw_english(tables, replace(cfg.demo, bias=bias))[1] for bias in (0.2, 0.8)]
    assert drawn[0] != drawn[1]


def test_no_word_is_of_both_languages():
    qaa = configs.compose(["dataset=demo_languages"])[0].demo.languages.qaa
    letters = {str(letter): str(other) for letter, other in qaa.words.letters.items()}
    assert len({*letters.values()}) == len(letters) == 26
    invented = configs.InventedWordsConfig("qaa", letters)
    english, translated = (
        lexicons.load_vader(configs.VaderConfig(None, 0, written))[0] for written in (None, invented)
    )
    assert english["valence"].tolist() == translated["valence"].tolist()
    assert len(english) == translated["word"].nunique()
    assert not {*english["word"]} & {*translated["word"]}


def test_texts_of_both_languages_are_at_the_same_positions(world):
    """Check the lists of labels and templates against the letters."""
    cfg = world("dataset=demo_languages", "language=qaa", "exp=labels_to_scenes").cfg
    letters = str.maketrans(cfg.words.translation.letters)
    for lists, translated in (
        (cfg.labels.race_words, cfg.labels.translation.race_words),
        (cfg.labels.gender_words, cfg.labels.translation.gender_words),
    ):
        spelled = {name: [word.translate(letters) for word in words] for name, words in lists.items()}
        assert translated == spelled
    english = cfg.demo.languages["en"].templates
    assert [text.lower() for text in cfg.templates] == [text.lower().translate(letters) for text in english]


def test_a_world_without_languages_trains_the_toys_it_trained_before(world):
    plain = world("dataset=demo", "exp=faces_to_words")
    assert not {"languages", "translated_bias"} & {*without_unhashed_fields("demo", plain.resolved["demo"])}
    assert not {"translation"} & {*plain.resolved["words"], *plain.resolved["labels"]}
    tables, translations, (pictures, sentences) = draw(plain.cfg)
    assert translations == {}
    assert all(tables[role] is stimuli.load(plain.cfg, role) for role in stimuli.ROLES)
    expected_pictures, expected = draw_english(tables, plain.cfg.demo)
    assert (pictures.tolist(), sentences) == (expected_pictures.tolist(), expected)
    assert caption_languages.list_words(plain.cfg, tables, {}) == captions.list_words(
        tables["words"].frame, tables["labels"].frame, plain.cfg.demo
    )
    identity = open_encoder(plain.cfg, tables.__getitem__).identity
    assert {*identity["captions"]} == {"bias", "noise", "planted", "traits", "looks", "probes"}
    assert not {"languages", "translated_bias"} & {*identity}
    languages = world(*LANGUAGES).resolved["demo"]
    assert without_unhashed_fields("demo", languages)["languages"] == ["en", "qaa"]


@pytest.mark.parametrize("dataset", ["demo", "demo_languages"])
def test_a_toy_is_the_same_in_front_of_texts_of_every_language(world, dataset):
    identities = []
    for code in ("en", "qaa"):
        cfg = world(f"dataset={dataset}", "exp=faces_to_words", f"language={code}").cfg
        identities.append(open_encoder(cfg, lambda role, cfg=cfg: stimuli.load(cfg, role)).identity)
        words = stimuli.load(cfg, "words").frame["word"]
        assert words.str.isascii().all() == (code == "en")
    assert identities[0] == identities[1]


def test_a_toy_reads_the_words_of_all_captions(world):
    cfg = world(*LANGUAGES).cfg
    tables, translations, (_, sentences) = draw(cfg, count=200)
    words = caption_languages.list_words(cfg, tables, translations)
    assert {word for sentence in sentences for word in split(sentence)} <= {*words}
    assert {"woman", "ŵënöm", "is", "äz"} <= {*words}


def test_toys_claim_the_languages_of_their_captions(world):
    of_both = world(*LANGUAGES, "language=qaa")
    check_language(of_both)
    assert describe_claim(of_both) == []
    of_english = world("dataset=demo", "exp=faces_to_words", "language=qaa", "language.unclaimed=true")
    check_language(of_english)
    assert describe_claim(of_english) == ["the model does not claim Umkrish (declared: en)"]
    with pytest.raises(NotApplicable, match=r"does not claim Umkrish \(declared: en\)"):
        check_language(world("dataset=demo", "exp=faces_to_words", "language=qaa"))
    with pytest.raises(NotApplicable, match=r"does not claim Spanish \(declared: en, qaa\)"):
        check_language(world(*LANGUAGES, "language=es"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "+demo.traits={warmth: [warm], competence: [skilled]}",
            ": the captions of demo.traits and",
        ),
        (
            "demo.languages.qaa.templates=['Djäz {}']",
            ".qaa: 1 templates, expected 6, one for",
        ),
        ("language@demo.languages.qaa=es", ".qaa: expected words that translate those in English one by one"),
        (
            "demo.languages.qaa.labels.race_words.Niffite=['mävvädü']",
            ".qaa: expected labels that translate those in English one by one",
        ),
    ],
)
def test_captions_without_a_translation_are_refused(world, override, message):
    with pytest.raises(InputError, match=f"^demo.languages{message}"):
        caption_languages.build_translations(world(*LANGUAGES, override).cfg)
