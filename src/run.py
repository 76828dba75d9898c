"""Entry: one job = one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig

from src import configs, entry, launching
from src.tracking import waiting

configs.register()
launching.register()


@hydra.main(version_base="1.3", config_path=str(configs.CONF), config_name="run")
def run(composed: DictConfig) -> None:
    """One job."""
    with waiting.announced("PyTorch and the other libraries to load"):
        from src import pipeline, plan
        from src.jobs import Job

    kind = entry.Kind(
        named=Job.of,
        plan=plan.plan,
        prepare=pipeline.prepare,
        sheet=pipeline.sheet,
        key=pipeline.key,
        perform=pipeline.perform,
        params=pipeline.params,
        tags=pipeline.tags,
    )
    entry.perform(composed, kind)


def main() -> int:
    """Run the command; returns its exit status."""
    return entry.main(run, "src.run")


if __name__ == "__main__":
    sys.exit(main())
