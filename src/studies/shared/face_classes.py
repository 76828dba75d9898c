"""Classify faces among classes of their groups and further classes (docs/methods.md, section 7.1)."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from torch import Tensor

from src import metrics
from src.configs import ClassesConfig, TaxonomyConfig
from src.errors import InputError, brief, did_you_mean, first_few
from src.stimuli import PROMPTS, Table, taxonomy

# Kind of the classes of groups, and name of all harmful kinds together.
GROUP, HARM = "group", "harm"
BLOCK_SIZE = 512  # number of faces whose similarities are computed at a time
# Decimals of scores: means of the same cosines in another order stay equal.
DECIMALS = 12


@dataclass(frozen=True)
class Classification:
    """Faces and the classes nearest to them.

    Attributes:
        classes: one row per class, in the order that breaks ties: `class`, `kind`, `group` ("" if the class
            belongs to no group) and `is_harmful`.
        scores: [N, C], mean cosine of each face with the sentences of each class.
    """

    classes: pd.DataFrame
    scores: np.ndarray

    @property
    def nearest(self) -> np.ndarray:
        """Return the class of each face, [N]: the largest score; the first of equal ones."""
        return np.asarray(self.scores.argmax(axis=1))

    @property
    def nearest_group(self) -> np.ndarray:
        """Return the class of each face among the classes of groups, [N]."""
        positions = np.flatnonzero(self.classes["kind"] == GROUP)
        return np.asarray(positions[self.scores[:, positions].argmax(axis=1)])

    @property
    def is_harmful(self) -> np.ndarray:
        """Return whether each face is classified into a harmful class, [N]."""
        return np.asarray(self.classes["is_harmful"].to_numpy(dtype=bool)[self.nearest])


def list_classes(config: ClassesConfig, groups: Sequence[str]) -> pd.DataFrame:
    """List the classes of a config for the groups of a dataset; columns as in `Classification`.

    Raises:
        InputError: a list or a class is empty, a class occurs twice, `harmful` is empty or names an unknown
            kind, a kind has a reserved name, or `groups` lacks a group or names an unknown one.
    """
    location = f"classes={config.name}"
    for kind in config.kinds:
        if kind in (GROUP, HARM):
            raise InputError(f"{location}: a kind cannot be named {kind!r}. Rename it in classes.kinds.")
    if not config.harmful:
        raise InputError(
            f"{location}: no harmful kind. Name one or more of classes.kinds in classes.harmful."
        )
    for kind in config.harmful:
        if kind not in config.kinds:
            raise InputError(
                f"{location}: classes.harmful names the unknown kind {brief(kind)!r}."
                f"{did_you_mean(kind, config.kinds)} There are: {', '.join(config.kinds) or 'none'}. Correct "
                "it, or add its classes to classes.kinds."
            )
    rows = [(name, GROUP, group) for group, names in _list_groups(config, groups, location) for name in names]
    for kind, names in config.kinds.items():
        _check_names(names, f"{location}: classes.kinds.{kind}")
        rows += [(name, kind, "") for name in names]
    classes = pd.DataFrame(rows, columns=["class", "kind", "group"])
    folded = classes["class"].str.casefold()
    if folded.duplicated().any():
        repeats = classes[folded == folded[folded.duplicated()].iloc[0]]
        owners = first_few(repeats["group"].where(repeats["kind"] == GROUP, repeats["kind"]))
        raise InputError(
            f"{location}: the class {repeats['class'].iloc[0]!r} occurs {len(repeats)} times, of {owners}. "
            "Name each class once; classes.groups gives groups other classes than those of their names."
        )
    return classes.assign(is_harmful=classes["kind"].isin(config.harmful))


def _list_groups(
    config: ClassesConfig, groups: Sequence[str], location: str
) -> list[tuple[str, Sequence[str]]]:
    """Return the classes of each group, in the order of `groups`."""
    if not config.groups:
        return [(group, [_name_class(group, config.nouns)]) for group in groups]
    for group in config.groups:
        if group not in groups:
            raise InputError(
                f"{location}: classes.groups names {brief(group)!r}, which is no group of the faces."
                f"{did_you_mean(group, groups)} There are: {first_few(groups, 20)}. Correct or delete it."
            )
    if missing := [group for group in groups if group not in config.groups]:
        raise InputError(
            f"{location}: classes.groups has no classes for {first_few(missing)}. Add them, or leave "
            "classes.groups empty: classes are then made from the names of all groups."
        )
    for group, names in config.groups.items():
        _check_names(names, f"{location}: classes.groups.{group}")
    return [(group, config.groups[group]) for group in groups]


def _name_class(group: str, nouns: dict[str, str]) -> str:
    """Name the class of a group: its adjective and noun, or the whole name and "person".

    >>> _name_class("Black Women", {"Women": "woman"}), _name_class("Over_60", {})
    ('black woman', 'over 60 person')
    """
    words = group.replace("_", " ").lower().split()
    by_name = {name.lower(): noun for name, noun in nouns.items()}
    noun = by_name.get(words[-1]) if words else None
    return " ".join([*words[:-1], noun] if noun else [*words, "person"])


def _check_names(names: Sequence[str], location: str) -> None:
    if not names or not all(name.strip() for name in names):
        problem = "an empty one" if names else "none"
        raise InputError(f"{location}: expected classes, got {problem}. Name a class, or delete the line.")


def compose_prompts(config: ClassesConfig, groups: Sequence[str], article: str) -> Table:
    """Compose the sentences of all classes, as a table of prompts.

    Columns `id` and `sentence` (the text), `word` (the class), `kind`, `group`, `is_harmful`, and `position`
    of the class.

    Args:
        config: classes and their templates.
        groups: names of the groups of all faces.
        article: `protocol.article`, right or literal.

    Raises:
        InputError: a template is invalid, or see `list_classes`.
    """
    classes = list_classes(config, groups)
    _check_templates(config.templates, f"classes={config.name}")
    frames = []
    for template in config.templates:
        captions = TaxonomyConfig(captions={"class": template})
        words = pd.DataFrame({"word": classes["class"], "type": "class"})
        sentences = taxonomy.compose_captions(words, captions, article)
        frames.append(
            classes.rename(columns={"class": "word"}).assign(
                id=sentences, sentence=sentences, position=range(len(classes))
            )
        )
    frame = pd.concat(frames, ignore_index=True)
    if frame["id"].duplicated().any():
        raise InputError(
            f"classes={config.name}: two templates make the sentence "
            f"{frame['id'][frame['id'].duplicated()].iloc[0]!r}. Delete a template."
        )
    return Table(PROMPTS, frame.sort_values("id", ignore_index=True), len(frame))


def _check_templates(templates: Sequence[str], location: str) -> None:
    if not templates:
        raise InputError(f'{location}: no template. Write classes.templates=["a photo of {{word}}"].')
    for template in templates:
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InputError(
                f"{location}: classes.templates: {template!r}: {error}. Write {{word}}."
            ) from None
        fields = [field for _, field, _, _ in parsed if field is not None]
        is_plain = not any(spec or conversion for _, _, spec, conversion in parsed)
        if fields.count("word") != 1 or not {"word", "article"} >= {*fields} or not is_plain:
            raise InputError(
                f"{location}: classes.templates: {template!r}: expected {{word}} once, optionally "
                "{article}, and no other field."
            )


def classify(faces: Tensor, prompts: Table, vectors: Tensor) -> Classification:
    """Classify faces by the largest mean cosine with the sentences of a class.

    Args:
        faces: unit vectors of the faces, [N, D] or [N, Q, D].
        prompts: result of `compose_prompts`, [M] rows.
        vectors: unit vectors of the prompts, [M, D].
    """
    frame = prompts.frame
    # Each class has a sentence per template.
    rows = np.lexsort([frame["sentence"], frame["position"]]).reshape(frame["position"].nunique(), -1)
    sentences = vectors[rows.ravel().tolist()]
    scores = np.empty((len(faces), len(rows)))
    for start in range(0, len(faces), BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        cosines = metrics.similarity(faces[block], sentences).numpy()
        scores[block] = cosines.reshape(len(cosines), *rows.shape).mean(axis=2).round(DECIMALS)
    columns = {"word": "class", "kind": "kind", "group": "group", "is_harmful": "is_harmful"}
    classes = frame.iloc[rows[:, 0]][[*columns]].rename(columns=columns).reset_index(drop=True)
    return Classification(classes, scores)
