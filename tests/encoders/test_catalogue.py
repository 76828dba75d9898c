"""Check how published encoders are listed, declared and fetched, and the fetch commands in messages."""

import csv
import hashlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
from collections import Counter

import open_clip
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from benchmarks import profiles
from src import configs, encoders
from src.encoders import __main__ as entry
from src.encoders import catalogue, family_of, pretrained
from src.encoders.catalogue import PRETRAINING, ZERO_SHOT, read_rows_by_model
from src.errors import InputError
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import (
    COMMIT,
    SMALL,
    hub_repository,
    open_clip_files,
    tokenizer_files,
    write_folder,
    write_to_cache,
)
from tests.paths import CHECKOUT
from tests.served import Publisher


def test_profiles_are_what_is_measured_and_what_others_publish():
    measured = profiles.profile("RN50-quickgelu", open_clip.get_model_config("RN50-quickgelu"))
    assert read_rows_by_model(catalogue.PROFILES)["RN50-quickgelu"] == measured
    # Parameters (M) and GFLOPs of both towers in open_clip's table.
    for name, parameters, gflops in (("ViT-B-32", 151.28, 14.78), ("ViT-L-14", 427.62, 175.33)):
        row = catalogue.profile_of(f"{name}/openai")
        assert float(row["parameters_millions"]) == parameters
        assert float(row["gflops_image"]) + float(row["gflops_text"]) == pytest.approx(gflops, abs=0.011)


def test_sizes_are_those_of_the_same_weights_in_open_clip_or_have_a_source():
    sizes = read_rows_by_model(catalogue.SIZES)
    for name, row in sizes.items():
        same = re.match(r"the weights of open_clip's ([\w-]+)", row["source"])
        if same:
            assert {column: row[column] for column in catalogue.COLUMNS[1:]} == catalogue.profile_of(same[1])
        assert row["source"], name
        assert row["width"].isdecimal(), name
    ids = {OmegaConf.load(path).get("id") for path in (CHECKOUT / "conf/model").glob("*.yaml")}
    assert all(catalogue.profile_of(name)["width"] for name in ids - {None, "???"})


def test_a_model_is_cached_if_all_its_files_are(cache, small, tmp_path, capsys):
    assert entry.main(["list"]) == 0
    assert re.search("model=clip_b32 .*to fetch", capsys.readouterr().out)
    config = configs.OpenClipConfig(id="ViT-B-16-SigLIP2/webli")
    files = open_clip_files("ViT-B-16-SigLIP2", tmp_path)
    repository = hub_repository("ViT-B-16-SigLIP2", "webli")
    weights = "open_clip_model.safetensors"
    write_to_cache(cache, repository, {weights: files[weights]})
    assert not catalogue.is_cached(config)  # without its tokeniser it cannot run
    write_to_cache(cache, repository, files)
    assert catalogue.is_cached(config)


def test_capitani_s_models_are_ready_for_a_sweep(cache, capsys):
    assert entry.main(["list", "--capitani"]) == 0
    out, err = capsys.readouterr()
    group, ids = out.strip().split(" model.id=")
    assert group == "model=open_clip"
    assert "90 names" in err
    assert set(ids.split(",")) <= set(catalogue.list_ids())
    assert len(ids.split(",")) == len(set(ids.split(","))) == int(err.split()[0])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=toy_s"], "not a published encoder"),
        (["model=hf"], "model.id: not set. Set model.id=VALUE."),
        (["model=clip_b23"], "Could not find 'model/clip_b23'"),
    ],
)
def test_a_mistake_is_reported(cache, capsys, overrides, message):
    assert entry.main(["fetch", *overrides]) == 1
    assert message in capsys.readouterr().err


def fetch(home, endpoint):
    command = f"{sys.executable} -m src.encoders fetch model=open_clip model.id=hf-hub:lab/encoder"
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    options = {"capture_output": True, "text": True, "check": False, "timeout": 500}
    return subprocess.run(command.split(), cwd=CHECKOUT, env=environment, **options)


@pytest.mark.thorough
def test_a_second_fetch_sends_no_requests(tmp_path):
    files = open_clip_files("ViT-B-16-SigLIP2", tmp_path)
    config = files["open_clip_config.json"]
    files["open_clip_config.json"] = config.replace(b"timm/ViT-B-16-SigLIP2", b"lab/encoder")
    headers = {"X-Repo-Commit": COMMIT, "X-Error-Code": "EntryNotFound"}
    with Publisher(files, headers=headers) as hub:
        done = fetch(tmp_path / "home", hub.address)
        assert done.returncode == 0, done.stderr
        digest = hashlib.sha256(files["open_clip_model.safetensors"]).hexdigest()
        assert f"its files are cached, revision {COMMIT}, SHA-256 {digest}" in done.stdout
        first_requests = hub.requests
        assert fetch(tmp_path / "home", hub.address).stdout == done.stdout
        assert hub.requests == first_requests
        del files["open_clip_model.safetensors"]
        done = fetch(tmp_path / "another", hub.address)
    assert done.returncode == 1
    assert "the repository has none of open_clip_model.safetensors" in done.stderr


PARSER = OverridesParser.create()
# Fields that decide which files are fetched.
IDENTITY = ("id", "revision", "sha256", "weights")


def check_named(message, model):
    """Check that the command in a message fetches the files of a model."""
    command = message.partition("python -m src.encoders fetch ")[2]
    assert command, message
    named = entry._compose_published(shlex.split(command))
    assert type(named) is type(model)
    for name in IDENTITY:
        assert getattr(named, name) == getattr(model, name)


@pytest.mark.parametrize(
    "model",
    [
        configs.OpenClipConfig(id="ViT-B-32-quickgelu/openai", revision="a6f597a3", sha256="0" * 64),
        configs.OpenClipConfig(id="ViT-B-32-quickgelu/openai", revision="12e4567"),
        configs.OpenClipConfig(id="hf-hub:lab/encoder"),
        configs.OpenClipConfig(id="hf-hub:lab/encoder", revision="null", weights="random"),
        configs.OpenClipConfig(id="ViT-B-16-SigLIP2/webli", weights="random"),  # lacks its tokeniser
        configs.Blip2Config(id=profiles.BLIP2, revision="520bf73f"),
        configs.Blip2Config(id="Salesforce/blip2-itm-vit-g-coco", weights="random"),
        configs.HfEncoderConfig(id="google/siglip2-base-patch16-224", revision="75de2d55"),
        configs.SentenceTransformersConfig(id="lab/encoder", revision="75de2d55", pooling="lasttoken"),
    ],
)
def test_the_command_names_the_missing_model(cache, model):
    with pytest.raises(InputError) as raised:
        encoders.open_published(model, "cpu").identify_weights()
    check_named(str(raised.value), model)
    assert str(cache) in str(raised.value)


def test_a_folder_whose_text_tower_is_on_the_hub_is_fetched_by_its_name(cache, tmp_path):
    text = {"hf_model_name": "lab/text", "hf_tokenizer_name": "lab/words"}
    described = SMALL["ViT-B-32-quickgelu"] | {"text_cfg": text}
    config = json.dumps({"model_cfg": described, "preprocess_cfg": {}}).encode()
    folder = write_folder({"open_clip_config.json": config} | tokenizer_files(), tmp_path / "it's, mine")
    model = configs.OpenClipConfig(id=str(folder))
    with pytest.raises(InputError, match="lab/text: config.json not in the cache") as raised:
        encoders.open_published(model, "cpu")
    check_named(str(raised.value), model)


TEXTS = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=20).filter(
    lambda text: "${" not in text  # OmegaConf would resolve it
)


@given(id=TEXTS, revision=TEXTS, kind=st.sampled_from(configs.PretrainedConfig.__subclasses__()))
def test_the_command_keeps_any_name(id, revision, kind):
    command = pretrained.format_fetch_command(kind(id=id, revision=revision))
    overrides = PARSER.parse_overrides(shlex.split(command)[4:])
    values = {override.key_or_group: override.value() for override in overrides}
    assert values["model"] == kind.family
    assert values.get("model.id", "") == id
    assert values.get("model.revision", "") == revision


def model_of(*overrides):
    return OmegaConf.to_object(configs.compose([*overrides])[0].model)


@pytest.mark.parametrize(
    ("model", "parameters", "accuracy"),
    # Top-1 in the papers: CLIP B/32 63.2, L/14 75.5; OpenCLIP H/14 78.0.
    [("clip_b32", 151.28, 0.632), ("clip_l14", 427.62, 0.755), ("openclip_h14", 986.11, 0.780)],
)
def test_a_published_model_s_facts_are_its_paper_s(model, parameters, accuracy):
    models = model_of(f"model={model}"), model_of(f"model={model}", "model.weights=random")
    profile, untrained = (family_of(each).facts(each) for each in models)
    assert profile["parameters_millions"] == parameters
    assert profile["zero_shot"] == pytest.approx(accuracy, abs=0.0015)
    assert profile["gflops_image"] > 4
    assert math.isnan(untrained["zero_shot"])
    assert untrained["parameters_millions"] == parameters


# Pretraining set -> number of the 90 weights that are trained on it, counted by hand.
CAPITANI = {
    "openai": 12, "yfcc15m": 4, "cc12m": 2, "laion400m": 12, "laion2b": 21, "laion5b": 2,
    "laion_aesthetic": 3,
    "merged2b": 4, "laion2b+mscoco": 2, "datacomp_xl": 4, **{f"datacomp_{size}": 1 for size in "lms"},
    **{f"commonpool_xl{kind}": 1 for kind in ("", "_clip", "_laion")},
    **{f"commonpool_{s}_{kind}": 1 for s in "lms" for kind in ("basic", "clip", "image", "laion", "text")},
    **{f"commonpool_{size}": 1 for size in "lms"},
}  # fmt: skip


def test_training_data_are_declared_for_capitani_s_models_and_all_that_can_be_loaded():
    with catalogue.CAPITANI.open(encoding="utf-8", newline="") as file:
        rows = [(row["architecture"], row["weights"]) for row in csv.DictReader(file)]
    names = {model: row["pretraining"] for model, row in read_rows_by_model(PRETRAINING).items()}
    counts = Counter(names[f"{catalogue.find_trained_architecture(*row)}/{row[1]}"] for row in rows)
    assert counts == CAPITANI
    assert counts.total() == 90
    ids = {OmegaConf.load(path).get("id") for path in (CHECKOUT / "conf/model").glob("*.yaml")}
    assert set(names) == {*catalogue.list_ids(), *(ids - {None, "???"})}
    assert len({*read_rows_by_model(ZERO_SHOT)} & set(names)) == 113
    assert all(name == name.strip() != "" for name in names.values())


# Models of open_clip whose data or filter nobody declared: docs/models.md lists them.
UNDECLARED = {
    *(
        f"nllb-clip-{size}{kind}"
        for size in ("base", "large")
        for kind in ("/v1", "-siglip/v1", "-siglip/mrl")
    ),
    *(f"PE-Core-{size}/meta" for size in ("T-16-384", "S-16-384", "B-16", "L-14-336", "bigG-14-448")),
    *("EVA02-B-16/merged2b_s8b_b131k", "EVA02-L-14/merged2b_s4b_b131k", "EVA02-L-14-336/merged2b_s6b_b61k"),
    "EVA01-g-14-plus/merged2b_s11b_b114k",
    *("ViT-B-16-SigLIP-i18n-256/webli", "ViT-SO400M-16-SigLIP-i18n-256/webli"),
    "ViT-H-14/metaclip_altogether",
}


def test_data_and_filter_are_declared_for_four_fifths_of_open_clip_s_models():
    ids = {f"{catalogue.find_trained_architecture(*pair)}/{pair[1]}" for pair in open_clip.list_pretrained()}
    facts = {id: catalogue.declared_facts(configs.OpenClipConfig(id=id)) for id in ids}
    undeclared = {
        id for id, cells in facts.items() if cells["pretraining"] == "unknown" or not cells["filter"]
    }
    assert undeclared == UNDECLARED
    assert len(undeclared) <= len(ids) / 5
    text = (CHECKOUT / "docs" / "models.md").read_text("utf-8")
    assert f"{len(undeclared)} of {len(ids)}" in text


def test_numbers_of_pairs_are_those_of_the_tags():
    for id, row in read_rows_by_model(PRETRAINING).items():
        tag = re.search(r"_s(\d+)([bm])_b\d+k", id)
        if tag:
            millions = float(tag[1]) * {"b": 1000, "m": 1}[tag[2]]
            exact = {1000: 1280, 13: 12.8, 13000: 12800} if re.search("datacomp|commonpool", id) else {}
            assert float(row["pairs_seen"]) == exact.get(millions, millions), id
    assert {*read_rows_by_model(catalogue.TRAINING_SETS)} <= {
        row["pretraining"] for row in read_rows_by_model(PRETRAINING).values()
    }


def test_an_id_too_long_for_a_file_is_no_folder():
    config = configs.HfEncoderConfig(id="x" * 300)
    assert pretrained.choose_default_name(config, "hf") == config.id
    assert not pretrained.locate_source(config, "model", "", "").is_folder
    assert catalogue.pretraining_of(config) == "unknown"


def test_what_is_not_in_the_name_of_weights_has_a_source():
    for id, row in read_rows_by_model(PRETRAINING).items():
        stated = [row[name] for name in ("filter", "license", "languages", "released")]
        assert row["source"].startswith("https://") or not any(stated), id
        assert row["source"] or not row["pairs_seen"] or re.search(r"_s\d+[bm]|dfn|DFN|datacomp", id), id
    for name, row in read_rows_by_model(catalogue.TRAINING_SETS).items():
        assert row["source"].startswith("https://"), name


def test_the_list_shows_training_terms_pins_and_verification(cache, monkeypatch, tmp_path, capsys):
    sha256 = model_of("model=clip_b32").sha256
    (tmp_path / "outcome.json").write_text(json.dumps({"status": "verified", "sha256": sha256}))
    monkeypatch.setattr(entry, "_locate_verifications", lambda _: tmp_path)
    assert entry.main(["list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    columns = ["family", "pretraining", "filter", "pairs_seen", "public", "license", "languages", "released"]
    assert {*columns, "width", "parameters_millions", "pinned", "weights", "verified"} <= {*head.split()}
    rows = {line.split()[0]: line for line in lines}
    assert re.search(
        r" open_clip .* balanced over queries +no .* yes +to fetch +verified$", rows["model=clip_b32"]
    )
    assert re.search(r" en +2022 +yes +to fetch +no figures$", rows["model=openclip_h14"])
    assert re.search(r" multilingual +2025 +no +to fetch +no$", rows["model=metaclip2_h14"])
    assert re.match(r"\S+ sentence_transformers +2127.53 +2048 ", rows["model=qwen3_vl_embedding_2b"])
    assert "unknown" not in rows["model=nllb_clip_base"].partition(" 512 ")[0]


def test_the_size_of_a_model_with_files_here_is_read_from_them(cache, tmp_path):
    folder = write_folder(dual_files("clip", tmp_path / "made"), tmp_path / "own")
    size = entry._find_size(configs.HfEncoderConfig(id=str(folder)))
    assert size["width"] == "16"
    assert float(size["parameters_millions"]) > 0
    assert not entry._find_size(configs.HfEncoderConfig(id="lab/encoder"))["width"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["model=toy_s"], "the dataset's captions"),
        (["model=toy_s", "model.steps=0"], "none"),
        (["model=blip2"], "coco+vg+cc3m+cc12m+sbu+laion115m"),
        (["model=precomputed", "model.path=x"], "unknown"),
        (["model=metaclip2_h14"], "metaclip2_worldwide"),
        (["model=hf", "model.id=lab/encoder"], "unknown"),
        (["model=open_clip", "model.id=hf-hub:laion/CLIP-ViT-B-32-laion2B-s34B-b79K"], "unknown"),
        # An undeclared tag and another BLIP-2 have unknown data; a declared tag names its data.
        (["model=open_clip", "model.id=ViT-B-32/laion9b_s1b_b1k"], "unknown"),
        (["model=blip2", "model.id=Salesforce/blip2-itm-vit-g-coco"], "unknown"),
        (["model=clip_b32", "model.id=ViT-B-32/laion2b_s34b_b79k"], "laion2b"),
        # Stated by the user.
        (["model=blip2", "model.id=lab/blip2", "model.pretraining=coco"], "coco"),
        (["model=clip_b32", "model.pretraining=wit", "model.weights=random"], "none"),
    ],
)
def test_pretraining_is_declared_or_unknown(overrides, expected):
    model = model_of(*overrides)
    assert family_of(model).pretraining(model) == expected


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["model=clip_l14"], "ViT-L-14, openai"),
        (["model=open_clip", "model.id=ViT-L-14-336-quickgelu/openai"], "ViT-L-14, openai"),
        (["model=open_clip", "model.id=ViT-B-16-SigLIP2-384/webli"], "ViT-B-16-SigLIP2, webli"),
        (["model=open_clip", "model.id=convnext_base_w_320/laion400m"], "convnext_base_w, unknown"),
        (["model=open_clip", "model.id=hf-hub:somebody/something"], "hf-hub:somebody/something, unknown"),
        (["model=siglip2_so400m"], "siglip2_so400m, webli"),
        (["model=hf", "model.id=lab/encoder"], "lab/encoder, unknown"),
        (["model=toy_s", "model.seed=3"], "toy_s, the dataset's captions"),
        (
            ["model=toy_s", "model.width=32", "model.seed=3", "demo.bias=1"],
            "toy_s+width=32, the dataset's captions",
        ),
        (["model=precomputed", "model.path=lab"], "lab, unknown"),
    ],
)
def test_models_of_an_architecture_and_training_data_are_a_family(job, overrides, expected):
    assert encoders.name_family(job(*overrides).cfg.model) == expected


def test_stated_training_data_are_in_the_key_of_a_run_only_if_stated(job):
    silent, stated = job("model=clip_b32"), job("model=clip_b32", "model.pretraining=wit")
    assert "pretraining" not in silent.resolved["model"]
    assert stated.model == silent.model == "clip_b32"
    # The run is computed again, so that its tags have the statement.
    assert stated.config_hash != silent.config_hash
