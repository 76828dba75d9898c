"""The array that SLURM is asked for, and its ways of failing, with SLURM's commands played by scripts."""

import os
import stat
import sys

import pandas as pd
import pytest

from src.sweeps import job_batch
from tests.launched import Labs, kept, left, store

SBATCH = """#!{python}
# What sbatch would do, on the spot: every task of the array, one after the other.
import os, re, subprocess, sys
from pathlib import Path
place, script = Path({place!r}), Path(sys.argv[1]).read_text()
(place / "script").write_text(script)
if "partition=none" in script:
    sys.exit("sbatch: error: invalid partition specified: none")
print("Submitted batch job 7", flush=True)
tasks = re.search(r"--array=0-(\\d+)", script)
tasks = range(int(tasks[1]) + 1) if tasks else [None]
if os.fork():
    sys.exit()
for stream in (0, 1, 2):
    os.dup2(os.open(os.devnull, os.O_RDWR), stream)
for task in tasks:
    array = {{}} if task is None else {{"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(task)}}
    own = {{**os.environ, **array, "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}}
    code = subprocess.run(["bash", "-c", script], env=own).returncode
    name = "7" if task is None else f"7_{{task}}"
    (place / "ended" / name).write_text("FAILED" if code else "COMPLETED")
"""
SRUN = """#!/bin/bash
while [ $# -gt 0 ] && [ "$1" != {python} ]; do shift; done
exec "$@" > {place}/said 2>&1
"""
SQUEUE = """#!/bin/bash
[ -e {place}/asked ] || first=yes
touch {place}/asked
for task in {tasks}; do
  if [ "$first" ]; then echo "$task|PENDING|PartitionTimeLimit";
  elif [ -e {place}/ended/$task ]; then echo "$task|$(cat {place}/ended/$task)|None";
  else echo "$task|RUNNING|None"; fi
done
"""


@pytest.fixture
def swept(tmp_path):
    return Labs(tmp_path)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """SLURM's commands, played by scripts."""
    place = tmp_path / "cluster"
    (place / "ended").mkdir(parents=True)
    named = {"place": str(place), "python": sys.executable, "tasks": "7_0 7_1"}
    for name, text in {"sbatch": SBATCH, "srun": SRUN, "squeue": SQUEUE, "scancel": "#!/bin/bash\n"}.items():
        (place / name).write_text(text.format(**named))
        (place / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(place), prepend=os.pathsep)
    return place


SITE = """
defaults: [slurm, _self_]
partition: short
timeout_min: 90
mem_gb: 12
account: lab
array_parallelism: 4
setup: [module load something]
additional_parameters: {nice: 100}
"""


@pytest.mark.thorough
def test_an_array_is_asked_for_as_a_site_wants_it(swept, cluster, tmp_path, capsys):
    (tmp_path / "conf/hydra/launcher").mkdir(parents=True)
    (tmp_path / "conf/hydra/launcher/ours.yaml").write_text(SITE)
    site = [
        f"hydra.searchpath=[file://{tmp_path}/conf]",
        "hydra/launcher=ours",
        "hydra.launcher.gpus_per_node=1",
    ]
    done = swept("o", *site)
    assert capsys.readouterr().out.count("2 tasks wait, says SLURM, because of PartitionTimeLimit") == 1
    alone = swept("alone")
    assert done.code == 0
    assert left(done.output) == left(alone.output)
    script = (cluster / "script").read_text().splitlines()
    asked = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {
        "array=0-1%2", "partition=short", "time=90", "mem=12GB", "account=lab", "cpus-per-task=4",
        "gpus-per-node=1", "job-name=carryover", "signal=USR2@90", "nice=100", "requeue", "open-mode=append",
    } <= asked  # fmt: skip
    assert "module load something" in script
    folder = tmp_path / "o" / job_batch.FOLDER
    assert list(folder.glob("*.pkl")) == []
    batch = job_batch.read(folder / "1.json")
    assert [number for number, _, _ in batch.jobs] == [2, 3]
    assert all(override.startswith(("model", "exp", "protocol", "store", "tracking", "report"))
               for _, overrides, _ in batch.jobs for override in overrides)  # fmt: skip


@pytest.mark.thorough
def test_an_array_that_is_refused_fails_every_job_with_the_reason(swept, cluster, tmp_path):
    assert swept("o", "hydra/launcher=slurm", "hydra.launcher.partition=none", "exp=faces_to_words").code == 1
    (parent,), jobs = store(tmp_path / "o")
    assert (parent.info.status, jobs) == ("FAILED", [])
    table = pd.read_csv(kept(tmp_path / "o", parent, "jobs.csv"))
    assert table["status"].tolist() == ["failed"] * 2
    assert "invalid partition specified" in table["reason"][0]


@pytest.mark.thorough
def test_a_task_that_ends_without_an_answer_fails_its_jobs_alone(swept, cluster, tmp_path):
    script = (cluster / "srun").read_text()
    (cluster / "srun").write_text(
        script.replace("while", '[ "$SLURM_ARRAY_TASK_ID" = 1 ] && exit 3\nwhile', 1)
    )
    assert swept("o", "hydra/launcher=slurm", "exp=faces_to_words,words_to_faces").code == 1
    (parent,), jobs = store(tmp_path / "o")
    table = pd.read_csv(kept(tmp_path / "o", parent, "jobs.csv"))
    assert table["status"].tolist() == ["finished", "finished", "failed", "failed"]
    assert table["reason"][3].startswith("SLURM task 7_1 is over: FAILED. It said: ")
    assert len(jobs) == 2
