"""One job and its names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.errors import InputError, masked
from src.storage.cache import file_hash, fingerprint

# How a server is asked.
OF_SERVER = ("key", "concurrency", "retries", "timeout")
# Where things lie decides no number: what lies there has a hash of its own. Nor does whether it
# is computed, taken over or only planned, or by how many processes. A language model's date decides where its
# chat template asks for it: then it is one of the weights' tags.
INDIFFERENT = (
    *("store", "tracking", "root", "path", "landmarks", "generator", "perceptual"),
    *("resume", "plan", "report", "workers", "devices"),
    *OF_SERVER,
    "date",
)
# Studies and families are in the key by their versions; a set of words may bear such a name, too.
BY_VERSION = {"exp": "study", "task": "study", "model": "family"}
# What decides no number, or nothing that a name should tell.
NOT_IN_NAME = ("name", "batch_size", "path", "sha256", "pretraining", "url", *OF_SERVER)
# Names of a job, in the order of the first columns of analyses.csv.
NAMES = ("study", "exp", "paper", "model", "dataset", "debias", "protocol")


@dataclass(frozen=True)
class Named:
    """A composed config and its names.

    Attributes:
        cfg: the composed config.
        resolved: the same as plain values.
        study: study that it belongs to, by its name or as `module:attribute`.
        exp, paper, model, dataset, debias, protocol: names for display, unique within a sweep.
        output: folder of the job.
    """

    cfg: configs.JobConfig
    resolved: Mapping[str, Any]
    study: str
    exp: str
    paper: str
    model: str
    dataset: str
    debias: str
    protocol: str
    output: Path

    @property
    def label(self) -> str:
        """How the job is called where jobs are listed."""
        parts = [self.model, self.dataset, self.exp, self.debias, self.protocol]
        return " ".join([*parts, f"seed {self.cfg.seed}"])

    @property
    def config_hash(self) -> str:
        """Hash of all that was chosen, but for what decides no number."""
        chosen = {name: _as_before(name, node) for name, node in self.resolved.items()}
        return fingerprint([decisive(chosen), self.exp, self.model, self.dataset, self.protocol])

    @property
    def columns(self) -> dict[str, object]:
        """First columns of analyses.csv."""
        names: dict[str, object] = {name: getattr(self, name) for name in NAMES}
        return names | {"seed": self.cfg.seed, "config": self.config_hash}


@dataclass(frozen=True)
class Job(Named):
    """One model x one dataset x one experiment.

    Attributes:
        reading: fields of the protocol in which the YAML that was chosen differs from `paper`.
    """

    cfg: configs.RunConfig
    reading: frozenset[str]

    @classmethod
    def of(cls, composed: DictConfig, choices: Mapping[str, str], output: str) -> Job:
        """Name a composed config.

        Args:
            composed: the config.
            choices: which YAML was chosen of each group.
            output: folder of the job.

        Raises:
            InputError: a mandatory value is missing.
        """
        # Here: --help takes no time to import them.
        from src.encoders.protocol import family_of
        from src.studies.protocol import study_of

        cfg, resolved = resolve(composed)
        assert isinstance(cfg, configs.RunConfig)
        study, family = study_of(cfg.exp), family_of(cfg.model)
        if isinstance(cfg.exp, configs.OtherStudyConfig) and study.config:
            cfg.exp = _typed("exp", cfg.exp, study.config)
        options = ""
        if isinstance(cfg.model, configs.OtherEncoderConfig):
            options = _deviations(cfg.model.options, vars(family.config))
            cfg.model = _typed("model", cfg.model, family.config)
        else:
            del resolved["model"]["family"]  # the YAML that was chosen says it
        model = (cfg.model.name or family.default_name(cfg.model, choices["model"])) + options
        if not resolved["model"].get("pretraining"):
            resolved["model"].pop("pretraining", None)  # nothing is stated
        model += differences("model", choices["model"], resolved["model"], defaults=cfg.model)
        if getattr(cfg.model, "weights", "") == "random" and "+random" not in model:
            model += "+random"  # whatever the YAML says: it is in the name
        configs.check(cfg)
        if cfg.demo.bias and not cfg.demo.planted:
            raise InputError(
                f"demo.bias={cfg.demo.bias:g}: nothing is planted in dataset={choices['dataset']}. "
                "Leave demo.bias out, or choose dataset=demo."
            )
        if family.training:
            # What is planted is learnt: a toy of another bias is another model.
            model += differences("dataset", choices["dataset"], resolved["demo"], "demo")
        cfg.model.name = model
        if "taxonomy" in study.config_groups:
            _name_taxonomy(cfg.taxonomy, choices["taxonomy"], resolved["taxonomy"])
        else:
            del resolved["taxonomy"]  # it decides nothing there
        cfg.debias.name += differences("debias", choices["debias"], resolved["debias"], defaults=cfg.debias)
        return cls(
            cfg=cfg,
            resolved=resolved,
            study=cfg.exp.study,
            exp=choices["exp"],
            paper=cfg.exp.paper,
            model=model,
            dataset="precomputed" if cfg.model.precomputed else choices["dataset"],
            debias=cfg.debias.name,
            protocol=choices["protocol"] + differences("protocol", choices["protocol"], resolved["protocol"]),
            reading=_reading(choices["protocol"]),
            output=Path(output),
        )


def _as_before(name: str, node: Any) -> Any:
    """Leave out the fields that jobs were finished without, so that they are still taken over."""
    if name in BY_VERSION:
        return {key: value for key, value in node.items() if key != BY_VERSION[name]}
    if name == "protocol":
        # At the values that they had before there was a choice.
        return {key: value for key, value in node.items() if (key, value) not in configs.FIRST.items()}
    return node


def family(task: str) -> str:
    """What a task of generative models belongs to: its name up to the first underscore.

    An experiment of the store, and a report, holds all of a family, so that languages stand side by side.

    >>> family("subtler_zh"), family("poem")
    ('subtler', 'poem')
    """
    return task.partition("_")[0]


def resolve(composed: DictConfig) -> tuple[object, dict[str, Any]]:
    """A composed config as its dataclass, and as plain values.

    Raises:
        InputError: a mandatory value is missing, or one has a wrong type.
    """
    missing = sorted(OmegaConf.missing_keys(composed))
    if missing:
        raise InputError(f"{', '.join(missing)}: not set. Say {missing[0]}=VALUE.")
    try:
        cfg = OmegaConf.to_object(composed)
        resolved = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(f"config: {error}") from None
    assert isinstance(resolved, dict)
    return cfg, {str(name): _told(value) for name, value in resolved.items()}


def _told(node: object) -> object:
    """Values as they may be written down: without the passwords of addresses."""
    if isinstance(node, dict):
        return {name: _told(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_told(value) for value in node]
    return masked(node) if isinstance(node, str) else node


def decisive(node: object) -> object:
    """What of a resolved config decides numbers."""
    if not isinstance(node, Mapping):
        return node
    return {name: decisive(value) for name, value in node.items() if name not in INDIFFERENT}


def _typed(group: str, node: Any, schema: type) -> Any:
    """Convert the config of a study or of an encoder that is defined elsewhere to the class that it brings.

    Args:
        group: config group, for messages.
        node: config with fields of the group, and `options`.
        schema: class of the study or of the encoder's family.

    Raises:
        InputError: an option is unknown to it, lacks, or has a wrong type.
    """
    given = {name: value for name, value in vars(node).items() if name != "options"}
    try:
        return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), given, node.options))
    except OmegaConfBaseException as error:
        raise InputError(f"{group}.options: {error}") from None


def differences(
    group: str,
    choice: str,
    node: Mapping[str, Any],
    below: str = "",
    defaults: object = None,
) -> str:
    """`+key=value` for each number, `+value` for each name, that differs from the YAML that was chosen.

    Args:
        group, choice: which YAML.
        node: what is chosen.
        below: key of the YAML that holds what `node` does, where it has it.
        defaults: a dataclass whose defaults count where the YAML says nothing.
    """
    path = configs.CONF / group / f"{choice}.yaml"
    if not path.is_file():  # a user's own config folder
        return ""
    read = _yaml(path)
    silent = {entry.name: entry.default for entry in fields(defaults)} if is_dataclass(defaults) else {}
    written = {**silent, **read.get(below, read)}
    return _deviations({name: value for name, value in node.items() if name in written}, written)


def _deviations(node: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    return "".join(
        _said(name, value)
        for name, value in node.items()
        if name not in NOT_IN_NAME and defaults.get(name) not in (value, "???")
        if not isinstance(value, dict | list)
    )


def _name_taxonomy(taxonomy: configs.TaxonomyConfig, choice: str, resolved: dict[str, Any]) -> None:
    taxonomy.name = taxonomy.name or (Path(taxonomy.path).stem if taxonomy.path else choice)
    # What a file says decides, not where it lies.
    files = [Path(path) for path in (taxonomy.path, taxonomy.vocabulary, taxonomy.types) if path]
    resolved.pop("types", None)
    resolved |= {"name": taxonomy.name, "content": [file_hash(path) for path in files if path.is_file()]}


@cache
def _yaml(path: Path) -> dict[str, Any]:
    """What a YAML says, upon what those that it builds on say; read once per process."""
    read = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(read, dict)
    below = [name for name in read.get("defaults", []) if isinstance(name, str) and name[0] not in "/_"]
    found: dict[str, Any] = {}
    for name in below:
        found |= _yaml(path.with_name(f"{name}.yaml"))
    return found | {str(name): value for name, value in read.items() if name != "defaults"}


def _reading(protocol: str) -> frozenset[str]:
    folder = configs.CONF / "protocol"
    path = folder / f"{protocol}.yaml"
    if not path.is_file():
        return frozenset()
    paper = _yaml(folder / "paper.yaml")
    return frozenset(name for name, value in _yaml(path).items() if name in paper and value != paper[name])


def _said(name: str, value: object) -> str:
    if isinstance(value, str):
        return f"+{value}"
    return f"+{name}={value:g}" if isinstance(value, float) else f"+{name}={value}"
