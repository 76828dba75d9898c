"""A sweep's jobs are composed once each, into just what Hydra itself composes."""

from collections import Counter
from unittest import mock

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from src import composing, configs

JOBS = [["model=toy_s", "exp=faces_to_words"], ["model=toy_m", "protocol=k_100", "seed=2"]]


@pytest.fixture
def loader():
    configs.register()
    with initialize_config_dir(str(configs.CHECKOUT / "conf"), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


def master(loader):
    return loader.load_configuration("run", [], RunMode.MULTIRUN)


def said(config):
    return OmegaConf.to_yaml(config), config.hydra.runtime.choices, config.hydra.overrides.task


def test_a_job_is_what_hydra_itself_makes_of_it(loader):
    sweep = master(loader)
    expected = [said(loader.load_sweep_config(sweep, job)) for job in JOBS]
    composing.once(loader)
    sweep = master(loader)
    for _ in range(3):
        assert [said(loader.load_sweep_config(sweep, job)) for job in JOBS] == expected


def test_a_job_is_composed_once_and_a_yaml_read_once(loader):
    (files,) = {type(source) for source in loader.repository.get_sources() if source.scheme() == "file"}
    with (
        mock.patch.object(loader, "load_configuration", side_effect=loader.load_configuration) as composed,
        mock.patch.object(files, "load_config", autospec=True, side_effect=files.load_config) as read,
    ):
        composing.once(loader)
        sweep = master(loader)
        for _ in ("seen to be legal", "run"):
            for job in JOBS:
                loader.load_sweep_config(master_config=sweep, sweep_overrides=job)
    assert composed.call_count == 1 + len(JOBS)
    times = Counter(call.args[1] for call in read.call_args_list)
    assert "dataset/demo" in times
    assert set(times.values()) == {1}


def test_what_one_job_writes_into_its_config_no_other_finds(loader):
    composing.once(loader)
    sweep = master(loader)
    # One job that is asked for twice: seen to be legal twice, then run twice.
    numbers = []
    for number in range(4):
        config = loader.load_sweep_config(sweep, JOBS[0])
        numbers.append(OmegaConf.is_missing(config.hydra.job, "num"))
        with open_dict(config):
            config.hydra.job.num = number
            config.seed = 7 + number
    assert numbers == [True] * 4


def test_a_job_s_folder_lies_in_its_sweep_s(loader):
    composing.once(loader)
    sweep = master(loader)
    loader.load_sweep_config(sweep, JOBS[0])
    folder = sweep.hydra.sweep.dir  # the time of day, to the microsecond
    assert loader.load_sweep_config(sweep, JOBS[0]).hydra.sweep.dir == folder
