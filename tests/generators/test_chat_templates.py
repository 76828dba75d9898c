"""Chat templates that read the clock, or draw by lot."""

import datetime
import json

import pytest
import torch

from src.configs import HfConfig, VlmHfConfig
from src.errors import InputError
from src.generators import hub_weights
from src.generators.chat_templates import pinned
from tests.generators import checkpoint, seeing

CPU = torch.device("cpu")
# As Llama 3.2's, gpt-oss's, Mistral Small's and Granite's do.
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
    "granite": ("\n{% set now = strftime_now %}{{ now('%B %d, %Y') }}", "\nJuly 26, 2024"),
    "chinese": (
        "{{ strftime_now('%Y年%m月%d日') }} {{ strftime_now(\"it's %H:%M\") }}",
        "2024年07月26日 it's 00:00",
    ),
}


class Clock(datetime.datetime):
    """A clock that somebody turns."""

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
def folder(tmp_path_factory):
    return checkpoint.saved(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def seeing_folder(tmp_path_factory):
    return seeing.saved(tmp_path_factory.mktemp("seeing"))


@pytest.mark.parametrize("which", CLOCKS)
def test_a_question_does_not_depend_on_the_day(folder, which, day):
    template, rendered = CLOCKS[which]
    with_template(folder, template + checkpoint.TEMPLATE)
    model = hub_weights.load(hub_weights.find(HfConfig(id=str(folder))), CPU)
    assert model.tokenizer.decode(model.question("Hi")) == rendered + "<|user|>Hi\n<|assistant|>"


@pytest.mark.parametrize("which", ["llama", "gpt-oss"])
def test_a_prompt_with_a_picture_does_not_depend_on_the_day(seeing_folder, which, day):
    template, rendered = CLOCKS[which]
    with_template(seeing_folder, template + seeing.TEMPLATE)
    model = hub_weights.load(hub_weights.find(VlmHfConfig(id=str(seeing_folder))), CPU)
    assert model.question("Hi <image>") == rendered + "<|user|>Hi <image><|assistant|>"


def test_the_day_can_be_chosen_and_is_part_of_what_a_model_is(folder, tmp_path):
    with_template(folder, CLOCKS["llama"][0] + checkpoint.TEMPLATE)
    chosen = hub_weights.find(HfConfig(id=str(folder), date="2020-02-29"))
    model = hub_weights.load(chosen, CPU)
    assert "Today Date: 29 Feb 2020" in model.tokenizer.decode(model.question("Hi"))
    assert chosen.said()["chat_date"] == "2020-02-29"
    assert hub_weights.find(HfConfig(id=str(folder))).said()["chat_date"] == "2024-07-26"
    with_template(folder, checkpoint.TEMPLATE)
    assert "chat_date" not in hub_weights.find(HfConfig(id=str(folder), date="2020-02-29")).said()
    # Older repositories have the template in a JSON.
    (folder / "chat_template.jinja").unlink()
    described = json.loads((folder / "tokenizer_config.json").read_text())
    described["chat_template"] = [{"name": "default", "template": CLOCKS["llama"][0] + checkpoint.TEMPLATE}]
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    old = hub_weights.find(HfConfig(id=str(folder)))
    assert old.said()["chat_date"] == "2024-07-26"
    model = hub_weights.load(old, CPU)
    assert "Today Date: 26 Jul 2024" in model.tokenizer.decode(model.question("Hi"))


@pytest.mark.parametrize("date", ["yesterday", "2024-02-30", "26 Jul 2024", ""])
def test_what_is_no_day_is_refused(folder, date):
    with pytest.raises(InputError, match=r"llm\.date=.*YYYY-MM-DD"):
        hub_weights.find(HfConfig(id=str(folder), date=date))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ ['a', 'b'] | random }}", r"draws by lot \(random\)"),
        ("{{ lipsum(n=1) }}", r"draws by lot \(lipsum\)"),
    ],
)
def test_a_template_that_draws_by_lot_is_refused_before_the_model_is_read(folder, template, message):
    with_template(folder, template + checkpoint.TEMPLATE)
    with pytest.raises(InputError, match=message):
        hub_weights.find(HfConfig(id=str(folder)))
    with_template(folder, "random lipsum {# {{ x|random }} #}{{ 'lipsum' }}" + checkpoint.TEMPLATE)
    hub_weights.find(HfConfig(id=str(folder)))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ strftime_now('%' ~ 'Y') }}", "a format of the date that is built while it renders"),
        ("{{ raise_exception('only tools') }}", "only tools"),
        ("{{ messages.nowhere.at_all }}", "no attribute"),
        ("{% if %}", "cannot be rendered"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_an_error_of_the_model(
    folder, seeing_folder, template, message
):
    with_template(folder, template)
    with pytest.raises(InputError, match=message):
        hub_weights.load(hub_weights.find(HfConfig(id=str(folder))), CPU).question("Hi")
    with_template(seeing_folder, template)
    with pytest.raises(InputError, match=message):
        hub_weights.load(hub_weights.find(VlmHfConfig(id=str(seeing_folder))), CPU).question("Hi")


def test_a_template_without_a_clock_stays_as_it_is():
    day = datetime.date(2024, 7, 26)
    assert pinned("{{ 'strftime_now' }} strftime_now", day) == "{{ 'strftime_now' }} strftime_now"
    assert pinned(None, day) is None
