"""Weights of a model are found by its config, and load what the config names."""

import pytest

from src import configs
from src.errors import InputError
from src.generators import model_weights
from src.generators.causal import Causal
from src.generators.multimodal import Multimodal
from src.jobs.identity import resolve
from tests.generators import checkpoint, seeing


def composed(*overrides):
    return resolve(configs.compose(["trainer=cpu", *overrides], "generate")[0])[0]


@pytest.mark.parametrize(("llm", "kind"), [("tiny", Causal), ("tiny_vlm", Multimodal)])
def test_a_model_made_on_the_spot_has_random_weights(llm, kind):
    weights, load = model_weights.find(composed(f"llm={llm}"))
    assert weights == {"revision": "random"}
    assert isinstance(load(), kind)


@pytest.mark.parametrize(
    ("llm", "saved", "kind"), [("hf", checkpoint.saved, Causal), ("vlm_hf", seeing.saved, Multimodal)]
)
def test_files_are_hashed_and_load(tmp_path, llm, saved, kind):
    folder = saved(tmp_path, seeing.llava) if kind is Multimodal else saved(tmp_path)
    weights, load = model_weights.find(composed(f"llm={llm}", f"llm.id={folder}"))
    assert weights["revision"] == "folder"
    assert len(weights["sha256"]) == len(weights["config.json"]) == 64
    assert isinstance(load(), kind)


@pytest.mark.parametrize(
    "chosen",
    [
        ["llm=recorded", "llm.path=answers.csv"],
        ["llm=planted", "llm.lean=0.5"],
        ["llm=openai_compatible", "llm.url=http://127.0.0.1:9/v1", "llm.id=m"],
    ],
)
def test_other_answers_need_no_weights(chosen):
    assert model_weights.find(composed(*chosen)) == ({}, None)


def test_weights_that_are_absent_are_refused():
    with pytest.raises(InputError, match="neither a folder that exists nor owner/name"):
        model_weights.find(composed("llm=hf", "llm.id=no such folder"))
