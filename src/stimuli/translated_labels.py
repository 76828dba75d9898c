"""Compose label phrases of languages in which race words agree with gender words (docs/languages.md)."""

from collections.abc import Collection, Iterator
from string import Formatter

import pandas as pd

from src.configs import TranslatedLabelsConfig
from src.errors import InputError, brief, first_few
from src.stimuli.languages import DRAFT, check_review
from src.stimuli.table import LoadedStimuli

FIELDS = ("gender", "race")


def compose_phrases(cfg: TranslatedLabelsConfig) -> LoadedStimuli:
    """Compose the phrases of all race words and gender words, with the order and the forms of a language.

    The columns `race_word` and `gender_word` have the base forms, by which phrases share a word.

    Raises:
        InputError: `phrase` lacks a word, a form is missing, or a class or a word is unknown.
    """
    check_review(cfg.review, f"labels.review, language {cfg.language}")
    _check_phrase(cfg.phrase)
    _check_forms(cfg)
    draft = f"phrases are a draft that no speaker has reviewed ({cfg.source})"
    columns = ["word", "group", "race", "gender", "race_word", "gender_word"]
    frame = pd.DataFrame(_compose(cfg), columns=columns)
    repeats = frame["word"][frame["word"].duplicated()]
    if len(repeats):
        raise InputError(
            f"labels: the phrase {brief(repeats.iloc[0])!r} occurs twice. Delete one of its words."
        )
    return frame, len(frame), [draft] if cfg.review == DRAFT else []


def _compose(cfg: TranslatedLabelsConfig) -> Iterator[tuple[str, ...]]:
    for race, race_words in cfg.race_words.items():
        for race_word in race_words:
            for gender, gender_words in cfg.gender_words.items():
                for gender_word in gender_words:
                    forms = cfg.forms.get(cfg.classes.get(gender_word, gender), {})
                    phrase = cfg.phrase.format(race=forms.get(race_word, race_word), gender=gender_word)
                    yield phrase, f"{race} {gender}", race, gender, race_word, gender_word


def _check_phrase(phrase: str) -> None:
    try:
        fields = sorted(name for _, name, _, _ in Formatter().parse(phrase) if name is not None)
    except ValueError:
        fields = []
    if tuple(fields) != FIELDS:
        raise InputError(
            f"labels.phrase={phrase!r}: expected {{race}} and {{gender}}, each once. Correct it."
        )


def _check_forms(cfg: TranslatedLabelsConfig) -> None:
    race_words = [word for words in cfg.race_words.values() for word in words]
    gender_words = [word for words in cfg.gender_words.values() for word in words]
    classes = {*cfg.gender_words, *cfg.classes.values()}
    checks: list[tuple[str, Collection[str], Collection[str]]] = [
        ("labels.classes", cfg.classes, gender_words),
        ("labels.forms", cfg.forms, classes),
    ]
    checks += [(f"labels.forms.{name}", forms, race_words) for name, forms in cfg.forms.items()]
    for location, names, known in checks:
        if unknown := [name for name in names if name not in known]:
            raise InputError(
                f"{location}: {first_few(unknown)}: not in the lists. "
                f"Known: {first_few(sorted(known), 20)}. Correct the spelling, or add it."
            )
    for name, forms in cfg.forms.items():
        if missing := [word for word in race_words if word not in forms]:
            raise InputError(
                f"labels.forms.{name}: no form of {first_few(missing)}. Add it, even if it is the base form."
            )
