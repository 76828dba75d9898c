"""Stand-ins of FairFace's faces and of a taxonomy's captions, at their sizes: vectors that mean nothing."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.sizes import Size, job_config

# Audit -> sizes of the baseline's vocabulary.
AUDITS = {"sobit_association": (0, 10_000), "sobit_retrieval": (0,), "sobit_strength": (10_000,)}


def faces_and_prompts(size: Size, folder: Path) -> None:
    """Write faces, a list of words, and all captions, as `model=precomputed` reads them."""
    import numpy as np
    import pandas as pd
    from safetensors.numpy import save_file

    from src.studies.protocol import study_of

    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    words = [f"word {number}" for number in range(size.sobit_words)]
    (folder / "list.json").write_text(json.dumps({"words": {"noun": words}}))
    # Seven races by two genders, as uneven as FairFace's are.
    races = rng.choice(list("ABCDEFG"), size.sobit_faces, p=[0.19, 0.15, 0.14, 0.14, 0.13, 0.13, 0.12])
    genders = rng.choice(["F", "M"], size.sobit_faces, p=[0.47, 0.53])
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(size.sobit_faces)], "race": races})
    faces = faces.assign(gender=genders, group=faces["race"] + " " + genders)
    cfg = job_config("exp=sobit_association", f"taxonomy.path={folder}/list.json")
    own = study_of(cfg.exp).prompts(cfg)
    assert own is not None
    for role, frame in {"faces": faces, "prompts": own.frame}.items():
        vectors = rng.standard_normal((len(frame), size.width), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        frame.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": vectors}, folder / f"{role}.safetensors")
