"""What is known of published datasets, what of one is there, and how the rest is fetched."""

import fcntl
import hashlib
import io
import json
import os
import re
import shlex
import time
import zipfile
from dataclasses import replace

import pytest
from omegaconf import OmegaConf

from src.stimuli import public_datasets
from src.stimuli.__main__ import main
from src.stimuli.download import check_address
from src.stimuli.public_datasets import Dataset, File, Need, datasets, standing
from src.storage.cache import file_hash
from tests.paths import CHECKOUT, SHARED
from tests.stimuli import drawn
from tests.stimuli.served import Publisher

NEEDS = (
    Need("files", "images/*.jpg", (2,)),
    Need("rows", "ratings.csv", (3, 4)),
    Need("folders", "p-*", (1,)),
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setenv("COLUMNS", "200")


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("Set/ratings.csv", "name,valence\r" + "".join(f"{n},{n}\r" for n in range(3)))
        packed.writestr("Set/images/1.jpg", "one")
        packed.writestr("Set/images/2.jpg", "two")
        packed.writestr("Set/p-1/notes", "three")
    return content.getvalue()


@pytest.fixture
def publisher(monkeypatch):
    """A server, and one dataset that may be fetched from it."""
    with Publisher({"set.zip": archive()}) as served:
        take = {"**/ratings.csv": "ratings.csv", "**/images": "images", "**/p-1": "p-1"}
        file = File(served.url("set.zip"), "set.zip", None, None, 10_000, take)
        ours = dataset(files=(file,))
        monkeypatch.setattr(
            public_datasets, "datasets", lambda: {"ours": ours, "theirs": dataset("theirs", form=True)}
        )
        yield served


def dataset(name="ours", *, form=False, files=()):
    return Dataset(
        name, "Our set", "Us 2000", "https://ours.example/", form, "CC0.", "all of it.", NEEDS, files
    )


def laid_out(root, images=2, rows=3):
    folder = root / "ours"
    (folder / "images").mkdir(parents=True)
    (folder / "p-1").mkdir()
    (folder / "p-file").write_text("not a folder")
    (folder / "images" / "._1.jpg").write_text("what a Mac leaves")
    for number in range(images):
        (folder / "images" / f"{number}.jpg").write_bytes(b"")
    (folder / "ratings.csv").write_text("name,valence\n" + "".join(f"{n},{n}\n" for n in range(rows)) + "\n")
    return root


@pytest.mark.parametrize(
    ("images", "rows", "state"),
    [(2, 3, "present"), (2, 4, "present"), (1, 3, "partly"), (2, 2, "partly"), (2, 5, "other counts")],
)
def test_a_dataset_is_counted(tmp_path, images, rows, state):
    found = standing(dataset(), laid_out(tmp_path, images, rows))
    assert list(found.counts.values()) == [images, rows, 1]
    assert found.state == state


def test_an_empty_root_has_nothing_but_what_comes_with_a_package(tmp_path, capsys):
    assert main(["--root", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    states = dict(re.findall(r"^│ (\w+) +│ (\w+)", said, re.MULTILINE))
    assert states == {name: "present" if name == "vader" else "absent" for name in datasets()}
    for one in datasets().values():
        if one.name != "vader":
            assert one.address in said
            assert one.terms in said
    assert "after a form, laid out in" in said
    assert f"python -m src.stimuli fetch oasis --root {tmp_path}\n" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["plain", "it's my data", "$HOME; # data"])
def test_commands_that_are_printed_name_dataset_and_root(tmp_path, capsys, folder):
    root = tmp_path / folder
    assert main(["status", "oasis", "--root", str(root)]) == 0
    command = re.search("how +python -m src.stimuli (.*)", capsys.readouterr().out)[1]
    assert shlex.split(command) == ["fetch", "oasis", "--root", str(root)]
    assert main(["fetch", "cfd", "--root", str(root)]) == 1  # by hand
    command = re.search("python -m src.stimuli (.*) counts it", capsys.readouterr().err)[1]
    assert shlex.split(command) == ["status", "cfd", "--root", str(root)]


def test_published_layouts_are_counted_as_their_loaders_read_them(tmp_path):
    drawn.oasis(tmp_path / "oasis")
    drawn.nrc_vad(tmp_path / "nrc_vad")
    drawn.fairface(tmp_path / "fairface")
    counts = {name: list(standing(datasets()[name], tmp_path).counts.values()) for name in datasets()}
    assert counts["oasis"] == [6, 6]
    assert counts["nrc_vad"] == [5]
    assert counts["fairface"] == [24, 24]
    assert counts["vader"] == [7520]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real data here")
def test_real_lexicon_and_ratings_are_complete():
    assert standing(datasets()["nrc_vad"], SHARED).state == "present"
    assert 900 in standing(datasets()["oasis"], SHARED).counts.values()
    assert standing(datasets()["subtler"], SHARED).state == "present"
    for file in datasets()["subtler"].files:
        (path,) = (SHARED / "subtler").rglob(file.name)
        assert (path.stat().st_size, file_hash(path)) == (file.bytes, file.sha256)


def test_every_dataset_of_a_config_is_described():
    """Whose YAML points below dataset.root, that folder has an entry."""
    found = set()
    for path in CHECKOUT.glob("conf/*/*.yaml"):
        for line in path.read_text().splitlines():
            found |= set(re.findall(r"\$\{dataset\.root\}/(\w+)", line))
    assert {"fairface", "oasis", "nrc_vad"} <= found
    assert found <= set(datasets())
    assert set(datasets()) >= {"cfd", "nrc_vad_v2", "warriner", "vader", "utkface"}


def test_what_is_known_holds_together():
    raw = OmegaConf.to_container(OmegaConf.load(CHECKOUT / "src/stimuli/public_datasets.yaml"))
    assert sum(raw["cfd"]["needs"]["folders"].values()) == 597
    for one in datasets().values():
        check_address(one.address, one.address)
        assert one.needs
        assert not (one.form and one.files)
        for file in one.files:
            check_address("https://", file.url)
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert "/" not in file.name
            assert not any("/" in name for name in file.take.values())


def test_fetching_lays_out_and_counts_and_records(tmp_path, publisher, capsys):
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    content = publisher.files["set.zip"]
    digest = hashlib.sha256(content).hexdigest()
    assert "Terms: CC0." in said
    assert f"{digest}: no hash is published, so this one is trusted, and recorded in set.zip.json" in said
    assert re.search(r"ours +│ present", said)
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == [
        *("images", "p-1", "ratings.csv", "set.zip", "set.zip.json")
    ]
    record = json.loads((tmp_path / "ours" / "set.zip.json").read_text())
    assert record == {"url": publisher.url("set.zip"), "bytes": len(content), "sha256": digest}
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0
    assert "ours: all of it is in" in capsys.readouterr().out
    assert publisher.asked == 1


def test_what_was_trusted_first_is_held_against(tmp_path, publisher, capsys):
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0
    capsys.readouterr()
    for name in ("set.zip", "ratings.csv"):
        (tmp_path / "ours" / name).unlink()
    good = publisher.files["set.zip"]
    publisher.files["set.zip"] = good[:-1] + b"?"
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert f"expected {hashlib.sha256(good).hexdigest()} but got" in said
    assert not (tmp_path / "ours" / "set.zip").exists()
    publisher.files["set.zip"] = good
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "as recorded at first" in said
    assert f"{tmp_path / 'ours' / 'images'} was there already and is kept as it is" in said


def test_a_tampered_archive_on_disk_is_not_unpacked(tmp_path, publisher, capsys):
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0
    (tmp_path / "ours" / "ratings.csv").unlink()
    kept = tmp_path / "ours" / "set.zip"
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 1
    assert "Move it away, and fetch it anew" in capsys.readouterr().err
    assert not (tmp_path / "ours" / "ratings.csv").exists()


def test_a_published_hash_is_held_against(tmp_path, publisher, monkeypatch, capsys):
    ours = public_datasets.datasets()["ours"]
    for digest, code in (("0" * 64, 1), (hashlib.sha256(publisher.files["set.zip"]).hexdigest(), 0)):
        pinned = replace(ours, files=(replace(ours.files[0], sha256=digest),))
        monkeypatch.setattr(public_datasets, "datasets", lambda pinned=pinned: {"ours": pinned})
        assert main(["fetch", "ours", "--root", str(tmp_path)]) == code
    assert "as published" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fetch", "oars"], "did you mean ours?"),
        (["status", "xyz"], "There are ours, theirs."),
        (["fetch"], "These may be fetched: ours."),
        (["fetch", "theirs"], "after a form: open https://ours.example/, and lay it out below"),
    ],
)
def test_mistakes_are_answered(tmp_path, publisher, capsys, arguments, said):
    assert main([*arguments, "--root", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_written_is_said(tmp_path, publisher, capsys):
    (tmp_path / "file").write_text("")
    assert main(["fetch", "ours", "--root", str(tmp_path / "file")]) == 1
    assert "Choose another --root" in capsys.readouterr().err


def test_two_processes_do_not_fetch_into_one_folder(tmp_path, publisher, capsys):
    (tmp_path / "ours").mkdir()
    held = os.open(tmp_path / "ours", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 1
    os.close(held)
    assert "another process" in capsys.readouterr().err
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 0


def test_a_key_pressed_leaves_nothing_half_fetched(tmp_path, publisher, monkeypatch, capsys):
    def pressed(*_, **__):
        raise KeyboardInterrupt

    publisher.files["set.zip"] = bytes(9_000)
    monkeypatch.setattr("rich.progress.Progress.update", pressed)
    assert main(["fetch", "ours", "--root", str(tmp_path)]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert list((tmp_path / "ours").iterdir()) == []
