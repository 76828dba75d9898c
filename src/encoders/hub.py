"""Files of published models: in the hub's cache, in a folder, or fetched where the hub can be reached."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from src.errors import InputError, brief
from src.storage import cache

log = logging.getLogger(__name__)

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Place:
    """Where files of a model are looked for.

    Attributes:
        name: `owner/name` on the hub, or a folder.
        revision: commit, branch or tag on the hub; None is its main branch.
        folder: whether `name` is a folder.
        remedy: what to say to whom it lacks something.
    """

    name: str
    revision: str | None = None
    folder: bool = False
    remedy: str = ""


# The hub is asked once per process: eight experiments of one model fail at once, not one by one.
_refused: dict[tuple[str, str | None, str], str] = {}
_hashes: dict[tuple[str, int, int], str] = {}


def files(place: Place, required: Sequence[Sequence[str]], optional: Sequence[str] = ()) -> dict[str, Path]:
    """Files of a place by their names, fetched where they are not cached.

    Args:
        place: where to look.
        required: of each sequence, the first name that is there.
        optional: taken along where they are there.

    Returns:
        Name -> path, in the order of `required`.

    Raises:
        InputError: one of the required is neither there nor to be had.
        NotStored: within `artifacts.dry`, where one would have to be fetched.
    """
    cached = {name: _cached(place, name) for names in (*required, optional) for name in names}
    found = {name: path for name, path in cached.items() if path}
    lacking = [names for names in required if not any(name in found for name in names)]
    if lacking:
        found |= _fetched(place, lacking, optional)
    chosen = [next(name for name in names if name in found) for names in required]
    return {name: found[name] for name in (*chosen, *optional) if name in found}


def revision(path: Path) -> str:
    """The commit that a cached file belongs to; `folder` for a file of the user's."""
    parts = path.parts
    return parts[-2] if len(parts) > 2 and parts[-3] == "snapshots" else "folder"


def sha256(paths: Sequence[Path]) -> str:
    """Hash of a file, or of the hashes of several; each is held against the name of its blob.

    The hub's cache names a large file by its SHA-256: a file that was cut or changed is noticed.

    Raises:
        InputError: a cached file is not what the hub gave.
    """
    digests = [_checked(path) for path in paths]
    if len(digests) == 1:
        return digests[0]
    lines = [f"{digest}  {path.name}\n" for path, digest in zip(paths, digests, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _checked(path: Path) -> str:
    real = path.resolve()
    about = real.stat()
    known = (str(real), about.st_size, about.st_mtime_ns)
    if known not in _hashes:
        _hashes[known] = cache.file_hash(real)
    digest = _hashes[known]
    if SHA256.fullmatch(real.name) and digest != real.name:
        raise InputError(
            f"{path}: cut or changed since it was fetched ({about.st_size} bytes, SHA-256 {digest[:12]}…, "
            f"not {real.name[:12]}…). Delete {real} and fetch it again."
        )
    return digest


def _cached(place: Place, name: str) -> Path | None:
    if place.folder:
        path = Path(place.name) / name
        return path if os.path.isfile(path) else None  # noqa: PTH113 - any name, however long
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(place.name, name, revision=place.revision)
    except ValueError as error:
        raise InputError(
            f"{place.name}: neither a folder that exists nor owner/name on the hub ({error}). "
            "Correct the name."
        ) from None
    return Path(found) if isinstance(found, str) else None


def _fetched(place: Place, lacking: Sequence[Sequence[str]], optional: Sequence[str]) -> dict[str, Path]:
    names = ", ".join(" or ".join(names) for names in lacking)
    if place.folder:
        home = Path(place.name)
        held = ", ".join(sorted(item.name for item in home.iterdir())) if home.is_dir() else ""
        raise InputError(
            f"{place.name}: no {brief(names)} (there: {brief(held, 400) or 'nothing'}). {place.remedy}"
        )
    if cache.building_forbidden():
        raise cache.NotStored(f"{place.name}: {names}")
    from huggingface_hub import constants

    known = (place.name, place.revision, names)
    if known not in _refused:
        try:
            # The optional first: where the required are cached, the others have been asked for.
            also = [_download(place, name) for name in optional]
            wanted = [_first(place, names) for names in lacking]
            return {path.name: path for path in (*wanted, *also) if path is not None}
        except _Refused as error:
            _refused[known] = str(error)
    at = f" at {place.revision}" if place.revision else ""
    raise InputError(
        f"{place.name}{at}: {names} not in the cache ({constants.HF_HUB_CACHE}), and cannot be fetched: "
        f"{_refused[known]}. {place.remedy}"
    )


class _Refused(Exception):
    """The hub does not give it, or is out of reach."""


def _first(place: Place, names: Sequence[str]) -> Path:
    for name in names:
        path = _download(place, name)
        if path is not None:
            return path
    raise _Refused(f"the repository has none of {', '.join(names)}")


def _download(place: Place, name: str) -> Path | None:
    """None where the repository has no file of that name."""
    from huggingface_hub import errors, hf_hub_download
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined]

    try:
        log.info("fetching %s of %s", name, place.name)
        return Path(hf_hub_download(place.name, name, revision=place.revision))
    except errors.LocalEntryNotFoundError:
        raise _Refused(_why_not()) from None
    except errors.EntryNotFoundError:
        return None
    except errors.GatedRepoError:
        raise _Refused("its owners ask for consent first (see its page, then: hf auth login)") from None
    except errors.RepositoryNotFoundError:
        raise _Refused("the hub has no such repository, or it is private") from None
    except errors.RevisionNotFoundError:
        raise _Refused("the repository has no such revision") from None
    except errors.OfflineModeIsEnabled:
        raise _Refused("HF_HUB_OFFLINE is set") from None
    except errors.HFValidationError as error:
        raise _Refused(str(error)) from None
    except (OSError, RuntimeError, httpx.HTTPError) as error:
        raise _Refused(f"{type(error).__name__}: {error}") from None


def _why_not() -> str:
    from huggingface_hub import constants

    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub cannot be reached"
