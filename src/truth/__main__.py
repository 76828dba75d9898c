"""Entry: is what was planted in the built-in world what is measured?

python -m src.truth --seeds 0,1,2 --biases 0,0.25,0.5,1 model=toy_m
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from src import configs, stimuli
from src.errors import answered
from src.stimuli import PROMPTS, Table

PEARSON, SPEARMAN, STANDARD_ERRORS, RATIO = 0.9, 0.8, 3.0, 1 / 3


@dataclass(frozen=True)
class Claim:
    """Something that must hold of an instrument that measures what is there."""

    claim: str
    asked: str
    measured: str
    holds: bool


def measure(overrides: list[str]) -> dict[str, Any]:
    """One toy: what it makes of the groups' faces and of the scenes.

    Args:
        overrides: of the job's config.

    Returns:
        `bias`, `seed`, `steps`; `spearman` of the scenes' SC-EAT with their own valence; `cles_gap` of
        the two groups whose looks are planted furthest apart; and by group `planted`, `s` (mean of s(w))
        and `sc_eat` (mean effect size).
    """
    from src.embeddings import embeddings
    from src.jobs import Job

    cfg = Job.of(*configs.compose(overrides), "").cfg
    assert isinstance(cfg.model, configs.ToyConfig)
    table = partial(stimuli.load, cfg)
    vectors = {role: embeddings(cfg, role, table).vectors for role in ("faces", "scenes", "words")}
    faces = table("faces").frame
    s, effect = _scores(cfg, vectors["faces"], table("words"), vectors["words"])
    _, scenes = _scores(cfg, vectors["scenes"], table("words"), vectors["words"])
    by_group = pd.DataFrame({"s": s, "sc_eat": effect}).groupby(faces["group"].to_numpy()).mean()
    valence = table("scenes").frame["valence"]
    return {
        "bias": cfg.demo.bias,
        "seed": cfg.model.seed,
        "steps": cfg.model.steps,
        "spearman": float(stats.spearmanr(scenes, valence).statistic),
        "cles_gap": _looks(cfg, faces, vectors["faces"]),
        "groups": by_group.assign(planted=pd.Series(cfg.demo.planted)),
    }


def _scores(cfg: configs.RunConfig, targets: Any, words: Table, vectors: Any) -> tuple[Any, Any]:
    # s(w) and SC-EAT of each target, averaged over the templates.
    from src.experiments import corpus_of
    from src.metrics import sc_eat, similarity

    found = corpus_of(words, cfg.protocol, cfg.seed).pools
    s, effect = np.zeros(len(targets)), np.zeros(len(targets))
    for pool in found:
        to_a, to_b = (similarity(targets, vectors[pool.rows[chosen[0]]]) for chosen in (pool.a, pool.b))
        s += (to_a.mean(dim=1) - to_b.mean(dim=1)).numpy()
        effect += sc_eat(to_a, to_b, cfg.protocol.ddof).numpy()
    return s / len(found), effect / len(found)


def _looks(cfg: configs.RunConfig, faces: pd.DataFrame, vectors: Any) -> float:
    # |CLES - 1/2| of the planted contrast, mean over the traits.
    from src.metrics import cles, similarity

    planted = pd.Series(cfg.demo.looks)
    if not len(planted):
        return float("nan")
    gaps = []
    for words in cfg.demo.traits.values():
        cosines = similarity(vectors, _said(cfg, words)).numpy()
        most, least = (cosines[faces["group"] == group] for group in (planted.idxmax(), planted.idxmin()))
        gaps.append(abs(cles(most, least) - 0.5))
    return float(np.mean(gaps))


def _said(cfg: configs.RunConfig, words: list[str]) -> Any:
    # Vectors of the looks that captions name.
    from src.demo.captions import LOOK
    from src.embeddings import embeddings

    said = sorted(LOOK.format(word) for word in words)
    prompts = Table(PROMPTS, pd.DataFrame({"id": said, "sentence": said}), len(said))

    def table(role: str) -> Table:
        return prompts if role == PROMPTS else stimuli.load(cfg, role)

    return embeddings(cfg, PROMPTS, table).vectors


def tabulate(measured: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per toy, and one row per toy and group.

    Args:
        measured: see `measure`.

    Returns:
        `bias, seed, steps, spearman, cles_gap, pearson` (of planted valence and mean s(w)) and `slope` (of
        the mean SC-EAT on the planted valence); and `bias, seed, steps, group, planted, s, sc_eat`.
    """
    toys, groups = [], []
    for found in measured:
        about = {name: found[name] for name in ("bias", "seed", "steps")}
        table = found["groups"]
        pearson = stats.pearsonr(table["planted"], table["s"]).statistic
        slope = stats.linregress(table["planted"], table["sc_eat"]).slope
        known = {name: found[name] for name in ("spearman", "cles_gap")}
        toys.append({**about, **known, "pearson": pearson, "slope": slope})
        groups.append(table.rename_axis("group").reset_index().assign(**about))
    columns = ["bias", "seed", "steps", "group", "planted", "s", "sc_eat"]
    return pd.DataFrame(toys), pd.concat(groups, ignore_index=True)[columns]


def claims(toys: pd.DataFrame) -> Iterator[Claim]:
    """What must hold, and whether it does.

    Args:
        toys: see `tabulate`; untrained ones have 0 steps.
    """
    trained, untrained = toys[toys["steps"] > 0], toys[toys["steps"] == 0]
    full = trained[trained["bias"] == trained["bias"].max()]
    n = len(full)
    pearson, spearman = full["pearson"].mean(), trained["spearman"].min()
    yield Claim(
        "planted valence and group mean of s(w), full bias: Pearson, mean over seeds",
        f"at least {PEARSON}",
        f"{pearson:.3f} (n = {n}, {_range(full['pearson'])})",
        bool(pearson >= PEARSON),
    )
    slopes = trained.groupby("bias")["slope"].mean()
    yield Claim(
        "slope of group mean SC-EAT on planted valence, mean over seeds",
        "grows with the bias",
        ", ".join(f"{bias:g}: {slope:.2f}" for bias, slope in slopes.items()),
        bool(slopes.is_monotonic_increasing and slopes.is_unique),
    )
    first, last = slopes.iloc[0], slopes.iloc[-1]
    yield Claim(
        "slope without bias",
        f"less than a third of the slope at full bias, {last * RATIO:.2f}",
        f"{first:.2f}",
        bool(abs(first) < last * RATIO),
    )
    yield Claim(
        "a scene's SC-EAT and its own valence, trained: Spearman, least of all toys",
        f"at least {SPEARMAN}",
        f"{spearman:.3f} (n = {len(trained)}, {_range(trained['spearman'])})",
        bool(spearman >= SPEARMAN),
    )
    if len(untrained) > 1:
        mean, error = untrained["spearman"].mean(), stats.sem(untrained["spearman"])
        yield Claim(
            "the same, untrained: mean over seeds",
            f"within {STANDARD_ERRORS:g} standard errors of 0, {STANDARD_ERRORS * error:.3f}",
            f"{mean:.3f} (n = {len(untrained)}, {_range(untrained['spearman'])})",
            bool(abs(mean) <= STANDARD_ERRORS * error),
        )
    gaps = trained.groupby("bias")["cles_gap"].mean()
    if gaps.notna().all():
        yield Claim(
            "|CLES − ½| of the planted contrast of looks without bias, mean over seeds",
            f"less than a third of that at full bias, {gaps.iloc[-1] * RATIO:.3f}",
            f"{gaps.iloc[0]:.3f}",
            bool(gaps.iloc[0] < gaps.iloc[-1] * RATIO),
        )


def _range(values: pd.Series) -> str:
    return f"{values.min():.3f} to {values.max():.3f}"


def main(arguments: list[str] | None = None) -> int:
    """Measure, show, write; returns 1 where a claim does not hold."""
    asked = _parse(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    from rich.console import Console

    from src.report import figures, tables

    measured = [
        measure([f"model.seed={seed}", f"demo.bias={bias:g}", *asked.overrides])
        for seed in asked.seeds
        for bias in asked.biases
    ]
    measured += [
        measure([*asked.overrides, f"model.seed={seed}", "model.steps=0"]) for seed in range(asked.untrained)
    ]
    toys, groups = tabulate(measured)
    found = list(claims(toys))
    asked.output.mkdir(parents=True, exist_ok=True)
    toys.to_csv(asked.output / "toys.csv", index=False)
    groups.to_csv(asked.output / "groups.csv", index=False)
    (asked.output / "claims.json").write_text(json.dumps([vars(claim) for claim in found], indent=2) + "\n")
    figures.save(*figures.planted(groups[groups["steps"] > 0]), asked.output / "planted.png")
    Console(width=None if sys.stdout.isatty() else 120).print(
        tables.plain(pd.DataFrame(map(vars, found)), "What was planted, and what is measured")
    )
    print(f"Written to {asked.output}")
    return int(not all(claim.holds for claim in found))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m src.truth", description=__doc__)
    parser.add_argument("--seeds", type=_numbers(int), default=[0, 1, 2])
    parser.add_argument("--biases", type=_numbers(float), default=[0, 0.25, 0.5, 1])
    parser.add_argument("--untrained", type=int, default=20, help="how many seeds")
    parser.add_argument("--output", type=Path, default=configs.CHECKOUT / "outputs" / "truth")
    parser.add_argument("overrides", nargs="*", help="of the config, as for src.run")
    return parser.parse_args(arguments)


def _numbers(kind: type) -> Any:
    def parse(text: str) -> list[Any]:
        return sorted({kind(part) for part in text.split(",")})

    return parse


if __name__ == "__main__":
    sys.exit(main())
