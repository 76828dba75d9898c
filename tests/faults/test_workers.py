"""The main process alone is killed: its workers go, and nothing that they held is held on."""

import pytest

from tests.faults.stages import content, half_written
from tests.faults.test_disk import mounted, mounting


@pytest.mark.thorough
def test_workers_that_morph_go_with_their_owner_and_so_does_its_lock(bench):
    bench.make("morph by two")
    bench.restore("morph by two")
    killed = bench.run("morph by two", alone=3)
    assert killed.status == -9
    assert killed.orphans < 30
    assert half_written(bench.kept) == []
    again = bench.run("morph by two", limit=120)
    assert again.status == 0, again.said
    assert content(bench.kept) == bench.wanted["morph by two"]


@mounting
@pytest.mark.thorough
def test_workers_that_load_pictures_go_with_their_owner(bench):
    """Pictures are loaded by processes only where the disk has no room to keep them resized."""
    bench.make("embed")
    bench.restore("embed")
    chosen = ["model.batch_size=1", "trainer.workers=2"]
    with mounted(bench.kept / "pictures", "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        killed = bench.run("embed", *chosen, alone=2)
        assert killed.status == -9, killed.said
        assert killed.orphans < 30
        again = bench.run("embed", *chosen)
        assert again.status == 0, again.said
    assert half_written(bench.kept) == []
    assert list((bench.kept / "embeddings" / "faces").iterdir())
