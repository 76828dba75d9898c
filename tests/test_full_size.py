"""Run a published architecture at full size on photographs, with random weights (its rho is meaningless)."""

import json

import pytest

from tests.commands import command
from tests.conftest import store_overrides
from tests.paths import SHARED

CHOSEN = [
    "dataset=photos", f"dataset.root={SHARED}", "model=clip_b32", "model.weights=random", "model.sha256=''",
    "model.batch_size=32", "faces.per_group=50", "words=vader", "words.count=100",
    "labels.gender_words.Women=[woman]", "labels.gender_words.Men=[man]",
    "protocol.k=50", "protocol.set_size=30", "trainer=cpu",
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.skipif(not SHARED.is_dir(), reason="the published photographs are not here")
@pytest.mark.timeout(1800)
def test_all_eight_experiments_run_on_photographs(tmp_path):
    swept = command(tmp_path / "all", "-m", "exp=glob(*_to_*)", *CHOSEN, *store_overrides(tmp_path))
    assert swept.code == 0
    analyses = swept.analyses()
    assert len(analyses) == 38
    assert set(analyses["model"]) == {"clip_b32+random"}
    assert (analyses["rho"].notna() | analyses["reason"].notna()).all()
    manifests = [json.loads(path.read_text()) for path in (tmp_path / "embeddings").glob("*/*/manifest.json")]
    shapes = {manifest["role"]: manifest["shape"] for manifest in manifests}
    assert shapes == {"faces": [300, 512], "scenes": [806, 512], "words": [600, 512], "labels": [432, 512]}
