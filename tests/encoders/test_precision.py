"""Check devices and precisions of this machine, config classes of families, and errors of half precision.

These are errors by rounding in the towers, which alone compute in half precision: projection and
normalisation are in float32.
"""

import pytest
import torch
from torch.nn.functional import normalize

from src import configs, stage
from src.encoders import family_of
from src.encoders import precision as precisions
from src.encoders.trainer import count_devices
from src.errors import InputError
from src.jobs import encoder_job, generator_job, plan
from tests.encoders.small_checkpoints import SMALL, blip2_files, open_clip_files, write_folder
from tests.encoders.test_published_weights import open_blip2 as blip2
from tests.encoders.test_published_weights import opened, vectors


@pytest.mark.parametrize("count", [10_000, 0, "many"])
def test_missing_devices_are_refused_before_any_work(count, job):
    requested = job("trainer=ddp", "trainer.accelerator=cpu", f"trainer.devices={count}", "model=toy_s")
    with pytest.raises(InputError, match=f"trainer.devices={count}: "):
        encoder_job.prepare(requested)


def test_a_list_of_devices_is_refused():
    trainer = configs.TrainerConfig(accelerator="cpu", workers=0, devices=[1])
    with pytest.raises(InputError, match=r"trainer.devices=\[1\]: .* choose devices with CUDA_VISIBLE"):
        count_devices(trainer)


def test_without_a_gpu_all_devices_are_a_single_process_and_their_number_is_in_no_key(job):
    requested = job("trainer=ddp", "trainer.accelerator=cpu").cfg.trainer
    assert requested.devices == "auto"
    assert count_devices(requested) == 1
    assert (
        job("trainer=ddp", "trainer.accelerator=cpu", "model=toy_s").config_hash
        == job("trainer=cpu", "model=toy_s").config_hash
    )


def test_tasks_of_a_batch_system_are_not_processes(monkeypatch):
    for name, value in {"SLURM_NTASKS": "4", "SLURM_JOB_NAME": "sweep", "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(name, value)
    assert count_devices(configs.TrainerConfig(accelerator="cpu", workers=0, devices=2)) == 2


# Program in place of the layer's -> reason in the message.
DEATHS = {
    "import os, signal; os.kill(os.getpid(), signal.SIGILL)": "ended its process by SIGILL",
    "import os; os.abort()": "ended its process by SIGABRT",
    "print('no kernel for Half'); raise SystemExit(1)": r"failed \(no kernel for Half\)",
    "raise SystemExit(3)": r"failed \(exit status 3\)",
}


@pytest.fixture
def layer_program(monkeypatch, tmp_path):
    """Replace the program that computes a layer in half precision."""
    monkeypatch.setattr(precisions, "PROGRAM", tmp_path / "layer.py")
    precisions.check_precision.cache_clear()
    yield (tmp_path / "layer.py").write_text
    precisions.check_precision.cache_clear()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("program", "reason"), DEATHS.items())
def test_a_precision_that_crashes_is_refused_before_any_work(layer_program, program, reason, precision, job):
    layer_program(program)
    expected = f"model.precision={precision}: .*{reason}.*Choose model.precision=fp32, or a GPU"
    with pytest.raises(InputError, match=expected):
        encoder_job.prepare(job("model=toy_s", "trainer=cpu", f"model.precision={precision}"))


def test_plan_stage_and_generative_models_refuse_a_precision_that_crashes(layer_program, job, tmp_path):
    layer_program("import os; os.abort()")
    requested = job("model=toy_s", "trainer=cpu", "model.precision=bf16", f"store.stimuli={tmp_path}")
    local_model = ["llm.id=nobody/nothing", "llm.precision=bf16", "trainer=cpu"]
    tasks = [["llm=hf", *local_model], ["task=poem", "llm=vlm_hf", *local_model]]
    items, poem = (
        generator_job.GeneratorJob.of(*configs.compose(overrides, "generate"), str(tmp_path))
        for overrides in tasks
    )
    for setting, function, *arguments in (
        ("model", plan.plan, requested),
        ("model", stage.embed, requested.cfg, "words"),
        *(("llm", generator_job.prepare, task) for task in (items, poem)),
    ):
        with pytest.raises(InputError, match=f"^{setting}.precision=bf16: expected a CPU that computes"):
            function(*arguments)


@pytest.mark.parametrize(
    ("measured", "warned"), [("1.1 1.2", False), ("3.3 37", True), ("1.1 2", True), ("2 1", True)]
)
def test_a_slow_precision_is_warned_of_once(layer_program, caplog, measured, warned):
    layer_program(f"print('{measured}')")
    for _ in range(2):
        precisions.check_precision("model.precision", "fp16", "cpu")
    layer, convolution = map(float, measured.split())
    expected = f"layer takes {layer:.1f} times as long as in fp32, a convolution {convolution:.1f} times"
    assert [expected in record.getMessage() for record in caplog.records] == [True] * warned


@pytest.mark.parametrize("name", configs.FAMILIES)
def test_families_match_their_config_classes(name):
    config, _ = configs.FAMILIES[name]
    family = family_of(config())
    assert (family.name, family.config) == (name, config)
    assert configs.SCHEMAS[name] is config


@pytest.mark.parametrize(
    ("role", "pooling", "several"),
    # max: of the similarities; the vectors stay.
    [("faces", "max", True), ("faces", "mean", False), ("words", "max", False)],
)
def test_blip2_has_several_vectors_of_an_image_unless_they_are_averaged(role, pooling, several):
    model = configs.Blip2Config(pooling=pooling)
    assert family_of(model).has_several_vectors(model, role) is several


# Unit roundoff: a rounding to the format moves a number by at most this share of it.
ROUNDOFF = {"bf16": 2**-8, "fp16": 2**-11}
# Products and sums in a block whose results autocast rounds: queries, keys and values (which count as one);
# attention scores; attended values; the projection of these values; two products of the MLP; two residual
# sums.
ROUNDINGS = 8


def largest_error(half, single):
    """Return the largest 1 - cosine between an item's vectors in half precision and in float32."""
    return (1 - normalize(half.double(), dim=-1).mul(normalize(single.double(), dim=-1)).sum(-1)).max().item()


def error_bound(precision, blocks):
    """Return a bound on `largest_error`, far above what float32 leaves (1e-13).

    n independent roundings with unit roundoff u turn a vector by an angle whose SD is at most u * sqrt(n).
    The bound is four SDs (1 - cosine is half the angle's square), but at most 0.001, ten times what
    docs/footguns.md states. The largest errors measured, on random weights and on toys, are 9e-5 (bf16) and
    1.4e-6 (fp16). `blocks`: number of blocks of the deepest stack.
    """
    return min(0.001, (4 * ROUNDOFF[precision]) ** 2 * ROUNDINGS * blocks / 2)


def skip_unless_computed(precision):
    """Check that the processor computes in a precision; skip the test otherwise."""
    try:
        precisions.check_precision("model.precision", precision, "cpu")
    except InputError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("architecture", "blocks", "precision"),
    # Blocks: as in `small_checkpoints`; SigLIP 2's are those of timm's `test_vit`, BLIP-2's of its Q-Former.
    [
        ("ViT-B-32-quickgelu", 1, "bf16"),
        pytest.param("ViT-B-32-quickgelu", 1, "fp16", marks=pytest.mark.thorough),
        *(("RN50", 4, "bf16"), ("ViT-B-16-SigLIP2", 6, "bf16"), ("blip2", 2, "bf16")),
    ],
)
def test_half_precision_moves_vectors_within_the_bound_of_its_roundoff(
    cache, tmp_path, architecture, blocks, precision
):
    skip_unless_computed(precision)
    is_blip2 = architecture == "blip2"
    files = blip2_files(tmp_path / "made") if is_blip2 else open_clip_files(architecture, tmp_path)
    folder, open_encoder = write_folder(files, tmp_path / "own"), blip2 if is_blip2 else opened
    single, half = open_encoder(folder), open_encoder(folder, precision=precision)
    assert single.identity != half.identity
    for rounded, exact in zip(*(vectors(encoder.load()) for encoder in (half, single)), strict=True):
        assert rounded.dtype == torch.float32
        assert torch.allclose(rounded.norm(dim=-1), torch.ones(rounded.shape[:-1]), atol=1e-6)
        assert not torch.equal(rounded, exact)
        assert largest_error(rounded, exact) < error_bound(precision, blocks)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_weights_of_layers_are_stored_in_half_precision(cache, tmp_path, precision):
    skip_unless_computed(precision)
    folder = write_folder(open_clip_files("ViT-B-32-quickgelu", tmp_path), tmp_path / "own")
    encoder = opened(folder, precision=precision)
    dtypes = {name: weight.dtype for name, weight in encoder.load().model.named_parameters()}
    layers = [name for name in dtypes if ".mlp." in name or ".attn." in name or name == "visual.conv1.weight"]
    expected = precisions.DTYPES.get(precision, torch.float32)
    assert len(layers) > 16
    assert {dtypes.pop(name) for name in layers} == {expected}
    # Embeddings, norms and projections.
    assert {*dtypes.values()} == {torch.float32}
    assert ("encoders.half_precision" in encoder.identity["parts"]) == (precision == "bf16")


def test_a_shared_weight_stays_in_float32():
    embedding, head, other = (
        torch.nn.Embedding(4, 2),
        torch.nn.Linear(2, 4, bias=False),
        torch.nn.Linear(2, 2),
    )
    head.weight = embedding.weight
    model = torch.nn.ModuleList([embedding, head, other, precisions.Float32(torch.nn.Linear(2, 2))])
    precisions.convert_weights(model, "fp16")
    assert head.weight.dtype == model[3].inner.weight.dtype == torch.float32
    assert other.weight.dtype == other.bias.dtype == torch.float16


@pytest.mark.parametrize("architecture", ["ViT-B-32-quickgelu", "ViT-B-16-SigLIP2"])
def test_projections_are_float32_within_autocast(cache, tmp_path, architecture):
    """Check that projected vectors are not rounded: rounding to bfloat16 would change them."""
    skip_unless_computed("bf16")
    folder = write_folder(open_clip_files(architecture, tmp_path), tmp_path / "own")
    model = opened(folder, precision="bf16").load().model
    config = SMALL[architecture]
    pixels = torch.rand(2, 3, *[config["vision_cfg"]["image_size"]] * 2)
    tokens = torch.ones(2, config["text_cfg"]["context_length"], dtype=int)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        for raw in (model.encode_image(pixels), model.encode_text(tokens)):
            assert raw.dtype == torch.float32
            assert not torch.equal(raw, raw.bfloat16().float())
