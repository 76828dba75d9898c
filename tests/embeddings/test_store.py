"""Check that the store embeds once, is exact, replaces damaged entries, is listed and pruned."""

import json
import logging
import os
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from src import configs
from src.embeddings import __main__ as command
from src.embeddings import pruning, store
from src.encoders import Encoder
from src.stimuli import build_table
from src.storage import cache
from tests.stimuli import drawn

TRAINER = configs.TrainerConfig(accelerator="cpu", workers=0)
INTACT, OLD, DAMAGED, THEIRS = (letter * 32 for letter in "abcd")  # names of entries
LEFT, BUSY = (f".{INTACT}.{digit * 32}" for digit in "12")  # names of drafts


class Letters(torch.nn.Module):
    """Encoder that counts its forward passes; texts become histograms of letters."""

    passes = 0

    def transform(self, picture):
        return torch.from_numpy(np.asarray(picture.resize((2, 2)), dtype=np.float32)).permute(2, 0, 1)

    def split_preprocessing(self):
        return None

    def tokenize(self, sentences):
        return torch.tensor(
            [[sentence.count(letter) for letter in "abcdefghij0123456789"] for sentence in sentences]
        )

    def count_relevant_tokens(self, tokens):
        return torch.full((len(tokens),), tokens.shape[1])

    def encode_images(self, pixels):
        type(self).passes += 1
        vectors = pixels.flatten(1).reshape(len(pixels), 3, 4) + 1
        return torch.nn.functional.normalize(vectors, dim=-1)

    def encode_texts(self, tokens):
        type(self).passes += 1
        return torch.nn.functional.normalize(tokens.float() + 1, dim=-1)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Count passes from 0, with no vectors and no network in memory."""
    Letters.passes = 0
    monkeypatch.setattr(store, "_recent", type(store._recent)())
    monkeypatch.setattr(store, "_last_network", {})


def encoder(**identity) -> Encoder:
    weights = {"sha256": identity.pop("weights", "none")}
    return Encoder({"name": "letters", **identity}, lambda: weights, Letters)


def words(count: int = 23):
    names = [f"{'abcdefghij'[i % 10]}{'bad'[i % 3]}{i}" for i in range(count)]
    frame = pd.DataFrame({"id": names, "word": names, "template": "{}", "sentence": names, "valence": 0.5})
    return build_table("words", frame, "test")


def scenes(folder: Path, count: int):
    paths = [drawn.picture(folder / f"{i}.jpg", i) for i in range(count)]
    frame = pd.DataFrame({"id": [p.stem for p in paths], "valence": 0.5, "path": [str(p) for p in paths]})
    return build_table("scenes", frame.assign(sha256=[cache.file_hash(path) for path in paths]), "test")


def embed(folder: Path, table=None, batch_size: int = 5, **identity):
    store._recent.clear()
    return store.embed(
        encoder(**identity), table or words(), batch_size, TRAINER, folder, folder / "pictures"
    )


def entry(folder: Path) -> Path:
    (result,) = (folder / "words").iterdir()
    return result


def test_nothing_is_embedded_twice_and_the_manifest_says_where_the_numbers_come_from(tmp_path):
    first, again = embed(tmp_path), embed(tmp_path)
    assert Letters.passes == 5
    assert first.vectors.dtype == torch.float32
    network = Letters()
    tokens = network.tokenize(words().frame["sentence"].tolist())
    assert torch.equal(first.vectors, network.encode_texts(tokens))
    assert torch.equal(first.vectors, again.vectors)
    assert first.seconds > again.seconds == 0
    manifest = json.loads((entry(tmp_path) / "manifest.json").read_text())
    assert manifest["shape"] == [23, 20]
    assert manifest["table"] == words().hash
    assert manifest["encoder"] == {"name": "letters"}
    assert manifest["files"]["embedding.safetensors"]["sha256"] == first.hash
    assert {"torch", "lightning", "pillow"} <= set(manifest["versions"])
    assert load_file(entry(tmp_path) / "embedding.safetensors")["embedding"].shape == (23, 20)


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 4}, {"revision": "other"}, {"weights": "other"}, {"table": words(24)}],
    ids=["batch", "revision", "weights", "table"],
)
def test_the_entry_depends_on_batch_model_weights_and_table(tmp_path, change):
    embed(tmp_path)
    embed(tmp_path, **change)
    assert len(list((tmp_path / "words").iterdir())) == 2


def test_the_limit_on_microbatches_is_in_the_keys_of_pictures_only(tmp_path, monkeypatch):
    tables = (scenes(tmp_path, 1), words())
    before = [store.collect_identity(encoder(), table, 5) for table in tables]
    monkeypatch.setattr(store.batches, "MAX_BYTES", 1)
    after = [store.collect_identity(encoder(), table, 5) for table in tables]
    assert [item == other for item, other in zip(before, after, strict=True)] == [False, True]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


def reshape(path: Path) -> None:
    content = path.read_bytes()
    assert b"[23, 20]" in content
    path.write_bytes(content.replace(b"[23, 20]", b"[20, 23]"))


@pytest.mark.parametrize(
    "damage", [flip, reshape, Path.unlink, lambda p: p.with_name("manifest.json").write_text("{")]
)
def test_a_damaged_entry_is_recomputed_with_a_warning(tmp_path, caplog, damage):
    # A copy: vectors are mapped from the file.
    first = embed(tmp_path).vectors.clone()
    damage(entry(tmp_path) / "embedding.safetensors")
    with caplog.at_level(logging.WARNING):
        again = embed(tmp_path)
    assert "is damaged" in caplog.text
    assert "rebuilding it" in caplog.text
    assert Letters.passes == 10
    assert torch.equal(first, again.vectors)
    assert cache.find_damage(entry(tmp_path)) == ""


def test_a_file_is_hashed_again_only_if_it_may_have_changed(tmp_path, monkeypatch):
    embed(tmp_path)
    path, hashed = entry(tmp_path) / "embedding.safetensors", []
    monkeypatch.setattr(cache, "file_hash", lambda path, of=cache.file_hash: hashed.append(path) or of(path))

    def count_hashed():
        hashed.clear()
        cache.fetch(path.parent.parent, path.parent.name, lambda _: {})
        return len(hashed)

    # A file written just now may change again without a new modification time.
    assert (count_hashed(), count_hashed()) == (1, 1)
    for file in path.parent.iterdir():
        os.utime(file, (1e9, 1e9))
    assert [count_hashed() for _ in range(3)] == [1, 0, 0]
    flip(path)
    # Size and modification time are as before; only the time of the last change of status differs.
    os.utime(path, (1e9, 1e9))
    with pytest.raises(cache.NotStored), cache.forbid_building():
        count_hashed()


@pytest.fixture
def folder(tmp_path):
    """Build four entries and two drafts.

    One entry is damaged, one was last used 100 days ago, and one, as old, belongs to a store below this one,
    which `prune` leaves alone. One draft is that of a stopped process; the other may still be written.
    """

    def build(draft):
        (draft / "embedding.safetensors").write_text("vectors")
        return {"model": "m", "role": "words", "shape": [7, 2]}

    words, pipeline = tmp_path / "words", tmp_path / "demo" / "toy" / "words"
    for name in (INTACT, OLD, DAMAGED):
        cache.fetch(words, name, build)
    cache.fetch(pipeline, THEIRS, build)
    (words / DAMAGED / "embedding.safetensors").write_text("vecto")
    for name in (LEFT, BUSY):
        (words / name).mkdir()
        (words / name / "half").write_text("x")
    long_ago, left = time.time() - 100 * 86_400, words / LEFT
    for path in (words / OLD / "manifest.json", pipeline / THEIRS / "manifest.json", left, left / "half"):
        os.utime(path, (long_ago, long_ago))
    return tmp_path


def test_every_entry_is_listed_damaged_or_not(folder):
    result = pruning.list_entries(folder).set_index("entry")
    in_words = [f"words/{name}" for name in (INTACT, OLD, DAMAGED)]
    assert sorted(result.index) == [f"demo/toy/words/{THEIRS}", *in_words]
    assert result.loc[f"words/{INTACT}", ["model", "role", "shape", "state"]].tolist() == [
        "m", "words", "7 x 2", "intact",
    ]  # fmt: skip
    assert "has 5 bytes, not 7" in result.loc[f"words/{DAMAGED}", "state"]


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.glob("**/words/*"))


def test_prune_removes_old_drafts_and_damaged_and_unused_entries(folder):
    remaining = [f"demo/toy/words/{THEIRS}", *(f"words/{name}" for name in (BUSY, INTACT, OLD))]
    before = names(folder)
    removed = pruning.prune(folder, None, dry=True)
    assert names(folder) == before
    assert pruning.prune(folder, None) == removed
    assert [name for name, _, _ in removed] == [f"words/{LEFT}", f"words/{DAMAGED}"]
    assert names(folder) == remaining
    assert pruning.prune(folder, 90)[0][:2] == (f"words/{OLD}", "not used for 100 days")
    assert pruning.prune(folder, 90) == []


def test_prune_leaves_folders_that_are_not_of_the_store(tmp_path):
    for name in (".git", "extension", "words/extension"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text("{}")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert pruning.prune(tmp_path, 90) == []
    assert pruning.list_entries(tmp_path).empty


def test_unused_vectors_of_prompts_are_pruned(tmp_path):
    vectors = cache.fetch(tmp_path / "prompts", OLD, lambda _: {})
    os.utime(vectors / "manifest.json", (1e9, 1e9))
    assert [name for name, _, _ in pruning.prune(tmp_path, 90)] == [f"prompts/{OLD}"]


def test_prune_removes_what_a_killed_prune_left(tmp_path):
    for name in (f".{OLD}.{'1' * 32}.discarded", f".{LEFT}.{'2' * 32}.discarded"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (1e9, 1e9))
    assert len(pruning.prune(tmp_path, None)) == 2
    assert not [*tmp_path.iterdir()]


def test_a_read_counts_as_use(tmp_path):
    embed(tmp_path)
    long_ago = time.time() - 100 * 86_400
    os.utime(entry(tmp_path) / "manifest.json", (long_ago, long_ago))
    embed(tmp_path)
    assert Letters.passes == 5
    assert pruning.prune(tmp_path, 90) == []


def test_the_command_lists_and_prunes(folder, capsys, tmp_path):
    assert command.main(["ls", str(folder)]) == 0
    assert "4 entries" in capsys.readouterr().out
    assert command.main(["prune", str(folder), "--dry-run"]) == 0
    # A damaged entry, and an old draft, which the message counts as an entry.
    assert "2 entries would be removed" in capsys.readouterr().out
    assert command.main(["prune", str(tmp_path / "nowhere")]) == 1
    assert "nowhere: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("days", ["-90", "nan"])
def test_a_number_of_days_below_zero_is_refused(folder, days):
    with pytest.raises(SystemExit):
        command.main(["prune", str(folder), "--unused-for", days])
    assert (folder / "words" / INTACT).is_dir()
