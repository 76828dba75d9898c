"""Hook of MkDocs: add the pages that are not in docs/, and point links at them.

README.md becomes the front page; CONTRIBUTING.md, CHANGELOG.md and the table of benchmarks become pages; the
reference of the config is made from the schemas of src/configs and from the comments of conf/.
"""

import dataclasses
import inspect
import os
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from omegaconf import MISSING

ROOT = Path(__file__).resolve().parents[1]
CONF = ROOT / "conf"
# Files outside docs/ that are pages of the site: path in the repository -> path in the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/results/README.md": "benchmark-results.md",
}
HEAD = """# Config reference

Every key of `python -m src.run` and `python -m src.generate`, made from `src/configs` and the comments in
`conf`. A default in *italics* is that of the YAML named above its table. `required`: give it on the command
line, or in a YAML of your own.
"""
LINK = re.compile(r"(?<=\]\()(?!https?:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for path, page in PAGES.items():
        text = relinked((ROOT / path).read_text("utf-8"), Path(path).parent, ".")
        files.append(File.generated(config, page, content=text))
    files.append(File.generated(config, "reference/config.md", content=config_reference()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point the links of a page of docs/ at the pages made from files outside it."""
    folder = str(Path(page.file.src_uri).parent)
    if not (ROOT / "docs" / page.file.src_uri).exists():
        return markdown
    return relinked(markdown, Path("docs", folder), folder)


def relinked(markdown: str, folder: Path, place: str) -> str:
    """Replace links of the repository by links of the site.

    Args:
        markdown: text of a page.
        folder: folder of its file in the repository.
        place: folder of the page in the site.
    """

    def target(link: re.Match[str]) -> str:
        path = (ROOT / folder / link[1]).resolve()
        if not path.is_relative_to(ROOT):
            return link[1]
        name = str(path.relative_to(ROOT))
        return os.path.relpath(PAGES.get(name, name.removeprefix("docs/")), place)

    return LINK.sub(target, markdown)


def config_reference() -> str:
    """Return the page of every key of the config: type, default, meaning."""
    parts = [HEAD]
    for title, tables in _sections():
        parts.append(f"## {title}\n")
        for name, schema, document in tables:
            text = document.read_text("utf-8") if document else ""
            rows = list(rows_of(schema, yaml.safe_load(text) or {}, _yaml_comments(text)))
            if not rows:
                continue
            about = inspect.getdoc(schema) or ""
            source = f" Defaults: `{document.relative_to(ROOT)}`." if document else ""
            parts.append(f"### {name}\n\n{about.splitlines()[0]}{source}\n")
            parts.append("| key | type | default | meaning |\n|---|---|---|---|")
            parts += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in rows]
            parts.append("")
    return "\n".join(parts)


def _sections() -> Iterator[tuple[str, list[tuple[str, type, Path | None]]]]:
    """Yield each config group with its schemas and the YAML that gives their defaults."""
    sys.path.insert(0, str(ROOT))
    from src.configs import composition, jobs, launchers, studies

    jobs_tables = [
        ("run", jobs.RunConfig, CONF / "run.yaml"),
        ("generate", jobs.GenerateConfig, CONF / "generate.yaml"),
    ]
    yield "Jobs", jobs_tables
    schemas = composition.SCHEMAS | studies.load_config_classes()
    groups: dict[str, dict[str, Path]] = {}
    for document in sorted(CONF.glob("*/*.yaml")):
        for entry in (yaml.safe_load(document.read_text("utf-8")) or {}).get("defaults", []):
            if isinstance(entry, str) and entry.startswith("/schema/"):
                name = entry.removeprefix("/schema/").partition("@")[0]
                groups.setdefault(document.parent.name, {}).setdefault(name, document)
    for group, documents in groups.items():
        yield f"`{group}`", [(f"`{group}`: {name}", schemas[name], documents[name]) for name in documents]
    yield (
        "`hydra/launcher`",
        [(f"`hydra/launcher={name}`", node, None) for name, node in launchers.LAUNCHERS.items()],
    )


def rows_of(
    schema: type, values: Mapping[str, Any], comments: Mapping[str, str], prefix: str = ""
) -> Iterator[tuple[str, str, str, str]]:
    """Yield key, type, default and meaning of each field of a schema.

    Args:
        schema: dataclass of a node of the config.
        values: defaults in a YAML.
        comments: comments of the YAML by key.
        prefix: path of the node, with a dot at its end.
    """
    meanings = dict(comments)
    for base in reversed(schema.__mro__):
        meanings |= _source_comments(base) | _attributes(base)
    types = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        if field.name.startswith("_"):
            continue
        kind = types[field.name]
        if dataclasses.is_dataclass(kind) and field.name not in meanings:
            # A config group has a section of its own.
            if isinstance(kind, type) and not (CONF / field.name).is_dir():
                yield from rows_of(kind, values.get(field.name, {}), {}, f"{prefix}{field.name}.")
            continue
        yield (
            prefix + field.name,
            _type(kind, field.metadata),
            _default(field, values),
            meanings.get(field.name, "").replace("|", "\\|").replace("\n", " "),
        )


def _type(kind: Any, metadata: Mapping[str, Any]) -> str:
    """Describe a type and its bounds."""
    if typing.get_origin(kind) in (UnionType, typing.Union):
        members = [member for member in typing.get_args(kind) if member is not NoneType]
        return " or ".join([*(_type(member, metadata) for member in members), "null"])
    if values := metadata.get("values"):
        return ", ".join(f"`{value}`" for value in values)
    if known := metadata.get("known"):
        return ", ".join(f"`{value}`" for value in known) + ", `module:attribute`"
    name = kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)
    name = re.sub(r"\b(?:typing|src\.configs\.\w+)\.", "", name).replace("str", "text").replace("Any", "any")
    if "min" in metadata:
        low, high = metadata["min"], metadata["max"]
        return f"{name}, at least {low}" if high == float("inf") else f"{name}, {low} to {high}"
    return name


def _default(field: dataclasses.Field[Any], values: Mapping[str, Any]) -> str:
    """Return the default of a field as Markdown."""
    if field.name in values and values[field.name] != MISSING:
        return f"*{_text(values[field.name])}*"
    if field.default_factory is not dataclasses.MISSING:
        return _text(field.default_factory())
    return "required" if field.default in (MISSING, dataclasses.MISSING) else _text(field.default)


def _text(value: Any) -> str:
    text = "null" if value is None else "…" if isinstance(value, dict | list) and value else str(value)
    return f"`{text or '(empty)'}`".replace("|", "\\|")


def _attributes(schema: type) -> dict[str, str]:
    """Return the entries of `Attributes:` in a docstring."""
    text = (schema.__dict__.get("__doc__") or "").partition("Attributes:")[2]
    entries = re.findall(r"^ {8}([\w, ]+): ((?:.+)(?:\n {12}.+)*)", text, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", meaning) for names, meaning in entries for name in names.split(", ")}


def _source_comments(schema: type) -> dict[str, str]:
    """Return the comments at the end of the lines of a dataclass."""
    if not dataclasses.is_dataclass(schema):
        return {}
    return dict(re.findall(r"^ {4}(\w+): [^#\n]+?  # (.+)$", inspect.getsource(schema), re.MULTILINE))


def _yaml_comments(text: str) -> dict[str, str]:
    """Return the comments at the end of the lines of a YAML's top-level keys."""
    return dict(re.findall(r"^(\w+):[^#\n]*  # (.+)$", text, re.MULTILINE))
