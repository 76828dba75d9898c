"""Entry: one job = one generative model x one task.

python -m src.generate llm=recorded llm.path=answers.csv
python -m src.generate task=subtler_zh task.stereotype=positive llm=recorded llm.path=answers_zh.csv
python -m src.generate task=poem llm=smolvlm_256m
"""

from __future__ import annotations

import sys
from typing import Any

import hydra
from omegaconf import DictConfig, OmegaConf

from src import configs
from src.sweeps import cli, launchers
from src.tracking import waiting

configs.register()
launchers.register()


@hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name="generate")
def generate(composed: DictConfig) -> None:
    """One job."""
    with waiting.announced("PyTorch and the other libraries to load"):
        from src.jobs import generator_job, poem_runner, question_runner

    work: Any = poem_runner if OmegaConf.get_type(composed, "task") is configs.PoemConfig else question_runner
    kind = cli.Kind(
        named=generator_job.Task.of,
        plan=work.plan,
        prepare=work.prepare,
        sheet=lambda _: None,
        key=work.key,
        perform=work.perform,
        params=generator_job.params,
        tags=generator_job.tags,
    )
    cli.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return cli.main(generate, "src.generate")


if __name__ == "__main__":
    sys.exit(main())
