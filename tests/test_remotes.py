"""What one clone pushes, another pulls: to a folder and to S3, whole, changed or missing.

On four small worlds: untrained and trained toys, photographs, morphs.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from src.storage import cache
from tests import clones
from tests.clones import Clone, Remote
from tests.stimuli import drawn

pytestmark = pytest.mark.thorough

DEMO = {
    "dataset": "demo",
    "raw": {
        "faces": "conf/faces/avatars.yaml",
        "scenes": "conf/scenes/abstract.yaml",
        "words": "conf/words/vader.yaml",
    },
    "models": ["toy_s"],
    "faces": {"per_group": 15},
    "scenes": {"count": 60},
    "words": {"count": 60},
    "model": {"steps": 0, "seed": 0},
    "demo": {"bias": 1.0},
    "protocol": {"k": 20},
}
READ = DEMO | {
    "faces": {},
    "scenes": {},
    "words": {},
    "demo": {},
    "protocol": {"k": 10, "extremes": 5, "set_size": 12},
}
RATED = {"scenes": "data/raw/oasis", "words": "data/raw/nrc_vad"}
WORLDS = {
    "untrained": DEMO,
    "trained": DEMO | {"models": ["toy_s", "toy_m"], "model": {"steps": 20, "seed": 0}},
    "photos": READ
    | {
        "dataset": "photos",
        "raw": {"faces": "data/raw/fairface"} | RATED,
        "faces": {"per_group": None},
    },
    "paper": READ
    | {
        "dataset": "paper",
        "raw": {"faces": "data/raw/cfd"} | RATED,
        "faces": {"per_group": 15, "size": 64, "workers": 1},
    },
}
DRAWN: dict[str, list[Callable[[Path], Path]]] = {
    "untrained": [lambda root: drawn.oasis(root / "oasis")],  # in nobody's way
    "trained": [],
    "photos": [
        lambda root: drawn.fairface(root / "fairface", 15),
        lambda root: drawn.oasis(root / "oasis", 40),
        lambda root: drawn.nrc_vad(root / "nrc_vad", 40),
    ],
    "paper": [
        lambda root: drawn.cfd(root / "cfd", 6),
        lambda root: drawn.oasis(root / "oasis", 40),
        lambda root: drawn.nrc_vad(root / "nrc_vad", 40),
    ],
}


@dataclass(frozen=True)
class Origin:
    """The clone that made everything, and where it pushed it."""

    clone: Clone
    remotes: dict[str, Remote]

    def vectors(self) -> tuple[str, str]:
        """An output, and the name on a remote of what is in it."""
        params = self.clone.params
        output = f"data/embeddings/{params['dataset']}/{params['models'][0]}/faces"
        (path,) = (self.clone.root / output).rglob("embedding.safetensors")
        md5 = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        return output, f"files/md5/{md5[:2]}/{md5[2:]}"


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Any, str]]:
    """A client of a bucket, and the address of its server."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per object
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    try:
        yield client, address
    finally:
        server.stop()


@pytest.fixture(
    scope="module",
    params=["untrained", *(pytest.param(name, marks=pytest.mark.thorough) for name in list(WORLDS)[1:])],
)
def origin(request, tmp_path_factory, bucket) -> Origin:
    """A clone that ran the pipeline on one of the worlds and pushed it to both remotes."""
    folder = tmp_path_factory.mktemp(request.param)
    made = Clone.of_the_checkout(folder / "made")
    common = {"roles": ["faces", "scenes", "words", "labels"], "seed": 0, "trainer": "cpu", "labels": {}}
    (made.root / "params.yaml").write_text(yaml.safe_dump(WORLDS[request.param] | common))
    raw = [draw(made.root / "data" / "raw").relative_to(made.root) for draw in DRAWN[request.param]]
    if raw:
        made.dvc("add", *map(str, raw))
    made.dvc("repro")
    client, address = bucket
    client.create_bucket(Bucket=request.param)
    remotes = [clones.folder(folder / "remote"), clones.s3(client, request.param)]
    for remote in remotes:
        made.dvc("remote", "add", remote.name, remote.url)
    made.dvc("remote", "modify", "s3", "endpointurl", address)
    made.dvc("remote", "add", "shared", str(folder / "shared"))
    made.commit()
    for remote in remotes:
        made.dvc("push", "--remote", remote.name)
    return Origin(made, {remote.name: remote for remote in remotes})


@pytest.fixture(params=["folder", "s3"])
def remote(request, origin) -> Remote:
    return origin.remotes[request.param]


@contextmanager
def changed(remote: Remote, name: str, content: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """An object of a remote with other content, or without (None); put right at the end."""
    before = remote.read(name)
    remote.remove(name) if content is None else remote.write(name, content(before))
    try:
        yield
    finally:
        remote.write(name, before)


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def test_a_clean_clone_pulls_all_and_has_nothing_to_do(origin, remote, tmp_path):
    clone = origin.clone.clone(tmp_path / "pulled")
    assert set(clone.hashes("data")) == set(clone.run("git", "ls-files", "data").split())
    clone.dvc("pull", "--remote", remote.name)
    assert "up to date" in clone.dvc("status")
    said = clone.dvc("repro")
    assert "Running stage" not in said
    assert "up to date" in said
    assert clone.run("git", "status", "--porcelain") == ""
    # Resized pictures only save time where one more model is embedded: no output of the pipeline.
    kept = {name: said for name, said in origin.clone.hashes("data").items() if "data/pictures/" not in name}
    assert clone.hashes("data") == kept


def test_every_rho_is_the_same_to_the_last_bit(origin, tmp_path):
    clone = origin.clone.clone(tmp_path / "pulled")
    clone.dvc("pull", "--remote", "folder")
    for model in clone.params["models"]:
        again = clone.recomputed(model, tmp_path / model)
        assert (again.code, again.passes, again.trained) == (0, 0, 0)  # from the vectors that came
        analyses = again.analyses()
        assert len(analyses) == 38
        assert analyses["rho"].notna().any()
        pd.testing.assert_frame_equal(analyses, origin.clone.written(model).analyses(), check_exact=True)


def test_what_was_made_is_not_made_again(origin):
    before = origin.clone.hashes("data")
    assert "Running stage" not in origin.clone.dvc("repro")
    assert origin.clone.hashes("data") == before


def test_git_takes_what_dvc_wrote_and_no_raw_data(origin):
    raw = origin.clone.root / "data" / "raw"
    held = origin.clone.run("git", "ls-files", "data").split()
    assert held == sorted(f"data/raw/{path.name}" for path in raw.glob("*.dvc"))
    stray = [raw / "stray.jpg", raw / "another" / "stray.jpg", raw.parent / "stray.csv"]
    for path in stray:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"of somebody")
    assert origin.clone.run("git", "add", "--all", "--dry-run") == ""
    for path in stray:
        path.unlink()


def test_vectors_and_results_can_be_shared_without_pictures(origin, tmp_path):
    origin.clone.dvc("push", "--remote", "shared", "embed", "propagate")
    clone = origin.clone.clone(tmp_path / "pulled")
    clone.dvc("pull", "--remote", "shared", "--allow-missing")
    assert "Running stage" not in clone.dvc("repro", "--allow-missing")
    assert clone.run("git", "status", "--porcelain") == ""
    assert clone.hashes("data/embeddings") == origin.clone.hashes("data/embeddings")
    pictures = {".png", ".jpg", ".jpeg", ".JPG"}
    assert not [name for name in clone.hashes("data") if Path(name).suffix in pictures]


def test_a_missing_object_is_an_error_that_says_which(origin, remote, tmp_path):
    clone = origin.clone.clone(tmp_path / "pulled")
    output, name = origin.vectors()
    with changed(remote, name, None):
        said = clone.dvc("pull", "--remote", remote.name, output, fails=True)
    assert "failed to transfer" in said
    assert "".join(name.split("/")[-2:]) in said
    assert output in clone.dvc("checkout", output, fails=True)


def test_a_changed_object_is_refused_where_the_remote_is_verified(origin, remote, tmp_path):
    damage = {"folder": flipped, "s3": halved}[remote.name]
    output, name = origin.vectors()
    trusting, clone = (origin.clone.clone(tmp_path / each) for each in ("trusting", "verifying"))
    clone.dvc("remote", "modify", "--local", remote.name, "verify", "true")
    with changed(remote, name, damage):
        said = clone.dvc("pull", "--remote", remote.name, output, fails=True)
        trusting.dvc("pull", "--remote", remote.name, output)  # DVC's default; our store looks itself
    assert "Checkout failed" in said
    assert output in said
    assert not (clone.root / output).exists()
    (entry,) = (trusting.root / output).iterdir()
    assert "embedding.safetensors has" in cache.damaged(entry)
    clone.dvc("pull", "--remote", remote.name, output)
    assert clone.hashes(output) == origin.clone.hashes(output)
