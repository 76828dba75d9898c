"""Run jobs on precomputed vectors of matched pictures: keys, projections, and faces without sets."""

import pandas as pd
import pytest

from src import stimuli
from src.errors import NotApplicable
from src.jobs import encoder_job
from src.studies.matched.captions import ALL_CAPTIONS
from tests.conftest import precomputed
from tests.studies.matched import set_world
from tests.studies.propagation.test_uncertainty import overrides
from tests.studies.test_precomputed import perform

FEW = ["protocol.top_k=9", "protocol.k=9", "protocol.extremes=5", "protocol.permutations=99"]
FEW += ["protocol.article=literal"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return set_world.write_world(tmp_path_factory.mktemp("vectors") / "lab", person=0.5)


@pytest.mark.thorough
def test_a_job_writes_its_tables_and_metrics(folder, job, tracker):
    matched_job = job(*overrides(folder, "matched"), *FEW)
    analyses = perform(matched_job, tracker)
    assert analyses["caption"].nunique() == len(set_world.OCCUPATIONS) + 1
    assert analyses["rank"][analyses["caption"] == ALL_CAPTIONS].mean() == pytest.approx(0.5)
    names = {path.stem for path in (matched_job.output / "results").iterdir()}
    assert names == {"analyses", "attributes", "nearest", "orders"}
    (run,) = tracker.find_finished("precomputed", encoder_job.compute_key(encoder_job.prepare(matched_job)))
    metrics = tracker.client.get_run(run.id).data.metrics
    assert metrics["recall"] == pytest.approx(analyses["recall"].iloc[-1])
    assert "rank/Men" in metrics


@pytest.mark.thorough
def test_real_shares_are_in_the_key(folder, job, tmp_path):
    path = tmp_path / "real.csv"
    rows = [("actor", name, share) for name, share in zip(set_world.GROUPS, (0.5, 0.2, 0.3), strict=True)]

    def key(shares):
        pd.DataFrame(shares, columns=["occupation", "group", "real_share"]).to_csv(path, index=False)
        matched_job = job(*overrides(folder, "matched"), *FEW, f"exp.shares={path}")
        return encoder_job.compute_key(encoder_job.prepare(matched_job))

    assert key(rows) == key(rows[::-1])
    swapped = [(name, group, share) for (name, group, _), (*_, share) in zip(rows, rows[::-1], strict=True)]
    assert key(rows) != key(swapped)


def test_subjects_that_are_no_attribute_are_in_the_key(job, tmp_path):
    frame, vectors, *captions = set_world.draw()
    frame = frame.rename(columns={"occupation": "place"})

    def key(faces):
        tables = {"faces": (faces, vectors), "prompts": tuple(captions)}
        folder = set_world.write(tmp_path / "lab", tables)
        stimuli._tables.clear()  # tables are cached per process
        matched_job = job(*overrides(folder, "matched"), *FEW, "exp.subject=place")
        return encoder_job.compute_key(encoder_job.prepare(matched_job))

    swapped = frame["place"].replace({"actor": "baker", "baker": "actor"})
    assert key(frame) == key(frame)
    assert key(frame) != key(frame.assign(place=swapped))


@pytest.mark.parametrize("exp", ["matched", "matched_words"])
def test_faces_without_sets_are_not_applicable(job, tmp_path, exp):
    folder = precomputed(tmp_path / "lab")
    stimuli._tables.clear()  # tables are cached per process
    with pytest.raises(NotApplicable, match="expected a column set"):
        encoder_job.prepare(job(*overrides(folder, exp), *FEW))
