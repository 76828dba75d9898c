"""A sweep's jobs are composed once each, their common part once: into just what Hydra itself composes."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from inspect import unwrap
from unittest import mock

import pytest
from hydra import initialize_config_dir
from hydra._internal import defaults_list
from hydra.core import utils
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from hydra.types import RunMode
from omegaconf import DictConfig, ListConfig, OmegaConf, open_dict

from src import configs
from src.sweeps import composing

JOBS = [["model=toy_s", "exp=faces_to_words"], ["model=toy_m", "protocol=k_100", "seed=2"]]
# Each shares other YAMLs with the one before it: nearly all, all, those up to the model, few, those of Hydra.
NEIGHBOURS = [
    *JOBS,
    ["model=toy_s", "exp=faces_to_words"],
    ["model=toy_s", "exp=faces_to_words", "faces.per_group=3"],
    ["model=toy_s", "exp=words_to_faces", "faces.per_group=4"],
    ["model=clip_b32", "exp=words_to_faces", "model.precision=bf16"],
    ["model=clip_b32", "exp=sobit_retrieval", "dataset=paper", "debias=orth_proj"],
    ["model=blip2", "exp=cles_warmth", "dataset=paper", "faces=morphs"],
    ["model=toy_s", "exp=faces_to_words", "+trainer.precision=32"],
    ["model=toy_s", "exp=faces_to_words", "faces.per_group=many"],
    ["model=toy_s", "exp=faces_to_words"],
]


@dataclass
class Typed:
    seed: int = 0


@pytest.fixture(autouse=True)
def hydra_itself(monkeypatch):
    own = unwrap(defaults_list._create_interpolation_map)
    monkeypatch.setattr(defaults_list, "_create_interpolation_map", own)


@pytest.fixture(autouse=True)
def one_second(monkeypatch):
    """What is composed twice is compared, and a config holds the second in which it was resolved."""
    moment = datetime(2026, 1, 1)
    monkeypatch.setattr(utils, "datetime", mock.Mock(now=lambda: moment))


@pytest.fixture
def loader():
    configs.register()
    with initialize_config_dir(str(configs.CONF), version_base="1.3"):
        yield GlobalHydra.instance().config_loader()


def master(loader):
    return loader.load_configuration("run", [], RunMode.MULTIRUN)


def said(config):
    return OmegaConf.to_yaml(config), config.hydra.runtime.choices, config.hydra.overrides.task


def nodes(node, path=""):
    """Each node of a config: its value, its type, and what may be put into it."""
    value = node._value()
    held = sorted(value) if isinstance(node, DictConfig) and isinstance(value, dict) else None
    held = len(value) if isinstance(node, ListConfig) and isinstance(value, list) else held
    yield path, type(node), repr(node._metadata), value if held is None else held
    if held is not None:
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from nodes(node._get_node(key), f"{path}.{key}")


def composed(loader, sweep, job):
    try:
        return list(nodes(loader.load_sweep_config(sweep, job)))
    except ConfigCompositionException as error:
        return str(error), str(error.__cause__)


def test_a_job_is_what_hydra_itself_makes_of_it(loader):
    sweep = master(loader)
    expected = [said(loader.load_sweep_config(sweep, job)) for job in JOBS]
    composing.once(loader)
    sweep = master(loader)
    for _ in range(3):
        assert [said(loader.load_sweep_config(sweep, job)) for job in JOBS] == expected


def test_jobs_that_share_yamls_are_what_hydra_itself_makes_of_them(loader):
    sweep = master(loader)
    expected = [composed(loader, sweep, job) for job in NEIGHBOURS]
    assert ["many" in str(found) for found in expected] == [job[-1].endswith("=many") for job in NEIGHBOURS]
    composing.once(loader)
    for job, wanted in zip(NEIGHBOURS, expected, strict=True):
        assert composed(loader, sweep, job) == wanted, job


def test_a_yaml_that_does_not_fit_is_named(tmp_path):
    ConfigStore.instance().store("typed", Typed)
    (tmp_path / "exp").mkdir()
    (tmp_path / "run.yaml").write_text("defaults: [typed, {exp: right}, _self_]\n")
    for name, value in (("right", "3"), ("wrong", "many")):
        (tmp_path / "exp" / f"{name}.yaml").write_text(f"# @package _global_\nseed: {value}\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        sweep = master(loader)
        expected = composed(loader, sweep, ["exp=wrong"])
        composing.once(loader)
        assert loader.load_sweep_config(sweep, ["exp=right"]).seed == 3
        assert composed(loader, sweep, ["exp=wrong"]) == expected
        assert expected[0].startswith("In 'exp/wrong': ValidationError")
        assert loader.load_sweep_config(sweep, ["exp=right"]).seed == 3


def test_a_default_that_refers_to_another_is_found(tmp_path):
    for group in ("model", "tuned"):
        (tmp_path / group).mkdir()
        for name in ("small", "large"):
            (tmp_path / group / f"{name}.yaml").write_text(f"{group}: {name}\n")
    (tmp_path / "run.yaml").write_text("defaults: [{model: small}, {tuned: '${model}'}, _self_]\n")
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        expected = [composed(loader, master(loader), [f"model={name}"]) for name in ("small", "large")]
        composing.once(loader)
        for name, wanted in zip(("small", "large"), expected, strict=True):
            assert loader.load_sweep_config(master(loader), [f"model={name}"]).tuned.tuned == name
            assert composed(loader, master(loader), [f"model={name}"]) == wanted


def test_yamls_that_neighbours_share_are_merged_once(loader):
    composing.once(loader)
    sweep = master(loader)
    merged = []
    for exp in ("faces_to_words", "words_to_faces", "scenes_to_words"):
        with mock.patch.object(loader, "_load_single_config", side_effect=loader._load_single_config) as load:
            loader.load_sweep_config(sweep, ["model=toy_s", f"exp={exp}"])
        merged.append(load.call_count)
    assert merged[0] > 30
    assert merged[2] == 2  # the experiment's schema and its YAML


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
    times = Counter(call.kwargs["config_path"] for call in read.call_args_list)
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
