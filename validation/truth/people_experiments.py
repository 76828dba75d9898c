"""Run matched pictures, harms and perturbations on toys of variants of the world, and on shuffled vectors."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from src import configs, stimuli
from src.embeddings import load_embeddings
from src.jobs.identity import Job
from src.report.load import build_untracked_findings, combine_by_study
from src.stimuli import PROMPTS, Table
from src.studies.protocol import load_study
from src.studies.sensitivity.changes import PERTURB, compute_changes
from validation import sweeps
from validation.truth.caption_associations import embed_captions
from validation.truth.experiments import Toy, shuffle, toy_overrides

PEOPLE, PLACES = "dataset=demo_people", "dataset=demo_places"
PEOPLE_EXPERIMENTS = ("matched", "matched_words", "harms")
PLACES_EXPERIMENT = "faces_to_words"
# The second takes away the background, which hides a bias of faces; the third leaves face and background.
NONE, GREY_BACKGROUND, FLIP = PERTURBATIONS = ("none", "grey_background", "flip")
SHUFFLED_ROLES = ("faces", "words")


class PeopleRuns(NamedTuple):
    """Results of all toys; each table has columns `bias` and `seed`.

    Attributes:
        matched: analyses of `exp=matched`.
        words: analyses of `exp=matched_words`.
        harms: analyses of `exp=harms`.
        changes: changes of levels by perturbations, see `sensitivity.changes.compute_changes`.
    """

    matched: pd.DataFrame
    words: pd.DataFrame
    harms: pd.DataFrame
    changes: pd.DataFrame


def run_people(toys: Sequence[Toy], overrides: list[str], folder: Path, *, shuffled: bool) -> PeopleRuns:
    """Train toys and run the experiments, on their vectors or on shuffled ones.

    The seed of a toy is also that of its pictures: what an encoder learns of the captions that faces have by
    chance would otherwise be the same with every seed.
    """
    people: dict[str, list[pd.DataFrame]] = {exp: [] for exp in PEOPLE_EXPERIMENTS}
    changes = []
    for seed in dict.fromkeys(seed for _, seed in toys):
        of_seed = [toy for toy in toys if toy[1] == seed]
        seeded = [*overrides, f"faces.seed={seed}", f"scenes.seed={seed}"]
        for toy, job in _run(of_seed, [*seeded, PEOPLE], folder / f"people {seed}", shuffled):
            analyses = pd.read_csv(job / "analyses.csv")
            people[analyses["exp"].iloc[0]].append(_label(analyses, toy))
        jobs = [*_run(of_seed, [*seeded, PLACES], folder / f"places {seed}", shuffled)]
        changes += [_label(_compare([job for other, job in jobs if other == toy]), toy) for toy in of_seed]
    tables = [pd.concat(frames, ignore_index=True) for frames in (*people.values(), changes)]
    return PeopleRuns(*tables)


def _run(
    toys: Sequence[Toy], overrides: list[str], folder: Path, shuffled: bool
) -> Iterator[tuple[Toy, Path]]:
    """Run the experiments of a dataset on toys of one seed; yield each toy and the folder of its job."""
    of_people = PEOPLE in overrides
    experiments = f"exp={','.join(PEOPLE_EXPERIMENTS) if of_people else PLACES_EXPERIMENT}"
    perturbations = (NONE,) if of_people else PERTURBATIONS
    if shuffled:
        paths = [
            _write_shuffled(
                [*overrides, *toy_overrides(toy), f"{PERTURB}={name}"], folder / f"{number} {name}", number
            )
            for number, toy in enumerate(toys)
            for name in perturbations
        ]
        # Options of toys have no meaning for vectors.
        chosen = [each for each in overrides if not each.startswith(("model", "demo."))]
        listed = ",".join(f"'{path}'" for path in paths)
        chosen += ["model=precomputed", f"model.path={listed}", experiments]
    else:
        biases = ",".join(str(bias) for bias, _ in toys)
        chosen = [*overrides, f"demo.bias={biases}", f"model.seed={toys[0][1]}", experiments]
        chosen += [] if of_people else [f"{PERTURB}={','.join(perturbations)}"]
    jobs = sweeps.run(chosen, folder)
    per_toy = len(jobs) // len(toys)
    for number, job in enumerate(jobs):
        yield toys[number // per_toy], job


def _write_shuffled(overrides: list[str], folder: Path, number: int) -> Path:
    """Write the vectors of a toy as precomputed ones; those of faces and words are shuffled."""
    folder.mkdir(parents=True)
    cfg = Job.of(*configs.compose(overrides), "").cfg
    for role in SHUFFLED_ROLES:
        table = stimuli.load(cfg, role)
        vectors = load_embeddings(cfg, role, lambda name: stimuli.load(cfg, name)).vectors
        sweeps.write(table, shuffle(table, vectors, number), folder)
    sentences: set[str] = set()
    for exp in PEOPLE_EXPERIMENTS if PEOPLE in overrides else ():
        job = Job.of(*configs.compose([*overrides, f"exp={exp}"]), "").cfg
        if prompts := load_study(job.exp).prompts(job):
            sentences |= {*prompts.frame["sentence"]}
    if sentences:
        frame = pd.DataFrame({"id": sorted(sentences), "sentence": sorted(sentences)})
        table = Table(PROMPTS, frame, len(frame))
        sweeps.write(table, embed_captions(cfg, sorted(sentences)), folder)
    return folder


def _compare(jobs: Sequence[Path]) -> pd.DataFrame:
    """Compare the levels of a toy's jobs, in order of `PERTURBATIONS`, as a report does."""
    frames, folders = [], {}
    for name, job in zip(PERTURBATIONS, jobs, strict=True):
        # Precomputed vectors have no perturbation of their own, and the models of jobs are their folders.
        names = {PERTURB: name, "model": "toy", "config": name}
        frames.append(pd.read_csv(job / "analyses.csv").assign(**names))
        folders[name] = job
    ended = pd.concat(frames).drop_duplicates("config").assign(status="finished", reason="")
    findings = build_untracked_findings("places", combine_by_study(frames), folders, ended)
    changes, _ = compute_changes(findings)
    return changes[changes["measure"] == "level"]


def _label(table: pd.DataFrame, toy: Toy) -> pd.DataFrame:
    return table.assign(bias=toy[0], seed=toy[1])
