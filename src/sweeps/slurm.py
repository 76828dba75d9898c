"""Run batches as a job array on a SLURM cluster: submit it with submitit, wait for it, handle its signals.

A task that reaches its time limit is requeued, and continues with its unfinished jobs.
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
# SLURM's states of tasks that have ended, and the state given here to a task that SLURM no longer lists.
ENDED_STATES = {"CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
ENDED_STATES |= {"BOOT_FAIL", "REVOKED"}
UNKNOWN = "no longer known"
# SLURM's reasons for pending tasks that need no action by the user.
USUAL_REASONS = {"None", "Resources", "Priority", "BeginTime", "JobArrayTaskLimit", "Cleaning", "Dependency"}
# Initial and maximum time between polls. SLURM forgets a job some minutes after its end.
POLL_SECONDS, MAX_POLL_SECONDS = 1.0, 20.0
# Time until a shared file system shows what a task wrote.
FILE_DELAY_SECONDS = 60.0
# Grace period in which a cancelled task closes its MLflow runs.
GRACE_SECONDS = 60.0
# Time for which SLURM may list a task as failed or cancelled while it is being requeued.
REQUEUE_SECONDS = 10.0


def check_available() -> None:
    """Raise `InputError` if this machine lacks a command of SLURM, and so cannot submit jobs."""
    missing = [name for name in COMMANDS if shutil.which(name) is None]
    if missing:
        raise InputError(
            f"hydra/launcher=slurm: {', '.join(missing)} not installed. Run this command on a login node "
            "of the cluster, or use hydra/launcher=joblib for the cores of this machine."
        )


class ArrayTask:
    """Function of the tasks of a SLURM array; submitit pickles it together with the path of a batch."""

    def __call__(self, path: str) -> None:
        """Run the batch in the file `path`."""
        from src.sweeps import worker

        _handle_requeue_signal()
        # A task is one process: otherwise Lightning would expect others, and requeue the task itself.
        os.environ.pop("SLURM_NTASKS", None)
        if code := worker.run_batch(Path(path)):
            raise SystemExit(code)

    def checkpoint(self, path: str) -> DelayedSubmission:
        """Return the submission to requeue: the same task, which will skip the jobs that have an outcome."""
        from submitit.core.utils import DelayedSubmission

        # The SIGTERM that follows must not interrupt the closing of runs.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return DelayedSubmission(self, path)


def _handle_requeue_signal() -> None:
    """Handle submitit's signal in this process only: requeue the task, or continue if requeueing fails."""
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
            log.warning("cannot requeue the task (%s). The task continues until SLURM ends it.", error)

    signal.signal(number, handle)


def submit_and_wait(
    paths: Sequence[Path],
    job_numbers: Sequence[Sequence[int]],
    collector: ResultCollector,
    max_requeues: int,
    parameters: Mapping[str, Any],
) -> None:
    """Submit an array with one task per batch, and wait until all of them have ended.

    Args:
        paths: file of each batch.
        job_numbers: numbers of the jobs of each batch.
        collector: collector of the results.
        max_requeues: number of times that a batch may be requeued at its time limit.
        parameters: resources of a task, under submitit's names.
    """
    from submitit import SlurmExecutor

    executor = SlurmExecutor(collector.folder, max_num_timeout=max_requeues)
    try:
        slurm_parameters = {"job_name": "carryover", **executor._convert_parameters(dict(parameters))}
        # The default for requeueing differs between sites; some reject the wckey that submitit sets.
        slurm_parameters["additional_parameters"] = {
            "requeue": True,
            **slurm_parameters.get("additional_parameters", {}),
        }
        executor.update_parameters(**slurm_parameters | {"stderr_to_stdout": True, "wckey": None})
        with _hide_enclosing_job():
            array = executor.map_array(ArrayTask(), [str(path) for path in paths])
    except (RuntimeError, ValueError, OSError, subprocess.SubprocessError) as error:
        reason = " ".join(str(error).split())
        collector.mark_failed(
            [number for numbers in job_numbers for number in numbers], f"it cannot be submitted: {reason}"
        )
        return
    tasks = {job.job_id: numbers for job, numbers in zip(array, job_numbers, strict=True)}
    array_id = array[0].job_id.split("_")[0]
    log.info("SLURM job %s, %d tasks; squeue --array -j %s shows them", array_id, len(tasks), array_id)
    try:
        _wait(array_id, tasks, collector)
    except BaseException:
        log.warning("cancelling SLURM job %s", array_id)
        subprocess.run(["scancel", array_id], check=False)
        deadline, running = time.monotonic() + GRACE_SECONDS, True
        while running and time.monotonic() < deadline:
            states = query_states(array_id)
            running = states is None or not {state for state, _ in states.values()} <= ENDED_STATES
            time.sleep(POLL_SECONDS if running else 0)
        collector.stop(f"SLURM job {array_id} was cancelled, as the sweep was interrupted")
        raise
    finally:
        for job in array:
            job.paths.submitted_pickle.unlink(missing_ok=True)
            job.paths.result_pickle.unlink(missing_ok=True)


@contextmanager
def _hide_enclosing_job() -> Iterator[None]:
    """Hide the environment of a SLURM job that runs this process, as the array would inherit it."""
    from submitit.helpers import clean_env

    if "SLURM_JOB_ID" not in os.environ:
        yield
        return
    cluster_config = {name: value for name, value in os.environ.items() if name == "SLURM_CONF"}
    with clean_env():
        os.environ.update(cluster_config)
        yield


def _wait(array_id: str, tasks: Mapping[str, Sequence[int]], collector: ResultCollector) -> None:
    # `ended_at`: id of each unfinished task -> time at which it was first listed as ended; 0 until then.
    start, ended_at = time.monotonic(), dict.fromkeys(tasks, 0.0)
    logged = {*USUAL_REASONS}  # reasons that are not logged, or not again
    while ended_at:
        time.sleep(min(MAX_POLL_SECONDS, POLL_SECONDS + (time.monotonic() - start) / 30))
        states = query_states(array_id)
        collector.collect()
        logged |= _log_pending(states or {}, logged)
        for task in [*ended_at]:
            state = "" if states is None else states.get(task, (UNKNOWN, ""))[0]
            if state not in ENDED_STATES | {UNKNOWN}:
                ended_at[task] = 0.0
                continue
            ended_at[task] = ended_at[task] or time.monotonic()
            is_complete = not {*tasks[task]} & {*collector.unfinished}
            delay = FILE_DELAY_SECONDS if state in ("COMPLETED", UNKNOWN) else REQUEUE_SECONDS
            if is_complete or time.monotonic() - ended_at[task] > delay:
                # Marks only jobs without a result: none, if the task is complete.
                log_path = collector.folder / f"{task}_0_log.out"
                collector.mark_failed(tasks[task], f"SLURM task {task} ended ({state}). Log: {log_path}")
                del ended_at[task]


def _log_pending(states: Mapping[str, tuple[str, str]], logged: Collection[str]) -> set[str]:
    """Log why tasks are pending, as some can never start; return the reasons that were not in `logged`."""
    reasons = {reason for state, reason in states.values() if state == "PENDING"} - {*logged}
    for reason in sorted(reasons):
        count = sum(task_state == ("PENDING", reason) for task_state in states.values())
        log.warning("%d tasks are pending: %s (Ctrl-C cancels them)", count, reason)
    return reasons


def query_states(array_id: str) -> dict[str, tuple[str, str]] | None:
    """Return id -> (state, reason) of the tasks of an array that SLURM still lists; None if squeue fails."""
    command = ["squeue", "--array", "--states=all", "--noheader", "--format=%i|%T|%r", f"--jobs={array_id}"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        if "Invalid job id" in completed.stderr:
            return {}
        log.warning("squeue: %s", completed.stderr.strip())
        return None
    lines = [line.strip().split("|", 2) for line in completed.stdout.splitlines() if line.count("|") == 2]
    return {task: (state, reason) for task, state, reason in lines}
