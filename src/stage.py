"""Entry: the parts of a run as stages of a pipeline (dvc.yaml).

python -m src.stage ingest dataset=photos dataset.root=DIR
python -m src.stage morph dataset=paper dataset.root=DIR
python -m src.stage weights model=toy_m
python -m src.stage embed model=toy_m --role faces
python -m src.stage prompts exp=sobit_association --output prompts.parquet
python -m src.stage propagate model=toy_m --output outputs/repro/demo/toy_m
python -m src.stage table outputs/repro/demo --output docs/repro
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from src import configs, stimuli
from src.errors import InputError, answered, brief, replace_unprintable
from src.stimuli import safe_yaml

PARAMS = Path("params.yaml")


def ingest(cfg: configs.RunConfig) -> None:
    """Draw or read all stimuli but for morphs; `tables.json` says what they are."""
    tables = {role: stimuli.load(cfg, role) for role in stimuli.ROLES if role != "faces"}
    tables["faces"] = stimuli.parents(cfg) or stimuli.load(cfg, "faces")
    _say(Path(cfg.store.stimuli), tables)


def morph(cfg: configs.RunConfig) -> None:
    """Morph the faces, where the dataset's are morphs; `tables.json` says what they are."""
    _say(Path(cfg.store.morphs), {"faces": stimuli.load(cfg, "faces")} if stimuli.parents(cfg) else {})


def weights(cfg: configs.RunConfig) -> None:
    """Make the weights of the model, or see that those of others are here; `weights.json` says which."""
    from src.encoders import open_encoder

    said = open_encoder(cfg, partial(stimuli.load, cfg)).weights()
    folder = Path(cfg.store.checkpoints)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.json").write_text(json.dumps(dict(said), indent=2) + "\n")


def embed(cfg: configs.RunConfig, role: str) -> None:
    """Make the vectors of one role."""
    from src.embeddings import embeddings
    from src.encoders import check_precision

    check_precision(cfg)
    embeddings(cfg, role, partial(stimuli.load, cfg))


def prompts(cfg: configs.RunConfig, output: Path) -> None:
    """Write the texts that an experiment brings itself, for whoever has to embed them: `id`, `sentence`.

    Raises:
        InputError: it brings none, or they cannot be made of its config.
    """
    from src.studies.protocol import study_of

    table = study_of(cfg.exp).prompts(cfg)
    if table is None:
        raise InputError("exp: this experiment shows what the dataset holds, and no prompts of its own.")
    output.parent.mkdir(parents=True, exist_ok=True)
    table.frame[["id", "sentence"]].to_parquet(output, index=False)
    print(f"{output}: {len(table.frame)} prompts")


def propagate(overrides: list[str], output: Path) -> int:
    """All experiments of a model, each into a folder of its name; exit status of the sweep."""
    sweep = [
        *(
            sys.executable,
            "-m",
            "src.run",
            "-m",
            "exp=glob(*_to_*)",
            "resume=false",
            "report=false",
            *overrides,
        ),
        f"hydra.sweep.dir={given(str(output))}",
        "hydra.sweep.subdir=${hydra:runtime.choices.exp}",
    ]
    return subprocess.run(sweep, check=False).returncode


def given(value: object) -> str:
    """A value as Hydra's command line takes it.

    >>> given("demo"), given(None), given([1, "two words"]), given(0.5)
    ('demo', 'null', '[1,"two words"]', '0.5')
    """
    if isinstance(value, list):
        return f"[{','.join(given(item) for item in value)}]"
    if isinstance(value, str) and re.fullmatch(r"[\w./-]+", value):
        return value
    return json.dumps(value)


def chosen(names: list[str], file: Path) -> list[str]:
    """Overrides that a file of parameters asks for; see `read`."""
    return [said for name, node in read(names, file).items() for said in _flat(name, node)]


def read(names: list[str], file: Path) -> dict[str, Any]:
    """Parts of a file of parameters.

    Args:
        names: of config groups, and of what it says at its top.
        file: YAML, as DVC reads it.

    Raises:
        InputError: it is not there, is no such YAML, or lacks one.
    """
    if not names:
        return {}
    if not file.is_file():
        raise InputError(f"{file}: no such file. Run from the folder of dvc.yaml.")
    try:
        params = safe_yaml.of_yaml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {brief(error, 300)}. Correct it.") from None
    if not isinstance(params, dict):
        raise InputError(f"{file}: no parameters, but {type(params).__name__}. Write name: value.")
    missing = [name for name in names if name not in params]
    if missing:
        raise InputError(f"{file}: no {', '.join(missing)}. Add it; {{}} leaves all as the config has it.")
    return {name: params[name] for name in names}


def _flat(name: str, node: object) -> list[str]:
    if isinstance(node, dict):
        return [said for key, value in node.items() for said in _flat(f"{name}.{key}", value)]
    return [f"{name}={given(node)}"]


def _say(folder: Path, tables: Mapping[str, stimuli.Table]) -> None:
    for shown in tables.values():
        print(shown.statement())
    said = {
        role: {"hash": table.hash, "rows": len(table.frame), "used": table.statement()}
        for role, table in tables.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.json").write_text(json.dumps(said, indent=2, sort_keys=True) + "\n")


def table(folder: Path, output: Path, models: list[str] | None = None) -> None:
    """Gather every job's analyses below a folder into one table, its summary and its heatmap.

    Args:
        folder: holds a folder per model, which holds the jobs' folders.
        output: gets `analyses.csv`, `metrics.json` and `heatmap.png`.
        models: whose folders may be there; None: whoever's.

    Raises:
        InputError: there are no analyses, or some are of another model.
    """
    import pandas as pd

    from src.report.drawing import save
    from src.storage import results
    from src.studies.propagation import figures, tables

    jobs = sorted(path.parent.parent for path in folder.rglob(f"{results.FOLDER}/{results.ANALYSES}"))
    if not jobs:
        raise InputError(f"{folder}: no {results.FOLDER}/{results.ANALYSES} below it. Run a sweep into it.")
    # What an earlier choice left is no stage's output any more: no clone could have it.
    others = sorted({job.relative_to(folder).parts[0] for job in jobs} - set(models)) if models else []
    if others:
        raise InputError(
            f"{folder}: {', '.join(others)} among the results, but not among the models of {PARAMS}. "
            f"Remove {' '.join(str(folder / name) for name in others)}, or name the models."
        )
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
    save(*figures.heatmap(analyses, title=title), output / "heatmap.png")


def main(arguments: list[str] | None = None) -> int:
    """Run one stage; returns the exit status."""
    replace_unprintable()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asked = _parse(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    if asked.stage == "table":
        table(asked.folder, asked.output, read(asked.params, PARAMS).get("models"))
        return 0
    from src.jobs.identity import Job

    overrides = chosen(asked.params, PARAMS) + asked.overrides
    if asked.stage == "propagate":
        return propagate(overrides, asked.output)
    cfg = Job.of(*configs.compose(overrides), "").cfg
    if asked.stage == "embed":
        embed(cfg, asked.role)
    elif asked.stage == "prompts":
        prompts(cfg, asked.output)
    else:
        {"ingest": ingest, "morph": morph, "weights": weights}[asked.stage](cfg)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m src.stage", description="One stage of the pipeline.")
    stages = parser.add_subparsers(dest="stage", required=True)
    for name in ("ingest", "morph", "weights", "embed", "prompts", "propagate"):
        stage = stages.add_parser(name)
        if name == "embed":
            stage.add_argument("--role", choices=stimuli.ROLES, required=True)
        if name == "propagate":
            stage.add_argument("--output", type=Path, required=True, help="gets a folder per experiment")
        if name == "prompts":
            stage.add_argument("--output", type=Path, required=True, help="a Parquet file: id, sentence")
        stage.add_argument("overrides", nargs="*", help="of the config, as for src.run")
    stage = stages.add_parser("table")
    stage.add_argument("folder", type=Path, help="holds the jobs' folders")
    stage.add_argument("--output", type=Path, required=True)
    for stage in stages.choices.values():
        stage.add_argument(
            "--params", type=lambda text: text.split(","), default=[], help=f"what to take from {PARAMS}"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
