"""Entry: which encoders there are, and their files.

python -m src.encoders list                        what conf/model names
python -m src.encoders list --all                  every architecture and weights of open_clip
python -m src.encoders list --capitani             the models of Capitani et al. 2024, ready for a sweep
python -m src.encoders fetch model=clip_b32        into the hub's cache, as src.run would
python -m src.encoders profile                     parameters and GFLOPs anew, as profiles.csv
"""

from __future__ import annotations

import argparse
import csv
import logging
import sys
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.errors import InputError, answered, replace_unprintable


def main(arguments: list[str] | None = None) -> int:
    """List or fetch; returns the exit status."""
    replace_unprintable()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    asked = _parse(arguments)
    return answered(lambda: _main(asked))


def _main(asked: argparse.Namespace) -> int:
    if asked.what == "fetch":
        _fetch(asked.overrides)
    elif asked.what == "profile":
        _profile()
    elif asked.capitani:
        _capitani()
    else:
        _list(asked.all)
    return 0


def _list(everything: bool) -> None:
    import pandas as pd

    from src.encoders import catalogue

    if everything:
        ids = {f"model=open_clip model.id={found}": found for found in catalogue.pairs()}
        models: dict[str, configs.PretrainedConfig] = {
            choice: configs.OpenClipConfig(id=found) for choice, found in ids.items()
        }
    else:
        models = {f"model={name}": model for name, model in _named().items()}
    rows = [
        {
            "choose": choice,
            **catalogue.profile_of(model.id),
            "weights": "here" if catalogue.is_cached(model) else "to fetch",
        }
        for choice, model in models.items()
    ]
    print(pd.DataFrame(rows).to_string(index=False))
    print("GFLOPs: one image and one text. Unknown where a text tower's config is on the hub only.")
    if not everything:
        print(
            "Any other of open_clip: model=open_clip model.id=... (list --all). Toys: conf/model/toy_*.yaml."
        )


def _named() -> dict[str, configs.PretrainedConfig]:
    found = {}
    for path in sorted((configs.CONF / "model").glob("*.yaml")):
        if "id" in (written := OmegaConf.load(path)) and not OmegaConf.is_missing(written, "id"):
            found[path.stem] = _published([f"model={path.stem}"])
    return found


def _capitani() -> None:
    from src.encoders import catalogue

    ids, names = catalogue.capitani()
    print(f"model=open_clip model.id={','.join(ids)}")
    print(
        f"{len(ids)} models: the {names} names that open_clip 2.22.0 lists, a reconstruction of the "
        "paper's list; weights with two names are listed once, with the GELU they were trained with.",
        file=sys.stderr,
    )


def _fetch(overrides: list[str]) -> None:
    from src import encoders

    model = _published(overrides)
    said = encoders.published_encoder(model, "cpu").weights()
    print(f"{model.id}: here, revision {said['revision']}, SHA-256 {said['sha256']}")


def _profile() -> None:
    from src.encoders import catalogue

    rows = list(catalogue.measure())
    with catalogue.PROFILES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, catalogue.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(Path(catalogue.PROFILES).name)


def _published(overrides: list[str]) -> configs.PretrainedConfig:
    composed, _ = configs.compose(overrides)
    missing = sorted(OmegaConf.missing_keys(composed["model"]))
    if missing:
        raise InputError(f"model.{missing[0]}: not set. Say model.{missing[0]}=VALUE.")
    try:
        model = OmegaConf.to_object(composed["model"])
    except OmegaConfBaseException as error:
        raise InputError(f"{' '.join(overrides)}: {str(error).splitlines()[0]}") from None
    if not isinstance(model, configs.PretrainedConfig):
        raise InputError(f"{' '.join(overrides)}: no published encoder; nothing to fetch. See: list")
    configs.check(model, "model")
    return model


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m src.encoders", description="Which encoders there are, and their files."
    )
    tasks = parser.add_subparsers(dest="what", required=True)
    shown = tasks.add_parser("list", help="what can be chosen, with parameters, GFLOPs and width")
    shown.add_argument("--all", action="store_true", help="every architecture/weights of open_clip")
    shown.add_argument(
        "--capitani", action="store_true", help="the models of Capitani et al. 2024, for a sweep"
    )
    fetched = tasks.add_parser("fetch", help="files of a model, into the hub's cache")
    fetched.add_argument("overrides", nargs="+", help="as for src.run: model=clip_b32")
    tasks.add_parser("profile", help="write src/encoders/profiles.csv anew")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
