"""Check objects named in configs, and that a dataset's YAML takes effect unless values are typed."""

import pytest
from omegaconf import OmegaConf

from src import configs
from src.configs import registry
from src.errors import InputError

KNOWN = {"join": "os.path:join", "broken": "no_such_module:THING"}


def test_registered_names_and_module_attributes_are_imported():
    import os.path

    assert registry.load("x", "join", KNOWN, object) is os.path.join
    assert registry.load("x", "os.path:join", {}, object) is os.path.join
    with pytest.raises(ModuleNotFoundError):  # of a broken entry: no mistake of the user
        registry.load("x", "broken", KNOWN, object)


@pytest.mark.parametrize(
    ("name", "known", "message"),
    [
        ("jion", KNOWN, "x: unknown name 'jion'. Did you mean 'join'? Known: join, broken; or name your own"),
        ("no_such:THING", KNOWN, "x=no_such:THING: cannot be imported (No module named 'no_such')"),
        ("os:sep", KNOWN, "x=os:sep: expected int, got str"),
        ("unfinished:THING", KNOWN, "x=unfinished:THING: cannot be imported ('(' was never closed"),
    ],
)
def test_an_invalid_name_is_refused(tmp_path, monkeypatch, name, known, message):
    (tmp_path / "unfinished.py").write_text("THING = (\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InputError) as raised:
        registry.load("x", name, known, int)
    assert message in str(raised.value)


DEFAULTS = """# @package _global_
defaults:
  - demo
{overrides}  - _self_
"""
SPANISH = ["La palabra {}", "Es la palabra {}"]


@pytest.fixture
def composed(tmp_path):
    """Return a function that composes a job on a dataset whose YAML is in a folder of the user."""

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


def test_a_dataset_decides_its_templates_unless_they_are_typed(composed):
    paper = list(configs.compose([])[0].templates)
    for body, chooses in (({}, ["template_set: spanish"]), ({"templates": SPANISH}, [])):
        assert composed(body, chooses=chooses).templates == SPANISH
        assert composed(body, "templates=['the {}','a {}']", chooses=chooses).templates == ["the {}", "a {}"]
    assert composed({}, "template_set=paper", chooses=["template_set: spanish"]).templates == paper
    assert composed({}, "template_set=spanish").templates == SPANISH
    with pytest.raises(InputError, match=r"mine.yaml sets templates.*template_set=paper.*templates=\["):
        composed({"templates": SPANISH}, "template_set=paper")
    assert composed({"templates": SPANISH}, "template_set=paper", "templates=['a {}']").templates == ["a {}"]


@pytest.mark.parametrize(
    ("key", "value", "typed"),
    [
        ("seed", 7, 8),
        ("protocol.k", 60, 70),
        ("tracking.uri", "sqlite:///mine.db", "sqlite:///typed.db"),
        ("faces.per_group", 5, 6),
        ("labels.gender_words.Women", ["dame"], ["lady"]),
        ("dataset.root", "mine", "typed"),
        ("demo.bias", 0.5, 0.25),
    ],
)
def test_values_of_a_dataset_take_effect_unless_typed(composed, key, value, typed):
    body = OmegaConf.create()
    OmegaConf.update(body, key, value)
    assert OmegaConf.select(composed(body), key) == value
    text = f"[{','.join(typed)}]" if isinstance(typed, list) else typed
    assert OmegaConf.select(composed(body, f"{key}={text}"), key) == typed


@pytest.mark.parametrize(
    ("body", "entry"), [({"model": {"batch_size": 1}}, "run"), ({"task": {"paper": "mine"}}, "generate")]
)
def test_keys_that_no_dataset_decides_are_refused(composed, body, entry):
    (key,) = body
    with pytest.raises(InputError, match=f"mine.yaml sets {key}.*add {key}"):
        composed(body, entry=entry)
