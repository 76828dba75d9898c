"""Set the amounts of work to measure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuEncoder:
    """Amount of work to measure of an encoder on a GPU."""

    model: str  # name of a YAML in conf/model
    batch: int  # pictures or sentences per batch
    pictures: int  # an even number of batches
    sentences: int = 9600  # stimuli to embed; 0: sentences are not measured
    compared: int = 32  # pictures and sentences whose vectors are compared with the CPU's
    rounds: int = 3  # number of rounds in which runs are timed


@dataclass(frozen=True)
class Size:
    """Amount of work to measure."""

    faces: int = 600  # images of each group of the built-in world
    scenes: int = 1500  # stimuli of the built-in world
    words: int = 2000
    morphs: int = 100  # morphs of each group of the built-in world
    steps: int = 1000  # training steps of a toy
    k: int = 500  # number of retrieved items
    paper_faces: int = 6000  # stimuli with random vectors, at the paper's size
    paper_words: int = 20_000
    paper_scenes: int = 900
    width: int = 512  # width of random vectors
    sobit_faces: int = 86_744  # images and words of an audit at FairFace's size
    sobit_words: int = 400
    sentences: int = 9600  # stimuli to embed
    pictures: int = 512
    streamed: int = 10_000_000  # items of a corpus on disk, and number of captions
    models: int = 3  # number of toys in a sweep
    encoders: tuple[str, ...] = ("clip_b32", "clip_l14")  # encoders that embed texts and pictures
    gpu_encoders: tuple[GpuEncoder, ...] = (  # the most important first
        GpuEncoder("clip_l14", 512, 4096),
        GpuEncoder("clip_b32", 1024, 16_384),
        GpuEncoder("openclip_h14", 256, 2048),
        GpuEncoder("blip2", 256, 1024, sentences=0),
    )
    experiments: int = 8  # number of experiments on random vectors
    many_models: int = 100  # number of precomputed models in a sweep
    repeats: int = 3  # number of rounds in which sweeps are timed


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
    gpu_encoders=(GpuEncoder("toy_s", 8, 32, sentences=24, compared=4, rounds=1),),
    experiments=2,
    many_models=8,
    repeats=1,
)
