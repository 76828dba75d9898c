"""List the available encoders, and fetch their files.

python -m src.encoders list                        the models of conf/model
python -m src.encoders list --all                  all weights of open_clip, each with its own architecture
python -m src.encoders list --capitani             the models of Capitani et al. 2024, ready for a sweep
python -m src.encoders fetch model=clip_b32        to the hub's cache, as src.run would
"""

import argparse
import logging
import sys

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.errors import InputError, replace_unprintable, run_entry


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    replace_unprintable()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    parser = argparse.ArgumentParser(prog="python -m src.encoders", description="List or fetch encoders.")
    commands = parser.add_subparsers(dest="command", required=True)
    lister = commands.add_parser("list", help="list models with parameters, GFLOPs and width")
    lister.add_argument("--all", action="store_true", help="list all weights of open_clip")
    lister.add_argument("--capitani", action="store_true", help="models of Capitani et al. 2024 for a sweep")
    fetcher = commands.add_parser("fetch", help="fetch the files of a model to the hub's cache")
    fetcher.add_argument("overrides", nargs="+", help="overrides as for src.run, such as model=clip_b32")
    options = parser.parse_args(arguments)
    if options.command == "fetch":
        return run_entry(lambda: _fetch(options.overrides))
    return run_entry(_list_capitani if options.capitani else lambda: _list(options.all))


def _list(all_of_open_clip: bool) -> int:
    import pandas as pd

    from src.encoders import catalogue

    models: dict[str, configs.PretrainedConfig] = {}
    if all_of_open_clip:
        models = {
            f"model=open_clip model.id={id}": configs.OpenClipConfig(id=id) for id in catalogue.list_ids()
        }
    for path in sorted((configs.CONF / "model").glob("*.yaml")) if not all_of_open_clip else ():
        if "id" in (config := OmegaConf.load(path)) and not OmegaConf.is_missing(config, "id"):
            models[f"model={path.stem}"] = _compose_published([f"model={path.stem}"])
    rows = pd.DataFrame([catalogue.profile_of(model.id) for model in models.values()])
    rows["weights"] = ["here" if catalogue.is_cached(model) else "to fetch" for model in models.values()]
    rows.insert(0, "choose", list(models))
    print(rows.to_string(index=False))
    print("GFLOPs are per image and per text. Unknown: the text tower's config is on the hub only.")
    if not all_of_open_clip:
        print("Others of open_clip: model=open_clip model.id=ID (list --all). Toys: conf/model/toy_*.yaml.")
    return 0


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

    model = _compose_published(overrides)
    weights = encoders.open_published(model, "cpu").identify_weights()
    print(f"{model.id}: its files are cached, revision {weights['revision']}, SHA-256 {weights['sha256']}")
    return 0


def _compose_published(overrides: list[str]) -> configs.PretrainedConfig:
    """Compose and check the config of a published encoder."""
    composed, _ = configs.compose(overrides)
    missing = sorted(OmegaConf.missing_keys(composed["model"]))
    if missing:
        raise InputError(f"{missing[0]}: not set. Set {missing[0]}=VALUE.")
    try:
        model = OmegaConf.to_object(composed["model"])
    except OmegaConfBaseException as error:
        raise InputError(f"{' '.join(overrides)}: {str(error).splitlines()[0]}") from None
    if not isinstance(model, configs.PretrainedConfig):
        raise InputError(f"{' '.join(overrides)}: not a published encoder. Run python -m src.encoders list")
    configs.check(model, "model")
    return model


if __name__ == "__main__":
    sys.exit(main())
