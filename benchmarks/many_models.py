"""Write precomputed models whose bias grows from one to the next, and view the report of a sweep of them."""

import resource
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.sizes import Size
from benchmarks.stand_ins import paper_tables, write
from benchmarks.timing import MEMORY_UNIT
from src.report import load, publish
from src.report.__main__ import find_sweep
from src.tracking import Tracker

WIDTH = 64
# Lengths of the common direction, and of those of groups and valence at full bias; the noise has 1.
SHARED, SIGNAL = 2.0, 0.3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Seconds to wait for the first view.
PATIENCE = 60


def write_models(size: Size, folder: Path) -> list[Path]:
    """Write vectors of `size.many_models` models in the format of `model=precomputed`; return their folders.

    Scenes and words have a direction of their valence, faces and labels one of their group, and of a valence
    that grows with the number of the group. From the first model to the last, the latter grows from none.
    """
    tables = paper_tables(size)
    groups = sorted(tables["faces"]["group"].unique())
    folders = []
    for number in range(size.many_models):
        rng = np.random.default_rng(number)
        bias = number / max(1, size.many_models - 1)
        # The last two directions are those of valence and of what all stimuli share.
        directions = np.linalg.qr(rng.standard_normal((WIDTH, len(groups) + 2)))[0].T
        path = folder / f"model_{number:03d}"
        path.mkdir()
        for role, frame in tables.items():
            write(role, frame, _vectors(frame, groups, directions, bias, rng), path)
        folders.append(path)
    return folders


def _vectors(
    frame: pd.DataFrame, groups: list[str], directions: np.ndarray, bias: float, rng: np.random.Generator
) -> np.ndarray:
    vectors = rng.standard_normal((len(frame), WIDTH)) / np.sqrt(WIDTH) + SHARED * directions[-1]
    if "group" in frame:
        number = frame["group"].map(groups.index).to_numpy()
        valence = bias * (number / (len(groups) - 1) - 0.5)
        vectors += SIGNAL * directions[number]
    else:
        valence = frame["valence"].to_numpy() - 0.5
    vectors += 2 * SIGNAL * valence[:, None] * directions[-2]
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def draw(database: Path, folder: Path) -> tuple[float, float, float]:
    """Draw the report of the newest sweep in a database into a new folder.

    Returns the seconds to load the results from the store, the seconds to draw the report, and the peak
    memory of the process (10^6 bytes).
    """
    tracker = Tracker(f"sqlite:///{database}", make=False)
    with tempfile.TemporaryDirectory() as copies:
        start = time.perf_counter()
        findings = load.load_merged(tracker, [find_sweep(tracker, "latest", "")], Path(copies))
        loaded = time.perf_counter()
        publish.publish(findings, folder)
        drawn = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEMORY_UNIT
    return loaded - start, drawn - loaded, peak / 1e6


def seconds_to_first_view(page: Path) -> float | None:
    """Open a page in a headless browser; return the seconds until its first plot is drawn.

    None if no browser is installed.
    """
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        return None
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,1000"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        browser.get("about:blank")
        start = time.perf_counter()
        browser.get(page.as_uri())
        wait = WebDriverWait(browser, PATIENCE, poll_frequency=0.02)
        wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, "#explorer .forest svg"))
        return time.perf_counter() - start
    finally:
        browser.quit()
