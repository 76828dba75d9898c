"""Synthetic choices of generative models, scored as by their jobs."""

import numpy as np
import pandas as pd

from src.studies.subtler import scoring
from tests.report import made

DOMAINS = {"subtler_en": ("ageism", "beauty"), "subtler_zh": ("ageism",)}
CODINGS = {"subtler_en": ("published",), "subtler_zh": ("published", "corrected")}
GENDERS = ("female", "male", "not_specified")


def items(domains, *, each=2, templates=4, lean=0.3, seed=0):
    """Items of every domain, direction, gender, template and polarity, with answers that lean."""
    rng = np.random.default_rng(seed)
    rows = [
        {"domain": domain, "direction": direction, "gender": gender, "template": f"{direction}: {template}"}
        | {"polarity": polarity}
        for domain in domains
        for direction in ("SAI", "ASA")
        for gender in GENDERS
        for template in range(templates)
        for polarity in (1, -1)
        for _ in range(each)
    ]
    answers, chance = ["good", "bad", "neither", "else"], [0.4 + lean / 2, 0.4 - lean / 2, 0.15, 0.05]
    result = pd.DataFrame(rows).assign(stereotype="good", anti_stereotype="bad", unrelated="neither")
    return result.assign(response=rng.choice(answers, len(result), p=chance))


def scored(model, task, *, protocol="recorded", **other):
    """analyses.csv of a job."""
    frame = items(DOMAINS[task], **other)
    rows = [scoring.score(frame, coding, bootstrap=40, seed=0) for coding in CODINGS[task]]
    about = {"exp": task, "paper": "Kamruzzaman", "model": model, "dataset": "subtler", "debias": "none"}
    about |= {"protocol": protocol, "seed": 0, "config": f"{model}-{task}-{protocol}"}
    result = pd.concat(rows, ignore_index=True)
    return pd.concat([pd.DataFrame([about] * len(result)), result], axis="columns")


def swept(*frames, **other):
    """Findings of jobs."""
    about = {"dataset": "subtler", "status": "FINISHED", "missing": []}
    return made.findings_of(**{**about, "subtler": pd.concat(frames, ignore_index=True), **other})
