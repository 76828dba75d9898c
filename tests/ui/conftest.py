"""MLflow's pages in a headless browser: one store, one server and one browser for all tests of them."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from src.tracking import Tracker
from tests.paths import CHECKOUT

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
SCREENSHOTS = CHECKOUT / "outputs" / "ui"


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """A store of their own."""
    if not (BROWSER and DRIVER):
        pytest.skip("chromium or chromedriver is not installed: make system")
    database = tmp_path_factory.mktemp("ui") / "mlruns" / "mlflow.db"
    Tracker(f"sqlite:///{database}")
    return database


@pytest.fixture(scope="session")
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
            until(lambda: urllib.request.urlopen(f"{address}/health", timeout=5).status == 200, 90)
            yield address
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def until(true, seconds):
    deadline = time.monotonic() + seconds
    while True:
        try:
            if true():
                return
        except OSError:
            pass
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.5)


@pytest.fixture(scope="session")
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
    """Opens a page, waits for texts on it or in its frame, keeps a screenshot, gives all its text."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.by import By

    SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def look(path, name, *texts, frame="", ready=lambda _: True):
        def text():
            browser.switch_to.default_content()
            try:
                if frame:
                    browser.switch_to.frame(browser.find_element(By.CSS_SELECTOR, frame))
                return browser.find_element(By.TAG_NAME, "body").text
            except WebDriverException:  # not there yet, or drawn anew meanwhile
                return ""

        browser.get(f"{server}/#/{path}")
        until(lambda: all(wanted in text() for wanted in texts) and ready(browser), 60)
        browser.save_screenshot(str(SCREENSHOTS / f"{name}.png"))
        found = text()
        browser.switch_to.default_content()
        return found

    return look
