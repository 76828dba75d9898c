"""The full form: every parser for some seconds, led by the coverage of our code (atheris), and a table of it.

python -m tests.fuzz                         every parser, 60 seconds each
python -m tests.fuzz 'oasis: csv' seconds=5  one of them
python -m tests.fuzz table=FILE              the table into a file, too
"""

import json
import os
import sys
import tempfile
import time
import traceback
from collections import deque
from pathlib import Path
from random import Random

import atheris

FIELDS = ("inputs", "tables", "refused")
# A process that takes more than this, or longer than this for one input, is a finding.
MEGABYTES, HANGS = 6000, 300


def main(arguments: list[str]) -> int:
    """Fuzz, and say what came of it; 1 where something crashed."""
    said = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    names = [argument for argument in arguments if "=" not in argument]
    with atheris.instrument_imports(include=["src"]):
        from tests.fuzz.parsers import NAMED
    seconds = int(said.get("seconds", "60"))
    rows, crashed = [], 0
    for name in names or NAMED:
        found = one(name, seconds)
        crashed += len(found["crashes"])
        rows.append(
            "| "
            + " | ".join([name, *(f"{found[field]:,}" for field in FIELDS), str(len(found["crashes"]))])
            + " |"
        )
        print(rows[-1], flush=True)
        for crash, place in found["crashes"].items():
            print(f"    {crash}: {place}", flush=True)
    head = ["| parser | inputs | tables | refusals | crashes |", "|---|---|---|---|---|"]
    total = sum(int(row.split(" | ")[1].replace(",", "")) for row in rows)
    text = "\n".join([*head, *rows, f"\n{total:,} inputs, {crashed} crashes"])
    print(text)
    if "table" in said:
        Path(said["table"]).write_text(text + "\n")
    return int(crashed > 0)


def one(name: str, seconds: int) -> dict:
    """Fuzz a parser in a process of its own, which a crash of a library may end."""
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        place = Path(folder)
        child = os.fork()
        if not child:
            with (place / "said").open("w") as said:
                for stream in (1, 2):
                    os.dup2(said.fileno(), stream)
            try:
                led(name, seconds, place)
            except BaseException:  # nothing of the first process may go on here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        code = ended(child, 2 * seconds + 2 * HANGS)
        stats = place / "stats.json"
        found: dict = (
            json.loads(stats.read_text()) if stats.exists() else dict.fromkeys(FIELDS, 0) | {"crashes": {}}
        )
        if code:
            kept = Path(tempfile.mkdtemp(prefix="fuzz-ended-"))
            for file in ("said", "last"):
                if (place / file).exists():
                    (kept / file).write_bytes((place / file).read_bytes())
            found["crashes"][f"the process ended with {code}"] = str(kept)
    return found


def ended(child: int, patience: float) -> int:
    """Exit status of a process; one that takes too long is killed."""
    start = time.monotonic()
    while time.monotonic() - start < patience:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.2)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def led(name: str, seconds: int, place: Path) -> int:
    """Fuzz a parser in this process; what came of it goes to `stats.json`."""
    from tests.fuzz.harness import Count, tried
    from tests.fuzz.parsers import NAMED

    parser, folder, corpus = NAMED[name], place / "folder", place / "corpus"
    for made in (folder, corpus):
        made.mkdir()
    with atheris.instrument_imports(include=["src"]):  # of what is imported late
        parser.draw(folder)
        parser.read(folder)
    valid = (folder / parser.file).read_bytes()
    (corpus / "valid").write_bytes(valid)
    for _ in range(2):  # imports take their time once
        if tried(parser, folder, valid, patient=True) != "table":
            raise SystemExit(f"{name}: the valid file is refused")
    count, kept, last = Count(), Path(tempfile.gettempdir()) / "carryover-fuzz", deque([0.0])

    def put(content: bytes) -> None:
        before = len(count.crashes)
        (place / "last").write_bytes(content)
        count.add(parser, folder, content)
        if len(count.crashes) > before or time.monotonic() - last[0] > 0.2:
            last[0] = time.monotonic()
            tell()

    def tell() -> None:
        found = {field: getattr(count, field) for field in FIELDS} | {"crashes": {}}
        for number, (crash, content) in enumerate(count.crashes.items()):
            kept.mkdir(exist_ok=True)
            file = kept / f"{name.replace(': ', '_').replace(' ', '_')}_{number}"
            file.write_bytes(content)
            found["crashes"][crash] = str(file)
        (place / "stats.json").write_text(json.dumps(found))

    def changed(content: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.3:
            return atheris.Mutate(content, min(most, len(content) + 64))
        return parser.change(content if random.random() < 0.5 else valid, random, parser.separators)[:most]

    options = [f"-max_total_time={seconds}", f"-max_len={max(200_000, 4 * len(valid))}", f"-timeout={HANGS}"]
    options += [f"-rss_limit_mb={MEGABYTES}", "-len_control=0", f"-artifact_prefix={place}/", "-seed=1"]
    atheris.Setup([name, *options, str(corpus)], put, custom_mutator=changed)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
