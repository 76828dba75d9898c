"""Open encoders of all families under a common protocol."""

from collections.abc import Callable
from dataclasses import replace

from src import configs
from src.encoders.protocol import Encoder, EncoderFamily, Network, family_of
from src.errors import InputError
from src.stimuli import ROLES, Table

# Fields of a model's config that an encoder's identity leaves out: they affect no vector. Only `batch_size`
# affects the last bits; the key of stored vectors has it.
NOT_COMPARED = ("name", "family", "batch_size", "golden", "languages")
# Languages of a model that was trained on many, of which no list is declared.
MULTILINGUAL = "multilingual"
# Config of a published encoder -> encoder, so that files are located and hashed only once per process.
_encoders: dict[str, Encoder] = {}


def open_encoder(cfg: configs.RunConfig, table: Callable[[str], Table]) -> Encoder:
    """Open the encoder of a job without loading its weights; `table` returns the stimuli of a role.

    Raises `InputError` if a table or file is unavailable, `NotStored` within `forbid_building` if a file
    would have to be fetched.
    """
    training = family_of(cfg.model).training
    if training:
        return training(cfg, {role: table(role) for role in ROLES})
    key = repr((cfg.model, cfg.trainer.accelerator))
    if key not in _encoders:
        _encoders[key] = open_published(cfg.model, cfg.trainer.accelerator)
    return _set_language(_encoders[key], cfg)


def _set_language(encoder: Encoder, cfg: configs.RunConfig) -> Encoder:
    """Set the language of the texts of an encoder, if its tokenizer needs one; English is its default."""
    language = cfg.language
    if encoder.in_language is None or language.code == configs.ENGLISH:
        return encoder
    if not language.flores:
        raise InputError(
            f"language={language.code}: the tokenizer of {cfg.model.name} needs the code of the language in "
            "FLORES-200. Add it to the YAML of the language, as in flores: spa_Latn."
        )
    return encoder.in_language(language.flores)


def check_usable(cfg: configs.RunConfig) -> None:
    """Check that this machine supports the model's precision, and that pretrained weights are intact."""
    check_precision(cfg)
    if family_of(cfg.model).encoder:
        open_published(cfg.model, cfg.trainer.accelerator).identify_weights()


def check_precision(cfg: configs.RunConfig) -> None:
    """Check that this machine supports the precision of a job's model (see `precision.check_precision`)."""
    check_precision_of(cfg.model, cfg.trainer.accelerator)


def check_precision_of(model: configs.ModelConfig, accelerator: str) -> None:
    """Check that this machine supports the precision of a model (see `precision.check_precision`)."""
    if isinstance(model, configs.EncoderConfig) and model.precision != "fp32":
        from src.encoders import precision

        precision.check_precision("model.precision", model.precision, accelerator)


def open_published(model: configs.ModelConfig, accelerator: str) -> Encoder:
    """Open a published encoder: locate its files without loading its weights.

    Raises `InputError` if it does not exist or its files are unavailable, `NotStored` within
    `forbid_building` if a file would have to be fetched.
    """
    family = family_of(model)
    if family.encoder is None:
        raise InputError(
            f"model.family={model.family}: this family has no pretrained encoders. Choose another."
        )
    encoder = family.encoder(model, accelerator)
    if model.family in configs.FAMILIES:
        return encoder
    # A family defined outside this project may omit settings from its encoders' identity, so all are added.
    settings = {k: v for k, v in vars(model).items() if k not in NOT_COMPARED}
    parts = {f"encoders.{family.name}": family.version}
    identity = {"config": settings, "accelerator": accelerator, "parts": parts, **encoder.identity}
    return replace(encoder, identity=identity)


def name_family(model: configs.ModelConfig) -> str:
    """Name a model's architecture and training data; models that share both form a family."""
    family = family_of(model)
    return f"{family.architecture(model)}, {family.pretraining(model)}"


def build_untrained(cfg: configs.RunConfig) -> Network:
    """Build the network of a job with random weights, to measure its size and speed."""
    model, build = cfg.model, family_of(cfg.model).untrained_network
    if build:
        return build(model)
    if isinstance(model, configs.PretrainedConfig):
        model = replace(model, weights="random", sha256="")
    return open_published(model, cfg.trainer.accelerator).load()


def claims_language(cfg: configs.RunConfig, code: str) -> bool:
    """Return whether a job's model is declared to read a language; precomputed vectors may be of any."""
    languages = _list_languages(cfg)
    return bool(cfg.model.precomputed) or code in languages or MULTILINGUAL in languages


def describe_languages(cfg: configs.RunConfig) -> str:
    """State which languages a job's model is declared to read."""
    languages = _list_languages(cfg)
    return f"declared: {', '.join(languages)}" if languages else "no language is declared"


def _list_languages(cfg: configs.RunConfig) -> list[str]:
    """Return the codes of `model.languages`, or of pretraining.csv; for toys, of their captions."""
    family = family_of(cfg.model)
    if family.training:
        return [*cfg.demo.languages] or [configs.ENGLISH]
    declared = family.declared(cfg.model).get("languages", "").split()
    return list(getattr(cfg.model, "languages", [])) or declared
