"""Text stimuli: every word or phrase in every template."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from src.configs import LabelsConfig
from src.errors import InputError


def in_templates(items: pd.DataFrame, templates: Sequence[str]) -> pd.DataFrame:
    """Put each word into each template.

    Args:
        items: column `word`, and whatever else belongs to a word (valence, group).
        templates: strings with one `{}` each.

    Returns:
        One row per word and template, with `id`, `word`, `template` and `sentence` besides.

    Raises:
        InputError: there is no template, one lacks `{}`, or one occurs twice.
    """
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(f"templates: {template!r} must hold {{}} once, where the word goes.")
    if not templates or len(set(templates)) < len(templates):
        raise InputError(f"templates: {list(templates)} must be different, and at least one.")
    parts = [
        items.assign(
            id=items["word"] + f" | {number}",
            template=template,
            sentence=[template.replace("{}", word) for word in items["word"]],
        )
        for number, template in enumerate(templates)
    ]
    return pd.concat(parts, ignore_index=True)


def phrases(cfg: LabelsConfig) -> pd.DataFrame:
    """Label phrases: race word, blank, gender word (docs/methods.md, section 2, "Stimuli").

    Returns:
        One row per phrase: `word` (the phrase), `group` ("Black Women"), `race`, `gender`,
        `race_word`, `gender_word`.
    """
    rows = [
        (f"{race_word} {gender_word}", f"{race} {gender}", race, gender, race_word, gender_word)
        for race, race_words in cfg.race_words.items()
        for race_word in race_words
        for gender, gender_words in cfg.gender_words.items()
        for gender_word in gender_words
    ]
    return pd.DataFrame(rows, columns=["word", "group", "race", "gender", "race_word", "gender_word"])
