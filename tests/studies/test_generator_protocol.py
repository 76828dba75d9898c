"""Check that tasks name a study of generative models."""

import pytest

from src.configs import TaskConfig, studies
from src.errors import InputError
from src.storage.versions import all_declared_versions
from src.studies.generator_protocol import GeneratorStudy, load_study


def test_tasks_name_their_study():
    generator_studies = [name for name in studies.STUDIES if isinstance(studies.load(name), GeneratorStudy)]
    assert generator_studies == ["subtler", "poems"]
    for name in generator_studies:
        study = load_study(TaskConfig(paper="", study=name))
        assert study.name == name
        assert {"metrics", "generators", f"studies.{name}", *study.parts} == {*study.versions()}
        assert study.versions().items() <= all_declared_versions().items()


@pytest.mark.parametrize(
    ("name", "message"), [("propagation", "got one of encoders"), ("subtle", "Did you mean 'subtler'?")]
)
def test_other_studies_are_refused(name, message):
    with pytest.raises(InputError) as error:
        load_study(TaskConfig(paper="", study=name))
    assert message in str(error.value)
