"""The study of a task is found by its name, and has to be one of generative models."""

import pytest

from src.configs import TaskConfig, studies
from src.errors import InputError
from src.storage.versions import every
from src.studies.generator_protocol import GeneratorStudy, study_of


@pytest.mark.parametrize("name", ["subtler", "poems"])
def test_a_task_names_its_study_whose_versions_are_declared(name):
    study = study_of(TaskConfig(paper="", study=name))
    assert study.name == name
    assert {"metrics", "generators", f"studies.{name}", *study.parts} == {*study.versions()}
    assert study.versions().items() <= every().items()


def test_every_study_but_those_over_others_has_a_config_and_a_protocol():
    of_generators = [name for name in studies.STUDIES if isinstance(studies.load(name), GeneratorStudy)]
    assert of_generators == ["subtler", "poems"]
    assert {"subtler", "poem", "propagation", "audit"} <= {*studies.config_classes()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("propagation", "task.study=propagation: expected a study of generative models, got another one"),
        ("debiasing", "task.study=debiasing: expected a study of generative models"),
        ("subtle", "Did you mean 'subtler'?"),
    ],
)
def test_other_studies_are_refused(name, message):
    with pytest.raises(InputError) as refused:
        study_of(TaskConfig(paper="", study=name))
    assert message in str(refused.value)
