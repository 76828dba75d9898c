"""How many devices a trainer stands for."""

import signal
import sys

import pytest

from src import configs
from src.encoders.trainer import devices
from src.errors import InputError
from src.jobs import encoder_job


@pytest.mark.parametrize("wanted", [10_000, 0, "many"])
def test_devices_that_are_not_there_are_refused_before_any_work(wanted, job):
    asked = job("trainer=ddp", "trainer.accelerator=cpu", f"trainer.devices={wanted}", "model=toy_s")
    with pytest.raises(InputError, match=f"trainer.devices={wanted}: "):
        encoder_job.prepare(asked)


def test_without_a_gpu_all_of_them_are_one_process(job):
    asked = job("trainer=ddp", "trainer.accelerator=cpu").cfg.trainer
    assert asked.devices == "auto"
    assert devices(asked) == 1
    assert devices(configs.TrainerConfig(accelerator="cpu", workers=0, devices=2)) == 2


def test_how_many_processes_there_are_decides_no_number(job):
    one, two = (
        job(*more, "model=toy_s") for more in (["trainer=cpu"], ["trainer=ddp", "trainer.accelerator=cpu"])
    )
    assert one.config_hash == two.config_hash


def test_a_batch_systems_tasks_are_not_taken_for_processes(monkeypatch):
    for name, value in {"SLURM_NTASKS": "4", "SLURM_JOB_NAME": "sweep", "SLURM_JOB_ID": "7"}.items():
        monkeypatch.setenv(name, value)
    assert devices(configs.TrainerConfig(accelerator="cpu", workers=0, devices=2)) == 2
    assert sys.platform != "linux" or signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
