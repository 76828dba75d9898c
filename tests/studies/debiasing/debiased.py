"""Draw the results of a sweep over debiasing methods, with planted changes of the spreads."""

from itertools import combinations, product

import numpy as np
import pandas as pd

from tests.report import made

GROUPS = ["Black Men", "Black Women", "White Men"]
PROPAGATION = {
    "faces_to_words": "1-a",
    "labels_to_scenes": "1-b",
    "words_to_faces": "2-b",
    "scenes_to_words": "1*-a",
}
# Audit -> (paper, its sets).
AUDITS = {
    "cles_competence": ("CLES", ["competence"]),
    "cles_emotions": ("CLES", ["emotions_positive", "emotions_negative"]),
    "cles_semantic": ("CLES", ["semantic"]),
    "iat_semantic": ("IAT", ["semantic"]),
}
EXPERIMENTS = (*PROPAGATION, *AUDITS, "scenes_zero_shot")
# What is left of the spread of what is measured, of what is retrieved, and of |CLES - 1/2|; and of accuracy.
PLANTED = {"none": (1, 1, 1, 1), "orth_proj": (0.2, 1, 0.5, 0.9), "orth_proj_scm": (0.5, 0.6, 1.5, 1)}
DRAWS = {"bootstrap": 200, "placebo": 99}
FACES = 12


def sweep(
    folder,
    *,
    models=("toy_s", "toy_m"),
    methods=tuple(PLANTED),
    experiments=EXPERIMENTS,
    specifications=(("paper", 0),),
    groups=GROUPS,
    size=40,
    draws=DRAWS,
    without=(),
):
    """Draw findings of models x methods x experiments x specifications.

    `without` are jobs (model, method, experiment) that failed.
    """
    frames, folders, jobs = {"propagation": [], "implicit": [], "zero_shot": []}, {}, []
    for (protocol, seed), model, exp, method in product(specifications, models, experiments, methods):
        config = f"{len(jobs):032x}"
        common = {"exp": exp, "paper": PROPAGATION.get(exp) or AUDITS.get(exp, ("",))[0], "model": model}
        common |= {"dataset": "demo", "debias": method, "protocol": protocol, "seed": seed, "config": config}
        lost = (model, method, exp) in without
        status = {"status": "failed", "reason": "disk full"} if lost else {"status": "finished", "reason": ""}
        jobs.append({**common, "run": config[:8], "overrides": f"model={model} exp={exp}", **status})
        if lost:
            continue
        folders[config] = folder / config
        folders[config].mkdir(parents=True)
        # A paired bootstrap shares what methods share; each method adds a little noise.
        numbers = [EXPERIMENTS.index(exp), models.index(model), seed]
        rngs = np.random.default_rng(numbers), np.random.default_rng([*numbers, methods.index(method)])
        kind = "implicit" if exp in AUDITS else "propagation" if exp in PROPAGATION else "zero_shot"
        make = {"implicit": _audit, "propagation": _propagation, "zero_shot": _zero_shot}[kind]
        rows = make(rngs, folders[config], exp, groups, size, draws, PLANTED[method])
        frames[kind].append(pd.DataFrame([{**common, **row} for row in rows]))
    tables = {
        kind: pd.concat(rows, ignore_index=True) if rows else pd.DataFrame() for kind, rows in frames.items()
    }
    if len(tables["propagation"]):
        tables["propagation"]["q"] = np.nan
    about = {"status": "FINISHED", "missing": [], "folders": folders, "jobs": pd.DataFrame(jobs)}
    return made.findings_of(**about, **tables)


def _propagation(rngs, place, exp, groups, size, draws, planted):
    rng, job_rng = rngs
    source, corpus = exp.split("_to_")
    grouped = source in ("faces", "labels") or corpus in ("faces", "labels")
    strata = groups if grouped else ["extremes"]
    places = np.linspace(-0.5, 0.5, len(strata)) if len(strata) > 1 else np.zeros(1)
    targets, drawn, rows = [], [], []
    for stratum, middle in zip(strata, places, strict=True):
        ids = [f"{stratum}-" * (source == "faces") + f"{source}-{number:03d}" for number in range(size)]
        if source == "labels":
            race, gender = stratum.split(" ")
            side = int(np.sqrt(size))
            ids = [f"{race.lower()}{a} {gender.lower()}{b}" for a in range(side) for b in range(side)]
        noise = rng.normal(size=(2, len(ids))) + 0.3 * job_rng.normal(size=(2, len(ids)))
        group = pd.array([stratum if source in ("faces", "labels") else None] * len(ids), dtype="string")
        scores = {"intrinsic": planted[0] * middle + 0.1 * noise[0]}
        scores["extrinsic"] = 0.5 + 0.2 * planted[1] * middle + 0.02 * noise[1]
        columns = {"id": ids, "stratum": stratum, "group": group, **scores, "valence": np.nan}
        targets.append(pd.DataFrame(columns))
        rho = 0.4 + 0.1 * middle + 0.1 * planted[1]
        for kind, number in draws.items():
            rhos = (
                rho * (kind == "bootstrap")
                + 0.1 * rng.normal(size=number)
                + 0.05 * job_rng.normal(size=number)
            )
            drawn.append(pd.DataFrame({"stratum": stratum, "kind": kind, "draw": range(number), "rho": rhos}))
        rows.append(
            {"group": stratum if grouped else None, "stratum": stratum, "n": len(ids), "n_excluded": 0,
             "rho": rho, "p": 0.01, "reason": "", **dict.fromkeys(["rho_all", "p_all", "n_all"], np.nan),
             "placebo_mean": 0.1, "placebo_q95": 0.3, "p_placebo": 0.01, "rho_placebo_units": rho + 0.001}
        )  # fmt: skip
    pd.concat(targets).to_parquet(place / "targets.parquet", index=False)
    _keep(place, "draws", drawn)
    _sets(place, ["A", "B"], [f"{corpus}-1", f"{corpus}-2"])
    return rows


def _audit(rngs, place, exp, groups, size, draws, planted):
    rng, job_rng = rngs
    paper, sets = AUDITS[exp]
    rows, drawn = [], []
    for first, second in combinations(groups, 2):
        parts = []
        for name in sets:
            gap, iat = planted[2] * rng.uniform(0.05, 0.25), planted[2] * rng.uniform(5, 50)
            number = draws.get("bootstrap", 0)
            noise = 0.02 * rng.normal(size=number) + 0.01 * job_rng.normal(size=number)
            numbers = {"cles": 0.5 + gap, "cles_gap": gap, "iat": iat if name == "semantic" else np.nan}
            numbers |= {"null_mean": 2.0 if paper == "IAT" else 0.02, "p_null": 0.01}
            numbers |= {"null_q95": 3 * numbers["null_mean"], "cles_low": 0.4, "cles_high": 0.6 + gap}
            parts.append((name, numbers, noise))
        if len(sets) > 1:
            mean = {key: np.mean([piece[1][key] for piece in parts]) for key in parts[0][1]}
            parts.append(("emotions", mean, np.mean([piece[2] for piece in parts], axis=0)))
        for name, numbers, noise in parts:
            about = {"attribute": name, "group_a": first, "group_b": second}
            rows.append({**about, "n_a": FACES, "n_b": FACES, **numbers})
            # Signed, as a difference of two groups is.
            each = {"kind": "bootstrap", "draw": range(len(noise)), "cles": numbers["cles"] + noise}
            each |= {"cles_gap": np.abs(numbers["cles_gap"] + noise), "iat": -numbers["iat"] + 100 * noise}
            drawn.append(pd.DataFrame({**about, **each}))
    _keep(place, "draws", drawn)
    ids = [f"{group}-{number}" for group in groups for number in range(FACES)]
    _sets(place, [group for group in groups for _ in range(FACES)], ids)
    return rows


def _zero_shot(rngs, place, exp, groups, size, draws, planted):
    rng, job_rng = rngs
    accuracy = 0.5 * planted[3]
    number = draws.get("bootstrap", 0)
    noise = 0.02 * rng.normal(size=number) + 0.01 * job_rng.normal(size=number)
    scenes = {"id": [f"scene-{item}" for item in range(size)], "group": None, "stratum": "scenes"}
    pd.DataFrame({**scenes, "intrinsic": np.nan, "extrinsic": 0.5}).to_parquet(place / "targets.parquet")
    drawn = {"stratum": "scenes", "kind": "bootstrap", "draw": range(number), "accuracy": accuracy + noise}
    _keep(place, "draws", [pd.DataFrame(drawn)])
    low, high = (np.quantile(accuracy + noise, [0.025, 0.975])) if len(noise) else (np.nan, np.nan)
    return [{"n": size, "accuracy": accuracy, "chance": 0.2, "ci_low": low, "ci_high": high}]


def _keep(place, name, frames):
    result = pd.concat(frames or [pd.DataFrame()])
    if len(result):
        # In any order: nothing may depend on it.
        result.sample(frac=1, random_state=1).to_parquet(place / f"{name}.parquet", index=False)


def _sets(place, names, ids):
    sets = pd.DataFrame({"group": None, "template": None, "set": names, "id": ids})
    sets.astype({"group": "string", "template": "string"}).to_parquet(place / "attributes.parquet")
