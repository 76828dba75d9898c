"""Commands print in any encoding, and nothing of a library's comes after their last line."""

import io
import os
import runpy
import subprocess
import sys

import pytest

from tests.conftest import places
from tests.paths import CHECKOUT, PACKAGES

# A program of its own, which no user types.
LAYER = CHECKOUT / "src" / "encoders" / "half_layer.py"
COMMANDS = sorted(
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__main__")
    for path in {path for package in PACKAGES for path in package.rglob("*.py")} - {LAYER}
    if '__name__ == "__main__"' in path.read_text("utf-8")
)
# A sweep that trains, embeds and draws a report, in seconds.
TINY = [
    *("faces.per_group=20", "scenes.count=120", "words.count=120", "protocol.k=20", "protocol.extremes=10"),
    *("model=toy_s", "model.steps=20", "trainer=cpu", "trainer.workers=0", "protocol.attribute_draws=3"),
    *("protocol.placebo=19", "protocol.bootstrap=20", "protocol.property_draws=0"),
]


@pytest.mark.parametrize("module", COMMANDS)
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_every_command_prints_its_help_in_any_encoding(module, encoding, monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding))
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    sys.stdout.flush()
    assert not ended.value.code
    assert printed.getvalue().decode(encoding)


def test_a_sweep_in_ascii_ends_with_its_report_and_writes_utf_8(tmp_path):
    """Lightning trains its toy and imports Triton, whose bindings report at exit what is not freed."""
    store = [item for item in places(tmp_path) if item != "report=false"]
    limits = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "src.run", "-m", "exp=faces_to_words,cles_warmth", *TINY, *store),
            f"hydra.sweep.dir={tmp_path}/out",
        ],
        cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False,
        env={**os.environ, **limits},
    )  # fmt: skip
    text = done.stdout.decode("ascii")
    assert done.returncode == 0, text
    assert "Traceback" not in text
    assert "Logging error" not in text
    assert "nanobind" not in text
    assert text.rstrip().splitlines()[-1] == f"Report: {tmp_path}/out/report/index.html"
    assert "?" in text  # in place of a letter such as rho
    assert "ρ" in (tmp_path / "out" / "report" / "index.html").read_text("utf-8")
    for path in (tmp_path / "out").rglob("*"):
        if path.suffix in (".log", ".csv", ".json", ".yaml", ".tex", ".svg", ".html"):
            path.read_text("utf-8")
