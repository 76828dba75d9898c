"""Entry: which loaded words stand beside which groups in a table of training captions.

python -m src.captions path=FILE.parquet text_column=caption
python -m src.captions path=FOLDER taxonomy=sobit labels=race_gender output=DIR
python -m src.captions path='part-*.parquet' run=RUN_ID tracking.uri=URI
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from src.configs import CHECKOUT, LabelsConfig, TaxonomyConfig, compose
from src.errors import InputError, answered, key_values, replace_unprintable

if TYPE_CHECKING:
    import pandas as pd

    from src.studies.sobit.captions.counting import Audit
    from src.studies.sobit.captions.files import File
    from src.studies.sobit.captions.lexicon import Lexicon

SQLITE = "sqlite:///"
DEFAULTS = {
    "path": "",
    "text_column": "",
    "taxonomy": "sobit",
    "taxonomy.path": "",
    "taxonomy.types": "",
    "taxonomy.untyped": "",
    "labels": "race_gender",
    "output": "",
    "run": "",
    "tracking.uri": f"{SQLITE}{CHECKOUT}/mlruns/mlflow.db",
    "seed": "0",
}
HELP = f"""{__doc__}
path           a Parquet file, a folder with such files in it or below, or a pattern in quotes
text_column    of the captions (default: the only column of text, or the one called caption or text)
taxonomy       loaded words, of conf/taxonomy (default: sobit)
taxonomy.path  another list of them: YAML or JSON, category -> type -> words, or category -> words
taxonomy.types  of the words of such a list: a YAML or JSON, word -> type, or a csv with columns word and type
taxonomy.untyped  type of all words for which no file names one: adjective, noun or activity
labels         whose race_words and gender_words name groups, of conf/labels (default: race_gender)
output         folder of the results (default: outputs/captions/NAME in the checkout); older results there
               are replaced, anything else is not
run            id of a tracked run of exp=sobit_association, or its beginning: does its model associate words
               with the groups that captions mention them with?
tracking.uri   the tracking store of that run (default: mlruns/mlflow.db in the checkout)
seed           of the draws that say what such a correlation is worth (default: 0)"""
INTERRUPTED = "Interrupted: nothing was written, and what was there is as it was."


def main(arguments: list[str]) -> int:
    """Audit captions and say what was found; returns the exit status."""
    replace_unprintable()
    if set(arguments) & {"-h", "--help"}:
        print(HELP)
        return 0

    def audited() -> int:
        try:
            return audit(read(arguments))
        except KeyboardInterrupt:
            print(INTERRUPTED, file=sys.stderr)
            return 130

    return answered(audited)


def read(arguments: list[str]) -> dict[str, str]:
    """What was typed, upon the defaults.

    Raises:
        InputError: something is no `key=value`, the key is unknown, given twice or empty, there is no
            path, or the seed is no whole number.
    """
    said = key_values(arguments, DEFAULTS)
    if not said["path"]:
        raise InputError("path= is missing: which captions? python -m src.captions path=FILE.parquet")
    if not said["seed"].isdecimal():
        raise InputError(f"seed={said['seed']}: must be a whole number, at least 0.")
    return said


def audit(said: Mapping[str, str]) -> int:
    """Count, compare, and put the results where they belong; returns the exit status.

    Raises:
        InputError: a file, a column, a list of words, a run or the output folder cannot be used.
    """
    from src.report import publish
    from src.stimuli import taxonomy
    from src.studies.sobit.captions import files, lexicon, output, ratios

    began = time.monotonic()
    listed, labels = config(said)
    words = taxonomy.words(listed)
    sought = lexicon.lexicon(words, labels.race_words, labels.gender_words)
    found = [files.opened(path) for path in files.found(said["path"])]
    column = files.column_of(found, said["text_column"])
    folder = Path(said["output"]) if said["output"] else output.folder(said["path"])
    publish.check(folder)
    analyses = associations(said)
    counts = counted(found, column, sought)
    table = ratios.table(counts.counts, sought, words)
    correlated = None
    if analyses is not None:
        from src.studies.sobit.captions.associations import correlate

        correlated = correlate(table, analyses, int(said["seed"]))
    asked = {**said, "text_column": column}
    seconds = time.monotonic() - began
    results = output.Results(asked, labels, sought, found, counts, table, correlated, seconds)
    place = publish.put(lambda draft: output.write(results, draft), folder, captions=said["path"])
    output.tell(results)
    print(f"Captions: {place}")
    return 0


def config(said: Mapping[str, str]) -> tuple[TaxonomyConfig, LabelsConfig]:
    """The taxonomy and the labels that are asked for.

    Raises:
        InputError: there is none of that name, or the labels are not words of races and genders.
    """
    from omegaconf import OmegaConf

    composed, _ = compose([f"taxonomy={said['taxonomy']}", f"labels={said['labels']}"])
    for name in ("path", "types", "untyped"):
        if said[f"taxonomy.{name}"]:
            composed.taxonomy[name] = said[f"taxonomy.{name}"]
    taxonomy, labels = (OmegaConf.to_object(composed[name]) for name in ("taxonomy", "labels"))
    if not isinstance(taxonomy, TaxonomyConfig) or not isinstance(labels, LabelsConfig):
        raise InputError(f"labels={said['labels']}: has no race_words and gender_words. Choose race_gender.")
    return taxonomy, labels


def associations(said: Mapping[str, str]) -> pd.DataFrame | None:
    """The analyses of the run that is asked for; None where none is.

    Raises:
        InputError: it is not there.
    """
    if not said["run"]:
        return None
    from src.studies.sobit.captions.associations import chosen, fetched
    from src.tracking import Tracker

    tracker = Tracker(said["tracking.uri"], make=False)
    return fetched(tracker, chosen(tracker, said["run"]))


def counted(found: list[File], column: str, sought: Lexicon) -> Audit:
    """Count, with a bar that says how far."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from src.studies.sobit.captions.counting import counted as count

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("captions", total=sum(file.rows for file in found))
        return count(found, column, sought, lambda rows: progress.update(task, completed=rows))
