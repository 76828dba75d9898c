"""Archives that would fill memory or disk (what wants out of its folder: tests/stimuli/test_unpack.py)."""

import gzip
import io
import tarfile
import time
import tracemalloc
import zipfile

import pytest

from src.errors import InputError
from src.stimuli.unpack import unpack

TAKE = {"**/ratings.csv": "ratings.csv"}
ALLOWED = 1_000_000


def refused(path, said):
    tracemalloc.start()
    start = time.monotonic()
    with pytest.raises(InputError, match=said):
        unpack(path, TAKE, ALLOWED)
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()
    assert time.monotonic() - start < 60
    assert [item.name for item in path.parent.iterdir()] == [path.name]


def header(name, kind, size):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf()


@pytest.mark.parametrize(
    "kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]
)
def test_a_header_that_is_a_bomb_is_not_read(tmp_path, kind):
    with gzip.open(tmp_path / "a", "wb", compresslevel=1) as packed:
        packed.write(header("x", kind, 300_000_000))
        for _ in range(300):
            packed.write(bytes(1_000_000))
    assert (tmp_path / "a").stat().st_size < 3_000_000
    refused(tmp_path / "a", "a header of 300000000 bytes")


def test_a_bomb_of_zeros_is_refused_before_the_disk_is_full(tmp_path):
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("ratings.csv", bytes(50_000_000))
    refused(tmp_path / "a", "larger than the 1000000 bytes allowed")


def test_a_member_that_says_it_is_small_is_cut_or_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("ratings.csv", bytes(50_000_000))
    content = (tmp_path / "a").read_bytes()
    (tmp_path / "a").write_bytes(
        content.replace((50_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    )
    refused(tmp_path / "a", "damaged|Bad CRC")


@pytest.mark.parametrize("form", ["zip", "tar"])
def test_members_without_end_are_counted_though_they_are_empty(tmp_path, form, monkeypatch):
    monkeypatch.setattr("src.stimuli.unpack.MOST", 2_000)
    number = 5_000
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "a", "w") as packed:
            for place in range(number):
                packed.writestr(f"{place}/", b"")
    else:
        with tarfile.open(tmp_path / "a", "w:gz") as packed:
            for place in range(number):
                packed.addfile(tarfile.TarInfo(str(place)), io.BytesIO())
    refused(tmp_path / "a", "is one of more than 2000")


def test_members_that_share_their_bytes_count_each(tmp_path):
    """Fifield's bomb: many entries of the directory over one and the same content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("0", bytes(900_000))
        one = packed.infolist()[0]
        for place in range(1, 20):
            info = zipfile.ZipInfo(str(place))
            info.header_offset, info.file_size = one.header_offset, one.file_size
            info.compress_size, info.CRC, info.compress_type = one.compress_size, one.CRC, one.compress_type
            packed.filelist.append(info)
            packed.NameToInfo[str(place)] = info
        packed._didModify = True
    (tmp_path / "a").write_bytes(made.getvalue())
    refused(tmp_path / "a", "larger than|damaged")
