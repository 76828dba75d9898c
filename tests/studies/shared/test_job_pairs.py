"""Check which jobs are paired."""

import pandas as pd

from src.studies.shared.job_pairs import NAMES, pair_jobs
from tests.report import factory


def test_of_several_jobs_of_the_same_names_those_of_equal_overrides_are_paired():
    names = {**dict.fromkeys(NAMES, "x"), "status": "finished", "reason": ""}
    overrides = {
        "wide": "exp=x exp.tolerance=.1",
        "narrow": "exp=x exp.tolerance=.05 debias=none",
        "narrow_projected": "debias=orth_proj exp.tolerance=.05 exp=x report=true",
        "wide_projected": "debias=orth_proj exp.tolerance=.1 exp=x",
        "other_projected": "debias=orth_proj exp.tolerance=.2 exp=x",
    }
    methods = {config: "orth_proj" if "_projected" in config else "none" for config in overrides}
    jobs = pd.DataFrame(
        [
            {**names, "config": config, "overrides": text, "debias": methods[config]}
            for config, text in overrides.items()
        ]
    )
    pairs = pair_jobs(factory.build(zero_shot=jobs, jobs=jobs), "debias", ["zero_shot"])
    assert [pair.configs for pair in pairs] == [
        ("narrow", "narrow_projected"),
        ("wide", "wide_projected"),
        ("wide", "other_projected"),
    ]
