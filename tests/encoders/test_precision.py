"""Half precision in the towers, float32 in projection and normalisation."""

import pytest
import torch
from torch.nn.functional import normalize

from src.encoders import precision, processor
from src.errors import InputError
from tests.encoders import published as made
from tests.encoders.test_blip2 import opened as blip2
from tests.encoders.test_open_clip_weights import opened, vectors

# Unit roundoff: a rounding to the format moves a number by at most this share of it.
ROUNDOFF = {"bf16": 2**-8, "fp16": 2**-11}
# Products and sums of a block whose results autocast rounds: queries, keys and values; their cosines; their
# mixture; its projection; two of the MLP; two residual sums.
ROUNDINGS = 8


def largest_error(half, single):
    """Largest 1 - cosine of vectors in half precision and in float32, item by item."""
    return (1 - normalize(half.double(), dim=-1).mul(normalize(single.double(), dim=-1)).sum(-1)).max().item()


def error_bound(precision, blocks):
    """Bound on `largest_error`, far above what float32 leaves (1e-13).

    Independent roundings turn a vector by an angle of SD u * sqrt(n) at most; four of these are the bound,
    and 1 - cosine is half the angle's square. Measured, on random weights and on toys: 9e-5 (bf16) and 1.4e-6
    (fp16) at the most.
    """
    return min(0.001, (4 * ROUNDOFF[precision]) ** 2 * ROUNDINGS * blocks / 2)


def skip_unless_computed(precision):
    """Skip a test where the processor does not compute in a precision (refused: `test_processor.py`)."""
    try:
        processor.check_precision("model.precision", precision, "cpu")
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("precision", ROUNDOFF)
@pytest.mark.parametrize(
    ("architecture", "blocks"), [("ViT-B-32-quickgelu", 1), ("RN50", 4), ("ViT-B-16-SigLIP2", 6)]
)
def test_half_precision_moves_vectors_by_its_roundoff(cache, tmp_path, architecture, blocks, precision):
    skip_unless_computed(precision)
    folder = made.folder(made.clip(architecture, tmp_path), tmp_path / "own")
    single = vectors(opened(str(folder)).load())
    half = vectors(opened(str(folder), precision=precision).load())
    for ours, theirs in zip(half, single, strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.norm(dim=-1), torch.ones(len(ours)), atol=1e-6)
        assert not torch.equal(ours, theirs)
        assert largest_error(ours, theirs) < error_bound(precision, blocks)


@pytest.mark.parametrize("architecture", ["ViT-B-32-quickgelu", "RN50", "ViT-B-16-SigLIP2"])
def test_projections_are_float32_within_autocast(cache, tmp_path, architecture):
    """What comes out of the projection is not representable in half precision: it was not rounded to it."""
    skip_unless_computed("bf16")
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
    skip_unless_computed("bf16")
    folder = made.folder(made.clip("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    plain, half = opened(str(folder)).load().model, opened(str(folder), precision="bf16").load()
    matrix, plain.visual.proj = plain.visual.proj, None
    pixels = torch.rand(2, 3, 32, 32)
    with torch.inference_mode():
        with torch.autocast("cpu", torch.bfloat16):
            pooled = plain.visual(pixels)
        assert torch.equal(half.encode_images(pixels), normalize(pooled.float() @ matrix, dim=-1))


def test_blip2_in_half_precision_is_near(cache, tmp_path):
    skip_unless_computed("bf16")
    folder = made.folder(made.blip2(tmp_path / "made"), tmp_path / "own")
    for ours, theirs in zip(
        vectors(blip2(str(folder), precision="bf16").load()), vectors(blip2(str(folder)).load()), strict=True
    ):
        assert ours.dtype == torch.float32
        assert not torch.equal(ours, theirs)
        assert largest_error(ours, theirs) < error_bound("bf16", 2)


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
