"""Parsers of what models are asked and answer: items, domains, kept and free answers, replies, captions."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
import requests

from src import configs
from src.generators import answer_log, completions
from src.studies.subtler import answers, domains, item_composition, items, parsing, scoring
from tests.fuzz.harness import Parser
from tests.fuzz.structured import json_changed, parquet_changed, yaml_changed
from tests.studies.subtler.made import row, written

DOMAIN = """\
domain: tried
language: en
stimuli:
  pairs:
  - [neat, scruffy]
  - [fit, flabby]
  neutral: [tall, short-haired]
attributes:
  positive: [kind, honest]
  negative: [rude, sly]
  neutral: [quiet, talkative]
forms: {own: [his, her, their]}
templates:
  also: "{They} {are} {stimulus}, and I am told that {they} {are} also {attribute}."
  street: 'Our street calls {them} {stimulus} and {attribute}, {own} way.'
"""


def asked(folder: Path) -> None:
    rows = [
        row(target_gender=gender, type_category=kind, response=answer)
        for gender in ("male", "female", "not_spacified")
        for kind in ("type1", "type2")
        for answer in ("rigid", "Option 2: adaptable.", "", "no idea")
    ]
    written(folder / "items.csv", rows)


def read_items(folder: Path) -> pd.DataFrame:
    found = items.read(folder / "items.csv")
    if "response" in found:
        scoring.coded(found, "published")
    return found


def all_items(folder: Path, found: pd.DataFrame) -> None:
    text = (folder / "items.csv").read_bytes().decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    rows = [row for row in csv.reader(io.StringIO(text), strict=True) if any(cell.strip() for cell in row)]
    assert len(found) == len(rows) - 1, "rows"
    assert found.drop(columns="response", errors="ignore").notna().all().all()
    found.to_csv().encode()


def composed(folder: Path) -> pd.DataFrame:
    return item_composition.compose(domains.read(folder / "domain.yaml"), count=12, seed=0)


def twelve(folder: Path, found: pd.DataFrame) -> None:
    assert len(found) == 12
    items.of(found, folder / "domain.yaml")


def logged(folder: Path) -> None:
    lines = [json.dumps({"key": f"k{number}", "answer": f"answer {number}"}) for number in range(3)]
    (folder / "kept.jsonl").write_text("".join(f"{line}\n" for line in lines))


def kept_answers(folder: Path) -> dict:
    with answer_log.Kept(folder / "kept.jsonl", answers.is_free) as found:
        return dict(found.known)


def all_texts(folder: Path, found: dict) -> None:
    assert all(isinstance(answer, str) for answer in found.values())
    json.dumps(found).encode()


def said(folder: Path) -> int | None:
    text = (folder / "answer.txt").read_bytes().decode("utf-8", "surrogateescape")
    options = ["Yale University", "a, b", "x"]
    found = parsing.match(text, options)
    assert found in (None, 0, 1, 2)
    assert parsing.match(options[0], [text, options[0]]) in (None, 1)
    return found


def replied(folder: Path) -> completions.Reply:
    reply = requests.Response()
    reply.status_code, reply.raw = 200, io.BytesIO((folder / "reply.json").read_bytes())
    return completions.read(reply, configs.ServerConfig(url="http://there/v1", id="m"), "http://there/v1")


def text_or_reason(folder: Path, found: completions.Reply) -> None:
    text = found if isinstance(found, str) else found.reason
    text.encode()


def captioned(folder: Path) -> None:
    from tests.studies.sobit.captions.made import written  # polars, whose threads no fork survives

    written(folder / "a.parquet", pa.array(["a king", None, "", "a calm woman"] * 5))


def counted(folder: Path) -> tuple[int, Counter]:
    from src.studies.sobit.captions import files, stream

    (path,) = files.found(str(folder))
    file = files.opened(path)
    column = files.column_of([file], "")
    broken: Counter[str] = Counter()
    texts = sum(len(batch) for batch in stream.captions(file, column, broken, {}))
    return texts + sum(broken.values()), file


def every_row(folder: Path, found: tuple) -> None:
    assert found[0] == found[1].rows, "rows are captions or counted"


REPLY = {"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "rigid"}}]}
PLACE = r"row \d|position \d+|no column|no such|no items|stands there twice|only one direction|cells"

PARSERS = [
    Parser("subtler: csv", "items.csv", asked, read_items, all_items, place=PLACE),
    Parser("domain: yaml", "domain.yaml", lambda folder: (folder / "domain.yaml").write_text(DOMAIN),
           composed, twelve, ":,[-{&*!", named=("domain ",), change=yaml_changed),
    Parser("answers: kept", "kept.jsonl", logged, kept_answers, all_texts, ':,"{'),
    Parser("answers: free text", "answer.txt",
           lambda folder: (folder / "answer.txt").write_text('**Option 2:** "Yale University."'), said,
           separators=' :".*'),
    Parser("answers: chat reply", "reply.json",
           lambda folder: (folder / "reply.json").write_text(json.dumps(REPLY)), replied, text_or_reason,
           ':,"[{', change=json_changed),
    Parser("captions: parquet", "a.parquet", captioned, counted, every_row, change=parquet_changed,
           named=("path=",)),
]  # fmt: skip
