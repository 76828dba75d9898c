"""Check MLflow's pages of a sweep of three models and eight experiments in a headless browser."""

import importlib.util
import sys

import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By

from src.tracking import Tracker, run_tags
from tests.commands import SMALL, command
from tests.conftest import precomputed, store_overrides
from tests.launched import runs_of
from tests.paths import CHECKOUT
from tests.tracking import servers

pytestmark = pytest.mark.thorough

SCREENSHOTS = CHECKOUT / "outputs" / "ui"
MODELS = ("a", "b", "c")


@pytest.fixture(scope="module")
def pictures():
    """Return the module that takes the pictures of the manual."""
    spec = importlib.util.spec_from_file_location("pictures", CHECKOUT / ".ci" / "pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def store(chromium, tmp_path_factory):
    database = tmp_path_factory.mktemp("ui") / "mlruns" / "mlflow.db"
    Tracker(f"sqlite:///{database}")
    return database


@pytest.fixture(scope="module")
def server(store):
    """Start the server of `make ui` on a free port."""
    port = servers.free_port()
    command = [sys.executable, "-m", "mlflow", "ui"]
    command += ["--backend-store-uri", f"sqlite:///{store}", "--host", "127.0.0.1"]
    environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    log = store.with_name("server.log")
    with servers.run_server([*command, "--port", str(port)], port, log, environment) as address:
        yield address


@pytest.fixture(scope="module")
def browser(server, chromium):
    chromium.get(server)
    # State after a first visit: pages for training are chosen, the assistant's panel is closed.
    settings = {"workflowType": '"machine_learning"', "assistant.fab.autoOpenedOnFirstLoad": "true"}
    for key, value in settings.items():
        chromium.execute_script("localStorage.setItem(arguments[0], arguments[1])", f"mlflow.{key}_v1", value)
    return chromium


@pytest.fixture
def open_page(server, browser):
    """Return a function that opens a page, waits for texts on it, and returns all its text."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def open_path(path, name, *texts, frame="", ready=lambda _: True):
        def text():
            browser.switch_to.default_content()
            try:
                if frame:
                    browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, frame))
                return browser.find_element(By.TAG_NAME, "body").text
            except WebDriverException:  # not loaded yet, or just being redrawn
                return ""

        browser.get(f"{server}/#/{path}")
        servers.until(lambda: all(wanted in text() for wanted in texts) and ready(browser), 60, path)
        browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
        page_text = text()
        browser.switch_to.default_content()
        return page_text

    return open_path


@pytest.fixture(scope="module")
def swept(store, tmp_path_factory):
    """Return the parent run and its 24 children."""
    folder = tmp_path_factory.mktemp("three")
    labs = ",".join(str(precomputed(folder / name, seed)) for seed, name in enumerate(MODELS))
    arguments = ["-m", "model=precomputed", f"model.path={labs}", "exp=glob(*_to_*)", *SMALL]
    uri = f"sqlite:///{store}"
    arguments += [*store_overrides(folder), "report=true", f"tracking.uri={uri}"]
    assert command(folder / "o", *arguments).code == 0
    (parent,), children = runs_of(uri)
    assert len(children) == 24
    return parent, children


def test_the_experiment_lists_the_sweep_and_the_parent_its_results(open_page, swept):
    parent, _ = swept
    experiment = f"experiments/{parent.info.experiment_id}/runs"
    open_page(experiment, "experiment", "precomputed", "a, b, c ×")
    page = f"{experiment}/{parent.info.run_id}"
    text = open_page(page, "parent", "analyses", "rho_sd", "python -m src.run", "Jobs: 24 finished.")
    assert parent.data.tags["mlflow.user"] in text
    assert parent.data.tags["mlflow.source.git.commit"][:7] in text
    open_page(f"{page}/artifacts/summary/heatmap.png", "heatmap", "heatmap.png", "summary.csv", "jobs.csv")


def test_a_job_lists_its_inputs(open_page, swept):
    _, children = swept
    run = next(run for run in children if run.data.tags["exp"] == "faces_to_words")
    page = f"experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    text = open_page(page, "job", "Datasets", "precomputed faces", " · faces_to_words", "Description")
    assert run_tags.to_facts(run.data.tags)["input.faces"][:36] in text


def test_the_report_opens_as_an_artifact(open_page, swept):
    parent, _ = swept
    page = f"experiments/{parent.info.experiment_id}/runs/{parent.info.run_id}"
    text = open_page(
        f"{page}/artifacts/report/index.html", "report", "precomputed", parent.info.run_id, frame="iframe"
    )
    for content in ("faces_to_words", "words_to_scenes", f"{parent.data.metrics['rho']:.2f}"):
        assert content in text


def test_a_server_that_ends_is_named(pictures, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(SystemExit, match="MLflow's server ended"), pictures.mlflow_ui("sqlite:///x.db"):
        pass


def test_twenty_four_jobs_can_be_compared(open_page, swept):
    parent, children = swept
    ids = ",".join(f'"{run.info.run_id}"' for run in children)
    path = f'compare-runs?runs=[{ids}]&experiments=["{parent.info.experiment_id}"]'

    def drawn(browser):
        return "rho" in [title.text for title in browser.find_elements("css selector", ".axis-title")]

    open_page(path, "compare-24", "Comparing 24 Runs", "Parallel Coordinates Plot", ready=drawn)


@pytest.fixture
def visit(pictures, server, chromium, swept):
    """Return a first visit to MLflow's pages, which remember nothing."""
    first = pictures.Visit(chromium, server)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return first


def rho(children, model, exp):
    """Return ρ of a job as MLflow's charts and descriptions round it."""
    names = model, exp
    (run,) = [run for run in children if (run.data.params["model"], run.data.params["exp"]) == names]
    return f"{run.data.metrics['rho']:.2f}"


def test_three_models_are_compared_on_rho_by_experiment_in_five_clicks(visit, swept):
    _, children = swept
    visit.browser.set_window_size(1800, 1000)
    charts = visit.compare_models("precomputed")
    visit.browser.save_screenshot(str(SCREENSHOTS / "compare-models.png"))
    assert visit.clicks == 5
    for text in charts:
        title, *labels = text.splitlines()
        exp = title.removeprefix("compare_rho/")
        assert {rho(children, model, exp) for model in MODELS} <= {*labels}
        assert {*MODELS} <= {*labels}


def test_a_sweep_describes_rho_of_three_models_by_experiment_in_four_clicks(visit, swept, pictures):
    parent, children = swept
    visit.open_experiment("precomputed")
    visit.click(pictures.LABEL.format(parent.info.run_name))
    visit.click(pictures.LABEL.format("Show more"))
    visit.see("above placebo")
    visit.browser.save_screenshot(str(SCREENSHOTS / "description.png"))
    assert visit.clicks == 4
    lines = visit.text().splitlines()
    for exp in ("faces_to_words", "words_to_scenes"):
        (row,) = [line for line in lines if line.startswith(f"{exp} ")]
        assert all(rho(children, model, exp) in row for model in MODELS)
