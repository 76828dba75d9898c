"""Audits of implicit bias, made up but believable, as their jobs leave them on disk."""

from itertools import combinations

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
    """Findings of models x audits x debias, with no other experiment; `other` replaces fields of them.

    The later a model, the more its groups differ.
    """
    frames, folders, jobs = [], {}, []
    for treated in debias:
        for strength, model in enumerate(models):
            for exp in audits:
                config = f"{len(folders):031x}a"
                place = folder / config
                place.mkdir(parents=True)
                common = {"exp": exp, "paper": exp[:4].upper().strip("_"), "model": model, "dataset": "demo"}
                common |= {"debias": treated, "protocol": "paper", "seed": 0, "config": config}
                frames.append(job(place, common, groups, (1 + strength) / (1 + (treated != "none"))))
                folders[config] = place
                jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    about = {"implicit": pd.concat(frames, ignore_index=True), "folders": folders, "jobs": pd.DataFrame(jobs)}
    about["models"] = pd.DataFrame({"model": models, "pretraining": "the dataset's captions"})
    return made.nothing(**{"status": "FINISHED", "missing": [], **about, **other})


def job(place, common, groups, strength, faces=12):
    """A job's analyses; its similarities and draws are written."""
    exp = common["exp"]
    # Of the audit, not of the model: their figures go up and down together.
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
            measured = {"attribute": name, "measure": measure(exp)}
            rows.append({**common, **measured, **pair, "n_a": faces, "n_b": faces, **row})
            draws.append(drawn.assign(**pair))
    found, drawn = pd.DataFrame(rows), pd.concat(draws, ignore_index=True)
    if len(SETS[exp]) > 1:
        keys = ["group_a", "group_b"]
        mean = found.groupby(keys, sort=False).mean(numeric_only=True).reset_index()
        mean = mean.astype({"seed": int, "n_a": int, "n_b": int}).assign(attribute=exp.removeprefix("cles_"))
        found = pd.concat(
            [
                found,
                mean.assign(
                    **{name: common[name] for name in ("exp", "paper", "model")},
                    dataset="demo",
                    debias=common["debias"],
                    protocol="paper",
                    config=common["config"],
                    measure=measure(exp),
                ),
            ],
            ignore_index=True,
        )
        mean = drawn.groupby([*keys, "kind", "draw"], sort=False)[[*NUMBERS]].mean().reset_index()
        drawn = pd.concat([drawn, mean.assign(attribute=exp.removeprefix("cles_"))], ignore_index=True)
    pd.concat(similarities).to_parquet(place / "similarities.parquet", index=False)
    drawn.to_parquet(place / "draws.parquet", index=False)
    return found


def _pair(rng, a, b, exp):
    own = _numbers(a, b)
    both, size = np.concatenate([a, b]), len(a)
    parts = {"bootstrap": [], "null": []}
    for _ in range(DRAWS):
        parts["bootstrap"].append(_numbers(*(x[rng.integers(size, size=size)] for x in (a, b))))
        mixed = rng.permutation(both)
        parts["null"].append(_numbers(mixed[:size], mixed[size:]))
    frames = {kind: pd.DataFrame(drawn, columns=NUMBERS) for kind, drawn in parts.items()}
    null, boot = frames["null"][measure(exp)], frames["bootstrap"]["cles"]
    worth = {
        "null_mean": null.mean(),
        "null_q95": null.quantile(0.95),
        "p_null": (1 + (null >= own[measure(exp)]).sum()) / (DRAWS + 1),
        "cles_low": boot.quantile(0.025),
        "cles_high": boot.quantile(0.975),
    }
    drawn = [frame.assign(kind=kind, draw=range(DRAWS)) for kind, frame in frames.items()]
    return {**own, **worth}, pd.concat(drawn)


def measure(exp):
    return "iat" if exp == "iat_semantic" else "cles_gap"


def _numbers(a, b):
    cles = float(np.mean(a[:, None, :] > b[None, :, :]))
    won = [np.where(x[:, ::2] > x[:, 1::2], 1, -1).sum() if x.shape[1] == 12 else np.nan for x in (a, b)]
    return {"cles": cles, "cles_gap": abs(cles - 0.5), "iat": float(abs(won[0] - won[1]))}
