"""Compose configs from conf/, validate them against their schema, and quote values of overrides."""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from src.configs import exps, generative, jobs, languages, launchers, models, perturbations, roles, studies
from src.errors import InputError, brief

# Parent of src/: the checkout, or the folder of an installed wheel.
CODE = Path(__file__).resolve().parents[2]
_WHEEL_CONF = CODE / "src" / "conf"
CONF = _WHEEL_CONF if _WHEEL_CONF.is_dir() else CODE / "conf"
# Parent of stores, runs and outputs: the checkout, or the working directory of an installed command.
CHECKOUT = Path.cwd() if _WHEEL_CONF.is_dir() else CODE
# Errors that reading a YAML may raise.
YAML_ERRORS = (OSError, ValueError, yaml.YAMLError, RecursionError)
# Text that needs no quotes, unless it is a number. Hydra converts unquoted `null`, `true` and `false`.
UNQUOTED = re.compile(r"(?!(?:null|true|false)$)[\w./:-]+", re.ASCII | re.IGNORECASE)
# Groups that follow `dataset` in the defaults lists of conf/run.yaml and conf/generate.yaml, so that their
# YAMLs override the dataset's YAML.
LATER_GROUPS = ("model", "exp", "llm", "task")
# Groups that decide `templates`.
TEMPLATE_GROUPS = ("template_set", "language")
# Schema classes by name. They form a separate config group, as model=glob(*) would also select schemas in
# the group `model`.
SCHEMAS: dict[str, type] = {
    "dataset": jobs.DatasetConfig,
    "demo": jobs.DemoConfig,
    "avatars": roles.AvatarsConfig,
    "fairface": roles.FairFaceConfig,
    "abstract": roles.AbstractConfig,
    "oasis": roles.OasisConfig,
    "vader": roles.VaderConfig,
    "nrc_vad": roles.NrcVadConfig,
    "warriner": roles.WarrinerConfig,
    "norms": roles.NormsConfig,
    "cfd": roles.CfdConfig,
    "utkface": roles.UtkFaceConfig,
    "folder": roles.FolderConfig,
    "picture_folders": roles.PictureFoldersConfig,
    "people": roles.ListingConfig,
    "fhibe": roles.FhibeConfig,
    "facet": roles.FacetConfig,
    "sispi": roles.SispiConfig,
    "social_counterfactuals": roles.SocialCounterfactualsConfig,
    "pairs": roles.PairsConfig,
    "visogender": roles.VisoGenderConfig,
    "morphs": roles.MorphsConfig,
    "phrases": roles.LabelsConfig,
    "axis_phrases": roles.AxisLabelsConfig,
    "translated_phrases": roles.TranslatedLabelsConfig,
    "language": languages.LanguageConfig,
    "layout": roles.OtherLayoutConfig,
    **{name: config for name, (config, _) in models.FAMILIES.items()},
    "encoder": models.OtherEncoderConfig,
    "study": exps.OtherStudyConfig,
    "taxonomy": exps.TaxonomyConfig,
    "classes": exps.ClassesConfig,
    "protocol": exps.ProtocolConfig,
    "debias": jobs.DebiasConfig,
    "perturb": perturbations.PerturbConfig,
    "blur_background": perturbations.BlurBackgroundConfig,
    "grey_background": perturbations.GreyBackgroundConfig,
    "crop_face": perturbations.CropFaceConfig,
    "grey": perturbations.GreyConfig,
    "flip": perturbations.FlipConfig,
    "jpeg": perturbations.JpegConfig,
    "mask_patches": perturbations.MaskPatchesConfig,
    "trainer": jobs.TrainerConfig,
    "tracking": jobs.TrackingConfig,
    "recorded": generative.RecordedConfig,
    "llm_hf": generative.HfConfig,
    "openai_compatible": generative.ServerConfig,
    "planted": generative.PlantedConfig,
    "tiny": generative.TinyConfig,
    "vlm_hf": generative.VlmHfConfig,
    "tiny_vlm": generative.TinyVlmConfig,
}


def describe_composition(error: Exception) -> str:
    """Return a message about choices or defaults that Hydra cannot compose; empty for other errors."""
    if isinstance(error, RecursionError):
        why = "YAMLs include each other"
    elif type(error) is ValueError:  # of Hydra: a choice or an entry of defaults that is no text
        why = brief(str(error), 300)
    else:
        return ""
    return (
        f"The config cannot be composed: {why}. Choose a YAML of each group by its name (debias=none, not "
        "null); the defaults of a YAML are a list of other YAMLs."
    )


def compose(overrides: list[str], entry: str = "run") -> tuple[DictConfig, dict[str, str]]:
    """Return an entry point's config and config group -> chosen YAML; raise `InputError` if it is invalid."""
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            composed = hydra.compose(entry, overrides, return_hydra_config=True)
    except HydraException as error:
        raise InputError(str(error)) from None
    except YAML_ERRORS as error:
        if message := describe_broken_yaml(error, [CONF]) or describe_composition(error):
            raise InputError(message) from None
        raise
    check_dataset(composed.hydra)
    choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
    content = composed._content  # OmegaConf refuses `del composed.hydra`
    assert isinstance(content, dict)
    del content["hydra"]
    return composed, choices


def quote(value: object) -> str:
    """Quote a value so that Hydra parses it back unchanged.

    >>> quote("demo"), quote(None), quote([1, "two words"]), quote(0.5), quote("0.5")
    ('demo', 'null', '[1,"two words"]', '0.5', '"0.5"')
    """
    if isinstance(value, list):  # Hydra parses `KEY=` as the empty string, but refuses an empty item
        return "[" + ",".join(quote(item) or '""' for item in value) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if not value or (UNQUOTED.fullmatch(value) and not _is_number(value)):
        return value
    # Hydra unescapes backslashes only before quotes, so those before a quote in the text and those at the end
    # are doubled.
    value = re.sub(r'(\\*)"', r'\1\1\\"', value)
    return '"' + re.sub(r"(\\*)\Z", r"\1\1", value) + '"'


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def register() -> None:
    """Register the schemas, the settings of launchers and the resolver `${checkout:}` with Hydra."""
    from hydra.core.config_store import ConfigStore

    from src.configs import schema_source

    OmegaConf.register_new_resolver("checkout", lambda: str(CHECKOUT), replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=jobs.RunConfig)
    store.store(name="generate_schema", node=jobs.GenerateConfig)
    schema_source.register(SCHEMAS | studies.load_config_classes())
    for name, node in launchers.LAUNCHERS.items():
        store.store(group="hydra/launcher", name=name, node=node)


def describe_broken_yaml(cause: Exception, folders: Iterable[Path]) -> str:
    """Describe the YAML in `folders` that caused an error of Hydra; return an empty text if no YAML did."""
    for path in [path for folder in folders for path in sorted(folder.rglob("*.yaml"))]:
        try:
            OmegaConf.load(path)
        except YAML_ERRORS as error:
            if type(error) is type(cause) and (str(error) == str(cause) or isinstance(error, RecursionError)):
                return f"{path}: {brief(' '.join(str(error).split()), 400)}. Correct it."
    return ""


def check_dataset(hydra: Any) -> None:
    """Raise `InputError` if a dataset's YAML sets a key that would be overridden or override the user's.

    These are one of `LATER_GROUPS`, or `templates` where the command sets template_set or language. `hydra`
    is Hydra's own part of a composed config.
    """
    dataset = hydra.runtime.choices.get("dataset")
    if not dataset:
        return
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    # Variables of the environment are not resolved here.
    given: Any = OmegaConf.to_container(hydra.overrides.task, resolve=False)
    settings = dict(override.split("=", 1) for override in given if "=" in override)
    for path, content in _read_dataset_yamls(folders, str(dataset)):
        for key in LATER_GROUPS:
            if key in content:
                raise InputError(
                    f"{path} sets {key}, which a dataset cannot choose: it would be overridden. Remove it, "
                    f"and add {key}=NAME or {key}.FIELD=VALUE to the command."
                )
        group = next((group for group in TEMPLATE_GROUPS if group in settings), None)
        if "templates" in content and group and "templates" not in settings:
            raise InputError(
                f"{path} sets templates, which would replace those of {group}={settings[group]}. Add "
                f"templates=[...] to the command, or leave {group} out."
            )


def _read_dataset_yamls(folders: list[Path], dataset: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield (path, content) of a dataset's YAML and, recursively, of the YAMLs in its defaults list."""
    paths = (folder / "dataset" / f"{dataset}.yaml" for folder in folders)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return
    content = OmegaConf.to_container(OmegaConf.load(path))
    if not isinstance(content, dict):
        return
    yield path, {str(key): value for key, value in content.items()}
    for name in content.get("defaults", []):
        if isinstance(name, str) and name[0] not in "/_":
            yield from _read_dataset_yamls(folders, name)
