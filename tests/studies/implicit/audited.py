"""Draw plausible audits of implicit bias, as their jobs leave them on disk."""

from itertools import combinations, product

import numpy as np
import pandas as pd

from tests.report import made

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
NUMBERS = ("cles", "cles_gap", "iat")
DRAWS = 24


def audited(
    folder, *, models=("toy_s", "toy_m"), groups=made.GROUPS, audits=tuple(SETS), debias=("none",), **other
):
    """Draw findings of models x audits x debias, without other experiments; `other` replaces their fields.

    The later a model, the more its groups differ.
    """
    frames, folders, jobs = [], {}, []
    for treated, model, exp in product(debias, models, audits):
        config = f"{len(folders):031x}a"
        folders[config] = folder / config
        folders[config].mkdir(parents=True)
        common = {"exp": exp, "paper": exp[:4].upper().strip("_"), "model": model, "dataset": "demo"}
        common |= {"debias": treated, "protocol": "paper", "seed": 0, "config": config}
        strength = (1 + models.index(model)) / (1 + (treated != "none"))
        frames.append(job(folders[config], common, groups, strength))
        jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    about = {"implicit": pd.concat(frames, ignore_index=True), "folders": folders, "jobs": pd.DataFrame(jobs)}
    about["models"] = pd.DataFrame({"model": models, "pretraining": "the dataset's captions"})
    return made.findings_of(**{"status": "FINISHED", "missing": [], **about, **other})


def job(place, common, groups, strength, faces=12):
    """Return a job's analyses; write its similarities and draws."""
    exp = common["exp"]
    # Seeded by audit only: all models draw the same noise, so that they differ by strength alone.
    rng = np.random.default_rng(sorted(SETS).index(exp))
    rows, similarities, draws = [], [], []
    for name, words in SETS[exp].items():
        shift = 0.004 * strength * rng.normal(size=(len(groups), 1, 1))
        cosine = 0.2 + shift + 0.01 * rng.normal(size=(1, 1, len(words)))
        cosine = cosine + 0.01 * rng.normal(size=(len(groups), faces, len(words)))
        index = pd.MultiIndex.from_product([groups, range(faces), words], names=["group", "id", "word"])
        frame = pd.DataFrame({"cosine": cosine.ravel()}, index).reset_index().assign(set=name)
        frame["id"] = frame["group"] + "-CFD-" + frame["id"].astype(str)
        similarities.append(frame)
        for a, b in combinations(range(len(groups)), 2):
            row, drawn = _pair(rng, cosine[a], cosine[b], exp)
            pair = {"attribute": name, "group_a": groups[a], "group_b": groups[b]}
            rows.append({**common, "measure": measure(exp), **pair, "n_a": faces, "n_b": faces, **row})
            draws.append(drawn.assign(**pair))
    result, drawn = pd.DataFrame(rows), pd.concat(draws, ignore_index=True)
    if len(SETS[exp]) > 1:
        keys = ["group_a", "group_b"]
        mean = result.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
        about = {**common, "attribute": exp.removeprefix("cles_"), "measure": measure(exp)}
        mean = mean.astype({"n_a": int, "n_b": int}).assign(**about)
        result = pd.concat([result, mean[result.columns]], ignore_index=True)
        mean = drawn.groupby([*keys, "kind", "draw"], sort=False)[[*NUMBERS]].mean().reset_index()
        drawn = pd.concat([drawn, mean.assign(attribute=about["attribute"])], ignore_index=True)
    pd.concat(similarities).to_parquet(place / "similarities.parquet", index=False)
    drawn.to_parquet(place / "draws.parquet", index=False)
    return result


def _pair(rng, a, b, exp):
    observed = _numbers(a, b)
    both, size = np.concatenate([a, b]), len(a)
    parts = {"bootstrap": [], "null": []}
    for _ in range(DRAWS):
        parts["bootstrap"].append(_numbers(*(x[rng.integers(size, size=size)] for x in (a, b))))
        mixed = rng.permutation(both)
        parts["null"].append(_numbers(mixed[:size], mixed[size:]))
    frames = {kind: pd.DataFrame(drawn, columns=NUMBERS) for kind, drawn in parts.items()}
    null, boot = frames["null"][measure(exp)], frames["bootstrap"]["cles"]
    p_null = (1 + (null >= observed[measure(exp)]).sum()) / (DRAWS + 1)
    row = {**observed, "null_mean": null.mean(), "null_q95": null.quantile(0.95), "p_null": p_null}
    row |= {"cles_low": boot.quantile(0.025), "cles_high": boot.quantile(0.975)}
    return row, pd.concat(frame.assign(kind=kind, draw=range(DRAWS)) for kind, frame in frames.items())


def measure(exp):
    return "iat" if exp == "iat_semantic" else "cles_gap"


def _numbers(a, b):
    cles = float(np.mean(a[:, None, :] > b[None, :, :]))
    # Only the set of the IAT has pairs: its positive and negative words alternate.
    paired = a.shape[1] == len(SETS["iat_semantic"]["semantic"])
    won = [np.where(x[:, ::2] > x[:, 1::2], 1, -1).sum() if paired else np.nan for x in (a, b)]
    return {"cles": cles, "cles_gap": abs(cles - 0.5), "iat": float(abs(won[0] - won[1]))}
