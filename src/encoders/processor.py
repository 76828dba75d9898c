"""Check that this machine's processor computes in half precision, and warn if that is slow."""

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


def check_precision(setting: str, precision: str, accelerator: str) -> None:
    """Raise `InputError` if this CPU cannot compute in a setting's precision; warn once if it is slow."""
    on_cpu = accelerator == "cpu" or (accelerator == "auto" and not torch.accelerator.is_available())
    if on_cpu and precision != "fp32":
        _measure(setting, precision)


@cache
def _measure(setting: str, precision: str) -> None:
    """Compute a layer in a separate process, once; raise `InputError` if it fails, warn if it is slow.

    `torch.cpu.get_capabilities` lists the processor's instructions, not those that torch and its libraries
    use, and some operations of torch are slow even with all of them.
    """
    command = [sys.executable, "-P", str(PROGRAM), precision, str(torch.get_num_threads())]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        failure = f"failed ({completed.stdout.strip() or f'exit status {completed.returncode}'})"
        if completed.returncode < 0:
            failure = f"ended its process by {signal.Signals(-completed.returncode).name}"
        raise InputError(
            f"{setting}={precision}: expected a CPU that computes in {precision}, but a layer in it "
            f"{failure} on this one. Choose {setting}=fp32, or a GPU."
        )
    layer, convolution = map(float, completed.stdout.split())
    if max(layer, convolution) > 1.5:
        log.warning(
            "%s=%s: slow on this CPU. A transformer layer takes %.1f times as long as in "
            "fp32, a convolution %.1f times. Choose %s=fp32, or a GPU.",
            *(setting, precision, layer, convolution, setting),
        )
