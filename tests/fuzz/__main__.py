"""Run every parser for some seconds, guided by the coverage of src (atheris), and print a table.

As many parsers run at the same time as there are cores.

python -m tests.fuzz                         every parser, 60 seconds each
python -m tests.fuzz 'oasis: csv' seconds=5  one parser, 5 seconds
python -m tests.fuzz markdown=FILE           writes the table to a file, too
"""

import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from random import Random

import atheris

# Counts of a parser: all inputs, those that it reads as a table, and those that it refuses.
FIELDS = ("inputs", "table", "refused")
# Limits of memory, and of the time of a single input, at which libFuzzer ends the process. The harness
# reports an input that took more than `harness.SECONDS` of CPU time, but only once the parser has returned;
# only the limit of time ends a parser that hangs.
MAX_MEGABYTES, MAX_SECONDS = 6000, 300


def main(arguments: list[str]) -> int:
    """Run the fuzzer and print the table; return 1 if a parser crashed."""
    options = {"seconds": "60"} | dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    names = [argument for argument in arguments if "=" not in argument]
    with atheris.instrument_imports(include=["src"]):
        from tests.fuzz.parsers import NAMED
    text = "| parser | inputs | tables | refusals | crashes |\n|---|---|---|---|---|\n"
    n_inputs = n_crashes = 0
    names = names or [*NAMED]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # each thread waits for the process of a parser
        outcomes = pool.map(fuzz, names, repeat(int(options["seconds"])))
        for name, outcome in zip(names, outcomes, strict=True):
            n_inputs += outcome["inputs"]
            n_crashes += len(outcome["crashes"])
            cells = [name, *(f"{outcome[field]:,}" for field in FIELDS), str(len(outcome["crashes"]))]
            text += (row := f"| {' | '.join(cells)} |") + "\n"
            print(row, flush=True)
            for crash, path in outcome["crashes"].items():
                print(f"    {crash}: {path}", flush=True)
    text += f"\n{n_inputs:,} inputs, {n_crashes} crashes\n"
    print(text, end="")
    if "markdown" in options:
        Path(options["markdown"]).write_text(text)
    return int(n_crashes > 0)


def fuzz(name: str, seconds: int) -> dict:
    """Fuzz a parser in a child process, which a crash of a library may end.

    Returns the counts `FIELDS`, and `crashes`: message of each distinct crash -> file or folder of its input.
    """
    with tempfile.TemporaryDirectory(prefix="fuzz") as temporary:
        folder = Path(temporary)
        child = multiprocessing.get_context("fork").Process(target=fuzz_here, args=(name, seconds, folder))
        child.start()
        child.join(2 * seconds + 2 * MAX_SECONDS)
        child.kill()
        child.join()
        stats = folder / "stats.json"
        outcome = {**dict.fromkeys(FIELDS, 0), "crashes": {}}
        outcome |= json.loads(stats.read_text()) if stats.exists() else {}
        if child.exitcode:
            copies = tempfile.mkdtemp(prefix="fuzz-ended-")
            for file in ("log", "last"):
                if (folder / file).exists():
                    shutil.copy(folder / file, copies)
            outcome["crashes"][f"the process ended with {child.exitcode}"] = copies
    return outcome


def fuzz_here(name: str, seconds: int, folder: Path) -> None:
    """Fuzz a parser in this process; write the counts and the distinct crashes to `stats.json`."""
    from tests.fuzz.harness import Crash, tried
    from tests.fuzz.parsers import NAMED

    with (folder / "log").open("w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    parser, root, corpus = NAMED[name], folder / "folder", folder / "corpus"
    root.mkdir()
    corpus.mkdir()
    with atheris.instrument_imports(include=["src"]):  # covers modules that are imported late
        parser.draw(root)
        parser.read(root)
    valid = (root / parser.file).read_bytes()
    (corpus / "valid").write_bytes(valid)
    # Not timed, as it imports what only the check of a complete table needs.
    if tried(parser, root, valid, patient=True) != "table":
        raise SystemExit(f"{name}: the valid file is refused")
    crash_folder, saved_at = Path(tempfile.gettempdir()) / "carryover-fuzz", 0.0
    crash_folder.mkdir(exist_ok=True)
    counts, paths = dict.fromkeys(FIELDS, 0), {}

    def try_input(content: bytes) -> None:
        nonlocal saved_at
        (folder / "last").write_bytes(content)
        counts["inputs"] += 1
        try:
            counts[tried(parser, root, content)] += 1
        except Crash as crash:
            if str(crash) not in paths:
                path = crash_folder / f"{name.replace(': ', '_').replace(' ', '_')}_{len(paths)}"
                path.write_bytes(content)
                paths[str(crash)], saved_at = str(path), 0.0
        if time.monotonic() - saved_at >= 0.2:
            saved_at = time.monotonic()
            (folder / "stats.json").write_text(json.dumps(counts | {"crashes": paths}))

    def change(content: bytes, length: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return atheris.Mutate(content, min(length, len(content) + 64))
        return parser.change(content if random.random() < 0.5 else valid, random, parser.separators)[:length]

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={max(200_000, 4 * len(valid))}",
        f"-timeout={MAX_SECONDS}",
    ]
    options += [f"-rss_limit_mb={MAX_MEGABYTES}", "-len_control=0", f"-artifact_prefix={folder}/", "-seed=1"]
    atheris.Setup([name, *options, str(corpus)], try_input, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
