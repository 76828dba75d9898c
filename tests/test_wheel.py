"""Check that the wheel contains src/ and conf/, and runs without a checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pandas as pd
import pytest

from tests.clones import tracked_files
from tests.conftest import SHRUNK
from tests.paths import CHECKOUT

# Program that prints the files that building the wheel would write, without building it.
PLAN = """
import sys
from setuptools import distutils
from distutils.core import run_setup
build = run_setup("setup.py", stop_after="config").get_command_obj("build_py")
build.build_lib = "lib"
build.ensure_finalized()
print(*build.get_outputs(include_bytecode=False), sep="\\n")
"""


def test_the_wheel_contains_all_tracked_code_and_config():
    done = subprocess.run(
        [sys.executable, "-c", PLAN], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    planned = {line.removeprefix("lib/") for line in done.stdout.splitlines() if line.startswith("lib/")}
    tracked = [name for name in tracked_files() if name.startswith(("src/", "conf/"))]
    tracked = {f"src/{name}" if name.startswith("conf/") else name for name in tracked}
    assert "src/py.typed" in planned
    assert len(tracked) > 350
    assert not tracked - planned
    assert not {name for name in planned if not name.startswith("src/") or "__pycache__" in name}


@pytest.fixture(scope="module")
def python_with_wheel(tmp_path_factory):
    """Return the interpreter of an environment with the wheel and the locked packages, without a checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in tracked_files():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(CHECKOUT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", folder, folder / "source"],
        check=True,
    )
    shutil.rmtree(folder / "source")
    venv.create(folder / "env", with_pip=False, symlinks=True)
    python = folder / "env" / "bin" / "python"
    packages = Path(
        subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
    )  # fmt: skip
    # Adds the folder of the locked packages, but runs none of its .pth files (an editable src may have one).
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*pip, "install", *offline, "--target", packages, *folder.glob("*.whl")], check=True)
    return python


def run(python, folder, *arguments):
    """Run a command from a folder, with nothing of the checkout on the path."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, *arguments], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_the_wheel_is_what_is_imported(python_with_wheel, tmp_path):
    code = "import src; from src.configs import CHECKOUT, CONF; print(src.__file__, CONF, CHECKOUT)"
    source, conf, checkout = map(Path, run(python_with_wheel, tmp_path, "-c", code).split())
    assert source.is_relative_to(python_with_wheel.parent.parent)
    assert conf == source.parent / "conf"
    assert checkout == tmp_path  # without a checkout, the working directory


@pytest.mark.thorough
@pytest.mark.parametrize("module", ["run", "generate", "stage", "report", "stimuli", "encoders"])
def test_each_command_prints_its_help(python_with_wheel, tmp_path, module):
    assert run(python_with_wheel, tmp_path, "-m", f"src.{module}", "--help")
    assert not list(tmp_path.iterdir())


@pytest.mark.thorough
def test_a_sweep_from_an_empty_folder_ends_with_a_report(python_with_wheel, tmp_path):
    # A repository of the user must not be taken for the checkout.
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    exps = "exp=faces_to_words,cles_warmth,sobit_association"
    run(python_with_wheel, tmp_path, "-m", "src.run", "-m", exps, *SHRUNK, "model.steps=20")
    tables = [pd.read_csv(path) for path in tmp_path.glob("outputs/*/*-sweep/*/results/analyses.csv")]
    assert {table["exp"][0] for table in tables} == {"faces_to_words", "cles_warmth", "sobit_association"}
    assert list(tmp_path.glob("outputs/*/*-sweep/report/index.html"))
    assert {path.name for path in tmp_path.iterdir()} == {".git", "data", "mlruns", "outputs"}


@pytest.mark.thorough
def test_a_language_model_answers_from_an_empty_folder(python_with_wheel, tmp_path):
    run(python_with_wheel, tmp_path, "-m", "src.generate", "llm=planted", "task.count=12", "report=false")
    assert list(tmp_path.glob("outputs/*/*/results/analyses.csv"))
