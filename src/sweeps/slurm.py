"""Batches run by a SLURM cluster: submit one array by submitit, wait for it, and answer its signals.

A task whose time is up goes back into the queue, and resumes there with the jobs that it has not finished.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from src.errors import InputError
from src.sweeps.result_collector import ResultCollector

if TYPE_CHECKING:
    from submitit.core.utils import DelayedSubmission

log = logging.getLogger(__name__)

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
OVER = {"CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
OVER |= {"BOOT_FAIL", "REVOKED"}
GONE = "no longer known"
# Why a task waits, where that passes by itself.
USUAL = {"None", "Resources", "Priority", "BeginTime", "JobArrayTaskLimit", "Cleaning", "Dependency"}
# Seconds between polls: at first, and at most. SLURM forgets a job some minutes after its end.
POLL, MAX_POLL = 1.0, 20.0
# A shared file system may show late what a task wrote; a cancelled task ends its runs first.
LATE, STOP = 60.0, 60.0
# A task that is being requeued is shown as failed, or as cancelled, for a moment.
REQUEUED = 10.0


def require() -> None:
    """See that this machine can speak to a cluster.

    Raises:
        InputError: it cannot.
    """
    absent = [name for name in COMMANDS if shutil.which(name) is None]
    if absent:
        raise InputError(
            f"hydra/launcher=slurm: {', '.join(absent)} cannot be found here. Give this command on a machine "
            "of the cluster that submits jobs (a login node), or say hydra/launcher=joblib for the cores of "
            "this machine."
        )


class Task:
    """Task of the array. Its argument is plain text."""

    def __call__(self, path: str) -> None:
        """Run a batch.

        Args:
            path: its file.
        """
        from src.sweeps import worker

        _keep_signal_here()
        # One process per task: Lightning shall not look for others, nor requeue anything by itself.
        os.environ.pop("SLURM_NTASKS", None)
        if code := worker.run_batch(Path(path)):
            raise SystemExit(code)

    def checkpoint(self, path: str) -> DelayedSubmission:
        """Return what submitit puts into the queue again: the same, as finished jobs have outcomes."""
        from submitit.core.utils import DelayedSubmission

        # The end that follows may not break off the closing of runs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return DelayedSubmission(self, path)


def _keep_signal_here() -> None:
    """Let submitit's signal reach this process alone, and work on if it cannot be requeued."""
    from submitit.core.job_environment import JobEnvironment
    from submitit.core.utils import UncompletedJobError

    number, process = JobEnvironment._usr_sig(), os.getpid()
    requeue = signal.getsignal(number)

    def answer(number: int, frame: Any) -> None:
        if os.getpid() != process or not callable(requeue):  # a process that reads pictures
            return
        before = signal.getsignal(signal.SIGTERM)
        try:
            requeue(number, frame)
        except (UncompletedJobError, subprocess.SubprocessError, OSError) as error:
            signal.signal(signal.SIGTERM, before)
            log.warning("%s It works on until SLURM ends it.", error)

    signal.signal(number, answer)


def send(
    paths: Sequence[Path],
    groups: Sequence[Sequence[int]],
    collector: ResultCollector,
    requeues: int,
    parameters: Mapping[str, Any],
) -> None:
    """Submit an array with a task per batch, and wait until all of them ended.

    Args:
        paths: batches.
        groups: numbers of the jobs of each.
        collector: collector of their results.
        requeues: how many times a batch whose time is up goes back into the queue.
        parameters: of the array, in submitit's words.
    """
    from submitit import SlurmExecutor

    executor = SlurmExecutor(collector.folder, max_num_timeout=requeues)
    try:
        executor.update_parameters(**_worded(executor, parameters))
        with _outside():
            array = executor.map_array(Task(), [str(path) for path in paths])
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        reason = " ".join(str(error).split())
        collector.lose([number for group in groups for number in group], f"sbatch refused it: {reason}")
        return
    tasks = {job.job_id: group for job, group in zip(array, groups, strict=True)}
    root = array[0].job_id.split("_")[0]
    log.info("SLURM job %s, %d tasks; squeue --array -j %s shows them", root, len(tasks), root)
    try:
        _wait(root, tasks, collector)
    except BaseException:
        log.warning("cancelling SLURM job %s", root)
        subprocess.run(["scancel", root], check=False)
        _stopped(root)
        collector.stop(f"SLURM job {root} was cancelled, as the sweep was interrupted")
        raise
    finally:
        for job in array:
            for pickled in (job.paths.submitted_pickle, job.paths.result_pickle):
                pickled.unlink(missing_ok=True)


def _worded(executor: Any, parameters: Mapping[str, Any]) -> dict[str, Any]:
    named = {"job_name": "carryover", **executor._convert_parameters(dict(parameters))}
    # Sites differ in whether a task may come back unless it says so.
    more = {"requeue": True, **named.get("additional_parameters", {})}
    return {**named, "stderr_to_stdout": True, "wckey": None, "additional_parameters": more}


@contextmanager
def _outside() -> Iterator[None]:
    """Within a job of SLURM's, hide what it says of that job: an array would inherit it."""
    from submitit.helpers import clean_env

    if "SLURM_JOB_ID" not in os.environ:
        yield
        return
    cluster = {name: os.environ[name] for name in ("SLURM_CONF",) if name in os.environ}
    with clean_env():
        os.environ.update(cluster)
        yield


def _wait(root: str, tasks: Mapping[str, Sequence[int]], collector: ResultCollector) -> None:
    begun, ended_at = time.monotonic(), dict.fromkeys(tasks, 0.0)
    reasons = {*USUAL}
    while ended_at:
        time.sleep(min(MAX_POLL, POLL + (time.monotonic() - begun) / 30))
        known = states(root)
        collector.collect()
        reasons |= _waiting(known or {}, reasons)
        for task in [*ended_at]:
            state = GONE if known is not None and task not in known else (known or {}).get(task, ("", ""))[0]
            if state not in OVER | {GONE}:
                ended_at[task] = 0.0
                continue
            ended_at[task] = ended_at[task] or time.monotonic()
            complete = not {*tasks[task]} & {*collector.waiting}
            patience = LATE if state in ("COMPLETED", GONE) else REQUEUED
            if complete or time.monotonic() - ended_at[task] > patience:
                log_path = collector.folder / f"{task}_0_log.out"
                collector.lose(tasks[task], f"SLURM task {task} is over: {state}. It said: {log_path}")
                del ended_at[task]


def _waiting(found: Mapping[str, tuple[str, str]], told: Collection[str]) -> set[str]:
    """Say once why tasks wait: some may wait for ever, such as for more time than a partition grants."""
    reasons = {reason for state, reason in found.values() if state == "PENDING"} - {*told}
    for reason in sorted(reasons):
        number = sum(found[task] == ("PENDING", reason) for task in found)
        log.warning("%d tasks wait, says SLURM, because of %s (Ctrl-C cancels them)", number, reason)
    return reasons


def states(root: str) -> dict[str, tuple[str, str]] | None:
    """State and reason of each task of an array that SLURM still knows; None where it cannot be asked now."""
    asked = ["squeue", "--array", "--states=all", "--noheader", "--format=%i|%T|%r", f"--jobs={root}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    if done.returncode:
        if "Invalid job id" in done.stderr:
            return {}
        log.warning("squeue: %s", done.stderr.strip())
        return None
    lines = [line.strip().split("|", 2) for line in done.stdout.splitlines() if line.count("|") == 2]
    return {task: (state, reason) for task, state, reason in lines}


def _stopped(root: str) -> None:
    deadline = time.monotonic() + STOP
    while time.monotonic() < deadline:
        found = states(root)
        if found is not None and {state for state, _ in found.values()} <= OVER:
            return
        time.sleep(POLL)
