"""Synthesise audits of implicit bias in the form in which their jobs write them to disk."""

from itertools import combinations, product

import numpy as np
import pandas as pd

from tests.report import factory

SETS = {
    "cles_competence": {"competence": ["competent", "intelligent", "skillful"]},
    "cles_warmth": {"warmth": ["warm", "friendly", "likeable"]},
    "cles_emotions": {
        "emotions_positive": ["surprise", "attraction", "pleasure", "compassion", "serene", "happiness"],
        "emotions_negative": ["anger", "disgust", "fear", "shame", "bitterness", "contempt"],
    },
    "iat_semantic": {
        "semantic": ["positive", "negative", "warm", "cold", "trusting", "suspicious", "friendly", "hostile"]
        + ["respectful", "contemptive", "admirable", "disgusting"]
    },
}
MEASURES = ("cles", "cles_gap", "iat")
DRAWS = 24


def sweep(
    folder,
    *,
    models=("toy_s", "toy_m"),
    groups=factory.GROUPS,
    audits=tuple(SETS),
    debias=("none",),
    **fields,
):
    """Synthesise findings of models x audits x debias, without other experiments.

    Differences between groups grow with the position of the model. `fields` replace those of the findings.
    """
    frames, folders, jobs = [], {}, []
    for method, model, exp in product(debias, models, audits):
        config = f"{len(folders):031x}a"
        folders[config] = folder / config
        folders[config].mkdir(parents=True)
        common = {"exp": exp, "paper": exp[:4].upper().strip("_"), "model": model, "dataset": "demo"}
        common |= {"debias": method, "perturb": "none", "protocol": "paper", "seed": 0, "config": config}
        strength = (1 + models.index(model)) / (1 + (method != "none"))
        frames.append(write_job(folders[config], common, groups, strength))
        jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    base = {"implicit": pd.concat(frames, ignore_index=True), "folders": folders, "jobs": pd.DataFrame(jobs)}
    base["models"] = pd.DataFrame({"model": models, "pretraining": "the dataset's captions"})
    return factory.build(**{"status": "FINISHED", "missing": [], **base, **fields})


def write_job(folder, common, groups, strength, faces=12):
    """Write a job's similarities and draws; return its analyses."""
    exp = common["exp"]
    # The seed depends on the audit only: models share their noise and differ by strength alone.
    rng = np.random.default_rng(sorted(SETS).index(exp))
    rows, similarities, draw_frames = [], [], []
    for name, words in SETS[exp].items():
        shift = 0.004 * strength * rng.normal(size=(len(groups), 1, 1))
        cosine = 0.2 + shift + 0.01 * rng.normal(size=(1, 1, len(words)))
        cosine = cosine + 0.01 * rng.normal(size=(len(groups), faces, len(words)))
        index = pd.MultiIndex.from_product([groups, range(faces), words], names=["group", "id", "word"])
        frame = pd.DataFrame({"cosine": cosine.ravel()}, index).reset_index().assign(set=name)
        frame["id"] = frame["group"] + "-CFD-" + frame["id"].astype(str)
        similarities.append(frame)
        for a, b in combinations(range(len(groups)), 2):
            row, pair_draws = _compare_pair(rng, cosine[a], cosine[b], exp)
            pair = {"attribute": name, "group_a": groups[a], "group_b": groups[b]}
            rows.append({**common, "measure": measure_of(exp), **pair, "n_a": faces, "n_b": faces, **row})
            draw_frames.append(pair_draws.assign(**pair))
    analyses, draws = pd.DataFrame(rows), pd.concat(draw_frames, ignore_index=True)
    if len(SETS[exp]) > 1:
        keys = ["group_a", "group_b"]
        mean = analyses.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
        fields = {**common, "attribute": exp.removeprefix("cles_"), "measure": measure_of(exp)}
        mean = mean.astype({"n_a": int, "n_b": int}).assign(**fields)
        analyses = pd.concat([analyses, mean[analyses.columns]], ignore_index=True)
        mean = draws.groupby([*keys, "kind", "draw"], sort=False)[[*MEASURES]].mean().reset_index()
        draws = pd.concat([draws, mean.assign(attribute=fields["attribute"])], ignore_index=True)
    pd.concat(similarities).to_parquet(folder / "similarities.parquet", index=False)
    draws.to_parquet(folder / "draws.parquet", index=False)
    return analyses


def _compare_pair(rng, a, b, exp):
    observed = _measures(a, b)
    pooled, size = np.concatenate([a, b]), len(a)
    samples = {"bootstrap": [], "null": []}
    for _ in range(DRAWS):
        samples["bootstrap"].append(_measures(*(x[rng.integers(size, size=size)] for x in (a, b))))
        permuted = rng.permutation(pooled)
        samples["null"].append(_measures(permuted[:size], permuted[size:]))
    frames = {kind: pd.DataFrame(rows, columns=MEASURES) for kind, rows in samples.items()}
    null, bootstrap_cles = frames["null"][measure_of(exp)], frames["bootstrap"]["cles"]
    p_null = (1 + (null >= observed[measure_of(exp)]).sum()) / (DRAWS + 1)
    row = {**observed, "null_mean": null.mean(), "null_q95": null.quantile(0.95), "p_null": p_null}
    row |= {"cles_low": bootstrap_cles.quantile(0.025), "cles_high": bootstrap_cles.quantile(0.975)}
    return row, pd.concat(frame.assign(kind=kind, draw=range(DRAWS)) for kind, frame in frames.items())


def measure_of(exp):
    return "iat" if exp == "iat_semantic" else "cles_gap"


def _measures(a, b):
    cles = float(np.mean(a[:, None, :] > b[None, :, :]))
    # Only the IAT's set consists of pairs: its positive and negative words alternate.
    paired = a.shape[1] == len(SETS["iat_semantic"]["semantic"])
    wins = [np.where(x[:, ::2] > x[:, 1::2], 1, -1).sum() if paired else np.nan for x in (a, b)]
    return {"cles": cles, "cles_gap": abs(cles - 0.5), "iat": float(abs(wins[0] - wins[1]))}
