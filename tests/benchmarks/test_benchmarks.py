"""The benchmark's commands are those of the entries; what they take is measured by `make bench`."""

import json
import os
import re
import time
from dataclasses import asdict

import open_clip
import pytest
import torch
from open_clip.transform import image_transform

from benchmarks import __main__ as bench
from benchmarks import (
    analysis,
    commands,
    image_embedding,
    scale,
    stand_ins,
    text_embedding,
    timing,
)
from benchmarks.sizes import QUICK, Size, job_config
from benchmarks.timing import Compared
from src import configs, encoders, stage
from src.demo import world
from src.embeddings import microbatches
from src.encoders.openclip import OpenClip
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.stimuli import checked
from src.tracking import Tracker
from tests.encoders import published as made


def noted(monkeypatch):
    """What would be run."""
    typed = []
    monkeypatch.setattr(
        commands, "_timed", lambda what, given: typed.append(given) or commands.Row(what, 2.0, 30.0)
    )
    return typed


def called(monkeypatch, result, module=commands):
    """What would be called in processes of its own."""
    calls = []

    def call(*given, **named):
        calls.append((given, named))
        return result

    monkeypatch.setattr(module, "in_fresh_process", call)
    return calls


def test_every_command_of_the_benchmark_is_one(monkeypatch, tmp_path):
    typed = noted(monkeypatch)
    monkeypatch.setattr(commands, "_analysed", lambda _: 0.1)
    list(commands.stages(Size(), tmp_path))
    sweeps = list(commands.sweeps(Size(), tmp_path))
    assert [row.asked for row in sweeps] == [25, 90, None, 0.4]
    assert sweeps[3].seconds == sweeps[2].seconds - 0.1
    stages = [arguments[1:] for arguments in typed if arguments[0] == "src.stage"]
    assert [arguments[0] for arguments in stages] == ["ingest", "morph", "weights", *["embed"] * 4]
    for arguments in stages:
        asked = stage._parse(arguments)
        Job.of(*configs.compose(asked.overrides), "")


def test_the_analysis_of_a_job_is_what_jobs_logged(tmp_path):
    tracker = Tracker(f"sqlite:///{tmp_path}/mlflow.db")
    for status, seconds in (("FINISHED", 1.0), ("FINISHED", 3.0), ("FAILED", 9.0)):
        run = tracker.open("demo", "a job")
        run.log(tags={"kind": "job"}, metrics={"analysis_seconds": seconds})
        tracker.close(run, status)
    assert commands._analysed(tmp_path / "mlflow.db") == 2


def test_every_experiment_can_be_measured_on_stand_ins(tmp_path):
    (tmp_path / "lab").mkdir()
    stand_ins.write(stand_ins.paper_tables(QUICK), QUICK.width, tmp_path / "lab")
    for exp in stand_ins.EXPERIMENTS:
        given = ["model=precomputed", f"model.path={tmp_path}/lab", f"exp={exp}", f"protocol.k={QUICK.k}"]
        given += [f"protocol.{name}" for name in stand_ins.STEPS["scores"]]
        encoder_job.prepare(Job.of(*configs.compose(given), ""))


def test_every_audit_can_be_measured_on_stand_ins(tmp_path, monkeypatch):
    typed = noted(monkeypatch)
    list(commands.sobit(QUICK, tmp_path))
    assert len(typed) == sum(map(len, stand_ins.AUDITS.values()))
    for arguments in typed:
        given = [one for one in arguments[1:] if not one.startswith(("hydra.", "tracking."))]
        encoder_job.prepare(Job.of(*configs.compose(given), ""))


def test_the_loop_over_pictures_is_measured_beside_its_forward_pass(monkeypatch, tmp_path):
    model = made.build("ViT-B-32-quickgelu", tmp_path)
    network = OpenClip(model, image_transform(32, is_train=False), None, "small").eval()
    monkeypatch.setattr(encoders, "blank", lambda _: network)
    rows = image_embedding.pictures("clip_b32", 7, 40, "cpu", "fp32")
    assert [row.asked for row in rows] == [0.97, 0.97, 0.9, 0.9, None, None]
    whole, parts = "bare forward pass of batches", "bare forward pass in the loop's passes"
    assert [row.peer for row in rows] == [whole, parts, whole, parts, parts, parts]
    assert all(row.seconds > 0 < row.peer_seconds for row in rows)


def test_the_bare_pass_is_shown_what_the_loop_shows(monkeypatch, tmp_path):
    model = made.build("ViT-B-32-quickgelu", tmp_path)
    network = OpenClip(model, image_transform(32, is_train=False), None, "small").eval()
    shown, encode = [], network.encode_images
    monkeypatch.setattr(network, "encode_images", lambda one: shown.append(len(one)) or encode(one))
    monkeypatch.setattr(microbatches, "WIDEST", 3 * microbatches._widest(encode, torch.zeros(1, 3, 32, 32)))
    drawn = world.scenes(configs.AbstractConfig(count=11, size=40, noise=0.1, seed=0), tmp_path / "drawn")
    runs = dict(image_embedding._runs(network, checked("scenes", drawn, "drawn"), 8, "cpu", tmp_path))
    loop, _ = image_embedding.LOOPS
    for name in ("bare forward pass in the loop's passes", loop):
        shown.clear()
        runs[name]()
        # One to see what is wide, then a batch of eight in three passes and one of three in one.
        assert shown == [1] * (name == loop) + [3, 3, 2, 3]


def test_what_is_compared_by_turns_is_their_median_and_range():
    assert timing.turn_by_turn([1.0, 2.0, 4.0], [2.0, 2.0, 2.0]) == "by turns 1.00 (0.50 to 2.00)"


def test_a_rate_is_told_as_a_share_of_what_the_device_can(monkeypatch):
    monkeypatch.setattr(image_embedding, "_peak", lambda _: ("a device", 20.0))
    cfg = job_config("model=clip_l14", "model.weights=random")
    # 162.03 GFLOP an image.
    assert image_embedding._rate(100, cfg, "cpu") == "bare: 100 images/s, 16.2 TFLOP/s, 81% of a device"


def test_texts_are_measured_beside_open_clip_and_agree(monkeypatch, tmp_path):
    model = made.build("ViT-B-32-quickgelu", tmp_path)
    tokenizer = open_clip.get_tokenizer("ViT-B-32", context_length=model.context_length)
    monkeypatch.setattr(encoders, "blank", lambda _: OpenClip(model, None, tokenizer, "small").eval())
    (row,) = text_embedding.texts("clip_b32", 40)
    assert (row.what, row.asked) == ("clip_b32: predict loop, 40 sentences", 20)
    apart = re.fullmatch("cosines at most (.*) apart", row.note)
    assert float(apart.group(1)) < 1e-5


def test_an_experiment_is_measured_beside_its_peers():
    rows = analysis.analysis(QUICK, "scenes_to_labels", vectors=2)
    assert {row.what.split(":")[0] for row in rows} == {"scenes_to_labels"}
    assert [row.asked for row in rows] == [1 / 1.6, 1 / 1.6, 30, None]
    assert all(row.seconds > 0 < row.peer_seconds for row in rows)
    # Twice: as two experiments.
    summed = analysis.together([*rows, *rows])
    assert [row.peer for row in summed] == [row.peer for row in rows]
    assert [row.seconds for row in summed] == [2 * row.seconds for row in rows]
    assert [row.times for row in summed] == pytest.approx([row.times for row in rows])
    assert {row.what for row in summed} == {"all 2 experiments of a model"}


def test_what_is_measured_is_written_with_the_machine_and_shown(monkeypatch, tmp_path):
    row = Compared("ours", 0.5, "theirs", 2.0, 3)
    called(monkeypatch, [row])
    assert bench.main(["peers", "--quick", "--output", str(tmp_path)]) == 0
    monkeypatch.setattr(commands, "growth", lambda _: [commands.Row("one more", 2.0, 30.0, 90)])
    assert bench.main(["growth", "--output", str(tmp_path)]) == 0

    found = json.loads((tmp_path / "peers.json").read_text())
    assert len(found["rows"]) == 14
    assert found["rows"][0] == {**asdict(row), "times": 4.0}
    assert found["rows"][12]["what"] == "all 8 experiments of a model"
    assert [found["rows"][12][name] for name in ("seconds", "peer_seconds", "asked")] == [4.0, 16.0, 3]
    lines = (tmp_path / "README.md").read_text().splitlines()
    assert sum(line.split("|")[1:6] == CELLS for line in map(tight, lines)) == 13
    assert "|one more|2.00|90|30|" in map(tight, lines)
    assert sum(found["machine"]["python"] in line for line in lines) == 2


CELLS = ["ours", "0.50", "theirs", "2.00", "4.00"]


def tight(line):
    return "|".join(cell.strip() for cell in line.split("|"))


def test_a_quick_benchmark_has_something_of_everything_to_measure(monkeypatch, tmp_path):
    calls = called(monkeypatch, [])
    list(commands.peers(QUICK))
    embedding = (text_embedding.texts, image_embedding.pictures)
    counts = [count for (call, _, count, *_), _ in calls if call in embedding]
    assert len(counts) == 4
    assert all(count >= 1 for count in counts)


@pytest.mark.parametrize("items", [1, 7, 200_000])
def test_no_corpus_is_empty_however_few_items_are_asked_for(monkeypatch, items, tmp_path):
    calls = called(monkeypatch, {}, scale)
    monkeypatch.setattr(scale, "write", lambda *_: None)
    list(scale.measure(tmp_path, items, 32))
    assert [count > 0 for (_, _, count, *_), _ in calls] == [True] * 5


def test_growth_is_measured_at_three_sizes_of_each(monkeypatch):
    calls = called(monkeypatch, ("what", 1.5, 20.0))
    rows = list(commands.growth(QUICK))
    assert (rows[0].what, rows[0].seconds, rows[0].peak_mb) == ("growth: what", 1.5, 20.0)
    sizes = [size for (_, size, _), _ in calls]
    assert [size.paper_faces for size in sizes[:3]] == [150, 300, 600]
    assert [size.width for size in sizes[6:9]] == [128, 256, 512]
    assert len(sizes) == 12


def test_a_part_that_is_not_there_is_said(capsys):
    with pytest.raises(SystemExit, match="2"):
        bench.main(["wroth"])
    assert "no such part: wroth" in capsys.readouterr().err


def test_what_is_compared_takes_turns_and_every_turn_begins_with_another():
    order, seconds = [], iter([5.0, 3.0, 4.0, 2.0, 7.0, 6.0])

    def run(name):
        order.append(name)
        return next(seconds)

    found = timing.in_turns({"a": lambda: run("a"), "b": lambda: run("b")})
    assert "".join(order) == "abbaab"
    assert found == {"a": 2.0, "b": 3.0}


def test_a_commands_memory_is_its_own_and_not_that_of_who_started_it():
    held = b"x" * 300_000_000
    start = time.perf_counter()
    row = commands._timed("help", ["json.tool", "--help"])
    assert len(held) > 1e6 * row.peak_mb > 5e6
    assert 0 < row.seconds <= time.perf_counter() - start
    with pytest.raises(SystemExit, match="wrong failed:(.|\n)*unrecognized arguments: --wrong"):
        commands._timed("wrong", ["json.tool", "--wrong"])


def test_what_is_called_in_a_process_of_its_own_has_its_own_memory():
    held = b"x" * 300_000_000
    assert timing.in_fresh_process(os.getpid) != os.getpid()
    _, _, peak = timing.in_fresh_process(analysis.alone, QUICK, "scenes_to_labels")
    assert 1e6 * peak < len(held)
    with pytest.raises(ValueError, match="negative"):
        timing.in_fresh_process(time.sleep, -1)
