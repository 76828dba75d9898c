"""Archives from elsewhere: nothing in one can leave the folder that it is unpacked into, or fill the disk."""

from __future__ import annotations

import errno
import lzma
import shutil
import stat
import struct
import tarfile
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Self

from src.errors import InputError, brief

PIECE = 1 << 20
DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, RuntimeError, ValueError, OverflowError, IndexError, KeyError, TypeError, MemoryError),
)
# What the disk is to blame for; other errors of the system come of what the archive says.
OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
)
# Of members, ten times those of the largest dataset: empty ones take room, too, and hardly any in an archive.
MOST = 1_000_000
# Headers of a tar that go before a member's: a name, or attributes.
LONG = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
# Copies of a Mac's metadata, named like what they belong to.
METADATA = "__MACOSX"


def unpack(archive: Path, take: Mapping[str, str], at_most: int) -> list[str]:
    """Take files and folders out of a zip or a tar, plain or compressed, into its folder.

    All is unpacked and looked at in a draft beside the archive before anything of it gets its
    name. What has its name already is kept as it is.

    Args:
        archive: the file.
        take: pattern of one file or folder in the archive -> its name in the folder.
        at_most: bytes that all members may have together, unpacked.

    Returns:
        Names that something had already.

    Raises:
        InputError: it is no archive, is damaged, holds a member that would leave the folder or is
            no plain file or folder, is larger than allowed, or lacks what is to be taken.
    """
    if not archive.is_file():  # a pipe would be waited for
        raise InputError(f"{archive}: no such file. Fetch it anew.")
    for leftover in archive.parent.glob(f".{archive.name}.*"):
        shutil.rmtree(leftover)
    draft = archive.with_name(f".{archive.name}.{uuid.uuid4().hex}")
    try:
        draft.mkdir()
        _extract(archive, draft, at_most)
        places = {name: _only(archive, draft, pattern) for pattern, name in take.items()}
        kept = [name for name in places if (archive.parent / name).exists()]
        for name, place in places.items():
            if name not in kept:
                place.rename(archive.parent / name)
    except OSError as error:
        if error.errno not in OF_THE_DISK:
            raise _damaged(archive, error) from None
        raise InputError(
            f"{archive}: cannot be unpacked there ({error.strerror or error}). Once there is room, the same "
            "command goes on."
        ) from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return kept


def _extract(archive: Path, draft: Path, at_most: int) -> None:
    total = 0
    try:
        for number, (name, size, content) in enumerate(_members(archive), start=1):
            total += size
            if size < 0:
                raise _refused(archive, name, f"has {size} bytes")
            if number > MOST:
                raise _refused(archive, name, f"is one of more than {MOST}")
            if total > at_most:
                raise InputError(
                    f"{archive}: unpacked it is larger than the {at_most} bytes allowed ({total} by "
                    f"{brief(name)!r}). Nothing was unpacked; it is not what the publisher ships. Delete it."
                )
            path = draft / _inside(archive, name)
            if content is None:
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                raise _refused(archive, name, "stands in it twice")
            with content, path.open("xb") as file:
                shutil.copyfileobj(content, file, PIECE)  # ends after the declared bytes
    except DAMAGED as error:
        raise _damaged(archive, error) from None


def _damaged(archive: Path, error: Exception) -> InputError:
    return InputError(
        f"{archive}: damaged, or in a form that cannot be read ({brief(str(error) or repr(error))}). "
        f"Nothing was unpacked. Delete it and {archive.name}.json, and fetch it anew."
    )


class _Bounded(tarfile.TarInfo):
    """A member whose own headers are no bomb: tarfile reads them whole, whatever their size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in LONG and found.size > PIECE:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Name, bytes and content of each member; folders have no content."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                # The upper half holds the mode where a Unix system packed it, else nothing.
                kind = stat.S_IFMT(member.external_attr >> 16)
                if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _refused(archive, member.filename, "is a link or a device")
                yield member.filename, member.file_size, None if member.is_dir() else opened.open(member)
        return
    try:
        # As a stream: members are judged before the next is looked for.
        with tarfile.open(archive, "r|*", tarinfo=_Bounded) as tar:
            for entry in tar:
                if not (entry.isreg() or entry.isdir()):
                    raise _refused(archive, entry.name, "is a link or a device")
                yield entry.name, entry.size, tar.extractfile(entry)
    except tarfile.ReadError as error:
        raise InputError(
            f"{archive}: neither a whole zip nor a whole tar ({brief(str(error))}). Nothing was unpacked. "
            f"Delete it and {archive.name}.json, and fetch it anew."
        ) from None


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise _refused(archive, name, "would leave the folder")
    return path


def _refused(archive: Path, name: str, why: str) -> InputError:
    return InputError(
        f"{archive}: the member {brief(name)!r} {why}. Nothing was unpacked; it is not what the publisher "
        "ships. Delete it."
    )


def _only(archive: Path, draft: Path, pattern: str) -> Path:
    found = [path for path in sorted(draft.glob(pattern)) if METADATA not in path.parts]
    if len(found) != 1:
        there = sorted(path.relative_to(draft).as_posix() for path in draft.glob("*/*")) or ["nothing"]
        raise InputError(
            f"{archive}: {len(found)} of {pattern!r} in it, not one; it holds "
            f"{brief(', '.join(there[:12]), 400)}{', …' if len(there) > 12 else ''}. "
            "Unpack it by hand as the dataset's layout asks."
        )
    return found[0]
