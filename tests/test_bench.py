"""The benchmark's commands are those of the entries; what they take is measured by `make bench`."""

from src import bench, configs, stage
from src.jobs import Job


def test_every_command_of_the_benchmark_is_one(monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(bench, "_command", lambda what, arguments: commands.append(arguments))
    list(bench.stages(bench.Size(), tmp_path))
    stages = [arguments[1:] for arguments in commands if arguments[0] == "src.stage"]
    assert [arguments[0] for arguments in stages] == ["ingest", "morph", "weights", *["embed"] * 4]
    for arguments in stages:
        asked = stage._parse(arguments)
        Job.of(*configs.compose(asked.overrides), "")
