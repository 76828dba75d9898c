"""Draw worlds of matched pictures: scenes, people and captions as vectors."""

from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.numpy import save_file

GROUPS = ("Men", "Nonbinary", "Women")
OCCUPATIONS = ("actor", "baker", "chemist", "driver")
WORDS, TEMPLATES = 40, ("a {}", "the {}")


def compose(occupation):
    """Compose the caption of an occupation with protocol.article=literal, which needs no slow import."""
    return f"a photo of a/an {occupation}"


def draw(seed=0, *, sets=6, width=12, groups=GROUPS, scene=2.0, person=0.0, occupations=OCCUPATIONS):
    """Return faces and captions with their vectors; `person`: pull of the first group to all captions."""
    rng = np.random.default_rng(seed)
    subject = rng.normal(size=(len(occupations), width))
    pull = rng.normal(size=width)
    rows, vectors = [], []
    for number, occupation in enumerate(occupations):
        for index in range(sets):
            background = subject[number] + scene * rng.normal(size=width)
            for group in groups:
                rows.append({"group": group, "set": f"{occupation} {index}", "occupation": occupation})
                vectors.append(
                    background + person * pull * (group == groups[0]) + 0.7 * rng.normal(size=width)
                )
    frame = pd.DataFrame(rows)
    # Ids do not tell group or set.
    frame.insert(0, "id", [f"p{number:04d}" for number in rng.permutation(len(frame))])
    captions = pd.DataFrame({"sentence": [compose(name) for name in occupations]})
    captions["id"] = [f"c{number}" for number in range(len(captions))]
    return frame, _unit(np.array(vectors)), captions, _unit(subject + pull)


def draw_words(seed, width, frame, vectors, tilt=0.0):
    """Return words with valence and their vectors; `tilt`: how far the first group's pictures lean to it."""
    rng = np.random.default_rng([seed, 1])
    direction = rng.normal(size=width)
    valence = rng.permutation(WORDS) / (WORDS - 1)
    words = pd.concat(
        [
            pd.DataFrame(
                {"word": [f"w{i:02d}" for i in range(WORDS)], "valence": valence, "template": template}
            )
            for template in TEMPLATES
        ],
        ignore_index=True,
    )
    words["sentence"] = [t.replace("{}", w) for t, w in zip(words["template"], words["word"], strict=True)]
    words["id"] = words["sentence"]
    texts = _unit(
        2 * (words["valence"].to_numpy()[:, None] - 0.5) * direction + rng.normal(size=(len(words), width))
    )
    leaning = tilt * direction * (frame["group"] == frame["group"].iloc[0]).to_numpy()[:, None]
    return words, texts, _unit(vectors + leaning)


def write(folder: Path, tables):
    """Write tables and vectors by role as precomputed vectors."""
    folder.mkdir(parents=True, exist_ok=True)
    for role, (frame, vectors) in tables.items():
        frame.to_parquet(folder / f"{role}.parquet")
        save_file(
            {"embedding": np.ascontiguousarray(vectors, dtype=np.float32)}, folder / f"{role}.safetensors"
        )
    return folder


def write_world(folder: Path, seed=0, tilt=0.0, **options):
    frame, vectors, captions, caption_vectors = draw(seed, **options)
    words, texts, tilted = draw_words(seed, vectors.shape[1], frame, vectors, tilt)
    tables = {"faces": (frame, tilted), "prompts": (captions, caption_vectors), "words": (words, texts)}
    return write(folder, tables)


def _unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
