"""Check that this machine's processor computes in half precision, and how fast."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from src.errors import InputError

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("half_layer.py")
# Times as long as in float32 from which a warning is due.
SLOW = 1.5


def check_precision(setting: str, precision: str, accelerator: str) -> None:
    """Refuse a precision in which this processor cannot compute; warn once where it is slow.

    Args:
        setting: name of the setting, for messages.
        precision: fp32, bf16 or fp16.
        accelerator: Lightning's; only a CPU is checked.

    Raises:
        InputError: a layer in this precision ended the process that computed it, or failed.
    """
    on_cpu = accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())
    if on_cpu and precision != "fp32":
        _measure(setting, precision)


@cache
def _measure(setting: str, precision: str) -> None:
    """Compute a layer in a process of its own, once: nothing else tells whether torch crashes, and how fast.

    `torch.cpu.get_capabilities` names the processor's instructions, not those that torch and its libraries
    may use, and with all of them some of torch's steps are still slow.
    """
    command = [sys.executable, "-P", str(PROGRAM), precision, str(torch.get_num_threads())]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise InputError(
            f"{setting}={precision}: expected a CPU that computes in {precision}, but a layer in it "
            f"{_failure(ended)} on this one. Choose {setting}=fp32, or a GPU."
        )
    layer, convolution = map(float, ended.stdout.split())
    if max(layer, convolution) > SLOW:
        log.warning(
            "%s=%s: slow on this CPU. A transformer layer takes %.1f times as long as in "
            "fp32, a convolution %.1f times. Choose %s=fp32, or a GPU.",
            *(setting, precision, layer, convolution, setting),
        )


def _failure(ended: subprocess.CompletedProcess[str]) -> str:
    if ended.returncode < 0:
        return f"ended its process by {signal.Signals(-ended.returncode).name}"
    return f"failed ({ended.stdout.strip() or f'exit status {ended.returncode}'})"
