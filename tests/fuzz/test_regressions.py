"""Check files and settings that fuzzing found: each ended in a traceback, a hang, or silently lost rows."""

import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from src import configs, stage
from src.configs import composition
from src.encoders import hub
from src.errors import InputError
from src.studies.poems import poem_generation
from src.studies.subtler import answers
from tests.commands import command
from tests.fuzz import models
from tests.fuzz.harness import REFUSED, TABLE, tried
from tests.fuzz.parsers import NAMED
from tests.stimuli import drawn
from tests.stimuli.layouts import load

DEEP = b"[" * 100_000
SURROGATE = '["\\ud800x"]'
RECORD = b'{"url": "u", "bytes": 3, "sha256": "ab"}'


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def with_text_config(**fields):
    def changed(content):
        described = json.loads(content)
        described["model_cfg"]["text_cfg"] |= fields
        return json.dumps(described).encode()

    return changed


def parquet(change):
    def changed(content):
        output = io.BytesIO()
        pq.write_table(change(pq.read_table(io.BytesIO(content))), output)
        return output.getvalue()

    return changed


def column(number, cells):
    return parquet(lambda table: table.set_column(number, table.column_names[number], cells))


NOT_TEXT = pa.array([b"A photo of \x9a"] * models.ROWS).view(pa.string())
HUB_FIELDS = {"hf_tokenizer_name": "a/b", "hf_model_name": 5}


@pytest.mark.parametrize(
    ("parser", "change", "outcome"),
    [
        ("nrc_vad: text", b"", REFUSED),
        ("nrc_vad: text", b"term\tvalence\tarousal\n", REFUSED),
        *(("taxonomy: yaml", text.encode(), REFUSED)
          for text in ("[" * 3000, "? {a: 1}: b", "a: !!binary ''", "- " * 3000, f"crafts: {SURROGATE}")),
        ("taxonomy: json", b'{"crafts": %s}' % SURROGATE.encode(), REFUSED),
        ("domain: yaml", b"domain: %s" % SURROGATE.encode(), REFUSED),
        *(("download: record", content, REFUSED) for content in (DEEP, RECORD.replace(b"3", b'"3"'), b"[]")),
        ("fairface: csv", (b"Black,True", b'Black,"True'), REFUSED),
        ("fairface: csv", lambda content: content.partition(b"\n")[0] + b"\n", REFUSED),
        ("subtler: csv", (b",Option 2", b',"Option 2'), REFUSED),
        ("folder: csv", (b"left/1.png", b"left/" + b"a" * 300 + b".png"), TABLE),
        ("landmarks: tem", (b"\n3\n", b"\n-1\n"), REFUSED),
        ("archive: bz2", flipped, REFUSED),
        # A damaged entry is computed again.
        *(("store: manifest", content, TABLE)
          for content in (b'{"files": {}}', b'{"files": {"other": {"bytes": 3, "sha256": "ab"}}}', DEEP)),
        *(("open_clip: config", with_text_config(tokenizer_kwargs=kwargs, **HUB_FIELDS), REFUSED)
          for kwargs in (None, [{}], {"a": []})),
        ("transformers: index", b'{"weight_map": {"a": "%s"}}' % (b"x" * 300), REFUSED),
        ("transformers: tokenizer", b'{"version": "1.0", "model": {"type": "Nothing"}}', REFUSED),
        ("answers: kept", b'{"key": "a", "answer": 5}\n', REFUSED),
        ("answers: chat reply", b'{"choices": ' + DEEP, TABLE),
        *(("answers: embedding", (b"[0.25, -1000.0, 7, 0]", vector), TABLE)
          for vector in (b"[1%s]" % (b"0" * 400), b"[1e200, 1e200]", b"[1e-200, 1e-200]", b"[true]")),
        ("precomputed: faces.parquet", column(0, pa.array([[1]] * models.ROWS)), REFUSED),
        ("precomputed: faces.parquet",
         column(0, pa.array([f"f{n}" for n in range(models.ROWS)]).dictionary_encode()), TABLE),
        ("precomputed: faces.parquet", parquet(lambda t: t.append_column("ID", t.column("id"))), TABLE),
        ("precomputed: faces.parquet", parquet(lambda t: t.append_column("id", t.column("id"))), REFUSED),
        ("precomputed: prompts.parquet", column(1, NOT_TEXT), REFUSED),
    ],
)  # fmt: skip
def test_an_odd_file_is_read_or_refused_with_place_and_remedy(tmp_path, parser, change, outcome):
    parser = NAMED[parser]
    parser.draw(tmp_path)
    content = (tmp_path / parser.file).read_bytes()
    if isinstance(change, tuple):
        changed = content.replace(*change, 1)
    else:
        changed = change(content) if callable(change) else change
    assert changed != content
    assert tried(parser, tmp_path, changed, patient=True) == outcome


def test_impossible_ages_are_missing(tmp_path):
    path = drawn.cfd(tmp_path) / "norming.csv"
    content = path.read_bytes().replace(b"AF-001,NA,30.5", b"AF-001,NA,1e400")
    path.write_bytes(content.replace(b"AM-001,NA,31.5", b"AM-001,NA,-3"))
    frame, _, notes = load("cfd", tmp_path, norming="norming.csv")
    assert frame["age"].dropna().between(0, 130).all()
    assert any(note.startswith(f"{2 + 6} people have no age") for note in notes)


def test_a_name_that_is_not_utf_8_is_named_or_left_out(tmp_path):
    root = drawn.utkface(tmp_path)
    strange = os.fsencode(root) + b"/0caf\xe9\n.jpg"
    drawn.picture(tmp_path / "x.jpg").rename(Path(os.fsdecode(strange)))
    assert any("0caf\\udce9\\n.jpg" in note for note in load("utkface", root)[2])
    Path(os.fsdecode(strange)).rename(root / "20_0_0_20170100\udce9.jpg")
    with pytest.raises(InputError, match=r"20_0_0_20170100\\udce9.jpg: the name is not UTF-8. Rename"):
        load("utkface", root)


def test_an_answer_of_another_kind_does_not_fit():
    assert not answers.are_option_scores([[[float("nan")] * 3] * 6] * 2)
    assert not poem_generation.is_poem({"text": "a", "tokens": ["x"], "log_p": {}})


BAD = {"bad": b"name: [a\nb: }", "bytes": b"\xff\xfe", "twice": b"a: 1\na: 2\n", "deep": DEEP}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_yaml_of_a_config_is_named(tmp_path, monkeypatch, name):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "run.yaml").write_text(f"defaults: [_self_, {{model: {name}}}]\n")
    (tmp_path / "conf" / "model" / f"{name}.yaml").write_bytes(BAD[name])
    monkeypatch.setattr(composition, "CONF", tmp_path / "conf")
    with pytest.raises(InputError, match=rf"conf/model/{name}.yaml: .*\. Correct it\."):
        configs.compose([])


def test_a_bad_yaml_of_a_user_leads_to_no_traceback(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_bytes(BAD["bad"])
    arguments = f"--config-dir={tmp_path}", "model=mine", "exp=faces_to_words"
    assert command(tmp_path / "out", *arguments).code == 1
    printed = capsys.readouterr()
    assert f"{tmp_path}/model/mine.yaml: while parsing a flow sequence" in printed.err
    assert "Correct it." in printed.err
    assert "Traceback" not in printed.err + printed.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", r"while parsing a flow sequence.*Correct it"),
        (b"- a\n", "expected a mapping, got list"),
        (DEEP, "recursion.*Correct it"),
    ],
)
def test_bad_parameters_of_a_pipeline_are_refused(tmp_path, content, message):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(InputError, match=rf"params.yaml: .*{message}"):
        stage.read_params(["a"], tmp_path / "params.yaml")


def test_missing_files_are_named_in_few_words(tmp_path):
    with pytest.raises(InputError, match=r"no x{200}… \(in the folder: nothing\). Put it there") as refused:
        hub.locate_files(hub.Source(str(tmp_path), is_folder=True, remedy="Put it there."), [("x" * 10_000,)])
    assert len(str(refused.value)) < 1000
