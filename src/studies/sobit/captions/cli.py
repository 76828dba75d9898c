"""Count how often bias-related words co-occur with groups in a table of training captions.

python -m src.captions path=FILE.parquet text_column=caption
python -m src.captions path=FOLDER taxonomy=sobit labels=race_gender output=DIR
python -m src.captions path='part-*.parquet' run=RUN_ID tracking.uri=URI
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path

from src.configs import CHECKOUT, AxisLabelsConfig, LabelsConfig, TaxonomyConfig, compose, list_axis_words
from src.errors import InputError, parse_key_values, replace_unprintable, run_entry

SQLITE_PREFIX = "sqlite:///"
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
    "tracking.uri": f"{SQLITE_PREFIX}{CHECKOUT}/mlruns/mlflow.db",
    "seed": "0",
}
HELP = f"""{__doc__}
path           a Parquet file, a folder with such files in it or its subfolders, or a pattern in quotes
text_column    column of captions (default: the only text column, or the one called caption or text)
taxonomy       bias-related words: a name in conf/taxonomy (default: sobit)
taxonomy.path  another list of words: YAML or JSON, category -> type -> words, or category -> words
taxonomy.types  types of the listed words: YAML or JSON, word -> type, or a csv with columns word and type
taxonomy.untyped  type of words without a type in these files: adjective, noun or activity
labels         a name in conf/labels, whose words of each axis name groups (default: race_gender)
output         folder of the results (default: outputs/captions/NAME in the checkout, NAME after path);
               older results there are replaced; a folder with other files is refused
run            id, or beginning of the id, of a tracked run of exp=sobit_association: correlate the
               associations of its model with the co-occurrence ratios of words and groups in the captions
tracking.uri   the tracking store of that run (default: mlruns/mlflow.db in the checkout)
seed           random seed for the uncertainty of this correlation (default: 0)"""
INTERRUPTED = "Interrupted: nothing was written; earlier results are unchanged."


def main(arguments: list[str]) -> int:
    """Run the audit of captions and print its results; return the exit status."""
    replace_unprintable()
    if set(arguments) & {"-h", "--help"}:
        print(HELP)
        return 0

    def run_audit() -> int:
        try:
            return audit(parse_arguments(arguments))
        except KeyboardInterrupt:
            print(INTERRUPTED, file=sys.stderr)
            return 130

    return run_entry(run_audit)


def parse_arguments(arguments: list[str]) -> dict[str, str]:
    """Parse the command line, with defaults for missing keys.

    Raises:
        InputError: an argument is not `key=value`, its key is unknown or repeated, its value is empty, the
            path is missing, or the seed is not a whole number.
    """
    options = parse_key_values(arguments, DEFAULTS)
    if not options["path"]:
        raise InputError("path= is missing. Name the captions: python -m src.captions path=FILE.parquet")
    if not options["seed"].isdecimal():
        raise InputError(f"seed={options['seed']}: expected a whole number, at least 0.")
    return options


def audit(options: Mapping[str, str]) -> int:
    """Count words and groups in the captions, and write their co-occurrence ratios; return the exit status.

    Raises:
        InputError: a file, a column, a list of words, a run or the output folder cannot be used.
    """
    from src.report import publish
    from src.report.format import make_slugs
    from src.stimuli import taxonomy
    from src.studies.sobit.captions import counting, files, lexicon, output, ratios

    start = time.monotonic()
    taxonomy_config, labels = compose_config(options)
    words = taxonomy.load_words(taxonomy_config)
    search_lexicon = lexicon.build_lexicon(words, list_axis_words(labels))
    caption_files = [files.read_footer(path) for path in files.list_files(options["path"])]
    column = files.choose_column(caption_files, options["text_column"])
    # The default folder of results is named after the file, folder or pattern.
    name = Path(options["path"]).expanduser().resolve().stem or "captions"
    folder = Path(options["output"] or CHECKOUT / "outputs" / "captions" / make_slugs([name])[name])
    publish.check(folder)
    if options["run"]:
        from src.studies.sobit.captions.associations import correlate, find_run, load_analyses
        from src.tracking import Tracker

        tracker = Tracker(options["tracking.uri"], make=False)
        analyses = load_analyses(tracker, find_run(tracker, options["run"]))
    counts = counting.count_files(caption_files, column, search_lexicon)
    ratio_table = ratios.build_table(counts.counts, search_lexicon, words)
    correlations = correlate(ratio_table, analyses, int(options["seed"])) if options["run"] else None
    settings = {**options, "text_column": column}
    seconds = time.monotonic() - start
    results = output.Results(
        settings, labels, search_lexicon, caption_files, counts, ratio_table, correlations, seconds
    )
    output_path = publish.publish_folder(
        lambda draft: output.write_files(results, draft), folder, captions=options["path"]
    )
    output.print_results(results)
    print(f"Captions: {output_path}")
    return 0


def compose_config(options: Mapping[str, str]) -> tuple[TaxonomyConfig, LabelsConfig | AxisLabelsConfig]:
    """Compose the requested taxonomy and labels.

    Raises:
        InputError: a name is unknown, or the labels are not made of words of axes.
    """
    from omegaconf import OmegaConf

    composed, _ = compose([f"taxonomy={options['taxonomy']}", f"labels={options['labels']}"])
    for name in ("path", "types", "untyped"):
        if options[f"taxonomy.{name}"]:
            composed.taxonomy[name] = options[f"taxonomy.{name}"]
    taxonomy, labels = (OmegaConf.to_object(composed[name]) for name in ("taxonomy", "labels"))
    if not isinstance(taxonomy, TaxonomyConfig) or not isinstance(labels, LabelsConfig | AxisLabelsConfig):
        raise InputError(
            f"labels={options['labels']}: expected labels made of words of axes. Use race_gender."
        )
    return taxonomy, labels
