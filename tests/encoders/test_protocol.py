"""Each family of the table answers for the config class that the table gives it."""

import pytest

from src import configs
from src.encoders import family_of, published_encoder
from src.errors import InputError


@pytest.mark.parametrize("name", configs.FAMILIES)
def test_a_family_is_its_config_s(name):
    config, _ = configs.FAMILIES[name]
    family = family_of(config())
    assert (family.name, family.config) == (name, config)
    assert configs.SCHEMAS[name] is config


@pytest.mark.parametrize(
    ("role", "pooling", "several"),
    [("faces", "max", True), ("faces", "mean", False), ("words", "max", False)],
)
def test_blip2_has_several_vectors_of_an_image_unless_they_are_pooled(role, pooling, several):
    model = configs.Blip2Config(pooling=pooling)
    assert family_of(model).several(model, role) is several


def test_a_family_is_not_another_s(job):
    with pytest.raises(InputError, match=r"model.family=blip2: must be one of toy"):
        job("model=toy_s", "model.family=blip2")


def test_vectors_that_others_computed_have_no_encoder(tmp_path):
    with pytest.raises(InputError, match="expected an encoder, got vectors"):
        published_encoder(configs.PrecomputedConfig(path=str(tmp_path)), "cpu")
