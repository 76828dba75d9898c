"""Run jobs of generative models; a job is one model x one task.

python -m src.generate llm=recorded llm.path=answers.csv
python -m src.generate task=subtler_zh task.stereotype=positive llm=recorded llm.path=answers_zh.csv
python -m src.generate task=poem llm=smolvlm_256m
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from src.sweeps import cli

if TYPE_CHECKING:
    from src.jobs.runner import Runner


def runner() -> Runner[Any, Any]:
    """Build the runner of jobs of generative models, importing its slow modules only now."""
    from src.jobs import generator_job
    from src.jobs.runner import Runner

    return Runner(
        build_job=generator_job.Task.of,
        plan=generator_job.plan,
        prepare=generator_job.prepare,
        contact_sheet=lambda _: None,
        key=generator_job.key,
        perform=generator_job.perform,
    )


COMMAND = cli.Command("src.generate", "generate", runner)
main = COMMAND.main

if __name__ == "__main__":
    sys.exit(main())
