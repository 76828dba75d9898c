"""Captions that are no Parquet of texts: the refusal brings the command that makes them one."""

import gzip
import json
import re
import shlex
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from src.errors import InputError
from src.studies.sobit.captions import counting, files
from tests.studies.sobit.captions.made import LEXICON, written

CAPTIONS = ["a calm man, at sea", 'two "criminals"', "a white queen"]


def csv(separator=","):
    return pl.DataFrame({"n": [1, 2, 3], "caption": CAPTIONS}).write_csv(separator=separator)


OTHERS = {
    "a.csv": csv(),
    "A.CSV": csv(),
    "a.tsv": "n\tcaption\n" + "".join(f"{n}\t{caption}\n" for n, caption in enumerate(CAPTIONS)),
    "a.jsonl": "".join(json.dumps({"caption": caption}) + "\n" for caption in CAPTIONS),
    "a.ndjson": "".join(json.dumps({"caption": caption}) + "\n" for caption in CAPTIONS),
    "list.json": json.dumps(CAPTIONS),
    "rows.json": json.dumps([{"caption": caption} for caption in CAPTIONS]),
    "a.txt": "\n".join(CAPTIONS) + "\n",
    "it's a $1 list.csv": csv(),
    "a.csv.gz": gzip.compress(csv().encode()),
}


def converted(said, folder):
    """Run the command of a refusal, and return the file that it says to name then."""
    command, path = re.search(r"Convert it: (python -c .*) and then say path=(.*\.parquet)\.$", said).groups()
    python, option, code = shlex.split(command)
    assert (python, option) == ("python", "-c")
    exec(code, {})
    assert Path(path).parent == folder
    return Path(path)


def count(path):
    found = [files.opened(path)]
    return counting.counted(
        found, files.column_of(found, "caption" if len(found[0].columns) > 1 else ""), LEXICON
    )


@pytest.mark.parametrize("name", OTHERS)
def test_the_command_of_the_refusal_makes_captions_that_are_read(tmp_path, name):
    path = tmp_path / name
    content = OTHERS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as refused:
        files.column_of([files.opened(path)], "")
    said = str(refused.value)
    assert said.startswith(f"{path}: captions are read from Parquet, and this is ")
    found = count(converted(said, tmp_path))
    assert (found.counts.captions, found.counts.words.sum()) == (3, 2)


def test_a_folder_of_others_brings_the_command_of_the_first(tmp_path):
    for name in ("b.csv", "a.csv", "notes.md"):
        (tmp_path / name).write_text(csv())
    with pytest.raises(
        InputError, match=r"holds no .parquet file. .*a.csv: captions are read from Parq.*Convert"
    ):
        files.found(str(tmp_path))


def test_several_captions_a_row_are_given_rows_of_their_own(tmp_path):
    lists = pa.array([CAPTIONS[:2], None, [], CAPTIONS[2:]], pa.list_(pa.string()))
    path = written(tmp_path / "a.parquet", lists, column="captions")
    for column in ("", "captions"):
        with pytest.raises(
            InputError, match=r"a.parquet: column captions holds list<.*>, several"
        ) as refused:
            files.column_of([files.opened(path)], column)
    found = count(converted(str(refused.value), tmp_path))
    assert found.counts.captions == 3


def test_what_is_of_no_known_kind_says_what_is_needed(tmp_path):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"none of 1 files can be read.*Name others: path=FILE"):
        files.column_of([files.opened(tmp_path / "a.xlsx")], "")
