"""MLflow's pages as a user sees them, in a headless browser: a sweep, its parent, a comparison."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from mlflow import MlflowClient

from tests.conftest import SHRUNK, places
from tests.paths import CHECKOUT
from tests.sweeps import command

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
SCREENSHOTS = CHECKOUT / "outputs" / "ui"

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="chromium or chromedriver is not installed: make system"
)


@pytest.fixture(scope="module")
def store(kept, sweeps, tmp_path_factory):
    """A store of its own, with one sweep in it."""
    folder = tmp_path_factory.mktemp("ui")
    tracked = f"tracking.uri=sqlite:///{folder}/mlruns/mlflow.db"
    swept = command(folder / "o", "-m", "exp=glob(*_to_*)", *SHRUNK, *places(kept), tracked)
    assert swept.code == 0
    return folder / "mlruns" / "mlflow.db"


@pytest.fixture(scope="module")
def server(store):
    """As `make ui`, on a free port; stopped by its own id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen(
        [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", f"sqlite:///{store}"]
        + ["--host", "127.0.0.1", "--port", str(port)],
        cwd=store.parent, start_new_session=True,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            _until(lambda: urllib.request.urlopen(f"{address}/health", timeout=5).status == 200, 90)
            yield address
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def _until(true, seconds):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def browser(server):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    arguments = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1500,950"
    for argument in arguments.split():
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.get(server)
    # As after a user's first visit: pages for training, the assistant's panel closed.
    for key, value in {
        "workflowType": '"machine_learning"',
        "assistant.fab.autoOpenedOnFirstLoad": "true",
    }.items():
        driver.execute_script("localStorage.setItem(arguments[0], arguments[1])", f"mlflow.{key}_v1", value)
    yield driver
    driver.quit()


@pytest.fixture
def shown(server, browser):
    """Opens a page, waits for texts on it, keeps a screenshot, gives all its text."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def look(path, name, *texts):
        from selenium.webdriver.common.by import By

        def text():
            return browser.find_element(By.TAG_NAME, "body").text

        browser.get(f"{server}/#/{path}")
        _until(lambda: all(wanted in text() for wanted in texts), 60)
        browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
        return text()

    return look


@pytest.fixture(scope="module")
def runs(store):
    client = MlflowClient(f"sqlite:///{store}")
    (experiment,) = [e for e in client.search_experiments() if e.name == "demo"]
    found = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in found if run.data.tags["kind"] == "sweep"]
    children = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    return experiment.experiment_id, parent, children


def test_the_experiment_lists_the_sweep(shown, runs):
    experiment, _, _ = runs
    shown(f"experiments/{experiment}/runs", "experiment", "demo", "sweep")


def test_the_parent_shows_what_was_found(shown, runs):
    experiment, parent, _ = runs
    text = shown(f"experiments/{experiment}/runs/{parent.info.run_id}", "parent", "analyses", "rho_sd")
    assert "38" in text
    shown(
        f"experiments/{experiment}/runs/{parent.info.run_id}/artifacts/summary/heatmap.png",
        "heatmap", "heatmap.png", "summary.csv", "jobs.csv",
    )  # fmt: skip


def test_children_can_be_compared(shown, runs):
    experiment, _, children = runs
    assert len(children) == 8
    ids = ",".join(f'"{run.info.run_id}"' for run in children[:3])
    names = [f"{run.data.tags['exp']}" for run in children[:3]]
    path = f'compare-runs?runs=[{ids}]&experiments=["{experiment}"]'
    text = shown(path, "compare", "Comparing 3 Runs", "protocol.k", *names)
    assert "rho" in text


def test_a_job_shows_what_it_read(shown, runs):
    experiment, _, children = runs
    (run,) = [run for run in children if run.data.tags["exp"] == "faces_to_words"]
    text = shown(f"experiments/{experiment}/runs/{run.info.run_id}", "job", "Datasets", "demo faces")
    assert run.data.tags["input.faces"][:36] in text
