"""Define a loader and a set of labels outside of src."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.extending.conftest import TOY, WORLD

GROUPS = [f"{people} {gender}" for people in ("Niffite", "Luupite", "Laapian") for gender in ("Women", "Men")]
# Overrides that choose the layout and a small model.
LAYOUT = ["dataset=folders", *TOY, *WORLD[1:]]


@pytest.fixture
def root(tmp_path):
    """Write 12 pictures of noise for each group and a text file; return the override that selects them."""
    rng = np.random.default_rng(0)
    for group in GROUPS:
        (tmp_path / "pictures" / group).mkdir(parents=True)
        for number in range(12):
            noise = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / "pictures" / group / f"{number:02}.png")
    (tmp_path / "pictures" / GROUPS[0] / "notes.txt").write_text("of the session")
    return f"faces.options.root={tmp_path / 'pictures'}"


def test_a_layout_is_read_and_in_the_report(run, root, jobs, capsys):
    swept = run("out", *LAYOUT, root, "exp=faces_to_words")
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    assert (set(analyses["dataset"]), set(analyses["group"])) == ({"folders"}, set(GROUPS))
    assert "folders" in (swept.output / "report" / "index.html").read_text()
    for job in jobs():
        assert job.tags["dataset"] == "folders"
        assert job.tags["used.faces"] == "faces: 72 used of 73 (1 are no .png)"
    targets = pd.read_parquet(swept.results("faces_to_words") / "targets.parquet")
    assert {name.rpartition("/")[0] for name in targets["id"]} == set(GROUPS)


PEOPLES = ("niffite", "niff-born", "luupite", "luup-born", "laapian", "laap-born")


@pytest.mark.thorough
def test_a_label_set_is_used_and_in_the_report(run, jobs, capsys):
    swept = run("out", "labels=short", *TOY, *WORLD, "exp=labels_to_scenes")
    assert swept.code == 0, capsys.readouterr().out
    (job,) = jobs()
    # Two words for a people times three for a gender, in each of six templates.
    assert job.tags["used.labels"] == "labels: 36 used of 36, 216 sentences"
    targets = pd.read_parquet(swept.results("labels_to_scenes") / "targets.parquet")
    phrases = {f"{people}{word}" for people in PEOPLES for word in (" woman", " sister", " father")}
    assert phrases < set(targets["id"])
    assert len(targets) == 36
    assert len(swept.analyses()) == 6
    assert "labels_to_scenes" in (swept.output / "report" / "index.html").read_text()
