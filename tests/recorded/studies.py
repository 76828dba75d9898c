"""Record outputs of the studies of encoders on random vectors, with their inference."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from src import configs
from src.jobs.identity import Job
from src.stimuli import PROMPTS, Table
from src.stimuli.loaders import in_templates
from src.studies.protocol import study_of
from src.studies.sobit.config import SobitConfig
from tests.conftest import GROUPS
from tests.recorded.numbers import arrays

SMALL = ["dataset=photos", "protocol.k=11", "protocol.extremes=6", "protocol.set_size=15"]
SMALL += ["protocol.bootstrap=40"]
# Columns that say how sure a number is: they belong to the part `inference`.
SURE = re.compile("placebo|_low$|_high$|^p_|^family_|^property_|^null_|^sd_attributes$")
WORDS = {"tempers": {"adjective": ["brisk", "odd"], "noun": ["hero"]}}


def tables() -> dict[str, Table]:
    """Return small tables of all four roles."""
    rng = np.random.default_rng(0)
    words = pd.DataFrame({"word": [f"w{i:02d}" for i in range(30)], "valence": rng.integers(0, 20, 30) / 19})
    labels = pd.DataFrame(
        [{"word": f"{group} {i}".lower(), "group": group} for group in GROUPS for i in range(10)]
    )
    faces = pd.DataFrame([{"id": f"{group}{i:02d}", "group": group} for group in GROUPS for i in range(20)])
    faces[["race", "gender"]] = faces["group"].str.split(" ", expand=True)
    scenes = pd.DataFrame({"id": [f"s{i:02d}" for i in range(30)], "valence": rng.integers(0, 30, 30) / 29})
    templates = ["a {}", "the {}"]
    texts = {"words": in_templates(words, templates), "labels": in_templates(labels, templates)}
    return {"faces": _table("faces", faces), "scenes": _table("scenes", scenes)} | {
        role: _table(role, frame.assign(id=frame["word"] + frame["template"].str[0]))
        for role, frame in texts.items()
    }


def _table(role: str, frame: pd.DataFrame) -> Table:
    return Table(role, frame.sort_values("id", ignore_index=True), len(frame))


def analysed(exp: str, *overrides: str) -> Any:
    """Run an experiment on random vectors with planted groups and valence."""
    cfg = Job.of(*configs.compose([f"exp={exp}", *SMALL, *overrides]), "").cfg
    if isinstance(cfg.exp, SobitConfig):
        cfg.taxonomy.categories = WORDS
    inputs = {role: table for role, table in tables().items() if role in study_of(cfg.exp).roles(cfg.exp)}
    prompts = study_of(cfg.exp).prompts(cfg)
    if prompts:
        inputs[PROMPTS] = prompts
    directions = arrays(1, len(GROUPS) + 1, 12)
    given = {}
    for number, (role, table) in enumerate(sorted(inputs.items())):
        rows = arrays(10 + number, len(table.frame), 12)
        if "group" in table.frame:
            rows += 0.6 * directions[[GROUPS.index(group) for group in table.frame["group"]]]
        if "valence" in table.frame:
            rows += 2 * (table.frame["valence"].to_numpy()[:, None] - 0.5) * directions[-1]
        given[role] = torch.from_numpy(rows / np.linalg.norm(rows, axis=1, keepdims=True)).float()
    return study_of(cfg.exp).run(cfg, inputs, given)


def columns(frame: pd.DataFrame, *, sure: bool) -> dict[str, Any]:
    """Return the columns of a table that are figures, or those that say how sure these are."""
    figures = frame.dropna(axis=1, how="all").astype(object)
    return {
        name: figures[name].where(figures[name].notna(), None).tolist()
        for name in map(str, figures)
        if bool(SURE.search(name)) == sure
    }


def _study(*exps: str, sure: bool = False, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    outputs = {}
    for exp in exps:
        result = analysed(exp, *overrides)
        for name, values in columns(result.analyses, sure=sure).items():
            outputs[f"{exp}.{name}"] = values
        if "targets" in result.tables and not sure:
            for name, values in columns(result.tables["targets"].iloc[::9], sure=sure).items():
                outputs[f"{exp}.targets.{name}"] = values
    return outputs


def of_propagation(_: Path) -> dict[str, Any]:
    """Compare four pairs of roles: both contents, both modalities of the corpus."""
    return _study("faces_to_words", "scenes_to_labels", "words_to_scenes", "labels_to_faces")


def _with_nulls(*exps: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    overrides = (*overrides, "protocol.placebo=40")
    numbers = (_study(*exps, sure=sure, overrides=overrides) for sure in (False, True))
    return {name: values for outputs in numbers for name, values in outputs.items()}


def of_difference(_: Path) -> dict[str, Any]:
    """Compare two pairs of roles by the difference of mean cosines."""
    return _with_nulls("faces_to_words", "labels_to_faces", overrides=("protocol.intrinsic=difference",))


def of_nearest_class(_: Path) -> dict[str, Any]:
    """Compare two pairs of roles by the nearest class."""
    return _with_nulls("faces_to_labels", "labels_to_scenes", overrides=("protocol.extrinsic=zero_shot",))


def of_inference(_: Path) -> dict[str, Any]:
    """Compute placebo, intervals and p values of the same analyses, and of an audit."""
    propagation = _study("faces_to_words", "labels_to_faces", sure=True, overrides=("protocol.placebo=40",))
    return propagation | _study("cles_warmth", sure=True, overrides=("protocol.partitions=40",))


def of_implicit(_: Path) -> dict[str, Any]:
    """Audit by CLES and IAT."""
    fast = ("protocol.partitions=40",)
    return _study("cles_warmth", "cles_emotions", "iat_semantic", overrides=fast)


# Bootstrap and permutations of associations sum float32.
SINGLE = ("association_low", "association_high", "null_q95")
SOBIT_SINGLE = frozenset(f"sobit_association.{name}" for name in SINGLE)


def of_sobit(_: Path) -> dict[str, Any]:
    """Audit three words of a taxonomy in all three measures."""
    fast = ("protocol.permutations=39", "protocol.vocabulary=20", "protocol.top_k=7")
    return {
        name: values
        for measure in ("association", "retrieval", "strength")
        for sure in (False, True)
        for name, values in _study(f"sobit_{measure}", sure=sure, overrides=fast).items()
    }


def of_zero_shot(_: Path) -> dict[str, Any]:
    """Classify scenes by the nearest word."""
    return _study("scenes_zero_shot", overrides=("protocol.placebo=40",))
