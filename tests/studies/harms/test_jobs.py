"""Run jobs on precomputed vectors and on the built-in world: results, keys, mistakes on the command line."""

import pandas as pd
import pytest
from safetensors.numpy import save_file

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs import encoder_job
from src.jobs.identity import Job
from src.stimuli import build_table
from src.studies.harms.outcomes import ALL_GROUPS
from src.studies.shared.face_classes import compose_prompts
from tests.commands import command
from tests.conftest import SHRUNK, store_overrides
from tests.studies.harms import face_world
from tests.studies.propagation.test_uncertainty import overrides
from tests.studies.test_precomputed import perform


def write(folder, frame=None):
    """Write faces and the sentences of all classes, a child among them."""
    cfg = face_world.compose("harms_child")
    faces = build_table("faces", face_world.draw_faces() if frame is None else frame, "test").frame
    prompts = compose_prompts(cfg.classes, sorted({*faces["group"]}), "literal").frame
    vectors, texts = face_world.draw_vectors(0, faces, prompts, harm=1.0)
    folder.mkdir()
    for role, table, array in (("faces", faces, vectors), ("prompts", prompts[["id", "sentence"]], texts)):
        table.to_parquet(folder / f"{role}.parquet")
        save_file({"embedding": array.astype("float32")}, folder / f"{role}.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write(tmp_path_factory.mktemp("vectors") / "lab")


@pytest.mark.thorough
def test_a_job_writes_its_tables_and_metrics(folder, job, tracker):
    harms_job = job(*overrides(folder, "harms"), *face_world.OPTIONS)
    analyses = perform(harms_job, tracker)
    assert {*analyses["classes"]} == {"clip"}
    assert {*analyses["kind"]} == {"non_human", "crime", "harm", "group"}
    names = {path.stem for path in (harms_job.output / "results").iterdir()}
    assert names == {"analyses", "attributes", "classified", "jackknife"}
    (run,) = tracker.find_finished("precomputed", encoder_job.compute_key(encoder_job.prepare(harms_job)))
    metrics = tracker.client.get_run(run.id).data.metrics
    total = analyses.query("kind == 'harm' and group == @ALL_GROUPS").iloc[0]
    assert metrics["harm/share"] == pytest.approx(total["share"])
    groups = analyses.query("kind == 'harm' and measure == @total.measure and group != @ALL_GROUPS")
    assert total["worst"] == ", ".join(groups.loc[groups["share"] == groups["share"].max(), "group"])


@pytest.mark.thorough
def test_classes_and_axis_are_in_the_key_and_the_classes_name_in_the_results(folder, job, tracker):
    def hashed(*options):
        return job(*overrides(folder, "harms"), *face_world.OPTIONS, *options).config_hash

    changes = [(), ("classes=clip_child",), ("exp.axis=age",), ("classes.harmful=[crime]",)]
    assert len({hashed(*options) for options in changes}) == len(changes)
    assert hashed("taxonomy=demo") == hashed("taxonomy=sobit")
    child = job(*overrides(folder, "harms_child"), *face_world.OPTIONS, "exp.axis=race:age")
    analyses = perform(child, tracker)
    assert {*analyses["classes"]} == {"clip_child"}
    assert {*analyses["group"]} == {"Black old", "Black young", "White old", "White young", ALL_GROUPS}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("classes.harmful=[crimes]", "unknown kind 'crimes'"),
        ("classes.kinds.crime=[]", "classes.kinds.crime: expected classes, got none"),
        ("classes.kinds.crime=[thief,animal]", "'animal' occurs 2 times, of non_human, crime"),
        ("+classes.groups={Asian Men:[asian man]}", "'Asian Men', which is no group of the faces"),
        ("+classes.groups={Black Men:[black man]}", "no classes for Black Women, White Men, White Women"),
        ("exp.groups=[Black Man]", "no faces of 'Black Man'"),
    ],
)
def test_mistakes_are_named_before_any_work(option, message, folder, job):
    with pytest.raises(InputError, match=message):
        encoder_job.prepare(job(*overrides(folder, "harms"), *face_world.OPTIONS, option))


def test_unknown_classes_and_fields_are_refused():
    with pytest.raises(InputError, match="clip_child"):
        configs.compose(["exp=harms", "classes=clip_kid"])
    with pytest.raises(InputError, match="kind"):
        configs.compose(["exp=harms", "classes.kind={}"])


@pytest.mark.parametrize(
    ("option", "message"),
    [("exp.axis=eyes", "expected a column eyes"), ("exp.groups=[Black Men]", "two or more groups")],
)
def test_other_faces_may_suit(option, message, folder, job):
    with pytest.raises(NotApplicable, match=message):
        encoder_job.prepare(job(*overrides(folder, "harms"), *face_world.OPTIONS, option))


def test_a_user_adds_classes_as_yaml(tmp_path):
    """Write classes in a folder of its own: kinds are added to those of the YAML that it builds on."""
    (tmp_path / "classes").mkdir()
    text = "defaults: [clip, _self_]\nname: mine\nkinds:\n  labour: [servant]\nharmful: [labour]\n"
    (tmp_path / "classes" / "mine.yaml").write_text(text)
    composed = configs.compose([f"hydra.searchpath=[file://{tmp_path}]", "exp=harms", "classes=mine"])
    classes = Job.of(*composed, "").cfg.classes
    assert [*classes.kinds] == ["non_human", "crime", "labour"]
    assert (classes.name, classes.harmful) == ("mine", ["labour"])


@pytest.mark.thorough
def test_the_built_in_world_runs_from_the_command_line_to_the_report_with_perturbed_pictures(
    stores, tmp_path
):
    arguments = [
        "-m",
        "exp=harms,harms_child",
        "perturb=none,grey",
        *SHRUNK,
        *store_overrides(stores),
        "report=true",
    ]
    swept = command(tmp_path / "out", *arguments)
    assert swept.code == 0
    tables = tmp_path / "out" / "report" / "tables"
    harms = pd.read_csv(tables / "harms.csv")
    assert {*harms["exp"]} == {"harms", "harms_child"}
    assert harms["n"].notna().all()
    changes = pd.read_csv(tables / "perturbations.csv")
    assert {"share: crime", "gap of share: harm"} <= {*changes["measure"].dropna()}
    assert changes.loc[changes["measure"] == "share: crime", "change_low"].notna().any()
    assert "Harmful classes" in (tmp_path / "out" / "report" / "index.html").read_text("utf-8")
