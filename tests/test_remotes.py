"""Push from a clone and pull into another, by a folder and by S3: intact, changed and missing objects.

There are two small worlds: drawn stimuli with a trained toy, and files with morphs and an untrained toy.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
import yaml

from src.storage import cache
from tests.clones import Clone
from tests.stimuli import drawn
from tests.tracking import servers

# A pipeline is some twenty processes, each of which loads torch.
pytestmark = pytest.mark.timeout(1800)
MARKS = {"drawn": pytest.mark.thorough, "files": pytest.mark.exhaustive}

# Number of analyses of a model, over all attributes of the eight experiments.
ANALYSES = 38
DEMO_SOURCES = (("faces", "avatars"), ("scenes", "abstract"), ("words", "vader"))
DEMO = {
    "dataset": "demo",
    "raw": {role: f"conf/{role}/{name}.yaml" for role, name in DEMO_SOURCES},
    **{"models": ["toy_s"], "model": {"steps": 0, "seed": 0}, "demo": {"bias": 1.0}, "protocol": {"k": 20}},
    **{"faces": {"per_group": 15}, "scenes": {"count": 60}, "words": {"count": 60}},
}
# Settings of a world whose stimuli are read from files rather than drawn.
FILE_SETTINGS = DEMO | {name: {} for name in ("faces", "scenes", "words", "demo")}
FILE_SETTINGS |= {"protocol": {"k": 10, "extremes": 5, "set_size": 12}}
RATED_SOURCES = {"scenes": "data/raw/oasis", "words": "data/raw/nrc_vad"}
MORPHS = {"per_group": 15, "size": 64, "workers": 1}
WORLDS = {
    "drawn": DEMO | {"model": {"steps": 20, "seed": 0}},
    "files": FILE_SETTINGS | {"dataset": "paper", "raw": {"faces": "data/raw/cfd"} | RATED_SOURCES}
    | {"faces": MORPHS},
}  # fmt: skip
RATED_WRITERS = [lambda raw: drawn.oasis(raw / "oasis", 40), lambda raw: drawn.nrc_vad(raw / "nrc_vad", 40)]
# Functions that write the raw data each world starts from.
RAW_DATA_WRITERS: dict[str, list[Callable[[Path], Path]]] = {
    "drawn": [lambda raw: drawn.oasis(raw / "oasis")],  # used by no stage
    "files": [lambda raw: drawn.cfd(raw / "cfd", 6), *RATED_WRITERS],
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Serve S3 with a bucket for each world; yield its address."""
    with servers.s3(*WORLDS) as address:
        yield address


@pytest.fixture(scope="module", params=[pytest.param(world, marks=MARKS[world]) for world in WORLDS])
def origin(request, tmp_path_factory, server) -> Clone:
    """Run the pipeline in a clone on one of the worlds and push it to a folder and a bucket."""
    folder = tmp_path_factory.mktemp(request.param)
    clone = Clone.of_the_checkout(folder / "made")
    common = {"roles": ["faces", "scenes", "words", "labels"], "seed": 0, "trainer": "cpu", "labels": {}}
    common |= {"vectors": "data/embeddings", "results": "*"}
    (clone.root / "params.yaml").write_text(yaml.safe_dump(WORLDS[request.param] | common))
    writers = RAW_DATA_WRITERS[request.param]
    raw = [write(clone.root / "data" / "raw").relative_to(clone.root) for write in writers]
    if raw:
        clone.dvc("add", *map(str, raw))
    clone.dvc("repro")
    remotes = {"folder": clone.remote, "s3": f"s3://{request.param}/below", "shared": folder / "shared"}
    for name, url in remotes.items():
        clone.dvc("remote", "add", name, str(url))
    clone.dvc("remote", "modify", "s3", "endpointurl", server)
    clone.commit()
    for name in ("folder", "s3"):
        clone.dvc("push", "--remote", name)
    return clone


@contextmanager
def changed(path: Path, content: bytes | None) -> Iterator[None]:
    """Replace or remove (None) an object, and restore it at the end."""
    before = path.read_bytes()
    path.unlink()  # DVC makes objects read-only
    if content is not None:
        path.write_bytes(content)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(before)


@pytest.mark.parametrize("remote", ["folder", "s3"])
def test_a_clean_clone_has_nothing_to_do_after_a_pull_and_recomputes_the_same_bits(origin, remote, tmp_path):
    clone = origin.clone(tmp_path / "pulled")
    assert set(clone.hashes("data")) == set(clone.run("git", "ls-files", "data").split())
    clone.dvc("pull", "--remote", remote)
    clone.check_up_to_date()
    # Drawn pictures, and pictures resized for further models, are no outputs of the pipeline.
    caches = ("data/stimuli/", "data/pictures/")
    hashes = origin.hashes("data").items()
    assert clone.hashes("data") == {name: digest for name, digest in hashes if not name.startswith(caches)}
    for model in clone.params["models"]:
        again = clone.recomputed(model, tmp_path / model)
        assert (again.code, again.passes, again.trained) == (0, 0, 0)  # from the pulled vectors
        analyses = again.analyses()
        assert len(analyses) == ANALYSES
        assert analyses["rho"].notna().any()
        pd.testing.assert_frame_equal(analyses, origin.written(model).analyses(), check_exact=True)


def test_git_takes_what_dvc_wrote_and_no_raw_data(origin):
    raw = origin.root / "data" / "raw"
    tracked = origin.run("git", "ls-files", "data").split()
    assert tracked == sorted(f"data/raw/{path.name}" for path in raw.glob("*.dvc"))
    stray = [raw / "stray.jpg", raw / "another" / "stray.jpg", raw.parent / "stray.csv"]
    for path in stray:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"of somebody")
    assert origin.run("git", "add", "--all", "--dry-run") == ""
    for path in stray:
        path.unlink()


def test_vectors_and_results_can_be_shared_without_pictures(origin, tmp_path):
    origin.dvc("push", "--remote", "shared", "embed", "propagate")
    clone = origin.clone(tmp_path / "pulled")
    clone.dvc("pull", "--remote", "shared", "--allow-missing")
    assert "Running stage" not in clone.dvc("repro", "--allow-missing")
    assert clone.run("git", "status", "--porcelain") == ""
    assert clone.hashes("data/embeddings") == origin.hashes("data/embeddings")
    pictures = {".png", ".jpg", ".jpeg", ".JPG"}
    assert not [name for name in clone.hashes("data") if Path(name).suffix in pictures]


def test_a_pull_fails_if_an_object_is_missing_or_if_it_is_changed_and_the_remote_verified(origin, tmp_path):
    output = f"data/embeddings/{origin.params['dataset']}/{origin.params['models'][0]}/faces"
    (vectors_path,) = (origin.root / output).rglob("embedding.safetensors")
    md5 = hashlib.md5(vectors_path.read_bytes(), usedforsecurity=False).hexdigest()
    path = origin.remote / "files" / "md5" / md5[:2] / md5[2:]
    trusting, verifying = (origin.clone(tmp_path / name) for name in ("trusting", "verifying"))
    with changed(path, None):
        printed = verifying.dvc("pull", "--remote", "folder", output, fails=True)
    assert "failed to transfer" in printed
    assert path.parent.name + path.name in printed
    verifying.dvc("remote", "modify", "--local", "folder", "verify", "true")
    content = path.read_bytes()
    with changed(path, content[:-1] + bytes([content[-1] ^ 1])):
        printed = verifying.dvc("pull", "--remote", "folder", output, fails=True)
        trusting.dvc("pull", "--remote", "folder", output)  # by default DVC trusts a remote
    assert "Checkout failed" in printed
    assert output in printed
    assert not (verifying.root / output).exists()
    (pulled,) = (trusting.root / output).rglob("embedding.safetensors")
    assert "embedding.safetensors has" in cache.find_damage(pulled.parent)  # the store finds it
    verifying.dvc("pull", "--remote", "folder", output)
    assert verifying.hashes(output) == origin.hashes(output)
