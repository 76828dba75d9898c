"""Publish a report's folder atomically, replacing nothing but older reports."""

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from src.errors import InputError
from src.report.findings import Findings

# File that marks a folder as a report, with labels (such as its sweep) and the names of all other files.
MARK = "report.json"


def publish(findings: Findings, folder: Path) -> Path:
    """Write the report of a sweep into a folder, replacing an older report; return the path of its page.

    Raises:
        InputError: see `check`; or the folder cannot be written.
    """
    from src.report import page

    labels = {"sweep": findings.sweep, "dataset": findings.dataset}
    return publish_folder(lambda draft: page.write(findings, draft), folder, **labels)


def publish_folder(write: Callable[[Path], Path], folder: Path, **labels: str) -> Path:
    """Publish the files that a function writes into an empty folder; return the path that it returns.

    Replaces an older report; `labels` are recorded in the file that marks the folder as a report.

    Raises:
        InputError: see `publish`.
    """
    folder = folder.resolve()
    check(folder)
    # A temporary folder next to the target, with the new report and then the old one.
    draft = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir(parents=True)
        (draft / "new").mkdir()
        index = write(draft / "new").relative_to(draft / "new")
        mark = {**labels, "files": _list_files(draft / "new")}
        (draft / "new" / MARK).write_text(json.dumps(mark, indent=2, ensure_ascii=False) + "\n", "utf-8")
        check(folder)  # again: files may have been added while the report was written
        _replace(draft, folder)
    except OSError as error:
        problem = f"{folder}: the report cannot be written ({error})"
        raise InputError(f"{problem}. Make room, or choose another folder: output=DIR.") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / str(index)


def check(folder: Path) -> None:
    """Raise `InputError` unless a folder is new, empty, or a report without added files."""
    remedy = "Nothing was written. Choose another folder: output=DIR."
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror}). {remedy}") from None
    try:
        written = set(json.loads((folder / MARK).read_text("utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{folder} exists and is not a report. {remedy}") from None
    added = sorted(set(_list_files(folder)) - written - {MARK})
    if added:
        names = ", ".join(added[:3])
        raise InputError(f"{folder} contains files that are not part of a report: {names}. {remedy}")


def _replace(draft: Path, folder: Path) -> None:
    if folder.exists():
        folder.rename(draft / "old")
    try:
        (draft / "new").rename(folder)
    except BaseException:
        if (draft / "old").exists():
            (draft / "old").rename(folder)
        raise


def _list_files(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.is_dir() or path.is_symlink()
    )
