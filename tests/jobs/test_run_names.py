"""Check the names of runs and the parameters of jobs in MLflow."""

from dataclasses import replace

import pytest
import yaml

from src.jobs import run_metadata
from src.jobs.run_metadata import run_name, sweep_name
from src.tracking import names


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "toy_m · faces_to_words"),
        (["model=clip_b32", "exp=words_to_faces"], "clip_b32 · words_to_faces"),
        (["protocol.k=60"], "toy_m · faces_to_words · k=60"),
        (["protocol=k_100", "seed=3"], "toy_m · faces_to_words · k_100 · seed 3"),
        (["debias=orth_proj"], "toy_m · faces_to_words · debias orth_proj"),
        (["dataset=paper"], "toy_m · faces_to_words · flow morphs"),
        (
            ["dataset=paper", "faces.method=landmark", "seed=2"],
            "toy_m · faces_to_words · landmark morphs · seed 2",
        ),
        # The paper's method, and an experiment that has no faces.
        (["dataset=paper", "faces.method=stylegan2"], "toy_m · faces_to_words"),
        (["dataset=paper", "exp=scenes_to_words"], "toy_m · scenes_to_words"),
    ],
)
def test_a_run_is_named_by_its_choices_without_the_defaults(job, overrides, name):
    assert run_name(job(*overrides)) == name


def test_jobs_of_a_sweep_have_distinct_names(job):
    settings = ([], ["protocol=k_100"], ["debias=orth_proj"], ["seed=1"], ["seed=1", "protocol.k=100"])
    jobs = [job(*overrides) for overrides in settings]
    assert len({run_name(item) for item in jobs}) == len(jobs)


def test_a_sweep_is_named_by_what_it_varies(job):
    small = job("model=toy_s")
    models = [replace(small, model=f"m{number}") for number in range(100)]
    exps = [replace(small, exp=f"e{number}") for number in range(8)]
    assert sweep_name([small]) == "toy_s × faces_to_words"
    assert sweep_name(models[:3]) == "m0, m1, m2 × faces_to_words"
    assert sweep_name([*models, *exps]) == "101 models × 9 experiments"
    assert sweep_name([small, replace(small, model="m" * 61)]) == "2 models × faces_to_words"
    assert sweep_name([job("protocol=k_100", "seed=2"), job("protocol=paper", "seed=2")]) == (
        "toy_m × faces_to_words × k_100, paper × seed 2"
    )


def test_a_sweep_names_morphs_that_are_not_those_of_the_paper(job):
    exps = "faces_to_words", "scenes_to_words"
    jobs = [job("dataset=paper", f"exp={exp}") for exp in exps]
    assert sweep_name(jobs) == "toy_m × faces_to_words, scenes_to_words × flow morphs"
    jobs = [job("dataset=paper", f"exp={exp}", "faces.method=stylegan2") for exp in exps]
    assert sweep_name(jobs) == "toy_m × faces_to_words, scenes_to_words"


def paths(job):
    return names.paths(run_metadata.settings(job))


def test_a_job_has_only_the_parameters_that_it_uses(job):
    small = job("model=toy_s")
    assert {name: getattr(small, name) for name in run_metadata.CHOICES} == {
        "model": "toy_s", "exp": "faces_to_words", "protocol": "paper", "debias": "none",
    }  # fmt: skip
    logged = paths(small)
    assert len(logged) <= 45
    assert {"seed", "protocol.k", "faces.per_group", "words.count", "templates", "exp.corpus"} <= {*logged}
    prefixes = {name.partition(".")[0] for name in logged}
    assert not prefixes & {"store", "tracking", "scenes", "labels", "debias", "resume", "plan", "report"}
    assert not {"protocol.top_k", "protocol.iat", "protocol.set_size", "dataset.root", "model.name"} & {
        *logged
    }
    assert not any(name.startswith("demo.planted") for name in logged)


def test_what_is_switched_on_is_a_parameter(job):
    logged = paths(job("debias=orth_proj", "exp=cles_emotions"))
    assert {"debias.name", "debias.spurious", "debias.side", "protocol.partitions", "protocol.ties"} <= {
        *logged
    }
    assert any(name.startswith("exp.sets.") for name in logged)
    assert not {"templates", "protocol.k"} & {*logged}
    assert any(name.startswith("taxonomy.") for name in paths(job("exp=sobit_association")))


def test_a_config_is_valid_yaml(job):
    resolved = job("model=toy_s", "exp=cles_emotions", "debias=orth_proj").resolved
    assert yaml.safe_load(yaml.safe_dump(dict(resolved), allow_unicode=True)) == resolved
