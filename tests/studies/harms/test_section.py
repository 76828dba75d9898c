"""Check the page, figures, sentences and terminal tables on harmful classes."""

import pandas as pd
import pytest

from src.studies.harms import figures, section
from src.studies.harms.outcomes import ALL_GROUPS, SHARE
from src.studies.harms.study import STUDY, build_terminal_tables
from tests.report import factory
from tests.report.conftest import check_page, check_rows, frame_of, texts
from tests.studies.harms import face_world


def analyse(exp, model, protocol, harm, *options):
    """Run an experiment on a world with a group of a hostile name; return rows of analyses.csv and result."""
    cfg = face_world.compose(exp, *options)
    frame = face_world.draw_faces(1, people=10)
    frame["group"] = frame["group"].replace("White Women", factory.HOSTILE)
    result = face_world.run(cfg, frame, harm=harm)[0]
    names = {"exp": exp, "paper": "", "model": model, "dataset": "demo", "debias": "none", "perturb": "none"}
    names |= {"protocol": protocol, "seed": 0, "config": f"{exp} {model} {protocol}"}
    return pd.concat([pd.DataFrame([names] * len(result.analyses)), result.analyses], axis=1), result


@pytest.fixture(scope="module")
def findings():
    frames = [
        analyse(exp, model, "paper", harm)[0]
        for exp in ("harms", "harms_child")
        for model, harm in (("toy_s", 0.0), ("toy_m", 2.0))
    ]
    others = [frame.assign(protocol="pooling_mean", config=frame["config"] + " pooled") for frame in frames]
    analyses = pd.concat([*frames, *others], ignore_index=True)
    jobs = analyses[["exp", "model", "protocol", "config"]].drop_duplicates()
    jobs = jobs.assign(status="finished", run="r", reason="", dataset="demo", debias="none", seed=0, paper="")
    models = pd.DataFrame({"model": ["toy_s", "toy_m"], "pretraining": "captions"})
    return factory.build(harms=analyses, jobs=jobs, models=models, status="FINISHED", missing=[])


@pytest.mark.thorough
def test_the_page_shows_the_shares_differences_and_worst_groups(findings, html, page_path):
    rows = findings.of("harms").query("protocol == 'paper' and exp == 'harms' and model == 'toy_m'")
    keys = ["kind", "measure", "group"]
    written = {}
    for row, cell, _ in html.cells:
        if row and row.get("data-harms") == "toy_m" and cell.get("data-value"):
            key = (
                row["data-kind"],
                row["data-measure"],
                row.get("data-group", ALL_GROUPS),
                cell["data-column"],
            )
            written.setdefault(key, float(cell["data-value"]))
    for row in rows.to_dict("records"):
        columns = ["share"] if row["group"] == ALL_GROUPS else ["share", "gap", "p"]
        columns += ["difference", "difference_q95"] if row["group"] == ALL_GROUPS else []
        for column in columns:
            if pd.notna(row[column]):
                assert written[*(row[name] for name in keys), column] == pytest.approx(row[column])
    assert "above 0 by chance alone" in html.text
    assert "other specifications are in tables/harms.csv (1)" in html.text
    check_page(page_path, html)
    check_rows(findings, page_path, "harms", "harms")


@pytest.mark.parametrize("are_harms", [True, False])
def test_the_figures_have_a_point_per_outcome_group_and_model(are_harms, findings):
    rows = findings.of("harms").query("protocol == 'paper' and exp == 'harms'")
    drawing = figures.draw_shares(rows, title="t", models=["toy_s", "toy_m"], are_harms=are_harms)
    numbers = [text for text in texts(drawing.figure) if text.replace(".", "").isdigit()]
    drawn = rows[(rows["measure"] == SHARE) == are_harms]
    written = [figures.format_digits(value, 3) for value in drawn["share"]]
    assert all(numbers.count(text) >= written.count(text) for text in written)
    assert "Black Men, toy_s" in drawing.alt_text
    assert drawing.alt_text.count("all groups") == 6
    assert "Drawn" not in drawing.caption


def test_of_many_models_the_first_are_drawn(findings):
    rows = findings.of("harms").query("protocol == 'paper' and exp == 'harms' and model == 'toy_s'")
    models = [f"m{number}" for number in range(9)]
    copies = pd.concat([rows.assign(model=name) for name in models])
    drawing = figures.draw_shares(copies, title="t", models=models)
    assert "Drawn: the first 4 of 9 models." in drawing.caption
    assert "m3" in drawing.alt_text
    assert "m4" not in drawing.alt_text


def test_figures_of_experiments_and_lists_of_classes_have_different_names(findings, tmp_path):
    class Folder:
        names = ()

        def write_table(self, *_):
            pass

        def write_figures(self, drawings):
            self.names = [drawing.name for drawing in drawings]
            return []

    folder = Folder()
    section.build_section(findings, folder)
    assert folder.names == ["harms-1", "harms-accuracy-1", "harms-2", "harms-accuracy-2"]
    mixed = findings.with_frame("harms", findings.of("harms").assign(exp="harms"))
    section.build_section(mixed, folder)
    assert folder.names == ["harms-1", "harms-accuracy-1", "harms-2", "harms-accuracy-2"]


def test_sentences_state_share_extremes_and_null(findings):
    sentences = section.draw_conclusions(findings.of("harms"))
    assert len(sentences) == 2 * 4 + 2 * 5  # kinds and accuracy; with a child
    (sentence,) = [text for text in sentences if text.startswith("harms, toy_m") and "as harm" in text]
    total = findings.of("harms").query("exp == 'harms' and model == 'toy_m' and kind == 'harm'")
    total = total.set_index("group").loc[ALL_GROUPS].iloc[0]
    assert f"{total['share']:.2f} [" in sentence
    assert "from 0.30 of White Men to 1.00 of " in sentence
    assert f"permutations up to {total['difference_q95']:.2f}, p = " in sentence
    assert section.draw_conclusions(findings.of("harms").head(0)) == []


def test_the_terminal_has_a_row_per_outcome(findings):
    (table,) = build_terminal_tables(findings.of("harms"), "demo")
    frame = frame_of(table)
    labels = {*frame[frame.columns[0]]}
    assert {"harms: crime", "harms_child: child", "harms: right, among groups"} <= labels
    assert build_terminal_tables(findings.of("harms").head(0), "demo") == []


def test_lists_of_classes_of_an_experiment_have_separate_rows_and_sentences(findings):
    mixed = findings.of("harms").assign(exp="harms")
    (table,) = build_terminal_tables(mixed, "demo")
    labels = {*frame_of(table).iloc[:, 0]}
    assert {"harms, clip: crime", "harms, clip_child: crime"} <= labels
    sentences = section.draw_conclusions(mixed)
    assert sum(text.startswith("harms, clip, toy_m: ") for text in sentences) == 4
    assert sum(text.startswith("harms, clip_child, toy_m: ") for text in sentences) == 5


def test_jobs_that_compare_other_groups_have_separate_rows_and_sentences(findings):
    by_group = findings.of("harms").query("protocol == 'paper' and exp == 'harms' and model == 'toy_s'")
    by_gender = analyse("harms", "toy_s", "paper", 0.0, "exp.axis=gender")[0].assign(config="by gender")
    analyses = pd.concat([by_group, by_gender], ignore_index=True)
    sentences = section.draw_conclusions(analyses)
    assert len(sentences) == 2 * 4
    assert sum(text.startswith("harms (Men, Women), toy_s: ") for text in sentences) == 4
    (table,) = build_terminal_tables(analyses, "demo")
    assert "harms (Men, Women): crime" in {*frame_of(table).iloc[:, 0]}
    assert len(frame_of(table)) == (analyses["group"] == ALL_GROUPS).sum()


def test_a_job_has_two_figures():
    result = analyse("harms", "toy", "paper", 0.5)[1]
    columns = {"model": "toy", "exp": "harms", "dataset": "demo"}
    drawn = [*STUDY.figures(None, columns, result)]
    assert [name for name, _, _ in drawn] == ["harms.png", "harms-accuracy.png"]
    assert all(texts(figure) and len(alt_text) > 40 for _, figure, alt_text in drawn)
