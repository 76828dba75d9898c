"""Compute recorded outputs of the studies of encoders on random vectors, with their inference."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from src import configs
from src.jobs.identity import Job
from src.stimuli import PROMPTS, Table
from src.stimuli.loaders import fill_templates
from src.studies.matched.captions import compose_prompts
from src.studies.protocol import load_study
from src.studies.shared.face_classes import compose_prompts as compose_classes
from src.studies.sobit.config import SobitConfig
from tests.conftest import GROUPS
from tests.recorded.numbers import unit_vectors
from tests.studies.harms import face_world
from tests.studies.matched import set_world

SMALL = ["dataset=photos", "protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
SMALL += ["protocol.bootstrap=40"]
# Columns of null distributions, intervals and p values: they belong to the part `inference`.
INFERENCE_COLUMNS = re.compile("placebo|_low$|_high$|^p_|^family_|^property_|^null_")
PLACEBO = "protocol.placebo=40"
SOBIT = ("permutations=39", "vocabulary=20", "top_k=7")
# Part -> experiments, overrides, and whether the columns of inference belong to it, too.
STUDIES: dict[str, tuple[list[str], list[str], bool]] = {
    # Group and valence, image and text corpora.
    "studies.propagation": (
        ["faces_to_words", "scenes_to_labels", "words_to_scenes", "labels_to_faces"], [], False,
    ),
    "intrinsic.difference": (
        ["faces_to_words", "labels_to_faces"], [PLACEBO, "protocol.intrinsic=difference"], True,
    ),
    "extrinsic.zero_shot": (
        ["faces_to_labels", "labels_to_scenes"], [PLACEBO, "protocol.extrinsic=zero_shot"], True,
    ),
    "extrinsic.harm": (
        ["faces_to_words", "faces_to_labels"],
        [PLACEBO, "protocol.extrinsic=harm", "protocol.article=literal"],
        True,
    ),
    "studies.implicit": (["cles_warmth", "cles_emotions", "iat_semantic"], ["protocol.partitions=40"], False),
    "studies.sobit": (
        ["sobit_association", "sobit_retrieval", "sobit_strength"], [f"protocol.{x}" for x in SOBIT], True,
    ),
    "studies.zero_shot": (["scenes_zero_shot"], [PLACEBO], False),
    "studies.eat": (["eat"], [], True),
}  # fmt: skip
# Experiments with reliability, of the part "studies.propagation" as well, and their overrides.
HALVED = ["scenes_to_words", "faces_to_labels"]
HALVES = ["exp.reliability=true", "protocol.placebo=0", "protocol.property_draws=0"]
LINKED = ("studies.implicit", "studies.zero_shot")  # also recorded with several pictures of a person or theme
WORDS = {"tempers": {"adjective": ["brisk", "odd"], "noun": ["hero"]}}


def tables() -> dict[str, Table]:
    """Build small tables of all four roles."""
    rng = np.random.default_rng(0)
    words = pd.DataFrame({"word": [f"w{i:02d}" for i in range(30)], "valence": rng.integers(0, 20, 30) / 19})
    labels = pd.DataFrame(
        [{"word": f"{group} {i}".lower(), "group": group} for group in GROUPS for i in range(10)]
    )
    faces = pd.DataFrame([{"id": f"{group}{i:02d}", "group": group} for group in GROUPS for i in range(20)])
    faces[["race", "gender"]] = faces["group"].str.split(" ", expand=True)
    scenes = pd.DataFrame({"id": [f"s{i:02d}" for i in range(30)], "valence": rng.integers(0, 30, 30) / 29})
    templates = ["a {}", "the {}"]
    texts = {"words": fill_templates(words, templates), "labels": fill_templates(labels, templates)}
    return {"faces": _table("faces", faces), "scenes": _table("scenes", scenes)} | {
        role: _table(role, frame.assign(id=frame["word"] + frame["template"].str[0]))
        for role, frame in texts.items()
    }


def _table(role: str, frame: pd.DataFrame) -> Table:
    return Table(role, frame.sort_values("id", ignore_index=True), len(frame))


def link_items(inputs: dict[str, Table]) -> dict[str, Table]:
    """Return the tables with two faces per person and three scenes per theme."""
    faces, scenes = (inputs[role].frame for role in ("faces", "scenes"))
    people = {"person": [f"p{i // 2}" for i in range(len(faces))]}
    themes = {"cluster": [f"t{i // 3}" for i in range(len(scenes))]}
    linked = {"faces": faces.assign(**people), "scenes": scenes.assign(**themes)}
    return inputs | {role: _table(role, frame) for role, frame in linked.items()}


def run_experiment(exp: str, *overrides: str, linked: bool = False) -> Any:
    """Run an experiment on random vectors with planted groups and valence; `linked`: see `link_items`."""
    cfg = Job.of(*configs.compose([f"exp={exp}", *SMALL, *overrides]), "").cfg
    if isinstance(cfg.exp, SobitConfig):
        cfg.taxonomy.categories = WORDS
    all_tables = link_items(tables()) if linked else tables()
    inputs = {role: all_tables[role] for role in all_tables if role in load_study(cfg.exp).roles(cfg.exp)}
    if cfg.protocol.extrinsic == "harm":  # its classes are of the faces, which are not loaded here
        prompts = compose_classes(cfg.classes, GROUPS, cfg.protocol.article)
    else:
        prompts = load_study(cfg.exp).prompts(cfg)
    if prompts:
        inputs[PROMPTS] = prompts
    directions = unit_vectors(1, len(GROUPS) + 1, 12)
    vectors = {}
    for number, (role, table) in enumerate(sorted(inputs.items())):
        rows = unit_vectors(10 + number, len(table.frame), 12)
        if "group" in table.frame and role != PROMPTS:
            rows += 0.6 * directions[[GROUPS.index(group) for group in table.frame["group"]]]
        if "valence" in table.frame:
            rows += 2 * (table.frame["valence"].to_numpy()[:, None] - 0.5) * directions[-1]
        vectors[role] = torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)).float()
    return load_study(cfg.exp).run(cfg, inputs, vectors)


def select_columns(frame: pd.DataFrame, *, is_inference: bool) -> dict[str, Any]:
    """Return the columns of inference, or all others, without those that are empty."""
    filled = frame.dropna(axis=1, how="all").astype(object)
    return {
        name: filled[name].where(filled[name].notna(), None).tolist()
        for name in map(str, filled)
        if bool(INFERENCE_COLUMNS.search(name)) == is_inference
    }


def _study(
    *exps: str, is_inference: bool = False, overrides: Sequence[str] = (), linked: bool = False
) -> dict[str, Any]:
    outputs = {}
    for exp in exps:
        result = run_experiment(exp, *overrides, linked=linked)
        for name, values in select_columns(result.analyses, is_inference=is_inference).items():
            outputs[f"{exp}.{name}"] = values
        if "targets" in result.tables and not is_inference:
            targets = result.tables["targets"].iloc[::9]
            for name, values in select_columns(targets, is_inference=False).items():
                outputs[f"{exp}.targets.{name}"] = values
    return outputs


def study_outputs(name: str, _: Path) -> dict[str, Any]:
    """Run the experiments of a part, a name of `STUDIES`."""
    exps, overrides, with_inference = STUDIES[name]
    inference = _study(*exps, is_inference=True, overrides=overrides) if with_inference else {}
    halved = _study(*HALVED, overrides=HALVES) if name == "studies.propagation" else {}
    linked = _study(*exps, is_inference=True, overrides=overrides, linked=True) if name in LINKED else {}
    outputs = _study(*exps, overrides=overrides) | inference | halved
    return outputs | {f"linked.{column}": values for column, values in linked.items()}


def intervention_outputs(_: Path) -> dict[str, Any]:
    """Remove what is measured from targets with groups and with ratings."""
    outputs: dict[str, Any] = {}
    for exp in ("faces_to_words", "scenes_to_labels"):
        result = run_experiment(exp, "exp.intervene=true", "protocol.placebo=99")
        for table in (result.intervention.rows, result.intervention.summary):
            for name, values in select_columns(table, is_inference=False).items():
                outputs[f"{exp}.{name}"] = values
            for name, values in select_columns(table, is_inference=True).items():
                outputs[f"{exp}.{name}"] = values
    return outputs


def harms_outputs(_: Path) -> dict[str, Any]:
    """Classify faces, several of each person, with and without the class of a child."""
    outputs: dict[str, Any] = {}
    for exp in ("harms", "harms_child"):
        overrides = ["protocol.permutations=39", "protocol.article=literal"]
        cfg = Job.of(*configs.compose([f"exp={exp}", *SMALL, *overrides]), "").cfg
        result = face_world.run(cfg, face_world.draw_faces(pictures=2), harm=0.8)[0]
        for is_inference in (False, True):
            for name, values in select_columns(result.analyses, is_inference=is_inference).items():
                outputs[f"{exp}.{name}"] = values
    return outputs


def matched_outputs(_: Path) -> dict[str, Any]:
    """Compare people in sets of pictures, by captions and by words."""
    outputs: dict[str, Any] = {}
    for exp, role in (("matched", PROMPTS), ("matched_words", "words")):
        overrides = ["protocol.top_k=9", "protocol.permutations=39", "protocol.article=literal"]
        cfg = Job.of(*configs.compose([f"exp={exp}", *SMALL, *overrides]), "").cfg
        frame, vectors, _, texts = set_world.draw(person=0.4)
        words, word_vectors, vectors = set_world.draw_words(0, vectors.shape[1], frame, vectors, 0.3)
        inputs = {"faces": _table("faces", frame), "words": _table("words", words)}
        arrays = {
            "faces": vectors[np.argsort(frame["id"])],
            "words": word_vectors[np.argsort(words["id"])],
            PROMPTS: texts,
        }
        if role == PROMPTS:
            inputs[PROMPTS] = compose_prompts(cfg, inputs["faces"])
        tensors = {name: torch.from_numpy(arrays[name]) for name in ("faces", role)}
        analyses = load_study(cfg.exp).run(cfg, inputs, tensors).analyses
        for is_inference in (False, True):
            columns = select_columns(analyses, is_inference=is_inference)
            outputs |= {f"{exp}.{name}": values for name, values in columns.items()}
    return outputs


def inference_outputs(_: Path) -> dict[str, Any]:
    """Compute placebo, intervals and p values of two experiments and of an audit."""
    exps, overrides = ("faces_to_words", "labels_to_faces"), ("protocol.placebo=40",)
    propagation = _study(*exps, is_inference=True, overrides=overrides)
    return propagation | _study("cles_warmth", is_inference=True, overrides=("protocol.partitions=40",))


# Bootstrap and permutations of associations are sums in float32.
FLOAT32_COLUMNS = ("association_low", "association_high", "null_q95")
SOBIT_FLOAT32_NAMES = frozenset(f"sobit_association.{name}" for name in FLOAT32_COLUMNS)
