"""Entry: the parts of a run as stages of a pipeline (dvc.yaml).

python -m src.stage world model=toy_m
python -m src.stage train model=toy_m
python -m src.stage embed model=toy_m --role faces
python -m src.stage table outputs/repro --output docs/repro
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from functools import partial
from pathlib import Path

from src import configs, stimuli
from src.errors import InputError, answered


def world(cfg: configs.RunConfig) -> None:
    """Draw or read all stimuli; `tables.json` beside them says what they are."""
    tables = {role: stimuli.load(cfg, role) for role in stimuli.ROLES}
    said = {role: {"hash": table.hash, "rows": len(table.frame)} for role, table in tables.items()}
    folder = Path(cfg.store.stimuli)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.json").write_text(json.dumps(said, indent=2) + "\n")


def train(cfg: configs.RunConfig) -> None:
    """Make the weights of the model."""
    from src.encoders import open_encoder

    open_encoder(cfg, partial(stimuli.load, cfg)).weights()


def embed(cfg: configs.RunConfig, role: str) -> None:
    """Make the vectors of one role."""
    from src.embeddings import embeddings

    embeddings(cfg, role, partial(stimuli.load, cfg))


def table(folder: Path, output: Path) -> None:
    """Gather every job's analyses below a folder into one table, its summary and its heatmap.

    Args:
        folder: holds a folder per model, which holds the jobs' folders.
        output: gets `analyses.csv`, `metrics.json` and `heatmap.png`.

    Raises:
        InputError: there are no analyses.
    """
    import pandas as pd

    from src import results
    from src.report import figures, tables

    jobs = sorted(path.parent.parent for path in folder.rglob(f"{results.FOLDER}/{results.ANALYSES}"))
    if not jobs:
        raise InputError(f"{folder}: no {results.FOLDER}/{results.ANALYSES} below it. Run a sweep into it.")
    parts = [results.read(job) for job in jobs]
    analyses = pd.concat(parts, ignore_index=True)
    # A model's name says what was changed of it; what is compared between experiments is its folder.
    places = [
        part.assign(model=job.relative_to(folder).parts[0]) for job, part in zip(jobs, parts, strict=True)
    ]
    compared = tables.nested(pd.concat(places, ignore_index=True))
    output.mkdir(parents=True, exist_ok=True)
    analyses.to_csv(output / results.ANALYSES, index=False)
    (output / "metrics.json").write_text(json.dumps(compared, indent=2) + "\n")
    title = f"{analyses['dataset'].iloc[0]}: {len(analyses)} analyses"
    figures.save(*figures.heatmap(analyses, title=title), output / "heatmap.png")


def main(arguments: list[str] | None = None) -> int:
    """Run one stage; returns the exit status."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asked = _parse(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    if asked.stage == "table":
        table(asked.folder, asked.output)
        return 0
    from src.jobs import Job

    cfg = Job.of(*configs.compose(asked.overrides), "").cfg
    if asked.stage == "world":
        world(cfg)
    elif asked.stage == "train":
        train(cfg)
    else:
        embed(cfg, asked.role)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m src.stage", description="One stage of the pipeline.")
    stages = parser.add_subparsers(dest="stage", required=True)
    for name in ("world", "train", "embed"):
        stage = stages.add_parser(name)
        if name == "embed":
            stage.add_argument("--role", choices=stimuli.ROLES, required=True)
        stage.add_argument("overrides", nargs="*", help="of the config, as for src.run")
    stage = stages.add_parser("table")
    stage.add_argument("folder", type=Path, help="holds the jobs' folders")
    stage.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
