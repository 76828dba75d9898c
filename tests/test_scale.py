"""What is streamed from disk, small: flat in memory and exact. The model of costs: what it multiplies."""

import json
import subprocess
import sys
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import commands, corpora, costs, paper_sizes, rates, scale
from benchmarks.sizes import QUICK
from src.stimuli import checked
from src.studies.propagation import experiment, similarity_blocks
from src.studies.propagation.study import ROW
from src.studies.sobit.captions import cli as entry
from tests.paths import CHECKOUT


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    found = tmp_path_factory.mktemp("corpus")
    corpora.write(found, 600_000)
    return found


@pytest.mark.thorough
def test_memory_does_not_grow_with_a_corpus_on_disk(place):
    # Samples miss peaks, and an allocator keeps what was freed: of three each the one in the middle.
    small, large = ([_streamed(place, items) for _ in range(3)] for items in (150_000, 600_000))
    assert all(found["exact"] for found in (*small, *large))
    # 307 MB on disk, twice as much in float64.
    assert max(found["own_mb"] for found in large) < 130
    assert median(found["own_mb"] for found in large) < median(found["own_mb"] for found in small) + 30
    assert min(found["mapped_mb"] for found in large) > 300


def _streamed(place, items):
    # In a process of its own: what others left in this one's memory would serve the next walk unseen.
    asked = ["--stream", str(items), "--targets", "32", "--place", str(place)]
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", *asked], cwd=CHECKOUT, check=True, stdout=subprocess.PIPE
    )
    return json.loads(found.stdout)


def test_brute_force_sees_what_is_not_exact(place, monkeypatch):
    assert scale.stream(place, 20_000, 5, 50, held=2**30).exact
    original = similarity_blocks.nearer

    def wrong(*given):
        values, positions = original(*given)
        return values, positions.flip(1)

    monkeypatch.setattr(similarity_blocks, "nearer", wrong)
    assert not scale.stream(place, 20_000, 5, 50, held=0).exact


@pytest.mark.parametrize("exp", paper_sizes.EXPERIMENTS)
def test_an_experiment_whose_corpus_is_walked_yields_what_it_yields_where_it_is_held(exp, monkeypatch):
    size = replace(QUICK, paper_faces=240, paper_words=300, paper_scenes=240)
    targets, corpus = (
        checked(role, paper_sizes.tables(size)[role], "stand-ins") for role in exp.split("_to_")
    )
    # Each vector twice: ties are the rule.
    x, y = (vectors(len(table.frame), table.role) for table in (targets, corpus))
    monkeypatch.setattr(similarity_blocks, "ITEMS", 70)
    walks = []
    monkeypatch.setattr(
        similarity_blocks,
        "_walked",
        lambda *given, own=similarity_blocks._walked: walks.append(1) or own(*given),
    )
    held, walked = (run(monkeypatch, targets, corpus, x, y, much) for much in (2**40, 0))
    assert walks
    for name, expected in (held.tables | {"analyses": held.analyses}).items():
        found = (walked.tables | {"analyses": walked.analyses})[name]
        # Matrix products of other shapes round otherwise: the twelfth decimal of a similarity.
        rounded = {"intrinsic", "rho", "rho_all", "p", "p_all"} & {*expected}
        pd.testing.assert_frame_equal(
            found.drop(columns=rounded), expected.drop(columns=rounded), check_exact=True
        )
        for column in rounded:
            np.testing.assert_allclose(found[column], expected[column], rtol=0, atol=2e-12)


def vectors(count, role):
    several = 3 if role == "faces" else 1
    rng = np.random.default_rng(len(role))
    found = torch.from_numpy(rng.normal(size=((count + 1) // 2, several, 24))).repeat(2, 1, 1)[:count]
    return torch.nn.functional.normalize(found if several > 1 else found[:, 0], dim=-1)


def run(monkeypatch, targets, corpus, x, y, held):
    with monkeypatch.context() as patch:
        patch.setattr(experiment, "looks", partial(similarity_blocks.looks, held=held))
        return experiment.run(targets, corpus, x, y, paper_sizes.protocol(60), 0)


def test_the_benchmark_streams_three_sizes_and_counts_three_of_captions(monkeypatch, tmp_path):
    typed, files = [], []
    line = json.dumps({"what": "much", "seconds": 2.0, "own_mb": 30.0})

    def timed(_, given):
        typed.append(given[0])
        if given[0] == "src.captions":
            asked = entry.read(given[1:])
            files.append(pq.read_table(asked["path"]).num_rows)
            assert entry.audit(asked) == 0
        return 9.0, 1.0, f"{line}\n" * 3

    monkeypatch.setattr(commands, "_timed", timed)
    rows = list(commands.scale(replace(QUICK, streamed=3000), tmp_path))
    assert [(row.what, row.seconds, row.peak_mb) for row in rows[:3]] == [("stream: much", 2.0, 30.0)] * 3
    assert typed == ["benchmarks.scale", *["src.captions"] * 3]
    assert files == [300, 1000, 3000]


def test_what_a_model_costs_is_multiplied_out():
    model = costs.Model("m", 1e8, image=10, text=7.7, width=100, vectors=2)
    data = costs.Data(
        "d", images=1000, texts=500, tokens=10, analysis="a", similarities=1e6, targets=40, corpus=5e6
    )
    own = rates.Rates(cpu=50, gpu=100, product=40, cosine=1e-8, retrieved=1e-7, row=1000)
    found = costs.cost(model, data, own)
    # 10,000 GFLOP of images, 500 of texts.
    assert (found.cpu, found.gpu) == pytest.approx((210, 0.105))
    assert (found.vectors, found.pictures) == (4 * 100 * 2500, 150_528_000)
    # Two products a similarity, and 40 x 500 retrieved items.
    assert found.analysis == pytest.approx(1e6 * (2 * 200 / 40e9 + 1e-8) + 20_000 * 1e-7)
    assert found.memory == 6e9


def test_a_row_takes_what_the_plan_of_a_job_says():
    assert rates.Rates().row == ROW


def test_the_rates_are_those_of_the_benchmarks():
    assert rates.Rates().cpu == pytest.approx(found().cpu, rel=1 / 3)
    assert rates.Rates().product == pytest.approx(found().product, rel=1 / 3)
    assert rates.Rates().cosine == pytest.approx(found().cosine, rel=1 / 3)
    assert rates.Rates().retrieved == pytest.approx(found().retrieved, rel=1 / 3)


def found():
    return rates.measured(CHECKOUT / "benchmarks" / "results")


def test_what_the_rates_say_is_near_what_was_measured():
    told = list(rates.predicted(CHECKOUT / "benchmarks" / "results", rates.Rates()))
    assert len(told) >= 5
    for one in told:
        assert one.measured / 2 < one.said < one.measured * 2, one.what
    assert sum(one.said for one in told) == pytest.approx(sum(one.measured for one in told), rel=1 / 3)


def test_rates_are_read_out_of_what_was_measured(tmp_path):
    """Two seconds a column of width and one besides, of 10^6 similarities on two threads."""
    machine = {"machine": {"threads": 2}}
    grown = [{"what": f"growth: e: 1000 x 1000, width {w}, k 5", "seconds": 1 + 2 * w} for w in (1, 4, 8)]
    grown.append({"what": "growth: e: 500 x 1000, width 4, k 5", "seconds": 77})
    passes = [{"what": "p", "note": f"bare: 3 images/s, {rate} TFLOP/s"} for rate in ("0.2", "0.3")]
    # Ten targets that retrieve all of a hundred: 42 seconds of a core, 17 microseconds a similarity of them.
    whole = {"what": "e: 10 x 100, width 8, k 100", "seconds": 21, "note": ""}
    rare = {"what": "e: 10 x 1000, width 8, k 100", "seconds": 5, "note": ""}
    for part, rows in (("growth", grown), ("peers", [*passes, rare, whole, rare])):
        (tmp_path / f"{part}.json").write_text(json.dumps(machine | {"rows": rows}))
    read = rates.measured(tmp_path)
    # Four seconds of a core, or two operations in four microseconds; two microseconds besides.
    assert (read.cpu, read.product) == pytest.approx((200, 2 / 4e-6 / 1e9))
    assert read.cosine == pytest.approx(2e-6)
    assert read.analysis(1e6, 8) == pytest.approx(2 * 17)
    assert read.retrieved == pytest.approx((42 - 1000 * 34e-6) / 1000)
    assert [one.said for one in rates.predicted(tmp_path, read)] == pytest.approx([21.153, 21])


def test_the_page_says_what_the_command_says():
    assert costs.table(rates.Rates()) in (CHECKOUT / "docs" / "scale.md").read_text()
