"""The benchmark's commands are those of the entries; what they take is measured by `make bench`."""

from open_clip.transform import image_transform

from src import configs, pipeline, stage
from src.bench import __main__ as bench
from src.bench import analysis, pictures, sobit, worth
from src.bench.sizes import QUICK, Size
from src.encoders.openclip import OpenClip
from src.jobs import Job
from tests.encoders import published as made


def test_every_command_of_the_benchmark_is_one(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(bench, "_command", lambda what, arguments: commands.append(arguments))
    list(bench.stages(Size(), tmp_path))
    stages = [arguments[1:] for arguments in commands if arguments[0] == "src.stage"]
    assert [arguments[0] for arguments in stages] == ["ingest", "morph", "weights", *["embed"] * 4]
    for arguments in stages:
        asked = stage._parse(arguments)
        Job.of(*configs.compose(asked.overrides), "")


def test_every_experiment_can_be_measured_on_stand_ins(tmp_path):
    worth.stand_ins(QUICK, tmp_path / "lab")
    for exp in worth.EXPERIMENTS:
        given = ["model=precomputed", f"model.path={tmp_path}/lab", f"exp={exp}", f"protocol.k={QUICK.k}"]
        given += [f"protocol.{name}" for name in worth.STEPS["scores"]]
        pipeline.prepare(Job.of(*configs.compose(given), ""))


def test_every_audit_can_be_measured_on_stand_ins(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(bench, "_command", lambda what, arguments: commands.append(arguments))
    list(bench.sobit(QUICK, tmp_path))
    assert len(commands) == sum(map(len, sobit.AUDITS.values()))
    for arguments in commands:
        given = [one for one in arguments[1:] if not one.startswith(("hydra.", "tracking."))]
        pipeline.prepare(Job.of(*configs.compose(given), ""))


def test_the_loop_over_pictures_is_measured_beside_its_forward_pass(monkeypatch, tmp_path):
    model = made.build("ViT-B-32-quickgelu", tmp_path)
    network = OpenClip(model, image_transform(32, is_train=False), None, "small").eval()
    monkeypatch.setattr(pictures, "_network", lambda *_: network)
    rows = pictures.pictures("small", 7, 40, 3, "cpu", "fp32")
    assert [row["what"].split(": ")[1][:8] for row in rows] == [
        "bare for",
        *["predict "] * 2,
        *["the loop"] * 2,
    ]
    assert rows[0]["share"] == 1
    assert all(0 < row["share"] < 1 for row in rows[3:])


def test_an_experiment_is_measured_beside_its_peers():
    rows = analysis.analysis(QUICK, "scenes_to_labels", vectors=2)
    assert [row["what"].split(":")[0] for row in rows] == ["scenes_to_labels"] * 5
    assert all(row["seconds"] > 0 for row in rows)
    assert rows[0]["above_mb"] is not None
