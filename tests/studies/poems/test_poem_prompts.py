"""Pools of tokens, and poems about faces: each is written once."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.configs import TinyVlmConfig
from src.errors import InputError
from src.generators import tiny_vlm
from src.generators.answer_log import Kept
from src.generators.multimodal import Multimodal
from src.studies.poems import poem_prompts
from src.studies.poems.config import PoemConfig
from tests.generators import seeing

IDS = st.lists(st.integers(0, 12), max_size=8)
WORDS = {"positive": ["joy", "calm"], "negative": ["fear", "shame"]}


def task(**changes):
    given = {"image_prompt": "On <image>.", "text_prompt": "On {word}.", "words": WORDS, "most": 6}
    return PoemConfig(paper="", faces=None, permutations=9, bootstrap=9, **{**given, **changes})


@given(st.lists(st.tuples(st.sampled_from(poem_prompts.POLES), IDS), max_size=6), st.sets(st.integers(0, 12)))
def test_pools_are_unique_ids_without_special_or_shared_ones(rows, special):
    found = poem_prompts.pools(pd.DataFrame(rows, columns=["pool", "ids"]), special)
    for number in range(13):
        of = {pool for pool, ids in rows if number in ids and number not in special}
        for pool in poem_prompts.POLES:
            assert found[pool, "kept"].count(number) == (pool in of)
            assert found[pool, "removed"].count(number) == (of == {pool})


@pytest.fixture(scope="module")
def model():
    made = tiny_vlm.load(TinyVlmConfig(width=32, layers=2, heads=2, batch_size=2))
    for parameter in made.model.parameters():
        if parameter.dim() > 1:
            parameter.mul_(8)
    return made


@pytest.fixture
def faces(tmp_path):
    paths = seeing.pictures(tmp_path / "faces", 5)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    named = {"id": list("abcde"), "group": ["x", "x", "y", "y", "y"]}
    return pd.DataFrame({**named, "path": list(map(str, paths)), "sha256": digests})


def test_scores_are_those_of_the_pools_and_no_poem_is_written_twice(model, faces, tmp_path, monkeypatch):
    with Kept(tmp_path / "log.jsonl") as kept:
        words = poem_prompts.on_words(model, task(), kept)
        own = poem_prompts.pools(words, model.special)
        first = poem_prompts.on_faces(model, task(), faces.head(2), own, kept)
    assert words["word"].tolist() == ["joy", "calm", "fear", "shame"]
    assert len(own["positive", "removed"]) < len(own["positive", "kept"])
    asked = []

    def counted(self, prompts, *rest, **how):
        asked.append(len(prompts))
        return written(self, prompts, *rest, **how)

    written = Multimodal.written
    monkeypatch.setattr(Multimodal, "written", counted)
    with Kept(tmp_path / "log.jsonl") as kept:
        again = poem_prompts.on_words(model, task(), kept)
        whole = poem_prompts.on_faces(model, task(), faces, own, kept)
        twice = poem_prompts.on_faces(model, task(), pd.concat([faces, faces]), own, kept)
    assert asked == [0, 3, 0]
    pd.testing.assert_frame_equal(words, again)
    pd.testing.assert_frame_equal(whole.head(2), first)
    pd.testing.assert_frame_equal(twice.head(5), whole)
    names = {f"{pool}_{shared}": ids for (pool, shared), ids in own.items()}
    ((part,),) = (
        found.values()
        for found in written(model, ["On <image>."], [seeing.Path(faces["path"][3])], most=6, pools=names)
    )
    assert whole.loc[3, "tokens"] == len(part.tokens)
    assert whole.loc[3, "text"] == part.text
    assert {name: whole.loc[3, name] for name in names} == pytest.approx(part.log_p, abs=1e-4)
    with Kept(tmp_path / "log.jsonl") as kept:  # a poem of another length, or of other pools, is another
        poem_prompts.on_faces(model, task(most=4), faces.head(1), own, kept)
        poem_prompts.on_faces(model, task(), faces.head(1), {**own, ("positive", "kept"): [1]}, kept)
    assert asked[3:] == [1, 1]


def test_an_empty_pool_has_no_score(model, faces, tmp_path):
    own = {(pool, shared): [70] for pool in poem_prompts.POLES for shared in poem_prompts.SHARED}
    with Kept(tmp_path / "log.jsonl") as kept:
        found = poem_prompts.on_faces(model, task(), faces, {**own, ("negative", "removed"): []}, kept)
    assert found["negative_removed"].isna().all()
    assert np.isfinite(found["positive_removed"]).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_prompt": "On a face."}, "task.image_prompt='On a face.': <image> must stand in it once"),
        ({"text_prompt": "On {word} {word}."}, "{word} must stand in it once"),
        ({"words": {"positive": ["joy"]}}, "two lists of words"),
        ({"words": {"positive": ["joy"], "negative": [" "]}}, "two lists of words"),
        ({"words": {"positive": ["joy"], "negative": []}}, "two lists of words"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes, message):
    poem_prompts.checked(task())
    with pytest.raises(InputError) as refused:
        poem_prompts.checked(task(**changes))
    assert message in str(refused.value)
