"""Check declared versions: each part gives its recorded output; a raised version is in the changelog."""

import inspect
import re

import pytest

from src import metrics
from src.storage import versions
from tests.paths import CHECKOUT
from tests.recorded import comparison
from tests.recorded.recorders import RECORDERS


@pytest.mark.parametrize("piece", RECORDERS)
def test_the_output_of_each_version_is_the_recorded_output(piece, tmp_path):
    recorded = comparison.read(piece)
    assert recorded["version"] == versions.all_declared_versions()[piece], (
        f"{piece} has another version than its recorded output. Record it: python -m tests.recorded"
    )
    computed = comparison.to_json(RECORDERS[piece].compute(tmp_path))
    changed = comparison.differences(piece, RECORDERS[piece], recorded["output"], computed)
    assert not changed, "\n".join(
        [*changed, f"Raise {piece}.version in src/versions.yaml, or mend the code."]
    )


def test_all_versioned_code_is_recorded_and_nothing_else():
    files = {path.stem for path in comparison.OUTPUTS.glob("*.json")}
    assert files == {*RECORDERS} == {*versions.all_declared_versions()}


def test_every_metric_is_recorded():
    recorded = {*comparison.read("metrics")["output"]}
    public = {name for name, value in vars(metrics).items() if inspect.isfunction(value)}
    # These are recorded through the metrics that are computed from them.
    internal = {"draw_orders", "factorise", "iat_scores", "iat_totals", "merge_tile"}
    assert public - internal <= recorded


def test_a_raised_version_is_in_the_changelog():
    changelog = (CHECKOUT / "CHANGELOG.md").read_text("utf-8")
    raised = [f"`{name}` version {n}" for name, n in versions.all_declared_versions().items() if n > 1]
    assert [change for change in raised if not re.search(rf"{re.escape(change)}\b", changelog)] == []
