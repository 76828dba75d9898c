"""Test the loader of folders of pictures, whose names are the groups."""

import shutil

import numpy as np
import pytest
from PIL import Image

from src import configs, stimuli
from src.errors import InputError
from src.stimuli.picture_folders import load

FOLDERS = {"insect/flower": 3, "insect/moth": 2, "other": 1}


@pytest.fixture
def root(tmp_path):
    rng = np.random.default_rng(0)
    for folder, count in FOLDERS.items():
        (tmp_path / folder).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(
                tmp_path / folder / f"{number}.png"
            )
    (tmp_path / "insect" / "notes.txt").write_text("not a picture")
    return tmp_path


def settings(folder, **changes):
    fields = {"root": str(folder), "per_group": None, "seed": 0, "duplicates": "drop"}
    return configs.PictureFoldersConfig(**fields | changes)


def test_a_group_is_a_folder_below_root(root):
    frame, count, notes = load(settings(root, groups=["insect/flower", "insect/moth"]))
    assert frame.groupby("group").size().to_dict() == {"insect/flower": 3, "insect/moth": 2}
    assert (count, notes) == (6, ["1 pictures in root itself or in other folders"])
    assert frame["id"].tolist()[0] == "insect/flower/0.png"
    everything, _, notes = load(settings(root))
    assert (len(everything), notes) == (6, [])
    shutil.copy(root / "other/0.png", root / "lies_in_root.png")
    everything, count, notes = load(settings(root))
    assert (len(everything), count) == (6, 7)
    assert notes == ["1 pictures in root itself or in other folders"]


def test_a_copy_in_another_folder_is_dropped_and_counted(root):
    shutil.copy(root / "insect/flower/0.png", root / "other/1.png")
    frame, _, notes = load(settings(root))
    assert len(frame) == 6
    assert "1 pictures occur a second time, 1 of them with another group" in notes[0]
    with pytest.raises(InputError, match="the same picture"):
        load(settings(root, duplicates="stop"))


def test_a_group_that_is_a_link_is_refused_and_hidden_files_are_no_pictures(root):
    (root / "other" / "._0.png").write_bytes(b"of a Mac")
    assert load(settings(root))[1] == 6
    (root / "linked").symlink_to(root / "insect")
    for groups in (None, ["linked"]):
        with pytest.raises(InputError, match=r"linked: links to folders are not followed\. Replace"):
            load(settings(root, groups=groups))
    assert load(settings(root, groups=["other"]))[1] == 6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ["insect/flowr"]}, r"no pictures in insect/flowr\. Did you mean 'insect/flower'"),
        ({"root": "absent"}, "no such folder"),
        ({"root": "insect/moth"}, "no pictures in its folders"),
    ],
)
def test_absent_folders_are_refused(root, changes, message):
    if "root" in changes:
        changes = {"root": str(root / changes["root"])}
    with pytest.raises(InputError, match=message):
        load(settings(root, **changes))


def test_the_config_locates_its_folders(root, job):
    groups = "faces.groups=[insect/flower,insect/moth]"
    cfg = job("dataset=photos", "dataset.root=x", "faces=ieat", f"faces.root={root}", groups).cfg
    assert stimuli.load(cfg, "faces").groups == ["insect/flower", "insect/moth"]
