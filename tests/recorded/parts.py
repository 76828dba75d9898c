"""List every part of `src/versions.yaml`, how its output is made, and how close it has to stay."""

from pathlib import Path
from typing import Any

import pandas as pd

from src.studies.propagation import tables
from tests.recorded import answers, images, numbers, studies, vectors
from tests.recorded.comparison import Recorder, float32, float64, levels
from tests.recorded.comparison import vectors as directions


def of_report(_: Path) -> dict[str, Any]:
    """Summarise a few analyses as the pipeline does."""
    rows = [
        {"model": model, "exp": exp, "paper": "1-a", "rho": rho}
        for model, exp, rho in (("m", "a", 0.5), ("m", "a", 0.75), ("m", "b", None), ("n", "a", -0.1))
    ]
    return {"nested": tables.mean_tree(pd.DataFrame(rows))}


RECORDERS = {
    "demo_world": Recorder(images.of_world, levels),
    "stimuli": Recorder(vectors.of_stimuli, float64),
    "preprocessing": Recorder(images.of_preprocessing, levels),
    "morphs.flow": Recorder(images.of_flow, levels),
    "morphs.landmark": Recorder(images.of_landmark, levels),
    "morphs.stylegan2": Recorder(images.of_stylegan2, levels),
    "encoders.blip2": Recorder(vectors.of_blip2, directions),
    "encoders.open_clip": Recorder(vectors.of_open_clip, directions),
    "encoders.toy": Recorder(vectors.of_toy, directions),
    "embeddings": Recorder(vectors.of_embeddings, directions),
    "debias": Recorder(numbers.of_debias, float64),
    "metrics": Recorder(numbers.of_metrics, float64),
    "inference": Recorder(studies.of_inference, float64),
    "intrinsic.difference": Recorder(studies.of_difference, float64),
    "extrinsic.zero_shot": Recorder(studies.of_nearest_class, float64),
    "studies.implicit": Recorder(studies.of_implicit, float64),
    "studies.poems": Recorder(answers.of_poems, float64),
    "studies.propagation": Recorder(studies.of_propagation, float64),
    "studies.sobit": Recorder(studies.of_sobit, float64, studies.SOBIT_SINGLE),
    "studies.subtler": Recorder(answers.of_subtler, float64),
    "studies.zero_shot": Recorder(studies.of_zero_shot, float64),
    "generators": Recorder(answers.of_generators, float32),
    "scoring": Recorder(answers.of_scoring, float64),
    "report": Recorder(of_report, float64),
}
