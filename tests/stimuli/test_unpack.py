"""Archives that want out of their folder, and those that do not."""

import io
import stat
import tarfile
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
    """Below another folder, so that what escapes is seen."""
    inner = tmp_path / "root" / "dataset"
    inner.mkdir(parents=True)
    return inner


def zipped(path, members, link=None):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "/etc/passwd")
    return path


def tarred(path, members, special=None, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if special:
            info = tarfile.TarInfo("Set/images/special")
            info.type, info.linkname = special, "/etc/passwd"
            archive.addfile(info)
    return path


def everything(folder):
    """All that lies below the folder two above."""
    top = folder.parent.parent
    return sorted(path.relative_to(top).as_posix() for path in top.rglob("*"))


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_what_is_asked_for_is_taken_and_nothing_else(folder, pack):
    assert unpack(pack(folder / "set", GOOD), TAKE, 1000) == []
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    del files["set"]
    assert files == {"ratings.csv": b"a,1\n", "images/1.jpg": b"one", "images/b/2.jpg": b"two"}


@pytest.mark.parametrize("name", ["../evil", "Set/../../../evil", "/tmp/evil-member", "..\\evil"])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_no_member_leaves_the_folder(folder, pack, name):
    archive = pack(folder / "set", {**GOOD, name: b"evil"})
    before = everything(folder)
    with pytest.raises(InputError, match="would leave the folder"):
        unpack(archive, TAKE, 1000)
    assert everything(folder) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda path: zipped(path, GOOD, link="Set/images/link"),
        lambda path: tarred(path, GOOD, special=tarfile.SYMTYPE),
        lambda path: tarred(path, GOOD, special=tarfile.LNKTYPE),
        lambda path: tarred(path, GOOD, special=tarfile.CHRTYPE),
        lambda path: tarred(path, GOOD, special=tarfile.FIFOTYPE),
    ],
)
def test_links_and_devices_are_refused(folder, make):
    archive = make(folder / "set")
    before = everything(folder)
    with pytest.raises(InputError, match="is a link or a device"):
        unpack(archive, TAKE, 1000)
    assert everything(folder) == before


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_bomb_is_refused_before_it_is_unpacked(folder, pack, monkeypatch):
    archive = pack(folder / "set", {**GOOD, "Set/zeros": bytes(5_000_000)})
    assert archive.stat().st_size < 20_000
    extracted = []
    for kind, name in ((zipfile.ZipFile, "filename"), (tarfile.TarFile, "name")):
        monkeypatch.setattr(
            kind, "extract", lambda _, member, *__, name=name, **___: extracted.append(getattr(member, name))
        )
    with pytest.raises(InputError, match="larger than the 1000000 bytes allowed"):
        unpack(archive, TAKE, 1_000_000)
    assert extracted == list(GOOD)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


def test_a_lie_about_the_size_does_not_fill_the_disk(folder):
    archive = zipped(folder / "set", {"ratings.csv": bytes(5_000_000)})
    content = archive.read_bytes()
    archive.write_bytes(content.replace((5_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(InputError, match="damaged"):
        unpack(archive, {"ratings.csv": "ratings.csv"}, 1000)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_a_cut_archive_leaves_nothing(folder, pack, keep):
    archive = pack(folder / "set", {**GOOD, "Set/noise": bytes(range(256)) * 50})
    content = archive.read_bytes()
    archive.write_bytes(content[: int(keep * len(content))])
    with pytest.raises(InputError, match="fetch it anew"):
        unpack(archive, TAKE, 100_000)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


def test_a_damaged_member_leaves_nothing(folder):
    archive = zipped(folder / "set", {**GOOD, "Set/images/3.jpg": bytes(range(256)) * 50})
    content = bytearray(archive.read_bytes())
    content[content.index(b"Set/images/3.jpg") + 40] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        unpack(archive, TAKE, 100_000)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


def test_a_member_that_stands_twice_is_refused(folder):
    archive = zipped(folder / "set", GOOD)
    with zipfile.ZipFile(archive, "a") as opened, pytest.warns(UserWarning, match="Duplicate"):
        opened.writestr("Set/ratings.csv", b"other")
    with pytest.raises(InputError, match=r"'Set/ratings.csv' stands in it twice"):
        unpack(archive, TAKE, 1000)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


def test_what_has_its_name_already_is_kept_and_said(folder):
    (folder / "images").mkdir()
    (folder / "images" / "mine.jpg").write_bytes(b"mine")
    assert unpack(zipped(folder / "set", GOOD), TAKE, 1000) == ["images"]
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["mine.jpg"]
    assert (folder / "ratings.csv").exists()


def test_an_archive_without_what_is_asked_for_says_what_it_holds(folder):
    with pytest.raises(InputError, match=r"0 of '\*\*/images'.*Set/notes.txt"):
        unpack(zipped(folder / "set", {"Set/ratings.csv": b"", "Set/notes.txt": b""}), TAKE, 1000)
    assert everything(folder) == ["root", "root/dataset", "root/dataset/set"]


def test_copies_of_metadata_are_not_taken_for_the_folder(folder):
    unpack(zipped(folder / "set", {**GOOD, "__MACOSX/images/._1.jpg": b""}), TAKE, 1000)
    assert (folder / "images" / "1.jpg").read_bytes() == b"one"


def test_what_a_killed_process_left_is_cleared(folder):
    leftover = folder / ".set.draft"
    (leftover / "images").mkdir(parents=True)
    unpack(zipped(folder / "set", GOOD), TAKE, 1000)
    assert not leftover.exists()
