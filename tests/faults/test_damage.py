"""What a power cut leaves of files: the next run notices, says so, and computes anew."""

import random
import zlib
from pathlib import Path

import pytest

from src.storage import cache
from tests.faults.stages import STORES, asked, content, entries, finished, half_written


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def emptied(_: bytes) -> bytes:
    return b""


def zeroed(content: bytes) -> bytes:
    """Blocks that were promised and never written."""
    return content[: len(content) // 3] + bytes(len(content) - len(content) // 3)


def flipped(content: bytes) -> bytes:
    rng = random.Random(zlib.crc32(content))
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


DAMAGES = (halved, emptied, zeroed, flipped)


def files(kept: Path) -> list[tuple[Path, Path]]:
    """Every entry of every store with each of its files."""
    every = [entry for name in STORES for entry in entries(kept / name)]
    return [(entry, path) for entry in every for path in sorted(entry.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_file_of_a_store_is_damaged_unseen(bench, damage):
    """Every file of every entry: pictures, tables, weights, vectors, manifests."""
    bench.make("embed")
    bench.restore("embed")
    assert bench.run("embed").status == 0
    seen = 0
    for entry, path in files(bench.kept):
        good, files_of = path.read_bytes(), cache.manifest(entry)["files"]
        path.write_bytes(damage(good))
        if path.name == cache.MANIFEST and not cache.damaged(entry):
            # Of a manifest only this is ever relied on.
            assert cache.manifest(entry)["files"] == files_of
        else:
            assert cache.damaged(entry), path
            seen += 1
        path.write_bytes(good)
    assert seen > 40


def place(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


@pytest.mark.thorough
@pytest.mark.parametrize("resume", ["true", "false"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_computed_anew_and_the_results_are_the_same(bench, damage, resume):
    """One file of every entry, and all that jobs left in their folders and with their runs."""
    rng = random.Random(repr((damage.__name__, resume)))
    bench.make("sweep")
    bench.restore("report")
    hit = 0
    for entry in [entry for name in STORES for entry in entries(bench.kept / name)]:
        path = rng.choice(sorted(path for path in entry.rglob("*") if path.name != cache.MANIFEST))
        path.write_bytes(damage(path.read_bytes()))
        hit += 1
    for _, _, _, uri in finished(bench.kept):
        path = rng.choice(sorted(place(uri).glob("results/*")))
        path.write_bytes(damage(path.read_bytes()))
    for path in [*bench.kept.glob("out/*/results/*"), *bench.kept.glob("out/**/*.yaml")]:
        path.write_bytes(damage(path.read_bytes()))
    ended = bench.run("sweep", f"resume={resume}")
    assert ended.status == 0, ended.said
    # Not of every run: a job whose entries have to be made again is made anew, whatever its run holds.
    assert ended.said.count("is damaged") >= hit, ended.said
    # What is lost of a run is lost: the job has a new one beside it.
    assert [wrong for wrong in half_written(bench.kept) if "finished run" not in wrong] == []
    assert {
        name for name, digest in bench.wanted["sweep"].items() if content(bench.kept).get(name) != digest
    } == set()


@pytest.mark.thorough
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["summary/asked.json", "summary/jobs.csv", "results"])
def test_a_report_of_damaged_files_says_what_is_lost(bench, damage, name):
    bench.make("sweep")
    bench.restore("report")
    if name == "results":
        path = sorted(place(finished(bench.kept)[0][3]).glob("results/*"))[0]
    else:
        query = (
            "SELECT artifact_uri FROM runs JOIN tags USING (run_uuid) WHERE key = 'kind' AND value = 'sweep'"
        )
        path = place(asked(bench.kept, query)[0][0]) / name
    path.write_bytes(damage(path.read_bytes()))
    ended = bench.run("report")
    assert ended.status == 0, ended.said
    assert "Traceback" not in ended.said
    if name == "results":
        assert "cannot be read" in (bench.kept / "report" / "index.html").read_text()
