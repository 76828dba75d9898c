"""Draw findings of models with declared training data."""

import numpy as np
import pandas as pd

from tests.report import factory

EXPERIMENTS = ("faces_to_words", "labels_to_scenes", "words_to_faces")
# Training data -> its filter.
DATA = {"laion2b": "clip_score", "datacomp_xl": "clip_score", "webli": "none", "openai": "none"}


def draw_facts(count, seed=0):
    """Draw `Findings.models` of models that are families by themselves."""
    rng, names = np.random.default_rng(seed), [*DATA]
    data = [names[number % len(names)] for number in range(count)]
    facts = {
        "model": [f"m{number:03d}" for number in range(count)],
        "parameters_millions": rng.choice([86.0, 151, 428, 986], count) * rng.uniform(0.9, 1.1, count),
        "gflops_image": rng.uniform(4, 300, count),
        "zero_shot": rng.uniform(0.5, 0.8, count),
        "pairs_seen": 10 ** rng.uniform(8, 10.5, count),
        "pretraining": data,
        "filter": [DATA[name] for name in data],
    }
    facts["family"] = [f"architecture {number}, {name}" for number, name in enumerate(data)]
    return pd.DataFrame(facts)


def draw_propagation(facts, *, experiments=EXPERIMENTS, effect=1.0, seed=1, groups=factory.GROUPS[:3]):
    """Draw analyses whose |level| rises with the pairs seen, and is higher without a filter."""
    rng, rows = np.random.default_rng(seed), []
    common = {
        "study": "propagation",
        "debias": "none",
        "perturb": "none",
        "seed": 0,
        "paper": "",
        "dataset": "demo",
    }
    for fact in facts.to_dict("records"):
        strength = effect * (0.02 * (np.log10(fact["pairs_seen"]) - 8) + 0.03 * (fact["filter"] == "none"))
        for exp in experiments:
            for group, sign in zip(groups, (1, -1, 1), strict=False):
                level = sign * (0.1 + strength + 0.02 * rng.normal())
                row = {"exp": exp, "model": fact["model"], "group": group, "stratum": group, "level": level}
                rows.append({**common, **row, "rho": np.tanh(rng.normal()), "protocol": "paper"})
    return pd.DataFrame(rows)


def draw_tests(facts, orders=("image_image", "image_text"), seed=2):
    """Draw association tests, as far as their section needs them."""
    rng, rows = np.random.default_rng(seed), []
    for model in facts["model"]:
        common = {
            "exp": "eat_ieat",
            "paper": "iEAT",
            "model": model,
            "dataset": "demo",
            "debias": "none",
            "perturb": "none",
        }
        common |= {"protocol": "paper", "seed": 0, "config": f"config {model}"}
        for test in ("race", "gender"):
            for order in orders:
                d = rng.uniform(-1.5, 1.5)
                row = {"test": test, "order": order, "n_x": 6, "n_y": 7, "n_a": 55, "n_b": 54, "d": d}
                row |= dict(zip(["set_x", "set_y", "set_a", "set_b"], ["x", "y", "a", "b"], strict=True))
                row |= {"d_low": d - 0.5, "d_high": d + 0.5, "df": 5, "p": rng.uniform(), "reason": ""}
                row |= {"partitions": 1716, "p_method": "exact", "null_low": -1.1, "null_high": 1.1}
                rows.append({**common, **row})
    return pd.DataFrame(rows)


def draw_findings(count, **options):
    """Draw findings with propagation and association tests."""
    facts = draw_facts(count)
    analyses = draw_propagation(facts, **options)
    return factory.build(models=facts, propagation=analyses, eat=draw_tests(facts), status="FINISHED")
