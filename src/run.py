"""Run jobs of encoders; a job is one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from src.sweeps import cli

if TYPE_CHECKING:
    from src.jobs.runner import Runner


def runner() -> Runner[Any, Any]:
    """Build the runner of jobs of encoders, importing its slow modules only now."""
    from src.jobs import encoder_job, plan
    from src.jobs.identity import Job
    from src.jobs.runner import Runner

    return Runner(
        build_job=Job.of,
        plan=plan.plan,
        prepare=encoder_job.prepare,
        contact_sheet=encoder_job.contact_sheet,
        key=encoder_job.key,
        perform=encoder_job.perform,
    )


COMMAND = cli.Command("src.run", "run", runner)
main = COMMAND.main

if __name__ == "__main__":
    sys.exit(main())
