"""Check that commands print in ASCII, connect to nothing outside, and print nothing after their last line."""

import io
import os
import runpy
import subprocess
import sys

import pytest

from tests.commands import FEW_DRAWS, TINY
from tests.conftest import store_overrides
from tests.paths import CHECKOUT, PACKAGES

# Not commands of users: a helper program, and old names of commands, which print the new names.
OLD = ("bench.py", "calibration.py", "truth.py")
OTHERS = {CHECKOUT / "src" / name for name in ("encoders/half_layer.py", *OLD)}
COMMANDS = sorted(
    ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__main__")
    for path in {path for package in PACKAGES for path in package.rglob("*.py")} - OTHERS
    if '__name__ == "__main__"' in path.read_text("utf-8")
)
# Every Python process with this on its path records its connections.
HOOK = """
import os, sys

def record(event, arguments):
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        where = arguments[1]
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        where = arguments[0]
    else:
        return
    with open(os.environ["CONNECTIONS"], "a") as file:
        file.write(f"{event} {where!r}\\n")

sys.addaudithook(record)
"""


@pytest.mark.parametrize("module", COMMANDS)
def test_every_command_prints_its_help_in_ascii(module, monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, "ascii"))
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(module, run_name="__main__")
    sys.stdout.flush()
    assert not ended.value.code
    assert printed.getvalue().decode("ascii")


def recorded(tmp_path, *command, **environment):
    """Run a command from another folder; return its exit status, its output and its connections."""
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    connections = tmp_path / "connections"
    connections.touch()
    environment |= {"CONNECTIONS": str(connections), "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env={**os.environ, **environment},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=400, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("ascii"), connections.read_text().splitlines()


def test_a_connection_is_recorded(tmp_path):
    code = "import socket; socket.create_connection(('127.0.0.1', 9))"
    *_, connections = recorded(tmp_path, "-c", code)
    assert any("connect ('127.0.0.1', 9)" in line for line in connections)


@pytest.mark.thorough
def test_a_sweep_in_ascii_ends_with_its_report_writes_utf_8_and_opens_no_connection_to_elsewhere(tmp_path):
    """Train with Lightning, which imports Triton, whose bindings report leaks at exit."""
    sweep = ["-m", "exp=faces_to_words,labels_to_scenes", *TINY, *FEW_DRAWS, *store_overrides(tmp_path)[:-1]]
    limits = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    code, text, connections = recorded(
        tmp_path, "-m", "src.run", *sweep, f"hydra.sweep.dir={tmp_path}/out", **limits
    )
    assert code == 0, text
    assert not any(word in text for word in ("Traceback", "Logging error", "nanobind"))
    assert text.rstrip().splitlines()[-1] == f"Report: {tmp_path}/out/report/index.html"
    # What was planted and found precedes it, and how to see the world without its bias.
    planted, measured, after = [
        line for line in text.splitlines() if line.startswith(("Planted: ", "Found: ", "Next"))
    ]
    assert "-0.33 for Laapian Men to +0.23 for Niffite Women, times 1." in planted
    assert "analyses of a group and valence" in measured
    assert after.startswith("Next, without a bias: python -m src.run -m exp=faces_to_words,labels_to_scenes ")
    assert after.endswith(" demo.bias=0")
    assert "?" in text  # in place of a letter such as rho
    assert "ρ" in (tmp_path / "out" / "report" / "index.html").read_text("utf-8")
    for path in (tmp_path / "out").rglob("*"):
        if path.suffix in (".log", ".csv", ".json", ".yaml", ".tex", ".svg", ".html"):
            path.read_text("utf-8")
    assert len(list((tmp_path / "embeddings").glob("*/*/embedding.safetensors"))) == 4
    assert [line for line in connections if "127.0.0.1" not in line] == []
