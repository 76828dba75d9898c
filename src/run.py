"""Run encoder jobs; a job is one model x one dataset x one experiment.

python -m src.run model=toy_m exp=faces_to_words
python -m src.run -m model=toy_s,toy_m,toy_l 'exp=glob(*_to_*)'
"""

import sys

from src.sweeps import cli

COMMAND = cli.Command("src.run", "run", "src.jobs.plan")
main = COMMAND.main

if __name__ == "__main__":
    sys.exit(main())
