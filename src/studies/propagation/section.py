"""Build the section of the report on propagation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from src.report import explorer, format
from src.report.drawing import Drawing
from src.report.explorer import UNITS, sample_units
from src.report.findings import Findings, list_specifications
from src.report.folder import ReportFolder
from src.report.format import COLUMNS, group_rows
from src.report.study import Section
from src.report.tables import describe
from src.studies.propagation import (
    components,
    differences,
    dose_response,
    figures,
    joint,
    page_tables,
    paper_figures,
    scaling,
    sensitivity,
    tables,
)
from src.studies.propagation.combined import RELIABILITY, corrected, furthest_apart, label, main_analyses
from src.studies.propagation.conclusions import conclusions, differing_models
from src.studies.propagation.estimates import JobEstimates

# Number of models in the figures of the page, and of those with scatter plots and contributors: the models
# that differ most.
FEATURED, DETAILED = 12, 3
# Maximum number of analyses with a sample of their units on the page.
MAX_SAMPLED = 4000
OUTCOME_LABELS = dict.fromkeys(("words", "scenes"), "mean valence")
OUTCOME_LABELS |= dict.fromkeys(("labels", "faces"), "share of the group")
MEASURE = "level of carry-over"
# Links at the top of the page: id of the part, text.
LINKS = (
    *(("main", "Main table"), ("level", "Level by group"), ("rho", "Figures 2–5: ρ by group")),
    ("valence", "Figures 6–7"),
    *(("every", "Every ρ"), ("sensitivity", "Other specifications"), ("joint", "Many analyses")),
    ("differences", "Differences"),
    *(("components", "Where differences come from"), ("scaling", "Size of models")),
)
RELIABILITY_LINK = ("reliability", "Reliability")  # of jobs with exp.reliability=true
INTERVENTION_LINK = ("intervention", "Without what is measured")  # of jobs with exp.intervene=true


def section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write figures and tables of propagation; None if the sweep has no such experiment."""
    analyses = findings.of("propagation")
    folder.write_table("analyses", analyses, "every analysis of the sweep, all specifications, unrounded")
    if analyses.empty:
        return None
    contents, undefined = Contents(findings, folder), analyses[analyses["rho"].isna()]
    specifications = list_specifications(analyses)
    context: dict[str, Any] = {
        "missing": group_rows(format.to_records(undefined), "reason"),
        "specifications": len(specifications),
        "specification": describe(specifications[0]),
        "intrinsic": label(analyses, "intrinsic", paper_figures.SC_EAT),
        "outcomes": sorted({*analyses.get("extrinsic_label", pd.Series(dtype=object)).dropna()}),
        "figures_models": len(contents.featured),
        "models_left": contents.analyses["model"].nunique() - len(contents.featured),
    }
    context |= contents.overview() | contents.comparisons() | contents.reliability() | contents.variances()
    context |= contents.interventions()
    context["experiments"] = contents.experiments()
    return Section(
        rows=contents.analyses,
        templates=Path(__file__).with_name("templates"),
        context=context,
        body=(
            *("figures.html", "intervention.html", "comparisons.html", "reliability.html", "components.html"),
            *("scaling.html", "experiments.html"),
        ),
        conclusions=[
            *conclusions(analyses),
            *differing_models(contents.model_differences),
            *dose_response.conclusion(contents.remaining),
            *components.conclusion(contents.components),
        ],
        explorer_rows=explored(findings),
        table="main.html",
        facts="facts.html",
        guide="guide.html",
        missing="missing.html",
        links=(
            *LINKS,
            *[RELIABILITY_LINK] * bool(context["corrected"]),
            *[INTERVENTION_LINK] * bool(context["interventions"]),
        ),
        link_lists={"Experiments": [(entry["slug"], entry["name"]) for entry in context["experiments"]]},
    )


def explored(findings: Findings) -> pd.DataFrame:
    """Return all analyses for the explorer, the first specification's first, with samples of their units."""
    analyses = findings.of("propagation")
    rows = explorer.build_rows(
        analyses,
        study="propagation",
        group=analyses["stratum"],
        measure=MEASURE,
        numbers={column.name: column.name for column in COLUMNS},
        # The column may hold None.
        statuses={"at the ceiling": analyses["ceiling"] == True, "no ρ": analyses["rho"].isna()},  # noqa: E712
    )
    units: dict[tuple[str, str], object] = {}
    for job in rows.head(MAX_SAMPLED).drop_duplicates("config").to_dict("records"):
        if not findings.has(job["config"], "targets"):
            continue
        targets = findings.read(job["config"], "targets")
        # Names of faces may identify a person.
        is_named = not str(job["exp"]).startswith("faces_to_")
        for stratum, subset in targets.groupby("stratum", sort=False):
            names = subset["id"] if is_named else None
            units[job["config"], str(stratum)] = sample_units(subset["intrinsic"], subset["extrinsic"], names)
    keys = zip(rows["config"], rows["group"], strict=True)
    samples = pd.Series([units.get(key) for key in keys], rows.index, dtype=object)
    return rows.assign(**{UNITS: samples})


class Contents:
    """Figures, tables and template values of the section."""

    def __init__(self, findings: Findings, folder: ReportFolder) -> None:
        self.findings = findings
        self.analyses = main_analyses(findings)
        self.folder = folder
        self.featured = furthest_apart(self.analyses, FEATURED)
        self.estimates = JobEstimates(findings)
        self.model_differences = differences.models(findings, self.estimates)
        self.components = components.table(findings)
        self.remaining = dose_response.summaries(findings)
        self.slugs = format.slugs(dict.fromkeys(self.analyses["exp"]))

    def overview(self) -> dict[str, Any]:
        """Build the main table, the paper's figures, and the heatmap of all values of rho."""
        means = tables.summary(self.analyses)
        self.folder.write_table("summary", means, "the main table")
        latex = page_tables.latex_table(means)
        self.folder.write_text("main.tex", latex, "the main table as LaTeX (booktabs)")
        singles = page_tables.singles(self.analyses)
        if len(singles):
            self.folder.write_table("published", singles, "the paper's single ρ's next to ours")
        pooled = page_tables.pooled_baselines(self.analyses)
        if len(pooled):
            self.folder.write_table("baselines", pooled, "ρ over both directions of each baseline")
        levels = {exp: self.plot_levels(exp) for exp in self.slugs if self._rows(exp)["level"].notna().any()}
        rhos = {exp: self.plot_rhos(exp) for exp in self.slugs}
        featured = self._featured(self.analyses)
        title = f"{self.findings.dataset}: {len(featured)} of {len(self.analyses)} analyses"
        heatmap, alternative = figures.heatmap(featured, title=title)
        return {
            "main": tables.main_table(self.analyses, compared=True),
            "main_caption": tables.caption(self.findings.of("propagation")),
            "compared": "published_mean" in means,
            "singles": format.to_records(singles),
            "pooled": format.to_records(pooled),
            "levels": self.pair_up(levels),
            "rhos": self.pair_up(rhos),
            **self.valence_figures(),
            "heatmap": self.folder.write_figure(Drawing("heatmap", heatmap, "Every ρ", alternative)),
        }

    def valence_figures(self) -> dict[str, Any]:
        """Build the paper's figures 6 and 7."""
        means = paper_figures.group_means(self.findings)
        bands = paper_figures.valence_bands(self.findings)
        score = label(self.analyses, "intrinsic", paper_figures.SC_EAT)
        if len(means):
            self.folder.write_table("figure-6", means, f"figure 6: mean valence {score} per group")
        if len(bands):
            self.folder.write_table("figure-7", bands, f"figure 7: group {score} by valence of the target")
            description = "figure 7: means over models and z over groups"
            self.folder.write_table("figure-7-normalised", paper_figures.band_means(bands), description)
        figure_6 = paper_figures.group_means_figure(means, score)
        bands_figures = []
        for exp in paper_figures.GROUP_SIMILARITY:
            normalised = paper_figures.normalised_bands_figure(bands, exp, score)
            drawings = [normalised, paper_figures.valence_bands_figure(bands, exp, score)]
            bands_figures.append(self.folder.write_figures([drawing for drawing in drawings if drawing]))
        return {
            "valence": self.folder.write_figures([figure_6] if figure_6 else []),
            "bands": [pictures for pictures in bands_figures if pictures],
        }

    def comparisons(self) -> dict[str, Any]:
        """Build figures and tables of other specifications, of differences, and of the size of models."""
        findings = self.findings
        draws = sensitivity.attribute_draws(findings)
        spread = sensitivity.table(findings, draws)
        self.folder.write_table("sensitivity", spread, "ρ under every specification")
        several = len(list_specifications(findings.of("propagation"))) > 1
        multiverses = [sensitivity.multiverse(findings, draws, spread, exp) for exp in self.slugs if several]
        sets, adjusted = joint.joint_tests(findings)
        self.folder.write_table("joint", sets, "tests of sets of analyses: the median and the largest level")
        self.folder.write_table("joint-analyses", adjusted, "p of each level, adjusted for all analyses")
        models, groups = self.model_differences, differences.groups(findings, self.estimates)
        self.folder.write_table("differences-models", models, "two models on the same experiment and group")
        self.folder.write_table("differences-groups", groups, "two groups of one experiment and model")
        models = self._featured(self._featured(models, "first"), "second")
        groups = self._featured(groups)
        points = scaling.points(findings)
        quantities = scaling.known_quantities(points)
        if quantities:
            self.folder.write_table("scaling", points, "mean ρ per model, with size and accuracy")
        return {
            "sensitivity": group_rows(format.to_records(spread), "exp"),
            "joint": format.to_records(sets[sets["n"] > 1]),
            "multiverses": self.folder.write_figures(multiverses),
            "model_pairs": page_tables.pairs_of_models(models),
            "model_differences": group_rows(format.to_records(models), "exp"),
            "group_differences": group_rows(format.to_records(groups), "exp"),
            "scaling": self.folder.write_figures([scaling.figure(points, name) for name in quantities]),
            "correlations": format.to_records(scaling.correlations(points)),
            "quantities": scaling.QUANTITIES,
        }

    def reliability(self) -> dict[str, Any]:
        """Build figures and table of the reliability of both scores; empty without exp.reliability=true."""
        rows = corrected(self.analyses)
        if rows.empty:
            return {"corrected": {}}
        names = ["exp", "model", "stratum", "n", "rho", *RELIABILITY]
        self.folder.write_table("reliability", rows[names], "ρ corrected for the noise of the corpus")
        featured = self._featured(rows)
        drawings = []
        for exp, exp_rows in featured.groupby("exp", sort=False):
            named = {"name": f"reliability-{self.slugs[str(exp)]}", "title": self._title(str(exp))}
            drawings.append(figures.plot_corrected(exp_rows, self.featured, **named))
        return {
            "corrected": group_rows(format.to_records(featured[names]), "exp"),
            "reliabilities": self.folder.write_figures(drawings),
        }

    def variances(self) -> dict[str, Any]:
        """Build the table and the figure of variance components."""
        rows, drawing = self.components, components.figure(self.components)
        self.folder.write_table("variance-components", rows, "variance components of level and ρ")
        return {
            "components": components.page_rows(rows),
            "component_sets": format.to_records(rows.drop_duplicates(["set", "quantity"])),
            "component_shares": self.folder.write_figures([drawing] if drawing else []),
            "facets": components.facets(rows),
        }

    def interventions(self) -> dict[str, Any]:
        """Build figure and table of the interventions, if a job has one."""
        curves = dose_response.curves(self.findings)
        drawing = dose_response.figure(curves, self.featured)
        if len(self.remaining):
            self.folder.write_table("intervention", self.remaining, "what remains without what is measured")
            doses = "the same at every dose, and of every control"
            self.folder.write_table("intervention-doses", curves, doses)
        return {
            "interventions": format.to_records(self.remaining),
            "intervention_figure": drawing and self.folder.write_figure(drawing),
        }

    def experiments(self) -> list[dict[str, Any]]:
        """Build the values of each experiment."""
        items = page_tables.contributors(self.findings)
        self.folder.write_table("contributors", items, "retrieved items that move the outcome most")
        by_config = group_rows(format.to_records(items), "config")
        return [self.experiment(exp, by_config) for exp in self.slugs]

    def experiment(self, exp: str, contributors: Mapping[str, list[page_tables.Row]]) -> dict[str, Any]:
        """Build the values of an experiment; `contributors` are by config of the job."""
        exp_rows = self.analyses[self.analyses["exp"] == exp]
        detailed = furthest_apart(self._featured(self.analyses), DETAILED)
        jobs = [*dict.fromkeys(exp_rows["config"][exp_rows["model"].isin(detailed)])]
        numbered = [(config, n) for n, config in enumerate(jobs, 1) if self.findings.has(config, "targets")]
        models = dict(zip(exp_rows["config"], exp_rows["model"], strict=True))
        return {
            "name": exp,
            "slug": self.slugs[exp],
            "paper": exp_rows["paper"].iloc[0],
            "left": exp_rows["config"].nunique() - len(jobs),
            "scatters": self.folder.write_figures([self.scatter(*job) for job in numbered]),
            "contributors": {models[job]: contributors[job] for job in jobs if job in contributors},
            "retrieves_faces": exp.endswith("_to_faces"),
        }

    def plot_levels(self, exp: str) -> Drawing:
        """Plot the level by group and model of an experiment."""
        rows, named = self._rows(exp), {"name": f"level-{self.slugs[exp]}", "title": self._title(exp)}
        return figures.plot_levels(rows, self.featured, by=("stratum", "model"), **named)

    def plot_rhos(self, exp: str) -> Drawing:
        """Plot rho by group and model of an experiment."""
        rows, named = self._rows(exp), {"name": f"rho-{self.slugs[exp]}", "title": self._title(exp)}
        return figures.plot_rhos(rows, self.featured, by=("stratum", "model"), **named)

    def pair_up(self, drawings: Mapping[str, Drawing]) -> dict[str, Any]:
        """Write drawings of experiments: the pairs of the paper's figures 2 to 5, and the others."""
        pictures = {exp: self.folder.write_figure(drawing) for exp, drawing in drawings.items()}
        pairs = [[pictures[exp] for exp in pair if exp in pictures] for pair in paper_figures.PAIRS]
        paired = set(sum(paper_figures.PAIRS, ()))
        others = [picture for exp, picture in pictures.items() if exp not in paired]
        return {"all": [*pictures.values()], "pairs": [pair for pair in pairs if pair], "others": others}

    def _featured(self, rows: pd.DataFrame, column: str = "model") -> pd.DataFrame:
        return rows[rows[column].isin(self.featured)]

    def _rows(self, exp: str) -> pd.DataFrame:
        return self._featured(self.analyses[self.analyses["exp"] == exp])

    def _title(self, exp: str) -> str:
        paper = self._rows(exp)["paper"].iloc[0]
        return f"{exp} ({paper})" if paper and not pd.isna(paper) else exp

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
