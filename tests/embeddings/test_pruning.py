"""What lies in a store, and what of it can go."""

import os
import time

import pytest

from src.embeddings import __main__ as entry
from src.embeddings import pruning
from src.storage import cache


@pytest.fixture
def store(tmp_path):
    """Three entries, one of them damaged, and what two stopped processes left."""

    def build(folder):
        (folder / "embedding.safetensors").write_text("vectors")
        return {"model": "m", "role": "words", "shape": [7, 2]}

    for name in ("intact", "old", "damaged"):
        cache.fetch(tmp_path / "words", name, build)
    (tmp_path / "words" / "damaged" / "embedding.safetensors").write_text("vecto")
    long_ago = time.time() - 100 * 86_400
    os.utime(tmp_path / "words" / "old" / "manifest.json", (long_ago, long_ago))
    for name in (".left.1", ".busy.2"):
        (tmp_path / "words" / name).mkdir()
        (tmp_path / "words" / name / "half").write_text("x")
    for path in (tmp_path / "words" / ".left.1", tmp_path / "words" / ".left.1" / "half"):
        os.utime(path, (long_ago, long_ago))
    # A store of the pipeline, within.
    cache.fetch(tmp_path / "demo" / "toy" / "words", "theirs", build)
    os.utime(tmp_path / "demo" / "toy" / "words" / "theirs" / "manifest.json", (long_ago, long_ago))
    return tmp_path


def test_everything_intact_or_not_is_listed(store):
    found = pruning.listing(store).set_index("entry")
    assert sorted(found.index) == ["demo/toy/words/theirs", "words/damaged", "words/intact", "words/old"]
    assert found.loc["words/intact", ["model", "role", "shape", "state"]].tolist() == [
        "m", "words", "7 x 2", "intact",
    ]  # fmt: skip
    assert "has 5 bytes, not 7" in found.loc["words/damaged", "state"]


def names(store):
    return sorted(str(path.relative_to(store)) for path in store.glob("**/words/*"))


def test_prune_removes_what_no_run_will_read(store):
    kept = ["demo/toy/words/theirs", "words/.busy.2", "words/intact", "words/old"]
    before = names(store)
    said = pruning.prune(store, None, dry=True)
    assert names(store) == before
    assert pruning.prune(store, None) == said
    assert [name for name, _, _ in said] == ["words/.left.1", "words/damaged"]
    assert names(store) == kept
    assert pruning.prune(store, 90)[0][:2] == ("words/old", "not used for 100 days")
    assert pruning.prune(store, 90) == []


def test_a_read_counts_as_use(store):
    cache.touch(store / "words" / "old")
    assert [name for name, _, _ in pruning.prune(store, 90)] == ["words/.left.1", "words/damaged"]


def test_the_command(store, capsys, tmp_path):
    assert entry.main(["ls", str(store)]) == 0
    assert "4 entries" in capsys.readouterr().out
    assert entry.main(["prune", str(store), "--dry-run"]) == 0
    assert "2 would go" in capsys.readouterr().out
    assert entry.main(["prune", str(tmp_path / "nowhere")]) == 1
    assert "nowhere: no such folder" in capsys.readouterr().err
