"""Check that a job's model, experiment and projection are suitable for its language."""

from collections.abc import Collection

from src import configs, encoders
from src.errors import InputError, NotApplicable
from src.jobs.identity import Job
from src.stimuli import TEXT_ROLES
from src.storage import cache
from src.studies.protocol import load_study


def check_language(job: Job) -> None:
    """Refuse a language other than English that the model, the experiment or the projection does not support.

    Raises `NotApplicable`, as another model or experiment might support it.
    """
    cfg, study = job.cfg, load_study(job.cfg.exp)
    language, name = cfg.language, job.language.removeprefix("+")
    if language.code == configs.ENGLISH:
        return
    config_groups = study.config_groups(cfg)
    # Config groups are tested first: building their prompts may load faces, needless for this check.
    if has_texts := bool(config_groups or _has_prompts(cfg)):
        _check_texts(job, config_groups)
    if not has_texts and not {*study.roles(cfg.exp)} & {*TEXT_ROLES}:
        raise NotApplicable(f"{name}: no effect on exp={job.exp}, which has no texts. Use language=en.")
    if cfg.debias.spurious:
        raise NotApplicable(
            f"{name}: the prompts of debias={cfg.debias.name} are in English. Use debias=none or language=en."
        )
    if not language.unclaimed and not encoders.claims_language(cfg, language.code):
        raise NotApplicable(
            f"{name}: model={job.model} does not claim {language.name} "
            f"({encoders.describe_languages(cfg)}). To run it all the same, set "
            "language.unclaimed=true; to state its languages, set model.languages=[CODE,...]."
        )


def _has_prompts(cfg: configs.RunConfig) -> bool:
    """Return whether the experiment defines texts, which may depend on faces that a plan does not draw."""
    try:
        return load_study(cfg.exp).prompts(cfg) is not None
    except cache.NotStored:
        return True


def _check_texts(job: Job, config_groups: Collection[str]) -> None:
    """Refuse texts of an experiment that are not in the job's language, or composed by rules of English."""
    cfg, code, english_name = job.cfg, job.cfg.language.code, job.cfg.language.name
    if "taxonomy" in config_groups:
        group, choice, language = "taxonomy", cfg.taxonomy.name, cfg.taxonomy.language
        contents, templates = "captions and categories", [*cfg.taxonomy.captions.values()]
    elif "classes" in config_groups:
        group, choice, language = "classes", cfg.classes.name, cfg.classes.language
        contents, templates = "templates, groups and kinds", cfg.classes.templates
    else:
        group, choice, language = "exp", job.exp, cfg.exp.text_language
        contents, templates = "all texts", getattr(cfg.exp, "templates", [])
    if language != code:
        raise NotApplicable(
            f"language={code}: the texts of {group}={choice} are in the language {language}. Write them in "
            f"{english_name} in {group}/{choice}_{code}.yaml ({contents}, and language: {code}) in a folder "
            f"of your own, and add --config-dir=FOLDER {group}={choice}_{code}; or choose another experiment."
        )
    if any("{article}" in template for template in templates):
        raise InputError(f"{group}={choice}: {{article}} is for English. Write the article into the texts.")
    if group == "classes" and not cfg.classes.groups:
        raise InputError(
            f"classes={choice}: without classes.groups, classes are made from the English names of groups. "
            f"List the classes of each group in {english_name}."
        )


def describe_claim(job: Job) -> list[str]:
    """Return a note on a model that does not claim the job's language; empty if it does."""
    language = job.cfg.language
    if language.code == configs.ENGLISH or encoders.claims_language(job.cfg, language.code):
        return []
    return [f"the model does not claim {language.name} ({encoders.describe_languages(job.cfg)})"]
