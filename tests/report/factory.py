"""Write synthetic findings in the format of a sweep, with plausible values."""

import numpy as np
import pandas as pd
from scipy import stats

from src.configs import studies
from src.report.findings import Findings
from tests.reference import EXPERIMENTS as PAPER

GROUPS = ["Asian Men", "Asian Women", "Black Men", "Black Women", "White Men", "White Women"]
HOSTILE = "<script>alert('x')</script> $x_1$ | 50% & {more}" + " long" * 30
VALENCE = ("scenes", "words")
DRAWS = {"level": 199, "placebo": 199, "property": 50, "attributes": 20}


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
                common |= {
                    "debias": "none",
                    "perturb": "none",
                    "protocol": protocol,
                    "seed": 0,
                    "config": config,
                }
                noise = {kind: draw[number] for kind, draw in shared.items()}
                frames.append(_write_job(rng, results_folder, common, groups, size, noise, strength))
                folders[config] = results_folder
                jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    analyses = pd.concat(frames, ignore_index=True)
    undefined = analyses.filter(regex="^(rho|p_|ci_)").columns.drop("rho_all")
    analyses["level_q"] = analyses.groupby("protocol")["level_p"].transform(stats.false_discovery_control)
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
        rho = result.statistic
        draws = {
            "placebo": np.clip(0.2 + 0.25 * noise["placebo"][number] + 0.03 * rng.normal(), -1, 1),
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
        row |= {"sd_measured": subset["intrinsic"].std(ddof=0), "ceiling": False, "ties": 0.0}
        rows.append({**common, **row, **_uncertainty(draws, rho, rng, len(subset))})
    levels = _levels(targets, None if corpus in VALENCE else strata, in_all=source not in VALENCE)
    level_draws = []
    for number, row in enumerate(rows):
        table = levels[levels["property"].isna() | (levels["property"] == row["stratum"])]
        row |= _level(table, row["group"], 0.01 * noise["level"][number])
        null = [row["level"], *(0.01 * noise["level"][number])]
        level_draws.append(pd.DataFrame({"stratum": row["stratum"], "draw": range(len(null)), "level": null}))
    tables_by_name = {"targets": targets, "draws": draw_frames, "retrieved": retrieved}
    tables_by_name |= {"levels": [levels], "level_draws": level_draws}
    for name, tables in tables_by_name.items():
        pd.concat(tables).to_parquet(folder / f"{name}.parquet", index=False)
    write_attributes(folder, ["A", "B"], [f"{corpus}-1", f"{corpus}-2"], corpus)
    return pd.DataFrame(rows)


def write_attributes(folder, names, ids, corpus=""):
    """Write the items of A and B; `corpus` is the role of the corpus that they are drawn from, if any."""
    columns = {"group": "a group" if corpus in ("faces", "labels") else None}
    columns["template"] = "a {}" if corpus in ("words", "labels") else None
    sets = pd.DataFrame({**columns, "set": names, "id": ids})
    sets.astype({"group": "string", "template": "string"}).to_parquet(folder / "attributes.parquet")


def _targets(rng, source, stratum, groups, number, size, strength):
    by_group = source not in VALENCE
    count = size if by_group or stratum == "extremes" else 3 * size
    latent = rng.normal(size=count)
    noise = rng.normal(size=count) * (1.2 - 0.3 * strength)
    prefix = f"{number}-" if by_group else ""
    return pd.DataFrame(
        {
            "id": [f"{source}-{prefix}{row:04d}" for row in range(count)],
            "cluster": [f"{prefix}{row // 2}" for row in range(count)],
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


def _levels(targets, properties, *, in_all):
    """Build levels.parquet; with `in_all` every property is that of the targets of all strata."""
    scores = {"intrinsic": "measured", "extrinsic": "retrieved"}
    frames = [subset.rename(columns=scores).drop(columns="stratum") for subset in targets]
    if in_all:
        frames = [pd.concat(frames)] * len(properties or [None])
    names = properties or [None] * len(frames)
    levels = [frame.assign(property=name) for name, frame in zip(names, frames, strict=True)]
    return pd.concat(levels, ignore_index=True).astype({"property": "string"})


def _level(table, group, null):
    y, x = table["retrieved"], table["measured"]
    if table["valence"].isna().all():
        in_group = table["group"] == group
        level, measured = (side[in_group].mean() - side[~in_group].mean() for side in (y, x))
    else:
        z = (table["valence"] - table["valence"].mean()) / table["valence"].std(ddof=0)
        level, measured = (z * y).mean(), (z * x).mean()
    slope = stats.linregress(x, y).slope
    row = {"level": level, "level_low": level - 0.02, "level_high": level + 0.02, "measured": measured}
    row |= {"level_p": (1 + (abs(null) >= abs(level)).sum()) / (len(null) + 1), "at_bound": 0.0}
    return row | {"slope": slope, "slope_low": slope - 0.1, "slope_high": slope + 0.1}


def _uncertainty(draws, rho, rng, n):
    half = 1.96 / np.sqrt(n - 3)
    low, high = np.tanh(np.arctanh(rho) - half), np.tanh(np.arctanh(rho) + half)
    properties = np.quantile(draws["property"], [0.05, 0.95]) if len(draws["property"]) else [np.nan, np.nan]
    columns = {"ci_low": low, "ci_high": high, "sd_attributes": draws["attributes"].std(ddof=1)}
    columns |= {"validity": rng.uniform(0.5, 0.9), "placebo_mean": draws["placebo"].mean(), "placebo_n": 50}
    columns["placebo_q95"] = np.quantile(draws["placebo"], 0.95)
    columns["p_placebo"] = (1 + (draws["placebo"] >= rho - 1e-12).sum()) / (len(draws["placebo"]) + 1)
    columns |= dict(zip(("property_q05", "property_q95"), properties, strict=True))
    return columns | {"rho_placebo_units": rho + 0.001}
