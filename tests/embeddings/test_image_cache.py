"""Resized pictures: once for all models of one geometry, and vectors as if there were no such store."""

import logging
import os
import shutil
from collections import Counter
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image
from safetensors.torch import load_file

from src import configs
from src.embeddings import __main__ as entry
from src.embeddings import image_cache, pruning
from src.embeddings.predict import predict
from src.encoders.preprocessing import of_torchvision
from src.errors import InputError
from src.stimuli import checked
from src.storage import cache
from tests.stimuli import drawn

TRAINER = configs.TrainerConfig(accelerator="cpu", workers=0)


class Means(torch.nn.Module):
    """An encoder whose vectors are its pixels; it counts the pictures that it prepares."""

    prepared: ClassVar[Counter] = Counter()

    def __init__(self, name="first", known=True, **fields):
        super().__init__()
        self.name, self.known = name, known
        self.whole = image_transform_v2(PreprocessCfg(size=8, **fields), is_train=False)

    def transform(self, picture):
        self.prepared[self.name] += 1
        return self.whole(picture)

    def halves(self):
        return of_torchvision(self.whole) if self.known else None

    def encode_images(self, shown):
        assert shown.dtype == torch.float32
        return shown.flatten(1)


@pytest.fixture(autouse=True)
def fresh():
    Means.prepared.clear()


@pytest.fixture
def scenes(tmp_path):
    paths = [drawn.picture(tmp_path / f"{i}.jpg", i) for i in range(7)]
    frame = pd.DataFrame({"id": [p.stem for p in paths], "valence": 0.5, "path": [str(p) for p in paths]})
    frame["sha256"] = [cache.file_hash(path) for path in paths]
    return checked("scenes", frame, "test")


def seen(network, table, folder, batch_size=3):
    """Vectors, with the pictures of the store below `folder`."""
    path = folder / f"{network.name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    predict(network, table, batch_size, TRAINER, path, folder / "pictures")
    return load_file(path)["embedding"]


def entries(folder):
    return sorted(path for path in (folder / "pictures").iterdir() if path.is_dir())


@pytest.mark.parametrize("batch_size", [1, 3, 7, 10])
def test_vectors_are_those_of_pictures_prepared_one_by_one(tmp_path, scenes, batch_size):
    wanted = seen(Means("plain", known=False), scenes, tmp_path / "plain")
    assert Means.prepared["plain"] == 7
    for turn in ("filling", "filled"):
        assert torch.equal(seen(Means(turn), scenes, tmp_path / "kept", batch_size), wanted)
        assert Means.prepared[turn] == 0


def test_models_of_one_geometry_share_an_entry(tmp_path, scenes, monkeypatch):
    opened = Counter()
    read = image_cache.pictures.read
    monkeypatch.setattr(image_cache.pictures, "read", lambda path: opened.update([path]) or read(path))
    seen(Means(), scenes, tmp_path)
    first = opened.total()
    other = seen(Means("other", mean=(0.5,) * 3, std=(0.25,) * 3), scenes, tmp_path)
    # None is decoded again.
    assert opened.total() == first
    assert len(entries(tmp_path)) == 1
    assert torch.equal(other, seen(Means("plain", False, mean=(0.5,) * 3, std=(0.25,) * 3), scenes, tmp_path))
    seen(Means("squashed", resize_mode="squash"), scenes, tmp_path)
    assert len(entries(tmp_path)) == 2


def test_pictures_are_resized_upright_and_of_16_bits(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (20, 24), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    written = {"plain": (values, None), "deep": (values * np.uint16(257), None), "turned": (values, turned)}
    for name, (array, exif) in written.items():
        Image.fromarray(array).save(tmp_path / f"{name}.png", **({"exif": exif} if exif else {}))
    paths = [str(tmp_path / f"{name}.png") for name in written]
    frame = pd.DataFrame({"id": [*written], "valence": 0.5, "path": paths, "sha256": [*written]})
    table = checked("scenes", frame, "test")
    shown = image_cache.resized(table, Means(resize_mode="squash").halves(), tmp_path / "store")
    deep, plain, rotated = (shown[row] for row in range(3))
    assert (deep == plain).all()
    assert np.abs(rotated.astype(int) - np.rot90(plain, -1, (1, 2))).max() <= 1  # resized in another order


def test_what_decides_the_bytes_decides_the_entry(scenes):
    split = Means().halves()
    said = image_cache.decisive(scenes, split)
    relabelled = checked("scenes", scenes.frame.assign(valence=0.7), "test")
    assert image_cache.decisive(relabelled, split) == said
    shuffled = checked("scenes", scenes.frame.assign(sha256=scenes.frame["sha256"].tolist()[::-1]), "test")
    fewer = checked("scenes", scenes.frame[1:], "test")
    squashed = Means(resize_mode="squash").halves()
    others = [image_cache.decisive(table, split) for table in (shuffled, fewer)] + [
        image_cache.decisive(scenes, squashed)
    ]
    assert said not in others


def test_damaged_pixels_are_made_anew(tmp_path, scenes, caplog):
    wanted = seen(Means(), scenes, tmp_path)
    (kept,) = entries(tmp_path)
    content = bytearray((kept / "pixels.npy").read_bytes())
    content[-1] ^= 1
    (kept / "pixels.npy").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert torch.equal(seen(Means(), scenes, tmp_path), wanted)
    assert "it is computed anew" in caplog.text


def test_a_picture_that_is_gone_is_named_and_nothing_is_left(tmp_path, scenes):
    os.truncate(scenes.frame["path"].iloc[5], 40)
    with pytest.raises(InputError, match=r"5.jpg: cannot be read any more"):
        seen(Means(), scenes, tmp_path)
    assert entries(tmp_path) == []
    with pytest.raises(InputError, match=r"5.jpg: cannot be read any more"):
        seen(Means(known=False), scenes, tmp_path)


def test_without_room_each_model_prepares_its_own(tmp_path, scenes, monkeypatch, caplog):
    wanted = seen(Means("plain", known=False), scenes, tmp_path)
    free = shutil.disk_usage(tmp_path)._replace(free=image_cache.SPARE + 7 * 3 * 8 * 8)
    monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda _: free)
    assert torch.equal(seen(Means(), scenes, tmp_path), wanted)
    assert not (tmp_path / "pictures").exists()
    assert "set store.pictures to another folder" in caplog.text
    assert Means.prepared["first"] == 7


def test_pixels_are_mapped_not_read(tmp_path, scenes):
    found = image_cache.resized(scenes, Means().halves(), tmp_path)
    assert isinstance(found, np.memmap)
    assert found.shape == (7, 3, 8, 8)
    assert not found.flags.writeable


def test_the_store_is_listed_and_pruned(tmp_path, scenes, capsys):
    seen(Means(), scenes, tmp_path)
    (row,) = pruning.listing(tmp_path / "pictures").to_dict("records")
    assert (row["role"], row["shape"], row["state"]) == ("scenes", "7 x 3 x 8 x 8", "intact")
    os.utime(entries(tmp_path)[0] / "manifest.json", (0, 0))
    assert entry.main(["prune", str(tmp_path / "pictures"), "--unused-for", "90"]) == 0
    assert "1 removed" in capsys.readouterr().out
    assert entries(tmp_path) == []
