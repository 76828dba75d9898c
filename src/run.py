"""Entry: one job = one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig

from src import configs
from src.sweeps import cli, launchers
from src.tracking import waiting

configs.register()
launchers.register()


@hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name="run")
def run(composed: DictConfig) -> None:
    """One job."""
    with waiting.announced("PyTorch and the other libraries to load"):
        from src.jobs import encoder_job, plan
        from src.jobs.identity import Job

    kind = cli.Kind(
        named=Job.of,
        plan=plan.plan,
        prepare=encoder_job.prepare,
        sheet=encoder_job.sheet,
        key=encoder_job.key,
        perform=encoder_job.perform,
        params=encoder_job.params,
        tags=encoder_job.tags,
    )
    cli.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return cli.main(run, "src.run")


if __name__ == "__main__":
    sys.exit(main())
