"""Make tables and random unit vectors at the sizes of the paper's roles, and of FairFace with a taxonomy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.sizes import Size, job_config

if TYPE_CHECKING:
    import pandas as pd

    from src.configs import ProtocolConfig

EXPERIMENTS = (
    *("scenes_to_words", "words_to_scenes", "faces_to_words", "labels_to_scenes"),
    *("faces_to_labels", "labels_to_faces", "scenes_to_labels", "words_to_faces"),
)
# Level of uncertainty -> protocol overrides that switch off the rest: the bootstrap at "and placebo", nothing
# at "and interval".
LEVELS = {
    "scores": ["placebo=0", "attribute_draws=0", "property_draws=0", "bootstrap=0"],
    "and placebo": ["bootstrap=0"],
    "and interval": [],
}
# Audit -> values of `protocol.vocabulary` to time: number of frequent words to compare with; 0: none.
AUDITS = {"sobit_association": (0, 10_000), "sobit_retrieval": (0,), "sobit_strength": (10_000,)}
# Shares of the races and genders in FairFace, named by letters.
RACES = {"A": 0.19, "B": 0.15, "C": 0.14, "D": 0.14, "E": 0.13, "F": 0.13, "G": 0.12}
GENDERS = {"F": 0.47, "M": 0.53}


def protocol(k: int) -> ProtocolConfig:
    """Return a protocol without null models and intervals."""
    off = (f"protocol.{override}" for override in LEVELS["scores"])
    return job_config("model=precomputed", "model.path=.", f"protocol.k={k}", *off).protocol


def paper_tables(size: Size) -> dict[str, pd.DataFrame]:
    """Make the tables of all four roles at the paper's size."""
    import numpy as np
    import pandas as pd

    from src import configs
    from src.stimuli.loaders import fill_templates, phrases

    cfg = job_config("model=precomputed", "model.path=.", "labels=race_gender")
    assert isinstance(cfg.labels, configs.LabelsConfig)
    labels = phrases(cfg.labels)
    groups = sorted(labels["group"].unique())
    rng = np.random.default_rng(0)
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(size.paper_faces)]})
    faces["group"] = [groups[number % len(groups)] for number in range(size.paper_faces)]
    scenes = pd.DataFrame({"id": [f"s{number:06d}" for number in range(size.paper_scenes)]})
    words = pd.DataFrame({"word": [f"w{number:06d}" for number in range(size.paper_words)]})
    return {
        "faces": faces,
        "scenes": scenes.assign(valence=rng.uniform(size=len(scenes))),
        "words": fill_templates(words.assign(valence=rng.uniform(size=len(words))), cfg.templates),
        "labels": fill_templates(labels, cfg.templates),
    }


def audit_tables(size: Size, folder: Path) -> dict[str, pd.DataFrame]:
    """Make a table of faces at FairFace's size, and one of all captions of a list of words.

    The list is written to `folder`/list.json.
    """
    import numpy as np
    import pandas as pd

    from src.studies.protocol import study_of

    words = [f"word {number}" for number in range(size.sobit_words)]
    (folder / "list.json").write_text(json.dumps({"words": {"noun": words}}))
    rng, count = np.random.default_rng(0), size.sobit_faces
    races, genders = (rng.choice([*shares], count, p=[*shares.values()]) for shares in (RACES, GENDERS))
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(count)], "race": races})
    faces = faces.assign(gender=genders, group=faces["race"] + " " + genders)
    cfg = job_config("exp=sobit_association", f"taxonomy.path={folder}/list.json")
    captions = study_of(cfg.exp).prompts(cfg)
    assert captions is not None
    return {"faces": faces, "prompts": captions.frame}


def write(tables: Mapping[str, pd.DataFrame], width: int, folder: Path) -> None:
    """Write tables, and random unit vectors of their rows, in the format of `model=precomputed`."""
    import numpy as np
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    for role, frame in tables.items():
        vectors = rng.standard_normal((len(frame), width), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors}, folder / f"{role}.safetensors")
