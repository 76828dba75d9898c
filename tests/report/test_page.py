"""The page says what analyses.csv says, says what is missing, and needs nothing beside it."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from src.report import format, page
from src.storage import results
from tests.report import made

FEW = ("scenes_to_words", "faces_to_words", "labels_to_scenes", "words_to_faces")
DRAWS = {"bootstrap": 60, "placebo": 39, "family": 19, "property": 20, "attributes": 5}
SMALL = {"experiments": {exp: made.PAPER[exp] for exp in FEW}, "size": 20, "draws": DRAWS}
SMALL["groups"] = ["Black Women", made.HOSTILE]
DIGITS = {column.name: column.digits for column in format.COLUMNS}


class Read(HTMLParser):
    """Every tag with its attributes, and cells with the row that they stand in and the text they show."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.cells, self.row, self.cell, self.shown = [], [], None, None, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self.shown.append("" if tag == "wbr" else " ")
        if tag == "tr":
            self.row = attributes
        elif tag == "td" and "data-column" in attributes:
            self.cell = [self.row, attributes, ""]
            self.cells.append(self.cell)

    def handle_endtag(self, tag):
        if tag == "td":
            self.cell = None

    def handle_data(self, data):
        if self.tags and self.tags[-1][0] != "style":
            self.shown.append(data)
        if self.cell:
            self.cell[2] += data

    @property
    def text(self):
        return " ".join("".join(self.shown).split())


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    models, readings = ("toy_s", made.HOSTILE), ("k_100", "paper")
    return made.made(tmp_path_factory.mktemp("jobs"), models=models, readings=readings, **SMALL)


@pytest.fixture(scope="module")
def written(findings, tmp_path_factory):
    return page.write(findings, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def read(written):
    return Read(written.read_text(encoding="utf-8"))


def test_every_number_of_the_page_is_that_of_analyses_csv(written, read, findings):
    # Read as text: what stands there, not what a parser of numbers makes of it.
    told = pd.read_csv(written.parent / "tables" / "analyses.csv", dtype=str, keep_default_na=False)
    told = told.set_index(["config", "stratum"])
    met = {}
    for row, cell, text in read.cells:
        if row and "data-config" in row:
            key, column = (row["data-config"], row["data-stratum"]), cell["data-column"]
            exact = told.loc[key, column]
            assert cell["data-value"] == exact
            assert text == (_rounded(float(exact), DIGITS[column]) if exact else "–")
            met[*key, column] = met.get((*key, column), 0) + 1
    first = findings.of("propagation")[findings.of("propagation")["protocol"] == "paper"]
    wanted = {(row.config, row.stratum, name) for row in first.itertuples() for name in DIGITS}
    assert set(met) == wanted
    # Once on the model's part, once on the experiment's.
    assert set(met.values()) == {2}


def test_the_table_of_all_analyses_comes_back_to_the_last_bit(written, findings):
    found = results.read_csv(written.parent / "tables" / "analyses.csv").set_index(["config", "stratum"])
    own = findings.of("propagation").set_index(["config", "stratum"])
    assert len(found) == len(own)
    for column in ("rho", "p", "ci_low", "placebo_q95", "q", "sd_attributes"):
        np.testing.assert_array_equal(found.loc[own.index, column], own[column])


def test_the_page_starts_with_the_means_of_the_shown_reading(read, findings):
    shown = findings.of("propagation")[findings.of("propagation")["protocol"] == "paper"]
    fact = next(attributes["value"] for tag, attributes in read.tags if attributes.get("data-fact") == "mean")
    assert float(fact) == shown["rho"].mean()
    above = (shown["rho"] > shown["placebo_q95"]).sum()
    assert f"their placebo {above} of {shown['rho'].count()}" in read.text
    assert f"q ≤ .05 {(shown['q'] <= 0.05).sum()} of {shown['q'].count()}" in read.text


def test_the_page_asks_for_nothing_and_runs_nothing(read, written):
    assert not {"script", "link", "iframe", "object", "embed"} & {tag for tag, _ in read.tags}
    for tag, attributes in read.tags:
        assert not any(name.startswith("on") for name in attributes)
        if tag == "img":
            assert attributes["src"].startswith("data:image/")
            assert len(attributes["alt"]) > 20
        if "href" in attributes:
            where = attributes["href"]
            assert where.startswith("#") or (written.parent / where).is_file(), where
    targets = {attributes["id"] for _, attributes in read.tags if "id" in attributes}
    links = [attributes["href"] for _, attributes in read.tags if "href" in attributes]
    assert {link[1:] for link in links if link.startswith("#")} <= targets
    without_pictures = re.sub(r'src="data:[^"]*"', "", written.read_text(encoding="utf-8"))
    assert not re.search(r"https?:|//|@import|url\(", without_pictures)


def test_names_are_shown_as_they_are(read, written):
    assert f"Model {' '.join(made.HOSTILE.split())}" in read.text
    for path in (written.parent / "figures").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert "<script" not in text
        assert "<title id=" in text
        assert "<desc id=" in text


def test_every_figure_is_there_as_pixels_and_but_for_scatters_as_vectors(read, written):
    folder = written.parent / "figures"
    pixels, vectors = ({path.stem for path in folder.glob(f"*.{kind}")} for kind in ("png", "svg"))
    assert pixels - vectors == {name for name in pixels if name.startswith("scatter-")}
    assert vectors <= pixels
    told = set()
    for name in pixels:
        with Image.open(folder / f"{name}.png") as picture:
            told.add(picture.info["Description"])
    assert {attributes["alt"] for tag, attributes in read.tags if tag == "img"} == told


def test_what_is_missing_is_said_with_its_reason(read):
    for said in (
        "Failed, 1 job: disk full: <b>/data</b> model=toy_x",
        "Not applicable, 1 job: k=500 reaches the 90 scenes",
        "Without results, 1 job: the run was deleted model=toy_z",
        "never ended: 1 model=toy_y exp=faces_to_words",
    ):
        assert said in read.text


def test_a_rho_that_is_undefined_is_told_with_its_reason(read, findings):
    (row,) = findings.of("propagation")[findings.of("propagation")["rho"].isna()].to_dict("records")
    stratum = " ".join(row["stratum"].split())
    name = " ".join(row["model"].split())
    said = f"{name}, {row['exp']}, {stratum} (k_100, seed 0): every unit has the same outcome"
    assert f"Without ρ: 1 analysis. {said}" in read.text


def test_a_sweep_without_any_result_gives_a_page_that_says_so(tmp_path):
    text = Read(page.write(made.nothing(), tmp_path).read_text(encoding="utf-8")).text
    assert "No job of this sweep has a result yet" in text
    assert "The sweep is KILLED, not FINISHED." in text
    assert "model=toy_s exp=faces_to_words" in text


def test_what_was_switched_off_is_left_out(tmp_path):
    small = {**SMALL, "experiments": {"faces_to_words": "1-a"}, "groups": ["a", "b", "c", "d", "e"]}
    findings = made.made(tmp_path / "jobs", models=("toy_s", "toy_m"), readings=("paper",), **small)
    for folder in findings.folders.values():
        (folder / "draws.parquet").unlink()
        (folder / "retrieved.parquet").unlink()
    off = ["ci_low", "ci_high", "placebo_mean", "placebo_q95", "p_placebo", "rho_placebo_units", "q"]
    (tmp_path / "report").mkdir()
    bare = findings.with_frame("propagation", findings.of("propagation").drop(columns=off))
    found = Read(page.write(bare, tmp_path / "report").read_text(encoding="utf-8"))
    assert "placebo was switched off" in found.text
    assert "What is retrieved that moves" not in found.text


def test_faces_are_numbered_and_never_named(read, written):
    told = (written.parent / "tables" / "contributors.csv").read_text(encoding="utf-8")
    assert "face no. 1" in told
    assert "face no. 1" in read.text
    for text in (told, read.text):
        assert "CFD" not in text
    # Words are what a person should see.
    assert "word29" in read.text


def test_slugs_are_plain_and_unique():
    found = format.slugs(["A b", "a-b", "<>", "$$", "x" * 80, "x" * 90])
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,43}", slug) for slug in found.values())


@pytest.mark.parametrize(
    ("value", "shown", "machine"),
    [(-0.0012, "0.00", "-0.0012"), (-0.126, "−0.13", "-0.126"), (0.1 + 0.2, "0.30", "0.30000000000000004")]
    + [(np.nan, "–", ""), (None, "–", ""), (pd.NA, "–", ""), (np.float64(0.5), "0.50", "0.5")],
)  # fmt: skip
def test_numbers_are_rounded_for_people_and_exact_for_machines(value, shown, machine):
    assert (format.number(value), format.exact(value)) == (shown, machine)


def _rounded(value, digits):
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text.replace("-", "−")
