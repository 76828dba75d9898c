"""The section of the report on propagation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import format
from src.report.drawing import Drawing
from src.report.findings import Findings, readings
from src.report.folder import Folder
from src.report.format import grouped
from src.report.study import Section
from src.report.tables import said
from src.studies.propagation import (
    contributors,
    differences,
    figures,
    latex_table,
    page_tables,
    paper_figures,
    paper_values,
    rho_plot,
    scaling,
    sensitivity,
)
from src.studies.propagation.combined import every, label, shown

# Models whose scatter plots and contributors the page shows of each experiment.
DETAILED = 8
OUTCOMES = {
    "words": "mean valence",
    "scenes": "mean valence",
    "labels": "share of the group",
    "faces": "share of the group",
}
LINKS = (
    ("main", "Main table"),
    ("rho", "Figures 2–5: ρ by group"),
    ("valence", "Figures 6–7"),
    ("every", "Every ρ"),
    ("sensitivity", "Other readings"),
    ("differences", "Differences"),
    ("scaling", "Size of models"),
)


def section(findings: Findings, folder: Folder) -> Section | None:
    """Write figures and tables of propagation; None if the sweep has no experiment of it.

    Args:
        findings: of the sweep.
        folder: of the report.
    """
    analyses = every(findings)
    folder.table("analyses", analyses, "every analysis of the sweep, all readings, to the last bit")
    if analyses.empty:
        return None
    parts = Parts(findings, folder)
    context: dict[str, Any] = {"facts": facts(findings), "missing": undefined(analyses), "detailed": DETAILED}
    context |= parts.overview() | parts.comparisons()
    context |= {"experiments": parts.experiments(), "models": parts.models()}
    return Section(
        rows=parts.shown,
        templates=Path(__file__).with_name("templates"),
        context=context,
        body=("overview.html", "comparisons.html", "models.html", "experiments.html"),
        facts="facts.html",
        guide="reading.html",
        missing="missing.html",
        links=LINKS,
        link_lists={
            title: [(one["slug"], one["name"]) for one in context[title.lower()]]
            for title in ("Models", "Experiments")
        },
    )


def facts(findings: Findings) -> dict[str, Any]:
    """Return the numbers that the page starts with, of the first reading."""
    own, every_reading = shown(findings), readings(every(findings))
    rho, compared = own["rho"], own.dropna(subset=["rho", "placebo_q95"])
    return {
        "readings": len(every_reading),
        "reading": said(every_reading[0]),
        "defined": int(rho.count()),
        "mean": float(rho.mean()),
        "sd": float(rho.std(ddof=1)),
        "above": int((compared["rho"] > compared["placebo_q95"]).sum()),
        "compared": len(compared),
        "small_q": int((own["q"] <= 0.05).sum()),
        "with_q": int(own["q"].count()),
        "intrinsic": label(own, "intrinsic", paper_figures.SC_EAT),
        "outcomes": sorted({*own.get("extrinsic_label", pd.Series(dtype=object)).dropna()}),
    }


def undefined(analyses: pd.DataFrame) -> dict[str, Any]:
    """Return the analyses without rho."""
    rows = analyses[analyses["rho"].isna()]
    return {"count": len(rows), "rows": format.records(rows)[: format.LONGEST]}


class Parts:
    """Parts of the section: their figures and tables, and values for their templates."""

    def __init__(self, findings: Findings, folder: Folder) -> None:
        self.findings = findings
        self.shown = shown(findings)
        self.folder = folder
        self.slugs = format.slugs(dict.fromkeys(self.shown["exp"]))

    def overview(self) -> dict[str, Any]:
        """The main table, the paper's figures, and the map of all rho's."""
        main = page_tables.main_table(self.shown)
        self.folder.table("summary", main["table"], "the main table")
        self.folder.text(
            "main.tex", latex_table.main_table(main["table"]), "the main table as LaTeX (booktabs)"
        )
        singles = paper_values.singles(self.shown)
        if len(singles):
            self.folder.table("published", singles, "the paper's single ρ's beside ours")
        self.dots = {exp: self.folder.pictures(self.dots_of(exp)) for exp in self.slugs}
        pairs = [tuple(exp for exp in pair if exp in self.dots) for pair in paper_figures.PAIRS]
        paired = {exp for pair in pairs for exp in pair}
        title = f"{self.findings.dataset}: {len(self.shown)} analyses"
        named = Drawing("heatmap", *_titled(figures.heatmap(self.shown, title=title), "Every ρ"))
        return {
            "main": main,
            "singles": format.records(singles),
            "pairs": [[self.dots[exp] for exp in pair] for pair in pairs if pair],
            "others": [self.dots[exp] for exp in self.dots if exp not in paired],
            **self.valence_figures(),
            "heatmap": self.folder.picture(named),
        }

    def valence_figures(self) -> dict[str, Any]:
        """The paper's figures 6 and 7."""
        means = paper_figures.group_means(self.findings)
        bands = paper_figures.valence_bands(self.findings)
        score = label(self.shown, "intrinsic", paper_figures.SC_EAT)
        if len(means):
            self.folder.table("figure-6", means, f"figure 6: mean valence {score} per group")
        if len(bands):
            self.folder.table("figure-7", bands, f"figure 7: group {score} by valence of the target")
        seventh = [paper_figures.valence_bands_figure(bands, exp, score) for exp in paper_figures.BANDS]
        sixth = paper_figures.group_means_figure(means, score)
        return {
            "sixth": self.folder.pictures([sixth] if sixth else []),
            "seventh": self.folder.pictures([drawing for drawing in seventh if drawing]),
        }

    def comparisons(self) -> dict[str, Any]:
        """Other readings, differences, and size."""
        findings = self.findings
        drawn = sensitivity.attribute_draws(findings)
        spread = sensitivity.table(findings, drawn)
        self.folder.table("sensitivity", spread, "ρ under every reading")
        several = len(readings(every(findings))) > 1
        multiverses = [sensitivity.multiverse(findings, drawn, spread, exp) for exp in self.slugs if several]
        models, groups = differences.models(findings), differences.groups(findings)
        self.folder.table("differences-models", models, "two models on the same experiment and group")
        self.folder.table("differences-groups", groups, "two groups of one experiment and model")
        points = scaling.points(findings)
        correlations = scaling.correlations(points)
        if scaling.known(points):
            self.folder.table("scaling", points, "mean ρ per model, with size and accuracy")
        return {
            "sensitivity": grouped(format.records(spread), "exp"),
            "multiverses": self.folder.pictures(multiverses),
            "model_pairs": page_tables.pairs_of_models(models),
            "model_differences": grouped(format.records(models), "exp"),
            "group_differences": grouped(format.records(groups), "exp"),
            "scaling": self.folder.pictures([scaling.figure(points, one) for one in scaling.known(points)]),
            "correlations": format.records(correlations),
            "quantities": scaling.QUANTITIES,
        }

    def experiments(self) -> list[dict[str, Any]]:
        """A part for each experiment."""
        moved = contributors.contributors(self.findings)
        self.folder.table("contributors", moved, "what is retrieved that moves the outcome most")
        by_config = grouped(format.records(moved), "config")
        return [self.experiment(exp, by_config) for exp in self.slugs]

    def experiment(self, exp: str, moved: Mapping[str, list[page_tables.Row]]) -> dict[str, Any]:
        """The part of an experiment.

        Args:
            exp: which.
            moved: the contributors of each job.
        """
        own = self.shown[self.shown["exp"] == exp]
        every = [*dict.fromkeys(own["config"])]
        jobs = every[:DETAILED]
        drawn = [
            self.scatter(config, number)
            for number, config in enumerate(jobs, 1)
            if self.findings.has(config, "targets")
        ]
        models = dict(zip(own["config"], own["model"], strict=True))
        return {
            "name": exp,
            "slug": self.slugs[exp],
            "paper": own["paper"].iloc[0],
            "dots": self.dots[exp],
            "rows": format.records(own),
            "left": len(every) - len(jobs),
            "scatters": self.folder.pictures(drawn),
            "contributors": {models[config]: moved[config] for config in jobs if config in moved},
            "faces": exp.endswith("_to_faces"),
        }

    def models(self) -> list[dict[str, Any]]:
        """A part for each model."""
        strata = [*dict.fromkeys(self.shown["stratum"])]
        found = []
        for number, (model, own) in enumerate(self.shown.groupby("model", sort=False), 1):
            named = own.assign(block=[_named(*row) for row in zip(own["exp"], own["paper"], strict=True)])
            drawn = rho_plot.dots(
                named, strata, by=("block", "stratum"), name=f"model-{number}", title=str(model)
            )
            row = self.findings.models
            about = format.records(row[row["model"] == model])[:1] if len(row) else []
            found.append(
                {
                    "name": model,
                    "slug": f"model-{number}",
                    "dots": self.folder.pictures(drawn),
                    "rows": format.records(own),
                    "about": about[0] if about else {},
                }
            )
        return found

    def dots_of(self, exp: str) -> list[Drawing]:
        """Rho by group and model of an experiment."""
        own = self.shown[self.shown["exp"] == exp]
        title = _named(exp, own["paper"].iloc[0])
        models = [*dict.fromkeys(self.shown["model"])]
        return rho_plot.dots(own, models, by=("stratum", "model"), name=f"rho-{self.slugs[exp]}", title=title)

    def scatter(self, config: str, number: int) -> Drawing:
        """Both scores of every unit of a job."""
        own = self.shown[self.shown["config"] == config]
        first = own.iloc[0]
        outcome = OUTCOMES.get(first["exp"].rpartition("_to_")[2], "outcome")
        axes = {
            "intrinsic": label(own, "intrinsic", "SC-EAT effect size"),
            "outcome": label(own, "extrinsic", outcome),
        }
        targets = self.findings.read(config, "targets")
        drawn = figures.scatter(targets, own, title=str(first["model"]), **axes)
        name = f"scatter-{self.slugs[first['exp']]}-{number}"
        return Drawing(name, *_titled(drawn, f"{first['exp']}, {first['model']}"), dense=True)


def _titled(drawn: tuple[Any, str], title: str) -> tuple[Any, str, str]:
    figure, alternative = drawn
    return figure, title, alternative


def _named(exp: str, paper: Any) -> str:
    return f"{exp} ({paper})" if paper and not pd.isna(paper) else exp
