"""Entry: an MLflow server that several people or machines log to.

python -m src.tracking.serve
python -m src.tracking.serve database=postgresql://USER@HOST/NAME artifacts=s3://BUCKET
python -m src.tracking.serve host=0.0.0.0 names=HOST:PORT

Its database's password is libpq's (PGPASSWORD, ~/.pgpass), its keys of S3 are the environment's: neither is
ever an argument, which every process of the machine could read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from src.configs import CHECKOUT
from src.errors import SECRET, InputError, answered, masked, replace_unprintable
from src.tracking.database import SQLITE
from src.tracking.tracking_server import SCHEMES, THROUGH

LOCAL = ("127.0.0.1", "localhost", "::1")
EVERY = ("0.0.0.0", "::")
# The driver that is installed: left to itself, SQLAlchemy takes another.
DRIVER = "postgresql+psycopg2://"
DEFAULTS = {
    "database": f"{SQLITE}{CHECKOUT}/mlruns/server/mlflow.db",
    "artifacts": f"{CHECKOUT}/mlruns/server/artifacts",
    "host": LOCAL[0],
    "port": "5000",
    "names": "",
    "workers": "2",
}
HELP = f"""{__doc__}
database   sqlite:///PATH or postgresql://USER@HOST:PORT/NAME (default: mlruns/server in the checkout)
artifacts  a folder or s3://BUCKET/PATH (default: mlruns/server in the checkout); clients reach it through
           the server alone. Of a store that is not Amazon's: MLFLOW_S3_ENDPOINT_URL
host       address that it listens on (default: 127.0.0.1, this machine alone)
port       (default: 5000)
names      under which others reach it, HOST:PORT, with commas between (default: host:port)
workers    processes that answer (default: 2)"""


def main(arguments: list[str]) -> int:
    """Become an MLflow server; returns only where that is impossible."""
    replace_unprintable()
    if {*arguments} & {"-h", "--help"}:
        print(HELP)
        return 0

    def serve() -> int:
        said = read(arguments)
        command, environment = prepared(said)
        print(notice(said), flush=True)
        os.execve(command[0], command, {**os.environ, **environment})

    return answered(serve)


def read(arguments: list[str]) -> dict[str, str]:
    """What was typed, upon the defaults; empty values are defaults, too.

    Raises:
        InputError: something is not understood, or holds a password.
    """
    said = dict(DEFAULTS)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in DEFAULTS:
            known = ", ".join(f"{name}=" for name in DEFAULTS)
            raise InputError(f"{argument}: not understood. There is {known}; --help explains them.")
        secret = SECRET.search(value)
        if secret and secret["before"].endswith(":"):  # the name of a user alone is none
            raise InputError(
                f"{masked(argument)}: holds a password, which every process of this machine could read. "
                "Leave it out: libpq reads it from PGPASSWORD or ~/.pgpass, keys of S3 are the environment's."
            )
        if value.strip():
            said[key] = value.strip()
    for key in ("port", "workers"):
        if not said[key].isdecimal():
            raise InputError(f"{key}={said[key]}: not a number.")
    if said["host"] in EVERY and not said["names"]:
        raise InputError(
            f"host={said['host']}: every address of this machine. Say under which name others reach it: "
            f"names=HOST:{said['port']}; by any other it does not answer."
        )
    return said


def prepared(said: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The server's command, and what its environment says besides; folders that it needs are made."""
    if said["database"].startswith(SQLITE):
        Path(said["database"].removeprefix(SQLITE)).parent.mkdir(parents=True, exist_ok=True)
    if "://" not in said["artifacts"]:
        Path(said["artifacts"]).mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "mlflow", "server", "--artifacts-destination", said["artifacts"]]
    command += ["--host", said["host"], "--port", said["port"], "--workers", said["workers"]]
    if said["host"] not in LOCAL:
        names = _names(said)
        here = [f"{name}:{said['port']}" for name in LOCAL[:2]]
        # Its own pages, opened under these names, count as another site's to it.
        origins = [f"{scheme}{name}" for name in names for scheme in SCHEMES]
        command += ["--allowed-hosts", ",".join([*names, *here])]
        command += ["--cors-allowed-origins", ",".join(origins)]
    environment = {
        # Not an argument: an address may say more than a list of processes should.
        "MLFLOW_BACKEND_STORE_URI": re.sub("^postgres(ql)?://", DRIVER, said["database"]),
        # Jobs are run by src.run alone.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **THROUGH,
    }
    return command, environment


def notice(said: Mapping[str, str]) -> str:
    """What is served where, and what that means."""
    clients = f"Clients: tracking=server tracking.uri=http://{_names(said)[0]}"
    if said["host"] in LOCAL:
        return f"{clients} (this machine alone; from another through ssh -L, see docs/server.md)"
    return (
        f"{clients}\n"
        "EXPOSED: there is no password. Whoever reaches this address can read, change and delete every run "
        "and every artifact, and nothing is encrypted. Keep it within a network that you trust, or put a "
        "proxy with a password and a certificate before it (docs/server.md)."
    )


def _names(said: Mapping[str, str]) -> list[str]:
    host = f"[{said['host']}]" if ":" in said["host"] else said["host"]
    return [name.strip() for name in (said["names"] or f"{host}:{said['port']}").split(",")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
