"""Archives from elsewhere: nothing in one can leave the folder that it is unpacked into, or fill the disk."""

from __future__ import annotations

import errno
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Self

from src.errors import InputError, brief
from src.stimuli.work_folders import draft_folder

# What the disk is to blame for; other errors of the system come of what the archive says.
OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
    *(errno.EROFS, errno.EACCES, errno.EPERM),
)
# Of members, ten times those of the largest dataset: empty ones take room, too, and hardly any in an archive.
MOST = 1_000_000
# Headers of a tar that go before a member's: a name, or attributes; and what they may have in bytes.
LONG = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
LONGEST = 1 << 20
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
    try:
        with draft_folder(archive) as draft:
            _extract(archive, draft, at_most)
            places = {name: _only(archive, draft, pattern) for pattern, name in take.items()}
            existing = [name for name in places if (archive.parent / name).exists()]
            for name, place in places.items():
                if name not in existing:
                    place.rename(archive.parent / name)
    except InputError:
        raise
    except Exception as error:  # zipfile and tarfile raise whatever they stumble over
        if isinstance(error, OSError) and error.errno in OF_THE_DISK:
            raise InputError(
                f"{archive}: cannot be unpacked there ({error.strerror or error}). Make room, and run the "
                "same command again."
            ) from None
        raise InputError(
            f"{archive}: damaged, or neither a zip nor a tar ({brief(str(error) or repr(error))}). Nothing "
            f"was unpacked. Delete it and {archive.name}.json, and fetch it anew."
        ) from None
    return existing


def _extract(archive: Path, draft: Path, at_most: int) -> None:
    total = 0
    for number, (name, size, ordinary, extract) in enumerate(_members(archive, draft), start=1):
        total += size
        path = PurePosixPath(name)
        for refused, why in (
            (not ordinary, "is a link or a device"),
            (path.is_absolute() or ".." in path.parts or "\\" in name, "would leave the folder"),
            (size < 0, f"has {size} bytes"),
            (number > MOST, f"is one of more than {MOST}"),
            (total > at_most, f"makes it, unpacked, larger than the {at_most} bytes allowed"),
            ((draft / path).is_file(), "stands in it twice"),
        ):
            if refused:
                raise InputError(
                    f"{archive}: the member {brief(name)!r} {why}. Nothing was unpacked; it is not what the "
                    "publisher ships. Delete it."
                )
        extract()


class _Bounded(tarfile.TarInfo):
    """A member whose own headers are no bomb: tarfile reads them whole, whatever their size."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        if found.type in LONG and found.size > LONGEST:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


def _members(archive: Path, draft: Path) -> Iterator[tuple[str, int, bool, Callable[[], object]]]:
    """Yield name and bytes of each member, whether it is a file or folder, and what extracts it."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                # The upper half holds the mode where a Unix system packed it, else nothing.
                kind = stat.S_IFMT(member.external_attr >> 16)
                ordinary = kind in (0, stat.S_IFREG, stat.S_IFDIR)
                yield member.filename, member.file_size, ordinary, partial(opened.extract, member, draft)
        return
    # As a stream: members are judged before the next is looked for.
    with tarfile.open(archive, "r|*", tarinfo=_Bounded) as tar:
        for entry in tar:
            extract = partial(tar.extract, entry, draft, filter="data")
            yield entry.name, entry.size, entry.isreg() or entry.isdir(), extract


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
