"""Run experiments on a small world as an encoder sees it in English and in two other languages."""

import dataclasses

import numpy as np
import pandas as pd
import torch

from src.storage import results
from src.studies.propagation.combined import combine
from tests.report import factory
from tests.studies.propagation.world import PROTOCOL, World

QUICK = dataclasses.replace(PROTOCOL, placebo=0, attribute_draws=0)
# Language -> numbers of texts, and of those that are not read whole.
COUNTS = {"es": {"n_texts": 300, "n_unread": 24}, "ar": {"n_texts": 276, "n_unread": 0}}
EXPERIMENTS = ("faces_to_words", "words_to_scenes", "labels_to_faces")


def translate(world, code, noise, seed=3):
    """Rename the texts of a world, and add noise to their vectors; pictures stay."""
    rng = np.random.default_rng(seed)
    other = World()
    for role in ("words", "labels"):
        frame = other.tables[role].frame.copy()
        for name in ("id", "word"):
            frame[name] = [f"{text} {code}" for text in frame[name]]
        other.tables[role] = dataclasses.replace(other.tables[role], frame=frame)
        vectors = world.vectors[role] + noise * torch.from_numpy(rng.normal(size=world.vectors[role].shape))
        other.vectors[role] = vectors / vectors.norm(dim=1, keepdim=True)
    return other


def build_worlds():
    """Build an English world, Spanish with a little noise, and Arabic with nothing but noise."""
    english = World(faces_per_group=14)
    worlds = {"en": english, "es": translate(english, "es", 0.2), "ar": translate(english, "ar", 1000)}
    for world in worlds.values():
        world.tables["faces"], world.vectors["faces"] = english.tables["faces"], english.vectors["faces"]
    return worlds


def mistranslate(world, share, seed=4):
    """Exchange the ratings of a share of the words with one another."""
    other, rng = World(), np.random.default_rng(seed)
    other.tables, other.vectors = dict(world.tables), dict(world.vectors)
    frame = world.tables["words"].frame
    ratings = frame.drop_duplicates("word").set_index("word")["valence"]
    chosen = rng.permutation(len(ratings))[: round(share * len(ratings))]
    values = ratings.to_numpy(copy=True)
    values[chosen] = values[rng.permutation(chosen)]
    valence = frame["word"].map(dict(zip(ratings.index, values, strict=True)))
    other.tables["words"] = dataclasses.replace(world.tables["words"], frame=frame.assign(valence=valence))
    return other


def sweep(folder, worlds, experiments=EXPERIMENTS, failed=()):
    """Run the experiments in every language; `failed`: jobs (language, experiment) without results.

    `worlds`: language -> world; `es/native` is Spanish with its own ratings.
    """
    frames, folders, jobs = [], {}, []
    for name, world in worlds.items():
        code, _, ratings = name.partition("/")
        for exp in experiments:
            config = f"{len(jobs):032x}"
            language = {} if code == "en" else {"language": code, "ratings": ratings, **COUNTS[code]}
            common = {"study": "propagation", "exp": exp, "paper": factory.PAPER[exp], "model": "m"}
            common |= {"dataset": "lab", "debias": "none", "perturb": "none", "seed": 0, "config": config}
            common["protocol"] = "paper" if code == "en" else f"paper+language={code}"
            is_failed = (code, exp) in failed
            status = {"status": "failed" if is_failed else "finished", "reason": "disk full" * is_failed}
            jobs.append({**common, **status, "run": "r", "overrides": ""})
            if is_failed:
                continue
            result = world.run(exp, QUICK)
            keys = pd.DataFrame([{**common, **language}] * len(result.analyses))
            results.write(folder / config, keys.join(result.analyses), result.tables)
            frames.append(results.read(folder / config))
            folders[config] = folder / config / results.FOLDER
    facts = pd.DataFrame(columns=["model", "parameters_millions", "gflops_image", "zero_shot"])
    return factory.build(
        propagation=combine(frames), folders=folders, jobs=pd.DataFrame(jobs), models=facts, missing=[],
        status="FINISHED",
    )  # fmt: skip
