"""Half precision on a CPU: refused where it crashes, warned of where it is slow, before any work."""

import os
import subprocess
import sys

import pytest

from src import configs, encoders, stage
from src.encoders import processor
from src.errors import InputError
from src.jobs import encoder_job, generator_job, plan

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
# What a program in place of the layer's does, and what is said of it.
DEATHS = {
    "import os, signal; os.kill(os.getpid(), signal.SIGILL)": "ended its process by SIGILL",
    "import os; os.abort()": "ended its process by SIGABRT",
    "print('no kernel for Half'); raise SystemExit(1)": r"failed \(no kernel for Half\)",
    "raise SystemExit(3)": r"failed \(exit status 3\)",
}


@pytest.fixture
def layer_program(monkeypatch, tmp_path):
    """Write what a process does that computes a layer in half precision."""
    monkeypatch.setattr(processor, "PROGRAM", tmp_path / "layer.py")
    processor._measure.cache_clear()
    yield (tmp_path / "layer.py").write_text
    processor._measure.cache_clear()


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("program", "reason"), DEATHS.items())
def test_a_precision_that_crashes_is_refused_before_any_work(layer_program, program, reason, precision, job):
    layer_program(program)
    asked = job("model=toy_s", "trainer=cpu", f"model.precision={precision}")
    expected = f"model.precision={precision}: .*{reason}.*Choose model.precision=fp32, or a GPU"
    with pytest.raises(InputError, match=expected):
        encoder_job.prepare(asked)


def test_plan_stage_and_generative_models_refuse_it_too(layer_program, job, tmp_path):
    layer_program("import os; os.abort()")
    asked = job("model=toy_s", "trainer=cpu", "model.precision=bf16", f"store.stimuli={tmp_path}")
    hub = ["llm.id=nobody/nothing", "llm.precision=bf16", "trainer=cpu"]
    tasks = [["llm=hf", *hub], ["task=poem", "llm=vlm_hf", *hub]]
    asks, poem = (
        generator_job.Task.of(*configs.compose(overrides, "generate"), str(tmp_path)) for overrides in tasks
    )
    for setting, work in {
        "model": lambda: plan.plan(asked),
        "model ": lambda: stage.embed(asked.cfg, "words"),
        "llm": lambda: generator_job.prepare(asks),
        "llm ": lambda: generator_job.prepare(poem),
    }.items():
        expected = f"^{setting.strip()}.precision=bf16: expected a CPU that computes"
        with pytest.raises(InputError, match=expected):
            work()


@pytest.mark.parametrize(
    ("measured", "warned"), [("1.1 1.2", False), ("3.3 37", True), ("1.1 2", True), ("2 1", True)]
)
def test_a_slow_precision_is_warned_of_once(layer_program, caplog, measured, warned):
    layer_program(f"print('{measured}')")
    for _ in range(2):
        processor.check_precision("model.precision", "fp16", "cpu")
    layer, convolution = map(float, measured.split())
    expected = f"layer takes {layer:.1f} times as long as in fp32, a convolution {convolution:.1f} times"
    assert [expected in record.getMessage() for record in caplog.records] == [True] * warned


@pytest.mark.parametrize(("precision", "accelerator"), [("fp32", "cpu"), ("bf16", "gpu"), ("fp16", "cuda")])
def test_neither_float32_nor_a_gpu_is_measured(layer_program, precision, accelerator):
    layer_program("raise SystemExit(1)")
    processor.check_precision("model.precision", precision, accelerator)


@pytest.mark.parametrize(("precision", "limits"), [("fp16", {}), ("bf16", AVX2)], ids=["fp16", "bf16 AVX2"])
def test_the_layer_itself_says_how_slow_it_is_or_ends(precision, limits):
    command = [sys.executable, "-P", str(processor.PROGRAM), precision, "1"]
    ended = subprocess.run(command, env={**os.environ, **limits}, capture_output=True, text=True, check=False)
    assert ended.returncode < 0 or len([float(ratio) for ratio in ended.stdout.split()]) == 2


def test_models_without_towers_are_not_asked(job, tmp_path):
    encoders.check_precision(job("model=precomputed", f"model.path={tmp_path}").cfg)
