"""What a sweep makes of its command line."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from src.sweeps.overrides import as_sweeps

SWEPT = "model=clip_b32,clip_l14"


@pytest.mark.parametrize(
    "text",
    [
        "model.weights=random",
        "model.id=hf-hub:owner/name",
        "labels.gender_words.Women=[woman,'two words']",
        'model.name="a,b"',
        "model.name=a\\,b",
        "demo.planted={x:1}",
        "protocol.k=5",
        "protocol.x=0.5",
        "resume.x=false",
        "+new.key=1",
        "++new.key=1",
        "model.sha256=''",
        "a.b=${c.d}",
        "faces@faces.parents=fairface",
    ],
)
def test_plain_overrides_reach_each_job_as_they_were(text):
    parser = OverridesParser.create()
    said = as_sweeps(["-m", SWEPT, text])
    assert said[:2] == ["-m", SWEPT]
    (before,), (after,) = parser.parse_overrides([text]), parser.parse_overrides([said[2]])
    assert after.is_sweep_override()
    (job,) = after.sweep_string_iterator()
    (reached,) = parser.parse_overrides([f"{text.split('=')[0]}={job}"])
    assert reached.value() == before.value()
    assert reached.type == before.type


@pytest.mark.parametrize(
    "text",
    [
        "hydra.sweep.dir=out", "++hydra.job.name=foo", "+hydra.job.env_set.A=1", "seed=1", "~model.x",
        "~model.x=1", "faces.per_group=null", "model.revision='null'", "model.revision='1e4'",
        "model.batch_size=1,2", "not parsed=[", "--cfg", r"model.name='it\'s'", "a.b=x=y",
    ],
)  # fmt: skip
def test_what_would_not_survive_is_left_alone(text):
    assert as_sweeps(["-m", SWEPT, text]) == ["-m", SWEPT, text]


def test_nothing_is_changed_where_no_choice_is_swept_over():
    arguments = ["-m", "model=clip_b32", "model.weights=random", "protocol.k=1,2"]
    assert as_sweeps(arguments) == arguments
