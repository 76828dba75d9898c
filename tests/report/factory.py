"""Write synthetic findings in the format of a sweep, with plausible values."""

import numpy as np
import pandas as pd
from scipy import stats

from src.configs import studies
from src.report.findings import Findings

GROUPS = ["Asian Men", "Asian Women", "Black Men", "Black Women", "White Men", "White Women"]
PAPER = {
    "scenes_to_words": "1*-a", "words_to_scenes": "1*-b", "faces_to_words": "1-a", "labels_to_scenes": "1-b",
    "faces_to_labels": "2*-a", "labels_to_faces": "2*-b", "scenes_to_labels": "2-a", "words_to_faces": "2-b",
}  # fmt: skip
HOSTILE = "<script>alert('x')</script> $x_1$ | 50% & {more}" + " long" * 30
VALENCE = ("scenes", "words")
DRAWS = {"bootstrap": 400, "placebo": 199, "family": 99, "property": 50, "attributes": 20}


def draw(
    folder, *, models=("toy_s", "toy_m", "toy_l"), groups=GROUPS, experiments=PAPER,
    protocols=("paper", "ddof_0", "k_100"), dataset="demo", size=60, draws=DRAWS, status="FINISHED",
):  # fmt: skip
    """Draw findings of models x experiments x protocols.

    Rho of one analysis is undefined; one job failed, one is not applicable, one lost its run, one never
    ended. `size`: faces or labels per group; scenes and words per group are three times as many.
    """
    rng = np.random.default_rng(0)
    # Noise common to all models: they share targets and permutations, so their draws are correlated.
    shared = {kind: rng.normal(size=(len(experiments), 9, number)) for kind, number in draws.items()}
    frames, folders, jobs = [], {}, []
    for protocol in protocols:
        for strength, model in enumerate(models):
            for number, exp in enumerate(experiments):
                config = f"{len(folders):032x}"
                results_folder = folder / config
                results_folder.mkdir(parents=True)
                common = {"exp": exp, "paper": experiments[exp], "model": model, "dataset": dataset}
                common |= {"debias": "none", "protocol": protocol, "seed": 0, "config": config}
                noise = {kind: draw[number] for kind, draw in shared.items()}
                frames.append(_write_job(rng, results_folder, common, groups, size, noise, strength))
                folders[config] = results_folder
                jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    analyses = pd.concat(frames, ignore_index=True)
    undefined = analyses.filter(regex="^(rho|p_|ci_)").columns.drop("rho_all")
    analyses.loc[7, undefined] = np.nan
    analyses.loc[7, "reason"] = "every unit has the same outcome"
    p = analyses["p_placebo"].dropna()
    analyses["q"] = pd.Series(stats.false_discovery_control(p), p.index)
    failed = {"status": "failed", "run": "runf", "reason": "disk full: <b>/data</b>"}
    failed["overrides"] = "model=toy_x"
    not_applicable = {"status": "not_applicable", "run": "", "reason": "k=500 reaches the 90 scenes"}
    not_applicable["exp"] = "x_to_y"
    missing = {"status": "missing", "run": "g", "reason": "the run was deleted", "overrides": "model=toy_z"}
    properties = {"model": models, "parameters_millions": 3.0 ** np.arange(len(models)), "zero_shot": np.nan}
    properties["gflops_image"] = [np.nan, *2.0 ** np.arange(2, len(models) + 1)]
    provenance = {"git.commit": "f" * 40, "git.dirty": "true", "torch": "2.15.0", "input.faces": "ab" * 32}
    provenance["command"] = "python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'"
    return build(
        dataset=dataset, sweep="0123456789abcdef" * 2, status=status, propagation=analyses, folders=folders,
        jobs=pd.DataFrame([*jobs, failed, not_applicable, missing]), models=pd.DataFrame(properties),
        missing=["model=toy_y exp=faces_to_words"], provenance=provenance,
    )  # fmt: skip


def build(**fields):
    """Build findings of a sweep killed before any job ended; `fields` replaces fields, or frames by study."""
    frames = {name: fields.pop(name) for name in studies.STUDIES if name in fields}
    empty = {"frames": frames, "folders": {}, "jobs": pd.DataFrame(), "models": pd.DataFrame()}
    sweep = {"dataset": "demo", "sweep": "0" * 32, "status": "KILLED", "started": "2026-03-01T10:00:00+00:00"}
    return Findings(
        **{**sweep, **empty, "missing": ["model=toy_s exp=faces_to_words"], "provenance": {}, **fields}
    )


def _write_job(rng, folder, common, groups, size, noise, strength):
    source, corpus = common["exp"].split("_to_") if "_to_" in common["exp"] else ("faces", "words")
    without_groups = source in VALENCE and corpus in VALENCE
    strata = ["extremes"] if without_groups else list(groups)
    rows, targets, draw_frames, retrieved = [], [], [], []
    for number, stratum in enumerate(strata):
        subset = _targets(rng, source, stratum, groups, number, 50 if without_groups else size, strength)
        result = stats.spearmanr(subset["intrinsic"], subset["extrinsic"])
        rho, spread = result.statistic, 0.6 / np.sqrt(len(subset))
        draws = {
            "bootstrap": np.clip(rho + spread * noise["bootstrap"][number], -1, 1),
            "placebo": np.clip(0.2 + 0.25 * noise["placebo"][number] + 0.03 * rng.normal(), -1, 1),
            "family": np.clip(0.2 + 0.3 * noise["family"][number], -1, 1),
            "property": np.clip(0.6 + 0.1 * noise["property"][number], -1, 1),
            "attributes": np.clip(rho - 0.03 + 0.04 * noise["attributes"][number], -1, 1),
        }
        if corpus not in VALENCE:
            draws["property"] = np.full(0, np.nan)
        targets.append(subset.assign(stratum=stratum))
        retrieved.append(_retrieved(rng, corpus, groups).assign(stratum=stratum))
        frames = [
            pd.DataFrame({"stratum": stratum, "kind": kind, "draw": range(len(values)), "rho": values})
            for kind, values in draws.items()
        ]
        draw_frames += [frame for frame in frames if len(frame)]
        row = {"stratum": stratum, "n": len(subset), "n_excluded": 0}
        row["group"] = None if without_groups else stratum
        row |= dict.fromkeys(["rho_all", "p_all", "n_all"], np.nan)
        row |= {"rho": rho, "p": result.pvalue, "reason": ""}
        rows.append({**common, **row, **_uncertainty(draws, rho, rng)})
    for name, tables in {"targets": targets, "draws": draw_frames, "retrieved": retrieved}.items():
        pd.concat(tables).to_parquet(folder / f"{name}.parquet", index=False)
    sets = {"group": None, "template": None, "set": ["A", "B"], "id": [f"{corpus}-1", f"{corpus}-2"]}
    pd.DataFrame(sets).astype({"group": "string", "template": "string"}).to_parquet(
        folder / "attributes.parquet"
    )
    return pd.DataFrame(rows)


def _targets(rng, source, stratum, groups, number, size, strength):
    by_group = source not in VALENCE
    count = size if by_group or stratum == "extremes" else 3 * size
    latent = rng.normal(size=count)
    noise = rng.normal(size=count) * (1.2 - 0.3 * strength)
    prefix = f"{number}-" if by_group else ""
    return pd.DataFrame(
        {
            "id": [f"{source}-{prefix}{row:04d}" for row in range(count)],
            "group": pd.array([stratum if by_group else None] * count, dtype="string"),
            "intrinsic": np.clip(0.8 * latent + 0.1 * (number - len(groups) / 2), -1.99, 1.99),
            "extrinsic": 0.5 + 0.1 * np.tanh(latent + noise),
            "valence": np.nan if by_group else stats.norm.cdf(latent + 0.5 * rng.normal(size=count)),
        }
    )


def _retrieved(rng, corpus, groups):
    items = {"words": "word", "scenes": "scene-", "labels": f"{groups[0]} phrase "}
    items["faces"] = "CFD-BF-001-morph-"
    share, contribution = rng.uniform(0, 0.01, 30), np.sort(rng.normal(size=30))[::-1] / 100
    names = [f"{items.get(corpus, 'item')}{row}" for row in range(30)]
    outcome = rng.integers(0, 2, 30) if corpus not in VALENCE else rng.uniform(size=30)
    return pd.DataFrame(
        {"item": names, "outcome": outcome.astype(float), "share": share, "reference": share[::-1]}
        | {"against": "all targets", "contribution": contribution}
    )


def _uncertainty(draws, rho, rng):
    low, high = np.quantile(draws["bootstrap"], [0.025, 0.975])
    properties = np.quantile(draws["property"], [0.05, 0.95]) if len(draws["property"]) else [np.nan, np.nan]
    columns = {"ci_low": low, "ci_high": high, "sd_attributes": draws["attributes"].std(ddof=1)}
    columns |= {"validity": rng.uniform(0.5, 0.9), "placebo_mean": draws["placebo"].mean(), "placebo_n": 50}
    for kind, p in (("placebo", "p_placebo"), ("family", "family_p")):
        columns[f"{kind}_q95"] = np.quantile(draws[kind], 0.95)
        columns[p] = (1 + (draws[kind] >= rho - 1e-12).sum()) / (len(draws[kind]) + 1)
    columns |= dict(zip(("property_q05", "property_q95"), properties, strict=True))
    return columns | {"rho_placebo_units": rho + 0.001}
