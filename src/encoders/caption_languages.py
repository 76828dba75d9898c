"""Draw the training captions of toys, in each language of the dataset.

Captions are drawn in English and translated: a caption is a word or a label in a template, each of which is
replaced by the one at the same position in the other language. Where words or labels exist in the language of
the job alone, captions are drawn in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from src import configs, stimuli
from src.errors import InputError
from src.stimuli import CARRIES, TEXT_ROLES, Table
from src.stimuli.languages import state_language
from src.stimuli.loaders import fill_templates, load_items

# Language -> caption as it is drawn -> caption in that language.
Translations = Mapping[str, Mapping[str, str]]


def select_tables(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> Mapping[str, Table]:
    """Return the tables of all roles, with words and labels in the language in which captions are drawn."""
    written = _write_in_english(cfg)
    if written is cfg:
        return tables
    return {**tables, **{role: stimuli.load(written, role) for role in TEXT_ROLES}}


def build_translations(cfg: configs.RunConfig) -> Translations:
    """Pair all possible captions with their translations to each of `demo.languages`.

    Raises:
        InputError: a language lacks texts at the positions of the English ones, or the captions of traits and
            probes, which are in English, would be translated.
    """
    if cfg.demo.languages and (cfg.demo.traits or cfg.demo.probes):
        raise InputError(
            "demo.languages: the captions of demo.traits and demo.probes exist in English alone. Leave out "
            "either the languages or these."
        )
    original = _write_in_english(cfg)
    translations: dict[str, dict[str, str]] = {}
    for code, language in cfg.demo.languages.items():
        written = original if code == original.language.code else configs.write_in(original, language)
        translations[code] = {
            caption: translation
            for role in TEXT_ROLES
            for caption, translation in _pair_captions(original, written, role, code)
        }
    return translations


def list_words(cfg: configs.RunConfig, tables: Mapping[str, Table], translations: Translations) -> list[str]:
    """Return the distinct words of all possible captions, in lower case, sorted."""
    from src.demo import captions, vocabulary

    if not translations:
        return captions.list_words(tables["words"].frame, tables["labels"].frame, cfg.demo)
    sentences = {sentence for of_language in translations.values() for sentence in of_language.values()}
    return sorted({word for sentence in sentences for word in vocabulary.split(sentence)})


def draw_captions(
    cfg: configs.RunConfig, tables: Mapping[str, Table], translations: Translations, count: int, seed: int
) -> tuple[np.ndarray, list[str]]:
    """Draw `count` pairs of a picture and a caption, whose languages take turns.

    Returns the index of each pair's picture, [count] (faces come before scenes), and each pair's sentence.
    Languages differ by the bias alone: captions that are not in English have `demo.translated_bias` times it.
    """
    from src.demo import captions

    frames = {role: table.frame for role, table in tables.items()}
    pictures, sentences = captions.draw(**frames, count=count, recipe=cfg.demo, seed=seed)
    translated = replace(cfg.demo, bias=cfg.demo.bias * cfg.demo.translated_bias)
    for number, (code, translation) in enumerate(translations.items()):
        recipe = cfg.demo if code == configs.ENGLISH else translated
        _, drawn = captions.draw(**frames, count=count, recipe=recipe, seed=seed)
        turns = slice(number, None, len(translations))
        sentences[turns] = [translation[sentence] for sentence in drawn[turns]]
    return pictures, sentences


def _write_in_english(cfg: configs.RunConfig) -> configs.RunConfig:
    """Return a job with its texts in English; the job itself if it is in English, or has no such texts."""
    if cfg.language.code == configs.ENGLISH:
        return cfg
    written = configs.write_in(cfg, cfg.demo.languages.get(configs.ENGLISH) or configs.load_english())
    stated = {state_language(getattr(written, role)) for role in TEXT_ROLES}
    return written if stated <= {"", configs.ENGLISH} else cfg


def _pair_captions(
    original: configs.RunConfig, written: configs.RunConfig, role: str, code: str
) -> Iterator[tuple[str, str]]:
    """Pair the possible captions of a role with those at the same positions of another language."""
    items, translated = (load_items(getattr(cfg, role), cfg.store)[0][0] for cfg in (original, written))
    stated, carried = state_language(getattr(written, role)) or code, CARRIES[role]
    if stated != code or items[carried].tolist() != translated[carried].tolist():
        raise InputError(
            f"demo.languages.{code}: expected {role} that translate those in English one by one, in their "
            f"order. Add them to the YAML of the language, or choose other {role}."
        )
    if len(original.templates) != len(written.templates):
        raise InputError(
            f"demo.languages.{code}: {len(written.templates)} templates, expected {len(original.templates)}, "
            "one for each in English. Add or delete templates."
        )
    sentences, translations = (
        fill_templates(frame, cfg.templates)["sentence"]
        for frame, cfg in ((items, original), (translated, written))
    )
    return zip(sentences, translations, strict=True)
