"""Pin chat templates to a stated day: what a model is asked depends on no clock and no lot."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from src.errors import InputError, brief

CLOCK = "strftime_now"
RANDOM = ("random", "lipsum")
# Within a template its own macro comes before the function of transformers. The line break after a block is
# dropped by transformers' environment: the template begins as it did.
MACRO = (
    "{{% macro strftime_now(format) %}}{{{{ {dates!r}.get(format) or raise_exception("
    "'a format of the date that is built while it renders') }}}}{{% endmacro %}}\n"
)

Template = TypeVar("Template", str, dict[str, str], None)


def day(date: str) -> datetime.date:
    """Parse the day of `llm.date`.

    Raises:
        InputError: it is no day.
    """
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        raise InputError(f"llm.date={brief(date)}: no day. Write it as YYYY-MM-DD.") from None


def stored(files: Iterable[Path]) -> list[str]:
    """Return the chat templates that files of a repository hold, whatever their age."""
    texts: list[str] = []
    for path in files:
        if path.suffix == ".jinja":
            texts.append(path.read_text("utf-8", errors="replace"))
        elif path.suffix == ".json":
            texts += _texts(_json(path).get("chat_template"))
    return texts


def _json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # whoever reads the model says so
        return {}
    return content if isinstance(content, dict) else {}


def _texts(template: Any) -> list[str]:
    if isinstance(template, list):
        template = {number: entry.get("template") for number, entry in enumerate(template)}
    templates = template.values() if isinstance(template, dict) else [template]
    return [text for text in templates if isinstance(text, str)]


def reads_clock(template: str) -> bool:
    """Return whether a template asks for the current date.

    >>> reads_clock("{{ strftime_now('%Y') }}"), reads_clock("{# strftime_now #}")
    (True, False)
    """
    return any(kind == "name" and text == CLOCK for kind, text in _tokens(template))


def refuse_random(template: str, model: str) -> None:
    """Refuse a template that renders differently each time.

    Raises:
        InputError: it draws by lot.
    """
    drawn = [text for kind, text in _tokens(template) if kind == "name" and text in RANDOM]
    if drawn:
        raise InputError(
            f"{model}: its chat template draws by lot ({drawn[0]}), so that no two runs ask the same. Name a "
            "revision without it (llm.revision), or a folder with a template of its own."
        )


def pinned(template: Template, date: datetime.date) -> Template:
    """Return a template, or several by name, that takes a day for the current one.

    Args:
        template: in Jinja; None where a model has none.
        date: at whose midnight the clock stands.
    """
    if template is None:
        return None
    if isinstance(template, dict):
        return {name: pinned(text, date) for name, text in template.items()}
    if not reads_clock(template):
        return template
    midnight = datetime.datetime.combine(date, datetime.time())
    literals = [_unquoted(text) for kind, text in _tokens(template) if kind == "string" and "%" in text]
    return MACRO.format(dates={text: midnight.strftime(text) for text in literals}) + template


@contextmanager
def rendering() -> Iterator[None]:
    """Turn errors of a chat template into those of the model that was chosen.

    Raises:
        InputError: the template cannot be rendered for a user's message.
    """
    try:
        yield
    except (jinja2.TemplateError, TypeError) as error:
        raise InputError(
            f"llm.id: its chat template cannot be rendered ({brief(error)}). Name another revision or model, "
            "or a folder with a template of its own."
        ) from None


def _tokens(template: str) -> list[tuple[str, str]]:
    try:
        return [(kind, text) for _, kind, text in jinja2.Environment().lex(template)]
    except jinja2.TemplateSyntaxError:  # rendering says so
        return []


def _unquoted(literal: str) -> str:
    return literal[1:-1].encode("ascii", "backslashreplace").decode("unicode-escape")
