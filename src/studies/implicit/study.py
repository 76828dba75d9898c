"""Define the study of implicit bias."""

from collections.abc import Iterator, Mapping

import pandas as pd
from matplotlib.figure import Figure
from rich.console import RenderableType

from src.configs import ProtocolConfig, RunConfig
from src.report.study import StudyReport
from src.report.tables import across_models, means, plain
from src.stimuli import PROMPTS, Table
from src.studies.implicit import experiment, figures
from src.studies.implicit.config import AuditConfig
from src.studies.implicit.model_ranking import IAT, null_statistic
from src.studies.implicit.ranking_page import RANKING
from src.studies.implicit.section import section
from src.studies.protocol import Study, Tables, Vectors

TITLE = "|CLES − ½| or IAT, mean over pairs of groups (of random partitions)"
METRICS = ("cles_gap", "delta_gap", "iat", "null_mean")


def roles(exp: AuditConfig) -> tuple[str, ...]:  # noqa: ARG001
    """Return the role of faces."""
    return ("faces",)


def prompts(cfg: RunConfig) -> Table:
    """Return the prompts of an audit; see `experiment.prompts`."""
    assert isinstance(cfg.exp, AuditConfig)
    return experiment.prompts(cfg.exp)


def check(cfg: RunConfig, tables: Tables) -> object:
    """Check the faces; see `experiment.check`."""
    assert isinstance(cfg.exp, AuditConfig)
    return experiment.check(cfg.exp, tables["faces"], cfg.protocol, cfg.seed)


def run(cfg: RunConfig, tables: Tables, vectors: Vectors) -> experiment.Audit:
    """Compare each pair of groups; see `experiment.run`."""
    assert isinstance(cfg.exp, AuditConfig)
    pair = tables["faces"], tables[PROMPTS]
    return experiment.run(cfg.exp, *pair, vectors["faces"], vectors[PROMPTS], cfg.protocol, cfg.seed)


def protocol_fields(exp: AuditConfig, protocol: ProtocolConfig) -> frozenset[str]:  # noqa: ARG001
    """Return the protocol fields that affect an audit."""
    fields = {"faces_per_group", "partitions", "ties", "bootstrap", "pooling"}
    return frozenset(fields | ({"iat"} if exp.pairs else set()))


def metrics(result: experiment.Audit) -> dict[str, float]:
    """Return means over pairs of groups, by attribute."""
    averages = result.analyses.groupby("attribute")[list(METRICS)].mean()
    return {f"{name}.{key}": float(averages.loc[key, name]) for name in METRICS for key in averages.index}


def job_figures(
    exp: AuditConfig,  # noqa: ARG001
    columns: Mapping[str, object],
    result: experiment.Audit,
) -> Iterator[tuple[str, Figure, str]]:
    """Draw the mean cosine of each group with each word."""
    title = f"{columns['model']}, {columns['exp']} ({columns['dataset']})"
    yield "similarities.png", *figures.heatmap(result.tables["similarities"], title=title)


def terminal_table(audits: pd.DataFrame) -> pd.DataFrame:
    """Return a row per attribute and specification, a column per model.

    The text is the mean over pairs of groups of the `null_statistic`, and in brackets that of random
    partitions.
    """
    rows = []
    for (exp, attribute), pairs in audits.groupby(["exp", "attribute"], sort=False):
        statistic = str(null_statistic(pairs).iloc[0])
        text_format = "{:.1f} ({:.1f})" if statistic == IAT else "{:.3f} ({:.3f})"
        rows.append(means(pairs, f"{exp}: {attribute}", statistic, "null_mean", text_format))
    return across_models(pd.concat(rows), "debias", "protocol", "seed") if rows else pd.DataFrame()


def terminal(analyses: pd.DataFrame, dataset: str) -> list[RenderableType]:
    """Return a table of the means over pairs of groups."""
    return [plain(terminal_table(analyses), f"{dataset}: {TITLE}")]


STUDY = Study(
    name="implicit",
    roles=roles,
    prompts=prompts,
    check=check,
    run=run,
    protocol_fields=protocol_fields,
    metrics=metrics,
    figures=job_figures,
    report=StudyReport(section=section, terminal=terminal, ranking=RANKING),
)
