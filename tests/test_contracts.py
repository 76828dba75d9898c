"""The import contracts guard what is added to src/, not only what is there."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import CHECKOUT

LINT, RUFF = (Path(sys.executable).with_name(name) for name in ("lint-imports", "ruff"))
NEW = {
    "newcomer.py": "import hydra\n",
    "stimuli/newcomer.py": "import mlflow\n\n\ndef f():\n    from hydra import compose\n\n    compose()\n",
    "metrics/newcomer.py": "import src.newcomer\n",
    "report/newcomer/chart.py": "import mlflow.entities\n",
    "report/newcomer/__init__.py": "",
    "storage/newcomer.py": "import benchmarks.timing\nimport validation.truth\n",
}


@pytest.fixture(scope="module")
def violations(tmp_path_factory):
    """Print of lint-imports on a copy of the packages with new modules in them."""
    folder = tmp_path_factory.mktemp("copy")
    for root in ("src", "benchmarks", "validation"):
        shutil.copytree(CHECKOUT / root, folder / root, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    for name, code in NEW.items():
        (folder / "src" / name).parent.mkdir(exist_ok=True)
        (folder / "src" / name).write_text(code)
    done = subprocess.run([LINT, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return re.sub(" +", " ", done.stdout.partition("Broken contracts")[2])


@pytest.mark.parametrize(
    "line",
    [
        "- src.newcomer\n",  # stands in no layer
        "- src.stimuli.newcomer -> mlflow",
        "- src.report.newcomer.chart -> mlflow",
        "- src.newcomer -> hydra",
        "- src.stimuli.newcomer -> hydra",
        "- src.metrics.newcomer -> src.newcomer",
        "- src.storage.newcomer -> benchmarks.timing",
        "- src.storage.newcomer -> validation.truth",
    ],
)
def test_a_new_module_is_guarded(violations, line):
    assert line in violations, violations


@pytest.mark.parametrize(
    "code", ["from hydra._internal.utils import get_args", "import hydra._internal.hydra"]
)
@pytest.mark.parametrize("file", ["src/newcomer.py", "src/configs/newcomer.py", "tests/newcomer.py"])
def test_hydra_s_internals_are_refused(code, file):
    done = subprocess.run(
        [RUFF, "check", "--stdin-filename", file, "-"],
        input=f"{code}\n", cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "TID251 `hydra._internal" in done.stdout
