"""Stand-ins of the paper's four roles, at its sizes: vectors that mean nothing."""

from __future__ import annotations

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
# What is switched off, step by step, until only the scores are left.
STEPS = {
    "scores": ["placebo=0", "attribute_draws=0", "property_draws=0", "bootstrap=0"],
    "and placebo": ["bootstrap=0"],
    "and interval": [],
}


def protocol(k: int) -> ProtocolConfig:
    """The scores alone."""
    off = (f"protocol.{name}" for name in STEPS["scores"])
    return job_config("model=precomputed", "model.path=.", f"protocol.k={k}", *off).protocol


def stand_ins(size: Size, folder: Path) -> None:
    """Write tables and random unit vectors of all four roles, as `model=precomputed` reads them."""
    import numpy as np
    from safetensors.numpy import save_file

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    for role, frame in tables(size).items():
        vectors = rng.normal(size=(len(frame), size.width))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors.astype(np.float32)}, folder / f"{role}.safetensors")


def tables(size: Size) -> dict[str, pd.DataFrame]:
    """Role -> stand-ins, at the paper's size."""
    import numpy as np
    import pandas as pd

    from src import configs
    from src.stimuli.texts import in_templates, phrases

    cfg = job_config("model=precomputed", "model.path=.", "labels=race_gender")
    assert isinstance(cfg.labels, configs.LabelsConfig)
    labels = phrases(cfg.labels.race_words, cfg.labels.gender_words)
    groups = sorted(labels["group"].unique())
    rng = np.random.default_rng(0)
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(size.paper_faces)]})
    faces["group"] = [groups[number % len(groups)] for number in range(size.paper_faces)]
    scenes = pd.DataFrame({"id": [f"s{number:06d}" for number in range(size.paper_scenes)]})
    words = pd.DataFrame({"word": [f"w{number:06d}" for number in range(size.paper_words)]})
    return {
        "faces": faces,
        "scenes": scenes.assign(valence=rng.uniform(size=len(scenes))),
        "words": in_templates(words.assign(valence=rng.uniform(size=len(words))), cfg.templates),
        "labels": in_templates(labels, cfg.templates),
    }
