"""Locate files of published models: in the hub's cache, in a folder, or fetched from the hub."""

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from src.errors import InputError, brief
from src.storage import cache

log = logging.getLogger(__name__)

SHA256 = re.compile(r"[0-9a-f]{64}")
# Error class of huggingface_hub -> reason in messages. The first match is used, so subclasses come first.
REASON_BY_ERROR = {
    "GatedRepoError": "the repository is gated: request access on its page, then run hf auth login",
    "RepositoryNotFoundError": "the hub has no such repository, or it is private",
    "RevisionNotFoundError": "the repository has no such revision",
    "OfflineModeIsEnabled": "HF_HUB_OFFLINE is set",
}


@dataclass(frozen=True)
class Source:
    """Source of a model's files: a repository of the hub, or a folder."""

    name: str  # `owner/name` on the hub, or a folder
    revision: str | None = None  # commit, branch or tag on the hub; None: main branch
    is_folder: bool = False  # whether `name` is a folder
    remedy: str = ""  # last sentence of messages about missing files


# (name, revision, files) -> why they could not be fetched. A failed fetch is not retried in the same process.
_failed_fetches: dict[tuple[str, str | None, str], str] = {}
_hashes: dict[tuple[str, int, int], str] = {}  # (path, bytes, time of last change in ns) -> SHA-256


def locate_files(
    source: Source,
    required: Sequence[Sequence[str]],
    optional: Sequence[str] = (),
    decisive: Sequence[str] = (),
) -> dict[str, Path]:
    """Return name -> path of a model's files, in the order of `required`.

    Each entry of `required` lists alternative names, of which the first existing file is used. If a required
    file is not cached, missing and optional files are fetched; otherwise nothing is, and optional files are
    included if they are cached. `decisive` are optional files whose absence decides how others are read: they
    are also fetched if the cache does not state that they are absent, unless the hub cannot be reached.
    Raises `InputError` if a required file is unavailable, and `NotStored` within `forbid_building` if a file
    would have to be fetched.
    """
    cached = {name: _find_cached(source, name) for names in (*required, optional, decisive) for name in names}
    paths = {name: path for name, path in cached.items() if path}
    missing = [names for names in required if not any(name in paths for name in names)]
    if missing:
        paths |= _fetch(source, missing, [*optional, *decisive])
    required_names = [next(name for name in names if name in paths) for names in required]
    unknown = [name for name in decisive if name not in paths]
    if unknown and not missing:
        paths |= _fetch_unknown(source, unknown, paths[required_names[0]])
    return {name: paths[name] for name in (*required_names, *optional, *decisive) if name in paths}


def is_folder(name: str) -> bool:
    """Return whether the name of a model is that of a folder; False if the name cannot be looked up."""
    return os.path.isdir(name)  # noqa: PTH112 - Path.is_dir raises for too long names and without permission


def hash_files(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or a hash of several files' SHA-256 and names.

    The hub's cache names large files by their SHA-256. Raises `InputError` if a file does not match its name.
    """
    digests = []
    for path in paths:
        blob = path.resolve()
        status = blob.stat()
        key = (str(blob), status.st_size, status.st_mtime_ns)
        if key not in _hashes:
            _hashes[key] = cache.file_hash(blob)
        digests.append(_hashes[key])
        if SHA256.fullmatch(blob.name) and digests[-1] != blob.name:
            raise InputError(
                f"{path}: truncated or changed since it was fetched ({status.st_size} bytes, SHA-256 "
                f"{digests[-1][:12]}…, not {blob.name[:12]}…). Delete {blob} and fetch it again."
            )
    if len(digests) == 1:
        return digests[0]
    lines = [f"{digest}  {path.name}\n" for path, digest in zip(paths, digests, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _find_cached(source: Source, name: str) -> Path | None:
    """Return the path of a file in a folder or in the hub's cache; None if it is not there."""
    if source.is_folder:
        path = Path(source.name) / name
        return path if os.path.isfile(path) else None  # noqa: PTH113 - Path.is_file raises for too long names
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(source.name, name, revision=source.revision)
    except ValueError as error:
        raise InputError(
            f"{source.name}: neither a folder that exists nor owner/name on the hub ({error}). "
            "Correct the name."
        ) from None
    return Path(cached) if isinstance(cached, str) else None


def _fetch(source: Source, missing: Sequence[Sequence[str]], optional: Sequence[str]) -> dict[str, Path]:
    """Fetch missing files (see `locate_files`) from the hub; return name -> path."""
    missing_text = ", ".join(" or ".join(alternatives) for alternatives in missing)
    if source.is_folder:
        folder = Path(source.name)
        content = "unknown, as it cannot be read"
        if os.access(folder, os.R_OK):
            content = ", ".join(sorted(path.name for path in folder.iterdir()))
        raise InputError(
            f"{source.name}: no {brief(missing_text)} (in the folder: {brief(content, 400) or 'nothing'}). "
            f"{source.remedy}"
        )
    if cache.is_building_forbidden():
        raise cache.NotStored(f"{source.name}: {missing_text}")
    from huggingface_hub import constants

    key = (source.name, source.revision, missing_text)
    if key not in _failed_fetches:
        try:
            # Optional files first: once all required files are cached, nothing is fetched any more, so
            # optional files that an interruption left out would stay missing.
            paths = {name: path for name in optional if (path := _download(source, name))}
            for alternatives in missing:
                for name in alternatives:
                    if path := _download(source, name):
                        paths[name] = path
                        break
                else:
                    raise _FetchError(f"the repository has none of {', '.join(alternatives)}")
            return paths
        except _FetchError as error:
            _failed_fetches[key] = str(error)
    at = f" at {source.revision}" if source.revision else ""
    raise InputError(
        f"{source.name}{at}: {missing_text} not in the cache ({constants.HF_HUB_CACHE}), and cannot be "
        f"fetched: {_failed_fetches[key]}. {source.remedy}"
    )


def _fetch_unknown(source: Source, names: Sequence[str], cached: Path) -> dict[str, Path]:
    """Fetch files that may exist beside a cached file of a repository; return name -> path.

    Files of which the cache states that they are absent are left out, and all if the hub cannot be reached.
    """
    from huggingface_hub import constants, try_to_load_from_cache

    if source.is_folder or constants.HF_HUB_OFFLINE:
        return {}
    look_up = partial(try_to_load_from_cache, source.name, revision=source.revision)
    names = [name for name in names if look_up(name) is None]  # of files known to be absent, it is not None
    key = (source.name, source.revision, ", ".join(names))
    if not names or key in _failed_fetches:
        return {}
    if cache.is_building_forbidden():
        raise cache.NotStored(f"{source.name}: {key[-1]}")
    # The branch may have changed since the other files were fetched.
    commits = (folder.name for folder in cached.parents if folder.parent.name == "snapshots")
    source = replace(source, revision=next(commits, source.revision))
    paths: dict[str, Path] = {}
    try:
        for name in names:
            if path := _download(source, name):
                paths[name] = path
    except _FetchError as error:
        _failed_fetches[key] = str(error)
    return paths


class _FetchError(Exception):
    """Error of a file that cannot be fetched from the hub; the message is the reason."""


def _download(source: Source, name: str) -> Path | None:
    """Download a file; return None if the repository has no file of that name."""
    from huggingface_hub import constants, errors, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    try:
        log.info("fetching %s of %s", name, source.name)
        return Path(hf_hub_download(source.name, name, revision=source.revision))
    except errors.EntryNotFoundError as error:
        if not isinstance(error, errors.LocalEntryNotFoundError):
            return None
        offline = constants.HF_HUB_OFFLINE
        raise _FetchError("HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached") from None
    except errors.HFValidationError as error:
        raise _FetchError(str(error)) from None
    except (OSError, RuntimeError, httpx.HTTPError) as error:
        texts = (text for kind, text in REASON_BY_ERROR.items() if isinstance(error, getattr(errors, kind)))
        raise _FetchError(next(texts, f"{type(error).__name__}: {error}")) from None
