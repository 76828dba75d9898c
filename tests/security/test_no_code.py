"""Run no code from data; refuse links that lead out of a folder, and packages without hashes."""

import json
import os
import pickle
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from src import configs
from src.encoders import open_clip_weights as openclip
from src.errors import InputError
from src.stimuli import pictures, taxonomy
from src.stimuli.loaders import load_precomputed
from src.studies.subtler import domains
from tests.fuzz import models
from tests.paths import CHECKOUT, PACKAGES
from tests.stimuli import drawn
from tests.stimuli.layouts import load


class Harmful:
    """An object that writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_the_harmful_pickle_harms(tmp_path):
    pickle.loads(pickle.dumps(Harmful(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.fixture
def mark(tmp_path):
    """Return the file that harmful data write, which must not exist afterwards."""
    yield tmp_path / "ran"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("file", ["faces.safetensors", "faces.parquet"])
def test_a_pickle_in_a_precomputed_folder_runs_nothing(tmp_path, mark, file):
    models.vectors(tmp_path)
    (tmp_path / file).write_bytes(pickle.dumps(Harmful(mark)))
    with pytest.raises(InputError, match=rf"{file}: not a (Parquet|safetensors) file"):
        models.read("faces", tmp_path)


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period"])
def test_a_type_of_arrow_that_is_a_pickle_runs_nothing(tmp_path, mark, name):
    metadata = {"ARROW:extension:name": name, "ARROW:extension:metadata": pickle.dumps(Harmful(mark))}
    schema = pa.schema([pa.field("id", pa.string(), metadata=metadata), pa.field("group", pa.string())])
    pq.write_table(pa.table([["a"], ["g"]], schema=schema), tmp_path / "faces.parquet")
    try:
        load_precomputed(tmp_path, "faces")
    except InputError as error:
        assert "faces.parquet" in str(error)  # noqa: PT017 - it may be read, too


def test_pickled_weights_that_are_more_than_tensors_run_nothing(tmp_path, mark):
    models.openclip("pickle", tmp_path)
    weights = tmp_path / "open_clip_pytorch_model.bin"
    torch.save({**torch.load(weights, weights_only=True), "extra": Harmful(mark)}, weights)
    with pytest.raises(InputError, match="contain more than tensors"):
        models.opened(tmp_path)


def test_a_config_that_names_code_is_refused_however_it_is_written(tmp_path):
    models.openclip("safetensors", tmp_path)
    described = json.loads((tmp_path / "open_clip_config.json").read_text())
    described["model_cfg"]["text_cfg"] |= {"hf_model_name": str(tmp_path), "hf_tokenizer_name": ""}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(described))
    (tmp_path / "config.json").write_text('{"auto\\u005fmap": {"AutoConfig": "evil.Config"}}')
    config = configs.OpenClipConfig(name="n", id=str(tmp_path), precision="fp32", weights="pretrained")
    published, place = openclip.find_files(config), openclip.hub.Source(str(tmp_path), is_folder=True)
    published = openclip.PublishedFiles(published.architecture, {}, published.weights, text_config=place)
    with pytest.raises(InputError, match="names custom code"):
        openclip._locate_text_config(published)


def words(path):
    return taxonomy.load_words(configs.TaxonomyConfig(captions={"noun": "{word}"}, path=str(path)))


def test_tags_of_yaml_make_no_objects(tmp_path, mark):
    path = tmp_path / "a.yaml"
    for text in (
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]",
        f"!!python/object/apply:os.system ['touch {mark}']",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
    ):
        path.write_text(f"crafts:\n  noun: [{text}]\n")
        for read in (words, domains.read_domain):
            with pytest.raises(InputError, match="a.yaml: could not determine a constructor"):
                read(path)


def test_references_that_would_fill_the_memory_are_refused(tmp_path):
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{previous}'] * 9)}]\n"
        for previous, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"bomb.yaml: line 6: its references expand to"):
        words(path)


def test_a_postscript_called_a_picture_is_not_run(tmp_path, mark, monkeypatch):
    (tmp_path / "a.jpg").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert shutil.which("gs") == str(tmp_path / "gs")
    with pytest.raises(InputError, match=r"a.jpg \(cannot identify image file"):
        pictures.hash_pictures([tmp_path / "a.jpg"])


def test_sources_load_no_pickles_and_no_unsafe_yaml():
    unsafe = ("pickle.load", "read_pickle", "allow_pickle=True", "yaml.load(", "yaml.unsafe")
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        code = path.read_text()
        assert not [word for word in unsafe if word in code], path
        assert not re.search(r"(?<![\w.])(eval|exec|compile)\(", code), path
        assert "torch.load(" not in code or "weights_only=True" in code, path


# Layout -> what lies in its root: its table, a picture, a folder of pictures.
WITHIN = {
    "fairface": ("fairface_label_train.csv", "train/1.jpg", "train"),
    "folder": ("faces.csv", "left/1.png", "left"),
    "oasis": ("OASIS.csv", "images/War 1.jpg", "images"),
    "cfd": (None, "Images/CFD/AF-001/CFD-AF-001-025-N.jpg", "Images/CFD/AF-001"),
    "utkface": (None, "20_0_0_201701002000000.jpg.chip.jpg", None),
    "nrc_vad": ("NRC-VAD-Lexicon.txt", None, None),
    "warriner": ("BRM-emot-submit.csv", None, None),
}
LINKED = [(layout, name) for layout, names in WITHIN.items() for name in names if name]


def linked(root, name, outside):
    """Move a file or folder of a root elsewhere, and leave a link."""
    shutil.move(root / name, outside)
    (root / name).symlink_to(outside)


@pytest.mark.parametrize(("layout", "name"), LINKED)
def test_a_link_out_of_a_data_root_is_named_and_refused(tmp_path, layout, name):
    root = getattr(drawn, layout)(tmp_path / "root")
    linked(root, name, tmp_path / "outside")
    message = f"{re.escape(str(root / name))}.*a link leads out of {root}.*Copy the target, or set "
    with pytest.raises(InputError, match=message):
        load(layout, root)


@pytest.mark.parametrize(("layout", "name"), [case for case in LINKED if case[0] not in ("cfd", "utkface")])
def test_links_within_a_data_root_and_a_linked_root_are_followed(tmp_path, layout, name):
    root = getattr(drawn, layout)(tmp_path / "root")
    frame = load(layout, root)[0]
    (root / "elsewhere").mkdir()
    linked(root, name, root / "elsewhere" / "moved")
    (tmp_path / "linked").symlink_to(root)
    assert len(load(layout, tmp_path / "linked")[0]) == len(frame)


def test_a_linked_folder_of_pictures_is_refused(tmp_path):
    root = drawn.cfd(tmp_path / "root")
    frame = load("cfd", root)[0]
    (root / "Images" / "CFD" / "again").symlink_to(root / "Images" / "CFD" / "AF-001")
    assert len(load("cfd", root)[0]) == len(frame)
    linked(root, WITHIN["cfd"][2], root / "moved")
    with pytest.raises(InputError, match=r"AF-001: links to folders are not followed. Replace the link"):
        load("cfd", root)


REQUIREMENT = re.compile(
    r"([A-Za-z0-9_.\[\]-]+==[^\s;]+)( ; [^\\\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n)+"
)


def test_packages_are_pinned_and_installed_by_their_hashes_alone():
    text = (CHECKOUT / "requirements.txt").read_text()
    names, *_ = zip(*REQUIREMENT.findall(text), strict=True)
    assert len(names) > 100
    assert REQUIREMENT.sub("", text) == ""
    assert not {"lightning==2.6.2", "lightning==2.6.3"} & {*names}  # malicious releases
    makefile = (CHECKOUT / "Makefile").read_text()
    installs = re.findall(r"-m pip install.*", makefile)
    assert any("--require-hashes -r requirements.txt" in line for line in installs)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs), installs
