"""Test that toys refuse to train on faces that are for evaluation only."""

from dataclasses import replace

import pytest

from src import configs
from src.encoders.toy import open_toy
from src.errors import InputError


@pytest.mark.parametrize(("config_class", "title"), configs.EVALUATION_ONLY.items())
def test_faces_for_evaluation_only_train_no_toy(job, config_class, title):
    cfg = job("model=toy_m").cfg
    message = f"toy_m is trained on the faces of the dataset, and {title} is for evaluation only. Choose"
    for faces in (config_class(), configs.MorphsConfig(parents=config_class())):
        with pytest.raises(InputError, match=message):
            open_toy(replace(cfg, faces=faces), {})
