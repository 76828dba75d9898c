"""What of a generative model's config decides its answers, and what it is called."""

import pytest

from src import configs
from src.generators.answers import is_free
from src.jobs import generator_job, question_runner
from src.storage.cache import fingerprint
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
    prepared = [question_runner.prepare(job) for job in jobs]
    dates = ["2024-07-26", "2020-02-29"] if dated else [None, None]
    assert [found.weights.get("chat_date") for found in prepared] == dates
    logs = [
        generator_job.kept(job, found.weights, "free", is_free)
        for job, found in zip(jobs, prepared, strict=True)
    ]
    assert (logs[0].path != logs[1].path) == dated
    assert jobs[1].model == "m+2020-02-29"
    assert question_runner.key(prepared[0]) != question_runner.key(prepared[1])


def test_a_log_from_before_the_options_of_a_server_is_read(tmp_path):
    chosen = ["llm=openai_compatible", "llm.url=http://127.0.0.1:9/v1", "llm.id=m", "answer=generate"]
    before = {"name": None, "url": "http://127.0.0.1:9/v1", "id": "m", "most": 32}
    log = generator_job.kept(task(tmp_path, *chosen), {}, "free", is_free)
    assert log.path.stem == fingerprint([before, {}, "free"])
    other = task(tmp_path, *chosen, "llm.limit=max_completion_tokens", "llm.temperature=null")
    assert generator_job.kept(other, {}, "free", is_free).path != log.path
    assert other.model == "openai_compatible+max_completion_tokens+temperature=None"
