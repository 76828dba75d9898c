"""Draw vectors of faces and classes: each group leans to its own class, the first also to harmful ones."""

import copy
import functools

import numpy as np
import pandas as pd
import torch

from src import configs
from src.jobs.identity import Job
from src.stimuli import PROMPTS, build_table
from src.studies.harms import experiment
from src.studies.shared.face_classes import compose_prompts

GROUPS = ("Black Men", "Black Women", "White Men", "White Women")
# protocol.article=literal needs no slow import.
OPTIONS = ["protocol.permutations=199", "protocol.article=literal"]
WIDTH = 12


@functools.cache
def _composed(exp, options):
    return Job.of(*configs.compose([f"exp={exp}", *OPTIONS, *options]), "").cfg


def compose(exp="harms", *options):
    """Return a copy of an experiment's config, which the caller may change."""
    return copy.deepcopy(_composed(exp, options))


def draw_faces(seed=0, *, people=12, pictures=1, groups=GROUPS, sets=False):
    """Draw the table of faces: `people` of each group with `pictures` each.

    With `sets`, the column `set` is kept: a set has one picture of each group.
    """
    rng = np.random.default_rng(seed)
    rows = [
        {"group": group, "person": f"{group} {person}", "set": f"s{person} {picture}"}
        for group in groups
        for person in range(people)
        for picture in range(pictures)
    ]
    frame = pd.DataFrame(rows)
    frame[["race", "gender"]] = frame["group"].str.split(" ", n=1, expand=True)
    frame["age"] = rng.choice(["old", "young"], len(frame))
    frame.insert(0, "id", [f"f{number:04d}" for number in rng.permutation(len(frame))])
    return frame if sets else frame.drop(columns="set")


def draw_vectors(seed, frame, prompts, *, harm=0.0, spread=1.0):
    """Draw vectors of faces and prompts, in the order of their tables.

    Faces lean to the class of their group, those of the first group by `harm` to the harmful classes;
    `spread`: SD of people; that of a person's pictures is half of it.
    """
    rng = np.random.default_rng([seed, 1])
    texts = rng.normal(size=(len(prompts), WIDTH))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    person, _ = pd.factorize(frame.get("person", frame["id"]))
    vectors = spread * (
        rng.normal(size=(person.max() + 1, WIDTH))[person] + 0.5 * rng.normal(size=(len(frame), WIDTH))
    )
    for index, group in enumerate(frame["group"]):
        members = (prompts["group"] == group).to_numpy()
        vectors[index] += texts[members].mean(axis=0) if members.any() else 0
        if group == min(frame["group"]):
            vectors[index] += harm * texts[prompts["is_harmful"].to_numpy(dtype=bool)].sum(axis=0)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), texts


def build(cfg, frame, seed=0, **options):
    """Return tables and vectors of an experiment on faces."""
    faces = build_table("faces", frame, "test")
    prompts = compose_prompts(cfg.classes, faces.groups, cfg.protocol.article)
    vectors, texts = draw_vectors(seed, faces.frame, prompts.frame, **options)
    arrays = {"faces": torch.from_numpy(vectors), PROMPTS: torch.from_numpy(texts)}
    return {"faces": faces, PROMPTS: prompts}, arrays


def run(cfg, frame=None, seed=0, **options):
    """Run an experiment; return its result, tables and vectors."""
    frame = draw_faces(seed) if frame is None else frame
    tables, vectors = build(cfg, frame, seed, **options)
    return experiment.run(cfg, tables, vectors), tables, vectors
