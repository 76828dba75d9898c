"""Write the report of a sweep in the tracking store, or rank the models of all its sweeps.

python -m src.report sweep=latest
python -m src.report sweep=RUN_ID dataset=NAME tracking.uri=URI output=DIR
python -m src.report sweep=RUN_ID,RUN_ID
python -m src.report sweep=all dataset=NAME
"""

import sys
import tempfile
from pathlib import Path

from src.configs import CHECKOUT, studies
from src.errors import InputError, parse_key_values, replace_unprintable, run_entry
from src.tracking import SQLITE, StoredRun, Tracker, find_children, find_sweeps

LATEST, ALL = "latest", "all"
DEFAULTS = {"sweep": LATEST, "dataset": "", "tracking.uri": f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db"}
DEFAULTS |= {"output": ""}
HELP = f"""{__doc__}
sweep         id of a sweep's parent run or its first letters; several, separated by commas, share a report;
              latest: the newest sweep (default); all: a ranking of models by implicit bias over all
              finished audits of the store
dataset       with sweep=latest: use the newest sweep of this dataset; with sweep=all: rank on this dataset,
              required if the store has audits of several
tracking.uri  the tracking store (default: mlruns/mlflow.db in the checkout)
output        folder of the report (default in the checkout: outputs/report/ID, with several sweeps
              outputs/report/ID-ID, with sweep=all outputs/report/all-DATASET); an older report there is
              replaced, other files never are"""
# Maximum number of sweeps that an error message lists.
MAX_LISTED = 10


def main(arguments: list[str]) -> int:
    """Write a report and print its path; return the exit status."""
    replace_unprintable()
    if set(arguments) & {"-h", "--help"}:
        print(HELP)
        return 0

    def write_report() -> int:
        options = parse_key_values(arguments, DEFAULTS)
        tracker = Tracker(options["tracking.uri"], make=False)
        if options["sweep"] == ALL:
            return rank(tracker, options["dataset"], options["output"])
        chosen = [
            find_sweep(tracker, id_prefix, options["dataset"]) for id_prefix in options["sweep"].split(",")
        ]
        sweep_records = list({sweep.id: sweep for sweep in chosen}.values())
        from src.report import load, publish

        ids = [
            sweep.id if len(sweep_records) == 1 else sweep.id[: load.SHORT_ID_LENGTH]
            for sweep in sweep_records
        ]
        name = "-".join(ids)
        output = Path(options["output"]) if options["output"] else CHECKOUT / "outputs" / "report" / name
        publish.check(output)
        with tempfile.TemporaryDirectory() as copies:
            index = publish.publish(load.load_merged(tracker, sweep_records, Path(copies)), output)
        print(f"Report: {index}")
        return 0

    return run_entry(write_report)


def rank(tracker: Tracker, dataset: str, output: str) -> int:
    """Write the ranking over all audits of a store and print its path; return the exit status.

    Raises:
        InputError: there are no audits, or audits of several datasets; or the folder has other files.
    """
    from src.report import format, publish
    from src.report.study import load_report

    # Unpacking checks that exactly one study ranks models.
    (ranking,) = filter(None, (load_report(name).ranking for name in studies.STUDIES))
    runs = ranking.runs(tracker, dataset)
    labels = {"sweep": ALL, "dataset": runs[0].dataset}
    name = f"all-{format.make_slugs([labels['dataset']])[labels['dataset']]}"
    folder = Path(output) if output else CHECKOUT / "outputs" / "report" / name
    publish.check(folder)
    index = publish.publish_folder(lambda draft: ranking.write(tracker, runs, draft), folder, **labels)
    print(f"Report: {index}")
    return 0


def find_sweep(tracker: Tracker, id_prefix: str, dataset: str) -> StoredRun:
    """Find the newest sweep (`LATEST`), or the only sweep whose id starts with `id_prefix`.

    If `dataset` is not empty, only sweeps of this dataset count.

    Raises:
        InputError: no sweep matches, or several.
    """
    stored = find_sweeps(tracker)
    available = [sweep for sweep in stored if dataset in ("", sweep.dataset)]
    of_dataset = f" of dataset={dataset}" if dataset else ""
    if not available:
        known = ", ".join(dict.fromkeys(sweep.dataset for sweep in stored))
        raise InputError(
            f"no sweep{of_dataset} is stored"
            + (f". Datasets with sweeps: {known}." if known else ". Run one: python -m src.run -m exp=...")
        )
    if id_prefix == LATEST:
        return available[0]
    matches = [sweep for sweep in available if sweep.id.startswith(id_prefix)]
    if len(matches) == 1:
        return matches[0]
    problem = f"no sweep{of_dataset} has this id"
    if matches:
        problem = f"{len(matches)} sweeps have ids that start with this"
    lines = [f"sweep={id_prefix}: {problem}. Available, newest first:"]
    listed = matches or available
    for sweep in listed[:MAX_LISTED]:
        jobs = int(sweep.metrics.get("jobs", 0)) or len(find_children(tracker, sweep))
        lines.append(f"  {sweep.id}  {sweep.dataset}  {sweep.started}  {jobs} jobs  {sweep.status}")
    if len(listed) > MAX_LISTED:
        lines.append(f"  and {len(listed) - MAX_LISTED} older sweeps")
    raise InputError("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
