"""Run generator jobs; a job is one generative model x one task.

python -m src.generate llm=recorded llm.path=answers.csv
python -m src.generate task=subtler_zh task.stereotype=positive llm=recorded llm.path=answers_zh.csv
python -m src.generate task=poem llm=smolvlm_256m
"""

import sys

from src.sweeps import cli

COMMAND = cli.Command("src.generate", "generate", "src.jobs.generator_job")
main = COMMAND.main

if __name__ == "__main__":
    sys.exit(main())
