"""The store: embedded once, exact, and never read where it is damaged."""

import errno
import json
import logging
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load_file

from src import configs
from src.embeddings import store
from src.encoders import Encoder
from src.errors import InputError
from src.stimuli import checked
from src.storage import cache
from tests.stimuli import drawn

TRAINER = configs.TrainerConfig(accelerator="cpu", workers=0)


class Letters(torch.nn.Module):
    """An encoder that counts its forward passes; texts become histograms of letters."""

    passes = 0

    def transform(self, picture):
        return torch.from_numpy(np.asarray(picture.resize((2, 2)), dtype=np.float32)).permute(2, 0, 1)

    def halves(self):
        return None

    def tokenize(self, sentences):
        return torch.tensor(
            [[sentence.count(letter) for letter in "abcdefghij0123456789"] for sentence in sentences]
        )

    def lengths(self, tokens):
        return torch.full((len(tokens),), tokens.shape[1])

    def encode_images(self, pixels):
        type(self).passes += 1
        vectors = pixels.flatten(1).reshape(len(pixels), 3, 4) + 1
        return torch.nn.functional.normalize(vectors, dim=-1)

    def encode_texts(self, tokens):
        type(self).passes += 1
        return torch.nn.functional.normalize(tokens.float() + 1, dim=-1)


@pytest.fixture(autouse=True)
def fresh():
    Letters.passes = 0
    for memory in (store._kept, store._loaded):
        memory.clear()
    yield
    for memory in (store._kept, store._loaded):
        memory.clear()


def encoder(**identity) -> Encoder:
    weights = {"sha256": identity.pop("weights", "none")}
    return Encoder({"name": "letters", **identity}, lambda: weights, Letters)


def words(count: int = 23):
    names = [f"{'abcdefghij'[i % 10]}{'bad'[i % 3]}{i}" for i in range(count)]
    frame = pd.DataFrame({"id": names, "word": names, "template": "{}", "sentence": names, "valence": 0.5})
    return checked("words", frame, "test")


def embed(folder: Path, table=None, batch_size: int = 5, **identity):
    store._kept.clear()
    return store.embed(
        encoder(**identity), table or words(), batch_size, TRAINER, folder, folder / "pictures"
    )


def entry(folder: Path) -> Path:
    (found,) = (folder / "words").iterdir()
    return found


def expected(table) -> torch.Tensor:
    network = Letters()
    return network.encode_texts(network.tokenize(table.frame["sentence"].tolist()))


def test_vectors_are_in_the_order_of_the_table(tmp_path):
    found = embed(tmp_path)
    assert torch.equal(found.vectors, expected(words()))
    assert found.vectors.dtype == torch.float32


def test_images_may_have_several_vectors(tmp_path):
    paths = [drawn.picture(tmp_path / f"{i}.jpg", i) for i in range(7)]
    frame = pd.DataFrame({"id": [p.stem for p in paths], "valence": 0.5, "path": [str(p) for p in paths]})
    found = embed(tmp_path / "store", checked("scenes", frame, "test"), batch_size=3)
    assert found.vectors.shape == (7, 3, 4)
    assert torch.allclose(found.vectors.norm(dim=-1), torch.ones(7, 3))
    # Of preprocessing of an unknown kind nothing is kept.
    assert not (tmp_path / "store" / "pictures").exists()


def test_nothing_is_embedded_twice(tmp_path):
    first = embed(tmp_path)
    passes = Letters.passes
    again = embed(tmp_path)
    assert Letters.passes == passes == 5
    assert torch.equal(first.vectors, again.vectors)
    assert first.seconds > 0
    assert again.seconds == 0


def test_weights_are_read_once_for_all_roles_and_one_model_is_held_at_a_time(tmp_path):
    read = []

    def looks(weights):
        def load():
            read.append(weights)
            return Letters()

        return Encoder({"name": "letters"}, lambda: {"sha256": weights}, load)

    for weights in "aab":
        for table in (words(), words(7)):
            store.embed(looks(weights), table, 5, TRAINER, tmp_path, tmp_path / "pictures")
    assert read == ["a", "b"]
    assert len(store._loaded) == 1


@pytest.mark.parametrize(
    "change",
    [{"batch_size": 4}, {"revision": "other"}, {"weights": "other"}, {"table": words(24)}],
    ids=["batch", "revision", "weights", "table"],
)
def test_what_decides_the_numbers_decides_the_entry(tmp_path, change):
    embed(tmp_path)
    embed(tmp_path, **change)
    assert len(list((tmp_path / "words").iterdir())) == 2


def test_how_a_cpu_is_shown_pictures_decides_their_entries_alone(tmp_path, monkeypatch):
    frame = pd.DataFrame({"id": ["a"], "valence": 0.5, "path": [str(drawn.picture(tmp_path / "a.jpg", 0))]})
    frame["sha256"] = [cache.file_hash(Path(frame["path"].iloc[0]))]
    shown = (checked("scenes", frame, "test"), words())
    before = [store.decisive(encoder(), table, 5) for table in shown]
    monkeypatch.setattr(store.microbatches, "WIDEST", 1)
    after = [store.decisive(encoder(), table, 5) for table in shown]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


def test_the_manifest_says_where_the_numbers_come_from(tmp_path):
    found = embed(tmp_path)
    manifest = json.loads((entry(tmp_path) / "manifest.json").read_text())
    assert manifest["shape"] == [23, 20]
    assert manifest["table"] == words().hash
    assert manifest["encoder"] == {"name": "letters"}
    assert manifest["files"]["embedding.safetensors"]["sha256"] == found.hash
    assert {"torch", "lightning", "pillow"} <= set(manifest["versions"])
    assert load_file(entry(tmp_path) / "embedding.safetensors")["embedding"].shape == (23, 20)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-7] ^= 1
    path.write_bytes(content)


def reshape(path: Path) -> None:
    content = path.read_bytes()
    assert b"[23, 20]" in content
    path.write_bytes(content.replace(b"[23, 20]", b"[20, 23]"))


def garbage(path: Path) -> None:
    (path.parent / "manifest.json").write_text("{")


def no_manifest(path: Path) -> None:
    (path.parent / "manifest.json").unlink()


@pytest.mark.parametrize("damage", [truncate, flip, reshape, Path.unlink, garbage, no_manifest])
def test_a_damaged_entry_is_computed_anew_and_that_is_said(tmp_path, caplog, damage):
    # A copy: vectors are mapped from the file.
    first = embed(tmp_path).vectors.clone()
    damage(entry(tmp_path) / "embedding.safetensors")
    with caplog.at_level(logging.WARNING):
        again = embed(tmp_path)
    assert "is damaged" in caplog.text
    assert "it is computed anew" in caplog.text
    assert Letters.passes == 10
    assert torch.equal(first, again.vectors)
    assert cache.damaged(entry(tmp_path)) == ""


def test_what_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no")

    monkeypatch.setattr(Letters, "encode_texts", fail)
    with pytest.raises(RuntimeError, match="no"):
        embed(tmp_path)
    assert list((tmp_path / "words").iterdir()) == []


def test_vectors_that_are_not_finite_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Letters, "encode_texts", lambda _, tokens: tokens.float() * float("nan"))
    with pytest.raises(RuntimeError, match="vectors hold NaN or infinity"):
        embed(tmp_path)
    assert list((tmp_path / "words").iterdir()) == []


def test_a_file_is_read_again_only_where_it_may_have_changed(tmp_path, monkeypatch):
    embed(tmp_path)
    path, hashed = entry(tmp_path) / "embedding.safetensors", []
    monkeypatch.setattr(
        cache, "file_hash", lambda path, real=cache.file_hash: hashed.append(path) or real(path)
    )

    def fetched():
        hashed.clear()
        cache.fetch(path.parent.parent, path.parent.name, lambda _: {})
        return len(hashed)

    # Written a moment ago, it could be written again within the same tick.
    assert (fetched(), fetched()) == (1, 1)
    for aged in path.parent.iterdir():
        os.utime(aged, (1e9, 1e9))
    assert (fetched(), fetched(), fetched()) == (1, 0, 0)
    flip(path)
    with pytest.raises(cache.NotStored), cache.dry():
        fetched()
    flip(path)
    os.utime(path, (1e9, 1e9))
    # The same bytes, size and time of change: that it was written to shows all the same.
    assert (fetched(), fetched()) == (1, 0)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(cache.NotStored), cache.dry():
        fetched()


def _race(folder: str, barrier) -> None:
    def build(draft: Path):
        (draft / "content").write_text("same")
        barrier.wait(timeout=30)  # both are ready to publish
        return {}

    cache.fetch(Path(folder), "key", build)


@pytest.mark.parametrize("there", [False, True])
def test_two_processes_may_publish_one_entry(tmp_path, there):
    if there:  # damaged: both put it aside
        (tmp_path / "key").mkdir()
        (tmp_path / "key" / "content").write_text("sa")
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    racers = [context.Process(target=_race, args=(str(tmp_path), barrier)) for _ in range(2)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(30)
    assert [racer.exitcode for racer in racers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["key"]
    assert cache.damaged(tmp_path / "key") == ""


def test_an_entry_that_another_process_published_meanwhile_is_left_to_its_readers(tmp_path):
    def theirs(draft: Path):
        (draft / "content").write_text("theirs")
        return {}

    def ours(draft: Path):
        cache.fetch(tmp_path, "key", theirs)
        (draft / "content").write_text("ours")
        return {}

    found = cache.fetch(tmp_path, "key", ours)
    assert (found / "content").read_text() == "theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_damaged_entry_that_somebody_else_owns_is_named(tmp_path, monkeypatch):
    embed(tmp_path)
    vectors = entry(tmp_path) / "embedding.safetensors"
    vectors.write_bytes(vectors.read_bytes()[:-1])

    def denied(entry, seen):
        raise PermissionError(errno.EACCES, "Permission denied", str(entry))

    monkeypatch.setattr(cache, "discard", denied)
    with pytest.raises(
        InputError, match=rf"words: cannot be written \({entry(tmp_path)}: Permission denied\)"
    ):
        embed(tmp_path)
    assert [path.name for path in (tmp_path / "words").iterdir()] == [entry(tmp_path).name]
