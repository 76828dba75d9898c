"""Compose the methods of conf/debias once."""

from dataclasses import replace
from functools import cache

from omegaconf import OmegaConf

from src import configs

METHODS = ("orth_proj", "orth_proj_calibrated", "orth_proj_scm")
PAPER = ["Black Men", "Black Women", "White Men", "White Women"]


@cache
def _composed(name):
    composed, _ = configs.compose([f"debias={name}"])
    return OmegaConf.to_object(composed.debias)


def chosen(name, **changes):
    return replace(_composed(name), **changes)
