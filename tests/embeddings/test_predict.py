"""Check that several processes give the bytes of a single one, or an error and no bytes.

Microbatches give the vectors of the batch; pictures are resized once per geometry, and vectors do not depend
on the store of pictures.
"""

import errno
import fcntl
import os
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from open_clip import get_tokenizer
from open_clip.transform import PreprocessCfg, image_transform, image_transform_v2
from safetensors.torch import load_file

from src import configs
from src.embeddings import batches, image_cache, store
from src.embeddings.predict import predict
from src.embeddings.writer import VectorFile, find_nonfinite_rows, finish_file
from src.encoders import Encoder
from src.encoders.openclip import OpenClip
from src.encoders.preprocessing import SplitPreprocessing, split_torchvision
from src.errors import InputError
from src.stimuli import build_table
from src.stimuli.perturbations import Perturbation
from tests.embeddings.test_store import TRAINER, Letters, fresh, words  # noqa: F401
from tests.embeddings.test_store import scenes as pictured
from tests.encoders.small_checkpoints import build_open_clip

# Environment variables, which processes inherit: the rank of the process that fails, and its error.
PLAGUED, PLAGUE = "CARRYOVER_TEST_RANK", "CARRYOVER_TEST_PLAGUE"


class Plagued(Letters):
    """Encoder that counts its calls; one of several processes fails midway."""

    calls = 0

    def encode_texts(self, tokens):
        self.calls += 1
        if PLAGUED in os.environ and self.calls == 2 and os.environ["LOCAL_RANK"] == os.environ[PLAGUED]:
            if os.environ[PLAGUE] == "refuse":
                raise InputError("'abc': too long a word. Leave it out.")
            if os.environ[PLAGUE] == "full":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/there/vectors")
            raise ZeroDivisionError
        if PLAGUED in os.environ:
            time.sleep(0.2)  # so that the other process is still at work when one fails
        return super().encode_texts(tokens)


class Halved(Letters):
    """Encoder with known preprocessing: pictures are resized once, before other processes start."""

    def split_preprocessing(self):
        values = torch.arange(256.0).expand(3, 256).contiguous()
        resized = lambda picture: np.asarray(picture.resize((2, 2))).transpose(2, 0, 1)  # noqa: E731
        return SplitPreprocessing({"test": "2 x 2"}, resized, values)


def embed(folder: Path, table, count: int, batch_size: int = 5, network=Plagued):
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0, devices=count)
    encoder = Encoder({"name": "letters"}, lambda: {"sha256": "none"}, network)
    store._recent.clear()
    return store.embed(encoder, table, batch_size, trainer, folder, folder / "pictures")


@pytest.mark.thorough
def test_picture_vectors_of_two_processes_equal_those_of_a_single_process(tmp_path):
    """Check 7 pictures in batches of ten: fewer batches than processes."""
    table = pictured(tmp_path, 7)
    single, two = (embed(tmp_path / str(n), table, n, batch_size=10, network=Halved) for n in (1, 2))
    assert single.hash == two.hash
    assert single.vectors.shape == (7, 3, 4)
    names = sorted(path.name for path in tmp_path.glob("2/pictures/*/*"))
    assert names == ["manifest.json", "pixels.npy"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("plague", "kind", "message"),
    [
        ("refuse", InputError, r"^'abc': too long a word\. Leave it out\.$"),
        pytest.param("fail", RuntimeError, "ZeroDivisionError", marks=pytest.mark.exhaustive),
        pytest.param(
            "full", InputError, r"words: cannot be written \(No space", marks=pytest.mark.exhaustive
        ),
    ],
)
def test_an_error_in_the_first_of_two_processes_is_reported_and_nothing_is_left(
    tmp_path, monkeypatch, plague, kind, message
):
    monkeypatch.setenv(PLAGUED, "0")
    monkeypatch.setenv(PLAGUE, plague)
    with pytest.raises(kind, match=message):
        embed(tmp_path, words(), 2)
    assert list((tmp_path / "words").iterdir()) == []


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    model = build_open_clip("ViT-B-32-quickgelu", tmp_path_factory.mktemp("small"))
    return OpenClip(model, image_transform(32, is_train=False), None, "small").eval()


@pytest.fixture(scope="module")
def pixels():
    return torch.randn(11, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def needed(network):
    """Return the bytes of a picture's widest tensor: all tokens within the perceptron of a block."""
    visual = network.model.visual
    tokens, _ = visual.positional_embedding.shape
    return 4 * tokens * max(item.out_features for item in visual.modules() if hasattr(item, "out_features"))


def test_microbatches_bound_the_widest_tensor_on_a_cpu_alone(network, pixels, monkeypatch):
    for max_bytes, size in ((3 * needed(network), 3), (4 * needed(network) - 1, 3), (1, 1)):
        monkeypatch.setattr(batches, "MAX_BYTES", max_bytes)
        with torch.inference_mode():
            assert batches.measure_microbatch_size(network.encode_images, pixels) == size
    # No hook remains.
    assert not torch.nn.modules.module._global_forward_hooks
    # On other devices nothing is encoded to measure it.
    assert batches.measure_microbatch_size(pytest.fail, torch.empty(11, 3, 32, 32, device="meta")) == 11


@pytest.mark.parametrize(("size", "sizes"), [(11, [11]), (6, [6, 5]), (5, [4, 4, 3]), (1, [1] * 11)])
def test_vectors_are_those_of_the_batch_in_its_order(network, pixels, size, sizes):
    lengths = []

    def encode(piece):
        lengths.append(len(piece))
        return network.encode_images(piece)

    with torch.inference_mode():
        result = batches.encode_in_microbatches(encode, pixels, size)
        complete = network.encode_images(pixels)
    assert lengths == sizes
    assert (result - complete).abs().max() < 1e-6


def test_a_file_without_vectors_is_refused_and_rows_with_nan_are_listed(tmp_path):
    path = tmp_path / "vectors"
    with pytest.raises(RuntimeError, match="no vector was written"):
        finish_file(path)
    vectors = np.array([[1, np.nan], [1, 2], [np.inf, 0]])
    VectorFile(path, (3, 2)).write(np.arange(3), vectors)
    assert finish_file(path) == [3, 2]
    assert find_nonfinite_rows(path) == [0, 2]


def test_a_process_that_waited_for_the_lock_keeps_the_rows_of_the_first(tmp_path, monkeypatch):
    """Let another process make the file and write a row after this one has opened the file of counts."""
    path, lock = tmp_path / "vectors", fcntl.flock

    def lock_second(*arguments):
        monkeypatch.setattr(fcntl, "flock", lock)
        VectorFile(path, (2, 3)).write(np.array([0]), np.ones((1, 3)))
        lock(*arguments)

    monkeypatch.setattr(fcntl, "flock", lock_second)
    VectorFile(path, (2, 3)).write(np.array([1]), np.ones((1, 3)))
    assert finish_file(path) == [2, 3]
    assert torch.equal(load_file(path)["embedding"], torch.ones(2, 3))


class PixelEncoder(torch.nn.Module):
    """Encoder whose vectors are the pixels of pictures; it counts the pictures that it prepares."""

    prepared: ClassVar[Counter] = Counter()

    def __init__(self, name="first", known=True, **fields):
        super().__init__()
        self.name, self.known = name, known
        self.preprocess = image_transform_v2(PreprocessCfg(size=8, **fields), is_train=False)

    def transform(self, picture):
        self.prepared[self.name] += 1
        return self.preprocess(picture)

    def split_preprocessing(self):
        return split_torchvision(self.preprocess) if self.known else None

    def encode_images(self, pixels):
        assert pixels.dtype == torch.float32
        return pixels.flatten(1)


@pytest.fixture(autouse=True)
def uncounted():
    PixelEncoder.prepared.clear()


@pytest.fixture
def scenes(tmp_path):
    return pictured(tmp_path, 7)


def predicted(network, table, folder, batch_size=3):
    """Predict with a picture store below `folder`, and return the vectors."""
    path = folder / f"{network.name}.safetensors"
    path.parent.mkdir(exist_ok=True)
    predict(network, table, batch_size, TRAINER, path, folder / "pictures")
    return load_file(path)["embedding"]


def picture_entries(folder):
    return sorted(path for path in (folder / "pictures").iterdir() if path.is_dir())


@pytest.mark.parametrize("batch_size", [1, 3, 7, 10])
def test_vectors_equal_those_of_pictures_prepared_singly(tmp_path, scenes, batch_size):
    wanted = predicted(PixelEncoder("plain", known=False), scenes, tmp_path / "plain")
    assert PixelEncoder.prepared["plain"] == 7
    for turn in ("filling", "filled"):
        assert torch.equal(predicted(PixelEncoder(turn), scenes, tmp_path / "kept", batch_size), wanted)
        assert PixelEncoder.prepared[turn] == 0


@pytest.mark.gpu
@pytest.mark.parametrize("role", ["scenes", "words"])
def test_vectors_of_a_gpu_are_those_of_the_cpu(tmp_path, network, scenes, role):
    """Check several batches, as the loop computes one while it copies another."""
    table, vectors = scenes if role == "scenes" else words(), []
    network = OpenClip(network.model, image_transform(32, is_train=False), get_tokenizer("ViT-B-32"), "small")
    for accelerator in ("cpu", "gpu"):
        trainer = configs.TrainerConfig(accelerator=accelerator, workers=0)
        predict(network.eval(), table, 1, trainer, tmp_path / accelerator, tmp_path / "pictures")
        vectors.append(torch.nn.functional.normalize(load_file(tmp_path / accelerator)["embedding"].double()))
    assert (1 - (vectors[0] * vectors[1]).sum(dim=1)).max() < 2e-6


def test_models_of_the_same_geometry_share_an_entry(tmp_path, scenes, monkeypatch):
    opened = Counter()
    read = image_cache.pictures.read
    monkeypatch.setattr(image_cache.pictures, "read", lambda path: opened.update([path]) or read(path))
    predicted(PixelEncoder(), scenes, tmp_path)
    decoded = opened.total()
    other = predicted(PixelEncoder("other", mean=[0.5] * 3, std=[0.25] * 3), scenes, tmp_path)
    # No picture is decoded again.
    assert opened.total() == decoded
    assert len(picture_entries(tmp_path)) == 1
    assert torch.equal(
        other, predicted(PixelEncoder("plain", False, mean=[0.5] * 3, std=[0.25] * 3), scenes, tmp_path)
    )


def test_the_entry_depends_on_pictures_and_resizing_only(scenes):
    split = PixelEncoder().split_preprocessing()
    identity = image_cache.collect_identity(scenes, split)
    relabelled = build_table("scenes", scenes.frame.assign(valence=0.7), "test")
    assert image_cache.collect_identity(relabelled, split) == identity
    shuffled = build_table("scenes", scenes.frame.assign(sha256=scenes.frame["sha256"].array[::-1]), "test")
    assert image_cache.collect_identity(shuffled, split) != identity
    assert (
        image_cache.collect_identity(scenes, PixelEncoder(resize_mode="squash").split_preprocessing())
        != identity
    )


def test_a_truncated_picture_is_named_and_nothing_is_left(tmp_path, scenes):
    os.truncate(scenes.frame["path"].iloc[5], 40)
    with pytest.raises(InputError, match=r"5.jpg: can no longer be read"):
        predicted(PixelEncoder(), scenes, tmp_path)
    assert picture_entries(tmp_path) == []
    with pytest.raises(InputError, match=r"5.jpg: can no longer be read"):
        predicted(PixelEncoder(known=False), scenes, tmp_path)


def test_without_room_each_model_prepares_pictures_itself(tmp_path, scenes, monkeypatch, caplog):
    wanted = predicted(PixelEncoder("plain", known=False), scenes, tmp_path)
    free = shutil.disk_usage(tmp_path)._replace(free=image_cache.MIN_FREE_BYTES + 7 * 3 * 8 * 8)
    monkeypatch.setattr(image_cache.shutil, "disk_usage", lambda _: free)
    assert torch.equal(predicted(PixelEncoder(), scenes, tmp_path), wanted)
    assert not (tmp_path / "pictures").exists()
    assert "set store.pictures to another folder" in caplog.text
    assert PixelEncoder.prepared["first"] == 7


@pytest.mark.parametrize("known", [True, False])
def test_perturbed_vectors_are_those_of_files_with_perturbed_pictures(tmp_path, scenes, known):
    settings = configs.MaskPatchesConfig("mask_patches", ["scenes"], size=0.3, share=0.5, level=9)
    perturbation = Perturbation(settings, scenes.frame["sha256"].tolist())
    perturbed, plain = tmp_path / "perturbed", []
    perturbed.mkdir()
    for row, path in enumerate(scenes.frame["path"]):
        plain.append(str(perturbed / f"{row}.png"))
        perturbation.apply(image_cache.read(path), row).save(plain[-1])
    expected = predicted(
        PixelEncoder("files", known), replace(scenes, frame=scenes.frame.assign(path=plain)), tmp_path / "f"
    )
    path = tmp_path / "vectors.safetensors"
    encoder, pictures = PixelEncoder("first", known), tmp_path / "pictures"
    predict(encoder, scenes, 3, TRAINER, path, pictures, perturbation=perturbation)
    assert torch.equal(load_file(path)["embedding"], expected)
    assert not torch.equal(predicted(PixelEncoder("plain", known), scenes, tmp_path), expected)
    if known:  # pictures as they are and perturbed ones have entries of their own
        assert len(picture_entries(tmp_path)) == 2


def test_keys_without_perturbation_are_those_of_versions_before_perturbations(scenes):
    split = PixelEncoder().split_preprocessing()
    assert image_cache.collect_identity(scenes, split).keys() == {"pictures", "geometry", "parts"}
    encoder = Encoder({}, lambda: {"sha256": "s"}, PixelEncoder)
    before = {"encoder", "weights", "table", "role", "batch_size", "parts", "widest"}
    assert store.collect_identity(encoder, scenes, 3).keys() == before
    perturbation = Perturbation(configs.FlipConfig("flip", ["scenes"]), scenes.frame["sha256"].tolist())
    changed = store.collect_identity(encoder, scenes, 3, perturbation)
    assert changed.keys() == before | {"perturbation"}
