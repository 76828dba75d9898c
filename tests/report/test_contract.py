"""What experiments leave behind is what the report reads."""

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from scipy import stats

from src.report import page
from src.report.findings import Findings
from src.storage import results
from src.studies.propagation import contributors, differences, experiment, paper_figures, sensitivity
from src.studies.propagation.combined import shown
from tests.conftest import precomputed
from tests.studies.propagation.test_uncertainty import inputs

PAPER = {
    "faces_to_words": "1-a",
    "words_to_scenes": "1*-b",
    "scenes_to_labels": "2-a",
    "words_to_faces": "2-b",
}


def measured(folder, models):
    """Findings of experiments on precomputed vectors, written and read as a sweep's are."""
    frames, folders = [], {}
    for model, vectors in models.items():
        for exp, paper in PAPER.items():
            config = f"{len(folders):032x}"
            found = experiment.run(*inputs(vectors, exp))
            common = {"exp": exp, "paper": paper, "model": model, "dataset": "lab", "debias": "none"}
            common |= {"protocol": "paper", "seed": 0, "config": config}
            first = pd.DataFrame([common] * len(found.analyses))
            analyses = pd.concat([first, found.analyses], axis="columns")
            results.write(folder / config, analyses, found.tables)
            frames.append(results.read(folder / config))
            folders[config] = folder / config / results.FOLDER
    analyses = pd.concat(frames, ignore_index=True)
    known = analyses["p_placebo"].notna()
    analyses.loc[known, "q"] = stats.false_discovery_control(analyses.loc[known, "p_placebo"])
    jobs = analyses.drop_duplicates("config")[["model", "exp", "protocol", "seed", "config"]]
    return Findings(
        dataset="lab",
        sweep="0" * 32,
        status="FINISHED",
        started="2026-03-01T10:00:00+00:00",
        frames={"propagation": analyses},
        folders=folders,
        jobs=jobs.assign(status="finished", run="r", reason="", overrides=""),
        missing=[],
        models=pd.DataFrame(columns=["model", "parameters_millions", "gflops_image", "zero_shot"]),
        provenance={},
    )


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    place = tmp_path_factory.mktemp("vectors")
    models = {name: precomputed(place / name) for name in ("sharp", "blurred")}
    rng = np.random.default_rng(0)
    for path in models["blurred"].glob("*.safetensors"):
        vectors = load_file(path)["embedding"]
        vectors = vectors + 0.2 * rng.normal(size=vectors.shape).astype(np.float32)
        save_file({"embedding": vectors / np.linalg.norm(vectors, axis=1, keepdims=True)}, path)
    return measured(tmp_path_factory.mktemp("jobs"), models)


def test_models_that_saw_the_same_share_their_draws(findings):
    found = differences.models(findings)
    assert len(found) == len(shown(findings)) / 2
    assert (found["reason"] == "").all()
    assert found[["ci_low", "ci_high", "p_placebo", "q"]].notna().all(axis=None)
    groups = differences.groups(findings)
    assert groups[["ci_low", "ci_high"]].notna().all(axis=None)
    assert set(groups["exp"]) == set(PAPER) - {"words_to_scenes"}


def test_every_table_of_a_job_is_used(findings, tmp_path):
    assert set(paper_figures.valence_bands(findings)["exp"]) == {"scenes_to_labels", "words_to_faces"}
    assert paper_figures.group_means(findings)["z"].notna().all()
    drawn = sensitivity.attribute_draws(findings)
    assert len(drawn) == 5 * len(shown(findings))
    moved = contributors.contributors(findings)
    assert set(moved["config"]) == set(shown(findings)["config"])
    faces = moved[moved["exp"] == "words_to_faces"]
    assert faces["item"].str.fullmatch(r"face no\. \d+").all()
    text = page.write(findings, tmp_path).read_text(encoding="utf-8")
    assert "What is missing" not in text
