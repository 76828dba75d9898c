"""Unpack archives safely: no member leaves the target folder or fills the disk."""

import errno
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Self

from src.errors import InputError, brief, first_few
from src.stimuli.work_folders import make_draft_folder

# System errors caused by the disk, not by the archive.
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM)
# Maximum number of members, ten times as many as in the largest dataset; even empty files take disk space.
MAX_MEMBERS = 1_000_000
# Types of extended tar headers, which contain a long name or attributes of the next member.
EXTENDED_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MAX_HEADER = 2**20  # maximum number of bytes of an extended header
# Folder of metadata in archives packed on a Mac; its files are named like the files they describe.
METADATA = "__MACOSX"


def unpack(archive: Path, name_by_pattern: Mapping[str, str], max_bytes: int) -> list[str]:
    """Extract files and folders of a zip or (compressed) tar into the folder of the archive.

    `name_by_pattern`: glob pattern of a file or folder in the archive -> its name in the archive's folder.
    The whole archive, up to `max_bytes`, is unpacked and checked in a draft folder before anything gets its
    final name. Files and folders that exist already are left unchanged; their names are returned.

    Raises:
        InputError: the file is not an archive, is damaged or too large, lacks a requested file or folder, or
            has a member that would leave the folder or is not a plain file or folder.
    """
    if not archive.is_file():  # reading a pipe would block
        raise InputError(f"{archive}: no such file. Fetch it again.")
    try:
        with make_draft_folder(archive) as draft:
            _extract(archive, draft, max_bytes)
            path_by_name = {
                name: _find_single(archive, draft, pattern) for pattern, name in name_by_pattern.items()
            }
            existing_names = [name for name in path_by_name if (archive.parent / name).exists()]
            for name, path in path_by_name.items():
                if name not in existing_names:
                    path.rename(archive.parent / name)
    except InputError:
        raise
    except Exception as error:  # zipfile and tarfile raise exceptions of any type
        if isinstance(error, OSError) and error.errno in DISK_ERRORS:
            raise InputError(
                f"{archive}: cannot be unpacked ({error.strerror or error}). Free disk space, or make the "
                "folder writable, and run the same command again."
            ) from None
        raise InputError(
            f"{archive}: damaged, or neither a zip nor a tar ({brief(str(error) or repr(error))}). Nothing "
            f"was unpacked. Delete the archive and {archive.name}.json, and fetch it again."
        ) from None
    return existing_names


def _extract(archive: Path, draft: Path, max_bytes: int) -> None:
    total_size = 0
    for number, (name, size, is_file_or_folder, extract) in enumerate(
        _iterate_members(archive, draft), start=1
    ):
        total_size += size
        path = PurePosixPath(name)
        for is_refused, problem in (
            (not is_file_or_folder, "is a link or a device"),
            (path.is_absolute() or ".." in path.parts or "\\" in name, "would leave the folder"),
            (size < 0, f"has {size} bytes"),
            (number > MAX_MEMBERS, f"is one of more than {MAX_MEMBERS} members"),
            (total_size > max_bytes, f"makes the unpacked archive larger than the {max_bytes} bytes allowed"),
            ((draft / path).is_file(), "occurs twice"),
        ):
            if is_refused:
                raise InputError(
                    f"{archive}: the member {brief(name)!r} {problem}. Nothing was unpacked. The published "
                    "archives have no such member, so this file is not one of them. Delete it and fetch it "
                    "again."
                )
        extract()


class BoundedTarInfo(tarfile.TarInfo):
    """Tar member with a limit on the size of extended headers, which tarfile would read without a limit."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header; raise `ReadError` if it announces an extended header above the limit."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENDED_HEADERS and header.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header of {header.size} bytes")
        return header


def _iterate_members(archive: Path, draft: Path) -> Iterator[tuple[str, int, bool, Callable[[], object]]]:
    """Yield (name, bytes, whether it is a file or folder, function that extracts it) for each member."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zip_file:
            for member in zip_file.infolist():
                # The upper half is the file mode if a Unix system packed the archive, and otherwise 0.
                kind = stat.S_IFMT(member.external_attr >> 16)
                is_file_or_folder = kind in (0, stat.S_IFREG, stat.S_IFDIR)
                yield (
                    member.filename,
                    member.file_size,
                    is_file_or_folder,
                    partial(zip_file.extract, member, draft),
                )
        return
    # Opened as a stream, so that each member is checked before tarfile reads the next.
    with tarfile.open(archive, "r|*", tarinfo=BoundedTarInfo) as tar:
        for entry in tar:
            extract = partial(tar.extract, entry, draft, filter="data")
            yield entry.name, entry.size, entry.isreg() or entry.isdir(), extract


def _find_single(archive: Path, draft: Path, pattern: str) -> Path:
    matches = [path for path in sorted(draft.glob(pattern)) if METADATA not in path.parts]
    if len(matches) != 1:
        content = sorted(path.relative_to(draft).as_posix() for path in draft.glob("*/*")) or ["nothing"]
        raise InputError(
            f"{archive}: expected one {pattern!r} in it, got {len(matches)}; it contains "
            f"{first_few(content, 12)}. Unpack it by hand."
        )
    return matches[0]
