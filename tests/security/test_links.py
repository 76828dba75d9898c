"""A link in a data root leads nowhere else, and neither does a cell."""

import shutil

import pytest

from src.errors import InputError
from tests.stimuli import drawn
from tests.stimuli.layouts import load

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
    """Put a file or folder of a root elsewhere, and a link in its place."""
    shutil.move(root / name, outside)
    (root / name).symlink_to(outside)


@pytest.mark.parametrize(("layout", "name"), LINKED)
def test_a_link_out_of_a_data_root_is_named_and_refused(tmp_path, layout, name):
    root = getattr(drawn, layout)(tmp_path / "root")
    linked(root, name, tmp_path / "outside")
    with pytest.raises(InputError) as refused:
        load(layout, root)
    assert str(root / name) in str(refused.value)
    assert f"a link leads out of {root}" in str(refused.value)
    assert "Copy what it leads to, or set " in str(refused.value)


@pytest.mark.parametrize(
    ("layout", "name"), [linked for linked in LINKED if linked[0] not in ("cfd", "utkface")]
)
def test_links_within_a_data_root_and_a_root_that_is_one_are_taken(tmp_path, layout, name):
    root = getattr(drawn, layout)(tmp_path / "root")
    found = load(layout, root)[0]
    (root / "elsewhere").mkdir()
    linked(root, name, root / "elsewhere" / "moved")
    (tmp_path / "linked").symlink_to(root)
    assert len(load(layout, tmp_path / "linked")[0]) == len(found)


def test_a_picture_that_is_there_and_linked_is_there_twice(tmp_path):
    root = drawn.utkface(tmp_path / "root")
    (root / "more").mkdir()
    (root / "more" / WITHIN["utkface"][1]).symlink_to(root / WITHIN["utkface"][1])
    with pytest.raises(InputError, match="is at .* already"):
        load("utkface", root)


def test_a_linked_folder_of_pictures_is_not_passed_over(tmp_path):
    root = drawn.cfd(tmp_path / "root")
    found = load("cfd", root)[0]
    (root / "Images" / "CFD" / "again").symlink_to(root / "Images" / "CFD" / "AF-001")
    assert len(load("cfd", root)[0]) == len(found)
    linked(root, WITHIN["cfd"][2], root / "moved")
    with pytest.raises(
        InputError, match=r"AF-001: a link to a folder is not entered. Name the folder itself"
    ):
        load("cfd", root)


@pytest.mark.parametrize("layout", ["fairface", "oasis"])
@pytest.mark.parametrize("path", ["../1", "/etc/passwd", "train/../../1", r"..\1", "C:/1"])
def test_a_cell_that_leads_out_of_the_folder_is_refused(tmp_path, layout, path):
    root = getattr(drawn, layout)(tmp_path)
    file = WITHIN[layout][0]
    old = b"train/2.jpg" if layout == "fairface" else b"War 4"
    content = (root / file).read_bytes()
    assert old in content
    (root / file).write_bytes(content.replace(old, path.encode(), 1))
    with pytest.raises(
        InputError, match=rf"{file}, row \d: .* (leads out of the folder|is a full path). Write"
    ):
        load(layout, root)


def test_a_path_that_somebody_typed_may_be_a_link(tmp_path):
    root = drawn.folder(tmp_path / "root")
    shutil.move(root / "faces.csv", tmp_path / "real.csv")
    (tmp_path / "mine.csv").symlink_to(tmp_path / "real.csv")
    assert len(load("folder", root, csv=str(tmp_path / "mine.csv"))[0]) == 12
    assert len(load("folder", root, csv="../mine.csv")[0]) == 12
