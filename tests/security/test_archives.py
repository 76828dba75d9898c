"""Refuse links that lead out of a folder, and packages without hashes."""

import re
import shutil

import pytest

from src.errors import InputError
from tests.paths import CHECKOUT
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
    """Move a file or folder of a root elsewhere, and leave a link."""
    shutil.move(root / name, outside)
    (root / name).symlink_to(outside)


@pytest.mark.parametrize(("layout", "name"), LINKED)
def test_a_link_out_of_a_data_root_is_named_and_refused(tmp_path, layout, name):
    root = getattr(drawn, layout)(tmp_path / "root")
    linked(root, name, tmp_path / "outside")
    message = f"{re.escape(str(root / name))}.*a link leads out of {root}.*Copy that, or set "
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


def test_every_requirement_is_pinned_with_hashes():
    text = (CHECKOUT / "requirements.txt").read_text()
    names, *_ = zip(*REQUIREMENT.findall(text), strict=True)
    assert len(names) > 100
    assert REQUIREMENT.sub("", text) == ""
    assert not {"lightning==2.6.2", "lightning==2.6.3"} & {*names}  # malicious releases


def test_the_makefile_installs_packages_by_their_hashes_alone():
    makefile = (CHECKOUT / "Makefile").read_text()
    installs = re.findall(r"-m pip install.*", makefile)
    assert any("--require-hashes -r requirements.txt" in line for line in installs)
    assert all("--require-hashes" in line or "--no-deps" in line for line in installs), installs
