"""Define the study of zero-shot accuracy."""

import pandas as pd
from rich.console import RenderableType

from src.configs import ProtocolConfig, RunConfig
from src.report.explorer import explored
from src.report.findings import Findings, first_specification
from src.report.folder import Folder
from src.report.study import Section, StudyReport
from src.report.tables import across_models, means, plain
from src.studies.protocol import Study, Tables, Vectors
from src.studies.zero_shot import experiment
from src.studies.zero_shot.config import ZeroShotConfig

TITLE = "accuracy (chance)"
LOGGED_METRICS = ("accuracy", "chance")
# Column of the report's explorer -> column of the analyses.
EXPLORED = {"level": "accuracy", "level_low": "ci_low", "level_high": "ci_high", "n": "n"}


def roles(exp: ZeroShotConfig) -> tuple[str, ...]:
    """Return the roles of targets and corpus."""
    return exp.targets, exp.corpus


def check(cfg: RunConfig, tables: Tables) -> None:
    """Check the pair of roles; see `experiment.check`."""
    assert isinstance(cfg.exp, ZeroShotConfig)
    experiment.check(cfg.exp, tables[cfg.exp.targets], tables[cfg.exp.corpus])


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> experiment.Accuracy:
    """Compute the accuracy; see `experiment.run`."""
    assert isinstance(cfg.exp, ZeroShotConfig)
    targets, corpus = roles(cfg.exp)
    pair = tables[targets], tables[corpus]
    return experiment.run(cfg.exp, *pair, vectors[targets], vectors[corpus], cfg.protocol, cfg.seed)


def protocol_fields(exp: ZeroShotConfig, protocol: ProtocolConfig) -> frozenset[str]:  # noqa: ARG001
    """Return the protocol fields that affect the result."""
    return frozenset({"placebo", "bootstrap", "pooling"})


def metrics(result: experiment.Accuracy) -> dict[str, float]:
    """Return accuracy and chance."""
    return {name: float(result.analyses[name].mean()) for name in LOGGED_METRICS}


def section(findings: Findings, folder: Folder) -> Section:  # noqa: ARG001
    """Return the rows for the top of the page and its explorer; the section on debiasing presents them."""
    analyses = findings.of(STUDY.name)
    group = pd.Series("", analyses.index)
    rows = explored(analyses, study=STUDY.name, group=group, measure="accuracy", numbers=EXPLORED)
    return Section(rows=first_specification(analyses), explored=rows)


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of accuracies."""
    rows = [
        means(exp_rows, str(name), "accuracy", "chance", "{:.3f} ({:.3f})")
        for name, exp_rows in analyses.groupby("exp", sort=False)
    ]
    return [plain(across_models(pd.concat(rows), "debias", "protocol", "seed"), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="zero_shot",
    roles=roles,
    check=check,
    run=run,
    protocol_fields=protocol_fields,
    metrics=metrics,
    report=StudyReport(section=section, terminal=terminal),
)
