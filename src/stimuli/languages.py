"""Check the language of words and labels, and cluster them by its stems and plurals."""

import unicodedata
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from src.configs import ENGLISH, RATED_LANGUAGE, LanguageConfig, NrcVadConfig, RoleConfig
from src.errors import InputError, did_you_mean
from src.stimuli.clusters import (
    CLUSTER,
    LEMMA,
    PLURALS,
    STEMMER,
    WORD,
    list_word_columns,
    map_lemmas,
    stem_words,
)
from src.stimuli.table import TEXT_ROLES, Table

DRAFT, REVIEWED = "draft", "reviewed: "


def check_language(role: str, role_config: RoleConfig, language: LanguageConfig) -> None:
    """Refuse words or labels of another language than that of the job.

    Loaders that state no language, such as those defined elsewhere, are accepted.

    Raises:
        InputError: the stimuli are in another language, or `language.review` is invalid.
    """
    stated = state_language(role_config) or language.code
    if role not in TEXT_ROLES:
        return
    check_review(language.review, f"language={language.code}: language.review")
    if stated != language.code:
        remedy = (
            f"Choose words=norms or words=nrc_vad, or language={stated}."
            if role == "words"
            else "Add labels of the same groups to the YAML of the language, choose labels=NAME, or "
            f"language={stated}."
        )
        raise InputError(f"{role}: in the language {stated}, expected {language.code}. {remedy}")


def state_language(role_config: RoleConfig) -> str:
    """Return the code of the language of words or labels; empty if they state none."""
    if isinstance(role_config, NrcVadConfig):
        # Its translation is only a name, which states no code; `word` may be a column of another language.
        word = role_config.word or RATED_LANGUAGE
        is_rated = role_config.translation == RATED_LANGUAGE and word.startswith(RATED_LANGUAGE)
        return ENGLISH if is_rated else ""
    for stated in (getattr(role_config, "translation", None), role_config):
        if code := getattr(stated, "language", ""):
            return str(code)
    return ""


def check_review(review: str, location: str) -> None:
    """Refuse a review that is neither `draft` nor `reviewed: NAME`."""
    is_reviewed = review.startswith(REVIEWED) and review.removeprefix(REVIEWED).strip()
    if review != DRAFT and not is_reviewed:
        raise InputError(f"{location}: expected draft or 'reviewed: NAME', got {review!r}. Correct it.")


def note_draft(table: Table, templates: Sequence[str], language: LanguageConfig) -> Table:
    """Add a note to a table of texts if its templates are those of a language, and are a draft."""
    is_draft = language.review == DRAFT and list(templates) == list(language.templates)
    if table.role not in TEXT_ROLES or not is_draft:
        return table
    note = f"the templates in {language.name} are a draft that no speaker has reviewed"
    return replace(table, notes=(*table.notes, note))


def add_clusters(table: Table, language: LanguageConfig) -> Table:
    """Add the clusters of words, or the lemmas of labels, of a language other than English; add notes.

    A table's own clusters and lemmas are left unchanged. With the stemmer and plurals of English, the table
    is returned unchanged.

    Raises:
        InputError: Snowball has no such stemmer.
    """
    is_english = language.stemmer == STEMMER and language.plurals == PLURALS and not language.lower_case
    if table.role not in TEXT_ROLES or is_english:
        return table
    frame, notes = table.frame, [*table.notes]
    if table.role == "words" and CLUSTER not in frame:
        words = frame["word"].astype(str)
        if language.stemmer is None:
            notes.append(f"words are their own stems: no stemmer for {language.name}")
            frame = frame.assign(**{CLUSTER: words})
        else:
            check_stemmer(language.stemmer)
            frame = frame.assign(**{CLUSTER: stem_words(words, language.stemmer, language.lower_case)})
    if table.role == "labels" and CLUSTER not in frame:
        for name in list_word_columns(frame):
            lemma, words = name.removesuffix(WORD) + LEMMA, frame[name].fillna("").astype(str)
            if lemma not in frame:
                frame = frame.assign(**{lemma: words.map(map_lemmas(words, language.plurals))})
    return replace(table, frame=frame, notes=tuple(notes))


def check_stemmer(name: str) -> None:
    """Refuse a stemmer that Snowball lacks; the message lists those it has."""
    from snowballstemmer import algorithms

    if name not in algorithms():
        hint = did_you_mean(name, algorithms())
        raise InputError(
            f"language.stemmer={name}: Snowball has no such stemmer.{hint} Known: {', '.join(algorithms())}; "
            "or null: words are their own stems."
        )


def normalise_words(words: pd.Series) -> tuple[pd.Series, list[str]]:
    """Return words in Unicode form NFC with single blanks, and a note on how many were changed."""
    normalised = words.map(lambda word: " ".join(unicodedata.normalize("NFC", word).split()))
    n_changed = int((normalised != words).sum())
    notes = [f"words brought into Unicode form NFC, with single blanks: {n_changed}"] if n_changed else []
    return normalised, notes
