"""List parsers of questions and answers: items, domains, logged and free answers, replies, captions."""

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2
import pandas as pd
import pyarrow as pa

from src import configs
from src.api.failures import AmbiguousFailure, Unanswered
from src.encoders import embedding_requests
from src.generators import completions
from src.storage import answer_log
from src.studies.eat.published_tests import SETS, read_tests
from src.studies.subtler import answers, domains, item_composition, items, parsing, scoring
from tests.fuzz.harness import Parser
from tests.fuzz.structured import json_changed, parquet_changed, yaml_changed
from tests.studies.subtler.item_files import row, write_csv

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
  also: "{They} {are} {stimulus}, and I hear that {they} {are} also {attribute}."
  street: 'Our street calls {them} {stimulus} and {attribute}, {own} way.'
"""


def write_items(folder: Path) -> None:
    rows = [
        row(target_gender=gender, type_category=kind, response=answer)
        for gender in ("male", "female", "not_spacified")  # as published
        for kind in ("type1", "type2")
        for answer in ("rigid", "Option 2: adaptable.", "", "no idea")
    ]
    write_csv(folder / "items.csv", rows)


def read_items(folder: Path) -> pd.DataFrame:
    table = items.read_items(folder / "items.csv")
    if "response" in table:
        scoring.code_answers(table, "published")
    return table


def all_items(folder: Path, table: pd.DataFrame) -> None:
    # Lines above the header are titles, and cells that the parser does not read may hold any bytes.
    text = (folder / "items.csv").read_bytes().decode("utf-8-sig", "surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text), strict=True)]
    rows = [row for row in rows if any(row)]
    header = next(number for number, row in enumerate(rows) if {*items.COLUMNS} <= {*row})
    assert len(table) == len(rows) - 1 - header, "rows"
    assert table.drop(columns="response", errors="ignore").notna().all().all()
    table.to_csv().encode()


def twelve(folder: Path, table: pd.DataFrame) -> None:
    assert len(table) == 12
    items.parse_items(table, folder / "domain.yaml")


def stored_answers(folder: Path) -> dict:
    with answer_log.AnswerLog(folder / "kept.jsonl", answers.is_free_answer) as log:
        return dict(log.known)


def matched_option(folder: Path) -> int | None:
    text = (folder / "answer.txt").read_bytes().decode("utf-8", "surrogateescape")
    options = ["Yale University", "a, b", "x"]
    option = parsing.match_option(text, options)
    assert option in (None, 0, 1, 2)
    assert parsing.match_option(options[0], [text, options[0]]) in (None, 1)
    return option


def reply_of(path: Path) -> httpx2.Response:
    return httpx2.Response(200, content=path.read_bytes())


def replied(folder: Path) -> str | Unanswered | AmbiguousFailure:
    config = configs.ServerConfig(url="http://there/v1", id="m")
    return completions.parse_reply(reply_of(folder / "reply.json"), config, "http://there/v1")


def embedded(folder: Path) -> embedding_requests.Embedding | Unanswered | AmbiguousFailure:
    config = configs.ServedConfig(url="http://there/v1", id="m")
    return embedding_requests.parse_embedding(reply_of(folder / "embedding.json"), config, "http://there/v1")


def of_unit_length(_: Path, reply: embedding_requests.Embedding | Unanswered | AmbiguousFailure) -> None:
    if isinstance(reply, embedding_requests.Embedding):
        assert abs(float((reply.vector.astype(float) ** 2).sum()) - 1) < 1e-5


def write_caption_file(folder: Path) -> None:
    from tests.studies.sobit.captions.examples import write_captions  # polars' threads do not survive a fork

    write_captions(folder / "a.parquet", pa.array(["a king", None, "", "a calm woman"] * 5))


def counted(folder: Path) -> tuple[int, Any]:
    from src.studies.sobit.captions import counting, files

    (path,) = files.list_files(str(folder))
    file = files.read_footer(path)
    column = files.choose_column([file], "")
    broken: Counter[str] = Counter()
    texts = sum(len(batch) for batch in counting.read_captions(file, column, broken, {}))
    return texts + sum(broken.values()), file


def every_row(folder: Path, scan: tuple) -> None:
    assert scan[0] == scan[1].rows, "every row is a caption or counted as broken"


ASSOCIATION_TEST = {key: {"category": key, "examples": ["joy", "peace"]} for key in SETS}


def write_association_tests(folder: Path) -> None:
    columns = {
        f"{key}.{field}": value for key, items in ASSOCIATION_TEST.items() for field, value in items.items()
    }
    rows = [{"language": language, "weat": "WEAT1", **columns} for language in ("en", "ar")]
    pd.DataFrame(rows).to_parquet(folder / "tests.parquet")


LOG = '{"key": "a", "answer": "b"}\n{"key": "c", "answer": "d"}\n'
REPLY = {"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": "rigid"}}]}
EMBEDDING = {"model": "m", "data": [{"index": 0, "embedding": [0.25, -1e3, 7, 0]}]}
PLACE = r"row \d|position \d+|no column|no such|no items|occurs twice|only one direction|cells"

PARSERS = [
    Parser("subtler: csv", "items.csv", write_items, read_items, all_items, place=PLACE),
    Parser("domain: yaml", "domain.yaml", lambda folder: (folder / "domain.yaml").write_text(DOMAIN),
           lambda folder: item_composition.compose_items(domains.read_domain(folder / "domain.yaml"),
           count=12, seed=0), twelve, ":,[-{&*!", named=("domain ",), change=yaml_changed),
    Parser("answers: kept", "kept.jsonl",
           lambda folder: (folder / "kept.jsonl").write_text(LOG), stored_answers,
           lambda _, texts: "".join(texts.values()).encode(), ':,"{'),
    Parser("answers: free text", "answer.txt",
           lambda folder: (folder / "answer.txt").write_text('**Option 2:** "Yale University."'),
           matched_option, separators=' :".*'),
    Parser("answers: chat reply", "reply.json",
           lambda folder: (folder / "reply.json").write_text(json.dumps(REPLY)), replied,
           lambda _, reply: (reply if isinstance(reply, str) else reply.reason).encode(),
           ':,"[{', change=json_changed),
    Parser("answers: embedding", "embedding.json",
           lambda folder: (folder / "embedding.json").write_text(json.dumps(EMBEDDING)), embedded,
           of_unit_length, ':,"[{', change=json_changed),
    Parser("association tests: json", "tests.json",
           lambda folder: (folder / "tests.json").write_text(json.dumps(ASSOCIATION_TEST)),
           lambda folder: read_tests(folder / "tests.json"), separators=':,"[{', change=json_changed),
    Parser("association tests: parquet", "tests.parquet", write_association_tests,
           lambda folder: read_tests(folder / "tests.parquet"), change=parquet_changed),
    Parser("captions: parquet", "a.parquet", write_caption_file, counted, every_row, change=parquet_changed,
           named=("path=",)),
]  # fmt: skip
