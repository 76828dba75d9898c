"""Compose each method of conf/debias once per process."""

from dataclasses import replace
from functools import cache

from omegaconf import OmegaConf

from src import configs

METHODS = ("orth_proj", "orth_proj_calibrated", "orth_proj_scm")
PAPER = ["Black Men", "Black Women", "White Men", "White Women"]


@cache
def _compose(name):
    config, _ = configs.compose([f"debias={name}"])
    return OmegaConf.to_object(config.debias)


def compose_method(name, **changes):
    return replace(_compose(name), **changes)
