"""Entry: one job = one generative model x one task.

python -m src.generate llm=recorded llm.path=answers.csv
python -m src.generate task=subtler_zh task.stereotype=positive llm=recorded llm.path=answers_zh.csv
python -m src.generate task=poem llm=smolvlm_256m
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


@hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name="generate")
def generate(composed: DictConfig) -> None:
    """One job."""
    with waiting.announced("PyTorch and the other libraries to load"):
        from src.jobs import generator_job

    kind = cli.Kind(
        named=generator_job.Task.of,
        plan=generator_job.plan,
        prepare=generator_job.prepare,
        sheet=lambda _: None,
        key=generator_job.key,
        perform=generator_job.perform,
        params=generator_job.params,
        tags=generator_job.tags,
    )
    cli.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return cli.main(generate, "src.generate")


if __name__ == "__main__":
    sys.exit(main())
