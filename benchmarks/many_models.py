"""Write precomputed models whose bias grows from one to the next, and view the report of a sweep of them."""

import resource
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.sizes import Size
from benchmarks.stand_ins import EXPERIMENTS, job_config, paper_tables, write
from benchmarks.timing import MEMORY_UNIT
from src.report import load, publish
from src.report.__main__ import find_sweep
from src.studies.protocol import load_study
from src.tracking import Tracker

WIDTH = 64
# Experiments of each model that need prompts; all experiments of each model.
PROMPTED = (
    *("cles_competence", "cles_emotions", "cles_semantic", "cles_warmth", "iat_semantic"),
    *("sobit_association", "sobit_retrieval", "sobit_strength"),
)
MODEL_EXPERIMENTS = (*EXPERIMENTS, *PROMPTED, "scenes_zero_shot")
# Override of the number of frequent words that a taxonomy is compared with; overrides of all numbers of
# draws: each table and column is written, but a job takes little more than its overhead.
VOCABULARY = "protocol.vocabulary=100"
FEW_DRAWS = (
    *(VOCABULARY, "protocol.placebo=99", "protocol.property_draws=0", "protocol.attribute_draws=1"),
    *("protocol.permutations=99", "protocol.partitions=99", "protocol.bootstrap=99"),
)
# Norms of the common component, and of those of groups and valence at full bias; the noise has about 1.
SHARED, SIGNAL = 2.0, 0.3
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Seconds to wait for the first view.
VIEW_SECONDS = 60


def write_models(size: Size, folder: Path) -> list[Path]:
    """Write vectors of `size.many_models` models in the format of `model=precomputed`; return their folders.

    Scenes and words have a direction of their valence. Faces and labels have one of their group, and that of
    valence times the number of the group times the bias. The bias rises from 0 in the first model to 1 in the
    last.
    Prompts have only the direction that all stimuli share.
    """
    tables = paper_tables(size) | {"prompts": list_prompts()}
    tables["faces"][["race", "gender"]] = tables["faces"]["group"].str.split(" ", expand=True)
    folders = [folder / f"model_{number:03d}" for number in range(size.many_models)]
    for number, path in enumerate(folders):
        path.mkdir()
        write_biased(tables, number, number / max(1, size.many_models - 1), WIDTH, path)
    return folders


def write_biased(
    tables: Mapping[str, pd.DataFrame], seed: int, bias: float, width: int, folder: Path
) -> None:
    """Write tables by role and their vectors, with a bias from 0 to 1, as those of `write_models`."""
    rng, groups = np.random.default_rng(seed), sorted(tables["faces"]["group"].unique())
    # The last two directions are those of valence and of what all stimuli share.
    directions = np.linalg.qr(rng.standard_normal((width, len(groups) + 2)))[0].T
    for role, frame in tables.items():
        write(role, frame, _vectors(frame, groups, directions, bias, rng), folder)


def list_prompts() -> pd.DataFrame:
    """List the sentences of all prompts of `PROMPTED`, each once."""
    sentences: set[str] = set()
    for exp in PROMPTED:
        cfg = job_config("model=precomputed", "model.path=.", f"exp={exp}", VOCABULARY)
        prompts = load_study(cfg.exp).prompts(cfg)
        assert prompts is not None
        sentences |= {*prompts.frame["sentence"]}
    return pd.DataFrame({"id": sorted(sentences), "sentence": sorted(sentences)})


def _vectors(
    frame: pd.DataFrame, groups: list[str], directions: np.ndarray, bias: float, rng: np.random.Generator
) -> np.ndarray:
    width = directions.shape[1]
    vectors = rng.standard_normal((len(frame), width)) / np.sqrt(width) + SHARED * directions[-1]
    if "group" in frame:
        number = frame["group"].map(groups.index).to_numpy()
        valence = bias * (number / (len(groups) - 1) - 0.5)
        vectors += SIGNAL * directions[number]
    elif "valence" in frame:
        valence = frame["valence"].to_numpy() - 0.5
    else:
        valence = np.zeros(len(frame))
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
        wait = WebDriverWait(browser, VIEW_SECONDS, poll_frequency=0.02)
        wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, "#explorer .forest svg"))
        return time.perf_counter() - start
    finally:
        browser.quit()
