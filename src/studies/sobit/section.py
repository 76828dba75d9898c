"""Build the report's section on So-B-IT."""

from pathlib import Path
from typing import Any

from markupsafe import Markup

from src.report.explorer import hash_script
from src.report.findings import Findings, first_specification
from src.report.folder import ReportFolder
from src.report.format import to_records
from src.report.study import Section
from src.report.tables import describe
from src.studies.shared.draws import UNTREATED
from src.studies.shared.face_axes import label_axis
from src.studies.sobit import debiasing_changes, word_rows
from src.studies.sobit.heatmap import draw_heatmaps, find_colour_limit
from src.studies.sobit.word_figures import draw_word_figures

# Maximum number of models whose figures and words the page shows.
MAX_DETAILED_MODELS = 8
TEMPLATES = Path(__file__).with_name("templates")


def build_section(findings: Findings, folder: ReportFolder) -> Section:
    """Write the figures and tables of So-B-IT; return the section."""
    audits = findings.of("sobit")
    folder.write_table("sobit", audits, "So-B-IT: every word, axis and group, all specifications, unrounded")
    rows, specification, n_others = word_rows.select_first_specification(word_rows.fill_columns(audits))
    words = word_rows.combine_groups(rows)
    summary = word_rows.summarise_models(words[words["axis"] != ""])
    folder.write_table(
        "sobit-words", words, "So-B-IT: one row per word and axis, for the specification on the page"
    )
    folder.write_table("sobit-models", summary, "So-B-IT: summary per model and axis")
    models = [*dict.fromkeys(rows["model"])]
    colour_limit = find_colour_limit(rows)
    detailed = []
    for number, name in enumerate(models[:MAX_DETAILED_MODELS], 1):
        model_rows = rows[rows["model"] == name]
        drawings = draw_word_figures(model_rows, number)
        drawings["heatmaps"] = draw_heatmaps(model_rows, colour_limit, number)
        pictures = {kind: folder.write_figures(kind_drawings) for kind, kind_drawings in drawings.items()}
        detailed.append({"name": name, "rows": to_records(words[words["model"] == name]), **pictures})
    face_counts = (rows["n"] + rows["n_rest"]).agg(["min", "max"]).dropna()
    # The page's security policy allows only the script with this hash.
    script = (TEMPLATES / "words.js").read_text(encoding="utf-8")
    context = {
        "specification": specification,
        "n_other_specifications": n_others,
        "n_captions": rows["caption"].nunique(),
        "face_counts": " to ".join(dict.fromkeys(f"{count:,.0f}" for count in face_counts)),
        "label_axis": label_axis,
        "summary": to_records(summary),
        "models": detailed,
        "n_models_omitted": len(models) - len(detailed),
        "association_columns": word_rows.ASSOCIATION_COLUMNS,
        "retrieval_columns": word_rows.RETRIEVAL_COLUMNS,
        "debiasing": _build_debiasing_context(findings, folder),
        "script": Markup(script),
    }
    return Section(
        rows=first_specification(audits),
        templates=TEMPLATES,
        context={"sobit": context},
        body=("sobit.html",),
        links=(("sobit", "So-B-IT"),),
        script_hash=hash_script(script),
    )


def _build_debiasing_context(findings: Findings, folder: ReportFolder) -> dict[str, Any] | None:
    """Write the tables of changes by debiasing; return the template's values.

    Return None if no debiased job has a counterpart without debiasing.
    """
    changes = debiasing_changes.compute_changes(findings)
    if changes.empty:
        return None
    verdicts = debiasing_changes.classify_words(changes)
    counts = debiasing_changes.count_verdicts(verdicts)
    keys = [*debiasing_changes.DEBIASED_JOB_COLUMNS, "caption"]
    with_verdicts = changes.merge(verdicts[[*keys, "verdict"]], on=keys)
    folder.write_table("sobit-debiasing", with_verdicts, "So-B-IT: change of |C| by debiasing, every word")
    folder.write_table("sobit-verdicts", counts, "So-B-IT: numbers of words by how debiasing changed them")
    specifications = changes[["protocol", "seed", "perturb", "taxonomy"]].drop_duplicates()
    # No perturbation precedes others.
    specifications = specifications.sort_values(
        "perturb", key=lambda names: names != UNTREATED, kind="stable"
    )
    # The page shows the first specification.
    first = specifications.iloc[0]
    changes, verdicts, counts = (frame.merge(specifications[:1]) for frame in (changes, verdicts, counts))
    # The merge puts the axes of a word in consecutive rows.
    mixed = verdicts[verdicts["verdict"] == debiasing_changes.MIXED][keys].merge(changes)
    return {
        "specification": describe((first["protocol"], first["seed"], UNTREATED, first["perturb"])),
        "n_other_specifications": len(specifications) - 1,
        "reasons": [reason for reason in dict.fromkeys(changes["reason"]) if reason],
        "verdicts": debiasing_changes.VERDICTS,
        "counts": to_records(counts),
        "mixed": to_records(mixed),
    }
