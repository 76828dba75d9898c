"""Build the section on propagation of the report of a sweep."""

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
    multiverse,
    page_tables,
    paper_figures,
    scaling,
    tables,
)
from src.studies.propagation.combined import (
    RELIABILITY,
    label_of,
    select_corrected,
    select_distant_models,
    select_main_analyses,
)
from src.studies.propagation.conclusions import conclusions, state_differing_models
from src.studies.propagation.estimates import JobEstimates
from src.studies.propagation.sc_eat import SC_EAT

# Maximum number of models in figures, and with scatter plots and contributors: those that differ most.
MAX_FEATURED_MODELS, MAX_DETAILED_MODELS = 12, 3
# Maximum number of analyses whose units are sampled for the explorer.
MAX_ANALYSES_WITH_UNITS = 4000
# Role of the corpus -> label of the outcome on axes.
OUTCOME_LABELS = dict.fromkeys(("words", "scenes"), "mean valence")
OUTCOME_LABELS |= dict.fromkeys(("labels", "faces"), "share of the group")
MEASURE = "level of carry-over"  # name of the level in the explorer
# Links at the top of the page: anchor, text.
LINKS = (
    *(("main", "Main table"), ("level", "Level by group"), ("rho", "Figures 2–5: ρ by group")),
    ("valence", "Figures 6–7"),
    *(("every", "Every ρ"), ("sensitivity", "Other specifications"), ("joint", "Many analyses")),
    ("differences", "Differences"),
    *(("components", "Where differences come from"), ("scaling", "Size of models")),
)
RELIABILITY_LINK = ("reliability", "Reliability")  # of jobs with exp.reliability=true
INTERVENTION_LINK = ("intervention", "Intervention")  # of jobs with exp.intervene=true


def section(findings: Findings, folder: ReportFolder) -> Section | None:
    """Write figures and tables of propagation; return None if the sweep has no such experiment."""
    analyses = findings.of("propagation")
    folder.write_table("analyses", analyses, "every analysis of the sweep, all specifications, unrounded")
    if analyses.empty:
        return None
    builder, undefined = SectionBuilder(findings, folder), analyses[analyses["rho"].isna()]
    specifications = list_specifications(analyses)
    context: dict[str, Any] = {
        "missing": group_rows(format.to_records(undefined), "reason"),
        "specifications": len(specifications),
        "specification": describe(specifications[0]),
        "intrinsic": label_of(builder.analyses, "intrinsic", paper_figures.SC_EAT),
        "outcomes": sorted({*builder.analyses.get("extrinsic_label", pd.Series(dtype=object)).dropna()}),
        "n_featured_models": len(builder.featured),
        "n_other_models": builder.analyses["model"].nunique() - len(builder.featured),
    }
    context |= builder.build_overview() | builder.build_comparisons() | builder.build_reliability()
    context |= builder.build_components() | builder.build_interventions()
    context["experiments"] = builder.build_experiments()
    return Section(
        rows=builder.analyses,
        templates=Path(__file__).with_name("templates"),
        context=context,
        body=(
            *("figures.html", "intervention.html", "comparisons.html", "reliability.html", "components.html"),
            *("scaling.html", "experiments.html"),
        ),
        conclusions=[
            *conclusions(analyses),
            *state_differing_models(builder.model_differences),
            *dose_response.state_conclusion(builder.intervention_summaries),
            *components.state_conclusion(builder.components),
        ],
        explorer_rows=build_explorer_rows(findings),
        table="main.html",
        specification="specification.html",
        guide="guide.html",
        missing="missing.html",
        links=(
            *LINKS,
            *[RELIABILITY_LINK] * bool(context["corrected"]),
            *[INTERVENTION_LINK] * bool(context["interventions"]),
        ),
        link_lists={"Experiments": [(entry["slug"], entry["name"]) for entry in context["experiments"]]},
    )


def build_explorer_rows(findings: Findings) -> pd.DataFrame:
    """Build the explorer's rows, one per analysis, with samples of their units; first specification first."""
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
    for job in rows.head(MAX_ANALYSES_WITH_UNITS).drop_duplicates("config").to_dict("records"):
        if not findings.has(job["config"], "targets"):
            continue
        targets = findings.read(job["config"], "targets")
        # The name of a face may identify a person.
        is_named = not page_tables.are_targets_faces(findings, job["config"], targets)
        for stratum, subset in targets.groupby("stratum", sort=False):
            names = subset["id"] if is_named else None
            units[job["config"], str(stratum)] = sample_units(subset["intrinsic"], subset["extrinsic"], names)
    keys = zip(rows["config"], rows["group"], strict=True)
    samples = pd.Series([units.get(key) for key in keys], rows.index, dtype=object)
    return rows.assign(**{UNITS: samples})


class SectionBuilder:
    """Writes figures and tables of the section, and returns the values of its templates."""

    def __init__(self, findings: Findings, folder: ReportFolder) -> None:
        self.findings = findings
        self.analyses = select_main_analyses(findings)
        self.folder = folder
        self.featured = select_distant_models(self.analyses, MAX_FEATURED_MODELS)
        self.estimates = JobEstimates(findings)
        self.model_differences = differences.compare_models(findings, self.estimates)
        self.components = components.estimate_components(findings)
        self.intervention_summaries = dose_response.read_summaries(findings)
        self.slugs = format.make_slugs(dict.fromkeys(self.analyses["exp"]))

    def build_overview(self) -> dict[str, Any]:
        """Build the main table, the paper's figures, and the heatmap of all values of rho."""
        means = tables.summarise_rhos(self.analyses)
        self.folder.write_table("summary", means, "the main table")
        latex = page_tables.build_latex_table(means)
        self.folder.write_text("main.tex", latex, "the main table as LaTeX (booktabs)")
        published_rhos = page_tables.join_published_rhos(self.analyses)
        if len(published_rhos):
            self.folder.write_table("published", published_rhos, "the paper's single ρ's next to ours")
        pooled_baselines = page_tables.pool_baselines(self.analyses)
        if len(pooled_baselines):
            self.folder.write_table("baselines", pooled_baselines, "ρ over both directions of each baseline")
        levels = {
            exp: self.plot_levels(exp) for exp in self.slugs if self._select_rows(exp)["level"].notna().any()
        }
        rhos = {exp: self.plot_rhos(exp) for exp in self.slugs}
        featured = self._select_featured(self.analyses)
        title = f"{self.findings.dataset}: {len(featured)} of {len(self.analyses)} analyses"
        heatmap, alt_text = figures.plot_heatmap(featured, title=title)
        return {
            "main_table": tables.build_main_table(self.analyses, with_comparison=True),
            "main_caption": tables.explain_columns(self.findings.of("propagation")),
            "has_published_means": "published_mean" in means,
            "published_rhos": format.to_records(published_rhos),
            "pooled_baselines": format.to_records(pooled_baselines),
            "level_figures": self.write_pairs(levels),
            "rho_figures": self.write_pairs(rhos),
            **self.build_valence_figures(),
            "heatmap": self.folder.write_figure(Drawing("heatmap", heatmap, "Every ρ", alt_text)),
        }

    def build_valence_figures(self) -> dict[str, Any]:
        """Build the paper's figures 6 and 7."""
        means = paper_figures.compute_group_means(self.findings)
        bands = paper_figures.compute_bands(self.findings)
        score = label_of(self.analyses, "intrinsic", paper_figures.SC_EAT)
        if len(means):
            self.folder.write_table("figure-6", means, f"figure 6: mean valence {score} per group")
        if len(bands):
            self.folder.write_table("figure-7", bands, f"figure 7: group {score} by valence of the target")
            description = "figure 7: means over models and z over groups"
            self.folder.write_table("figure-7-normalised", paper_figures.average_bands(bands), description)
        figure_6 = paper_figures.plot_group_means(means, score)
        band_pictures = []
        for exp in paper_figures.FIGURE_7_EXPERIMENTS:
            normalised = paper_figures.plot_normalised_bands(bands, exp, score)
            drawings = [normalised, paper_figures.plot_bands(bands, exp, score)]
            band_pictures.append(self.folder.write_figures([drawing for drawing in drawings if drawing]))
        return {
            "figure_6": self.folder.write_figures([figure_6] if figure_6 else []),
            "figure_7": [pictures for pictures in band_pictures if pictures],
        }

    def build_comparisons(self) -> dict[str, Any]:
        """Build figures and tables of specifications, joint tests, differences, and size of models."""
        findings = self.findings
        draws = multiverse.read_attribute_draws(findings)
        spread = multiverse.summarise_specifications(findings, draws)
        self.folder.write_table("sensitivity", spread, "ρ under every specification")
        has_several = len(list_specifications(findings.of("propagation"))) > 1
        multiverses = [
            multiverse.plot_multiverse(findings, draws, spread, exp) for exp in self.slugs if has_several
        ]
        sets, adjusted = joint.joint_tests(findings)
        self.folder.write_table("joint", sets, "joint tests of sets of analyses: median and largest level")
        self.folder.write_table("joint-analyses", adjusted, "p of each level, adjusted for all analyses")
        models, groups = self.model_differences, differences.compare_groups(findings, self.estimates)
        self.folder.write_table("differences-models", models, "differences between models")
        self.folder.write_table("differences-groups", groups, "differences between groups")
        models = self._select_featured(self._select_featured(models, "first"), "second")
        groups = self._select_featured(groups)
        means = scaling.join_quantities(findings)
        quantities = scaling.list_known_quantities(means)
        if quantities:
            self.folder.write_table("scaling", means, "mean ρ per model, with size and accuracy")
        return {
            "sensitivity": group_rows(format.to_records(spread), "exp"),
            "joint_tests": format.to_records(sets[sets["n"] > 1]),
            "multiverses": self.folder.write_figures(multiverses),
            "model_pairs": page_tables.summarise_model_pairs(models),
            "model_differences": group_rows(format.to_records(models), "exp"),
            "group_differences": group_rows(format.to_records(groups), "exp"),
            "scaling_figures": self.folder.write_figures(
                [scaling.plot_quantity(means, name) for name in quantities]
            ),
        }

    def build_reliability(self) -> dict[str, Any]:
        """Build figures and table of the reliability of both scores, for jobs with exp.reliability=true."""
        rows = select_corrected(self.analyses)
        if rows.empty:
            return {"corrected": {}}
        columns = ["exp", "model", "stratum", "n", "rho", *RELIABILITY]
        self.folder.write_table("reliability", rows[columns], "ρ corrected for the noise of the corpus")
        featured = self._select_featured(rows)
        drawings = []
        for exp, exp_rows in featured.groupby("exp", sort=False):
            name, title = f"reliability-{self.slugs[str(exp)]}", self._build_title(str(exp))
            drawings.append(figures.plot_corrected(exp_rows, self.featured, name=name, title=title))
        return {
            "corrected": group_rows(format.to_records(featured[columns]), "exp"),
            "reliability_figures": self.folder.write_figures(drawings),
        }

    def build_components(self) -> dict[str, Any]:
        """Build the tables and the figure of variance components."""
        rows, drawing = self.components, components.plot_shares(self.components)
        self.folder.write_table("variance-components", rows, "variance components of level and ρ")
        return {
            "component_rows": components.build_page_rows(rows),
            "component_sets": format.to_records(rows.drop_duplicates(["set", "quantity"])),
            "component_figures": self.folder.write_figures([drawing] if drawing else []),
            "further_factors": components.list_further_factors(rows),
        }

    def build_interventions(self) -> dict[str, Any]:
        """Build figure and table of interventions, for jobs with exp.intervene=true."""
        summaries = self.intervention_summaries
        doses = dose_response.read_doses(self.findings)
        drawing = dose_response.plot_doses(doses, self.featured)
        if len(summaries):
            self.folder.write_table(
                "intervention", summaries, "level that remains without the measured directions"
            )
            description = "remaining shares of measure and level at every dose, and for every control"
            self.folder.write_table("intervention-doses", doses, description)
        return {
            "interventions": format.to_records(summaries),
            "intervention_figure": drawing and self.folder.write_figure(drawing),
        }

    def build_experiments(self) -> list[dict[str, Any]]:
        """Build the template values of each experiment."""
        items = page_tables.list_contributors(self.findings)
        self.folder.write_table("contributors", items, "retrieved items that contribute most to the outcome")
        by_config = group_rows(format.to_records(items), "config")
        return [self.build_experiment(exp, by_config) for exp in self.slugs]

    def build_experiment(self, exp: str, contributors: Mapping[str, list[page_tables.Row]]) -> dict[str, Any]:
        """Build the template values of an experiment; `contributors` maps the config of a job to its rows."""
        exp_rows = self.analyses[self.analyses["exp"] == exp]
        detailed = select_distant_models(self._select_featured(self.analyses), MAX_DETAILED_MODELS)
        jobs = [*dict.fromkeys(exp_rows["config"][exp_rows["model"].isin(detailed)])]
        numbered = [(config, n) for n, config in enumerate(jobs, 1) if self.findings.has(config, "targets")]
        models = dict(zip(exp_rows["config"], exp_rows["model"], strict=True))
        return {
            "name": exp,
            "slug": self.slugs[exp],
            "paper": exp_rows["paper"].iloc[0],
            "n_other_jobs": exp_rows["config"].nunique() - len(jobs),
            "scatters": self.folder.write_figures([self.plot_scatter(*job) for job in numbered]),
            "contributors": {models[job]: contributors[job] for job in jobs if job in contributors},
            "retrieves_faces": any(page_tables.is_corpus_of_faces(self.findings, job) for job in jobs),
        }

    def plot_levels(self, exp: str) -> Drawing:
        """Plot the levels of an experiment by group and model."""
        name, title = f"level-{self.slugs[exp]}", self._build_title(exp)
        return figures.plot_levels(self._select_rows(exp), self.featured, name=name, title=title)

    def plot_rhos(self, exp: str) -> Drawing:
        """Plot the rhos of an experiment by group and model."""
        name, title = f"rho-{self.slugs[exp]}", self._build_title(exp)
        return figures.plot_rhos(self._select_rows(exp), self.featured, name=name, title=title)

    def write_pairs(self, drawings: Mapping[str, Drawing]) -> dict[str, Any]:
        """Write drawings of experiments; return all, the pairs of the paper's figures 2–5, and all others."""
        pictures = {exp: self.folder.write_figure(drawing) for exp, drawing in drawings.items()}
        pairs = [[pictures[exp] for exp in pair if exp in pictures] for pair in paper_figures.PAIRS]
        paired = set(sum(paper_figures.PAIRS, ()))
        others = [picture for exp, picture in pictures.items() if exp not in paired]
        return {"all": [*pictures.values()], "pairs": [pair for pair in pairs if pair], "others": others}

    def _select_featured(self, rows: pd.DataFrame, column: str = "model") -> pd.DataFrame:
        return rows[rows[column].isin(self.featured)]

    def _select_rows(self, exp: str) -> pd.DataFrame:
        return self._select_featured(self.analyses[self.analyses["exp"] == exp])

    def _build_title(self, exp: str) -> str:
        paper = self._select_rows(exp)["paper"].iloc[0]
        return f"{exp} ({paper})" if paper and not pd.isna(paper) else exp

    def plot_scatter(self, config: str, number: int) -> Drawing:
        """Plot both scores of each unit of a job."""
        job_rows = self.analyses[self.analyses["config"] == config]
        first = job_rows.iloc[0]
        outcome = OUTCOME_LABELS.get(first["exp"].rpartition("_to_")[2], "outcome")
        targets = self.findings.read(config, "targets")
        figure, alt_text = figures.plot_scatter(
            targets,
            job_rows,
            title=str(first["model"]),
            intrinsic=label_of(job_rows, "intrinsic", SC_EAT.label),
            outcome=label_of(job_rows, "extrinsic", outcome),
        )
        name, title = f"scatter-{self.slugs[first['exp']]}-{number}", f"{first['exp']}, {first['model']}"
        return Drawing(name, figure, title, alt_text, dense=True)
