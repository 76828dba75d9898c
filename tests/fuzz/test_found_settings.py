"""What bad settings once did: YAMLs of a config or a pipeline, and notes that this program keeps."""

import os
import subprocess
import sys

import pytest

from src import configs, stage
from src.configs import composition
from src.encoders import hub
from src.errors import InputError
from src.report import publish
from tests.paths import CHECKOUT

DEEP = b"[" * 100_000
BAD = {"bad": b"name: [a\nb: }", "bytes": b"\xff\xfe", "twice": b"a: 1\na: 2\n", "deep": DEEP}


@pytest.mark.parametrize("name", BAD)
def test_a_yaml_of_a_config_that_is_none_is_named(tmp_path, monkeypatch, name):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "run.yaml").write_text(f"defaults: [_self_, {{model: {name}}}]\n")
    (tmp_path / "conf" / "model" / f"{name}.yaml").write_bytes(BAD[name])
    monkeypatch.setattr(composition, "CONF", tmp_path / "conf")
    with pytest.raises(InputError, match=rf"conf/model/{name}.yaml: .*\. Correct it\."):
        configs.compose([])


def test_no_traceback_is_shown_of_a_yaml_of_ones_own(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_bytes(BAD["bad"])
    done = subprocess.run(
        [sys.executable, "-m", "src.run", f"--config-dir={tmp_path}", "model=mine", "exp=faces_to_words",
         f"hydra.run.dir={tmp_path}/out"],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{tmp_path}/model/mine.yaml: while parsing a flow sequence" in done.stderr
    assert "Correct it." in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1", r"while parsing a flow sequence.*Correct it"),
        (b"a: 1\na: 2\n", "found duplicate key a.*Correct it"),
        (b"- a\n", "no parameters, but list. Write name: value"),
        (b"\xff\xfe", "can't decode byte.*Correct it"),
        (DEEP, "recursion.*Correct it"),
    ],
)
def test_parameters_of_a_pipeline_that_are_none_are_refused(tmp_path, content, said):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(InputError, match=rf"params.yaml: .*{said}"):
        stage.read(["a"], tmp_path / "params.yaml")


def test_a_note_that_is_nested_too_deeply_is_none(tmp_path):
    (tmp_path / publish.MARK).write_bytes(DEEP)
    with pytest.raises(InputError, match="is there already and is no report. Nothing is written"):
        publish.check(tmp_path)


def test_files_that_are_missing_are_named_in_few_words(tmp_path):
    with pytest.raises(InputError, match=r"no x{200}… \(there: nothing\). Put it there") as refused:
        hub.files(hub.Place(str(tmp_path), folder=True, remedy="Put it there."), [("x" * 10_000,)])
    assert len(str(refused.value)) < 1000
