"""Nothing phones home."""

import os
import subprocess
import sys
import textwrap

from tests.conftest import SHRUNK, places
from tests.paths import CHECKOUT

# Every Python process that finds this on its path writes down whom it speaks to.
HOOK = """
    import os, sys

    def heard(event, arguments):
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            where = arguments[1]
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            where = arguments[0]
        else:
            return
        with open(os.environ["HEARD"], "a") as file:
            file.write(f"{event} {where!r}\\n")

    sys.addaudithook(heard)
"""


def spoken(tmp_path, *command):
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(HOOK))
    heard = tmp_path / "heard"
    heard.touch()
    done = subprocess.run(
        [sys.executable, *command], cwd=CHECKOUT, capture_output=True, text=True, timeout=400, check=False,
        env={**os.environ, "HEARD": str(heard), "PYTHONPATH": f"{tmp_path}:{CHECKOUT}"},
    )  # fmt: skip
    return done, heard.read_text().splitlines()


def test_the_ear_is_not_deaf(tmp_path):
    _, heard = spoken(tmp_path, "-c", "import socket; socket.create_connection(('127.0.0.1', 9))")
    assert any("connect ('127.0.0.1', 9)" in line for line in heard)


def test_a_sweep_opens_no_connection_to_elsewhere(kept, sweeps, tmp_path):
    arguments = ["-m", "exp=faces_to_words,labels_to_scenes", *SHRUNK, *places(kept)]
    arguments += [f"store.dir={tmp_path}/e", f"tracking.uri=sqlite:///{tmp_path}/m/mlflow.db"]
    done, heard = spoken(tmp_path, "-m", "src.run", *arguments, f"hydra.sweep.dir={tmp_path}/o")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "e").glob("*/*/embedding.safetensors"))) == 4
    assert [line for line in heard if "127.0.0.1" not in line] == []
