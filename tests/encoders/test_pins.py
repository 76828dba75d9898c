"""Check that pins are written into YAMLs, and never replace other pins."""

import hashlib

import pytest
from omegaconf import OmegaConf

from src import configs
from src.encoders import __main__ as command
from src.encoders import pins
from src.errors import InputError
from tests.encoders.small_checkpoints import COMMIT, open_clip_files, write_folder, write_to_cache

WEIGHTS = "open_clip_model.safetensors"
ID = "hf-hub:lab/encoder"
PINS = {"revision": COMMIT, "sha256": "0" * 64}
CHOICE = ["model=open_clip", f"model.id={ID}"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return open_clip_files("ViT-B-32-quickgelu", tmp_path_factory.mktemp("clip"))


@pytest.fixture
def weights_sha256(cache, files, tmp_path, monkeypatch):
    """Provide a repository in the hub's cache and an empty working folder; return the weights' SHA-256."""
    write_to_cache(cache, "lab/encoder", files)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return hashlib.sha256(files[WEIGHTS]).hexdigest()


def run(capsys, *arguments):
    status = command.main(["pin", *arguments])
    return status, *capsys.readouterr()


def test_a_new_yaml_has_the_pins_of_the_download(weights_sha256, capsys):
    status, out, err = run(capsys, *CHOICE, "model.batch_size=32", "--name=mine")
    assert (status, err) == (0, "")
    path = pins.FOLDER / "mine.yaml"
    assert out == f"{path}: pinned to revision {COMMIT}, SHA-256 {weights_sha256}\n"
    content = OmegaConf.to_container(OmegaConf.load(path))
    expected = {"id": ID, "revision": COMMIT, "sha256": weights_sha256, "batch_size": 32}
    assert content == {"defaults": ["/schema/open_clip@_here_", "_self_"], **expected}
    assert run(capsys, *CHOICE, "--name=mine")[1].startswith(f"{path}: already pinned to")


def test_the_yaml_composes(weights_sha256, capsys, monkeypatch, tmp_path):
    assert run(capsys, *CHOICE, "--name=mine")[0] == 0
    folder = tmp_path / "work" / "conf"
    composed, _ = configs.compose([f"hydra.searchpath=[file://{folder}]", "model=mine"])
    model = OmegaConf.to_object(composed.model)
    assert (type(model), model.revision, model.sha256) == (configs.OpenClipConfig, COMMIT, weights_sha256)


def test_print_writes_nothing(weights_sha256, capsys):
    status, out, _ = run(capsys, *CHOICE, "--print")
    assert status == 0
    assert f"revision: {COMMIT}" in out
    assert f"sha256: {weights_sha256}" in out
    assert not pins.FOLDER.exists()


def test_comments_and_other_lines_stay(weights_sha256, capsys):
    path = pins.FOLDER / "mine.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"# Ours.\ndefaults: [/schema/open_clip@_here_, _self_]\nid: {ID}   # the lab's\n"
        "revision: main     # moves\nbatch_size: 8\n"
    )
    assert run(capsys, *CHOICE, "--name=mine")[0] == 0
    assert path.read_text() == (
        f"# Ours.\ndefaults: [/schema/open_clip@_here_, _self_]\nid: {ID}   # the lab's\n"
        f"revision: {COMMIT}     # moves\nsha256: {weights_sha256}\nbatch_size: 8\n"
    )


@pytest.mark.parametrize(("field", "value"), [("sha256", "a" * 64), ("sha256", "1"), ("revision", "f" * 40)])
def test_another_pin_is_never_replaced(tmp_path, field, value):
    path = tmp_path / "mine.yaml"
    path.write_text(f"id: {ID}\n{field}: {value}\n")
    with pytest.raises(InputError) as raised:
        pins.write_pins(path, configs.OpenClipConfig(id=ID), PINS)
    assert f"{path}: has {field} {value}, but the download has {PINS[field]}." in str(raised.value)
    assert path.read_text() == f"id: {ID}\n{field}: {value}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (CHOICE, "model=open_clip: its YAML is for any model of the family. Name that of hf-hub:lab/encoder"),
        ([*CHOICE, "--name=../x"], "--name=../x: expected letters, digits"),
        ([*CHOICE, "--name=clip_b32"], "clip_b32 is the name of a model of this program"),
        (["model=clip_b33"], "clip_b33"),
        (["model=toy_m"], "not a published encoder"),
        ([*CHOICE, "model.weights=random", "--name=x"], "random weights cannot be pinned"),
        (["model=open_clip", "model.id=hf-hub:lab/absent", "--name=x"], "HF_HUB_OFFLINE is set"),
    ],
)
def test_invalid_requests_are_refused(weights_sha256, capsys, arguments, message):
    status, out, err = run(capsys, *arguments)
    assert status == 1
    assert message in err
    assert out == ""
    assert not pins.FOLDER.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: lab/another\n", "is of lab/another, not of hf-hub:lab/encoder. Choose another --name."),
        ("- 1\n", "expected the keys of a model, got a list. Correct it."),
        ("id: [\n", "not a YAML"),
        ("", "has no id. Add `id: hf-hub:lab/encoder`, or choose another --name."),
    ],
)
def test_a_yaml_that_cannot_take_the_pins_is_reported(tmp_path, text, message):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as raised:
        pins.write_pins(path, configs.OpenClipConfig(id=ID), PINS)
    assert f"{path}: {message}" in str(raised.value)
    assert path.read_text() == text


def test_a_folder_has_no_revision(files, tmp_path):
    folder = write_folder(files, tmp_path / "own")
    model = configs.OpenClipConfig(id=str(folder))
    # Weights in a folder are identified by "folder" in place of a commit.
    text = pins.format_pinned(model, {"revision": "folder", "sha256": "0" * 64})
    assert "revision:" not in text


def test_a_yaml_has_all_that_makes_another_encoder():
    fields = {"prompt": "", "prompt_name": "query", "truncate_dim": 64}
    fields |= {"precision": "bf16", "languages": ["de"]}
    golden = configs.GoldenConfig(picture="https://x/y.png", texts=["a"], scores=[1.0])
    text = pins.format_pinned(configs.SentenceTransformersConfig(id=ID, golden=golden, **fields), PINS)
    content = OmegaConf.to_container(OmegaConf.create(text))
    assert content.pop("golden") == vars(golden)
    assert content == {"defaults": content["defaults"], "id": ID, **PINS, **fields}


def test_a_yaml_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    model = configs.OpenClipConfig(id=ID)
    with pytest.raises(InputError, match=r"cannot be written \(.*\)\. Use --print"):
        pins.write_pins(tmp_path / "file" / "x.yaml", model, PINS)
