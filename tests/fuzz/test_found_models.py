"""What bad vectors, weights and answers once did, one by one (of stimuli: test_found.py)."""

import io
import json
import os

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from src import configs
from src.encoders import hub, transformers_files
from src.errors import InputError
from src.generators import answer_log, completions
from src.storage import cache
from src.studies.poems import poem_prompts
from src.studies.subtler import answers
from tests.fuzz import models


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.assign(id=[[1]] * 6), "faces"),
        (lambda frame: pd.concat([frame, frame["id"]], axis=1).set_axis(["id", "group", "ID"], axis=1), None),
        (lambda frame: frame.assign(id=frame["id"].astype("category")), None),
    ],
)
def test_a_table_of_odd_types_is_read_or_refused(tmp_path, change, said):
    models.vectors(tmp_path)
    frame = change(pd.read_parquet(tmp_path / "faces.parquet"))
    frame.to_parquet(tmp_path / "faces.parquet")
    if said is None:
        assert len(models.read("faces", tmp_path)[0].frame) == 6
        return
    with pytest.raises(InputError, match=said):
        models.read("faces", tmp_path)


def test_a_column_that_stands_twice_in_a_parquet_is_refused(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    models.vectors(tmp_path)
    columns = [["a"] * 6, ["g"] * 6, ["b"] * 6]
    pq.write_table(pa.table(columns, names=["id", "group", "id"]), tmp_path / "faces.parquet")
    with pytest.raises(
        InputError, match=r"faces.parquet: (the column id stands there twice|not a Parquet file)"
    ):
        models.read("faces", tmp_path)


@pytest.mark.parametrize("role", ["faces", "prompts"])
def test_a_column_of_bytes_that_are_no_text_is_refused(tmp_path, role):
    import pyarrow as pa
    import pyarrow.parquet as pq

    models.vectors(tmp_path)
    path = tmp_path / f"{role}.parquet"
    whole = pq.read_table(path)
    odd = pa.array([b"A photo of \x9a"] * len(whole)).view(pa.string())
    pq.write_table(whole.set_column(1, whole.column_names[1], odd), path)
    with pytest.raises(InputError, match=rf"{role}.parquet: not a Parquet file \(.*UTF8.*Write it anew"):
        models.prompts(tmp_path) if role == "prompts" else models.read(role, tmp_path)


def test_vectors_of_eight_bits_are_read_as_floats(tmp_path):
    models.vectors(tmp_path)
    ones = torch.nn.functional.one_hot(torch.arange(6) % 4, 4)
    save_file({"embedding": ones.to(torch.float8_e4m3fn)}, tmp_path / "words.safetensors")
    assert torch.equal(models.read("words", tmp_path)[1].vectors, ones.double())


@pytest.mark.parametrize("files", ["{}", '{"other": {"bytes": 3, "sha256": "ab"}}'])
def test_a_manifest_that_does_not_list_what_is_there_is_damage(tmp_path, files):
    models.stored(tmp_path)
    (tmp_path / "entry" / "manifest.json").write_text(f'{{"files": {files}}}')
    assert cache.damaged(tmp_path / "entry")
    assert cache.damaged(models.entry(tmp_path)) == ""


def test_a_manifest_that_is_a_pipe_or_nested_too_deeply_is_damage(tmp_path):
    models.stored(tmp_path)
    (tmp_path / "entry" / "manifest.json").write_text("[" * 100_000)
    assert "RecursionError" in cache.damaged(tmp_path / "entry")
    (tmp_path / "entry" / "manifest.json").unlink()
    os.mkfifo(tmp_path / "entry" / "manifest.json")
    assert cache.damaged(tmp_path / "entry") == "manifest.json is missing"
    assert cache.damaged(models.entry(tmp_path)) == ""


def test_a_file_in_an_index_may_be_called_anything(tmp_path):
    models.indexed(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "x" * 300}}))
    with pytest.raises(InputError, match="no x+… "):
        transformers_files.files(hub.Place(str(tmp_path), folder=True, remedy="Put it there."))


@pytest.mark.parametrize("kwargs", [None, [], 5, [{}], {"a": []}])
def test_what_lies_deep_in_a_config_is_of_any_type(tmp_path, kwargs):
    models.openclip("safetensors", tmp_path)
    path = tmp_path / "open_clip_config.json"
    described = json.loads(path.read_text())
    described["model_cfg"]["text_cfg"] |= {
        "tokenizer_kwargs": kwargs,
        "hf_tokenizer_name": "a/b",
        "hf_model_name": 5,
    }
    path.write_text(json.dumps(described))
    with pytest.raises(InputError):
        models.opened(tmp_path)


def test_a_tokeniser_that_is_none_is_refused(tmp_path):
    models.language(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Nothing"}}')
    with pytest.raises(InputError, match="cannot be loaded"):
        models.asked(tmp_path)


@pytest.mark.parametrize(
    ("fits", "answer", "right"),
    [
        (answers.is_free, 5, "yes"),
        (answers.is_free, None, "no"),
        (answers.is_weighed, [[1, 2], [3]], [[[0.0] * 3] * 6] * 2),
        (answers.is_weighed, [[[float("nan")] * 3] * 6] * 2, [[[-1.5] * 3] * 6] * 2),
        (
            poem_prompts.is_poem,
            {"text": "a", "tokens": ["x"], "log_p": {}},
            {"text": "a", "tokens": [1], "log_p": {"p": -1.0}},
        ),
        (poem_prompts.is_poem, "a", {"text": "", "tokens": [], "log_p": {}}),
    ],
)
def test_what_was_kept_of_another_kind_is_no_answer(tmp_path, fits, answer, right):
    path = tmp_path / "kept.jsonl"
    path.write_text(json.dumps({"key": "a", "answer": right}) + "\n")
    with answer_log.Kept(path, fits) as found:
        assert found.known == {"a": right}
    path.write_text(json.dumps({"key": "a", "answer": answer}) + "\n")
    with pytest.raises(InputError, match=r"kept.jsonl: not a log of answers. Delete it"):
        answer_log.Kept(path, fits)


def test_a_reply_that_is_nested_too_deeply_is_none():
    import requests

    reply = requests.Response()
    reply.status_code, reply.raw = 200, io.BytesIO(b'{"choices": ' + b"[" * 100_000)
    config = configs.ServerConfig(url="http://there/v1", id="m")
    assert isinstance(completions.read(reply, config, config.url), completions.Doubtful)
