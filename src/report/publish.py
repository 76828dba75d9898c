"""A report's folder: written beside its place and put there whole, and nothing else is ever replaced."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from src.errors import InputError
from src.report.findings import Findings

# What tells a report's folder: which sweep it is of, and each of its files.
MARK = "report.json"


def publish(findings: Findings, folder: Path) -> Path:
    """Draw the report of a sweep and put it into a folder, in place of an older report.

    Returns:
        The path of its index.html.

    Raises:
        InputError: something else than a report stands there, or it cannot be written.
    """
    from src.report import page

    return put(
        lambda draft: page.write(findings, draft), folder, sweep=findings.sweep, dataset=findings.dataset
    )


def put(write: Callable[[Path], Path], folder: Path, **about: str) -> Path:
    """Have a report written and put it into a folder, in place of an older report.

    Args:
        write: writes it into an empty folder and gives the path of its page.
        folder: where to.
        about: noted in its mark.

    Returns:
        The path of its index.html.

    Raises:
        InputError: something else than a report stands there, or it cannot be written.
    """
    folder = folder.resolve()
    check(folder)
    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir(parents=True)
        (draft / "new").mkdir()
        index = write(draft / "new").relative_to(draft / "new")
        said = {**about, "files": _files(draft / "new")}
        (draft / "new" / MARK).write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", "utf-8")
        check(folder)  # drawing took a while
        _put(draft, folder)
    except OSError as error:
        raise InputError(f"{folder}: the report cannot be written ({error}).") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / str(index)


def check(folder: Path) -> None:
    """See that a folder is free, empty, or a report that nobody added files to.

    Raises:
        InputError: it is not.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    remedy = "Nothing is written. Name another folder: output=DIR."
    try:
        written = set(json.loads((folder / MARK).read_text("utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{folder} is there already and is no report. {remedy}") from None
    added = sorted(set(_files(folder)) - written - {MARK})
    if added:
        raise InputError(f"{folder} holds what no report wrote: {', '.join(added[:3])}. {remedy}")


def _put(draft: Path, folder: Path) -> None:
    if folder.exists():
        folder.rename(draft / "old")
    try:
        (draft / "new").rename(folder)
    except BaseException:
        if (draft / "old").exists():
            (draft / "old").rename(folder)
        raise


def _files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    )
