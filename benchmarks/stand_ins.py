"""Make stimuli without content at any size: tables, random unit vectors, and captions.

Tables have the sizes of the paper's roles, or of FairFace with a taxonomy; a corpus on disk has six groups.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib.format import open_memmap
from safetensors.numpy import save_file
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.sizes import Size
from src import configs
from src.embeddings.writer import VectorFile, finish_file
from src.jobs.identity import Job
from src.stimuli.loaders import compose_phrases, fill_templates
from src.studies.propagation.attributes import Pool
from src.studies.protocol import load_study

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
# Of a corpus on disk: width of the vectors, number of groups, and size of each attribute set.
WIDTH, GROUPS, SET_SIZE = 128, 6, 840
VECTORS, ROWS, OUTCOMES = "embedding.safetensors", "rows.npy", "outcomes.npy"
# Rows that are drawn at once.
CHUNK = 2**17
# Words that name a group or belong to a taxonomy. Other words of captions are "word0", "word1" and so on.
NAMED = ("woman", "man", "black", "asian", "white", "latino", "criminal", "doctor", "poor", "honest")
# Words of a caption, number of the other words, and probability of one of `NAMED`.
CAPTION_WORDS, WORDS, NAMED_SHARE = 10, 5000, 0.03


def job_config(*overrides: str) -> configs.RunConfig:
    """Compose the config of a job."""
    return Job.of(*configs.compose(list(overrides)), "").cfg


def protocol(k: int) -> configs.ProtocolConfig:
    """Return a protocol without null models and intervals."""
    off = (f"protocol.{override}" for override in LEVELS["scores"])
    return job_config("model=precomputed", "model.path=.", f"protocol.k={k}", *off).protocol


def paper_tables(size: Size) -> dict[str, pd.DataFrame]:
    """Make the tables of all four roles at the paper's size."""
    cfg = job_config("model=precomputed", "model.path=.", "labels=race_gender")
    assert isinstance(cfg.labels, configs.LabelsConfig)
    labels = compose_phrases(cfg.labels)
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
    words = [f"word {number}" for number in range(size.sobit_words)]
    (folder / "list.json").write_text(json.dumps({"words": {"noun": words}}))
    rng, count = np.random.default_rng(0), size.sobit_faces
    races, genders = (rng.choice([*shares], count, p=[*shares.values()]) for shares in (RACES, GENDERS))
    faces = pd.DataFrame({"id": [f"f{number:06d}" for number in range(count)], "race": races})
    faces = faces.assign(gender=genders, group=faces["race"] + " " + genders)
    cfg = job_config("exp=sobit_association", f"taxonomy.path={folder}/list.json")
    captions = load_study(cfg.exp).prompts(cfg)
    assert captions is not None
    return {"faces": faces, "prompts": captions.frame}


def write_random(tables: Mapping[str, pd.DataFrame], width: int, folder: Path) -> None:
    """Write tables by role, and random unit vectors of their rows, in the format of `model=precomputed`."""
    rng = np.random.default_rng(0)
    for role, frame in tables.items():
        write(role, frame, unit_vectors(rng, len(frame), width), folder)


def write(role: str, frame: pd.DataFrame, vectors: np.ndarray, folder: Path) -> None:
    """Write the table and the vectors of a role in the format of `model=precomputed`."""
    frame.to_parquet(folder / f"{role}.parquet")
    save_file({"embedding": vectors}, folder / f"{role}.safetensors")


def unit_vectors(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    """Draw random unit vectors in float32."""
    vectors = rng.standard_normal((count, width), dtype=np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def write_corpus(folder: Path, items: int) -> None:
    """Write random unit vectors, row numbers and outcomes (group memberships) of a corpus to files."""
    rng = np.random.default_rng(0)
    file = VectorFile(folder / VECTORS, (items, WIDTH))
    rows = open_memmap(folder / ROWS, "w+", np.int64, (items,))
    outcomes = open_memmap(folder / OUTCOMES, "w+", np.float64, (items, GROUPS))
    for start in range(0, items, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, items))
        file.write(numbers, unit_vectors(rng, len(numbers), WIDTH))
        rows[numbers] = numbers
        outcomes[numbers, numbers % GROUPS] = 1
    finish_file(folder / VECTORS)


def load_mapped(folder: Path, items: int, k: int) -> tuple[Tensor, Pool]:
    """Map the first items of a corpus on disk; return their vectors and a pool of six groups that share B."""
    rng = np.random.default_rng(1)
    a = [rng.permutation(items // GROUPS)[:SET_SIZE] * GROUPS + group for group in range(GROUPS)]
    b = rng.permutation(items)[:SET_SIZE]
    rows, outcomes = (np.asarray(np.load(folder / name, mmap_mode="c")[:items]) for name in (ROWS, OUTCOMES))
    return load_file(folder / VECTORS)["embedding"][:items], Pool(rows, None, a, [b] * GROUPS, outcomes, k)


def write_captions(path: Path, count: int) -> None:
    """Write a Parquet file of random captions of ten words each."""
    rng = np.random.default_rng(0)
    words = np.array([*NAMED, *(f"word{number}" for number in range(WORDS))])
    schema = pa.schema([("caption", pa.string())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, count, CHUNK):
            shape = min(CHUNK, count - start), CAPTION_WORDS
            others = len(NAMED) + rng.integers(0, WORDS, shape)
            indices = np.where(rng.random(shape) < NAMED_SHARE, rng.integers(0, len(NAMED), shape), others)
            texts = [" ".join(row) for row in words[indices].tolist()]
            file.write_table(pa.table({"caption": texts}, schema=schema))
