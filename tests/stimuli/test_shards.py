"""Test that pictures in Parquet files and tars are read in place, as if they were single files."""

import hashlib
import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from src.embeddings.batches import PictureBatches
from src.embeddings.image_cache import PictureReader
from src.errors import InputError
from src.stimuli import pictures, shards
from src.stimuli.csv_pictures import ABSENT_REMEDY
from tests.stimuli import drawn


def draw(folder, count=7):
    return [drawn.picture(folder / f"{number}.jpg", number) for number in range(count)]


def pack_tar(path, files, mode="w"):
    with tarfile.open(path, mode) as tar:
        for file in files:
            tar.add(file, f"./{file.name}")
    return path


def pack_parquet(path, files, rows_per_group=3, as_struct=True):
    contents = [file.read_bytes() for file in files]
    column = [{"bytes": content, "path": None} for content in contents] if as_struct else contents
    names = [file.name for file in files]
    pq.write_table(pa.table({"image": column, "name": names}), path, row_group_size=rows_per_group)
    return path


def list_paths(folder, kind, count=7):
    """Pack pictures, and return the paths of the single files and of the members."""
    files = draw(folder, count)
    if kind == "tar":
        shard = pack_tar(folder / "a.tar", files)
        return files, [f"{shard}/{file.name}" for file in files]
    # Row groups of more rows than batches in memory.
    shard = pack_parquet(folder / "a.parquet", files, max(3, count // 3), as_struct=kind == "struct")
    return files, [f"{shard}/image/{row}" for row in range(count)]


KINDS = ("tar", "struct", "bytes")


@pytest.mark.parametrize("kind", KINDS)
def test_members_are_decoded_sized_and_hashed_as_files(tmp_path, kind):
    files, members = list_paths(tmp_path, kind)
    for file, member in zip(files, members, strict=True):
        assert pictures.exists(member)
        assert np.array_equal(pictures.read(member), pictures.read(file))
        assert pictures.read_upright_size(member) == pictures.read_upright_size(file)
        assert pictures.hash_picture(member) == hashlib.sha256(file.read_bytes()).hexdigest()
    digests, _ = pictures.hash_pictures([*map(pictures.Path, members)])
    assert digests == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_any_order_threads_and_data_loader_processes_read_the_same(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(shards, "BATCH_BYTES", 2000)  # about one picture
    files, members = list_paths(tmp_path, kind, 30)
    expected = [np.asarray(pictures.read(file)) for file in files]
    order = [*range(29, -1, -1), *np.random.default_rng(0).permutation(30), *range(30)]
    with ThreadPoolExecutor(4) as pool:
        decoded = list(pool.map(lambda i: np.asarray(pictures.read(members[i])), order))
    assert all(np.array_equal(pixels, expected[i]) for pixels, i in zip(decoded, order, strict=True))
    reader = PictureReader([*map(str, members)])
    batches = PictureBatches(reader, 4, lambda picture: torch.from_numpy(np.array(picture)))
    loader = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=2)
    pixels = torch.cat([chunk for _, chunk in loader])
    assert np.array_equal(pixels.numpy(), np.stack(expected))


def test_few_rows_of_a_parquet_file_are_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "BATCH_BYTES", 6000)
    _, members = list_paths(tmp_path, "struct", 30)
    shard = pack_parquet(tmp_path / "a.parquet", draw(tmp_path, 30), rows_per_group=30)
    for member in members:
        pictures.read(member)
    column = shards._open_column(str(shard), shards._read_state(shard), "image", os.getpid())
    sizes = [len(batch) for batch in column.batches.values()]
    assert len(sizes) <= shards.MAX_BATCHES
    assert max(sizes) <= 5


def test_a_replaced_shard_is_indexed_again(tmp_path):
    files = draw(tmp_path, 3)
    member = f"{pack_tar(tmp_path / 'a.tar', files[:1])}/2.jpg"
    assert not pictures.exists(member)
    pack_tar(tmp_path / "a.tar", files)
    assert pictures.exists(member)


def test_a_region_is_cropped_after_the_picture_is_upright(tmp_path):
    path = drawn.picture(tmp_path / "a.jpg", 1)
    exif = Image.Exif()
    exif[274] = 6
    Image.open(path).save(tmp_path / "turned.jpg", exif=exif, quality=100, subsampling=0)
    for name in ("a.jpg", "turned.jpg"):
        full = np.asarray(pictures.read(tmp_path / name))
        region = f"{tmp_path / name}/3,5,12,900"
        assert np.array_equal(pictures.read(region), full[5:, 3:12])
        assert pictures.read_upright_size(region) == (9, full.shape[0] - 5)
    assert pictures.exists(f"{path}/0,0,1,1")
    assert not pictures.exists(f"{tmp_path / 'b.jpg'}/0,0,1,1")
    hashes = {pictures.hash_picture(f"{path}{end}") for end in ("", "/0,0,9,9", "/0,0,9,8")}
    assert len(hashes) == 3
    with pytest.raises(OSError, match=r"region 24,0,30,9 lies outside of the 24 x 20 pixels"):
        pictures.read(f"{path}/24,0,30,9")
    tar = pack_tar(tmp_path / "a.tar", [path])
    assert np.array_equal(pictures.read(f"{tar}/a.jpg/3,5,12,9"), np.asarray(pictures.read(path))[5:9, 3:12])


def test_a_file_or_folder_may_have_the_name_of_a_region_or_of_a_shard(tmp_path):
    for name in ("1,2,3,4", "b.tar/c.parquet/image/0"):
        path = drawn.picture(tmp_path / name, 1, form="PNG")
        assert pictures.exists(path)
        assert pictures.read(path).size == (24, 20)


def test_absent_members_are_counted_and_damaged_shards_are_refused(tmp_path):
    _, members = list_paths(tmp_path, "tar", 2)
    source = tmp_path / "a.csv"
    frame = pd.DataFrame({"path": [*members, f"{tmp_path}/a.tar/9.jpg"]})
    frame, notes = pictures.drop_absent(frame, source, tmp_path, "faces.root", ABSENT_REMEDY)
    assert (frame["path"].tolist(), notes) == (members, ["1 rows of a.csv have no picture"])
    (tmp_path / "a.tar").write_bytes(b"x" * 2000)
    with pytest.raises(InputError, match=r"a\.csv: .*not an uncompressed tar.*Put the pictures"):
        pictures.drop_absent(frame, source, tmp_path, "faces.root", ABSENT_REMEDY)


def test_a_compressed_tar_is_refused(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(b"x")
    frame = pd.DataFrame({"path": [f"{tmp_path}/a.tar.gz/0.jpg"]})
    with pytest.raises(InputError, match="compressed tar: unpack it"):
        pictures.drop_absent(frame, tmp_path / "a.csv", tmp_path, "faces.root", ABSENT_REMEDY)


def test_a_shard_behind_a_link_that_leads_out_is_refused(tmp_path):
    (tmp_path / "in").mkdir()
    files = draw(tmp_path / "out", 1)
    (tmp_path / "in/a.tar").symlink_to(pack_tar(tmp_path / "out/a.tar", files))
    frame = pd.DataFrame({"path": [f"{tmp_path}/in/a.tar/0.jpg"]})
    with pytest.raises(InputError, match="a link leads out of"):
        pictures.drop_absent(frame, tmp_path / "a.csv", tmp_path / "in", "faces.root", ABSENT_REMEDY)


def write_links(path):
    with tarfile.open(path, "w") as tar:
        for kind, name in ((tarfile.SYMTYPE, "link.jpg"), (tarfile.LNKTYPE, "hard.jpg")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry)
    return path


def write_names(path, *names):
    with tarfile.open(path, "w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 1
            tar.addfile(entry, io.BytesIO(b"x"))
    return path


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a.jpg", "../b.jpg"), r"row 2: '\.\./b\.jpg' leads out of faces\.pictures"),
        (("/etc/b.jpg",), "row 1: '/etc/b.jpg' is a full path"),
        (("a.jpg", "a.jpg"), r"the member 'a\.jpg' occurs twice\)\. Fetch it again, or unpack it"),
        (("a\udcff.jpg",), "row 1: a member's name is not UTF-8. Pack"),
    ],
)
def test_members_of_a_tar_that_lead_out_or_repeat_are_refused(tmp_path, names, message):
    with pytest.raises(InputError, match=message):
        shards.list_tar_members(write_names(tmp_path / "a.tar", *names), "faces.pictures")


def test_only_regular_members_of_bounded_size_are_read(tmp_path, monkeypatch):
    links = write_links(tmp_path / "links.tar")
    assert shards.list_tar_members(links, "faces.pictures") == []
    with pytest.raises(OSError, match=r"no regular file 'link\.jpg' in links\.tar"):
        pictures.read(f"{links}/link.jpg")
    monkeypatch.setattr(shards, "MAX_PICTURE_BYTES", 100)
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        _, members = list_paths(tmp_path / kind, kind, 1)
        with pytest.raises(OSError, match="bytes; the limit is 100"):
            pictures.read(members[0])


@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("image/9", "no row 9: the file has 7 rows"),
        ("image/x", "'image/x' is not COLUMN/ROW"),
        ("picture/0", "no column 'picture' of pictures"),
        ("name/0", "row 0 has no picture in column name"),
    ],
)
def test_rows_and_columns_without_a_picture_are_refused(tmp_path, member, message):
    shard = pack_parquet(tmp_path / "a.parquet", draw(tmp_path))
    with pytest.raises(OSError, match=message):
        pictures.read(f"{shard}/{member}")


def test_a_compressed_tar_is_refused_with_the_remedy(tmp_path):
    path = pack_tar(tmp_path / "a.tar", draw(tmp_path, 1), "w:gz")
    with pytest.raises(InputError, match=r"a\.tar: not an uncompressed tar.*unpack it"):
        shards.list_tar_members(path, "faces.pictures")


def test_columns_of_texts_are_read_without_the_pictures(tmp_path):
    shard = pack_parquet(tmp_path / "a.parquet", draw(tmp_path, 2))
    assert shards.read_texts(shard, ["name"], "")["name"].tolist() == ["0.jpg", "1.jpg"]
    for columns, message in ((["title"], "no column title; found image, name. Fetch"),
                             (["image"], "row 0: expected a text in column image")):  # fmt: skip
        with pytest.raises(InputError, match=message):
            shards.read_texts(shard, columns, "Fetch it again.")
