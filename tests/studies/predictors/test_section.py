"""Check the report's section on predictors."""

import pandas as pd
import pytest

from src.report import page
from tests.report import factory
from tests.report.conftest import ParsedPage, check_page, pictures
from tests.studies.predictors import model_facts


@pytest.fixture(scope="module")
def findings():
    facts = model_facts.draw_facts(12).astype({"filter": object})
    facts.loc[0, ["filter", "family"]] = ["unknown", factory.HOSTILE]
    tests = model_facts.draw_tests(facts, orders=["image_text"])
    return factory.build(models=facts, eat=tests, status="FINISHED", missing=[])


def test_the_page_has_associations_shares_and_what_is_unknown(findings, html, page_path):
    check_page(page_path, html)
    tables = {
        name: pd.read_csv(page_path.parent / "tables" / f"{name}.csv", keep_default_na=False, na_values=[""])
        for name in ("predictors", "predictors-shares")
    }
    cells = {
        attributes["data-column"]: attributes for row, attributes, _ in html.cells if "data-outcome" in row
    }
    associations = tables["predictors"].set_index("predictor")
    for predictor, value in associations["value"].items():
        assert float(cells[predictor]["data-value"]) == pytest.approx(value)
    shares = [
        float(attributes["data-value"])
        for row, attributes, _ in html.cells
        if "data-outcome" in row and attributes["data-column"] == "share"
    ]
    defined = tables["predictors-shares"].dropna(subset=["share"])
    assert shares == pytest.approx(defined["share"].tolist())
    assert {*defined["left_out"]} == {1}
    # The family with an unknown filter is named.
    assert "filter, 1: <script>alert" in html.text
    assert "training data: not entered: they determine the filter, which is entered instead" in html.text
    assert "Observational, from declared data" in html.text
    assert pictures(page_path.parent)["predictors-d"].startswith("Forest plot. What predicts mean |d|")


def test_a_page_without_families_says_how_many_are_needed(tmp_path):
    facts = model_facts.draw_facts(3).assign(pretraining="none")
    findings = factory.build(models=facts, eat=model_facts.draw_tests(facts), status="FINISHED")
    parsed = ParsedPage(page.write(findings, tmp_path).read_text(encoding="utf-8"))
    # Models with random weights (pretraining "none") are left out: they belong to no family.
    assert "No association: 0 families, of which fewer than 6 have known values." in parsed.text
