"""Set the amounts of work to measure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from src.configs import RunConfig

# Number of templates of a text; number of targets in a block of a bare product.
TEMPLATES, BLOCK = 6, 256


def job_config(*overrides: str) -> RunConfig:
    """Compose the config of a job."""
    from src import configs
    from src.jobs.identity import Job

    return Job.of(*configs.compose(list(overrides)), "").cfg


@dataclass(frozen=True)
class Size:
    """Amount of work to measure.

    Attributes:
        faces, morphs: images of each group of the built-in world.
        scenes, words: stimuli of the built-in world.
        steps: training steps of a toy.
        k: number of retrieved items.
        paper_faces, paper_words, paper_scenes: stimuli with random vectors, at the paper's size.
        width: width of random vectors.
        sobit_faces, sobit_words: images and words of an audit at FairFace's size.
        sentences, pictures: stimuli to embed.
        streamed: items of a corpus on disk, and number of captions.
        models: number of toys in a sweep.
        encoders: encoders that embed texts and pictures.
        experiments: number of experiments on random vectors.
        many_models: number of precomputed models in a sweep.
        repeats: number of rounds in which sweeps are timed.
    """

    faces: int = 600
    scenes: int = 1500
    words: int = 2000
    morphs: int = 100
    steps: int = 1000
    k: int = 500
    paper_faces: int = 6000
    paper_words: int = 20_000
    paper_scenes: int = 900
    width: int = 512
    sobit_faces: int = 86_744
    sobit_words: int = 400
    sentences: int = 9600
    pictures: int = 512
    streamed: int = 10_000_000
    models: int = 3
    encoders: tuple[str, ...] = ("clip_b32", "clip_l14")
    experiments: int = 8
    many_models: int = 100
    repeats: int = 3


QUICK = Size(
    faces=60,
    scenes=300,
    words=300,
    morphs=5,
    steps=20,
    k=60,
    paper_faces=600,
    paper_words=2000,
    paper_scenes=200,
    sobit_faces=1000,
    sobit_words=20,
    sentences=24,
    pictures=8,
    streamed=200_000,
    models=1,
    encoders=("clip_b32",),
    experiments=2,
    many_models=8,
    repeats=1,
)
