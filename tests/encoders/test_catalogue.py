"""What can be chosen: lists, profiles, and fetching from a hub."""

import hashlib
import http.server
import os
import subprocess
import sys
import threading
from typing import ClassVar

import open_clip
import pytest

from src import configs
from src.encoders import __main__ as entry
from src.encoders import catalogue
from tests.encoders import published as made
from tests.paths import CHECKOUT


@pytest.mark.parametrize("architecture", ["ViT-B-32-quickgelu", "RN50-quickgelu"])
def test_profiles_are_what_is_measured(architecture):
    recorded = catalogue.profiles()[architecture]
    assert catalogue.profile(architecture, open_clip.get_model_config(architecture)) == recorded


def test_profiles_are_those_that_others_publish():
    """open_clip's own table of parameters (M) and GFLOPs of both towers."""
    for name, parameters, gflops in (("ViT-B-32", 151.28, 14.78), ("ViT-L-14", 427.62, 175.33)):
        row = catalogue.profile_of(f"{name}/openai")
        assert float(row["parameters_millions"]) == parameters
        assert float(row["gflops_image"]) + float(row["gflops_text"]) == pytest.approx(gflops, abs=0.011)


def test_every_architecture_that_needs_nothing_of_the_hub_has_a_profile():
    known = set(open_clip.list_models())
    assert set(catalogue.profiles()) - {catalogue.BLIP2} <= known
    without = known - set(catalogue.profiles())
    assert all("hf_model_name" in open_clip.get_model_config(name)["text_cfg"] for name in without)


def test_the_list_names_what_conf_has(cache, capsys):
    assert entry.main(["list"]) == 0
    said = capsys.readouterr().out
    for name in ("clip_b32", "clip_l14", "blip2", "siglip2_b16", "openclip_h14"):
        (row,) = [line for line in said.splitlines() if f"model={name} " in line]
        assert "unknown" not in row
        assert "to fetch" in row


def test_a_model_is_here_when_all_its_files_are(cache, small, tmp_path):
    config = configs.OpenClipConfig(id="ViT-B-16-SigLIP2/webli")
    files = made.clip("ViT-B-16-SigLIP2", tmp_path)
    repository = made.repository("ViT-B-16-SigLIP2", "webli")
    weights = "open_clip_model.safetensors"
    made.place(cache, repository, {weights: files[weights]})
    assert not catalogue.is_cached(config)  # without its tokeniser it cannot run
    made.place(cache, repository, files)
    assert catalogue.is_cached(config)


def test_everything_listed_can_be_chosen(cache, capsys):
    from src.encoders import open_clip_weights

    ids = catalogue.pairs()
    assert len(ids) > 150
    for found in ids:
        assert open_clip_weights.find(configs.OpenClipConfig(id=found)).weights.name.count("/") == 1


def test_capitani_s_models_are_ready_for_a_sweep(cache, capsys):
    assert entry.main(["list", "--capitani"]) == 0
    out, err = capsys.readouterr()
    group, ids = out.strip().split(" model.id=")
    assert group == "model=open_clip"
    assert "90 names" in err
    assert set(ids.split(",")) <= set(catalogue.pairs())
    assert len(ids.split(",")) == len(set(ids.split(","))) == int(err.split()[0])


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model=toy_s"], "no published encoder"),
        (["model=clip_b23"], "Could not find 'model/clip_b23'"),
        (["model=open_clip"], "model.id"),
        (["model=clip_b32", "model.precision=fp8"], "must be one of fp32, bf16, fp16"),
    ],
)
def test_a_mistake_is_said(cache, capsys, overrides, said):
    assert entry.main(["fetch", *overrides]) == 1
    assert said in capsys.readouterr().err


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as a download needs."""

    files: ClassVar[dict[str, bytes]] = {}
    asked: ClassVar[list[str]] = []

    def _answer(self, body: bool) -> None:
        name = self.path.rpartition("/")[2]
        self.asked.append(f"{self.command} {name}")
        content = self.files.get(name)
        self.send_response(200 if content is not None else 404)
        if content is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        else:
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", made.COMMIT)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if body and content is not None:
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        self._answer(False)

    def do_GET(self) -> None:
        self._answer(True)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    _Hub.asked.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def command(tmp_path, endpoint, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "src.encoders", *arguments],
        cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), **environment},
    )  # fmt: skip


def test_fetching_fills_the_cache_and_a_second_time_asks_nobody(served, tmp_path):
    _Hub.files = made.clip("ViT-B-16-SigLIP2", tmp_path)
    _Hub.files["open_clip_config.json"] = _Hub.files["open_clip_config.json"].replace(
        b"timm/ViT-B-16-SigLIP2", b"lab/encoder"
    )
    asked = ["fetch", "model=open_clip", "model.id=hf-hub:lab/encoder"]
    done = command(tmp_path, served, *asked)
    assert done.returncode == 0, done.stderr
    digest = hashlib.sha256(_Hub.files["open_clip_model.safetensors"]).hexdigest()
    assert f"here, revision {made.COMMIT}, SHA-256 {digest}" in done.stdout
    before = len(_Hub.asked)
    again = command(tmp_path, served, *asked)
    assert again.stdout == done.stdout
    assert len(_Hub.asked) == before


@pytest.mark.thorough
def test_a_hub_out_of_reach_is_said_without_a_traceback(tmp_path):
    for environment in ({}, {"HF_HUB_OFFLINE": "1"}):
        done = command(tmp_path, "http://127.0.0.1:9", "fetch", "model=clip_b32", **environment)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "timm/vit_base_patch32_clip_224.openai" in done.stderr
        assert str(tmp_path / "home") in done.stderr


def test_a_repository_without_weights_is_said(served, tmp_path):
    _Hub.files = {"open_clip_config.json": made.clip("ViT-B-32-quickgelu", tmp_path)["open_clip_config.json"]}
    done = command(tmp_path, served, "fetch", "model=open_clip", "model.id=hf-hub:lab/encoder")
    assert done.returncode == 1
    assert "the repository has none of open_clip_model.safetensors" in done.stderr
