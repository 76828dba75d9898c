"""Start servers on free ports of 127.0.0.1, and stop them by their ids."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.paths import CHECKOUT

# Debian keeps the programs of PostgreSQL out of the path.
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not ready after {seconds:g} s"
        time.sleep(0.2)


@contextmanager
def mlflow(
    database: str, artifacts: str, log: Path, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """Start a server as `make serve` does; yield its address."""
    port = free_port()
    command = ["make", "--old-file=setup", "serve", f"BIN={Path(sys.executable).parent}"]
    command += [f"DATABASE={database}", f"ARTIFACTS={artifacts}", f"PORT={port}"]
    with run_server(command, port, log, environment or {}) as address:
        yield address


@contextmanager
def run_server(command: list[str], port: int, log: Path, environment: dict[str, str]) -> Iterator[str]:
    """Start a server of MLflow; yield its address once it answers."""
    with log.open("w") as out, subprocess.Popen(
        command,
        cwd=CHECKOUT, start_new_session=True, stdout=out, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment},
    ) as process:  # fmt: skip
        address = f"http://127.0.0.1:{port}"

        def up() -> bool:
            assert process.poll() is None, log.read_text()
            with suppress(OSError):
                return urllib.request.urlopen(f"{address}/health", timeout=5).status == 200
            return False

        try:
            until(up, 240, "MLflow's server")
            yield address
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(300)


@contextmanager
def postgres() -> Iterator[tuple[str, str]]:
    """Start PostgreSQL, as user postgres if this user is root; yield its address and password."""
    port, password = free_port(), secrets.token_hex(12)
    as_postgres = (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if not os.geteuid() else []
    )
    # Not below pytest's folder, which only its owner can read: PostgreSQL may run as another user.
    place = Path(tempfile.mkdtemp(prefix="carryover-postgres-"))
    (place / "password").write_text(password)
    if as_postgres:
        for path in (place, place / "password"):
            shutil.chown(path, "postgres", "postgres")

    def call(program: str, *arguments: str) -> None:
        command = [*as_postgres, BINARIES[-1].with_name(program), *arguments]
        subprocess.run(command, cwd=place, check=True, env={**os.environ, "PGPASSWORD": password})

    options = f"-h 127.0.0.1 -p {port} -k {place} -c fsync=off"
    try:
        security = ("-A", "scram-sha-256", f"--pwfile={place / 'password'}", "--no-sync")
        call("initdb", "-D", "data", "-U", "carryover", "-E", "UTF8", "--locale=C", *security)
        call("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", options, "start")
        try:
            call("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "carryover", "mlflow")
            yield f"postgresql://carryover@127.0.0.1:{port}/mlflow", password
        finally:
            call("pg_ctl", "-D", "data", "-m", "fast", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def s3(*buckets: str) -> Iterator[str]:
    """Start a local S3 with buckets; yield its address."""
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs a line per object
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    for bucket in buckets:
        boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket=bucket)
    try:
        yield address
    finally:
        server.stop()


class Wire:
    """Forward connections to a server until the file `cut` exists, which any process may create."""

    def __init__(self, address: str, cut: Path) -> None:
        self.to, self.cut = int(address.rsplit(":", 1)[1]), cut
        self.ear = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.ear.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                near, _ = self.ear.accept()
            except OSError:
                return
            if self.cut.exists():
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.to))
            for start, end in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(start, end), daemon=True).start()

    def _forward(self, start: socket.socket, end: socket.socket) -> None:
        with suppress(OSError):
            while (content := start.recv(65536)) and not self.cut.exists():
                end.sendall(content)
        for side in (start, end):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.ear.close()
