"""Check that texts that a tokenizer does not read whole are counted and left out, except in English."""

import pandas as pd
import pytest

from src import stimuli
from src.errors import NotApplicable
from src.jobs import plan
from src.jobs.unread_texts import UNCHECKED, count_unread, leave_out_unread
from tests.commands import FEW_DRAWS, command
from tests.conftest import precomputed, store_overrides
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import write_folder
from tests.stimuli import drawn

# The small checkpoint's tokenizer knows Latin letters, and its context holds 64 of them.
READ = [first + second + third for first in "abcde" for second in "abcd" for third in "abc"]
UNKNOWN, LONG = ["快乐", "灾难", "好坏"], ["a" * 70, "b" * 70]
NOTES = ("left out, as with a token unknown to the model: 3 of 65, first 好坏",)
NOTES += (f"left out, as longer than the model's context: 2 of 65, first {LONG[0]}",)


@pytest.fixture
def overrides(tmp_path):
    """Draw OASIS and a list of words, and write a small checkpoint of Chinese-CLIP."""
    raw = tmp_path / "raw"
    drawn.oasis(raw / "oasis", 60)
    words = [*READ, *UNKNOWN, *LONG]
    rows = [f"{word},{1 + number % 9}" for number, word in enumerate(words)]
    (raw / "norms.csv").write_text("\n".join(["word,valence", *rows]) + "\n", "utf-8")
    checkpoint = write_folder(dual_files("chinese_clip", tmp_path / "made"), tmp_path / "model")
    norms = [f"words.path={raw}/norms.csv", "words.word=word", "words.valence=valence"]
    return (
        *("dataset=photos", f"dataset.root={raw}", "exp=scenes_to_words", "model=hf"),
        *(f"model.id={checkpoint}", "model.languages=[multilingual]", "trainer=cpu", "trainer.workers=0"),
        *("words=norms", *norms, "words.low=1", "words.high=9"),
    )


def load_words(cfg):
    return {"words": stimuli.load(cfg, "words")}


def test_unread_words_are_left_out_and_counted(job, overrides):
    cfg = job(*overrides, "language=es").cfg
    given = load_words(cfg)
    tables = leave_out_unread(cfg, given)
    assert {*tables["words"].frame["word"]} == {*READ}
    assert len(tables["words"].frame) == len(READ) * len(cfg.templates)
    assert tables["words"].notes[-2:] == NOTES
    assert tables["words"].hash != given["words"].hash
    assert count_unread(tables) == {"n_texts": 65, "n_unread": 5}


def test_english_is_left_as_it_is(job, overrides):
    cfg = job(*overrides).cfg
    given = load_words(cfg)
    tables = leave_out_unread(cfg, given)
    assert tables["words"] is given["words"]
    assert count_unread(tables) == {}


def test_a_list_of_which_all_is_read_has_its_hash(job, overrides):
    cfg = job(*overrides, "language=es", f"words.drop={[*UNKNOWN, *LONG]}").cfg
    given = load_words(cfg)
    tables = leave_out_unread(cfg, given)
    assert tables["words"].hash == given["words"].hash
    assert count_unread(tables) == {"n_texts": 60, "n_unread": 0}


def test_a_list_that_is_not_read_at_all_is_not_applicable(job, overrides):
    with pytest.raises(NotApplicable, match=r"model=.* reads none of the words whole \(left out, as with a"):
        leave_out_unread(cfg := job(*overrides, "language=zh").cfg, load_words(cfg))
    labels = job(*overrides, "language=zh").cfg
    with pytest.raises(NotApplicable, match="reads none of the labels whole"):
        leave_out_unread(labels, {"labels": stimuli.load(labels, "labels")})


def test_it_is_noted_where_the_tokenizer_is_not_known(job, tmp_path):
    lab = precomputed(tmp_path / "lab")
    cfg = job("model=precomputed", f"model.path={lab}", "language=zh", "exp=faces_to_words").cfg
    tables = leave_out_unread(cfg, load_words(cfg))
    assert tables["words"].notes[-1] == UNCHECKED
    assert count_unread(tables) == {}


@pytest.mark.thorough
def test_a_job_states_what_it_leaves_out_and_is_reused(job, overrides, tmp_path, capsys):
    stores = store_overrides(tmp_path)[:-1]
    sizes = ("protocol.k=30", "protocol.extremes=12", "protocol.set_size=12", *FEW_DRAWS)
    swept = command(tmp_path / "out", *overrides, "language=es", *sizes, *stores)
    assert swept.code == 0, capsys.readouterr().out
    analyses = pd.read_csv(tmp_path / "out" / "results" / "analyses.csv")
    assert {*zip(analyses["n_texts"], analyses["n_unread"], strict=True)} == {(65, 5)}
    items = pd.read_parquet(tmp_path / "out" / "results" / "attributes.parquet")["id"].dropna()
    assert not any(word in item for item in items for word in (*UNKNOWN, *LONG))
    planned = plan.plan(job(*overrides, "language=es", *sizes, *stores))
    assert planned.status.startswith("finished, in run")
    assert command(tmp_path / "again", *overrides, "language=es", *sizes, *stores).passes == 0
