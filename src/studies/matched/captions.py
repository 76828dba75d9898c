"""Compose the captions of the subjects of matched pictures."""

import string

import pandas as pd

from src import stimuli
from src.configs import RunConfig, TaxonomyConfig
from src.errors import InputError, NotApplicable, brief, did_you_mean, first_few
from src.stimuli import PROMPTS, Table, taxonomy
from src.storage.cache import fingerprint
from src.studies.matched.config import MatchedConfig
from src.studies.matched.pool import select_pool
from src.studies.shared.real_shares import read_shares

# Row of the means over captions, and of all groups together.
ALL_CAPTIONS, ALL_GROUPS = "all captions", "all groups"


def build_prompts(cfg: RunConfig) -> Table | None:
    """Build the table of the captions of the dataset's subjects; None if the experiment has no captions.

    Raises:
        InputError, NotApplicable: see `compose_prompts` and `select_pool`.
    """
    assert isinstance(cfg.exp, MatchedConfig)
    return compose_prompts(cfg, stimuli.load(cfg, "faces")) if cfg.exp.measure == "retrieval" else None


def compose_prompts(cfg: RunConfig, faces: Table) -> Table:
    """Compose the table of captions of faces.

    Columns `id` (the caption), `sentence`, `word` (the subject), and `group`: the real shares of the subject,
    and a hash of the subjects of pictures if these are no attribute of the faces. Both become part of the
    job's key, which has no other entry of them.

    Raises:
        InputError: a template or caption is invalid or repeated, a subject is unknown, or see `read_shares`.
    """
    assert isinstance(cfg.exp, MatchedConfig)
    pool = select_pool(faces, cfg.exp)
    rows = compose_captions(cfg.exp, pool.subjects, cfg.protocol.article)
    frame = pd.DataFrame(
        {"id": rows["caption"], "sentence": rows["caption"], "word": rows["subject"], "group": ""}
    )
    if cfg.exp.shares is not None:
        shares = read_shares(cfg.exp.shares, cfg.exp.subject, pool.subjects, pool.groups)
        texts = shares.apply(
            lambda row: ", ".join(f"{name} {value!r}" for name, value in row.items()), axis=1
        )
        frame["group"] = frame["word"].map(texts).fillna("")
    if cfg.exp.subject not in faces.attributes:
        subjects = [pool.subjects[number] for number in pool.subject_of]
        frame["group"] += f"; subjects {fingerprint([pool.ids.tolist(), subjects])}"
    return Table(PROMPTS, frame.sort_values("id", ignore_index=True), len(frame))


def compose_captions(exp: MatchedConfig, subjects: list[str], article: str) -> pd.DataFrame:
    """Compose the captions of subjects, columns `subject` and `caption`; errors: see `compose_prompts`."""
    for name in exp.captions:
        if name not in subjects:
            raise InputError(
                f"exp.captions: no picture of a set has {exp.subject} {brief(name)!r}."
                f"{did_you_mean(name, subjects)} There are: {first_few(subjects, 20)}."
            )
    _check_templates(exp.templates)
    templates = {str(number): template for number, template in enumerate(exp.templates)}
    words = pd.DataFrame({"word": [name for name in subjects if name not in exp.captions]})
    words = words.merge(pd.DataFrame({"type": [*templates]}, dtype=str), how="cross")
    config = TaxonomyConfig(captions=templates)
    composed = words.assign(caption=taxonomy.compose_captions(words, config, article))
    captions = {name: composed["caption"][composed["word"] == name].tolist() for name in subjects}
    captions |= {name: [*texts] for name, texts in exp.captions.items()}
    rows = [(name, caption) for name in subjects for caption in captions[name]]
    frame = pd.DataFrame(rows, columns=["subject", "caption"])
    for name in subjects:
        if not captions[name] or not all(text.strip() for text in captions[name]):
            raise InputError(f"exp.captions: {brief(name)!r} has no caption, or an empty one. Write one.")
    repeats = frame["caption"][frame["caption"].duplicated()]
    if len(repeats):
        owners = frame["subject"][frame["caption"] == repeats.iloc[0]]
        raise InputError(
            f"exp.captions: {brief(repeats.iloc[0])!r} occurs {len(owners)} times, of {first_few(owners)}. "
            "Each caption is right for the pictures of one subject: delete it, or change it."
        )
    return frame


def list_captions(prompts: Table) -> pd.DataFrame:
    """Return `subject`, `caption` and the caption's `row` among the prompts, by subject and caption.

    Raises:
        NotApplicable: a projection removed all captions.
    """
    frame = prompts.frame
    rows = pd.DataFrame({"subject": frame["word"], "caption": frame["sentence"], "row": range(len(frame))})
    if rows.empty:
        raise NotApplicable("captions: a projection removed them all. Use another debias method.")
    return rows.sort_values(["subject", "caption"], ignore_index=True)


def _check_templates(templates: list[str]) -> None:
    if not templates or len({*templates}) < len(templates):
        raise InputError(f"exp.templates={list(templates)}: expected different captions, at least one.")
    for template in templates:
        try:
            parsed = list(string.Formatter().parse(template))
        except ValueError as error:
            raise InputError(f"exp.templates: {template!r}: {error}. Write {{word}}.") from None
        fields = [field for _, field, _, _ in parsed if field is not None]
        is_plain = not any(spec or conversion for _, _, spec, conversion in parsed)
        if fields.count("word") != 1 or not {"word", "article"} >= {*fields} or not is_plain:
            raise InputError(
                f"exp.templates: {template!r}: expected {{word}} once, optionally {{article}}, and no other "
                "field."
            )
