"""Servers that tests start on free ports of 127.0.0.1 and stop by their own ids."""

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
from dataclasses import dataclass
from pathlib import Path

from tests.paths import CHECKOUT

# Debian keeps them out of the path.
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(true, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"{what}: waited in vain"
        time.sleep(0.2)


@contextmanager
def mlflow(
    database: str, artifacts: str, log: Path, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """As `make serve`; its address."""
    port = free_port()
    said = [f"database={database}", f"artifacts={artifacts}", f"port={port}", "workers=1"]
    with log.open("w") as out, subprocess.Popen(
        [sys.executable, "-m", "src.tracking.serve", *said],
        cwd=CHECKOUT, start_new_session=True, stdout=out, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), **(environment or {})},
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


@dataclass(frozen=True)
class Database:
    """A PostgreSQL."""

    uri: str
    password: str


@contextmanager
def postgres() -> Iterator[Database]:
    """A cluster of its own in a temporary folder, owned by Debian's user postgres where this one is root."""
    port, password = free_port(), secrets.token_hex(12)
    other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if not os.geteuid() else []
    # Not below pytest's folder, into which no other user may look.
    place = Path(tempfile.mkdtemp(prefix="carryover-postgres-"))
    programs = BINARIES[-1].parent
    (place / "password").write_text(password)
    if other:
        for path in (place, place / "password"):
            shutil.chown(path, "postgres", "postgres")
    try:
        made = [programs / "initdb", "-D", place / "data", "-U", "carryover", "-E", "UTF8", "--locale=C"]
        made += ["-A", "scram-sha-256", f"--pwfile={place / 'password'}", "--no-sync"]
        subprocess.run([*other, *made], cwd=place, check=True, capture_output=True)
        run = [programs / "postgres", "-D", place / "data", "-h", "127.0.0.1", "-p", str(port), "-k", place]
        with (
            (place / "log").open("w") as out,
            subprocess.Popen(
                [*other, *run, "-c", "fsync=off"], cwd=place, stdout=out, stderr=subprocess.STDOUT
            ) as process,
        ):
            try:
                _create(port, password)
                yield Database(f"postgresql://carryover@127.0.0.1:{port}/mlflow", password)
            finally:
                process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
                process.wait(300)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _create(port: int, password: str) -> None:
    import psycopg2

    def up() -> bool:
        try:
            opened = psycopg2.connect(
                host="127.0.0.1", port=port, user="carryover", password=password, dbname="postgres"
            )
        except psycopg2.OperationalError:
            return False
        opened.autocommit = True
        opened.cursor().execute("CREATE DATABASE mlflow")
        opened.close()
        return True

    until(up, 60, "PostgreSQL")


@contextmanager
def s3(bucket: str) -> Iterator[str]:
    """A local S3 with one bucket; its address."""
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per object
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys).create_bucket(Bucket=bucket)
    try:
        yield address
    finally:
        server.stop()


class Wire:
    """Forwards connections to a server, until it is cut by a file that anybody may make."""

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
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(one, other), daemon=True).start()

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while (content := one.recv(65536)) and not self.cut.exists():
                other.sendall(content)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.ear.close()
