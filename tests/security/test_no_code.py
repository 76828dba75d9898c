"""No code comes out of data: neither of pickles, nor of YAML, nor of pictures."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from src import configs
from src.encoders import open_clip_weights as openclip
from src.errors import InputError
from src.generators import hub_weights as generative
from src.stimuli import pictures, safe_yaml, taxonomy
from src.stimuli import precomputed_tables as tables
from src.studies.subtler import domains
from tests.fuzz import models
from tests.generators.checkpoint import saved
from tests.paths import CHECKOUT, PACKAGES
from tests.security import hostile


def test_the_harmful_pickle_harms(tmp_path):
    pickle.loads(hostile.pickled(tmp_path / "ran"))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["pickle", "torch.save"])
@pytest.mark.parametrize("file", ["faces.safetensors", "faces.parquet"])
def test_a_pickle_in_a_precomputed_folder_runs_nothing(tmp_path, form, file):
    models.vectors(tmp_path)
    if form == "pickle":
        (tmp_path / file).write_bytes(hostile.pickled(tmp_path / "ran"))
    else:
        hostile.saved(tmp_path / "ran", tmp_path / file)
    with pytest.raises(InputError, match=rf"{file}: not a (Parquet|safetensors) file"):
        models.read("faces", tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period"])
def test_a_type_of_arrow_that_is_a_pickle_runs_nothing(tmp_path, name):
    said = {"ARROW:extension:name": name, "ARROW:extension:metadata": hostile.pickled(tmp_path / "ran")}
    field = pa.field("id", pa.string(), metadata=said)
    group = pa.field("group", pa.string())
    pq.write_table(pa.table([["a"], ["g"]], schema=pa.schema([field, group])), tmp_path / "faces.parquet")
    try:
        tables.load(tmp_path, "faces")
    except InputError as error:
        assert "faces.parquet" in str(error)  # noqa: PT017 - it may be read, too
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("form", ["more than tensors", "no tensors"])
def test_pickled_weights_that_are_more_than_tensors_run_nothing(tmp_path, form):
    models.openclip("pickle", tmp_path)
    weights = tmp_path / "open_clip_pytorch_model.bin"
    if form == "no tensors":
        weights.write_bytes(hostile.pickled(tmp_path / "ran"))
    else:
        hostile.saved(tmp_path / "ran", weights, **torch.load(weights, weights_only=True))
    with pytest.raises(InputError, match="hold more than tensors"):
        models.opened(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_of_a_language_model_run_nothing(tmp_path):
    saved(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    hostile.saved(tmp_path / "ran", tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError):
        generative.load(
            generative.find(configs.HfConfig(id=str(tmp_path), batch_size=1, most=1)), torch.device("cpu")
        )
    assert not (tmp_path / "ran").exists()


def test_a_config_that_names_code_is_refused_however_it_is_written(tmp_path):
    models.openclip("safetensors", tmp_path)
    described = json.loads((tmp_path / "open_clip_config.json").read_text())
    described["model_cfg"]["text_cfg"] |= {"hf_model_name": str(tmp_path), "hf_tokenizer_name": ""}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(described))
    (tmp_path / "config.json").write_text('{"auto\\u005fmap": {"AutoConfig": "evil.Config"}}')
    asked = configs.OpenClipConfig(name="n", id=str(tmp_path), precision="fp32", weights="pretrained")
    found = openclip.find(asked)
    found = openclip.Published(
        found.architecture, {}, found.weights, text_config=openclip.hub.Place(str(tmp_path), folder=True)
    )
    with pytest.raises(InputError, match="names code of its own"):
        openclip._text_config(found)


def test_tags_of_yaml_make_no_objects(tmp_path):
    for number, text in enumerate(hostile.yamled(tmp_path / "ran")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"crafts:\n  noun: [{text}]\n")
        with pytest.raises(InputError, match=rf"{number}.yaml: could not determine a constructor"):
            taxonomy.words(configs.TaxonomyConfig(captions={"noun": "{word}"}, path=str(path)))
        path.write_text(f"domain: {text}\n")
        with pytest.raises(InputError, match=rf"{number}.yaml: could not determine a constructor"):
            domains.read(path)
    assert not (tmp_path / "ran").exists()


def test_what_yaml_says_of_the_environment_stays_as_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED", "a secret")
    assert safe_yaml.of_yaml("a: ['${oc.env:PLANTED}']") == {"a": ["${oc.env:PLANTED}"]}


def test_references_that_would_fill_the_memory_are_refused(tmp_path):
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bomb.yaml: line 6: references in it stand for more"):
        taxonomy.words(configs.TaxonomyConfig(captions={"noun": "{word}"}, path=str(path)))


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}"])
def test_a_list_that_holds_itself_is_refused(text):
    with pytest.raises(ValueError, match="line 1: references in it"):
        safe_yaml.of_yaml(text)


def test_references_that_stay_small_and_long_lists_are_read():
    assert safe_yaml.of_yaml("a: &a [x, y]\nb: *a\nc: {<<: {d: *a}}") == {
        "a": ["x", "y"], "b": ["x", "y"], "c": {"d": ["x", "y"]},
    }  # fmt: skip
    words = [f"w{number}" for number in range(12)]
    with mock.patch.object(safe_yaml, "MOST", 10):
        assert safe_yaml.of_yaml("[" + ",".join(words) + "]") == words


def test_a_config_of_ones_own_makes_no_objects(tmp_path):
    (tmp_path / "model").mkdir()
    for text in hostile.yamled(tmp_path / "ran")[:2]:
        (tmp_path / "model" / "evil.yaml").write_text(f"name: {text}\n")
        done = subprocess.run(
            [sys.executable, "-m", "src.run", f"--config-dir={tmp_path}", "model=evil",
             f"hydra.run.dir={tmp_path}/out", f"tracking.uri=sqlite:///{tmp_path}/m.db"],
            cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=500,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )  # fmt: skip
        assert done.returncode == 1
        assert "could not determine a constructor" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_postscript_called_a_picture_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("gs") == str(tmp_path / "gs")
    with pytest.raises(InputError, match=r"a.jpg \(cannot identify image file"):
        pictures.hashes([tmp_path / "a.jpg"])
    assert not (tmp_path / "ran").exists()


def test_what_torch_reads_is_told_to_be_tensors_alone():
    """Whoever adds a reader of pickles to the sources meets this test."""
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        code = path.read_text()
        assert "pickle.load" not in code, path
        assert "read_pickle" not in code, path
        assert "allow_pickle=True" not in code, path
        assert "yaml.load(" not in code, path
        assert "yaml.unsafe" not in code, path
        assert not re.search(r"(?<![\w.])(eval|exec|compile)\(", code), path
        if "torch.load(" in code:
            assert "weights_only=True" in code, path
