"""Pin chat templates to a fixed day, so that prompts depend on neither clock nor random draws."""

import contextlib
import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import jinja2

from src.errors import InputError, brief

# Function of transformers' chat templates that returns the current date.
CLOCK = "strftime_now"
# Jinja's filter and function that draw at random.
RANDOM = ("random", "lipsum")
# This macro, put before a template, overrides the function of transformers. transformers' environment drops
# the line break after a block, so that the rendered text begins as before.
MACRO = (
    "{{% macro strftime_now(format) %}}{{{{ {dates!r}.get(format) or raise_exception("
    "'strftime_now needs a format that is written in the template') }}}}{{% endmacro %}}\n"
)

Template = TypeVar("Template", str, dict[str, str], None)


def parse_day(date: str) -> datetime.date:
    """Parse the day of `llm.date`."""
    try:
        return datetime.date.fromisoformat(date)
    except ValueError:
        raise InputError(f"llm.date={brief(date)}: expected a day as YYYY-MM-DD.") from None


def read_templates(files: Iterable[Path]) -> list[str]:
    """Return the chat templates in files of a repository: .jinja files, and `chat_template` in JSON files."""
    texts: list[str] = []
    for path in files:
        if path.suffix == ".jinja":
            texts.append(path.read_text("utf-8", errors="replace"))
        elif path.suffix == ".json":
            with contextlib.suppress(ValueError, RecursionError):  # reported when the model is loaded
                content = json.loads(path.read_bytes())
                texts += _extract_texts(content.get("chat_template") if isinstance(content, dict) else None)
    return texts


def _extract_texts(template: Any) -> list[str]:
    if isinstance(template, list):
        template = {number: entry.get("template") for number, entry in enumerate(template)}
    templates = template.values() if isinstance(template, dict) else [template]
    return [text for text in templates if isinstance(text, str)]


def reads_clock(template: str) -> bool:
    """Return whether a template uses the current date.

    >>> reads_clock("{{ strftime_now('%Y') }}"), reads_clock("{# strftime_now #}")
    (True, False)
    """
    return any(kind == "name" and text == CLOCK for kind, text in _tokenize(template))


def refuse_random(template: str, model: str) -> None:
    """Refuse a template that draws at random, so that prompts would differ between runs."""
    calls = [text for kind, text in _tokenize(template) if kind == "name" and text in RANDOM]
    if calls:
        raise InputError(
            f"{model}: its chat template draws at random ({calls[0]}), so no two runs have the same prompts. "
            "Choose a revision without it (llm.revision), or a folder with another template."
        )


def pin(template: Template, date: datetime.date) -> Template:
    """Pin the current date of a Jinja template, or of several by name, to midnight of a given day."""
    if template is None:
        return None
    if isinstance(template, dict):
        return {name: pin(text, date) for name, text in template.items()}
    if not reads_clock(template):
        return template
    midnight = datetime.datetime.combine(date, datetime.time())
    literals = [text[1:-1] for kind, text in _tokenize(template) if kind == "string" and "%" in text]
    formats = [text.encode("ascii", "backslashreplace").decode("unicode-escape") for text in literals]
    return MACRO.format(dates={text: midnight.strftime(text) for text in formats}) + template


def render(processor: Any, content: Any, **options: Any) -> Any:
    """Render a user message by the chat template of a tokenizer or processor, up to the start of the answer.

    Returns text or, with the option `tokenize`, tokens.
    """
    messages = [{"role": "user", "content": content}]
    try:
        return processor.apply_chat_template(messages, add_generation_prompt=True, **options)
    except (jinja2.TemplateError, TypeError) as error:
        raise InputError(
            f"llm.id: its chat template cannot be rendered ({brief(error)}). Choose another revision or "
            "model, or a folder with another template."
        ) from None


def _tokenize(template: str) -> list[tuple[str, str]]:
    try:
        return [(kind, text) for _, kind, text in jinja2.Environment().lex(template)]
    except jinja2.TemplateSyntaxError:  # reported when the template is rendered
        return []
