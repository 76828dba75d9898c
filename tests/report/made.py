"""A sweep's findings, made up but believable, as a sweep leaves them on disk."""

import numpy as np
import pandas as pd
from scipy import stats

from src.configs import studies
from src.report.findings import Findings

GROUPS = ["Asian Men", "Asian Women", "Black Men", "Black Women", "White Men", "White Women"]
PAPER = {
    "scenes_to_words": "1*-a",
    "words_to_scenes": "1*-b",
    "faces_to_words": "1-a",
    "labels_to_scenes": "1-b",
    "faces_to_labels": "2*-a",
    "labels_to_faces": "2*-b",
    "scenes_to_labels": "2-a",
    "words_to_faces": "2-b",
}
HOSTILE = "<script>alert('x')</script> $x_1$ | 50% & {more}" + " long" * 30
VALENCE = ("scenes", "words")
DRAWS = {"bootstrap": 400, "placebo": 199, "family": 99, "property": 50, "attributes": 20}


def made(
    folder,
    *,
    models=("toy_s", "toy_m", "toy_l"),
    groups=GROUPS,
    experiments=PAPER,
    readings=("paper", "ddof_0", "k_100"),
    dataset="demo",
    size=60,
    draws=DRAWS,
    status="FINISHED",
):
    """Findings of models x experiments x readings; one analysis has no rho, one job failed, one never ended.

    `size` is the number of targets of a group; scenes and words are three times as many.
    """
    rng = np.random.default_rng(0)
    # What targets and permutations share over models: their draws go up and down together.
    shared = {kind: rng.normal(size=(len(experiments), 9, number)) for kind, number in draws.items()}
    frames, folders, jobs = [], {}, []
    for protocol in readings:
        for strength, model in enumerate(models):
            for number, exp in enumerate(experiments):
                config = f"{len(folders):032x}"
                place = folder / config
                place.mkdir(parents=True)
                common = {"exp": exp, "paper": experiments[exp], "model": model, "dataset": dataset}
                common |= {"debias": "none", "protocol": protocol, "seed": 0, "config": config}
                noise = [draw[number] for draw in shared.values()]
                frame = _job(
                    rng, place, common, groups, size, dict(zip(shared, noise, strict=True)), strength
                )
                frames.append(frame)
                folders[config] = place
                jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    analyses = pd.concat(frames, ignore_index=True)
    nothing = [
        column for column in analyses if column.startswith(("rho", "p_", "ci_")) and column != "rho_all"
    ]
    analyses.loc[7, nothing] = np.nan
    analyses.loc[7, "reason"] = "every unit has the same outcome"
    known = analyses["p_placebo"].notna()
    analyses["q"] = np.nan
    analyses.loc[known, "q"] = stats.false_discovery_control(analyses.loc[known, "p_placebo"])
    lost = {
        "status": "failed",
        "run": "runf",
        "reason": "disk full: <b>/data</b>",
        "overrides": "model=toy_x",
    }
    left = {"status": "not_applicable", "run": "", "reason": "k=500 reaches the 90 scenes", "exp": "x_to_y"}
    gone = {"status": "missing", "run": "g", "reason": "the run was deleted", "overrides": "model=toy_z"}
    return Findings(
        dataset=dataset,
        sweep="0123456789abcdef0123456789abcdef",
        status=status,
        started="2026-03-01T10:00:00+00:00",
        frames={"propagation": analyses},
        folders=folders,
        jobs=pd.DataFrame([*jobs, lost, left, gone]),
        missing=["model=toy_y exp=faces_to_words"],
        models=pd.DataFrame(
            {
                "model": models,
                "parameters_millions": 3.0 ** np.arange(len(models)),
                "gflops_image": [2.0 * 2**i if i else np.nan for i in range(len(models))],
                "zero_shot": np.nan,
            }
        ),
        provenance={
            "git.commit": "f" * 40,
            "git.dirty": "true",
            "command": "python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'",
            "torch": "2.15.0",
            "input.faces": "ab" * 32,
        },
    )


def nothing(**other):
    """A sweep that ended before any job did; `other` replaces fields, or names analyses by their study."""
    frames = {name: other.pop(name) for name in studies.STUDIES if name in other}
    empty = {"frames": frames, "folders": {}, "jobs": pd.DataFrame(), "models": pd.DataFrame()}
    about = {"dataset": "demo", "sweep": "0" * 32, "status": "KILLED", "started": "2026-03-01T10:00:00+00:00"}
    return Findings(
        **{**about, **empty, "missing": ["model=toy_s exp=faces_to_words"], "provenance": {}, **other}
    )


def _job(rng, place, common, groups, size, noise, strength):
    source, corpus = common["exp"].split("_to_") if "_to_" in common["exp"] else ("faces", "words")
    single = source in VALENCE and corpus in VALENCE
    strata = ["extremes"] if single else list(groups)
    rows, targets, drawn, retrieved = [], [], [], []
    for number, stratum in enumerate(strata):
        own = _targets(rng, source, stratum, groups, number, 50 if single else size, strength)
        found = stats.spearmanr(own["intrinsic"], own["extrinsic"])
        rho, spread = found.statistic, 0.6 / np.sqrt(len(own))
        each = {
            "bootstrap": np.clip(rho + spread * noise["bootstrap"][number], -1, 1),
            "placebo": np.clip(0.2 + 0.25 * noise["placebo"][number] + 0.03 * rng.normal(), -1, 1),
            "family": np.clip(0.2 + 0.3 * noise["family"][number], -1, 1),
            "property": np.clip(0.6 + 0.1 * noise["property"][number], -1, 1),
            "attributes": np.clip(rho - 0.03 + 0.04 * noise["attributes"][number], -1, 1),
        }
        if corpus not in VALENCE:
            each["property"] = np.full(0, np.nan)
        targets.append(own.assign(stratum=stratum))
        retrieved.append(_retrieved(rng, corpus, groups).assign(stratum=stratum))
        parts = [
            pd.DataFrame({"stratum": stratum, "kind": kind, "draw": range(len(values)), "rho": values})
            for kind, values in each.items()
        ]
        drawn += [part for part in parts if len(part)]
        rows.append(
            {
                **common,
                "group": None if single else stratum,
                "stratum": stratum,
                "n": len(own),
                "n_excluded": 0,
                "rho": rho,
                "p": found.pvalue,
                "reason": "",
                **dict.fromkeys(["rho_all", "p_all", "n_all"], np.nan),
                **_worth(each, rho, rng),
            }
        )
    pd.concat(targets).to_parquet(place / "targets.parquet", index=False)
    pd.concat(drawn).to_parquet(place / "draws.parquet", index=False)
    pd.concat(retrieved).to_parquet(place / "retrieved.parquet", index=False)
    sets = {"group": None, "template": None, "set": ["A", "B"], "id": [f"{corpus}-1", f"{corpus}-2"]}
    pd.DataFrame(sets).astype({"group": "string", "template": "string"}).to_parquet(
        place / "attributes.parquet"
    )
    return pd.DataFrame(rows)


def _targets(rng, source, stratum, groups, number, size, strength):
    by_group = source not in VALENCE
    count = size if by_group or stratum == "extremes" else 3 * size
    latent = rng.normal(size=count)
    noise = rng.normal(size=count) * (1.2 - 0.3 * strength)
    first = "" if not by_group else f"{number}-"
    return pd.DataFrame(
        {
            "id": [f"{source}-{first}{row:04d}" for row in range(count)],
            "group": pd.array([stratum if by_group else None] * count, dtype="string"),
            "intrinsic": np.clip(0.8 * latent + 0.1 * (number - len(groups) / 2), -1.99, 1.99),
            "extrinsic": 0.5 + 0.1 * np.tanh(latent + noise),
            "valence": np.nan if by_group else stats.norm.cdf(latent + 0.5 * rng.normal(size=count)),
        }
    )


def _retrieved(rng, corpus, groups):
    items = {
        "words": "word",
        "scenes": "scene-",
        "labels": f"{groups[0]} phrase ",
        "faces": "CFD-BF-001-morph-",
    }
    share, contribution = rng.uniform(0, 0.01, 30), np.sort(rng.normal(size=30))[::-1] / 100
    frame = {"item": [f"{items.get(corpus, 'item')}{row}" for row in range(30)]}
    outcome = rng.integers(0, 2, 30) if corpus not in VALENCE else rng.uniform(size=30)
    return pd.DataFrame(
        {**frame, "outcome": outcome.astype(float), "share": share, "reference": share[::-1]}
        | {"against": "all targets", "contribution": contribution}
    )


def _worth(each, rho, rng):
    low, high = np.quantile(each["bootstrap"], [0.025, 0.975])
    placebo, family = each["placebo"], each["family"]
    properties = np.quantile(each["property"], [0.05, 0.95]) if len(each["property"]) else [np.nan, np.nan]
    return {
        "ci_low": low,
        "ci_high": high,
        "sd_attributes": each["attributes"].std(ddof=1),
        "validity": rng.uniform(0.5, 0.9),
        "placebo_mean": placebo.mean(),
        "placebo_q95": np.quantile(placebo, 0.95),
        "p_placebo": (1 + (placebo >= rho - 1e-12).sum()) / (len(placebo) + 1),
        "placebo_n": 50,
        "rho_placebo_units": rho + 0.001,
        "family_q95": np.quantile(family, 0.95),
        "family_p": (1 + (family >= rho - 1e-12).sum()) / (len(family) + 1),
        "property_q05": properties[0],
        "property_q95": properties[1],
    }
