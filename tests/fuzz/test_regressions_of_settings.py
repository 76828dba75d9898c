"""Check settings that fuzzing found: YAMLs of a config or a pipeline, and long names of files."""

import pytest

from src import configs, stage
from src.configs import composition
from src.encoders import hub
from src.errors import InputError

DEEP = b"[" * 100_000
BAD = {"bad": b"name: [a\nb: }", "bytes": b"\xff\xfe", "twice": b"a: 1\na: 2\n", "deep": DEEP}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_yaml_of_a_config_is_named(tmp_path, monkeypatch, name):
    (tmp_path / "conf" / "model").mkdir(parents=True)
    (tmp_path / "conf" / "run.yaml").write_text(f"defaults: [_self_, {{model: {name}}}]\n")
    (tmp_path / "conf" / "model" / f"{name}.yaml").write_bytes(BAD[name])
    monkeypatch.setattr(composition, "CONF", tmp_path / "conf")
    with pytest.raises(InputError, match=rf"conf/model/{name}.yaml: .*\. Correct it\."):
        configs.compose([])


def test_a_bad_yaml_of_a_user_leads_to_no_traceback(tmp_path, cli):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_bytes(BAD["bad"])
    output = f"hydra.run.dir={tmp_path}/out"
    done = cli(f"--config-dir={tmp_path}", "model=mine", "exp=faces_to_words", output)
    assert done.returncode == 1
    assert f"{tmp_path}/model/mine.yaml: while parsing a flow sequence" in done.stderr
    assert "Correct it." in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", r"while parsing a flow sequence.*Correct it"),
        (b"- a\n", "expected name: value, got list"),
        (DEEP, "recursion.*Correct it"),
    ],
)
def test_bad_parameters_of_a_pipeline_are_refused(tmp_path, content, message):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(InputError, match=rf"params.yaml: .*{message}"):
        stage.read_params(["a"], tmp_path / "params.yaml")


def test_missing_files_are_named_in_few_words(tmp_path):
    with pytest.raises(InputError, match=r"no x{200}… \(there: nothing\). Put it there") as refused:
        hub.files(hub.Source(str(tmp_path), folder=True, remedy="Put it there."), [("x" * 10_000,)])
    assert len(str(refused.value)) < 1000
