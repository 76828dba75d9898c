"""What is streamed from disk, small: flat in memory and exact."""

from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

from benchmarks import commands, corpora, scale, stand_ins
from benchmarks.sizes import QUICK
from benchmarks.timing import in_fresh_process
from src.stimuli import checked
from src.studies.propagation import experiment, similarity_blocks
from src.studies.sobit.captions import cli as entry


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
    return in_fresh_process(scale.stream, place, items, 32, scale.K, held=0)


def test_brute_force_sees_what_is_not_exact(place, monkeypatch):
    assert scale.stream(place, 20_000, 5, 50, held=2**30)["exact"]
    original = similarity_blocks.nearer

    def wrong(*given):
        values, positions = original(*given)
        return values, positions.flip(1)

    monkeypatch.setattr(similarity_blocks, "nearer", wrong)
    assert not scale.stream(place, 20_000, 5, 50, held=0)["exact"]


@pytest.mark.parametrize("exp", stand_ins.EXPERIMENTS)
def test_an_experiment_whose_corpus_is_walked_yields_what_it_yields_where_it_is_held(exp, monkeypatch):
    size = replace(QUICK, paper_faces=240, paper_words=300, paper_scenes=240)
    targets, corpus = (
        checked(role, stand_ins.paper_tables(size)[role], "stand-ins") for role in exp.split("_to_")
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
        return experiment.run(targets, corpus, x, y, stand_ins.protocol(60), 0)


def test_the_benchmark_streams_three_sizes_and_counts_three_of_captions(monkeypatch, tmp_path):
    typed, files, streamed = [], [], []

    def timed(what, given):
        typed.append(given[0])
        asked = entry.read(given[1:])
        files.append(pq.read_table(asked["path"]).num_rows)
        assert entry.audit(asked) == 0
        return commands.Row(what, 9.0, 1.0)

    def called(call, _, items, *given, **named):
        streamed.append((call, items))
        return {"what": "much", "seconds": 2.0, "own_mb": 30.0}

    monkeypatch.setattr(scale, "in_fresh_process", called)
    monkeypatch.setattr(commands, "_timed", timed)
    rows = list(commands.scale(replace(QUICK, streamed=3000), tmp_path))
    assert [(row.what, row.seconds, row.peak_mb) for row in rows[:5]] == [("stream: much", 2.0, 30.0)] * 5
    assert streamed == [*((scale.stream, n) for n in (300, 1000, 3000)), (scale.job, 375), (scale.job, 750)]
    assert typed == ["src.captions"] * 3
    assert files == [300, 1000, 3000]
