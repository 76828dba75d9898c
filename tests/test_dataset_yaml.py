"""What a dataset's YAML says takes effect, what is typed wins, and nothing is overridden in silence."""

import pytest
from omegaconf import OmegaConf

from src import configs
from src.errors import InputError
from tests.commands import command
from tests.conftest import places

DEFAULTS = """# @package _global_
defaults:
  - demo
{overrides}  - _self_
"""
SPANISH = ["La palabra {}", "Es la palabra {}"]


@pytest.fixture
def composed(tmp_path):
    """Composes a job on a dataset whose YAML lies in a folder of the user's."""

    def make(body, *overrides, chooses=(), entry="run"):
        for folder in ("dataset", "template_set"):
            (tmp_path / folder).mkdir(exist_ok=True)
        chosen = "".join(f"  - override /{choice}\n" for choice in chooses)
        text = DEFAULTS.format(overrides=chosen) + OmegaConf.to_yaml(OmegaConf.create(body))
        (tmp_path / "dataset" / "mine.yaml").write_text(text if body else text.replace("{}\n", ""))
        (tmp_path / "template_set" / "spanish.yaml").write_text(
            f"# @package _global_\n{OmegaConf.to_yaml(OmegaConf.create({'templates': SPANISH}))}"
        )
        given = [f"hydra.searchpath=[file://{tmp_path}]", "dataset=mine", *overrides]
        return configs.compose(given, entry)[0]

    return make


@pytest.fixture
def paper():
    """The six templates of the paper."""
    return list(configs.compose([])[0].templates)


def test_a_dataset_chooses_its_templates(composed):
    assert composed({}, chooses=["template_set: spanish"]).templates == SPANISH


def test_a_dataset_writes_its_templates(composed):
    assert composed({"templates": SPANISH}).templates == SPANISH


@pytest.mark.parametrize("way", ["chosen", "written"])
def test_templates_that_are_typed_win(composed, way):
    body, chooses = ({}, ["template_set: spanish"]) if way == "chosen" else ({"templates": SPANISH}, [])
    assert composed(body, "templates=['the {}','a {}']", chooses=chooses).templates == ["the {}", "a {}"]


def test_a_template_set_that_is_typed_wins(composed, paper):
    assert len(paper) == 6
    assert composed({}, "template_set=paper", chooses=["template_set: spanish"]).templates == paper
    assert composed({}, "template_set=spanish").templates == SPANISH
    with pytest.raises(
        InputError, match=r"mine.yaml writes templates.*template_set=paper.*templates=\["
    ) as raised:
        composed({"templates": SPANISH}, "template_set=paper")
    assert "traceback" not in str(raised.value).lower()
    assert composed({"templates": SPANISH}, "template_set=paper", "templates=['a {}']").templates == ["a {}"]


@pytest.mark.parametrize(
    ("key", "value", "typed"),
    [
        ("seed", 7, 8),
        ("resume", False, True),
        ("report", False, True),
        ("protocol.k", 60, 70),
        ("debias.strength", 3.0, 4.0),
        ("trainer.workers", 1, 2),
        ("tracking.uri", "sqlite:///mine.db", "sqlite:///typed.db"),
        ("store.dir", "mine", "typed"),
        ("taxonomy.name", "mine", "typed"),
        ("faces.per_group", 5, 6),
        ("scenes.count", 5, 6),
        ("words.count", 5, 6),
        ("labels.gender_words.Women", ["dame"], ["lady"]),
        ("dataset.root", "mine", "typed"),
        ("demo.bias", 0.5, 0.25),
    ],
)
def test_what_a_dataset_writes_takes_effect_and_what_is_typed_wins(composed, key, value, typed):
    body = OmegaConf.create()
    OmegaConf.update(body, key, value)
    assert OmegaConf.select(composed(body), key) == value
    text = f"[{','.join(typed)}]" if isinstance(typed, list) else typed
    assert OmegaConf.select(composed(body, f"{key}={text}"), key) == typed


@pytest.mark.parametrize(
    "choice", ["protocol: k_100", "debias: orth_proj", "trainer: ddp", "taxonomy: sobit"]
)
def test_a_dataset_chooses_of_any_group_before_it(composed, choice):
    group, name = choice.split(": ")
    assert composed({}, chooses=[choice])[group] == configs.compose([f"{group}={name}"])[0][group]


@pytest.mark.parametrize(
    ("body", "entry"),
    [
        ({"model": {"batch_size": 1}}, "run"),
        ({"exp": {"paper": "mine"}}, "run"),
        ({"llm": {"name": "mine"}}, "generate"),
        ({"task": {"paper": "mine"}}, "generate"),
    ],
)
def test_what_no_dataset_decides_is_refused(composed, body, entry):
    (key,) = body
    with pytest.raises(InputError, match=f"mine.yaml writes {key}.*type {key}"):
        composed(body, entry=entry)


@pytest.mark.parametrize("task", ["subtler_en", "poem"])
def test_a_dataset_with_templates_can_be_shown_to_a_multimodal_model(composed, task):
    chosen = composed({"seed": 7}, f"task={task}", chooses=["template_set: spanish"], entry="generate")
    assert chosen.seed == 7


def test_a_refusal_ends_the_command_without_a_traceback(composed, tmp_path, capsys):
    composed({}, chooses=["template_set: spanish"])
    path = tmp_path / "dataset" / "mine.yaml"
    path.write_text(path.read_text() + "model:\n  batch_size: 1\n")
    arguments = [f"--config-dir={tmp_path}", "dataset=mine", *places(tmp_path / "stores")]
    assert command(tmp_path / "output", *arguments).code == 1
    text = "".join(capsys.readouterr())
    assert f"{path} writes model" in text
    assert "Traceback" not in text
