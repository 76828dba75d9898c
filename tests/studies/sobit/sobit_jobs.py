"""Synthesise plausible results of So-B-IT's experiments as their jobs write them to disk."""

import itertools

import numpy as np
import pandas as pd
from scipy import stats

from tests.report import factory

RACES = ("Black", "East Asian", "Indian", "Latino_Hispanic", "Middle Eastern", "Southeast Asian", "White")
GENDERS = ("Women", "Men")
CATEGORIES = ("criminal justice", "education and wealth", "health", "occupation", "appearance", "behaviour",
              "portrayal in media", "politics", "religion", "further stereotypes")  # fmt: skip
EXPERIMENTS = ("sobit_association", "sobit_retrieval", "sobit_strength")
# Factors by which a debias method scales the effects of race and of gender.
EFFECTS = {"none": (1, 1), "orth_proj": (1.4, 0.1), "orth_proj_scm": (0.2, 0.2)}
K = 100
NUMBERS = [
    "association", "association_low", "association_high", "share_topk", "base_share", "ratio", "share_low",
    "share_high", "null_q95", "p", "q", "baseline_share", "entropy", "kl", "maxskew", "ndkl", "maxskew_q95",
    "maxskew_p", "ndkl_q95", "ndkl_p", "similarity", "similarity_low", "similarity_high", "strength",
    "strength_low", "strength_high",
]  # fmt: skip
KEYS = ["taxonomy", "category", "word", "type", "caption", "axis", "group", "n", "n_rest"]


def taxonomy(per_category=40, extra=()):
    """Build the words of the ten categories; `extra` words are added to the first category."""
    letters = list(
        map("".join, itertools.product(("ka", "lo", "mi", "tu"), ("ren", "sal", "vi"), ("d", "mor", "t")))
    )
    endings = ("ed", "er", "ing", "ly ill", "-world", "ic", "al", "ist", "ish", "keeper of the peace")
    rows = [(CATEGORIES[0], word) for word in extra]
    for (i, category), number in itertools.product(enumerate(CATEGORIES), range(per_category)):
        stem, ending = letters[number % len(letters)], endings[(number // 7 + i) % 10]
        rows.append((category, stem + ending + "2" * (number >= len(letters))))
    result = pd.DataFrame(rows, columns=["category", "word"])
    result = result.drop_duplicates().assign(type="adjective", taxonomy="sobit")
    return result.assign(caption="a photo of a " + result["word"] + " person").reset_index(drop=True)


def groups(races, genders, faces):
    """Return the groups of each axis and how many faces they have."""
    rng = np.random.default_rng(3)
    sizes = rng.integers(faces // 2, faces, (len(races), len(genders)))
    pairs = [f"{race} {gender}" for race in races for gender in genders]
    return {
        "race": (list(races), sizes.sum(1)),
        "gender": (list(genders), sizes.sum(0)),
        "both": (pairs, sizes.ravel()),
    }


def sweep(
    folder, *, models=("toy_s", "toy_m"), debias=("none", "orth_proj"), words=None, experiments=EXPERIMENTS,
    races=RACES, genders=GENDERS, faces=900, draws=200, **fields
):  # fmt: skip
    """Synthesise findings of models x debias x experiments; `fields` replace those of the findings."""
    words = taxonomy() if words is None else words
    frames, folders, jobs = [], {}, []
    for (number, model), method, exp in itertools.product(enumerate(models), debias, experiments):
        config = f"{len(folders):031x}b"
        path = folder / config
        path.mkdir(parents=True)
        common = {
            "exp": exp,
            "paper": "So-B-IT",
            "model": model,
            "dataset": "demo",
            "debias": method,
            "perturb": "none",
        }
        common |= {"protocol": "paper", "seed": 0, "config": config}
        rows = write_job(path, exp, words, groups(races, genders, faces), EFFECTS[method], number, draws)
        rows = rows.assign(**common).reindex(columns=[*common, *KEYS, *NUMBERS])
        frames.append(rows.merge(words[["word", "category"]], how="left"))
        folders[config] = path
        jobs.append({**common, "status": "finished", "run": f"run{len(jobs)}", "reason": ""})
    base = {"sobit": pd.concat(frames, ignore_index=True), "folders": folders, "jobs": pd.DataFrame(jobs)}
    base["models"] = pd.DataFrame({"model": models, "pretraining": "the dataset's captions"})
    return factory.build(**{"status": "FINISHED", "missing": [], **base, **fields})


def write_job(folder, exp, words, groups_by_axis, effects, number, draws):
    """Write the tables of a job; return its analyses."""
    rng = np.random.default_rng([5, number])
    if exp == "sobit_strength":
        similarity = 0.25 + 0.03 * rng.normal(size=len(words))
        share = stats.rankdata(similarity) / len(words)
        bounds = {"strength_low": np.clip(share - 0.06, 0, 1), "strength_high": np.clip(share + 0.05, 0, 1)}
        values = {"similarity": similarity}
        values |= {f"similarity_{end}": similarity + shift for end, shift in (("low", -0.01), ("high", 0.01))}
        return words.assign(strength=share, **values, **bounds, axis="", group="")
    c = associations(rng, len(words), groups_by_axis, effects)
    # All models and methods share faces and draws: the noise of `common_rng` cancels in paired differences,
    # that of `job_rng` does not.
    common_rng, job_rng = np.random.default_rng(8), np.random.default_rng([number, round(10 * effects[0])])
    frames, draw_frames = [], []
    for axis, (names, sizes) in groups_by_axis.items():
        error = np.sqrt(1 / sizes + 1 / (sizes.sum() - sizes))
        size = (draws, len(words), len(names))
        noise = error * (common_rng.normal(size=size) + 0.2 * job_rng.normal(size=size))
        draw_columns = _association_columns if exp == "sobit_association" else _retrieval_columns
        columns = draw_columns(job_rng, c[axis], error, sizes)
        index = pd.MultiIndex.from_product([range(len(words)), names], names=["word_index", "group"])
        frame = pd.DataFrame(
            {name: np.broadcast_to(value, c[axis].shape).ravel() for name, value in columns.items()}, index
        ).reset_index()
        frame["q"] = frame.groupby("group")["p"].transform(stats.false_discovery_control)
        frame = frame.assign(axis=axis, n=np.tile(sizes, len(words)))
        frames.append(frame.assign(n_rest=sizes.sum() - frame["n"]))
        largest = np.abs(columns.get("association", c[axis]) + noise).max(-1)
        index = pd.MultiIndex.from_product([range(draws), words["caption"]], names=["draw", "caption"])
        frame = pd.DataFrame({"largest": largest.ravel().astype(np.float32)}, index).reset_index()
        draw_frames.append(frame.assign(axis=axis))
    result = pd.concat(frames, ignore_index=True)
    result = result.join(words, on="word_index").drop(columns="word_index")
    if exp == "sobit_association":
        largest = pd.concat(draw_frames).drop_duplicates(["caption", "axis", "draw"])
        largest.sample(frac=1, random_state=1).to_parquet(folder / "draws.parquet", index=False)
    else:
        nearest = {"caption": words["caption"].iloc[0], "rank": range(1, K + 1), "similarity": 0.3}
        pd.DataFrame({**nearest, "id": [f"CFD-{i}" for i in range(K)]}).to_parquet(folder / "nearest.parquet")
    factory.write_attributes(folder, "faces", [f"CFD-{i}" for i in range(20)])
    return result


def associations(rng, word_count, groups_by_axis, effects):
    """Draw associations [words, groups] of each axis as sums of effects of race and gender, some zero."""
    races, genders = (len(groups_by_axis[axis][0]) for axis in ("race", "gender"))
    is_affected = rng.random((2, word_count, 1)) < 0.45
    race = effects[0] * is_affected[0] * rng.normal(scale=0.3, size=(word_count, races))
    gender = effects[1] * is_affected[1] * rng.normal(scale=0.25, size=(word_count, genders))
    sizes = groups_by_axis["both"][1].reshape(races, genders)
    pair_means = race[:, :, None] + gender[:, None, :]
    means = {"race": (pair_means * sizes).sum(2) / sizes.sum(1)}
    means["gender"] = (pair_means * sizes).sum(1) / sizes.sum(0)
    means["both"] = pair_means.reshape(word_count, -1)
    for axis, (_, sizes) in groups_by_axis.items():
        sums = means[axis] * sizes
        means[axis] = means[axis] - (sums.sum(-1, keepdims=True) - sums) / (sizes.sum() - sizes)
    return means


def _association_columns(rng, c, error, sizes):
    observed = c + error * rng.normal(size=c.shape)
    size, count = np.abs(observed), len(sizes)
    p = np.minimum(1, count * 2 * stats.norm.sf(size / error))
    largest = size.max(-1, keepdims=True)
    return {
        "association": observed,
        "association_low": observed - 1.96 * error,
        "association_high": observed + 1.96 * error,
        "null_q95": stats.norm.isf(0.025 / count) * error,
        "p": np.maximum(p, 1 / 1001),
        "baseline_share": np.exp(-largest / largest.mean()),
    }


def _retrieval_columns(rng, c, error, sizes):
    base = sizes / sizes.sum()
    expected = base * np.exp(2 * c)
    counts = np.stack([rng.multinomial(K, row / row.sum()) for row in expected])
    share = counts / K
    deviation, spread = np.abs(share - base), np.sqrt(base * (1 - base) / K)
    p = np.minimum(1, len(sizes) * 2 * stats.norm.sf(deviation / spread))
    half_width = 1.96 * np.sqrt(share * (1 - share) / K)
    kl = (np.where(share > 0, share * np.log(np.where(share > 0, share, 1) / base), 0)).sum(-1, keepdims=True)
    skew = np.log(np.maximum(share, 1 / K) / base).max(-1, keepdims=True)
    return {
        "share_topk": share, "base_share": base, "ratio": share / base,
        "share_low": np.maximum(0, share - half_width), "share_high": np.minimum(1, share + half_width),
        "null_q95": stats.norm.isf(0.025 / len(sizes)) * spread, "p": np.maximum(p, 1 / 1001),
        "entropy": stats.entropy(share, axis=-1)[:, None] / np.log(len(sizes)), "kl": kl, "maxskew": skew,
        "ndkl": kl * 1.2, "maxskew_q95": 0.4, "maxskew_p": 0.01, "ndkl_q95": 0.1, "ndkl_p": 0.01,
    }  # fmt: skip
