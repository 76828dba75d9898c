"""Test that toys refuse to train on faces that are for evaluation only, and are loaded in half precision."""

from dataclasses import replace

import pytest

from src import configs, encoders, stimuli
from src.encoders.toy import open_toy
from src.errors import InputError
from tests.conftest import store_overrides
from tests.encoders.test_precision import largest_error, skip_unless_computed
from tests.recorded.vectors import TINY, embed


@pytest.mark.parametrize(("config_class", "title"), configs.EVALUATION_ONLY.items())
def test_faces_for_evaluation_only_train_no_toy(job, config_class, title):
    cfg = job("model=toy_m").cfg
    message = f"toy_m is trained on the faces of the dataset, and {title} is for evaluation only. Choose"
    for faces in (config_class(), configs.MorphsConfig(parents=config_class())):
        with pytest.raises(InputError, match=message):
            open_toy(replace(cfg, faces=faces), {})


def test_a_trained_toy_is_loaded_in_half_precision(job, tmp_path):
    skip_unless_computed("bf16")
    opened = []
    for precision in ("fp32", "bf16"):
        cfg = job(*TINY, *store_overrides(tmp_path), f"model.precision={precision}").cfg
        opened.append(encoders.open_encoder(cfg, lambda role, cfg=cfg: stimuli.load(cfg, role)))
    single, half = opened
    assert single.identify_weights() == half.identify_weights()
    assert {*half.identity["parts"]} - {*single.identity["parts"]} == {"encoders.half_precision"}
    exact, rounded = (embed(encoder.load()) for encoder in opened)
    for name in exact:
        assert 0 < largest_error(rounded[name], exact[name]) < 1e-3
