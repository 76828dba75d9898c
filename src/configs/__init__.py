"""Define the schema of conf/, which rejects misspelt keys and wrong types when a config is composed."""

from src.configs import registry, studies
from src.configs.composition import CHECKOUT, CODE, CONF, SCHEMAS, check_dataset, compose, register
from src.configs.exps import *
from src.configs.fields import check
from src.configs.generative import *
from src.configs.jobs import *
from src.configs.languages import *
from src.configs.models import *
from src.configs.perturbations import *
from src.configs.roles import *
from src.configs.servers import *
from src.configs.translation import NATIVE, TRANSLATED, classify_ratings, load_english, write_in
