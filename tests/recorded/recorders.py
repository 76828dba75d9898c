"""Map each part of `src/versions.yaml` to how its output is computed and compared."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from src.studies.propagation import tables
from tests.recorded import answers, images, numbers, studies, vectors
from tests.recorded.comparison import (
    Recorder,
    compare_float32,
    compare_float64,
    compare_half_rows,
    compare_pixels,
    compare_rows,
)


def report_outputs(_: Path) -> dict[str, Any]:
    """Summarise a few analyses as the pipeline does."""
    rows = [
        {"model": model, "exp": exp, "paper": "1-a", "rho": rho}
        for model, exp, rho in (("m", "a", 0.5), ("m", "a", 0.75), ("m", "b", None), ("n", "a", -0.1))
    ]
    return {"nested": tables.build_mean_tree(pd.DataFrame(rows))}


RECORDERS = {
    "demo_world": Recorder(images.world_outputs, compare_pixels),
    "stimuli": Recorder(vectors.stimuli_outputs, compare_float64),
    "preprocessing": Recorder(images.preprocessing_outputs, compare_pixels),
    "perturbations": Recorder(images.perturbation_outputs, compare_pixels),
    "morphs.flow": Recorder(partial(images.morph_outputs, "flow"), compare_pixels),
    "morphs.landmark": Recorder(partial(images.morph_outputs, "landmark"), compare_pixels),
    "morphs.stylegan2": Recorder(images.stylegan2_outputs, compare_pixels),
    "encoders.blip2": Recorder(vectors.blip2_outputs, compare_rows),
    "encoders.hf": Recorder(vectors.hf_outputs, compare_rows),
    "encoders.half_precision": Recorder(vectors.half_precision_outputs, compare_half_rows),
    "encoders.open_clip": Recorder(vectors.open_clip_outputs, compare_rows),
    "encoders.served": Recorder(vectors.served_outputs, compare_rows),
    "encoders.sentence_transformers": Recorder(vectors.sentence_transformers_outputs, compare_rows),
    "encoders.toy": Recorder(vectors.toy_outputs, compare_rows),
    "embeddings": Recorder(vectors.embeddings_outputs, compare_rows),
    "debias": Recorder(numbers.debias_outputs, compare_float64),
    "metrics": Recorder(numbers.metric_outputs, compare_float64),
    "inference": Recorder(studies.inference_outputs, compare_float64),
    "intervention": Recorder(studies.intervention_outputs, compare_float64),
    "studies.harms": Recorder(studies.harms_outputs, compare_float64),
    "studies.matched": Recorder(studies.matched_outputs, compare_float64),
    "studies.poems": Recorder(answers.poems_outputs, compare_float64),
    "studies.subtler": Recorder(answers.subtler_outputs, compare_float64),
    "generators": Recorder(answers.generators_outputs, compare_float32),
    "scoring": Recorder(answers.scoring_outputs, compare_float64),
    "report": Recorder(report_outputs, compare_float64),
    **{
        name: Recorder(partial(studies.study_outputs, name), compare_float64, studies.SOBIT_FLOAT32_NAMES)
        for name in studies.STUDIES
    },
}
