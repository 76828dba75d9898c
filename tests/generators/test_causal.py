"""Check language models on this machine: answers, templates of questions (clocks, draws at random), files."""

import datetime
import json
from collections import ChainMap

import pytest
import torch
from safetensors.torch import load_file, save_file

from src import configs
from src.configs import HfConfig, VlmHfConfig
from src.errors import InputError
from src.generators import model_weights
from src.generators.language_models import Causal, Multimodal
from src.jobs.identity import resolve
from tests.generators import checkpoint

CPU = torch.device("cpu")
# Templates that read the clock, as those of Llama 3.2, gpt-oss, Mistral Small and Granite do, and texts.
CLOCKS = {
    "llama": (
        "{%- if not date_string is defined %}{%- if strftime_now is defined %}"
        "{%- set date_string = strftime_now('%d %b %Y') %}{%- else %}{%- set date_string = 'never' %}"
        "{%- endif %}{%- endif %}\n\n  {% if true %}Today Date: {{ date_string }}{% endif %}\n",
        "\nToday Date: 26 Jul 2024",
    ),
    "gpt-oss": (
        '{%- macro system() -%}Current date: {{ strftime_now("%Y-%m-%d") }}{%- endmacro -%}{{ system() }}',
        "Current date: 2024-07-26",
    ),
    "mistral": (
        "{%- set today = strftime_now('%Y-%m-%d') %}{{ today }}, before it {{ today[8:]|int - 1 }}",
        "2024-07-26, before it 25",
    ),
    "chinese": (
        "{{ strftime_now('%Y年%m月%d日') }} {{ strftime_now(\"it's %H:%M\") }}",
        "2024年07月26日 it's 00:00",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return checkpoint.write_checkpoint(tmp_path_factory.mktemp("model"))


def opened(folder, **changes):
    config = HfConfig(**{"id": str(folder), "precision": "fp32", "batch_size": 5, "most": 6, **changes})
    return model_weights.load(model_weights.locate(config), CPU)


@pytest.fixture(scope="module")
def model(folder):
    return opened(folder)


def test_the_chat_template_wraps_a_question(model, tmp_path):
    assert model.tokenizer.decode(model.tokenize_question("Hi")) == "<|user|>Hi\n<|assistant|>"
    plain = opened(checkpoint.write_checkpoint(tmp_path / "plain", chat=False))
    assert plain.tokenizer.decode(plain.tokenize_question("Hi")) == "Hi\n"
    assert model.tokenizer.decode(model.tokenize_answer("ok")) == "ok"


def test_free_answers_are_those_of_each_question_alone(model):
    texts = ["a", "a longer question", "b?", "which one", "and this is the longest of all", "six", "7"]
    together = dict(ChainMap(*model.generate_answers(texts, max_new_tokens=6)))
    for index, text in enumerate(texts):
        question = torch.tensor([model.tokenize_question(text)])
        tokens = question
        for _ in range(6):  # greedy, one token at a time
            token = model.model(tokens).logits[0, -1].argmax()
            if token == model.tokenizer.eos_token_id:
                break
            tokens = torch.cat([tokens, token[None, None]], dim=1)
        alone = model.tokenizer.decode(tokens[0, question.shape[1] :], skip_special_tokens=True)
        assert together[index] == alone


def test_half_precision_and_shards_load(folder, tmp_path):
    assert opened(folder, precision="bf16").model.dtype == torch.bfloat16
    sharded = checkpoint.write_checkpoint(tmp_path / "sharded", shard="20KB")
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    single, other = (dict(opened(path).model.named_parameters()) for path in (folder, sharded))
    assert all(torch.equal(single[name], other[name]) for name in single)


def without_a_tensor(place):
    tensors = load_file(place / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, place / "model.safetensors", {"format": "pt"})


def truncated(place):
    path = place / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-900])


def with_setting(**setting):
    def write(place):
        path = place / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | setting))

    return write


def another(kind):
    return lambda place: (place / "config.json").write_text(json.dumps({"model_type": kind}))


def without(name):
    return lambda place: (place / name).unlink()


TEXTS, PICTURES = (checkpoint.causal, HfConfig), (checkpoint.idefics3, VlmHfConfig)


@pytest.mark.parametrize(
    ("kind", "spoil", "message"),
    [
        (TEXTS, without("model.safetensors"), r"model\.safetensors"),
        (TEXTS, without("tokenizer.json"), r"tokenizer\.json"),
        (TEXTS, truncated, "cannot be loaded"),
        (TEXTS, with_setting(intermediate_size=65), "cannot be loaded"),
        (TEXTS, without_a_tensor, "1 tensors are missing or have another shape"),
        (TEXTS, another("clip"), "cannot be loaded"),
        (PICTURES, without("processor_config.json"), r"processor_config\.json or preprocessor_config\.json"),
        (PICTURES, another("qwen2"), "cannot be loaded"),
    ],
)
def test_incomplete_checkpoints_are_refused(tmp_path, kind, spoil, message):
    family, config = kind
    spoil(checkpoint.write_checkpoint(tmp_path / "model", family))
    with pytest.raises(InputError, match=message):
        model_weights.load(model_weights.locate(config(id=str(tmp_path / "model"))), CPU)


def test_other_weights_than_configured_are_refused(folder):
    published = model_weights.locate(HfConfig(id=str(folder), sha256="0" * 64))
    with pytest.raises(InputError, match=r"expected SHA-256 0000.* \(llm\.sha256\)"):
        published.read_metadata()
    digest = model_weights.locate(HfConfig(id=str(folder))).read_metadata()["sha256"]
    assert (
        model_weights.locate(HfConfig(id=str(folder), sha256=digest)).read_metadata()["revision"] == "folder"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"id": " "}, r"llm\.id is empty"),
        pytest.param({"id": "owner/no-such-model"}, "owner/no-such-model", marks=pytest.mark.thorough),
        ({"id": "no such folder"}, "neither a folder that exists nor owner/name"),
    ],
)
def test_an_absent_model_is_reported(config, message, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match=message):
        model_weights.locate(HfConfig(**config))


def composed(*overrides):
    return resolve(configs.compose(["trainer=cpu", *overrides], "generate")[0])[0]


@pytest.mark.parametrize(("llm", "kind"), [("tiny", Causal), ("tiny_vlm", Multimodal)])
def test_a_model_made_on_the_spot_has_random_weights(llm, kind):
    weights, load = model_weights.find_weights(composed(f"llm={llm}"))
    assert weights == {"revision": "random"}
    assert isinstance(load(), kind)


@pytest.mark.parametrize(
    ("llm", "family", "kind"), [("hf", checkpoint.causal, Causal), ("vlm_hf", checkpoint.llava, Multimodal)]
)
def test_files_are_hashed_and_load(tmp_path, llm, family, kind):
    folder = checkpoint.write_checkpoint(tmp_path, family)
    weights, load = model_weights.find_weights(composed(f"llm={llm}", f"llm.id={folder}"))
    assert weights["revision"] == "folder"
    assert len(weights["sha256"]) == len(weights["config.json"]) == 64
    assert isinstance(load(), kind)


class Clock(datetime.datetime):
    """Clock whose time a fixture sets."""

    today_: datetime.datetime

    @classmethod
    def now(cls, tz=None):
        return cls.today_


@pytest.fixture(params=[(2025, 1, 2, 3, 4), (2031, 12, 24, 15, 30)])
def day(request, monkeypatch):
    monkeypatch.setattr(Clock, "today_", datetime.datetime(*request.param), raising=False)
    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", Clock)


def with_template(folder, template):
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def seeing_folder(tmp_path_factory):
    return checkpoint.write_checkpoint(tmp_path_factory.mktemp("seeing"), checkpoint.idefics3)


@pytest.mark.parametrize("which", CLOCKS)
def test_a_question_does_not_depend_on_the_day(folder, which, day):
    template, rendered = CLOCKS[which]
    with_template(folder, template + checkpoint.TEMPLATE)
    model = opened(folder)
    assert model.tokenizer.decode(model.tokenize_question("Hi")) == rendered + "<|user|>Hi\n<|assistant|>"


def test_the_day_can_be_chosen_and_is_recorded(folder, tmp_path):
    with_template(folder, CLOCKS["llama"][0] + checkpoint.TEMPLATE)
    chosen = model_weights.locate(HfConfig(id=str(folder), date="2020-02-29"))
    model = model_weights.load(chosen, CPU)
    assert "Today Date: 29 Feb 2020" in model.tokenizer.decode(model.tokenize_question("Hi"))
    assert chosen.read_metadata()["chat_date"] == "2020-02-29"
    assert model_weights.locate(HfConfig(id=str(folder))).read_metadata()["chat_date"] == "2024-07-26"
    with_template(folder, checkpoint.TEMPLATE)
    assert (
        "chat_date" not in model_weights.locate(HfConfig(id=str(folder), date="2020-02-29")).read_metadata()
    )
    # Older repositories have the template in a JSON.
    (folder / "chat_template.jinja").unlink()
    described = json.loads((folder / "tokenizer_config.json").read_text())
    described["chat_template"] = [{"name": "default", "template": CLOCKS["llama"][0] + checkpoint.TEMPLATE}]
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    old = model_weights.locate(HfConfig(id=str(folder)))
    assert old.read_metadata()["chat_date"] == "2024-07-26"
    model = model_weights.load(old, CPU)
    assert "Today Date: 26 Jul 2024" in model.tokenizer.decode(model.tokenize_question("Hi"))


@pytest.mark.parametrize("date", ["2024-02-30", "26 Jul 2024", ""])
def test_what_is_no_day_is_refused(folder, date):
    with pytest.raises(InputError, match=r"llm\.date=.*YYYY-MM-DD"):
        model_weights.locate(HfConfig(id=str(folder), date=date))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ ['a', 'b'] | random }}", r"draws at random \(random\)"),
        ("{{ lipsum(n=1) }}", r"draws at random \(lipsum\)"),
    ],
)
def test_a_template_that_draws_by_lot_is_refused_before_the_model_is_read(folder, template, message):
    with_template(folder, template + checkpoint.TEMPLATE)
    with pytest.raises(InputError, match=message):
        model_weights.locate(HfConfig(id=str(folder)))
    with_template(folder, "random lipsum {# {{ x|random }} #}{{ 'lipsum' }}" + checkpoint.TEMPLATE)
    model_weights.locate(HfConfig(id=str(folder)))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ strftime_now('%' ~ 'Y') }}", "strftime_now needs a format that is written in the template"),
        ("{{ raise_exception('only tools') }}", "only tools"),
        ("{% if %}", "cannot be rendered"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_the_model_s_error(folder, seeing_folder, template, message):
    with_template(folder, template)
    with pytest.raises(InputError, match=message):
        opened(folder).tokenize_question("Hi")
    with_template(seeing_folder, template)
    with pytest.raises(InputError, match=message):
        model_weights.load(model_weights.locate(VlmHfConfig(id=str(seeing_folder))), CPU).render_prompt("Hi")
