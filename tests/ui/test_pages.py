"""Three models x eight experiments in MLflow's pages: the report, and the comparison of 24 jobs."""

import time

import pytest
from mlflow import MlflowClient

from tests.commands import command
from tests.conftest import GROUPS, places, precomputed
from tests.ui.conftest import SCREENSHOTS

pytestmark = pytest.mark.thorough

SMALL = ["protocol.k=11", "protocol.extremes=6", "protocol.set_size=15", "report=true"]
SMALL += [
    "protocol.placebo=99",
    "protocol.bootstrap=99",
    "protocol.attribute_draws=3",
    "protocol.property_draws=20",
]


# The table of metrics scrolls by itself, by so many pixels.
SCROLL = """
const metrics = "//*[text()='Metrics']";
const row = document.evaluate(metrics, document, null, 9).singleNodeValue;
const tables = [...document.querySelectorAll('div')].filter((node) =>
  node.scrollHeight > node.clientHeight + 20 && ['auto', 'scroll'].includes(getComputedStyle(node).overflowY)
  && row.compareDocumentPosition(node) & 4);
tables[0].scrollTop += arguments[0];
"""


@pytest.fixture(scope="module")
def swept(store, tmp_path_factory):
    """The experiment, the parent run and its 24 children."""
    folder = tmp_path_factory.mktemp("three")
    labs = ",".join(str(precomputed(folder / name, seed)) for seed, name in enumerate(("a", "b", "c")))
    arguments = ["model=precomputed", f"model.path={labs}", "exp=glob(*_to_*)", *places(folder), *SMALL]
    assert command(folder / "o", "-m", *arguments, f"tracking.uri=sqlite:///{store}").code == 0
    client = MlflowClient(f"sqlite:///{store}")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == "precomputed"]
    found = client.search_runs([experiment])
    (parent,) = [run for run in found if run.data.tags["kind"] == "sweep"]
    return experiment, parent, [run for run in found if run.data.tags["kind"] == "job"]


def test_the_report_opens_as_an_artifact(shown, swept):
    experiment, parent, _ = swept
    path = f"experiments/{experiment}/runs/{parent.info.run_id}/artifacts/report/index.html"
    text = shown(path, "report", "precomputed", parent.info.run_id, frame="iframe")
    for exp in ("faces_to_words", "words_to_scenes"):
        assert exp in text
    assert f"{parent.data.metrics['rho']:.2f}" in text


def test_twenty_four_jobs_can_be_compared(shown, swept, browser):
    """The rows of rho, and parallel coordinates."""
    experiment, _, children = swept
    assert len(children) == 24
    ids = ",".join(f'"{run.info.run_id}"' for run in children)
    path = f'compare-runs?runs=[{ids}]&experiments=["{experiment}"]'

    def drawn(browser):
        return "rho" in [title.text for title in browser.find_elements("css selector", ".axis-title")]

    text = shown(path, "compare-24", "Comparing 24 Runs", "Parallel Coordinates Plot", ready=drawn)
    # Rows further down are drawn when they are scrolled to.
    (heading,) = browser.find_elements("xpath", "//*[text()='Metrics']")
    browser.execute_script("arguments[0].scrollIntoView()", heading)
    seen = set(text.splitlines())
    wanted = {
        "rho",
        *(f"rho.{group}" for group in GROUPS),
        "above_placebo",
        "ci_width",
        "placebo_q95",
        "validity",
    }
    for _ in range(20):
        browser.execute_script(SCROLL, 150)
        time.sleep(0.2)
        seen |= set(browser.find_element("tag name", "body").text.splitlines())
        if wanted <= seen:
            break
    assert wanted <= seen
    # MLflow's column of names stands where the values stood a scroll ago: a nudge brings both together.
    browser.execute_script(SCROLL, -2)
    time.sleep(1)
    browser.save_screenshot(str(SCREENSHOTS / "compare-24-metrics.png"))
