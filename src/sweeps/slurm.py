"""Run batches on a SLURM cluster: submit one array by submitit, wait for it, and handle its signals.

A task that reaches its time limit is requeued, and resumes with its unfinished jobs.
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
from src.sweeps.job_batch import ResultCollector

if TYPE_CHECKING:
    from submitit.core.utils import DelayedSubmission

log = logging.getLogger(__name__)

COMMANDS = ("sbatch", "srun", "squeue", "scancel")
# SLURM's states of tasks that have ended, and ours of a task that SLURM no longer lists.
ENDED = {"CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
ENDED |= {"BOOT_FAIL", "REVOKED"}
UNKNOWN = "no longer known"
# Reasons why tasks are pending that resolve by themselves.
USUAL_REASONS = {"None", "Resources", "Priority", "BeginTime", "JobArrayTaskLimit", "Cleaning", "Dependency"}
# Seconds between polls, initial and maximal. SLURM forgets a job some minutes after its end.
POLL, MAX_POLL = 1.0, 20.0
# Seconds until a shared file system shows what a task wrote; until a cancelled task has ended its runs.
LATE, STOP = 60.0, 60.0
# Seconds for which a task that is being requeued may appear as failed or cancelled.
REQUEUED = 10.0


def require() -> None:
    """Raise `InputError` if a command of SLURM is missing, so that this machine cannot submit jobs."""
    absent = [name for name in COMMANDS if shutil.which(name) is None]
    if absent:
        raise InputError(
            f"hydra/launcher=slurm: {', '.join(absent)} not installed here. Run this command on a login node "
            "of the cluster, or use hydra/launcher=joblib for the cores of this machine."
        )


class Task:
    """Task of the array; submitit pickles its argument, which is only the path of a batch."""

    def __call__(self, path: str) -> None:
        """Run the batch of a file."""
        from src.sweeps import worker

        _keep_signal_here()
        # One process per task: without this, Lightning would expect others, and requeue the task itself.
        os.environ.pop("SLURM_NTASKS", None)
        if code := worker.run_batch(Path(path)):
            raise SystemExit(code)

    def checkpoint(self, path: str) -> DelayedSubmission:
        """Return the submission to requeue: the same task, which skips jobs that have an outcome."""
        from submitit.core.utils import DelayedSubmission

        # The SIGTERM that follows must not interrupt the closing of runs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return DelayedSubmission(self, path)


def _keep_signal_here() -> None:
    """Handle submitit's signal in this process only, and continue if the task cannot be requeued."""
    from submitit.core.job_environment import JobEnvironment
    from submitit.core.utils import UncompletedJobError

    number, pid = JobEnvironment._usr_sig(), os.getpid()
    requeue = signal.getsignal(number)

    def handle(number: int, frame: Any) -> None:
        if os.getpid() != pid or not callable(requeue):  # a data loader process
            return
        sigterm_handler = signal.getsignal(signal.SIGTERM)
        try:
            requeue(number, frame)
        except (UncompletedJobError, subprocess.SubprocessError, OSError) as error:
            signal.signal(signal.SIGTERM, sigterm_handler)
            log.warning("%s The task continues until SLURM ends it.", error)

    signal.signal(number, handle)


def send(
    paths: Sequence[Path],
    groups: Sequence[Sequence[int]],
    collector: ResultCollector,
    requeues: int,
    parameters: Mapping[str, Any],
) -> None:
    """Submit an array with a task per batch, and wait until all of them have ended.

    A batch may be requeued `requeues` times at its time limit; the parameters have submitit's names.
    """
    from submitit import SlurmExecutor

    executor = SlurmExecutor(collector.folder, max_num_timeout=requeues)
    try:
        named = {"job_name": "carryover", **executor._convert_parameters(dict(parameters))}
        # The default for requeueing differs between sites; some reject the wckey that submitit sets.
        named["additional_parameters"] = {"requeue": True, **named.get("additional_parameters", {})}
        executor.update_parameters(**named | {"stderr_to_stdout": True, "wckey": None})
        with _outside_job():
            array = executor.map_array(Task(), [str(path) for path in paths])
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        reason = " ".join(str(error).split())
        collector.lose([number for group in groups for number in group], f"it cannot be submitted: {reason}")
        return
    tasks = {job.job_id: group for job, group in zip(array, groups, strict=True)}
    array_id = array[0].job_id.split("_")[0]
    log.info("SLURM job %s, %d tasks; squeue --array -j %s shows them", array_id, len(tasks), array_id)
    try:
        _wait(array_id, tasks, collector)
    except BaseException:
        log.warning("cancelling SLURM job %s", array_id)
        subprocess.run(["scancel", array_id], check=False)
        deadline, running = time.monotonic() + STOP, True
        while running and time.monotonic() < deadline:
            known = states(array_id)
            running = known is None or not {state for state, _ in known.values()} <= ENDED
            time.sleep(POLL if running else 0)
        collector.stop(f"SLURM job {array_id} was cancelled, as the sweep was interrupted")
        raise
    finally:
        for job in array:
            job.paths.submitted_pickle.unlink(missing_ok=True)
            job.paths.result_pickle.unlink(missing_ok=True)


@contextmanager
def _outside_job() -> Iterator[None]:
    """Hide the environment of an enclosing SLURM job, which an array would inherit."""
    from submitit.helpers import clean_env

    if "SLURM_JOB_ID" not in os.environ:
        yield
        return
    cluster = {name: value for name, value in os.environ.items() if name == "SLURM_CONF"}
    with clean_env():
        os.environ.update(cluster)
        yield


def _wait(array_id: str, tasks: Mapping[str, Sequence[int]], collector: ResultCollector) -> None:
    # `ended_at`: task -> time at which it was first listed as ended, or 0.
    begun, ended_at = time.monotonic(), dict.fromkeys(tasks, 0.0)
    logged = {*USUAL_REASONS}
    while ended_at:
        time.sleep(min(MAX_POLL, POLL + (time.monotonic() - begun) / 30))
        known = states(array_id)
        collector.collect()
        logged |= _log_pending(known or {}, logged)
        for task in [*ended_at]:
            state = "" if known is None else known.get(task, (UNKNOWN, ""))[0]
            if state not in ENDED | {UNKNOWN}:
                ended_at[task] = 0.0
                continue
            ended_at[task] = ended_at[task] or time.monotonic()
            complete = not {*tasks[task]} & {*collector.waiting}
            patience = LATE if state in ("COMPLETED", UNKNOWN) else REQUEUED
            if complete or time.monotonic() - ended_at[task] > patience:
                log_path = collector.folder / f"{task}_0_log.out"
                collector.lose(tasks[task], f"SLURM task {task} ended ({state}). Log: {log_path}")
                del ended_at[task]


def _log_pending(known: Mapping[str, tuple[str, str]], logged: Collection[str]) -> set[str]:
    """Log why tasks are pending, as some can never start; return the reasons that were not in `logged`."""
    reasons = {reason for state, reason in known.values() if state == "PENDING"} - {*logged}
    for reason in sorted(reasons):
        count = sum(known[task] == ("PENDING", reason) for task in known)
        log.warning("%d tasks are pending: %s (Ctrl-C cancels them)", count, reason)
    return reasons


def states(array_id: str) -> dict[str, tuple[str, str]] | None:
    """Return state and reason of each task of an array that SLURM still knows; None if squeue fails."""
    command = ["squeue", "--array", "--states=all", "--noheader", "--format=%i|%T|%r", f"--jobs={array_id}"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        if "Invalid job id" in completed.stderr:
            return {}
        log.warning("squeue: %s", completed.stderr.strip())
        return None
    lines = [line.strip().split("|", 2) for line in completed.stdout.splitlines() if line.count("|") == 2]
    return {task: (state, reason) for task, state, reason in lines}
