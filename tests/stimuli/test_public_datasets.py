"""Test the catalogue of published datasets, the counts of their files, and interrupted or wrong downloads."""

import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from omegaconf import OmegaConf

from src.errors import InputError
from src.stimuli import download as module
from src.stimuli import public_datasets
from src.stimuli.__main__ import main
from src.stimuli.download import check_address, download
from src.stimuli.public_datasets import (
    AddressTable,
    Dataset,
    RemoteFile,
    Requirement,
    load_datasets,
    read_status,
)
from src.storage.cache import file_hash
from tests.paths import CHECKOUT, SHARED
from tests.served import Publisher
from tests.stimuli import drawn, drawn_people
from tests.stimuli.test_unpack import zipped

NEEDS = (
    Requirement("files", "images/*.jpg", (2,)),
    Requirement("rows", "ratings.csv", (3, 4)),
    Requirement("folders", "p-*", (1,)),
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setenv("COLUMNS", "200")


def archive():
    images = {f"Set/images/{number}.jpg": b"" for number in range(2)}
    table = "name,valence\r" + "".join(f"{n},{n}\r" for n in range(3))
    members = {"Set/ratings.csv": table, "Set/p-1/notes": b"", **images}
    return zipped(io.BytesIO(), members).getvalue()


@pytest.fixture
def publisher(monkeypatch):
    """Serve the file of one dataset; the other of the two requires a form."""
    with Publisher({"set.zip": archive()}) as server:
        take = {"**/ratings.csv": "ratings.csv", "**/images": "images", "**/p-1": "p-1"}
        file = RemoteFile(server.url("set.zip"), "set.zip", None, None, 10_000, take)
        ours = dataset(files=(file,))
        monkeypatch.setattr(
            public_datasets, "load_datasets", lambda: {"ours": ours, "theirs": dataset("theirs", form=True)}
        )
        yield server


def dataset(name="ours", *, form=False, files=()):
    return Dataset(name, "Our set", "Us 2000", "https://ours.example/", form, "CC0.", "all.", NEEDS, files)


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
    report = read_status(dataset(), laid_out(tmp_path, images, rows))
    assert list(report.counts.values()) == [images, rows, 1]
    assert report.state == state


def test_printed_commands_name_dataset_and_root(tmp_path, capsys):
    root = tmp_path / "it's my $HOME; # data"
    assert main(["status", "oasis", "--root", str(root)]) == 0
    command = re.search("how +python -m src.stimuli (.*)", capsys.readouterr().out)[1]
    assert shlex.split(command) == ["fetch", "oasis", "--root", str(root)]
    assert main(["fetch", "cfd", "--root", str(root)]) == 1  # it is obtained by hand
    command = re.search("python -m src.stimuli (.*) counts it", capsys.readouterr().err)[1]
    assert shlex.split(command) == ["status", "cfd", "--root", str(root)]


@pytest.mark.skipif(not SHARED.is_dir(), reason="no real data here")
def test_published_files_are_complete():
    assert read_status(load_datasets()["nrc_vad"], SHARED).state == "present"
    assert 900 in read_status(load_datasets()["oasis"], SHARED).counts.values()
    assert read_status(load_datasets()["subtler"], SHARED).state == "present"
    for file in load_datasets()["subtler"].files:
        (path,) = (SHARED / "subtler").rglob(file.name)
        assert (path.stat().st_size, file_hash(path)) == (file.bytes, file.sha256)


def test_the_catalogue_is_consistent_and_covers_the_configs():
    text = "".join(path.read_text() for path in CHECKOUT.glob("conf/*/*.yaml"))
    names = set(re.findall(r"\$\{dataset\.root\}/(\w+)", text))
    assert {"fairface", "oasis", "nrc_vad"} <= names <= set(load_datasets())
    assert set(load_datasets()) >= {"cfd", "nrc_vad_v2", "warriner", "vader", "utkface"}
    raw = OmegaConf.to_container(OmegaConf.load(CHECKOUT / "src/stimuli/public_datasets.yaml"))
    assert sum(raw["cfd"]["needs"]["folders"].values()) == 597
    for entry in load_datasets().values():
        check_address(entry.address, entry.address)
        assert entry.needs
        assert not (entry.form and entry.files)
        for file in entry.files:
            check_address("https://", file.url)
            assert file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256)
            assert not any("/" in name for name in (file.name, *file.take.values()))


def run(root, *arguments, code=0):
    assert main([*arguments, "--root", str(root)]) == code


def test_a_fetch_is_unpacked_counted_and_recorded(tmp_path, publisher, capsys):
    run(tmp_path, "fetch", "ours")
    printed = capsys.readouterr().out
    content = publisher.files["set.zip"]
    digest = hashlib.sha256(content).hexdigest()
    assert "Terms: CC0." in printed
    assert f"{digest}: no hash is published, so this one is trusted, and recorded in set.zip.json" in printed
    assert re.search(r"ours +│ present", printed)
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == [
        *("images", "p-1", "ratings.csv", "set.zip", "set.zip.json")
    ]
    record = json.loads((tmp_path / "ours" / "set.zip.json").read_text())
    assert record == {"url": publisher.url("set.zip"), "bytes": len(content), "sha256": digest}
    run(tmp_path, "fetch", "ours")
    assert "ours: already complete in" in capsys.readouterr().out
    assert publisher.requests == 1


def test_an_archive_is_unpacked_again_where_its_content_is_not_all_there(
    tmp_path, publisher, monkeypatch, capsys
):
    run(tmp_path, "fetch", "ours")
    ours = public_datasets.load_datasets()["ours"]
    file = replace(ours.files[0], take=ours.files[0].take | {"**/p-1/notes": "notes"})
    monkeypatch.setattr(public_datasets, "load_datasets", lambda: {"ours": replace(ours, files=(file,))})
    capsys.readouterr()
    run(tmp_path, "fetch", "ours")
    assert (tmp_path / "ours" / "notes").is_file()
    assert f"{tmp_path / 'ours' / 'images'} is unchanged" in capsys.readouterr().out
    run(tmp_path, "fetch", "ours")
    assert "ours: already complete in" in capsys.readouterr().out
    assert publisher.requests == 1


def test_a_file_is_checked_against_its_first_hash(tmp_path, publisher, capsys):
    run(tmp_path, "fetch", "ours")
    capsys.readouterr()
    for name in ("set.zip", "ratings.csv"):
        (tmp_path / "ours" / name).unlink()
    good = publisher.files["set.zip"]
    publisher.files["set.zip"] = good[:-1] + b"?"
    run(tmp_path, "fetch", "ours", code=1)
    printed = capsys.readouterr().err
    assert f"expected {hashlib.sha256(good).hexdigest()} but got" in printed
    assert not (tmp_path / "ours" / "set.zip").exists()
    (tmp_path / "ours" / "set.zip").write_bytes(good[:-1] + b"?")  # a changed archive is not unpacked either
    run(tmp_path, "fetch", "ours", code=1)
    assert "Move it; fetch again" in capsys.readouterr().err
    assert not (tmp_path / "ours" / "ratings.csv").exists()
    (tmp_path / "ours" / "set.zip").unlink()
    publisher.files["set.zip"] = good
    run(tmp_path, "fetch", "ours")
    printed = capsys.readouterr().out
    assert "as recorded at first" in printed
    assert f"{tmp_path / 'ours' / 'images'} is unchanged" in printed


def test_pictures_are_fetched_from_the_addresses_of_a_table(tmp_path, publisher, monkeypatch, capsys):
    picture = drawn.picture(tmp_path / "drawn.png", form="PNG").read_bytes()
    publisher.files |= {"1.PNG": picture, "2": picture, "3.jpg": b"no picture"}
    names = {"A_1": "1.PNG?w=600&h=1", "A_2": "2", "A_3": "3.jpg", "A_4": "absent.jpg", "A_5": "1.PNG"}
    rows = [f"{name}\t{publisher.url(address)}\t" for name, address in names.items()]
    publisher.files["table.tsv"] = "\n".join(["IDX\tURL\tError", *rows]).encode()
    file = RemoteFile(publisher.url("table.tsv"), "table.tsv", None, None, 10_000)
    listed = AddressTable("table.tsv", "URL", "IDX", "pictures", 100_000)
    needs = (Requirement("files", "pictures/*", (5,)),)
    ours = replace(dataset(files=(file,)), needs=needs, addresses=(listed,))
    monkeypatch.setattr(public_datasets, "load_datasets", lambda: {"ours": ours})
    (tmp_path / "ours/pictures").mkdir(parents=True)
    (tmp_path / "ours/pictures/A_5.webp").write_bytes(b"of the user")
    run(tmp_path, "fetch", "ours")
    printed = capsys.readouterr().out
    assert "3 of 5 pictures of" in printed
    assert re.search(r"2 addresses failed, such as A_3 \(cannot identify.*\)\. Fetch them by hand", printed)
    assert re.search(r"ours +│ partly +│ 3 ", printed)
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "ours/pictures").iterdir()}
    assert pictures == {"A_1.png": picture, "A_2": picture, "A_5.webp": b"of the user"}
    publisher.files["table.tsv"] = b"IDX\tURL\n../x\thttp://a.example/\n"
    for name in ("table.tsv", "table.tsv.json"):
        (tmp_path / "ours" / name).unlink()
    run(tmp_path, "fetch", "ours", code=1)
    assert "'../x' cannot be the name of a file. Correct" in capsys.readouterr().err


def test_members_of_tars_and_rows_of_parquet_files_are_counted(tmp_path, monkeypatch, capsys):
    drawn_people.sispi(tmp_path / "sispi")
    drawn_people.social_counterfactuals(tmp_path / "social_counterfactuals")
    for name, counts in (("sispi", [33]), ("social_counterfactuals", [2, 26])):
        status = read_status(load_datasets()[name], tmp_path)
        assert (list(status.counts.values()), status.state) == (counts, "partly")
    (tmp_path / "sispi/SISPI_images.tar").write_bytes(b"damaged")
    next((tmp_path / "social_counterfactuals/data").iterdir()).write_bytes(b"damaged")
    assert list(read_status(load_datasets()["sispi"], tmp_path).counts.values()) == [0]
    assert list(read_status(load_datasets()["social_counterfactuals"], tmp_path).counts.values()) in (
        [2, 12],
        [2, 14],
    )


def test_a_range_of_counts_is_met_by_any_of_them(tmp_path):
    need = Requirement("files", "images/*.jpg", range(2, 5))
    assert need.describe_counts() == "2 to 4"
    for images, state in ((1, "partly"), (2, "present"), (4, "present"), (5, "other counts")):
        root = laid_out(tmp_path / str(images), images)
        assert read_status(replace(dataset(), needs=(need,)), root).state == state


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "oars"], "Did you mean 'ours'?"),
        (["status", "xyz"], "Known: ours, theirs."),
        (["fetch"], "Name some of: ours."),
        (["fetch", "ours", "--root", __file__], "Choose another --root"),
        (["fetch", "theirs"], "requires a form. Open https://ours.example/, and put it into"),
    ],
)
def test_mistakes(tmp_path, publisher, capsys, arguments, message):
    assert main(["--root", str(tmp_path), *arguments]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_checked_against_its_published_hash(tmp_path, publisher, monkeypatch, capsys):
    ours = public_datasets.load_datasets()["ours"]
    for digest, code in (("0" * 64, 1), (hashlib.sha256(publisher.files["set.zip"]).hexdigest(), 0)):
        pinned = replace(ours, files=(replace(ours.files[0], sha256=digest),))
        monkeypatch.setattr(public_datasets, "load_datasets", lambda pinned=pinned: {"ours": pinned})
        run(tmp_path, "fetch", "ours", code=code)
    assert "as published" in capsys.readouterr().out


CONTENT = np.random.default_rng(0).bytes(1_000_000)
HALF = 500_000
ANY_SIZE = (0, 10_000_000)


@pytest.fixture
def server():
    with Publisher({"file.zip": CONTENT}) as server:
        yield server


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.zip"


def get(server, target, sizes=ANY_SIZE, sha256=None, progress=lambda completed, total: None):
    download(server.url("file.zip"), target, sizes, sha256, progress)


def test_a_complete_file(server, target, capfd):
    reports = []
    size = len(CONTENT)
    digest = hashlib.sha256(CONTENT).hexdigest()
    get(server, target, (size, size), digest, lambda **numbers: reports.append(numbers))
    assert target.read_bytes() == CONTENT
    assert remaining_files(target) == ["file.zip"]
    assert reports[-1] == {"completed": size, "total": size}
    assert len(reports) > 5
    assert server.accepted_encodings == ["identity"]
    assert capfd.readouterr() == ("", "")
    (target.parent / "new").write_bytes(b"")
    assert target.stat().st_mode == (target.parent / "new").stat().st_mode


def remaining_files(target):
    return sorted(path.name for path in target.parent.iterdir())


def refused(server, target, message, *arguments, requests=1):
    """Check that a transfer is refused after a number of requests, and leaves no file."""
    with pytest.raises(InputError, match=message):
        get(server, target, *arguments)
    assert server.requests == requests
    assert remaining_files(target) == []


@pytest.mark.parametrize(
    ("fault", "requests"),
    [
        ({"breaks_after": [HALF, 0]}, 3),
        ({"statuses": [503, 429]}, 3),
        ({"statuses": [302], "headers": {"Location": "/file.zip"}}, 2),
    ],
)
def test_interruptions_busy_servers_and_redirections(server, target, fault, requests):
    vars(server).update(fault)
    get(server, target)
    assert target.read_bytes() == CONTENT
    assert server.requests == requests


def test_attempts_are_bounded(server, target):
    server.breaks_after = [HALF] * 100
    message = r"cannot be fetched \(.*; 5 attempts\). Try again later"
    refused(server, target, message, requests=module.RETRIES + 1)


def test_a_server_that_stops_within_a_reply_times_out(server, target, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", (10, 0.2))
    server.may_finish.clear()
    with pytest.raises(InputError, match=r"cannot be fetched \(.*timed out"):
        get(server, target)
    server.may_finish.set()
    assert remaining_files(target) == []


def test_messages_hide_passwords(target):
    with pytest.raises(InputError, match=r"^http://me:…@127.0.0.1:1/a: cannot be fetched") as error:
        download("http://me:hush@127.0.0.1:1/a", target, ANY_SIZE, None, lambda completed, total: None)
    assert "hush" not in str(error.value)


LEAVING = {"statuses": [302], "headers": {"Location": "ftp://there/file.zip"}}


@pytest.mark.parametrize(
    ("fault", "sizes", "message"),
    [
        ({"without_length": True}, (0, 100_000), "expected 0 to 100000 bytes"),
        ({"without_length": True}, (2_000_000, 2_000_000), "expected 2000000 bytes, received 1000000"),
        ({}, (999, 999), "expected 999 bytes, announced 1000000.*the publisher has changed the file"),
        ({"files": {}}, ANY_SIZE, "404 Not Found"),
        ({"headers": {"Content-Type": "text/html; charset=utf-8"}}, ANY_SIZE, "a page, not the file"),
        ({"headers": {"Content-Encoding": "gzip"}}, ANY_SIZE, "the server sends it compressed"),
        (LEAVING, ANY_SIZE, "leads to ftp://.*zip. Only http and https"),
    ],
)
def test_other_replies_are_refused_at_once(server, target, fault, sizes, message):
    vars(server).update(fault)
    received = []
    refused(server, target, message, sizes, None, lambda completed, total: received.append(completed))
    assert max(received, default=0) <= max(sizes[1], 0)


@pytest.mark.parametrize(
    ("url", "hop"),
    [
        ("file:///etc/passwd", "file:///etc/passwd"),
        ("ftp://a/b", "ftp://a/b"),
        ("https://a/b", "http://a/b"),
        ("http://a", "data:,x"),
    ],
)
def test_addresses_that_are_less_safe_are_refused(url, hop):
    with pytest.raises(InputError, match="Only http and https"):
        check_address(url, hop)
    check_address("http://a", "https://a")


def test_the_partial_file_of_a_killed_process_is_hidden_and_removed(server, target):
    code = f"""
import os
from pathlib import Path
from src.stimuli.download import download
def progress(completed, total):
    if completed > {HALF}:
        os.kill(os.getpid(), 9)
download({server.url("file.zip")!r}, Path({str(target)!r}), {ANY_SIZE!r}, None, progress)
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, timeout=500, check=False)
    assert killed.returncode == -9
    assert not target.exists()
    assert sum(len(files) for _, _, files in os.walk(target.parent)) == 1
    get(server, target)
    assert target.read_bytes() == CONTENT
    assert remaining_files(target) == ["file.zip"]
