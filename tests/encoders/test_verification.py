"""Check the comparison with published scores: agreement, usual causes, pictures, stored outcomes, tags."""

import hashlib
import json
import math
import re

import open_clip
import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image
from safetensors import torch as safetensors

from src import configs, encoders
from src.configs.composition import quote
from src.encoders import __main__ as entry
from src.encoders import causes, verification
from src.errors import InputError
from src.jobs import run_metadata
from src.report import load
from src.tracking import StoredRun
from tests.encoders.dual_checkpoints import converted_files, dual_files
from tests.encoders.small_checkpoints import blip2_files, open_clip_files, write_folder
from tests.served import Publisher

MODEL, WEIGHTS = "ViT-B-32-quickgelu", "open_clip_model.safetensors"
TEXTS = ["a diagram", "a dog", "a cat"]
SOURCE = "https://example.org/card"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the files of a small CLIP with large weights, so that a wrong activation shows in its logits."""
    files = open_clip_files(MODEL, tmp_path_factory.mktemp("clip"))
    generator = torch.Generator().manual_seed(5)
    state = {
        name: 0.2 * torch.randn(value.shape, generator=generator) if value.dim() > 1 else value
        for name, value in safetensors.load(files[WEIGHTS]).items()
    }
    return files | {WEIGHTS: safetensors.save(state, metadata={"format": "pt"})}


@pytest.fixture
def picture(tmp_path):
    """Draw a picture that is not square, with edges that resizing filters treat differently."""
    generator = torch.Generator().manual_seed(3)
    pixels = torch.randint(0, 256, (90, 130, 3), generator=generator, dtype=torch.uint8)
    path = tmp_path / "picture.png"
    Image.fromarray(pixels.numpy()).save(path)
    return path


def change_config(files, **changes):
    """Return the files of a model of open_clip with changes in its architecture."""
    config = json.loads(files["open_clip_config.json"])
    config["model_cfg"] |= changes
    return files | {"open_clip_config.json": json.dumps(config).encode()}


def published_logits(folder, picture):
    """Compute logits with open_clip alone."""
    model, preprocess = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(TEXTS)
    with torch.inference_mode():
        logits, _ = model.eval().get_logits(preprocess(Image.open(picture))[None], tokens)
    return logits[0].tolist()


def golden_override(scores, kind="logits", texts=TEXTS, tolerance=1e-3, address=SOURCE, **fields):
    """Return the override of `golden`, which is otherwise in a model's YAML."""
    values = {"picture": address, "texts": texts, "kind": kind, "scores": scores, "tolerance": tolerance}
    values |= {"source": SOURCE, **fields}
    return "model.golden={" + ",".join(f"{name}:{quote(value)}" for name, value in values.items()) + "}"


@pytest.fixture
def verify(tmp_path, cache, capsys, monkeypatch):
    """Return a function that verifies a folder and returns exit status, output and errors."""

    def refuse(model, _):
        if model.precision != "fp32":  # takes seconds
            raise InputError("not in this test")

    monkeypatch.setattr(encoders, "check_precision_of", refuse)

    def run(family, folder, *arguments):
        overrides = [f"model={family}", f"model.id={folder}", "model.revision=", "model.sha256="]
        overrides.append(f"store.verifications={tmp_path}/verifications")
        status = entry.main(["verify", *overrides, *map(str, arguments)])
        return status, *capsys.readouterr()

    return run


def test_published_logits_are_verified(verify, files, picture, tmp_path):
    folder = write_folder(files, tmp_path / "own")
    scores = published_logits(folder, picture)
    status, out, err = verify("open_clip", folder, golden_override(scores), f"picture={picture}")
    assert (status, err) == (0, "")
    assert hashlib.sha256(picture.read_bytes()).hexdigest() in out
    assert SOURCE in out
    assert re.search(r"text +published +measured +difference +tolerance", out)
    assert re.search(rf"a dog +{scores[1]:.6g}", out)
    (stored,) = (tmp_path / "verifications").glob("*.json")
    content = json.loads(stored.read_text())
    assert content["status"] == "verified"
    assert content["published"] == pytest.approx(scores)
    assert content["measured"] == pytest.approx(scores, abs=1e-4)
    assert content["sha256"] == hashlib.sha256(files[WEIGHTS]).hexdigest()


@pytest.mark.parametrize(("kind", "function"), [("softmax", torch.softmax), ("cosine", None)])
def test_kinds_of_scores(verify, files, picture, tmp_path, kind, function):
    folder = write_folder(files, tmp_path / "own")
    logits = torch.tensor(published_logits(folder, picture))
    scale = encoders.open_published(configs.OpenClipConfig(id=str(folder)), "cpu").load().model.logit_scale
    scores = torch.softmax(logits, dim=0) if function else logits / scale.exp()
    override = golden_override(scores.tolist(), kind, tolerance=1e-5)
    assert verify("open_clip", folder, override, f"picture={picture}")[0] == 0


def test_another_activation_fails_and_is_named(verify, files, picture, tmp_path):
    scores = published_logits(write_folder(files, tmp_path / "right"), picture)
    broken = write_folder(change_config(files, quick_gelu=False), tmp_path / "broken")
    status, out, _ = verify("open_clip", broken, golden_override(scores), f"picture={picture}")
    assert status == 1
    assert "failed: the largest difference is" in out
    assert "With QuickGELU the figures agree: the id lacks -quickgelu" in out
    assert out.count("the figures agree") == 1
    (stored,) = (tmp_path / "verifications").glob("*.json")
    assert json.loads(stored.read_text())["status"] == "failed"


@pytest.mark.thorough
def test_quickgelu_by_mistake_is_named_in_transformers(verify, files, picture, tmp_path):
    right = converted_files(files, tmp_path / "scratch")
    folder = write_folder(right, tmp_path / "right")
    scores = published_logits(write_folder(files, tmp_path / "clip"), picture)
    assert verify("hf", folder, golden_override(scores, tolerance=2e-3), f"picture={picture}")[0] == 0
    config = right["config.json"].replace(b'"quick_gelu"', b'"gelu"')
    assert config != right["config.json"]
    broken = write_folder(right | {"config.json": config}, tmp_path / "broken")
    status, out, _ = verify("hf", broken, golden_override(scores, tolerance=2e-3), f"picture={picture}")
    assert status == 1
    assert "With QuickGELU the figures agree" in out
    assert "hidden_act in config.json" in out


def test_another_resizing_is_named(verify, files, picture, tmp_path):
    config = json.loads(files["open_clip_config.json"])
    config["preprocess_cfg"]["interpolation"] = "bilinear"
    changed = files | {"open_clip_config.json": json.dumps(config).encode()}
    scores = published_logits(write_folder(changed, tmp_path / "published"), picture)
    folder = write_folder(files, tmp_path / "own")
    status, out, _ = verify("open_clip", folder, golden_override(scores), f"picture={picture}")
    assert status == 1
    assert "With bilinear resizing with antialias, then cropped the figures agree" in out


@pytest.mark.parametrize("name", ["siglip", pytest.param("siglip2", marks=pytest.mark.thorough)])
def test_other_padding_is_named(verify, picture, tmp_path, name):
    """Publish scores of texts padded to the longest, as with a processor's `padding=True`."""
    import transformers

    folder = write_folder(dual_files(name, tmp_path / "scratch"), tmp_path / "own")
    model = transformers.AutoModel.from_pretrained(folder)
    torch.nn.init.constant_(model.logit_scale, math.log(100))
    model.save_pretrained(folder)
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    pixels = processor(Image.open(picture), return_tensors="pt")
    with torch.inference_mode():
        logits = model(**pixels, input_ids=tokens["input_ids"]).logits_per_image[0].tolist()
    status, out, _ = verify("hf", folder, golden_override(logits), f"picture={picture}")
    assert status == 1
    assert "With texts padded to the longest the figures agree" in out


def test_a_cause_that_cannot_be_tried_is_stated(verify, picture, tmp_path):
    folder = write_folder(dual_files("siglip2_naflex", tmp_path / "scratch"), tmp_path / "own")
    status, out, _ = verify("hf", folder, golden_override([1.0, 2.0, 3.0]), f"picture={picture}")
    assert status == 1
    assert "another resizing: cannot be tried (the network reads patches" in out
    assert "None of them explains it" in out


def test_the_largest_cosine_of_several_vectors_counts(verify, picture, tmp_path):
    import transformers

    folder = write_folder(blip2_files(tmp_path / "scratch"), tmp_path / "own")
    model = transformers.Blip2ForImageTextRetrieval.from_pretrained(folder).eval()
    pixels = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")(
        Image.open(picture), return_tensors="pt"
    )
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    tokens.pop("token_type_ids", None)
    with torch.inference_mode():
        scores = model(**pixels, **tokens).logits_per_image[0].tolist()
    override = golden_override(scores, "cosine", tolerance=1e-5)
    assert verify("blip2", folder, override, f"picture={picture}")[0] == 0
    status, _, err = verify("blip2", folder, golden_override(scores), f"picture={picture}")
    assert status == 1
    assert "Blip2ForImageTextRetrieval has no logit_scale. Only golden.kind=cosine" in err


def test_a_score_that_is_not_a_number_fails():
    golden = configs.GoldenConfig(SOURCE, "", ["a", "b"], "cosine", [0.5, 0.2], 1e-3, "")
    assert not verification.Comparison([0.5, math.nan], golden).agrees
    assert verification.Comparison([0.5005, 0.1995], golden).agrees
    assert not verification.Comparison([0.5, 0.198], golden).agrees


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["model=openclip_h14"], "its YAML states no published scores (golden), so it cannot be verified"),
        (["model=toy_s"], "not a published encoder"),
        (["picture=cats.jpg"], "no model. Choose one with model=NAME"),
        (
            ["model=clip_b32", "picture=cats.jpg"],
            "picture=cats.jpg: no such file. Give the picture of",
        ),
        (["model=clp_b32"], "clp_b32"),
        (["model=clip_b32", "model.weights=random"], "random weights have no published scores"),
        (
            ["model=clip_b32", "model.golden.scores=[1.0]"],
            "got 3 texts and 1 scores. Correct",
        ),
        (
            ["model=clip_b32", "model.golden.kind=rank"],
            "kind=rank: must be one of cosine, logits",
        ),
        (["model=clip_b32"], "HF_HUB_OFFLINE is set. Fetch it with access to the network: python -m"),
    ],
)
def test_what_cannot_be_verified(cache, capsys, arguments, message):
    assert entry.main(["verify", *arguments]) == 1
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_pictures_are_fetched_once_and_checked(verify, files, picture, tmp_path):
    folder, content = write_folder(files, tmp_path / "own"), picture.read_bytes()
    scores, digest = published_logits(folder, picture), hashlib.sha256(content).hexdigest()
    with Publisher({"picture.png": content}) as server:
        override = golden_override(scores, address=server.url("picture.png"))
        status, out, err = verify("open_clip", folder, override)
        assert (status, err) == (0, "")
        assert f"SHA-256 {digest} (none is published)" in out
        pinned = golden_override(scores, address=server.url("picture.png"), sha256=digest)
        status, out, _ = verify("open_clip", folder, pinned)
        assert status == 0
        assert server.requests == 1
        assert "none is published" not in out
        other = golden_override(scores, address=server.url("picture.png"), sha256="0" * 64)
        status, _, err = verify("open_clip", folder, other)
        assert status == 1
        assert f"expected a picture of SHA-256 {'0' * 64}, got {digest}. Delete it" in err
        absent = golden_override(scores, address=server.url("absent.png"))
        status, _, err = verify("open_clip", folder, absent)
        assert status == 1
        assert "With the picture as a file: picture=FILE." in err
    status, _, err = verify("open_clip", folder, golden_override(scores), f"picture={tmp_path}/none.png")
    assert f"picture={tmp_path}/none.png: no such file. Give the picture of {SOURCE}." in err
    (tmp_path / "text.png").write_text("no picture")
    status, _, err = verify("open_clip", folder, golden_override(scores), f"picture={tmp_path}/text.png")
    assert "text.png: expected a picture, got what cannot be read" in err


def test_fetch_brings_the_picture_too(cache, files, picture, tmp_path, capsys):
    folder, content = write_folder(files, tmp_path / "own"), picture.read_bytes()
    overrides = ["model=open_clip", f"model.id={folder}", f"store.verifications={tmp_path}/verifications"]
    with Publisher({"picture.png": content}) as server:
        golden = golden_override([0.0] * 3, address=server.url("picture.png"))
        assert entry.main(["fetch", *overrides, golden]) == 0
        out, err = capsys.readouterr()
        assert f"SHA-256 {hashlib.sha256(content).hexdigest()}" in out.splitlines()[-1]
        assert err == ""
        golden = golden_override([0.0] * 3, address=server.url("absent.png"))
        assert entry.main(["fetch", *overrides, golden]) == 0
    assert "The picture of its published scores is missing: " in capsys.readouterr().err


def test_an_outcome_holds_for_the_same_weights_and_settings(files, picture, tmp_path):
    folder = write_folder(files, tmp_path / "own")
    golden = configs.GoldenConfig(SOURCE, "", TEXTS, "logits", published_logits(folder, picture), 1e-3, "")
    model = configs.OpenClipConfig(name="tried", id=str(folder))
    encoder = encoders.open_published(model, "cpu")
    stored = tmp_path / "verifications"
    assert verification.read_status(stored, encoder) == "not verified"
    comparison = verification.compare(encoder.load(), verification.read_picture(picture), golden)
    assert verification.store_outcome(stored, encoder, {}, comparison) == "verified"
    assert verification.read_status(stored, encoder) == "verified"
    assert verification.read_status(stored, encoders.open_published(model, "gpu")) == "verified"
    half = configs.OpenClipConfig(name="tried", id=str(folder), precision="bf16")
    assert verification.read_status(stored, encoders.open_published(half, "cpu")) == "not verified"
    broken = write_folder(change_config(files, quick_gelu=False), tmp_path / "broken")
    other = configs.OpenClipConfig(name="tried", id=str(broken))
    assert verification.read_status(stored, encoders.open_published(other, "cpu")) == "not verified"
    assert list(verification.list_statuses(stored).values()) == ["verified"]
    for damaged in ('{"status": []}', '{"status": "maybe", "sha256": "0"}', "{", ""):
        for path in stored.glob("*.json"):
            path.write_text(damaged)
        assert verification.read_status(stored, encoder) == "not verified"
        assert verification.list_statuses(stored) == {}


def test_tags_and_report_show_the_outcome(job, files, picture, tmp_path):
    folder = write_folder(files, tmp_path / "own")
    tried = job("model=open_clip", f"model.id={folder}", f"store.verifications={tmp_path}/verifications")
    assert run_metadata.build_model_tags(tried)["verified"] == "not verified"
    golden = configs.GoldenConfig(SOURCE, "", TEXTS, "logits", [0.0] * 3, 1e-3, "")
    encoder = encoders.open_published(tried.cfg.model, "cpu")
    comparison = verification.compare(encoder.load(), verification.read_picture(picture), golden)
    verification.store_outcome(tmp_path / "verifications", encoder, {}, comparison)
    tags = run_metadata.build_model_tags(tried) | {"model": "own"}
    assert tags["verified"] == "failed"
    run = StoredRun("r", "demo", "FINISHED", "", tags, {})
    assert load.collect_model_facts({"r": run}, ["own", "toy_m"])["verified"].tolist() == ["failed", ""]
    random = job("model=open_clip", f"model.id={folder}", "model.weights=random")
    assert "verified" not in run_metadata.build_model_tags(random)


def test_published_scores_are_in_no_key(job):
    plain, other = job("model=clip_b32"), job("model=clip_b32", "model.golden.tolerance=0.5")
    without = job("model=clip_b32", "model.golden.picture=''")
    assert plain.config_hash == other.config_hash == without.config_hash
    assert plain.model == other.model == without.model == "clip_b32"
    assert "golden" not in plain.resolved["model"]


def test_published_scores_in_conf_are_complete():
    paths = [path for path in (configs.CONF / "model").glob("*.yaml") if "golden:" in path.read_text("utf-8")]
    assert len(paths) >= 6
    for path in paths:
        golden = OmegaConf.to_object(configs.compose([f"model={path.stem}"])[0].model.golden)
        assert verification.check_golden(golden, path.stem) is golden
        assert golden.picture.startswith("http")
        assert golden.source.startswith("https://github.com/")
        assert golden.tolerance < 0.05
        assert re.fullmatch(r"([0-9a-f]{64})?", golden.sha256)
        if golden.kind == "softmax":
            assert sum(golden.scores) == pytest.approx(1, abs=1e-3)


def test_activations_are_put_back(files, tmp_path, picture):
    folder = write_folder(files, tmp_path / "own")
    network = encoders.open_published(configs.OpenClipConfig(id=str(folder)), "cpu").load()
    golden = configs.GoldenConfig(SOURCE, "", TEXTS, "logits", [0.0] * 3, 1e-3, "")
    opened = verification.read_picture(picture)
    before = verification.compare(network, opened, golden).measured
    trials = list(causes.try_causes(network, opened, golden, lambda _: network, "fp32"))
    assert verification.compare(network, opened, golden).measured == before
    assert {trial.change for trial in trials} >= {"plain GELU", "model.precision=bf16"}


def test_a_precision_that_cannot_be_computed_is_stated(files, tmp_path, picture):
    folder = write_folder(files, tmp_path / "own")
    network = encoders.open_published(configs.OpenClipConfig(id=str(folder)), "cpu").load()
    golden = configs.GoldenConfig(SOURCE, "", TEXTS, "logits", [0.0] * 3, 1e-3, "")

    def refuse(precision):
        raise InputError(f"no {precision} here")

    trials = causes.try_causes(network, verification.read_picture(picture), golden, refuse, "fp32")
    assert [trial.reason for trial in trials if trial.comparison is None][-2:] == [
        "no bf16 here",
        "no fp16 here",
    ]
