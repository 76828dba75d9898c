"""Check that the page shows the numbers of analyses.csv and loads nothing; and descriptions of runs."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image
from rich.table import Table
from rich.text import Text
from scipy import stats

from src.errors import InputError
from src.report import format, markdown, page
from src.report.drawing import ACL_COLUMN_WIDTH, COLUMN_WIDTH, DPI, Drawing, save_drawing
from src.report.load import build_jobs_table, merge
from src.report.study import StudyReport
from src.storage import results
from src.studies.propagation.combined import LEVEL
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page
from tests.studies.subtler import choices

FEW = ("scenes_to_words", "faces_to_words", "labels_to_scenes", "words_to_faces")
DRAWS = {"level": 39, "placebo": 39, "property": 20, "attributes": 5}
SMALL = {"experiments": {exp: factory.PAPER[exp] for exp in FEW}, "size": 20, "draws": DRAWS}
SMALL["groups"] = ["Black Women", factory.HOSTILE]
DIGITS = {column.name: column.digits for column in format.COLUMNS}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    models, protocols = ("toy_s", factory.HOSTILE), ("k_100", "paper")
    return factory.draw(tmp_path_factory.mktemp("jobs"), models=models, protocols=protocols, **SMALL)


def test_every_number_of_the_page_is_that_of_analyses_csv(page_path, html, findings):
    # Read as text, to compare every digit.
    reported = pd.read_csv(page_path.parent / "tables" / "analyses.csv", dtype=str, keep_default_na=False)
    reported = reported.set_index(["config", "stratum"])
    n_cells = {}
    for row, cell, text in html.cells:
        if row and "data-config" in row:
            key, column = (row["data-config"], row["data-stratum"]), cell["data-column"]
            exact = reported.loc[key, column]
            assert cell["data-value"] == exact
            assert text == (_format_rounded(float(exact), DIGITS[column]) if exact else "–")
            n_cells[*key, column] = n_cells.get((*key, column), 0) + 1
    rows = findings.of("propagation")
    assert set(n_cells) == {(row.config, row.stratum, name) for row in rows.itertuples() for name in DIGITS}
    assert set(n_cells.values()) == {1}


def test_the_page_opens_with_sentences_about_the_first_specification(html, findings):
    displayed = findings.of("propagation").query("protocol == 'paper'")
    mean, sd = (_format_rounded(getattr(displayed["rho"], name)(), 2) for name in ("mean", "std"))
    above = (displayed["rho"] > displayed["placebo_q95"]).sum()
    counts = f"over {displayed['rho'].count()} analyses; {above} of {displayed['placebo_q95'].count()} exceed"
    assert f"Mean ρ is {mean} ± {sd} (SD) {counts} the 95th percentile" in html.text
    head = html.text[: html.text.index("What is missing")]
    assert "analyses of a group and valence, the level of carry-over differs from chance (q ≤ .05)" in head


def test_the_page_keeps_the_rules_of_pages_and_numbers_faces(html, page_path):
    check_page(page_path, html)
    assert [attributes for tag, attributes in html.tags if tag == "script"] == [
        {"type": "application/json", "id": "explorer-data"}, {}, {},
    ]  # fmt: skip
    assert "face no. 1" in (page_path.parent / "tables" / "contributors.csv").read_text(encoding="utf-8")
    assert "face no. 1" in html.text
    # Words are not anonymised.
    assert "word29" in html.text


def test_figures_are_pixels_and_vectors_at_two_widths(page_path):
    folder = page_path.parent / "figures"
    pixels, vectors, printed = (
        {path.stem for path in folder.glob(f"*.{kind}")} for kind in ("png", "svg", "pdf")
    )
    assert pixels - vectors == {name for name in pixels if name.startswith("scatter-")}
    assert vectors == printed <= pixels
    narrow = {path.name for path in (folder / "acl").iterdir()}
    stems = [name for name in vectors if name.startswith(("level-", "rho-"))]
    assert len(stems) == 2 * len(FEW)
    assert {f"{name}.{kind}" for name in stems for kind in ("png", "svg", "pdf")} <= narrow
    for file, inches in (
        (folder / f"{stems[0]}.svg", COLUMN_WIDTH),
        (folder / "acl" / f"{stems[0]}.svg", ACL_COLUMN_WIDTH),
    ):
        points = re.search(r'width="([\d.]+)pt"', file.read_text(encoding="utf-8"))[1]
        assert float(points) == pytest.approx(72 * inches, abs=0.01)
        with Image.open(file.with_suffix(".png")) as picture:
            assert picture.width == pytest.approx(DPI * inches, abs=1)


def test_figures_about_a_name_with_a_control_character_are_valid(tmp_path):
    save_drawing(Drawing("figure", Figure(), "of A\x0b", "Points of A\x0b."), tmp_path)
    svg = ElementTree.parse(tmp_path / "figure.svg").getroot()
    assert [svg.find(f"{{*}}{name}").text for name in ("title", "desc")] == ["of A ", "Points of A ."]
    assert (tmp_path / "figure.pdf").stat().st_size


def test_missing_results_are_reported_with_their_reason(html, findings):
    for message in (
        "Failed, 1 job: disk full: <b>/data</b> model=toy_x",
        "Not applicable, 1 job: k=500 reaches the 90 scenes",
        "Without results, 1 job: the run was deleted model=toy_z",
        "never ended: 1 model=toy_y exp=faces_to_words",
    ):
        assert message in html.text
    (row,) = findings.of("propagation").query("rho.isna()").to_dict("records")
    analysis = " ".join(f"{row['model']}, {row['exp']}, {row['stratum']} (k_100, seed 0)".split())
    assert f"Without ρ, 1 analysis: every unit has the same outcome {analysis}" in html.text


def test_the_page_of_a_sweep_without_results_says_so(tmp_path):
    text = ParsedPage(page.write(factory.build(), tmp_path).read_text(encoding="utf-8")).text
    assert "No job of this sweep has a result yet" in text
    assert "The sweep is KILLED, not FINISHED." in text
    assert "model=toy_s exp=faces_to_words" in text


def test_disabled_analyses_are_left_out(tmp_path):
    findings = factory.draw(tmp_path / "jobs", models=("toy_s", "toy_m"), protocols=("paper",), **SMALL)
    for path in [*tmp_path.rglob("*draws.parquet"), *tmp_path.rglob("retrieved.parquet")]:
        path.unlink()
    disabled = ["ci_low", "ci_high", "placebo_mean", "placebo_q95", "p_placebo", "rho_placebo_units"]
    disabled += ["q", "level_q", *(name for name in LEVEL if name in findings.of("propagation"))]
    (tmp_path / "report").mkdir()
    reduced = findings.with_frame("propagation", findings.of("propagation").drop(columns=disabled))
    result = ParsedPage(page.write(reduced, tmp_path / "report").read_text(encoding="utf-8"))
    assert "percentile of their placebo" not in result.text
    assert "differs from chance" not in result.text
    assert "Fewer than two analyses have a placebo" in result.text
    assert "What is retrieved that moves" not in result.text


# Several sweeps in one report: every analysis once.


def test_answers_of_two_languages_are_merged_in_a_report(tmp_path):
    english, chinese = choices.analyses("llama2_en", "subtler_en"), choices.analyses("qwen_zh", "subtler_zh")
    git = {"git.commit": "f" * 40, "git.dirty": "false"}
    first = choices.findings(english, sweep="a" * 32, provenance={**git, "command": "one", "input.x": "1"})
    second = choices.findings(
        chinese, sweep="b" * 32, started="2026-02-01T10:00:00+00:00", missing=["task=subtler_zh"],
        provenance={**git, "git.dirty": "true", "command": "two", "input.x": "2", "input.y": "3"},
    )  # fmt: skip
    result = merge([first, second])
    pd.testing.assert_frame_equal(result.of("subtler"), pd.concat([english, chinese], ignore_index=True))
    assert result.missing == ["task=subtler_zh"]
    assert (result.sweep, result.started) == (f"{'a' * 32}, {'b' * 32}", "2026-02-01T10:00:00+00:00")
    assert result.provenance == {
        "git.commit": "f" * 40,
        "git.dirty": "true",
        "command": "one\ntwo",
        "input.x, sweep aaaaaaaa": "1",
        "input.x, sweep bbbbbbbb": "2",
        "input.y, sweep bbbbbbbb": "3",
    }
    assert len(merge([first, replace(first, sweep="c" * 32)]).of("subtler")) == len(english)
    html = ParsedPage(page.write(result, tmp_path).read_text(encoding="utf-8"))
    assert "subtler-compared" in {attributes.get("id") for _, attributes in html.tags}


def test_q_corrects_over_the_analyses_of_all_sweeps(tmp_path):
    first = factory.draw(tmp_path / "one", models=("a",), protocols=("paper",), **SMALL)
    second = factory.draw(tmp_path / "two", models=("b",), protocols=("paper",), status="KILLED", **SMALL)
    second.of("propagation")["p_placebo"] /= 40
    second.of("propagation")["config"] += "b"
    second = replace(second, folders={f"{config}b": folder for config, folder in second.folders.items()})
    result = merge([first, second])
    p = pd.concat([findings.of("propagation")["p_placebo"] for findings in (first, second)]).dropna()
    q = result.of("propagation")["q"].dropna()
    assert q.tolist() == pytest.approx(stats.false_discovery_control(p).tolist())
    assert result.status == "KILLED"
    assert result.models["model"].tolist() == ["a", "b"]
    assert merge([first]) is first


def test_a_job_that_has_results_in_another_sweep_is_not_missing():
    job = {"config": "c", "status": "failed", "reason": "disk full", "overrides": "model=a"}
    lost = {"config": "d", "status": "missing", "overrides": "model=b"}
    other = job | {"config": "e", "overrides": "model=c"}
    jobs = [build_jobs_table([job, lost, other])]
    # The lost job was repeated by another command.
    again = [job | {"status": "finished"}, lost | {"status": "finished", "overrides": "model=b seed=0"}]
    jobs.append(build_jobs_table([*again, {"config": "f", "status": "taken_over", "overrides": "model=d"}]))
    first = factory.build(jobs=jobs[0], missing=["model=d", "model=e"])
    result = merge([first, factory.build(jobs=jobs[1], missing=[], sweep="1" * 32)])
    assert result.jobs["status"].tolist() == ["failed", "finished", "finished", "taken_over"]
    assert result.jobs["overrides"].tolist() == ["model=c", "model=a", "model=b seed=0", "model=d"]
    assert result.missing == ["model=e"]


def test_different_results_of_a_config_are_refused(tmp_path):
    def find(sweep, **options):
        analyses = choices.analyses("answers", "subtler_en", **options)
        results.write(tmp_path / sweep, analyses, {})
        folders = {analyses["config"].iloc[0]: tmp_path / sweep / "results"}
        return choices.findings(analyses, sweep=sweep * 32, folders=folders)

    first, again, other = find("a"), find("b"), find("c", lean=0.7)
    assert len(merge([first, again]).of("subtler")) == len(first.of("subtler"))
    message = r"^sweep=a{8},c{8}: expected the same results of answers, subtler_en, .*llm\.name"
    with pytest.raises(InputError, match=message):
        merge([first, again, other])


def _format_rounded(value, digits):
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")


@pytest.fixture
def described(monkeypatch):
    """Return a function that describes a table of as many rows as given."""

    def describe(rows, **options):
        table = Table(title="lab: ρ", caption="mean")
        table.add_column("model")
        table.add_column(Text("ρ|x"), justify="right")
        for number in range(rows):
            table.add_row(f"m_{number}", Text("<b>0.5</b>"))
        report = StudyReport(
            conclusions=lambda analyses: [f"{len(analyses)} analyses."],
            terminal=lambda *_: [table, "and a line"],
        )
        monkeypatch.setattr(markdown, "load_report", lambda _: report)
        return markdown.describe({"study": pd.DataFrame({"rho": [0.5, 0.6]})}, "lab", **options)

    return describe


def test_a_description_says_the_result_in_words_with_a_table(described):
    assert described(1, lead="Jobs: 1 finished.") == "\n".join(
        [
            *("Jobs: 1 finished.", "", "- 2 analyses.", "", "**lab: ρ**", "", r"| model &nbsp;| ρ\|x |"),
            *("|---|---:|", r"| m_0 &nbsp;| \<b\>0.5\</b\> |", "", "mean", "", "and a line"),
        ]
    )


@pytest.mark.parametrize("rows", [50, 5000])
def test_a_table_that_is_too_long_is_cut_by_rows_with_a_note(described, rows):
    text = described(rows, limit=1000)
    assert len(text) <= 1000
    omitted, total = map(int, re.search(r"\*(\d+) of (\d+) rows are left out", text).groups())
    assert total == rows
    assert text.count("| m_") == rows - omitted > 10
    assert text.endswith("and a line")


def test_the_page_shows_whether_models_are_verified(tmp_path):
    findings = factory.draw(tmp_path / "jobs", models=("toy_s",), protocols=("paper",), **SMALL)
    models = findings.models.assign(pretraining="laion2b", family="ViT-B-32, laion2b", verified="failed")
    (tmp_path / "report").mkdir()
    html = page.write(replace(findings, models=models), tmp_path / "report").read_text("utf-8")
    assert '<td class="name">ViT-B-32, laion2b</td><td class="name">failed</td>' in html


def test_the_guide_names_the_scores_of_the_first_specification(tmp_path):
    findings = factory.draw(tmp_path / "jobs", models=("toy_s",), protocols=("k_100", "paper"), **SMALL)
    analyses = findings.of("propagation")
    names = {f"{score}_label": f"another {score} score" for score in ("intrinsic", "extrinsic")}
    labels = {column: analyses["protocol"].map({"k_100": name}) for column, name in names.items()}
    (tmp_path / "report").mkdir()
    labelled = findings.with_frame("propagation", analyses.assign(**labels))
    text = ParsedPage(page.write(labelled, tmp_path / "report").read_text(encoding="utf-8")).text
    assert "(the intrinsic score, SC-EAT) with what is retrieved (the extrinsic score)." in text
