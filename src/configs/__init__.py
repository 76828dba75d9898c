"""Schema of conf/: a misspelt key or a value of the wrong type dies when the config is composed."""

from src.configs import registry, studies
from src.configs.composition import SCHEMAS, compose, register
from src.configs.datasets import check_dataset
from src.configs.exps import *
from src.configs.fields import check
from src.configs.generative import *
from src.configs.jobs import *
from src.configs.models import *
from src.configs.places import CHECKOUT, CODE, CONF
from src.configs.roles import *
from src.configs.scores import FIRST
