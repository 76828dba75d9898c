"""Check captions read from Parquet: files, column, broken rows, and the conversion of other formats."""

import gzip
import itertools
import json
import re
import shlex
from collections import Counter
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src.errors import InputError
from src.studies.sobit.captions import counting, files
from tests.studies.sobit.captions.examples import LEXICON, word_index, write_captions

GOOD = ["a calm man", "two criminals", "a white queen"]
QUOTED = ["a calm man, at sea", 'two "criminals"', "a white queen"]


def count(path):
    opened = files.read_footer(path)
    column = files.choose_column([opened], "caption" if len(opened.columns) > 1 else "")
    return counting.count_files([opened], column, LEXICON)


def broken_rows(result):
    return {kind: rows for kind, rows in result.broken.items() if rows}


def test_a_file_a_folder_and_a_pattern(tmp_path):
    a, b = (write_captions(tmp_path / "in" / name, GOOD) for name in ("a.parquet", "below/b.parquet"))
    (tmp_path / "in" / "notes.txt").write_text("mine")
    assert files.list_files(str(a)) == [a]
    assert files.list_files(str(tmp_path / "in")) == [a, b]
    assert files.list_files(f"{tmp_path}/in/**/b.par*") == [b]
    bracketed = write_captions(tmp_path / "odd" / "part[0].parquet", GOOD)
    assert files.list_files(str(bracketed)) == [bracketed]
    for name, message in (
        ("nowhere", "no file or folder has this name"),
        ("empty", "contains no .parquet file"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            files.list_files(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_kind_of_text_is_read(tmp_path, kind):
    result = count(write_captions(tmp_path / "a.parquet", pa.array([*GOOD, None, "", "  "]).cast(kind)))
    assert (result.counts.captions, result.rows) == (3, 6)
    assert broken_rows(result) == {"null": 1, "empty": 2}


@pytest.mark.parametrize("kind", [pa.binary(), pa.string()])
def test_bytes_that_are_no_utf8_are_counted(tmp_path, kind):
    cells = pa.array([b"a calm man", b"\xff\xfe calm", None, "a calm café".encode()])
    # Arrow does not validate what a writer declares to be a string.
    cells = pa.Array.from_buffers(kind, len(cells), cells.buffers())
    result = count(write_captions(tmp_path / "a.parquet", cells))
    assert result.counts.words[word_index("calm")] == 2
    assert broken_rows(result) == {"null": 1, "invalid_utf8": 1}


def test_a_damaged_row_group_is_counted_and_the_others_are_read(tmp_path):
    path = write_captions(tmp_path / "a.parquet", [*GOOD * 10], row_group_size=10)
    metadata = pq.ParquetFile(path).metadata.row_group(1).column(1)
    start = metadata.dictionary_page_offset or metadata.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + metadata.total_compressed_size] = b"\xff" * metadata.total_compressed_size
    path.write_bytes(content)
    result = count(path)
    assert result.rows == 30
    assert result.counts.captions == 20
    assert broken_rows(result) == {"unreadable": 10}
    assert result.problems[str(path)].startswith("row group 1: ")


@pytest.mark.thorough
def test_whichever_bit_is_flipped_every_row_is_a_caption_or_counted(tmp_path):
    path = write_captions(tmp_path / "a.parquet", ["a king", None, "", "a calm woman"] * 5)
    good, kinds = path.read_bytes(), set()
    for offset, bit in itertools.product(range(len(good)), range(8)):
        bad = bytearray(good)
        bad[offset] ^= 1 << bit
        path.write_bytes(bad)
        file, lost = files.read_footer(path), Counter()
        kinds.add(file.problem.partition(" ")[0] or "read")
        if not file.problem:
            captions = sum(map(len, counting.read_captions(file, files.choose_column([file], ""), lost, {})))
            assert captions + sum(lost.values()) == file.rows, (offset, bit)
    assert {"read", "damaged:"} <= kinds


def test_files_that_are_cut_off_or_no_parquet_are_named(tmp_path):
    good = write_captions(tmp_path / "good.parquet", GOOD)
    cut, short, text = (tmp_path / f"{name}.parquet" for name in ("cut", "short", "text"))
    cut.write_bytes(good.read_bytes()[:-40])
    short.write_bytes(b"PAR1")
    text.write_text("a calm man\n" * 10)
    opened = [files.read_footer(path) for path in (cut, good, short, text)]
    assert files.choose_column(opened, "") == "caption"
    result = counting.count_files(opened, "caption", LEXICON)
    assert result.counts.captions == 3
    assert set(result.problems) == {str(cut), str(short), str(text)}
    assert all(result.problems.values())
    with pytest.raises(InputError, match=r"none of 2 files can be read; the first: .*cut.parquet"):
        files.choose_column([files.read_footer(cut), files.read_footer(text)], "")


def test_the_column_is_detected_or_required(tmp_path):
    def write_table(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / name)
        return files.read_footer(tmp_path / name)

    only = write_table("only.parquet", id=[1], words=["a"])
    usual = write_table("usual.parquet", url=["u"], TEXT=["a"], size=[1])
    unclear = write_table("unclear.parquet", url=["u"], alt=["a"])
    none = write_table("none.parquet", id=[1])
    assert files.choose_column([only], "") == "words"
    assert files.choose_column([usual], "") == "TEXT"
    assert files.choose_column([usual], "url") == "url"
    with pytest.raises(InputError, match=r"several columns are text. It has url \(string\), alt \(string\)"):
        files.choose_column([unclear], "")
    with pytest.raises(InputError, match=r"no column is text. It has id \(int64\). Write a file"):
        files.choose_column([none], "")
    with pytest.raises(InputError, match=r"only.parquet: no column TEXT. It has id \(int64\), words"):
        files.choose_column([usual, only], "")


def test_memory_is_flat_whatever_a_row_group_holds(tmp_path):
    """Check that a row group of 60 MB is never in memory as a single array."""
    cells = pa.array([f"{number:07d} " + "a calm man at the sea " * 4 for number in range(600_000)])
    path = write_captions(tmp_path / "a.parquet", cells, use_dictionary=False, compression="none")
    del cells
    assert path.stat().st_size > 50e6
    opened = files.read_footer(path)
    assert pq.ParquetFile(path).num_row_groups == 1
    before, largest, rows = pa.total_allocated_bytes(), 0, 0
    for batch in counting.read_captions(opened, "caption", Counter(), {}):
        rows += len(batch)
        assert len(batch) <= counting.BATCH_ROWS
        largest = max(largest, pa.total_allocated_bytes() - before)
    assert rows == 600_000
    assert largest < 16e6


# Captions in other formats: the error message has a command that converts them to Parquet.


CSV = pl.DataFrame({"n": [1, 2, 3], "caption": QUOTED}).write_csv()
OTHER_FORMATS = {
    "a.csv": CSV,
    "a.tsv": "n\tcaption\n" + "".join(f"{n}\t{caption}\n" for n, caption in enumerate(QUOTED)),
    "a.jsonl": "".join(json.dumps({"caption": caption}) + "\n" for caption in QUOTED),
    "list.json": json.dumps(QUOTED),
    "rows.json": json.dumps([{"caption": caption} for caption in QUOTED]),
    "coco.json": json.dumps(
        {"images": [{"id": 1}], "annotations": [{"image_id": 1, "caption": caption} for caption in QUOTED]}
    ),
    "a.txt": "\n".join(QUOTED) + "\n",
    "it's a $1 list.csv": CSV,
    "a.csv.gz": gzip.compress(CSV.encode()),
}


def run_conversion(message, folder):
    """Run the command of an error message; return the file that the message says to name next."""
    command, path = re.search(
        r"Convert it: (python -c .*) and then set path=(.*\.parquet)\.$", message
    ).groups()
    python, option, code = shlex.split(command)
    assert (python, option) == ("python", "-c")
    exec(code, {})
    assert Path(path).parent == folder
    return Path(path)


@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_the_command_of_the_refusal_makes_captions_that_are_read(tmp_path, name):
    path = tmp_path / name
    content = OTHER_FORMATS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        files.choose_column([files.read_footer(path)], "")
    message = str(error.value)
    assert message.startswith(f"{path}: expected Parquet, got ")
    result = count(run_conversion(message, tmp_path))
    assert (result.counts.captions, result.counts.words.sum()) == (3, 2)


def test_several_captions_a_row_become_separate_rows(tmp_path):
    lists = pa.array([QUOTED[:2], None, [], QUOTED[2:]], pa.list_(pa.string()))
    path = write_captions(tmp_path / "a.parquet", lists, column="captions")
    for column in ("", "captions"):
        with pytest.raises(InputError, match=r"a.parquet: column captions is list<.*>, several") as error:
            files.choose_column([files.read_footer(path)], column)
    result = count(run_conversion(str(error.value), tmp_path))
    assert result.counts.captions == 3


def test_files_of_unknown_formats_are_refused_with_a_remedy(tmp_path):
    (tmp_path / "a.csv").write_text(CSV)
    with pytest.raises(InputError, match=r"contains no .parquet file. .*a.csv: expected Parq.*Convert"):
        files.list_files(str(tmp_path))
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"none of 1 files can be read.*Name others: path=FILE"):
        files.choose_column([files.read_footer(tmp_path / "a.xlsx")], "")
