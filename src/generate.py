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

from src import configs, entry, launching
from src.tracking import waiting

configs.register()
launching.register()


@hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name="generate")
def generate(composed: DictConfig) -> None:
    """One job."""
    with waiting.announced("PyTorch and the other libraries to load"):
        from src import answering, poems, tasks

    work: Any = poems if OmegaConf.get_type(composed, "task") is configs.PoemConfig else answering
    kind = entry.Kind(
        named=tasks.Task.of,
        plan=work.plan,
        prepare=work.prepare,
        sheet=lambda _: None,
        key=work.key,
        perform=work.perform,
        params=tasks.params,
        tags=tasks.tags,
    )
    entry.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return entry.main(generate, "src.generate")


if __name__ == "__main__":
    sys.exit(main())
