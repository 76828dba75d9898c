"""Captions out of Parquet files: which files, which column, and what is counted as broken."""

import itertools
from collections import Counter

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src.errors import InputError
from src.studies.sobit.captions import counting, files, stream
from tests.studies.sobit.captions.made import LEXICON, code, written

GOOD = ["a calm man", "two criminals", "a white queen"]


def count(*paths, column="caption"):
    return counting.counted([files.opened(path) for path in paths], column, LEXICON)


def broken(found):
    return {kind: rows for kind, rows in found.broken.items() if rows}


def test_a_file_a_folder_and_a_pattern(tmp_path):
    one, two = (written(tmp_path / "in" / name, GOOD) for name in ("a.parquet", "below/b.parquet"))
    (tmp_path / "in" / "notes.txt").write_text("mine")
    assert files.found(str(one)) == [one]
    assert files.found(str(tmp_path / "in")) == [one, two]
    assert files.found(f"{tmp_path}/in/**/b.par*") == [two]
    odd = written(tmp_path / "odd" / "part[0].parquet", GOOD)
    assert files.found(str(odd)) == [odd]
    for wanted, said in (("nowhere", "no such file or folder"), ("empty", "holds no .parquet file")):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=said):
            files.found(f"{tmp_path}/{wanted}")


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_every_kind_of_text_is_read(tmp_path, kind):
    cells = pa.array([*GOOD, None, "", "  ", "a calm sea"]).cast(kind)
    found = count(written(tmp_path / "a.parquet", cells))
    assert found.counts.captions == 4
    assert found.rows == 7
    assert found.counts.words[code("calm")] == 2
    assert broken(found) == {"null": 1, "empty": 2}


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_bytes_that_are_no_utf8_are_counted(tmp_path, kind):
    cells = pa.array([b"a calm man", b"\xff\xfe calm", None, "a calm café".encode()]).view(pa.binary())
    if kind == pa.string():
        # Arrow does not look at what a writer calls a string.
        cells = pa.Array.from_buffers(kind, len(cells), cells.buffers())
    found = count(written(tmp_path / "a.parquet", cells))
    assert found.counts.words[code("calm")] == 2
    assert broken(found) == {"null": 1, "invalid_utf8": 1}


def test_a_shard_without_texts_is_counted_as_such(tmp_path):
    numbers = written(tmp_path / "a.parquet", [1, 2, None])
    nulls = written(tmp_path / "b.parquet", [None, None])
    found = count(numbers, nulls, written(tmp_path / "c.parquet", GOOD))
    assert found.counts.captions == 3
    assert broken(found) == {"null": 3, "not_text": 2}
    with pytest.raises(InputError, match="column caption holds int64, no text"):
        files.column_of([files.opened(numbers)], "caption")
    with pytest.raises(InputError, match=r"not one caption in 1 files \(2 null\)"):
        count(nulls)


def damaged(path, tmp_path, at):
    """The same bytes, but for some of row group 1."""
    metadata = pq.ParquetFile(path).metadata.row_group(at).column(1)
    start = metadata.dictionary_page_offset or metadata.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + metadata.total_compressed_size] = b"\xff" * metadata.total_compressed_size
    bad = tmp_path / f"bad-{path.name}"
    bad.write_bytes(content)
    return bad


def test_a_damaged_row_group_is_counted_and_the_others_are_read(tmp_path):
    path = written(tmp_path / "a.parquet", [*GOOD * 10], row_group_size=10)
    bad = damaged(path, tmp_path, 1)
    found = count(bad)
    assert found.rows == 30
    assert found.counts.captions == 20
    assert broken(found) == {"unreadable": 10}
    assert found.problems[str(bad)].startswith("row group 1: ")


@pytest.mark.thorough
def test_whichever_bit_is_wrong_every_row_that_is_promised_is_a_caption_or_counted(tmp_path):
    path = written(tmp_path / "a.parquet", ["a king", None, "", "a calm woman"] * 5)
    good, kinds = path.read_bytes(), set()
    for place, bit in itertools.product(range(len(good)), range(8)):
        bad = bytearray(good)
        bad[place] ^= 1 << bit
        path.write_bytes(bad)
        file, lost = files.opened(path), Counter()
        kinds.add(file.problem.partition(" ")[0] or "read")
        if not file.problem:
            seen = sum(map(len, stream.captions(file, files.column_of([file], ""), lost, {})))
            assert seen + sum(lost.values()) == file.rows, (place, bit)
    assert {"read", "its"} <= kinds


def test_rows_of_a_page_that_ends_early_are_counted(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", GOOD)
    read = pq.ParquetFile.iter_batches
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *of, **how: (b[:2] for b in read(*of, **how)))
    found = count(path)
    assert (found.counts.captions, broken(found)) == (2, {"unreadable": 1})
    assert found.problems == {str(path): "row group 0: 1 rows of its footer are not there"}


def test_files_that_are_cut_off_or_no_parquet_are_named(tmp_path):
    good = written(tmp_path / "good.parquet", GOOD)
    cut, short, text = (tmp_path / f"{name}.parquet" for name in ("cut", "short", "text"))
    cut.write_bytes(good.read_bytes()[:-40])
    short.write_bytes(b"PAR1")
    text.write_text("a calm man\n" * 10)
    opened = [files.opened(path) for path in (cut, good, short, text)]
    assert files.column_of(opened, "") == "caption"
    found = counting.counted(opened, "caption", LEXICON)
    assert found.counts.captions == 3
    assert set(found.problems) == {str(cut), str(short), str(text)}
    assert all(found.problems.values())
    with pytest.raises(InputError, match=r"none of 2 files can be read; the first: .*cut.parquet"):
        files.column_of([files.opened(cut), files.opened(text)], "")


def test_a_file_that_goes_meanwhile_is_counted(tmp_path):
    good, gone = (written(tmp_path / name, GOOD) for name in ("a.parquet", "b.parquet"))
    opened = [files.opened(good), files.opened(gone)]
    gone.unlink()
    found = counting.counted(opened, "caption", LEXICON)
    assert broken(found) == {"unreadable": 3}
    assert str(gone) in found.problems


def test_the_column_is_found_or_asked_for(tmp_path):
    def table(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / name)
        return files.opened(tmp_path / name)

    only = table("only.parquet", id=[1], words=["a"])
    usual = table("usual.parquet", url=["u"], TEXT=["a"], size=[1])
    unclear = table("unclear.parquet", url=["u"], alt=["a"])
    none = table("none.parquet", id=[1])
    assert files.column_of([only], "") == "words"
    assert files.column_of([usual], "") == "TEXT"
    assert files.column_of([usual], "url") == "url"
    with pytest.raises(InputError, match=r"several columns hold text. It has url \(string\), alt \(string\)"):
        files.column_of([unclear], "")
    with pytest.raises(InputError, match=r"no column holds text. It has id \(int64\)"):
        files.column_of([none], "")
    with pytest.raises(InputError, match=r"only.parquet: no column TEXT. It has id \(int64\), words"):
        files.column_of([usual, only], "")


def test_memory_is_flat_whatever_a_row_group_holds(tmp_path):
    """One row group of 60 MB is never held whole."""
    cells = pa.array([f"{number:07d} " + "a calm man at the sea " * 4 for number in range(600_000)])
    path = written(tmp_path / "a.parquet", cells, use_dictionary=False, compression="none")
    del cells
    assert path.stat().st_size > 50e6
    opened = files.opened(path)
    assert pq.ParquetFile(path).num_row_groups == 1
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for batch in stream.captions(opened, "caption", Counter(), {}):
        rows += len(batch)
        assert len(batch) <= stream.BATCH
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 600_000
    assert most < 16e6


def test_batches_are_of_one_size_and_few_bytes():
    small = [pl.Series(["a"] * 100)] * 500
    sizes = [len(batch) for batch in stream.gathered(small)]
    assert sum(sizes) == 50_000
    assert min(sizes[:-1]) >= stream.BATCH
    assert max(sizes) < stream.BATCH + 100
    long = list(stream.gathered([pl.Series(["long " * 200_000] * 60)]))
    assert sum(map(len, long)) == 60
    assert max(batch.estimated_size() for batch in long) <= stream.BYTES + 2e6
