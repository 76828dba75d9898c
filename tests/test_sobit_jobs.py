"""So-B-IT's experiments as jobs: precomputed vectors, a word list that is dropped in, what does not apply."""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from src import stage
from src.errors import InputError, NotApplicable
from src.report.load import by_study, everything
from tests.commands import command
from tests.conftest import places, precomputed
from tests.test_projected import perform, tracker  # noqa: F401

FEW = ["protocol.permutations=49", "protocol.bootstrap=20", "protocol.vocabulary=30", "protocol.top_k=9"]
LIST = {
    "tempers": {"adjective": ["calm", "odd"]},
    "trades": {"noun": ["hero", "herald"], "activity": ["reading"]},
}


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    path = tmp_path_factory.mktemp("lists") / "short.json"
    path.write_text(json.dumps(LIST))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory, listed):
    """Vectors of faces that have race and gender, and of all that the audits say."""
    place = precomputed(tmp_path_factory.mktemp("vectors") / "lab", width=24)
    frame = pd.read_parquet(place / "faces.parquet")
    frame[["race", "gender"]] = frame["group"].str.split(" ", expand=True)
    frame.to_parquet(place / "faces.parquet")
    asked = ["prompts", "--output", str(place / "prompts.parquet"), *overrides(place, "association", listed)]
    assert stage.main(asked) == 0
    vectors = np.random.default_rng(3).normal(size=(len(pd.read_parquet(place / "prompts.parquet")), 24))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    save_file({"embedding": vectors.astype(np.float32)}, place / "prompts.safetensors")
    return place


def overrides(place, measure, listed):
    chosen = [f"exp=sobit_{measure}", "model=precomputed", f"model.path={place}", f"taxonomy.path={listed}"]
    return [*chosen, *FEW]


@pytest.mark.parametrize("measure", ["association", "retrieval", "strength"])
def test_it_runs_on_precomputed_vectors_and_a_list_of_ones_own(folder, listed, job, tracker, measure):  # noqa: F811
    made = job(*overrides(folder, measure, listed))
    found = perform(made, tracker)
    assert {*found["taxonomy"]} == {"short"}
    assert list(dict.fromkeys(found["word"])) == ["calm", "odd", "hero", "herald", "reading"]
    assert len(found) == 5 * (1 if measure == "strength" else 2 + 2 + 3)
    assert list(found.columns[:9]) == [
        "study",
        "exp",
        "paper",
        "model",
        "dataset",
        "debias",
        "protocol",
        "seed",
        "config",
    ]
    value = {"association": "association", "retrieval": "ratio", "strength": "strength"}[measure]
    assert found[value].notna().all()
    (logged,) = tracker.finished("precomputed", _key(made))
    assert logged.id


def _key(made):
    from src.jobs import encoder_job

    return encoder_job.key(encoder_job.prepare(made))


def test_analyses_of_all_three_stand_in_one_table(folder, listed, job, tracker):  # noqa: F811
    parts = [perform(job(*overrides(folder, name, listed)), tracker) for name in ("association", "strength")]
    found = everything(by_study(parts))
    assert len(found) == sum(map(len, parts))
    assert found["n"].dtype == "Int64"


@pytest.mark.thorough
def test_another_list_is_another_job_and_lies_anywhere(folder, listed, job, tmp_path):
    def config(path):
        return job(*overrides(folder, "association", path)).config_hash

    copy = tmp_path / "short.json"
    copy.write_text(listed.read_text())
    assert config(copy) == config(listed)
    copy.write_text(json.dumps({**LIST, "more": {"noun": ["smith"]}}))
    assert config(copy) != config(listed)
    # Nor does it matter where the types of its words lie, but which they are.
    copy.write_text(json.dumps({"tempers": ["calm"]}))
    typed = []
    for name, kind in (("a", "noun"), ("b", "noun"), ("c", "adjective")):
        (tmp_path / f"{name}.yaml").write_text(f"calm: {kind}\n")
        chosen = [*overrides(folder, "association", copy), f"taxonomy.types={tmp_path}/{name}.yaml"]
        typed.append(job(*chosen).config_hash)
    assert typed[0] == typed[1]
    assert len({*typed, config(copy)}) == 3
    # A list decides nothing in other experiments.
    other = [job("model=toy_s", f"taxonomy={name}").config_hash for name in ("sobit", "demo")]
    assert other[0] == other[1]


def test_a_missing_prompt_is_named_and_many_are_counted(folder, listed, job, tmp_path):
    place = precomputed(tmp_path / "lab", width=24)
    for name in ("faces.parquet", "faces.safetensors"):
        (place / name).write_bytes((folder / name).read_bytes())
    frame = pd.DataFrame({"id": ["x"], "sentence": ["a photo of a hero"]})
    frame.to_parquet(place / "prompts.parquet")
    save_file({"embedding": np.eye(1, 24, dtype=np.float32)}, place / "prompts.safetensors")
    from src.jobs import encoder_job

    with pytest.raises(
        NotApplicable, match="4 of the 5 prompts.*'a photo of a calm person'.*'a photo of an odd"
    ):
        encoder_job.prepare(job(*overrides(place, "retrieval", listed)))
    with pytest.raises(NotApplicable, match=r"and \d+ more. All of them: python -m src.stage prompts"):
        encoder_job.prepare(job(*overrides(place, "association", listed), "protocol.vocabulary=300"))


@pytest.mark.thorough
def test_faces_without_race_and_gender_are_not_applicable_in_a_glob_and_an_error_by_name(tmp_path, capsys):
    place = precomputed(tmp_path / "lab", width=24)
    chosen = ["model=precomputed", f"model.path={place}", *places(tmp_path / "p"), *FEW]
    swept = command(tmp_path / "glob", "-m", "exp=glob(sobit_*)", *chosen)
    said = " ".join(capsys.readouterr().out.split())
    assert swept.code == 0
    assert "Not applicable" in said
    for measure in ("association", "retrieval", "strength"):
        assert f"sobit_{measure}" in said
    assert command(tmp_path / "named", "-m", "exp=sobit_association", *chosen).code == 1
    assert "no column race" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"tempers": {"adjectiv": ["calm"]}}, "did you mean adjective"),
        ({"tempers": {"adjective": ["calm", "Calm "]}}, "'Calm' stands there already"),
        ({"tempers": {"adjective": []}, "trades": {"noun": ["smith"]}}, "tempers: no words"),
        ({"tempers": ["calm"]}, "taxonomy.untyped"),
    ],
)
def test_a_list_with_a_mistake_is_refused_before_any_work(folder, job, tmp_path, content, said):
    from src.jobs import encoder_job

    path = tmp_path / "list.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=said):
        encoder_job.prepare(job(*overrides(folder, "association", path)))


def test_readings_that_decide_nothing_do_not_count_twice(folder, listed, job):
    from src.jobs import encoder_job

    for measure, protocol in (("retrieval", "baseline_bare"), ("association", "k_100")):
        with pytest.raises(NotApplicable, match="decides nothing"):
            encoder_job.prepare(job(*overrides(folder, measure, listed), f"protocol={protocol}"))
    bare = job(*overrides(folder, "association", listed), "protocol=baseline_bare")
    from src.studies.protocol import study_of

    assert "the" in set(study_of(bare.cfg.exp).prompts(bare.cfg).frame["sentence"])
    literal = job(*overrides(folder, "retrieval", listed), "protocol=article_literal")
    assert "a photo of a/an odd person" in set(
        study_of(literal.cfg.exp).prompts(literal.cfg).frame["sentence"]
    )
