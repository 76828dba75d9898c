"""Run experiments in two languages on toys of one and of both, and on shuffled vectors."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from src import configs, stimuli
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.report.load import build_untracked_findings, combine_by_study
from src.studies.languages.differences import compute_differences
from validation import sweeps
from validation.truth.experiments import shuffle

# World -> overrides. Captions in two languages, of which English alone is biased, or both; in English alone.
DIFFERENT, ALIKE, ENGLISH_ALONE = "different", "alike", "English alone"
WORLDS = {
    DIFFERENT: ["dataset=demo_languages", "demo.translated_bias=0"],
    ALIKE: ["dataset=demo_languages", "demo.translated_bias=1"],
    ENGLISH_ALONE: ["dataset=demo", "language.unclaimed=true"],
}
INVENTED = "qaa"
LANGUAGES = (configs.ENGLISH, INVENTED)
# Group experiments whose targets are pictures, which languages share; experiments that check which texts are
# placed.
GROUP_EXPERIMENTS = ("faces_to_words", "scenes_to_labels")
CHECKS = ("words_to_scenes", "labels_to_faces")
EXPERIMENTS = f"exp={','.join((*GROUP_EXPERIMENTS, *CHECKS))}"


def run_languages(
    seeds: Sequence[int], overrides: list[str], folder: Path, *, shuffled: bool
) -> pd.DataFrame:
    """Train toys of all worlds and run the experiments, on their vectors or on shuffled ones.

    The seed of a toy is also that of its pictures, as languages differ by what their captions tell by chance.
    Returns the rows of `compute_differences` of each toy, with its `world` and `toy_seed`.
    """
    tables = []
    for world, choices in WORLDS.items():
        run = _run_shuffled if shuffled else _run_toys
        for seed, jobs in run(seeds, [*overrides, *choices], folder / world):
            tables.append(_compare(jobs).assign(world=world, toy_seed=seed))
    return pd.concat(tables, ignore_index=True)


def _run_toys(seeds: Sequence[int], overrides: list[str], folder: Path) -> Iterator[tuple[int, list[Path]]]:
    """Train toys on a world; yield seed and folders of the jobs of each."""
    for seed in seeds:
        chosen = [*_seed_overrides(seed), f"language={','.join(LANGUAGES)}", EXPERIMENTS]
        yield seed, sweeps.run([*overrides, *chosen], folder / str(seed))


def _seed_overrides(seed: int) -> list[str]:
    """Return the overrides that draw a world and train a toy with a seed."""
    return [f"{name}.seed={seed}" for name in ("model", "faces", "scenes")]


def _run_shuffled(
    seeds: Sequence[int], overrides: list[str], folder: Path
) -> Iterator[tuple[int, list[Path]]]:
    """Run the experiments on shuffled vectors of the same toys; yield seed and folders of each toy's jobs."""
    # Options of toys have no meaning for vectors.
    others = [override for override in overrides if not override.startswith(("model", "demo."))]
    for number, seed in enumerate(seeds):
        jobs: list[Path] = []
        for code in LANGUAGES:
            path = folder / f"{code} {seed}"
            path.mkdir(parents=True)
            cfg = Job.of(*configs.compose([*overrides, *_seed_overrides(seed), f"language={code}"]), "").cfg
            load = partial(stimuli.load, cfg)
            for role in stimuli.ROLES:
                vectors = load_embeddings(cfg, role, load).vectors
                sweeps.write(load(role), shuffle(load(role), vectors, number), path)
            chosen = ["model=precomputed", f"model.path='{path}'", f"language={code}", EXPERIMENTS]
            jobs += sweeps.run([*others, *chosen], folder / f"jobs {code} {seed}")
        yield seed, jobs


def _compare(jobs: Sequence[Path]) -> pd.DataFrame:
    """Compare a toy's jobs in both languages, as a report does."""
    frames, folders = [], {}
    for number, job in enumerate(jobs):
        # The models of precomputed vectors are their folders, which do not tell their jobs apart.
        names = {"model": "toy", "config": str(number)}
        frames.append(pd.read_csv(job / "analyses.csv", dtype={"stratum": str}).assign(**names))
        folders[str(number)] = job
    ended = pd.concat(frames).drop_duplicates("config").assign(status="finished", reason="")
    return compute_differences(
        build_untracked_findings("languages", combine_by_study(frames), folders, ended)
    )
