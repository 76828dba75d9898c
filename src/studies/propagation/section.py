"""Build the section of the report on propagation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import format
from src.report.drawing import Drawing
from src.report.findings import Findings, list_specifications
from src.report.folder import Folder
from src.report.format import grouped
from src.report.study import Section
from src.report.tables import describe
from src.studies.propagation import (
    differences,
    figures,
    joint,
    page_tables,
    paper_figures,
    scaling,
    sensitivity,
)
from src.studies.propagation.combined import label, main_analyses
from src.studies.propagation.tables import above

# Number of models per experiment with scatter plots and contributors on the page.
DETAILED = 8
OUTCOME_LABELS = dict.fromkeys(("words", "scenes"), "mean valence")
OUTCOME_LABELS |= dict.fromkeys(("labels", "faces"), "share of the group")
# Links at the top of the page: id of the part, text.
LINKS = (
    *(("main", "Main table"), ("level", "Level by group"), ("rho", "Figures 2–5: ρ by group")),
    ("valence", "Figures 6–7"),
    *(("every", "Every ρ"), ("sensitivity", "Other specifications"), ("joint", "Many analyses")),
    ("differences", "Differences"),
    ("scaling", "Size of models"),
)


def section(findings: Findings, folder: Folder) -> Section | None:
    """Write figures and tables of propagation; None if the sweep has no such experiment."""
    analyses = findings.of("propagation")
    folder.table("analyses", analyses, "every analysis of the sweep, all specifications, unrounded")
    if analyses.empty:
        return None
    contents, undefined = Contents(findings, folder), analyses[analyses["rho"].isna()]
    missing = {"count": len(undefined), "rows": format.records(undefined)[: format.LONGEST]}
    context: dict[str, Any] = {"facts": facts(findings), "missing": missing, "detailed": DETAILED}
    context |= contents.overview() | contents.comparisons()
    context |= {"experiments": contents.experiments(), "models": contents.models()}
    return Section(
        rows=contents.analyses,
        templates=Path(__file__).with_name("templates"),
        context=context,
        body=("overview.html", "comparisons.html", "models.html", "experiments.html"),
        facts="facts.html",
        guide="guide.html",
        missing="missing.html",
        links=LINKS,
        link_lists={
            title: [(entry["slug"], entry["name"]) for entry in context[title.lower()]]
            for title in ("Models", "Experiments")
        },
    )


def facts(findings: Findings) -> dict[str, Any]:
    """Return the numbers at the top of the page, under the first specification."""
    analyses, specifications = main_analyses(findings), list_specifications(findings.of("propagation"))
    rho, is_above = analyses["rho"], above(analyses)
    return {
        "specifications": len(specifications),
        "specification": describe(specifications[0]),
        "level_small_q": int((analyses["level_q"] <= 0.05).sum()),
        "with_level_q": int(analyses["level_q"].count()),
        "slope": float(analyses["slope"].mean()),
        "ceilings": int((analyses["ceiling"] == True).sum()),  # noqa: E712  the column may hold None
        "defined": int(rho.count()),
        "mean": float(rho.mean()),
        "sd": float(rho.std(ddof=1)),
        "above": int(is_above.sum()),
        "compared": int(is_above.count()),
        "small_q": int((analyses["q"] <= 0.05).sum()),
        "with_q": int(analyses["q"].count()),
        "intrinsic": label(analyses, "intrinsic", paper_figures.SC_EAT),
        "outcomes": sorted({*analyses.get("extrinsic_label", pd.Series(dtype=object)).dropna()}),
    }


class Contents:
    """Figures, tables and template values of the section."""

    def __init__(self, findings: Findings, folder: Folder) -> None:
        self.findings = findings
        self.analyses = main_analyses(findings)
        self.folder = folder
        self.slugs = format.slugs(dict.fromkeys(self.analyses["exp"]))

    def overview(self) -> dict[str, Any]:
        """Build the main table, the paper's figures, and the heatmap of all values of rho."""
        main = page_tables.main_table(self.analyses)
        self.folder.table("summary", main["table"], "the main table")
        latex = page_tables.latex_table(main["table"])
        self.folder.text("main.tex", latex, "the main table as LaTeX (booktabs)")
        singles = page_tables.singles(self.analyses)
        if len(singles):
            self.folder.table("published", singles, "the paper's single ρ's next to ours")
        self.levels = {exp: self.folder.pictures(self.plot_levels(exp)) for exp in self.slugs}
        self.dots = {exp: self.folder.pictures(self.plot_rhos(exp)) for exp in self.slugs}
        title = f"{self.findings.dataset}: {len(self.analyses)} analyses"
        heatmap, alternative = figures.heatmap(self.analyses, title=title)
        return {
            "main": main,
            "singles": format.records(singles),
            "levels": _pair_up(self.levels),
            "rhos": _pair_up(self.dots),
            **self.valence_figures(),
            "heatmap": self.folder.picture(Drawing("heatmap", heatmap, "Every ρ", alternative)),
        }

    def valence_figures(self) -> dict[str, Any]:
        """Build the paper's figures 6 and 7."""
        means = paper_figures.group_means(self.findings)
        bands = paper_figures.valence_bands(self.findings)
        score = label(self.analyses, "intrinsic", paper_figures.SC_EAT)
        if len(means):
            self.folder.table("figure-6", means, f"figure 6: mean valence {score} per group")
        if len(bands):
            self.folder.table("figure-7", bands, f"figure 7: group {score} by valence of the target")
        drawings = [paper_figures.group_means_figure(means, score)]
        for exp in paper_figures.GROUP_SIMILARITY:
            drawings.append(paper_figures.valence_bands_figure(bands, exp, score))
        return {"valence": self.folder.pictures([drawing for drawing in drawings if drawing])}

    def comparisons(self) -> dict[str, Any]:
        """Build figures and tables of other specifications, of differences, and of the size of models."""
        findings = self.findings
        draws = sensitivity.attribute_draws(findings)
        spread = sensitivity.table(findings, draws)
        self.folder.table("sensitivity", spread, "ρ under every specification")
        several = len(list_specifications(findings.of("propagation"))) > 1
        multiverses = [sensitivity.multiverse(findings, draws, spread, exp) for exp in self.slugs if several]
        sets, adjusted = joint.joint_tests(findings)
        self.folder.table("joint", sets, "tests of sets of analyses: the median and the largest level")
        self.folder.table("joint-analyses", adjusted, "p of each level, adjusted for all analyses")
        models, groups = differences.models(findings), differences.groups(findings)
        self.folder.table("differences-models", models, "two models on the same experiment and group")
        self.folder.table("differences-groups", groups, "two groups of one experiment and model")
        points = scaling.points(findings)
        quantities = scaling.known_quantities(points)
        if quantities:
            self.folder.table("scaling", points, "mean ρ per model, with size and accuracy")
        return {
            "sensitivity": grouped(format.records(spread), "exp"),
            "joint": format.records(sets[sets["n"] > 1]),
            "multiverses": self.folder.pictures(multiverses),
            "model_pairs": page_tables.pairs_of_models(models),
            "model_differences": grouped(format.records(models), "exp"),
            "group_differences": grouped(format.records(groups), "exp"),
            "scaling": self.folder.pictures([scaling.figure(points, name) for name in quantities]),
            "correlations": format.records(scaling.correlations(points)),
            "quantities": scaling.QUANTITIES,
        }

    def experiments(self) -> list[dict[str, Any]]:
        """Build the values of each experiment."""
        items = page_tables.contributors(self.findings)
        self.folder.table("contributors", items, "retrieved items that move the outcome most")
        by_config = grouped(format.records(items), "config")
        return [self.experiment(exp, by_config) for exp in self.slugs]

    def experiment(self, exp: str, contributors: Mapping[str, list[page_tables.Row]]) -> dict[str, Any]:
        """Build the values of an experiment; `contributors` are by config of the job."""
        exp_rows = self.analyses[self.analyses["exp"] == exp]
        configs = [*dict.fromkeys(exp_rows["config"])]
        jobs = configs[:DETAILED]
        numbered = [(config, n) for n, config in enumerate(jobs, 1) if self.findings.has(config, "targets")]
        models = dict(zip(exp_rows["config"], exp_rows["model"], strict=True))
        return {
            "name": exp,
            "slug": self.slugs[exp],
            "paper": exp_rows["paper"].iloc[0],
            "dots": self.levels[exp] + self.dots[exp],
            "rows": format.records(exp_rows),
            "left": len(configs) - len(jobs),
            "scatters": self.folder.pictures([self.scatter(*job) for job in numbered]),
            "contributors": {models[job]: contributors[job] for job in jobs if job in contributors},
            "retrieves_faces": exp.endswith("_to_faces"),
        }

    def models(self) -> list[dict[str, Any]]:
        """Build the values of each model."""
        strata, entries = [*dict.fromkeys(self.analyses["stratum"])], []
        for number, (model, rows) in enumerate(self.analyses.groupby("model", sort=False), 1):
            slug, known = f"model-{number}", self.findings.models
            blocks = [_title(*row) for row in zip(rows["exp"], rows["paper"], strict=True)]
            by = ("block", "stratum")
            plots = figures.plot_rhos(rows.assign(block=blocks), strata, by=by, name=slug, title=str(model))
            about = format.records(known[known["model"] == model])[:1] if len(known) else []
            entry = {"name": model, "slug": slug, "dots": self.folder.pictures(plots)}
            entries.append(entry | {"rows": format.records(rows), "about": about[0] if about else {}})
        return entries

    def plot_levels(self, exp: str) -> list[Drawing]:
        """Plot the level by group and model of an experiment; nothing without levels."""
        rows, models, named = self._series(exp)
        named |= {"name": f"level-{self.slugs[exp]}"}
        return figures.plot_levels(rows, models, **named) if rows["level"].notna().any() else []

    def plot_rhos(self, exp: str) -> list[Drawing]:
        """Plot rho by group and model of an experiment."""
        rows, models, named = self._series(exp)
        return figures.plot_rhos(rows, models, **named, name=f"rho-{self.slugs[exp]}")

    def _series(self, exp: str) -> tuple[pd.DataFrame, list[str], dict[str, Any]]:
        rows = self.analyses[self.analyses["exp"] == exp]
        models = [*dict.fromkeys(self.analyses["model"])]
        return rows, models, {"by": ("stratum", "model"), "title": _title(exp, rows["paper"].iloc[0])}

    def scatter(self, config: str, number: int) -> Drawing:
        """Plot both scores of each unit of a job."""
        job_rows = self.analyses[self.analyses["config"] == config]
        first = job_rows.iloc[0]
        outcome = OUTCOME_LABELS.get(first["exp"].rpartition("_to_")[2], "outcome")
        axes = {"intrinsic": label(job_rows, "intrinsic", "SC-EAT effect size"), "title": str(first["model"])}
        axes["outcome"] = label(job_rows, "extrinsic", outcome)
        targets = self.findings.read(config, "targets")
        figure, alternative = figures.scatter(targets, job_rows, **axes)
        name, title = f"scatter-{self.slugs[first['exp']]}-{number}", f"{first['exp']}, {first['model']}"
        return Drawing(name, figure, title, alternative, dense=True)


def _pair_up(pictures: Mapping[str, list[Any]]) -> dict[str, list[list[Any]]]:
    """Pair pictures by experiment as in the paper's figures 2 to 5; list those of other experiments apart."""
    pairs = [[pictures[exp] for exp in pair if exp in pictures] for pair in paper_figures.PAIRS]
    paired = set(sum(paper_figures.PAIRS, ()))
    return {
        "pairs": [pair for pair in pairs if pair],
        "others": [drawn for exp, drawn in pictures.items() if exp not in paired],
    }


def _title(exp: str, paper: Any) -> str:
    return f"{exp} ({paper})" if paper and not pd.isna(paper) else exp
