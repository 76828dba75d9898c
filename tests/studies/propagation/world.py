"""Build a small world of tables with clusters of several sizes, and their clusters by construction."""

import numpy as np
import pandas as pd
import torch

from src import configs
from src.stimuli import build_table
from src.stimuli.loaders import compose_phrases, fill_templates
from src.studies.propagation import experiment
from tests import reference

RACES = {"X": ["xa", "xas", "xb", "xc", "xd", "xe"], "Y": ["ya", "yas", "yb", "yc", "yd", "ye"]}
GENDERS = {"Men": ["ma", "mas", "mb", "mc", "md", "me"], "Women": ["wa", "was", "wb", "wc", "wd", "we"]}
NOUNS = ["cat", "dog", "bird", "tree", "hat", "river", "lake", "cloud", "lamp", "door"]
ALONE = ["run", "milk", "gold", "sand", "wool", "salt", "rice", "corn", "mud", "fog"]
TEMPLATES = ["a {}", "the {}"]
SIZES = {"k": 11, "extremes": 5, "set_size": 12, "ddof": 1}
PROTOCOL = configs.ProtocolConfig(**SIZES, placebo=19, attribute_draws=3, property_draws=0, bootstrap=0)
SEED = 5


class World:
    """Tables and vectors by role, and the clusters of each item by hand, one name per way."""

    def __init__(self, seed=0, faces_per_group=12):
        rng = np.random.default_rng(seed)
        groups = [f"{race} {gender}" for race in RACES for gender in GENDERS]
        faces = pd.DataFrame(
            [
                {"id": f"{g}{i:02d}", "group": g, "cluster": f"{g}{i // 2}"}
                for g in groups
                for i in range(faces_per_group)
            ]
        )
        scenes = pd.DataFrame({"id": [f"s{i:02d}" for i in range(40)]})
        scenes["cluster"] = [f"pair {i // 2}" if i < 20 else None for i in range(40)]
        words = pd.DataFrame({"word": [*NOUNS, *(f"{noun}s" for noun in NOUNS), *ALONE]})
        for frame in (scenes, words):
            frame["valence"] = rng.integers(0, 20, len(frame)) / 19  # with ties
        labels = compose_phrases(configs.LabelsConfig(RACES, GENDERS))
        frames = {"faces": faces, "scenes": scenes}
        frames |= {
            role: fill_templates(frame, TEMPLATES) for role, frame in (("words", words), ("labels", labels))
        }
        self.tables = {role: build_table(role, frame, "t") for role, frame in frames.items()}
        directions = rng.normal(size=(len(groups) + 1, 8))
        self.vectors = {}
        for role, table in self.tables.items():
            plant = np.zeros((len(table.frame), 8))
            if "group" in table.frame:
                plant += 0.6 * directions[[groups.index(g) for g in table.frame["group"]]]
            else:
                plant += 2 * (table.frame["valence"].to_numpy()[:, None] - 0.5) * directions[-1]
            vectors = plant + rng.normal(size=plant.shape)
            self.vectors[role] = torch.from_numpy(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def run(self, exp, protocol=PROTOCOL):
        targets, corpus = exp.split("_to_")
        tables, vectors = ([side[role] for role in (targets, corpus)] for side in (self.tables, self.vectors))
        return experiment.run(*tables, *vectors, protocol, SEED)

    def naive(self, exp, **options):
        """Score all targets by `reference.unit_scores`."""
        rows = {role: reference.rows_of(table.frame) for role, table in self.tables.items()}
        vectors = {role: values.tolist() for role, values in self.vectors.items()}
        return reference.unit_scores(exp, rows, vectors, **SIZES, seed=SEED, **options)


def clusters_of(name):
    """Return the cluster of an item by each way, from its name."""
    if name[:1] == "s" and name[1:].isdigit():
        return (f"pair {int(name[1:]) // 2}" if int(name[1:]) < 20 else name,)
    if name[-2:].isdigit():
        return (f"{name[:-2]}{int(name[-2:]) // 2}",)
    return tuple(word.removesuffix("s") for word in name.split(" "))
