"""What of a generative model's config decides its answers, and what it is called."""

from dataclasses import replace
from unittest import mock

import pandas as pd
import pytest

from src import configs
from src.configs import studies
from src.jobs import generator_job
from src.storage.cache import fingerprint
from src.studies.generator_protocol import GeneratorResult
from src.studies.subtler.answers import is_free
from tests.generators import checkpoint
from tests.generators.test_chat_templates import CLOCKS, with_template


def task(tmp_path, *overrides):
    few = ["task.domains=[ageism]", "task.count=12", f"store.answers={tmp_path}/logs"]
    return generator_job.Task.of(*configs.compose([*few, *overrides], "generate"), str(tmp_path / "out"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return checkpoint.saved(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(("template", "dated"), [(CLOCKS["llama"][0], True), ("", False)])
def test_a_date_is_in_key_and_log_where_a_chat_template_asks_for_it(folder, tmp_path, template, dated):
    with_template(folder, template + checkpoint.TEMPLATE)
    chosen = ["llm=hf", f"llm.id={folder}", "llm.name=m"]
    jobs = [task(tmp_path, *chosen), task(tmp_path, *chosen, "llm.date=2020-02-29")]
    prepared = [generator_job.prepare(job) for job in jobs]
    dates = ["2024-07-26", "2020-02-29"] if dated else [None, None]
    assert [found.weights.get("chat_date") for found in prepared] == dates
    logs = [
        generator_job.answer_log(job, found.weights, "free", is_free)
        for job, found in zip(jobs, prepared, strict=True)
    ]
    assert (logs[0].path != logs[1].path) == dated
    assert jobs[1].model == "m+2020-02-29"
    assert generator_job.key(prepared[0]) != generator_job.key(prepared[1])


def test_a_log_from_before_the_options_of_a_server_is_read(tmp_path):
    chosen = ["llm=openai_compatible", "llm.url=http://127.0.0.1:9/v1", "llm.id=m", "answer=generate"]
    before = {"name": None, "url": "http://127.0.0.1:9/v1", "id": "m", "most": 32}
    log = generator_job.answer_log(task(tmp_path, *chosen), {}, "free", is_free)
    assert log.path.stem == fingerprint([before, {}, "free"])
    other = task(tmp_path, *chosen, "llm.limit=max_completion_tokens", "llm.temperature=null")
    assert generator_job.answer_log(other, {}, "free", is_free).path != log.path
    assert other.model == "openai_compatible+max_completion_tokens+temperature=None"


def test_the_runner_writes_and_logs_what_a_study_gives(tmp_path, monkeypatch):
    job = task(tmp_path, "llm=tiny")
    table = pd.DataFrame({"direction": ["SAI"], "n": [3]})
    calls, run = [], mock.Mock()

    def answer(cfg, inputs, generator, columns):
        assert generator.load().model is not None
        with generator.log("free", is_free) as log:
            log.keep({"a": "b"})
        calls.append((cfg, len(inputs.rows), columns))
        return GeneratorResult(
            table, {"answers": table}, {"items": 3.0}, {"note": "x"}, {"subtler": table[["n"]]}
        )

    study = replace(studies.load("subtler"), run=answer)
    monkeypatch.setattr(generator_job, "study_of", lambda _: study)
    prepared = generator_job.prepare(job)
    rows = generator_job.perform(prepared, run)
    assert calls == [(job.cfg, 12, job.columns)]
    assert rows.columns.tolist() == [*job.columns, "direction", "n"]
    sheet = pd.read_csv(tmp_path / "out" / "results" / "subtler.csv")
    assert sheet.to_dict("records") == [{"model": "tiny", "task": "subtler_en", "n": 3}]
    first, last = run.log.call_args_list
    assert first.kwargs["tags"] == {
        "input.ageism.yaml": prepared.inputs.hashes["ageism.yaml"],
        "weights.revision": "random",
    }
    assert last.kwargs["metrics"] == {"items": 3.0}
    assert last.kwargs["tags"].items() >= {"key": generator_job.key(prepared), "note": "x"}.items()
    run.inputs.assert_called_once_with(prepared.inputs.hashes)
    logs = [generator_job.answer_log(job, prepared.weights, "free", is_free).path]
    assert [*(tmp_path / "logs").iterdir()] == logs


def test_only_fields_that_a_study_names_decide(tmp_path):
    hashes = {task(tmp_path, "llm=tiny", more).config_hash for more in ("seed=0", "dataset=demo")}
    assert len(hashes) == 1
    assert task(tmp_path, "llm=tiny", "answer=generate").config_hash not in hashes
