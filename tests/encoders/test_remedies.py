"""The command that an error names as remedy fetches the very model that is missing."""

import json
import shlex
from dataclasses import fields

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from src import configs, encoders
from src.encoders import __main__ as entry
from src.encoders import remedies
from src.errors import InputError
from tests.encoders import published as made

PARSER = OverridesParser.create()
# What decides which files are fetched.
IDENTITY = ("id", "revision", "sha256", "weights")
BLIP2 = {"id": "Salesforce/blip2-itm-vit-g", "revision": "520bf73f"}


def parsed(message):
    """The model that a message's command fetches."""
    command = message.partition("python -m src.encoders fetch ")[2]
    assert command, message
    return entry._published(shlex.split(command))


def identity(model):
    return type(model), *(getattr(model, name) for name in IDENTITY)


@pytest.mark.parametrize(
    "model",
    [
        configs.OpenClipConfig(id="ViT-B-32-quickgelu/openai", revision="a6f597a3", sha256="0" * 64),
        configs.OpenClipConfig(id="ViT-B-32-quickgelu/openai", revision="1234567"),
        configs.OpenClipConfig(id="ViT-B-32-quickgelu/openai", revision="12e4567"),
        configs.OpenClipConfig(id="hf-hub:lab/encoder"),
        configs.OpenClipConfig(id="hf-hub:lab/encoder", revision="null", weights="random"),
        configs.OpenClipConfig(id="ViT-B-16-SigLIP2/webli", weights="random"),  # lacks its tokeniser
        configs.Blip2Config(**BLIP2),
        configs.Blip2Config(**BLIP2 | {"revision": ""}),
        configs.Blip2Config(id="Salesforce/blip2-itm-vit-g-coco", weights="random"),
    ],
)
def test_the_command_names_what_is_missing(cache, model):
    with pytest.raises(InputError) as raised:
        encoders.published_encoder(model, "cpu").weights()
    assert identity(parsed(str(raised.value))) == identity(model)


def test_a_folder_whose_text_tower_is_on_the_hub_is_fetched_by_its_name(cache, tmp_path):
    described = {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16},
        "text_cfg": {"hf_model_name": "lab/text", "hf_tokenizer_name": "lab/words"},
    }
    config = json.dumps({"model_cfg": described, "preprocess_cfg": {}}).encode()
    folder = made.folder({"open_clip_config.json": config} | made.tokenizer(), tmp_path / "it's, mine")
    model = configs.OpenClipConfig(id=str(folder))
    with pytest.raises(InputError, match="lab/text: config.json not in the cache") as raised:
        encoders.published_encoder(model, "cpu")
    assert identity(parsed(str(raised.value))) == identity(model)


@pytest.mark.parametrize(
    "model", [configs.OpenClipConfig(id="hf-hub:a/b/c"), configs.Blip2Config(id="/no/folder")]
)
def test_what_cannot_be_fetched_names_no_command(cache, model):
    with pytest.raises(InputError, match="Correct the name") as raised:
        encoders.published_encoder(model, "cpu")
    assert "src.encoders fetch" not in str(raised.value)


TEXTS = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: "${" not in text  # OmegaConf resolved it
)


@given(id=TEXTS, revision=TEXTS, kind=st.sampled_from(configs.PretrainedConfig.__subclasses__()))
def test_the_command_keeps_any_name(id, revision, kind):
    command = remedies.fetch_command(kind(id=id, revision=revision))
    overrides = PARSER.parse_overrides(shlex.split(command)[4:])
    values = {override.key_or_group: override.value() for override in overrides}
    assert values.get("model.id", "") == id
    assert values.get("model.revision", "") == revision


def test_each_family_of_published_encoders_has_its_command():
    for family in configs.PretrainedConfig.__subclasses__():
        assert "id" in {field.name for field in fields(family)}
        assert f"model={family.family} " in remedies.fetch_command(family(id="a/b"))
