"""A SLURM cluster of one node: Debian's slurm-wlm, all of it below a temporary folder."""

import getpass
import os
import platform
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol", "sinfo")

CONF = """
ClusterName=carryover
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={place}/munge/socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=20
MessageTimeout=100
SlurmdTimeout=0
BatchStartTimeout=300
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def absent() -> list[str]:
    """Programs that such a cluster lacks here."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs.

    Attributes:
        environment: with which its commands find it.
    """

    environment: dict[str, str]

    def __call__(self, *command: str) -> str:
        """What a command of SLURM's prints."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=300
        )
        return done.stdout.strip()

    def queue(self) -> dict[str, str]:
        """State of each task that has not ended."""
        lines = self("squeue", "--array", "--noheader", "--format=%i|%T").splitlines()
        return dict(line.split("|") for line in lines)


@contextmanager
def cluster(place: Path) -> Iterator[Cluster]:
    """Start a cluster below a folder, and stop it by the ids of its processes."""
    for name in ("state", "spool", "munge"):
        (place / name).mkdir(parents=True)
    place.chmod(0o755)
    key = place / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    conf, (controller, node) = place / "slurm.conf", _ports()
    named = {"host": platform.node().split(".")[0], "user": getpass.getuser(), "place": place}
    conf.write_text(CONF.format(**named, controller=controller, node=node))
    found = Cluster({**os.environ, "PATH": PATH, "SLURM_CONF": str(conf)})
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={place}/munge/{name}" for option, name in files.items()]
    with ExitStack() as stack:
        _started(stack, found, ["munged", "--foreground", "--force", *munge], place)
        _until(lambda: (place / "munge" / "socket").exists(), place)
        _started(stack, found, ["slurmctld", "-D", "-f", str(conf)], place)
        _started(stack, found, ["slurmd", "-D", "-f", str(conf), "-N", named["host"]], place)
        _until(lambda: "idle" in _asked(found), place)
        try:
            yield found
        finally:
            for task in {task.split("_")[0] for task in found.queue()}:
                found("scancel", task)
            _until(lambda: not found.queue(), place)


def _asked(found: Cluster) -> str:
    try:
        return found("sinfo", "--noheader", "--format=%T")
    except subprocess.SubprocessError:
        return ""


def _started(stack: ExitStack, found: Cluster, command: list[str], place: Path) -> None:
    with (place / f"{command[0]}.out").open("ab") as said:
        process = subprocess.Popen(command, env=found.environment, stdout=said, stderr=said)
    stack.callback(_stop, process)


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until(true, place: Path, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            said = [path.read_text(errors="replace")[-1000:] for path in sorted(place.glob("*.[ol]*"))]
            raise TimeoutError("\n".join(said))
        time.sleep(0.2)


def _ports() -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
