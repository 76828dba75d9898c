"""Synthesise choices of generative models, scored as by their jobs."""

import numpy as np
import pandas as pd

from src.studies.subtler import scoring
from tests.report import factory

DOMAINS = {"subtler_en": ("ageism", "beauty"), "subtler_zh": ("ageism",)}
CODINGS = {"subtler_en": ("published",), "subtler_zh": ("published", "corrected")}
GENDERS = ("female", "male", "not_specified")


def items(domains, *, copies=2, templates=5, lean=0.3, seed=0):
    """Draw items of every domain, direction, gender, template and polarity, with answers that lean."""
    rng = np.random.default_rng(seed)
    rows = [
        {"domain": domain, "direction": direction, "gender": gender, "template": f"{direction}: {template}"}
        | {"polarity": polarity, "stimulus": f"{polarity} {(template + copy) % 3}"}
        for domain in domains
        for direction in ("SAI", "ASA")
        for gender in GENDERS
        for template in range(templates)
        for polarity in (1, -1)
        for copy in range(copies)
    ]
    answers, chance = ["good", "bad", "neither", "else"], [0.4 + lean / 2, 0.4 - lean / 2, 0.15, 0.05]
    result = pd.DataFrame(rows).assign(stereotype="good", anti_stereotype="bad", unrelated="neither")
    return result.assign(response=rng.choice(answers, len(result), p=chance))


def analyses(model, task, *, protocol="recorded", **options):
    """Score the items of a job as in its analyses.csv."""
    frame = items(DOMAINS[task], **options)
    rows = [scoring.score_answers(frame, coding) for coding in CODINGS[task]]
    fields = {
        "exp": task,
        "paper": "Kamruzzaman",
        "model": model,
        "dataset": "subtler",
        "debias": "none",
        "perturb": "none",
    }
    fields |= {"protocol": protocol, "seed": 0, "config": f"{model}-{task}-{protocol}"}
    result = pd.concat(rows, ignore_index=True)
    return pd.concat([pd.DataFrame([fields] * len(result)), result], axis="columns")


def findings(*frames, **fields):
    """Build findings of jobs; `fields` replace those of the findings."""
    base = {"dataset": "subtler", "status": "FINISHED", "missing": []}
    return factory.build(**{**base, "subtler": pd.concat(frames, ignore_index=True), **fields})
