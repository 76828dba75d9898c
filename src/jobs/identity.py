"""Name a job, and identify what determines its numbers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src import configs
from src.errors import InputError, redact
from src.storage.cache import file_hash, fingerprint

# Fields of `llm` and `model` that concern only the requests to a server.
SERVER_FIELDS = ("key", "concurrency", "retries", "timeout")
# Fields of the config and of its groups left out of the hash, as they do not affect numbers: paths (the
# content has its own hash) and the tracking store; switches to reuse, plan and report jobs; numbers of
# processes and GPUs. A language model's date matters only to chat templates that use it: then the job's
# key contains it.
NOT_IN_HASH = (
    *("store", "tracking", "root", "path", "landmarks", "generator", "perceptual"),
    *("resume", "plan", "report", "workers", "devices"),
    *SERVER_FIELDS,
    "answers",
    "date",
)
# Fields of a group that hold further such fields: parents of morphs, and options of a loader or an encoder.
# Keys of other mappings within a group are names that users choose, which are always in the hash.
NESTED_FIELDS = ("parents", "options")
# Config group -> its field that names a study or an encoder family. The field is left out of the hash, as
# a job's key contains the version of that study or family.
VERSIONED_FIELDS = {"exp": "study", "task": "study", "model": "family"}
# Config group -> fields left out of the hash in this group alone: a served encoder may move, as its server
# reports what it is. (A language model's server does not: its address is in the hash.)
PLACES = {"model": ("url",)}
# Config group -> {field: its value before it became configurable}. A field with that value is left out of
# the hash, so that older jobs keep theirs.
FORMERLY_FIXED: Mapping[str, Mapping[str, Any]] = {
    "protocol": configs.DEFAULT_MEASURES,
    "faces": {
        **{"morphs": configs.MORPH_PAIRS, "per_person": 1, "sets": {}, "ages": {}, "places": {}},
        "plain": 0.0,
    },
    "task": {"pool_texts": {}},
    "demo": {"languages": [], "translated_bias": 1.0},
    "exp": {
        **{"intervene": False, "intervene_targets": 200, "reliability": False, "axis": None},
        "language": configs.ENGLISH,
    },
    "classes": {"language": configs.ENGLISH},
}
# Fields that a job's name never mentions, even if they differ from the chosen YAML.
NOT_IN_NAME = ("name", "batch_size", "path", "sha256", "pretraining", "url", "answers", *SERVER_FIELDS)
# Names of a job, in the order of the first columns of analyses.csv.
NAMES = ("study", "exp", "paper", "model", "dataset", "debias", "perturb", "protocol")


@dataclass(frozen=True)
class NamedConfig:
    """Composed config of a job, with the names that identify the job in tables.

    The names are the fields from `study` to `protocol` (`NAMES`); different configs may have the same names.
    """

    cfg: configs.JobConfig  # composed config
    resolved: Mapping[str, Any]  # composed config as nested plain values, interpolations resolved
    study: str  # study of the job, by its name or as `module:attribute`
    exp: str
    paper: str
    model: str
    dataset: str
    debias: str
    perturb: str
    protocol: str
    output: Path  # folder of the job

    @property
    def label(self) -> str:
        """Return the names and the seed of the job, separated by blanks, for logs and lists of jobs."""
        names = [self.model, self.dataset, self.exp, self.debias, self.protocol]
        names += [] if self.perturb == configs.NO_PERTURBATION else [f"perturb {self.perturb}"]
        return " ".join([*names, f"seed {self.cfg.seed}"])

    @property
    def config_hash(self) -> str:
        """Return the hash of the fields that affect numbers, and of exp, model, dataset and protocol."""
        # All fields of an experiment affect numbers, as may the options of a study defined elsewhere.
        hashed = {
            name: without_unhashed_fields(name, node if name == "exp" else select_hashed_fields(node))
            for name, node in self.resolved.items()
            if name not in NOT_IN_HASH
        }
        return fingerprint([hashed, self.exp, self.model, self.dataset, self.protocol])

    @property
    def columns(self) -> dict[str, object]:
        """Return the first columns of analyses.csv."""
        names: dict[str, object] = {name: getattr(self, name) for name in NAMES}
        return names | {"seed": self.cfg.seed, "config": self.config_hash}


@dataclass(frozen=True)
class Job(NamedConfig):
    """One combination of model, dataset, experiment, debiasing, perturbation, protocol, language and seed."""

    cfg: configs.RunConfig
    changed_fields: frozenset[str]  # fields of the protocol in which the chosen YAML differs from `paper`
    instruction: str  # end of the protocol's name, as in `+prompt=TEXT`; empty: the model's own instruction
    language: str  # end of the protocol's name, as in `+language=es`; empty: English

    @property
    def columns(self) -> dict[str, object]:
        """Return the first columns of analyses.csv; English jobs lack `language`, as older jobs do."""
        return super().columns | ({"language": self.cfg.language.code} if self.language else {})

    @classmethod
    def of(cls, composed: DictConfig, choices: Mapping[str, str], output: str) -> Job:
        """Build the job of a composed config, with the chosen YAML of each group, or raise `InputError`."""
        # Imported here to keep --help fast.
        from src.encoders.protocol import family_of
        from src.studies.protocol import load_study

        cfg, resolved = resolve(composed)
        assert isinstance(cfg, configs.RunConfig)
        study, family = load_study(cfg.exp), family_of(cfg.model)
        if isinstance(cfg.exp, configs.OtherStudyConfig) and study.config:
            cfg.exp = _to_schema("exp", cfg.exp, study.config)
        options = ""
        if isinstance(cfg.model, configs.OtherEncoderConfig):
            settings = {k: v for k, v in cfg.model.options.items() if k not in family.instruction}
            options = _describe_deviations(settings, vars(family.config))
            cfg.model = _to_schema("model", cfg.model, family.config)
        else:
            del resolved["model"]["family"]  # implied by the chosen YAML
        for name in ("golden", "languages"):
            resolved["model"].pop(name, None)  # changes no vector
        model = (cfg.model.name or family.default_name(cfg.model, choices["model"])) + options
        if not resolved["model"].get("pretraining"):
            # An empty field is left out of the hash, as older jobs do not have it.
            resolved["model"].pop("pretraining", None)
        settings = {k: v for k, v in resolved["model"].items() if k not in family.instruction}
        model += describe_differences("model", choices["model"], settings, defaults=cfg.model)
        instruction = _describe_instruction(family.instruction, choices["model"], cfg.model)
        if getattr(cfg.model, "weights", "") == "random" and "+random" not in model:
            model += "+random"  # random weights always show in the name
        configs.check(cfg)
        if cfg.demo.bias and not cfg.demo.planted:
            raise InputError(
                f"demo.bias={cfg.demo.bias:g}: dataset={choices['dataset']} has no planted bias. "
                "Leave demo.bias out, or use dataset=demo."
            )
        traits = cfg.demo.traits
        if traits and (len(traits) != 2 or not all(traits.values())):
            counts = ", ".join(f"{trait} ({len(words)})" for trait, words in traits.items())
            raise InputError(
                f"demo.traits: expected words of two traits, got {counts}. Leave out a trait with "
                "~demo.traits.NAME, or add words."
            )
        if family.training:
            # A toy learns the planted bias: another bias makes another model.
            model += describe_differences("dataset", choices["dataset"], resolved["demo"], "demo")
        cfg.model.name = model
        config_groups = study.config_groups(cfg)
        if "taxonomy" in config_groups:
            _identify_taxonomy(cfg.taxonomy, choices["taxonomy"], resolved["taxonomy"])
        else:
            del resolved["taxonomy"]  # no effect on this study
        for group in ("classes", "debias", "perturb"):
            _rename_inherited(group, choices[group], getattr(cfg, group), resolved[group])
        cfg.classes.name = cfg.classes.name or choices["classes"]
        if "classes" not in config_groups:
            del resolved["classes"]  # likewise
        cfg.debias.name += describe_differences(
            "debias", choices["debias"], resolved["debias"], defaults=cfg.debias
        )
        perturb = resolved["perturb"]
        cfg.perturb.name += describe_differences("perturb", choices["perturb"], perturb, defaults=cfg.perturb)
        if cfg.perturb.name == configs.NO_PERTURBATION:
            del resolved["perturb"]  # older jobs do not have it
        language = _describe_language(choices["language"], resolved)
        return cls(
            cfg=cfg,
            resolved=resolved,
            study=cfg.exp.study,
            exp=choices["exp"],
            paper=cfg.exp.paper,
            model=model,
            dataset="precomputed" if cfg.model.precomputed else choices["dataset"],
            debias=cfg.debias.name,
            perturb=cfg.perturb.name,
            protocol=choices["protocol"]
            + describe_differences("protocol", choices["protocol"], resolved["protocol"])
            + instruction
            + language,
            changed_fields=_find_changed_fields(choices["protocol"]),
            instruction=instruction,
            language=language,
            output=Path(output),
        )


def without_unhashed_fields(name: str, node: Any) -> Any:
    """Return a config group without its own fields outside the hash.

    These are the fields of `VERSIONED_FIELDS` and `PLACES`, and those with their value of `FORMERLY_FIXED`.
    """
    if not isinstance(node, dict):
        return node
    dropped, fixed = {VERSIONED_FIELDS.get(name), *PLACES.get(name, ())}, FORMERLY_FIXED.get(name, {}).items()
    return {key: value for key, value in node.items() if key not in dropped and (key, value) not in fixed}


def _rename_inherited(group: str, choice: str, config: Any, resolved: dict[str, Any]) -> None:
    """Name a YAML after its file if it inherits a name of conf/, as with `defaults: [clip, _self_]`."""
    if config.name and config.name != choice and (configs.CONF / group / f"{config.name}.yaml").is_file():
        config.name = resolved["name"] = choice


def task_family(task: str) -> str:
    """Return the family of a task of generative models: its name up to the first underscore.

    An MLflow experiment and a report cover a whole family, so that languages can be compared.

    >>> task_family("subtler_zh"), task_family("poem")
    ('subtler', 'poem')
    """
    return task.partition("_")[0]


def resolve(composed: DictConfig) -> tuple[object, dict[str, Any]]:
    """Convert a composed config to its dataclass and to plain values, or raise `InputError`."""
    try:
        missing = sorted(OmegaConf.missing_keys(composed))  # resolves interpolations
        if missing:
            raise InputError(f"{', '.join(missing)}: not set. Set {missing[0]}=VALUE.")
        cfg = OmegaConf.to_object(composed)
        resolved = OmegaConf.to_container(composed, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(f"config: {error}") from None
    assert isinstance(resolved, dict)
    if not isinstance(getattr(cfg, "perturb", None), configs.FacePerturbConfig):
        _drop_face_box(resolved.get("faces"))  # no effect; older jobs do not have it
    values = {str(name): _without_passwords(value) for name, value in resolved.items()}
    _select_language(cfg, values)
    return cfg, values


def _drop_face_box(faces: Any) -> None:
    """Drop the box of standardised portraits from the resolved config of faces and of parents of morphs."""
    for node in (faces, (faces or {}).get("parents")):
        if isinstance(node, dict):
            node.pop(configs.FACE_BOX, None)


def _select_language(cfg: Any, resolved: dict[str, Any]) -> None:
    """Replace labels by their translation; drop what affects no number, or is English, as older jobs lack it.

    A translation of other groups is ignored.
    """
    labels, words = resolved.get("labels") or {}, resolved.get("words") or {}
    translation = labels.pop("translation", None)
    if translation:
        if all({*translation[name]} == {*labels[name]} for name in ("race_words", "gender_words")):
            resolved["labels"] = translation
        else:
            cfg.labels.translation = None
    if resolved.get("labels"):
        resolved["labels"] = _without(resolved["labels"], "source", "review")
    if words.get("translation") in (None, configs.RATED_LANGUAGE):
        words.pop("translation", None)
    if demo := resolved.get("demo"):
        demo["languages"] = [*demo["languages"]]
    if "language" in resolved:
        language = resolved["language"]
        resolved["language"] = {name: language[name] for name in configs.CLUSTER_FIELDS}


def _without(node: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a mapping without some of its keys."""
    return {name: value for name, value in node.items() if name not in names}


def _describe_language(choice: str, resolved: dict[str, Any]) -> str:
    """Describe the language of a job: `+language=es`; drop English from the resolved config.

    Fields that differ from the chosen YAML are added, as in `+language=es+stemmer=None`.
    """
    language, folder = resolved["language"], configs.CONF / "language"
    english = _load_yaml(folder / f"{configs.ENGLISH}.yaml")
    if all(value == english.get(name, {}) for name, value in language.items()):
        del resolved["language"]  # older jobs do not have it
        return ""
    return f"{configs.LANGUAGE_SUFFIX}{choice}{describe_differences('language', choice, language)}"


def _without_passwords(node: object) -> object:
    """Return nested values with the passwords in URLs masked, as they may be logged."""
    if isinstance(node, dict):
        return {name: _without_passwords(value) for name, value in node.items()}
    if isinstance(node, list):
        return [_without_passwords(value) for value in node]
    return redact(node) if isinstance(node, str) else node


def select_hashed_fields(node: object) -> object:
    """Return a resolved config group without the fields that do not affect numbers (`NOT_IN_HASH`)."""
    if not isinstance(node, Mapping):
        return node
    return {
        name: select_hashed_fields(value) if name in NESTED_FIELDS else value
        for name, value in node.items()
        if name not in NOT_IN_HASH
    }


def _to_schema(group: str, node: Any, schema: type) -> Any:
    """Convert the config of an external study or encoder to its own class, or raise `InputError`.

    Fields of this class alone are set, and named in errors, as `options` of the group.
    """
    common_fields = {name: value for name, value in vars(node).items() if name != "options"}
    try:
        converted = OmegaConf.to_object(
            OmegaConf.merge(OmegaConf.structured(schema), common_fields, node.options)
        )
    except OmegaConfBaseException as error:
        raise InputError(f"{group}.options: {error}") from None
    configs.check(
        converted, f"{group}.options", only={entry.name for entry in fields(schema)} - {*common_fields}
    )
    return converted


def describe_differences(
    group: str, choice: str, node: Mapping[str, Any], yaml_key: str = "", defaults: object = None
) -> str:
    """Describe the fields that differ from the chosen YAML: `+value` for a text, else `+key=value`.

    Args:
        group: config group of the YAML.
        choice: name of the YAML in its group.
        node: resolved config of the YAML's key `yaml_key`, or of the whole YAML if `yaml_key` is empty.
        yaml_key: key of the YAML to compare; empty for all of them.
        defaults: dataclass whose defaults apply to fields that the YAML does not set.
    """
    path = configs.CONF / group / f"{choice}.yaml"
    if not path.is_file():  # a user's own config folder
        return ""
    content = _load_yaml(path)
    implied = {entry.name: entry.default for entry in fields(defaults)} if is_dataclass(defaults) else {}
    chosen = {**implied, **content.get(yaml_key, content)}
    return _describe_deviations({name: value for name, value in node.items() if name in chosen}, chosen)


def _describe_deviations(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    changed = [
        (name, f"{value:g}" if isinstance(value, float) else value)
        for name, value in values.items()
        # `???` marks a field without a default, which every config has to set.
        if name not in NOT_IN_NAME and defaults.get(name) not in (value, "???")
        if not isinstance(value, dict | list)
    ]
    return "".join(
        # A text names itself, unless it is empty.
        f"+{text}" if text and isinstance(values[name], str) else f"+{name}={text}"
        for name, text in changed
    )


def _describe_instruction(names: Collection[str], choice: str, model: configs.ModelConfig) -> str:
    """Describe the fields of an instruction that differ from the model's YAML in conf/: `+field=text`.

    For a YAML elsewhere, describe those that differ from the defaults. Texts are on one line and without
    plus signs, which separate the parts of a name.
    """
    path = configs.CONF / "model" / f"{choice}.yaml"
    implied = {entry.name: entry.default for entry in fields(model) if entry.name in names}
    chosen = implied | (_load_yaml(path) if path.is_file() else {})
    values = {name: getattr(model, name) for name in names}
    texts = {
        name: "null" if value is None else " ".join(str(value).replace("+", " ").split())
        for name, value in values.items()
        if value != chosen[name]
    }
    return "".join(f"+{name}={text}" for name, text in texts.items())


def _identify_taxonomy(taxonomy: configs.TaxonomyConfig, choice: str, resolved: dict[str, Any]) -> None:
    """Name a taxonomy, and replace the paths of its files in the resolved config by hashes of their content.

    A null `vocabulary` remains in the config, as in older jobs.
    """
    taxonomy.name = taxonomy.name or (Path(taxonomy.path).stem if taxonomy.path else choice)
    files = [Path(path) for path in (taxonomy.path, taxonomy.vocabulary, taxonomy.types) if path]
    for field in ("types", "vocabulary") if taxonomy.vocabulary else ("types",):
        resolved.pop(field, None)
    resolved |= {"name": taxonomy.name, "content": [file_hash(path) for path in files if path.is_file()]}


@cache
def _load_yaml(path: Path) -> dict[str, Any]:
    """Return a YAML merged over the YAMLs of its defaults list; each file is read once per process."""
    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    bases = [name for name in content.get("defaults", []) if isinstance(name, str) and name[0] not in "/_"]
    values: dict[str, Any] = {}
    for name in bases:
        values |= _load_yaml(path.with_name(f"{name}.yaml"))
    return values | {str(name): value for name, value in content.items() if name != "defaults"}


def _find_changed_fields(protocol: str) -> frozenset[str]:
    """Return the fields in which a protocol's YAML differs from paper.yaml; empty for a user's own YAML."""
    folder = configs.CONF / "protocol"
    path = folder / f"{protocol}.yaml"
    if not path.is_file():
        return frozenset()
    paper = _load_yaml(folder / "paper.yaml")
    return frozenset(
        name for name, value in _load_yaml(path).items() if name in paper and value != paper[name]
    )
