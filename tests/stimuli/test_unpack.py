"""Test that archives are unpacked in full, or refused without a trace, bombs included."""

import gzip
import io
import shutil
import stat
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from src.errors import InputError
from src.stimuli.unpack import unpack

TAKE = {"**/ratings.csv": "ratings.csv", "**/images": "images"}
GOOD = {
    "Set/ratings.csv": b"a,1\n",
    "Set/images/1.jpg": b"one",
    "Set/images/b/2.jpg": b"two",
    "Set/README": b"",
}


@pytest.fixture
def folder(tmp_path):
    """Make a folder below another, so that escapes are noticed."""
    inner = tmp_path / "root" / "dataset"
    inner.mkdir(parents=True)
    return inner


def zipped(path, members, special=None):
    """Write members, and one of a special kind."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if special:
            info = zipfile.ZipInfo("Set/images/special")
            info.external_attr = (special | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
    return path


def tarred(path, members, **special):
    """Write members, and one without content whose header has special attributes."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if special:
            info = tarfile.TarInfo("Set/images/special")
            for name, value in {"linkname": "/etc/passwd", **special}.items():
                setattr(info, name, value)
            archive.addfile(info)
    return path


def refused(folder, archive, message, at_most=1000):
    """Check that an archive is refused soon, in little memory, and that only the archive is left."""
    tracemalloc.start()
    start = time.monotonic()
    with pytest.raises(InputError, match=message):
        unpack(archive, TAKE, at_most)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    assert time.monotonic() - start < 60
    top = folder.parent.parent
    names = sorted(path.relative_to(top).as_posix() for path in top.rglob("*"))
    assert names == ["root", "root/dataset", "root/dataset/set"]


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_only_requested_members_are_extracted(folder, pack):
    others = dict.fromkeys(("C:/up", "./a", "b//a", "é\n", *["\udce9"] * (pack is tarred)), b"")
    assert unpack(pack(folder / "set", GOOD | others), TAKE, 1000) == []
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del files["set"]
    assert files == {"ratings.csv": b"a,1\n", "images/1.jpg": b"one", "images/b/2.jpg": b"two"}


LEAVES = ("../evil", "Set/../../../evil", "/tmp/evil-member", "..\\evil", "..", "/")
UNWRITABLE = (".", "a" * 300, "b" + "/b" * 2000, "Set/images", "Set/images/1.jpg/x")


@pytest.mark.parametrize("name", [*LEAVES, *UNWRITABLE])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_no_member_leaves_the_folder_or_lies_where_it_cannot(folder, pack, name):
    message = "would leave the folder" if name in LEAVES else "damaged"
    refused(folder, pack(folder / "set", {**GOOD, name: b"evil"}), message)


MODES = (stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR)
TYPES = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z")


@pytest.mark.parametrize("kind", [*MODES, *TYPES])
def test_links_and_devices_are_refused(folder, kind):
    path = folder / "set"
    archive = zipped(path, GOOD, kind) if kind in MODES else tarred(path, GOOD, type=kind)
    refused(folder, archive, "is a link or a device")


@pytest.mark.parametrize(
    ("special", "message"),
    [
        ({"size": 2**40}, "larger than the 1000 bytes"),
        ({"pax_headers": {"size": "9" * 30}}, "larger than the 1000 bytes"),
        ({"pax_headers": {"size": "-1"}}, "has -1 bytes"),
        ({"pax_headers": {"size": "-1", "GNU.sparse.major": "1", "GNU.sparse.minor": "0"}}, "damaged"),
        ({"pax_headers": {"path": "a\0/x"}}, "damaged"),
    ],
)
def test_odd_headers_of_a_tar_are_refused(folder, special, message):
    refused(folder, tarred(folder / "set", GOOD, **special), message)


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_bomb_is_refused_before_it_is_unpacked(folder, pack, monkeypatch):
    archive = pack(folder / "set", {**GOOD, "Set/zeros": bytes(5_000_000)})
    assert archive.stat().st_size < 20_000
    extracted = []
    for kind, name in ((zipfile.ZipFile, "filename"), (tarfile.TarFile, "name")):
        monkeypatch.setattr(
            kind, "extract", lambda _, member, *__, name=name, **___: extracted.append(getattr(member, name))
        )
    refused(folder, archive, "larger than the 1000000 bytes allowed", at_most=1_000_000)
    assert extracted == list(GOOD)


def test_a_bomb_that_declares_a_small_size_is_refused(folder):
    archive = zipped(folder / "set", {"Set/zeros": bytes(50_000_000)})
    size, declared = (number.to_bytes(4, "little") for number in (50_000_000, 10))
    archive.write_bytes(archive.read_bytes().replace(size, declared))
    refused(folder, archive, "damaged|Bad CRC")


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
)
def test_a_header_that_is_a_bomb_is_not_read(folder, kind):
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 300_000_000
    with gzip.open(folder / "set", "wb", compresslevel=1) as packed:
        packed.write(header.tobuf())
        for _ in range(300):
            packed.write(bytes(1_000_000))
    assert (folder / "set").stat().st_size < 3_000_000
    refused(folder, folder / "set", "a header of 300000000 bytes")


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("share", [0.5, 0.0])
def test_truncated_archives(folder, pack, share):
    archive = pack(folder / "set", {**GOOD, "Set/noise": bytes(range(256)) * 50})
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    refused(folder, archive, "fetch it again", at_most=100_000)


def test_missing_repeated_and_damaged_members(folder):
    archive = zipped(folder / "set", {"Set/ratings.csv": b"", "Set/notes.txt": b""})
    refused(folder, archive, r"expected one '\*\*/images' in it, got 0.*Set/notes.txt")
    archive = zipped(folder / "set", GOOD)
    with zipfile.ZipFile(archive, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("Set/ratings.csv", b"other")
    refused(folder, archive, r"'Set/ratings.csv' occurs twice")
    archive = zipped(folder / "set", {**GOOD, "Set/images/3.jpg": bytes(range(256)) * 50})
    content = bytearray(archive.read_bytes())
    content[content.index(b"Set/images/3.jpg") + 40] ^= 0xFF
    archive.write_bytes(content)
    refused(folder, archive, "damaged", at_most=100_000)


def test_existing_files_are_unchanged_and_leftovers_removed(folder):
    (folder / "images").mkdir()
    (folder / "images" / "mine.jpg").write_bytes(b"mine")
    (folder / ".set.draft" / "images").mkdir(parents=True)  # left by a killed process
    archive = zipped(folder / "set", {**GOOD, "__MACOSX/images/._1.jpg": b""})
    assert unpack(archive, TAKE, 1000) == ["images"]
    assert [path.name for path in (folder / "images").iterdir()] == ["mine.jpg"]
    assert (folder / "ratings.csv").exists()
    assert not (folder / ".set.draft").exists()
    shutil.rmtree(folder / "images")
    unpack(archive, TAKE, 1000)
    assert (folder / "images" / "1.jpg").read_bytes() == b"one"
