"""Entry: one job = one generative model x one task.

python -m src.generate llm=recorded llm.path=answers.csv
python -m src.generate task=subtler_zh llm.path=answers_zh.csv
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig

from src import configs, entry

configs.register()


@hydra.main(version_base="1.3", config_path=str(configs.CHECKOUT / "conf"), config_name="generate")
def generate(composed: DictConfig) -> None:
    """One job."""
    from src import answering

    kind = entry.Kind(
        named=answering.Task.of,
        plan=answering.plan,
        prepare=answering.prepare,
        sheet=lambda _: None,
        key=answering.key,
        perform=answering.perform,
        params=answering.params,
        tags=answering.tags,
    )
    entry.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return entry.main(generate, "src.generate")


if __name__ == "__main__":
    sys.exit(main())
