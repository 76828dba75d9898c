"""Entry: the report of a sweep that the tracking store holds, or of the models of all its sweeps.

python -m src.report sweep=latest
python -m src.report sweep=RUN_ID dataset=NAME tracking.uri=URI output=DIR
python -m src.report sweep=RUN_ID,RUN_ID
python -m src.report sweep=all dataset=NAME
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from src.configs import CHECKOUT, studies
from src.errors import InputError, answered, key_values, replace_unprintable
from src.tracking import SQLITE, Past, Tracker, children, sweeps

LATEST, ALL = "latest", "all"
DEFAULTS = {
    "sweep": LATEST,
    "dataset": "",
    "tracking.uri": f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db",
    "output": "",
}
HELP = f"""{__doc__}
sweep         id of a sweep's parent run, or its beginning, or several with commas between, all in one
              report; latest (default): the newest; all: models ranked by implicit bias, over every
              finished audit of the store
dataset       with sweep=latest: the newest of this dataset; with sweep=all: which, where there are several
tracking.uri  the tracking store (default: mlruns/mlflow.db in the checkout)
output        folder of the report (default: outputs/report/ID, the beginnings of several, or all-DATASET,
              in the checkout); an older report there is replaced, anything else is not"""
LISTED = 10


def main(arguments: list[str]) -> int:
    """Draw a report and say where it is; returns the exit status."""
    replace_unprintable()
    if set(arguments) & {"-h", "--help"}:
        print(HELP)
        return 0

    def draw() -> int:
        said = key_values(arguments, DEFAULTS)
        tracker = Tracker(said["tracking.uri"], make=False)
        if said["sweep"] == ALL:
            return rank(tracker, said["dataset"], said["output"])
        chosen = [choose(tracker, one, said["dataset"]) for one in said["sweep"].split(",")]
        of = list({sweep.id: sweep for sweep in chosen}.values())
        from src.report import publish, several

        name = of[0].id if len(of) == 1 else "-".join(sweep.id[: several.SHORT] for sweep in of)
        output = Path(said["output"]) if said["output"] else CHECKOUT / "outputs" / "report" / name
        publish.check(output)
        with tempfile.TemporaryDirectory() as place:
            index = publish.publish(several.gathered(tracker, of, Path(place)), output)
        print(f"Report: {index}")
        return 0

    return answered(draw)


def rank(tracker: Tracker, dataset: str, output: str) -> int:
    """Draw the ranking over all audits of a store and say where it is; returns the exit status.

    Raises:
        InputError: there are no audits, or of several datasets; or the folder holds something else.
    """
    from src.report import format, publish
    from src.report.study import report_of

    (ranking,) = filter(None, (report_of(name).ranking for name in studies.STUDIES))
    found = ranking.runs(tracker, dataset)
    about = {"sweep": ALL, "dataset": found[0].dataset}
    name = f"all-{format.slugs([about['dataset']])[about['dataset']]}"
    folder = Path(output) if output else CHECKOUT / "outputs" / "report" / name
    publish.check(folder)
    index = publish.put(lambda draft: ranking.write(tracker, found, draft), folder, **about)
    print(f"Report: {index}")
    return 0


def choose(tracker: Tracker, wanted: str, dataset: str) -> Past:
    """The sweep that is meant.

    Raises:
        InputError: there is none, or more than one.
    """
    every = sweeps(tracker)
    there = [sweep for sweep in every if dataset in ("", sweep.dataset)]
    of_dataset = f" of dataset={dataset}" if dataset else ""
    if not there:
        known = ", ".join(dict.fromkeys(sweep.dataset for sweep in every))
        raise InputError(
            f"no sweep{of_dataset} is stored there"
            + (f"; there are sweeps of {known}." if known else ". A sweep is: python -m src.run -m exp=...")
        )
    if wanted == LATEST:
        return there[0]
    found = [sweep for sweep in there if sweep.id.startswith(wanted)]
    if len(found) != 1:
        problem = f"begins the ids of {len(found)} sweeps" if found else f"no sweep{of_dataset} has this id"
        raise InputError(f"sweep={wanted}: {problem}. {_listed(tracker, found or there)}")
    return found[0]


def _listed(tracker: Tracker, there: list[Past]) -> str:
    lines = []
    for sweep in there[:LISTED]:
        jobs = int(sweep.metrics.get("jobs", 0)) or len(children(tracker, sweep))
        lines.append(f"  {sweep.id}  {sweep.dataset}  {sweep.started}  {jobs} jobs  {sweep.status}")
    more = f"\n  and {len(there) - LISTED} older ones" if len(there) > LISTED else ""
    return "There are, newest first:\n" + "\n".join(lines) + more


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
