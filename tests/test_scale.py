"""Check that streaming from disk is exact and flat in memory."""

from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import scale, stand_ins
from benchmarks.sizes import QUICK
from benchmarks.timing import in_fresh_process
from src.stimuli import build_table
from src.studies.propagation import experiment, similarity_blocks


@pytest.mark.exhaustive
def test_memory_does_not_grow_with_a_corpus_on_disk(tmp_path):
    stand_ins.write_corpus(tmp_path, 600_000)
    # Samples of memory miss peaks, and allocators keep freed memory: compare medians of three runs.
    # In a fresh process: memory that was freed before in this one would be reused and not counted.
    streamed = partial(in_fresh_process, scale.stream, tmp_path, max_bytes=0)
    small, large = ([streamed(items, 32, scale.K) for _ in range(3)] for items in (150_000, 600_000))
    assert all(measured["exact"] for measured in (*small, *large))
    # 307 MB on disk, twice as much in float64.
    assert max(measured["anonymous_mb"] for measured in large) < 130
    medians = [median(measured["anonymous_mb"] for measured in series) for series in (small, large)]
    assert medians[1] < medians[0] + 30
    assert min(measured["mapped_mb"] for measured in large) > 300


def test_brute_force_detects_inexact_results(tmp_path, monkeypatch):
    stand_ins.write_corpus(tmp_path, 20_000)
    assert scale.stream(tmp_path, 20_000, 5, 50, max_bytes=2**30)["exact"]
    original = similarity_blocks.merge_tile

    def wrong(*given):
        values, positions = original(*given)
        return values, positions.flip(1)

    monkeypatch.setattr(similarity_blocks, "merge_tile", wrong)
    assert not scale.stream(tmp_path, 20_000, 5, 50, max_bytes=0)["exact"]


@pytest.mark.parametrize("exp", stand_ins.EXPERIMENTS)
def test_an_experiment_on_a_tiled_corpus_equals_that_in_memory(exp, monkeypatch):
    size = replace(QUICK, paper_faces=240, paper_words=300, paper_scenes=240)
    targets, corpus = (
        build_table(role, stand_ins.paper_tables(size)[role], "stand-ins") for role in exp.split("_to_")
    )
    # Each vector twice: ties are the rule.
    x, y = (vectors(len(table.frame), table.role) for table in (targets, corpus))
    monkeypatch.setattr(similarity_blocks, "MAX_TILE_ITEMS", 70)
    tiled_calls = []
    tiled = similarity_blocks._yield_tiled
    monkeypatch.setattr(
        similarity_blocks, "_yield_tiled", lambda *args: tiled_calls.append(1) or tiled(*args)
    )
    in_memory, streamed = (run(monkeypatch, targets, corpus, x, y, max_bytes) for max_bytes in (2**40, 0))
    assert tiled_calls
    for name, expected in (in_memory.tables | {"analyses": in_memory.analyses}).items():
        table = (streamed.tables | {"analyses": streamed.analyses})[name]
        # Matrix products of other shapes may differ in the twelfth decimal of a similarity.
        rounded = {"intrinsic", "rho", "rho_all", "p", "p_all"} & {*expected}
        pd.testing.assert_frame_equal(
            table.drop(columns=rounded), expected.drop(columns=rounded), check_exact=True
        )
        for column in rounded:
            np.testing.assert_allclose(table[column], expected[column], rtol=0, atol=2e-12)


def vectors(count, role):
    per_item = 3 if role == "faces" else 1
    rng = np.random.default_rng(len(role))
    vectors = torch.from_numpy(rng.normal(size=((count + 1) // 2, per_item, 24))).repeat(2, 1, 1)[:count]
    return torch.nn.functional.normalize(vectors if per_item > 1 else vectors[:, 0], dim=-1)


def run(monkeypatch, targets, corpus, x, y, max_bytes):
    with monkeypatch.context() as patch:
        blocks = partial(similarity_blocks.similarity_blocks, max_bytes=max_bytes)
        patch.setattr(experiment, "similarity_blocks", blocks)
        return experiment.run(targets, corpus, x, y, stand_ins.protocol(60), 0)
