"""Passes of a CPU: as many pictures as leave its allocator at peace; the vectors are those of the batch."""

import pytest
import torch
from open_clip.transform import image_transform

from src.embeddings import microbatches
from src.encoders.openclip import OpenClip
from tests.encoders import published as made


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    model = made.build("ViT-B-32-quickgelu", tmp_path_factory.mktemp("small"))
    return OpenClip(model, image_transform(32, is_train=False), None, "small").eval()


@pytest.fixture(scope="module")
def pixels():
    return torch.randn(11, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def needed(network):
    """Bytes of a picture within the perceptron of a block: a class token and patches, four times as wide."""
    visual = network.model.visual
    tokens, _ = visual.positional_embedding.shape
    return (
        4 * tokens * max(layer.out_features for layer in visual.modules() if hasattr(layer, "out_features"))
    )


def test_a_cpu_is_shown_as_many_as_leave_the_widest_tensor_small(network, pixels, monkeypatch):
    for room, most in ((3 * needed(network), 3), (4 * needed(network) - 1, 3), (1, 1)):
        monkeypatch.setattr(microbatches, "WIDEST", room)
        with torch.inference_mode():
            assert microbatches.at_once(network.encode_images, pixels) == most
    # Nothing goes on noting.
    assert not torch.nn.modules.module._global_forward_hooks


def test_other_devices_are_shown_all_and_looked_at_by_nobody():
    def never(_):
        raise AssertionError

    assert microbatches.at_once(never, torch.empty(11, 3, 32, 32, device="meta")) == 11


@pytest.mark.parametrize(("most", "sizes"), [(11, [11]), (6, [6, 5]), (5, [4, 4, 3]), (1, [1] * 11)])
def test_vectors_are_those_of_the_batch_in_its_order(network, pixels, most, sizes):
    shown = []

    def encode(part):
        shown.append(len(part))
        return network.encode_images(part)

    with torch.inference_mode():
        found = microbatches.encoded(encode, pixels, most)
        whole = network.encode_images(pixels)
    assert shown == sizes
    assert (found - whole).abs().max() < 1e-6
