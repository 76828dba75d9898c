"""Synthesise the results of a sweep over debiasing methods, with planted changes of spreads and accuracy."""

from itertools import combinations, product

import numpy as np
import pandas as pd
from scipy import stats

from tests.report import factory

GROUPS = ["Black Men", "Black Women", "White Men"]
FOUR_EXPERIMENTS = ("faces_to_words", "labels_to_scenes", "words_to_faces", "scenes_to_words")
PROPAGATION = {exp: factory.PAPER[exp] for exp in FOUR_EXPERIMENTS}
# Audit -> paper, and attribute sets.
AUDITS = {
    "cles_competence": ("CLES", ["competence"]),
    "cles_emotions": ("CLES", ["emotions_positive", "emotions_negative"]),
    "cles_semantic": ("CLES", ["semantic"]),
    "iat_semantic": ("IAT", ["semantic"]),
}
EXPERIMENTS = (*PROPAGATION, *AUDITS, "scenes_zero_shot")
# Factors by which a method scales the intrinsic spread, the extrinsic spread, |CLES - 1/2|, and accuracy.
PLANTED = {"none": (1, 1, 1, 1), "orth_proj": (0.2, 1, 0.5, 0.9), "orth_proj_scm": (0.5, 0.6, 1.5, 1)}
DRAWS = {"bootstrap": 200}
FACES = 12


def sweep(
    folder, *, models=("toy_s", "toy_m"), methods=tuple(PLANTED), experiments=EXPERIMENTS,
    specifications=(("paper", 0),), groups=GROUPS, size=40, draws=DRAWS, failed_jobs=(),
):  # fmt: skip
    """Synthesise findings of models x methods x experiments x specifications.

    `failed_jobs`: jobs (model, method, experiment) without results.
    """
    frames, folders, jobs = {"propagation": [], "implicit": [], "zero_shot": []}, {}, []
    for (protocol, seed), model, exp, method in product(specifications, models, experiments, methods):
        config = f"{len(jobs):032x}"
        common = {"exp": exp, "paper": PROPAGATION.get(exp) or AUDITS.get(exp, ("",))[0], "model": model}
        common |= {
            "dataset": "demo",
            "debias": method,
            "perturb": "none",
            "protocol": protocol,
            "seed": seed,
            "config": config,
        }
        is_failed = (model, method, exp) in failed_jobs
        status = {"status": "failed" if is_failed else "finished", "reason": "disk full" if is_failed else ""}
        jobs.append({**common, "run": config[:8], "overrides": f"model={model} exp={exp}", **status})
        if is_failed:
            continue
        folders[config] = folder / config
        folders[config].mkdir(parents=True)
        # Methods share noise, as they share targets; each method adds a little of its own.
        seeds = [EXPERIMENTS.index(exp), models.index(model), seed]
        rngs = np.random.default_rng(seeds), np.random.default_rng([*seeds, methods.index(method)])
        kind = "implicit" if exp in AUDITS else "propagation" if exp in PROPAGATION else "zero_shot"
        synthesise = {"implicit": _audit, "propagation": _propagation, "zero_shot": _zero_shot}[kind]
        rows = synthesise(rngs, folders[config], exp, groups, size, draws, PLANTED[method])
        frames[kind].append(pd.DataFrame([{**common, **row} for row in rows]))
    tables = {
        kind: pd.concat(rows, ignore_index=True) if rows else pd.DataFrame() for kind, rows in frames.items()
    }
    if len(tables["propagation"]):
        tables["propagation"]["q"] = np.nan
    fields = {"status": "FINISHED", "missing": [], "folders": folders, "jobs": pd.DataFrame(jobs)}
    return factory.build(**fields, **tables)


def _propagation(rngs, folder, exp, groups, size, draws, factors):
    rng, job_rng = rngs
    source, corpus = exp.split("_to_")
    grouped = source in ("faces", "labels") or corpus in ("faces", "labels")
    strata = groups if grouped else ["extremes"]
    stratum_means = np.linspace(-0.5, 0.5, len(strata)) if len(strata) > 1 else np.zeros(1)
    targets, rows = [], []
    for stratum, stratum_mean in zip(strata, stratum_means, strict=True):
        ids = [f"{stratum}-" * (source == "faces") + f"{source}-{i:03d}" for i in range(size)]
        if source == "labels":
            race, gender = stratum.split(" ")
            side = int(np.sqrt(size))
            ids = [f"{race.lower()}{a} {gender.lower()}{b}" for a in range(side) for b in range(side)]
        noise = rng.normal(size=(2, len(ids))) + 0.3 * job_rng.normal(size=(2, len(ids)))
        group = pd.array([stratum if source in ("faces", "labels") else None] * len(ids), dtype="string")
        scores = {"intrinsic": factors[0] * stratum_mean + 0.1 * noise[0]}
        scores["extrinsic"] = 0.5 + 0.2 * factors[1] * stratum_mean + 0.02 * noise[1]
        # Two words share a stem; a face is a cluster of its own.
        clusters = {"cluster": [f"{source}-{i // 2}" for i in range(size)] if source == "words" else ids}
        if source == "labels":
            race_words, gender_words = zip(*(name.split(" ") for name in ids), strict=True)
            clusters = {"race_lemma": race_words, "gender_lemma": gender_words}
        columns = {"id": ids, "stratum": stratum, "group": group, **scores, "valence": np.nan, **clusters}
        targets.append(pd.DataFrame(columns))
        rho = stats.spearmanr(scores["intrinsic"], scores["extrinsic"]).statistic
        rows.append(
            {"group": stratum if grouped else None, "stratum": stratum, "n": len(ids), "n_excluded": 0,
             "rho": rho, "p": 0.01, "reason": "", **dict.fromkeys(["rho_all", "p_all", "n_all"], np.nan),
             "placebo_mean": 0.1, "placebo_q95": 0.3, "p_placebo": 0.01, "rho_placebo_units": rho}
        )  # fmt: skip
    pd.concat(targets).to_parquet(folder / "targets.parquet", index=False)
    factory.write_attributes(folder, ["A", "B"], [f"{corpus}-1", f"{corpus}-2"], corpus)
    return rows


def _audit(rngs, folder, exp, groups, size, draws, factors):
    rng, job_rng = rngs
    paper, sets = AUDITS[exp]
    rows, frames = [], []
    for first, second in combinations(groups, 2):
        results = []
        for name in sets:
            gap, iat = factors[2] * rng.uniform(0.05, 0.25), factors[2] * rng.uniform(5, 50)
            count = draws.get("bootstrap", 0)
            noise = 0.02 * rng.normal(size=count) + 0.01 * job_rng.normal(size=count)
            values = {"cles": 0.5 + gap, "cles_gap": gap, "iat": iat if name == "semantic" else np.nan}
            values |= {"null_mean": 2.0 if paper == "IAT" else 0.02, "p_null": 0.01}
            values |= {"null_q95": 3 * values["null_mean"], "cles_low": 0.4, "cles_high": 0.6 + gap}
            results.append((name, values, noise))
        if len(sets) > 1:
            mean = {key: np.mean([result[1][key] for result in results]) for key in results[0][1]}
            results.append(("emotions", mean, np.mean([result[2] for result in results], axis=0)))
        for name, values, noise in results:
            keys = {"attribute": name, "group_a": first, "group_b": second}
            rows.append({**keys, "n_a": FACES, "n_b": FACES, **values})
            # The signed differences of two groups.
            set_draws = {"kind": "bootstrap", "draw": range(len(noise)), "cles": values["cles"] + noise}
            set_draws |= {"cles_gap": np.abs(values["cles_gap"] + noise), "iat": -values["iat"] + 100 * noise}
            frames.append(pd.DataFrame({**keys, **set_draws}))
    _write_shuffled(folder, "draws", frames)
    ids = [f"{group}-{i}" for group in groups for i in range(FACES)]
    factory.write_attributes(folder, [group for group in groups for _ in range(FACES)], ids)
    return rows


def _zero_shot(rngs, folder, exp, groups, size, draws, factors):
    rng, job_rng = rngs
    accuracy = 0.5 * factors[3]
    count = draws.get("bootstrap", 0)
    noise = 0.02 * rng.normal(size=count) + 0.01 * job_rng.normal(size=count)
    scenes = {"id": [f"scene-{i}" for i in range(size)], "group": None, "stratum": "scenes"}
    pd.DataFrame({**scenes, "intrinsic": np.nan, "extrinsic": 0.5}).to_parquet(folder / "targets.parquet")
    samples = {"stratum": "scenes", "kind": "bootstrap", "draw": range(count), "accuracy": accuracy + noise}
    _write_shuffled(folder, "draws", [pd.DataFrame(samples)])
    low, high = (np.quantile(accuracy + noise, [0.025, 0.975])) if len(noise) else (np.nan, np.nan)
    return [{"n": size, "accuracy": accuracy, "chance": 0.2, "ci_low": low, "ci_high": high}]


def _write_shuffled(folder, name, frames):
    table = pd.concat(frames or [pd.DataFrame()])
    if len(table):
        # Shuffled: readers must not rely on the order of rows.
        table.sample(frac=1, random_state=1).to_parquet(folder / f"{name}.parquet", index=False)
