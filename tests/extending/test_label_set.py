"""A label set of a test's own folder, one YAML, goes through the command line into MLflow and the report."""

from pathlib import Path

import pandas as pd

from tests.commands import command
from tests.conftest import places
from tests.extending.test_encoder import SMALL

FOLDER = Path(__file__).with_name("label_set")
PEOPLES = ("niffite", "niff-born", "luupite", "luup-born", "laapian", "laap-born")
MODEL = ["model=toy_s", "model.steps=0", "model.width=16", "model.layers=1", "model.embed_dim=16"]


def test_a_label_set_is_shown_and_in_the_report(tmp_path, capsys):
    from src.tracking import Tracker, children, sweeps

    *stores, _ = places(tmp_path)
    arguments = [f"--config-dir={FOLDER / 'conf'}", "labels=short", *MODEL, *SMALL, *stores]
    swept = command(tmp_path / "out", "-m", *arguments, "exp=labels_to_scenes")
    assert swept.code == 0, capsys.readouterr().out
    tracker = Tracker(f"sqlite:///{tmp_path}/mlruns/mlflow.db")
    (run,) = children(tracker, *sweeps(tracker))
    # Two words of a people times three of a gender, in each of six templates.
    assert run.tags["used.labels"] == "labels: 36 used of 36, 216 sentences"
    targets = pd.read_parquet(swept.results("labels_to_scenes") / "targets.parquet")
    phrases = {f"{people}{word}" for people in PEOPLES for word in (" woman", " sister", " father")}
    assert phrases < set(targets["id"])
    assert len(targets) == 36
    assert len(swept.analyses()) == 6
    assert "labels_to_scenes" in (swept.output / "report" / "index.html").read_text()


def test_labels_that_name_other_groups_are_refused(tmp_path, capsys):
    (tmp_path / "conf" / "labels").mkdir(parents=True)
    text = (FOLDER / "conf" / "labels" / "short.yaml").read_text()
    (tmp_path / "conf" / "labels" / "other.yaml").write_text(text.replace("Niffite:", "Niffites:"))
    arguments = [f"--config-dir={tmp_path / 'conf'}", "labels=other", *MODEL, *SMALL, *places(tmp_path)]
    assert command(tmp_path / "o", *arguments, "exp=faces_to_labels").code == 1
    output = capsys.readouterr()
    assert "no label names the faces of Niffite Men, Niffite Women" in output.err + output.out
    assert "Traceback" not in output.err + output.out
