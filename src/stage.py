"""Run a stage of the pipeline (dvc.yaml).

python -m src.stage ingest dataset=photos dataset.root=DIR --output data/tables/photos
python -m src.stage morph dataset=paper dataset.root=DIR
python -m src.stage weights model=toy_m
python -m src.stage embed model=toy_m --role faces
python -m src.stage prompts exp=sobit_association --output prompts.parquet
python -m src.stage propagate model=toy_m --output outputs/repro/demo/toy_m
python -m src.stage table outputs/repro/demo --output docs/repro
"""

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from src import configs, stimuli
from src.configs.composition import quote
from src.errors import InputError, brief, replace_unprintable, run_entry
from src.stimuli import safe_yaml

PARAMS = Path("params.yaml")


def ingest(cfg: configs.RunConfig, output: Path | None = None) -> None:
    """Draw or read all stimuli except morphs, and describe them in `tables.json` in the store.

    With `output`, the description is written into that folder, together with the tables, which lack the
    paths of pictures.
    """
    tables = {role: stimuli.load(cfg, role) for role in stimuli.ROLES if role != "faces"}
    tables["faces"] = stimuli.load_parents(cfg) or stimuli.load(cfg, "faces")
    _write_descriptions(output or Path(cfg.store.stimuli), tables)
    if output:
        for role, table in tables.items():
            frame = table.frame.drop(columns="path", errors="ignore")
            frame.to_parquet(output / f"{role}.parquet", index=False, compression="zstd")


def morph(cfg: configs.RunConfig) -> None:
    """Morph the faces if the dataset has morphs, and describe them in `tables.json`."""
    _write_descriptions(
        Path(cfg.store.morphs), {"faces": stimuli.load(cfg, "faces")} if stimuli.load_parents(cfg) else {}
    )


def prepare_weights(cfg: configs.RunConfig) -> None:
    """Train a toy, or check that pretrained weights are present, and describe them in `weights.json`."""
    from src.encoders import open_encoder

    description = open_encoder(cfg, partial(stimuli.load, cfg)).identify_weights()
    _write_json(Path(cfg.store.checkpoints) / "weights.json", dict(description))


def embed(cfg: configs.RunConfig, role: str, output: Path | None = None) -> None:
    """Embed the stimuli of one role; with `output`, describe the vectors in `vectors.json` in that folder."""
    from src.embeddings import load_embeddings
    from src.encoders import check_precision
    from src.jobs.unread_texts import leave_out_unread

    def load(name: str) -> stimuli.Table:
        table = stimuli.load(cfg, name)
        return leave_out_unread(cfg, {role: table})[role] if name == role else table

    check_precision(cfg)
    embedded = load_embeddings(cfg, role, load)
    if output:
        shape = list(embedded.vectors.shape)
        _write_json(output / "vectors.json", {"sha256": embedded.hash, "shape": shape})


def write_prompts(cfg: configs.RunConfig, output: Path) -> None:
    """Write the prompts of an experiment (columns `id`, `sentence`) as parquet, for embedding elsewhere.

    Raises:
        InputError: the experiment has no prompts, or its config does not determine them.
    """
    from src.studies.protocol import load_study

    table = load_study(cfg.exp).prompts(cfg)
    if table is None:
        raise InputError(
            f"exp: expected an experiment with prompts, got a {cfg.exp.study} experiment, which embeds "
            "stimuli of the dataset. Use another, such as exp=sobit_association."
        )
    output.parent.mkdir(parents=True, exist_ok=True)
    table.frame[["id", "sentence"]].to_parquet(output, index=False)
    print(f"{output}: {len(table.frame)} prompts")


def propagate(overrides: list[str], output: Path, pattern: str = "*") -> int:
    """Run the propagation experiments of a model as a sweep; return its exit status.

    Each experiment has a folder of its name in `output`. Result files that do not match `pattern` are then
    deleted from `output`; the MLflow run has all of them as artifacts.
    """
    from src.storage import results

    sweep = [*("-m", "src.run", "-m", "exp=glob(*_to_*)", "resume=false", "report=false"), *overrides]
    sweep += [f"hydra.sweep.dir={quote(str(output))}", "hydra.sweep.subdir=${hydra:runtime.choices.exp}"]
    status = subprocess.run([sys.executable, *sweep], check=False).returncode
    for path in output.glob(f"*/{results.FOLDER}/*"):
        if not path.match(pattern):
            path.unlink()
    return status


def read_overrides(names: list[str], file: Path) -> list[str]:
    """Return the overrides in a file of parameters; see `read_params`."""
    return [override for name, node in read_params(names, file).items() for override in _flatten(name, node)]


def read_params(names: list[str], file: Path) -> dict[str, Any]:
    """Read named entries from the top level of a YAML file of parameters.

    Raises:
        InputError: the file does not exist, is not a mapping in YAML, or lacks an entry.
    """
    if not names:
        return {}
    if not file.is_file():
        raise InputError(f"{file}: no such file. Run from the folder of dvc.yaml.")
    try:
        params = safe_yaml.parse_yaml(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {brief(error, 300)}. Correct it.") from None
    if not isinstance(params, dict):
        raise InputError(f"{file}: expected a mapping, got {type(params).__name__}. Correct it.")
    missing = [name for name in names if name not in params]
    if missing:
        raise InputError(
            f"{file}: {', '.join(missing)} missing. Add `NAME: {{}}` to use the defaults of conf/."
        )
    return {name: params[name] for name in names}


def _flatten(name: str, node: object) -> list[str]:
    if isinstance(node, dict):
        return [override for key, value in node.items() for override in _flatten(f"{name}.{key}", value)]
    return [f"{name}={quote(node)}"]


def _write_descriptions(folder: Path, tables: Mapping[str, stimuli.Table]) -> None:
    """Print what was read or drawn for each role, and write it with hash and row count to `tables.json`."""
    for table in tables.values():
        print(table.describe())
    descriptions = {
        role: {"hash": table.hash, "rows": len(table.frame), "used": table.describe()}
        for role, table in tables.items()
    }
    _write_json(folder / "tables.json", dict(sorted(descriptions.items())))


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_table(folder: Path, output: Path, models: list[str] | None = None) -> None:
    """Collect the analyses of all jobs below a folder into a table, its summary and its heatmap.

    `folder` contains a folder per model. With `models`, folders of other models are refused.

    Raises:
        InputError: there are no analyses, or some are of another model.
    """
    import pandas as pd

    from src.report.drawing import save_png
    from src.storage import results
    from src.studies.propagation import figures, tables

    jobs = sorted(path.parent.parent for path in folder.rglob(f"{results.FOLDER}/{results.ANALYSES}"))
    if not jobs:
        raise InputError(
            f"{folder}: contains no {results.FOLDER}/{results.ANALYSES}. Run a sweep with "
            f"hydra.sweep.dir={folder}."
        )
    if folder in jobs:
        raise InputError(
            f"{folder}: the folder of a single job. Name one that has a folder of jobs per model."
        )
    model_folders = [job.relative_to(folder).parts[0] for job in jobs]
    # DVC does not track results of models that params.yaml no longer names: a clone would lack them.
    unlisted = sorted({*model_folders} - {*models}) if models else []
    if unlisted:
        raise InputError(
            f"{folder}: contains results of {', '.join(unlisted)}, which {PARAMS} does not list. Remove "
            f"{' '.join(str(folder / name) for name in unlisted)}, or add the models to {PARAMS}."
        )
    frames = [results.read(job) for job in jobs]
    analyses = pd.concat(frames, ignore_index=True)
    # The column `model` also contains changed options, so metrics.json groups by the model's folder instead.
    by_folder = (frame.assign(model=name) for name, frame in zip(model_folders, frames, strict=True))
    _write_json(output / "metrics.json", tables.build_mean_tree(pd.concat(by_folder, ignore_index=True)))
    analyses.to_csv(output / results.ANALYSES, index=False)
    title = f"{analyses['dataset'].iloc[0]}: {len(analyses)} analyses"
    save_png(*figures.plot_heatmap(analyses, title=title), output / "heatmap.png")


# Stage with the option --output -> help text of this option.
OUTPUTS = {
    "ingest": "folder of the tables",
    "embed": "folder of a description of the vectors",
    "prompts": "Parquet file: id, sentence",
    "propagate": "folder of the results",
}


def main(arguments: list[str] | None = None) -> int:
    """Run a stage; return the exit status."""
    replace_unprintable()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    options = _parse_arguments(arguments)
    return run_entry(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    if options.stage == "table":
        write_table(options.folder, options.output, read_params(options.params, PARAMS).get("models"))
        return 0
    from src.jobs.identity import Job

    overrides = read_overrides(options.params, PARAMS) + options.overrides
    if options.stage == "propagate":
        return propagate(overrides, options.output, options.results)
    cfg = Job.of(*configs.compose(overrides), output="").cfg
    stage_options = {name: value for name, value in vars(options).items() if name in ("role", "output")}
    stages: dict[str, Callable[..., None]]
    stages = {
        "ingest": ingest,
        "morph": morph,
        "weights": prepare_weights,
        "embed": embed,
        "prompts": write_prompts,
    }
    stages[options.stage](cfg, **stage_options)
    return 0


def _parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m src.stage", description="Run a stage of the pipeline.")
    stages = parser.add_subparsers(dest="stage", required=True)
    for name in ("ingest", "morph", "weights", "embed", "prompts", "propagate"):
        stage = stages.add_parser(name)
        if name == "embed":
            stage.add_argument("--role", choices=stimuli.ROLES, required=True, help="stimuli to embed")
        if name in OUTPUTS:
            required = name in ("prompts", "propagate")
            stage.add_argument("--output", type=Path, required=required, help=OUTPUTS[name])
        if name == "propagate":
            stage.add_argument("--results", default="*", metavar="PATTERN", help="files of results/ to keep")
        stage.add_argument("overrides", nargs="*", help="overrides of the config, as for src.run")
    stage = stages.add_parser("table")
    stage.add_argument("folder", type=Path, help="folder of the jobs' folders")
    stage.add_argument("--output", type=Path, required=True, help="folder of the table and its heatmap")
    for stage in stages.choices.values():
        stage.add_argument(
            "--params", type=lambda text: text.split(","), default=[], help=f"keys of {PARAMS}, as A,B,C"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
