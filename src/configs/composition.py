"""Composition of conf/, held against its schema."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from src.configs import exps, generative, jobs, launchers, models, roles, studies
from src.configs.broken_yaml import ERRORS, broken_yaml
from src.configs.datasets import check_dataset
from src.configs.places import CHECKOUT, CONF
from src.errors import InputError

# The schemas stand in a group of their own: in the groups that they describe they would be
# found by a glob.
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
    "cfd": roles.CfdConfig,
    "utkface": roles.UtkFaceConfig,
    "folder": roles.FolderConfig,
    "morphs": roles.MorphsConfig,
    "phrases": roles.LabelsConfig,
    "layout": roles.OtherLayoutConfig,
    **{name: config for name, (config, _) in models.FAMILIES.items()},
    "encoder": models.OtherEncoderConfig,
    "study": exps.OtherStudyConfig,
    "taxonomy": exps.TaxonomyConfig,
    "protocol": exps.ProtocolConfig,
    "debias": jobs.DebiasConfig,
    "trainer": jobs.TrainerConfig,
    "tracking": jobs.TrackingConfig,
    "recorded": generative.RecordedConfig,
    "hf": generative.HfConfig,
    "openai_compatible": generative.ServerConfig,
    "planted": generative.PlantedConfig,
    "tiny": generative.TinyConfig,
    "vlm_hf": generative.VlmHfConfig,
    "tiny_vlm": generative.TinyVlmConfig,
}


def compose(overrides: list[str], entry: str = "run") -> tuple[DictConfig, dict[str, str]]:
    """Compose the config of `python -m src.run` for overrides.

    Args:
        overrides: as they are typed.
        entry: another one: `generate`.

    Returns:
        The config, and which YAML was chosen of each group.

    Raises:
        InputError: Hydra cannot compose it.
    """
    import hydra
    from hydra.errors import HydraException

    register()
    try:
        with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
            composed = hydra.compose(entry, overrides, return_hydra_config=True)
    except HydraException as error:
        raise InputError(str(error)) from None
    except ERRORS as error:
        if message := broken_yaml(error, [CONF]):
            raise InputError(message) from None
        raise
    check_dataset(composed.hydra)
    choices = {str(group): str(choice) for group, choice in composed.hydra.runtime.choices.items()}
    content = composed._content
    assert isinstance(content, dict)
    del content["hydra"]
    return composed, choices


def register() -> None:
    """Make the schemas, the launchers' settings and the resolver `${checkout:}` known to Hydra."""
    from hydra.core.config_store import ConfigStore

    from src.configs import schema_source

    OmegaConf.register_new_resolver("checkout", lambda: str(CHECKOUT), replace=True)
    store = ConfigStore.instance()
    store.store(name="schema", node=jobs.RunConfig)
    store.store(name="generate_schema", node=jobs.GenerateConfig)
    schema_source.register(SCHEMAS | studies.config_classes())
    for name, node in launchers.LAUNCHERS.items():
        store.store(group="hydra/launcher", name=name, node=node)
