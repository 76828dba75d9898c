"""Half precision in the towers, float32 in projection and normalisation."""

import pytest
import torch
from torch.nn.functional import normalize

from src.encoders import precision
from tests.encoders import published as made
from tests.encoders.test_blip2 import opened as blip2
from tests.encoders.test_published import opened, vectors


@pytest.mark.parametrize("form", ["bf16", "fp16"])
@pytest.mark.parametrize("architecture", ["ViT-B-32-quickgelu", "RN50", "ViT-B-16-SigLIP2"])
def test_half_precision_is_near_and_unit(cache, tmp_path, architecture, form):
    folder = made.folder(made.clip(architecture, tmp_path), tmp_path / "own")
    whole = vectors(opened(str(folder)).load())
    half = vectors(opened(str(folder), precision=form).load())
    for ours, theirs in zip(half, whole, strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.norm(dim=-1), torch.ones(len(ours)), atol=1e-6)
        assert not torch.equal(ours, theirs)
        assert (ours * theirs).sum(-1).min() > 0.999


@pytest.mark.parametrize("architecture", ["ViT-B-32-quickgelu", "RN50", "ViT-B-16-SigLIP2"])
def test_projections_are_float32_within_autocast(cache, tmp_path, architecture):
    """What comes out of the projection is not representable in half precision: it was not rounded to it."""
    folder = made.folder(made.clip(architecture, tmp_path), tmp_path / "own")
    model = opened(str(folder), precision="bf16").load().model
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        shown = torch.rand(2, 3, *[made.SMALL[architecture]["vision_cfg"]["image_size"]] * 2)
        context = made.SMALL[architecture]["text_cfg"]["context_length"]
        found = {
            "image": model.encode_image(shown),
            "text": model.encode_text(torch.ones(2, context, dtype=int)),
        }
    for side, raw in found.items():
        assert raw.dtype == torch.float32, side
        assert not torch.equal(raw, raw.bfloat16().float()), side


def test_the_projection_of_a_vision_transformer_is_the_product_of_float32(cache, tmp_path):
    folder = made.folder(made.clip("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    plain, half = opened(str(folder)).load().model, opened(str(folder), precision="bf16").load()
    matrix, plain.visual.proj = plain.visual.proj, None
    pixels = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        with torch.autocast("cpu", torch.bfloat16):
            pooled = plain.visual(pixels)
        assert torch.equal(half.encode_images(pixels), normalize(pooled.float() @ matrix, dim=-1))


def test_blip2_in_half_precision_is_near(cache, tmp_path):
    folder = made.folder(made.blip2(tmp_path / "made"), tmp_path / "own")
    for ours, theirs in zip(
        vectors(blip2(str(folder), precision="bf16").load()), vectors(blip2(str(folder)).load()), strict=True
    ):
        assert ours.dtype == torch.float32
        assert not torch.equal(ours, theirs)
        assert (ours * theirs).sum(-1).min() > 0.98


def test_precision_is_in_the_store_s_key(cache, tmp_path):
    folder = made.folder(made.clip("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    assert opened(str(folder)).identity != opened(str(folder), precision="bf16").identity


def test_fp32_touches_nothing():
    asked = []
    found = precision.unit(
        lambda x: asked.append(torch.is_autocast_enabled("cpu")) or x, torch.ones(1, 4), "fp32"
    )
    assert asked == [False]
    assert torch.equal(found, torch.full((1, 4), 0.5))
