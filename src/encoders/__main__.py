"""List, fetch, verify and pin encoders.

python -m src.encoders list                        the models of conf/model
python -m src.encoders list --all                  all weights of open_clip, each with its own architecture
python -m src.encoders list --capitani             the models of Capitani et al. 2024, ready for a sweep
python -m src.encoders fetch model=clip_b32        to the hub's cache, as src.run would
python -m src.encoders verify model=clip_b32       compare with the scores that its publisher states
python -m src.encoders pin model=metaclip2_h14     write revision and hash of the download into conf/model
"""

import argparse
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.errors import InputError, replace_unprintable, run_entry

if TYPE_CHECKING:
    from src.encoders.causes import Trial
    from src.encoders.verification import Comparison

PICTURE = "picture="


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    replace_unprintable()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m src.encoders", description="List, fetch, verify, pin.")
    commands = parser.add_subparsers(dest="command", required=True)
    lister = commands.add_parser("list", help="list models with parameters, GFLOPs and width")
    lister.add_argument("--all", action="store_true", help="list all weights of open_clip")
    lister.add_argument("--capitani", action="store_true", help="models of Capitani et al. 2024 for a sweep")
    fetcher = commands.add_parser("fetch", help="fetch the files of a model to the hub's cache")
    fetcher.add_argument("overrides", nargs="+", help="overrides as for src.run, such as model=clip_b32")
    verifier = commands.add_parser("verify", help="compare a model with the scores its publisher states")
    verifier.add_argument("overrides", nargs="+", help="model=NAME, and picture=FILE without a network")
    pinner = commands.add_parser("pin", help="write revision and hash of a model's download into its YAML")
    pinner.add_argument("overrides", nargs="+", help="overrides as for src.run, such as model=clip_b32")
    pinner.add_argument("--name", default="", help="name of the YAML in conf/model; default: that of model=")
    pinner.add_argument("--print", action="store_true", help="print the YAML instead of writing it")
    options = parser.parse_args(arguments)
    if options.command == "fetch":
        return run_entry(lambda: _fetch(options.overrides))
    if options.command == "verify":
        return run_entry(lambda: _verify(options.overrides))
    if options.command == "pin":
        return run_entry(lambda: _pin(options.overrides, options.name, options.print))
    return run_entry(_list_capitani if options.capitani else lambda: _list(options.all))


def _list(all_of_open_clip: bool) -> int:
    import pandas as pd

    from src.encoders import catalogue, verification

    models: dict[str, configs.PretrainedConfig] = {}
    if all_of_open_clip:
        models = {
            f"model=open_clip model.id={id}": configs.OpenClipConfig(id=id) for id in catalogue.list_ids()
        }
    for path in sorted((configs.CONF / "model").glob("*.yaml")) if not all_of_open_clip else ():
        if "id" in (config := OmegaConf.load(path)) and not OmegaConf.is_missing(config, "id"):
            models[f"model={path.stem}"] = _compose_published([f"model={path.stem}"], "encoders")
    rows = pd.DataFrame([_find_size(model) for model in models.values()])
    rows.insert(0, "choose", list(models))
    rows.insert(1, "family", [model.family for model in models.values()])
    declared = pd.DataFrame([catalogue.declared_facts(model) for model in models.values()])
    rows = pd.concat([rows, declared], axis=1)
    rows["pinned"] = ["yes" if model.revision and model.sha256 else "no" for model in models.values()]
    rows["weights"] = ["here" if catalogue.is_cached(model) else "to fetch" for model in models.values()]
    statuses = verification.list_statuses(_locate_verifications([]))
    rows["verified"] = [
        statuses.get(model.sha256, "no" if model.golden.picture else "no figures")
        for model in models.values()
    ]
    print(rows.to_string(index=False))
    print(
        "GFLOPs are per image and per text. Empty: not declared or, of sizes, unknown until files are here."
    )
    print("Pairs seen in millions. Verified: by weights pinned in the YAML.")
    if not all_of_open_clip:
        print("Others of open_clip: model=open_clip model.id=ID (list --all). Toys: conf/model/toy_*.yaml.")
    return 0


def _find_size(model: configs.PretrainedConfig) -> dict[str, str]:
    """Return the declared size of a model, or what its files say if they are here; empty cells if unknown."""
    from src.encoders import catalogue, family_of

    cells = catalogue.profile_of(model.id)
    measured = {} if cells["width"] else family_of(model).size(model)
    return cells | {column: value for column, value in measured.items() if not cells[column]}


def _list_capitani() -> int:
    from src.encoders import catalogue

    ids, names = catalogue.list_capitani()
    print(f"model=open_clip model.id={','.join(ids)}")
    print(
        f"{len(ids)} models, from the {names} names in open_clip 2.22.0 (our reconstruction of the paper's "
        "list): weights with two names appear once, under the architecture with the GELU of their training.",
        file=sys.stderr,
    )
    return 0


def _fetch(overrides: list[str]) -> int:
    from src import encoders
    from src.encoders import verification

    model = _compose_published(overrides)
    weights = encoders.open_published(model, "cpu").identify_weights()
    print(f"{model.id}: its files are cached, revision {weights['revision']}, SHA-256 {weights['sha256']}")
    if model.golden.picture:
        try:
            path, digest = verification.locate_picture(model.golden, _locate_verifications(overrides))
            print(f"Picture of its published scores: {path}, SHA-256 {digest}")
        except InputError as error:  # only `verify` needs it
            print(f"The picture of its published scores is missing: {error}", file=sys.stderr)
    return 0


def _verify(arguments: Sequence[str]) -> int:
    """Compare a model with published scores; return 0 if all agree, else 1."""
    from src import encoders
    from src.encoders import causes, verification

    overrides = [argument for argument in arguments if not argument.startswith(PICTURE)]
    files = [argument.removeprefix(PICTURE) for argument in arguments if argument.startswith(PICTURE)]
    if not overrides:
        raise InputError("verify: no model. Choose one with model=NAME (python -m src.encoders list).")
    model, folder = _compose_published(overrides), _locate_verifications(overrides)
    golden = verification.check_golden(model.golden, model.name or " ".join(overrides))
    if model.weights == "random":
        raise InputError("model.weights=random: random weights have no published scores. Leave it out.")
    # A wrong picture is reported before weights are fetched.
    located = verification.locate_picture(golden, folder, files[-1]) if files else None
    encoders.check_precision_of(model, "cpu")
    encoder = encoders.open_published(model, "cpu")
    weights = encoder.identify_weights()
    path, digest = located or verification.locate_picture(golden, folder)
    picture, network = verification.read_picture(path), encoder.load()
    comparison = verification.compare(network, picture, golden)
    print(f"{model.id}, revision {weights['revision']}, SHA-256 {weights['sha256']}")
    print(f"Picture {path}, SHA-256 {digest}{'' if golden.sha256 else ' (none is published)'}")
    print(f"Scores ({golden.kind}) of {golden.source}")
    _print_comparison(comparison)
    facts = {"model": model.id, "picture_sha256": digest}
    status = verification.store_outcome(folder, encoder, facts, comparison)
    print(
        f"{status}: the largest difference is {comparison.largest:.3g}, the tolerance {golden.tolerance:g}."
    )
    if status == verification.FAILED:

        def reload(precision: str) -> object:
            changed = replace(model, precision=precision)
            encoders.check_precision_of(changed, "cpu")
            return encoders.open_published(changed, "cpu").load()

        _print_trials(causes.try_causes(network, picture, golden, reload, model.precision))
    return 0 if status == verification.VERIFIED else 1


def _print_comparison(comparison: "Comparison") -> None:
    """Print a table with a row per text."""
    import pandas as pd

    golden = comparison.golden
    rows = {"text": golden.texts, "published": golden.scores, "measured": comparison.measured}
    rows |= {"difference": comparison.differences, "tolerance": golden.tolerance}
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:.6g}"))


def _print_trials(trials: "Iterable[Trial]") -> None:
    """Print what each change does to the scores, and which changes make them agree."""
    explanations = []
    print("Usual causes, each changed by itself:")
    for trial in trials:
        if trial.comparison is None:
            print(f"  {trial.change}: cannot be tried ({trial.reason})")
            continue
        print(f"  with {trial.change}: largest difference {trial.comparison.largest:.3g}")
        if trial.comparison.agrees:
            explanations.append(f"With {trial.change} the figures agree: {trial.remedy}.")
    print(
        "\n".join(explanations) or "None of them explains it: compare the weights, the picture and the texts."
    )


def _pin(overrides: Sequence[str], name: str, only_print: bool) -> int:
    from src import encoders
    from src.encoders import pins

    model = _compose_published(overrides)
    if model.weights == "random":
        raise InputError("model.weights=random: random weights cannot be pinned. Leave it out.")
    path = None if only_print else pins.locate_yaml(model, overrides, name)
    weights = encoders.open_published(model, "cpu").identify_weights()
    if path is None:
        print(pins.format_pinned(model, weights), end="")
        return 0
    verb = "pinned" if pins.write_pins(path, model, weights) else "already pinned"
    print(f"{path}: {verb} to revision {weights['revision']}, SHA-256 {weights['sha256']}")
    return 0


def _locate_verifications(overrides: Sequence[str]) -> Path:
    """Return the folder of outcomes of `verify`."""
    return Path(configs.compose([*overrides])[0].store.verifications)


def _compose_published(overrides: Sequence[str], entry: str = "run") -> configs.PretrainedConfig:
    """Compose an entry point's config and check its published encoder."""
    composed, _ = configs.compose([*overrides], entry)
    try:
        missing = sorted(OmegaConf.missing_keys(composed["model"]))  # resolves interpolations
        if missing:
            raise InputError(f"{missing[0]}: not set. Set {missing[0]}=VALUE.")
        model = OmegaConf.to_object(composed["model"])
    except OmegaConfBaseException as error:
        raise InputError(f"{' '.join(overrides)}: {str(error).splitlines()[0]}") from None
    if not isinstance(model, configs.PretrainedConfig):
        raise InputError(f"{' '.join(overrides)}: not a published encoder. Run python -m src.encoders list")
    configs.check(model, "model")
    return model


if __name__ == "__main__":
    sys.exit(main())
