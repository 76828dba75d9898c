"""Leave out words and labels that the tokenizer of a job's model does not read whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from src import configs, encoders, stimuli
from src.encoders.unread import TOO_LONG, UNKNOWN
from src.errors import NotApplicable, brief
from src.stimuli import CARRIES, PROMPTS, TEXT_ROLES, Table

# Why a text is not read whole -> its part of a note.
REASONS = {UNKNOWN: "with a token unknown to the model", TOO_LONG: "longer than the model's context"}
UNCHECKED = "it cannot be found out which of them the model's tokenizer does not know"
# Model, language and hash of the table -> why each word is not read whole; of this process.
_unread_words: dict[str, dict[str, str]] = {}


def leave_out_unread(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Leave out words and labels with a sentence that is not read whole; count them in `n_unread` and notes.

    English tables are returned as they are: their words do not depend on the model, and a sentence that
    exceeds the context stops the job. So are the tables of models that are trained on them.

    Raises:
        NotApplicable: no word, or no label of a group, is left.
        NotStored: within `forbid_building`, a file of the tokenizer would have to be fetched.
    """
    if cfg.language.code == configs.ENGLISH or encoders.family_of(cfg.model).training:
        return dict(tables)
    return {role: _leave_out(cfg, table) if role in TEXT_ROLES else table for role, table in tables.items()}


def describe_unread_prompts(cfg: configs.RunConfig, tables: Mapping[str, Table]) -> list[str]:
    """Return a note on prompts with unknown tokens; none is left out, as their lists are given."""
    find_unread = _get_finder(cfg) if PROMPTS in tables else None
    if find_unread is None:
        return []
    sentences = tables[PROMPTS].frame["sentence"].tolist()
    rows = [row for row, reason in sorted(find_unread(sentences).items()) if reason == UNKNOWN]
    if not rows:
        return []
    counts = f"{len(rows)} of {len(sentences)}, first {brief(sentences[rows[0]])}"
    return [f"prompts {REASONS[UNKNOWN]}, used all the same: {counts}"]


def _get_finder(cfg: configs.RunConfig) -> Callable[[Sequence[str]], Mapping[int, str]] | None:
    """Return the function that finds texts not read whole; None in English, or if the model has none."""
    if cfg.language.code == configs.ENGLISH or cfg.model.precomputed:
        return None
    return encoders.open_encoder(cfg, partial(stimuli.load, cfg)).find_unread


def _leave_out(cfg: configs.RunConfig, table: Table) -> Table:
    find_unread = _get_finder(cfg)
    if find_unread is None:
        return replace(table, notes=(*table.notes, UNCHECKED))
    key = repr((cfg.model, cfg.language.code, cfg.language.flores, table.hash))
    if key not in _unread_words:
        sentences = table.frame["sentence"].tolist()
        reasons = find_unread(sentences)
        _unread_words[key] = {str(table.frame["word"].iloc[row]): reasons[row] for row in sorted(reasons)}
    return _drop_words(cfg, table, _unread_words[key])


def _drop_words(cfg: configs.RunConfig, table: Table, reasons: Mapping[str, str]) -> Table:
    """Drop words or labels from a table, and add notes; `reasons`: word -> why it is not read whole."""
    frame = table.frame[~table.frame["word"].isin(reasons)].reset_index(drop=True)
    notes = []
    for reason, text in REASONS.items():
        words = sorted(word for word in reasons if reasons[word] == reason)
        if words:
            notes.append(f"left out, as {text}: {len(words)} of {table.n_items}, first {brief(words[0])}")
    if frame.empty or (CARRIES[table.role] == "group" and {*frame["group"]} != {*table.groups}):
        lost = "" if frame.empty else f" of {', '.join(sorted({*table.groups} - {*frame['group']}))}"
        raise NotApplicable(
            f"language={cfg.language.code}: model={cfg.model.name} reads none of the {table.role}{lost} "
            f"whole ({'; '.join(notes)}). Choose another model, or other {table.role}."
        )
    return replace(table, frame=frame, n_unread=len(reasons), notes=(*table.notes, *notes))


def count_unread(tables: Mapping[str, Table]) -> dict[str, int]:
    """Count a job's words and labels, `n_texts`, and those not read whole, `n_unread`; empty if unknown."""
    checked = [table for table in tables.values() if table.n_unread is not None]
    if not checked:
        return {}
    n_unread = sum(table.n_unread or 0 for table in checked)
    return {"n_texts": sum(table.n_items for table in checked) + n_unread, "n_unread": n_unread}
