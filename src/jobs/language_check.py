"""Check that a job's model, experiment and projection are suitable for its language."""

from src import configs, encoders
from src.errors import NotApplicable
from src.jobs.identity import Job
from src.stimuli import TEXT_ROLES
from src.studies.protocol import load_study


def check_language(job: Job) -> None:
    """Refuse a language other than English that the model, the experiment or the projection does not support.

    Raises `NotApplicable`, as another model or experiment might support it.
    """
    cfg, study = job.cfg, load_study(job.cfg.exp)
    language, name = cfg.language, job.language.removeprefix("+")
    if language.code == configs.ENGLISH:
        return
    if study.prompts(cfg):
        raise NotApplicable(
            f"{name}: the texts of exp={job.exp} are in English, and there is no list in {language.name}. "
            "Choose another experiment, or language=en."
        )
    if not {*study.roles(cfg.exp)} & {*TEXT_ROLES}:
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


def describe_claim(job: Job) -> list[str]:
    """Return a note on a model that does not claim the job's language; empty if it does."""
    language = job.cfg.language
    if language.code == configs.ENGLISH or encoders.claims_language(job.cfg, language.code):
        return []
    return [f"the model does not claim {language.name} ({encoders.describe_languages(job.cfg)})"]
