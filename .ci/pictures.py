"""Take the pictures of the manual from the runs of make demo: make pictures.

python .ci/pictures.py sqlite:///mlruns/mlflow.db
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver

DOCS = Path(__file__).parents[1] / "docs"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
SIZE, REPORT_SIZE = (1800, 1000), (1280, 1100)
# Seconds to wait for a page or a server, and between two attempts.
PATIENCE, PAUSE = 60.0, 0.3
# MLflow opens a panel of its assistant at the first visit.
ASSISTANT = "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1"
# Elements of MLflow's pages: a link or a switch by its text, an item of an open menu, the view of charts.
LABEL = "(//*[normalize-space()='{}'])[last()]"
ITEM = "(//*[starts-with(@role, 'menuitem')][normalize-space()='{}'])[last()]"
CHARTS = "//input[@value='CHART']/ancestor::label"
# Lines of a chart that is drawn: its title, and at least a bar and its model.
MIN_LINES = 3
CARD = "[data-testid=experiment-view-compare-runs-card]"


class Visit:
    """A visit to MLflow's pages that counts the clicks of its user.

    Attributes:
        browser: browser of the visit.
        clicks: number of clicks so far.
    """

    def __init__(self, browser: WebDriver, address: str) -> None:
        self.browser, self.clicks = browser, 0
        browser.get(address)
        browser.execute_script("localStorage.clear(); localStorage.setItem(arguments[0], 'true')", ASSISTANT)
        browser.refresh()

    def click(self, xpath: str) -> None:
        """Click the element of an XPath, as soon as the page has it."""

        def clicked() -> bool:
            self.browser.find_element(By.XPATH, xpath).click()
            return True

        wait_until(clicked, xpath)
        self.clicks += 1

    def text(self) -> str:
        """Return the text of the page."""
        return self.browser.find_element(By.TAG_NAME, "body").text

    def see(self, *texts: str) -> None:
        """Wait until the page contains texts."""
        wait_until(lambda: all(text in self.text() for text in texts), " and ".join(texts))

    def open_experiment(self, experiment: str) -> None:
        """Open the runs of an experiment from MLflow's first page, with two clicks."""
        self.click(LABEL.format("Model training"))
        self.click(LABEL.format(experiment))
        self.see("matching runs")

    def compare_models(self, experiment: str) -> list[str]:
        """Open the charts of ρ by experiment for the models of a dataset; return their texts."""
        self.open_experiment(experiment)
        self.click(LABEL.format("Group by"))
        self.click(ITEM.format("model"))
        self.click(CHARTS)
        self.see("compare_rho/")

        def charts() -> list[str]:
            cards = self.browser.find_elements(By.CSS_SELECTOR, CARD)
            return [card.text for card in cards if len(card.text.splitlines()) > MIN_LINES]

        wait_until(lambda: len(charts()) >= 3, "charts")
        return charts()


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds on a page that is being drawn, or raise `TimeoutError`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with suppress(WebDriverException):
            if condition():
                return
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: did not appear within {PATIENCE:g} s")
        time.sleep(PAUSE)


@contextmanager
def chromium() -> Iterator[WebDriver]:
    """Provide a headless browser, or exit with a remedy where none is installed."""
    program, driver = next(filter(None, map(shutil.which, PROGRAMS)), None), shutil.which("chromedriver")
    if not (program and driver):
        sys.exit("chromium or chromedriver is not installed. Install them: make system")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    browser = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        browser.set_window_size(*SIZE)
        yield browser
    finally:
        browser.quit()


@contextmanager
def mlflow_ui(store: str) -> Iterator[str]:
    """Start MLflow's pages of a store on a free port of 127.0.0.1; yield their address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", store, "--host", "127.0.0.1"]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    process = subprocess.Popen(
        [*command, "--port", port],
        env=environment, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        if process.poll() is not None:
            sys.exit(
                f"MLflow's server ended. Start it for its message: mlflow ui --backend-store-uri {store}"
            )
        with suppress(OSError):
            return urllib.request.urlopen(f"{address}/health", timeout=5).status == 200
        return False

    try:
        wait_until(answers, "MLflow's server")
        yield address
    finally:
        with suppress(ProcessLookupError):  # the server may have ended
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def take_mlflow(browser: WebDriver, store: str) -> None:
    """Take docs/mlflow.png: charts of ρ by experiment for the models of the dataset `demo`."""
    with mlflow_ui(store) as address:
        Visit(browser, address).compare_models("demo")
        browser.save_screenshot(str(DOCS / "mlflow.png"))


def take_report(browser: WebDriver, store: str) -> None:
    """Take docs/report.png: the explorer in the report of the newest sweep of the dataset `demo`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "src.report",
            "sweep=latest",
            "dataset=demo",
            f"tracking.uri={store}",
        ]
        subprocess.run([*command, f"output={folder}/report"], check=True, stdout=subprocess.DEVNULL)
        browser.set_window_size(*REPORT_SIZE)
        browser.get(Path(folder, "report", "index.html").as_uri())
        explorer = browser.find_element(By.ID, "explorer")
        plots = (By.CSS_SELECTOR, ".plots svg.marks")
        wait_until(lambda: len(explorer.find_elements(*plots)) == 2, "both plots")
        browser.execute_script("arguments[0].scrollIntoView({behavior: 'instant'})", explorer)
        browser.save_screenshot(str(DOCS / "report.png"))
        browser.set_window_size(*SIZE)


# Pictures of the manual; each function writes its own from the runs of a store.
PICTURES = (take_mlflow, take_report)


def main(arguments: list[str]) -> int:
    """Take all pictures from the runs of a store; return the exit status."""
    if len(arguments) != 1 or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return int(len(arguments) != 1)
    database = Path(arguments[0].removeprefix("sqlite:///"))
    if not database.is_file():
        print(f"{database}: no such database. Run the demo first: make demo", file=sys.stderr)
        return 1
    with chromium() as browser:
        for take in PICTURES:
            take(browser, arguments[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
