"""Encoders of open_clip with the weights that others trained: from the hub, its cache, or a folder."""

from __future__ import annotations

import difflib
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src import configs
from src.encoders import facts, hub, pretrained
from src.encoders.protocol import Encoder, EncoderFamily
from src.encoders.remedies import fetch_command
from src.errors import InputError, brief
from src.storage.versions import declared, versions

CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
TOKENIZER = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt")
TOKENIZER_TOO = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
HUB = "hf-hub:"
# What open_clip's own configs ask of a tokeniser of transformers; it would pass on anything.
TOKENIZER_KEYS = {"clean", "strip_sep_token"}
DECISIVE = (
    "torch",
    "torchvision",
    "pillow",
    "open_clip_torch",
    "timm",
    "transformers",
    "tokenizers",
    "ftfy",
    "regex",
)


@dataclass(frozen=True)
class Published:
    """An encoder's files, in the form in which open_clip's own folders have them.

    Attributes:
        architecture: open_clip's `model_cfg`.
        preprocessing: open_clip's `preprocess_cfg`.
        weights: where they are, and their names, best first.
        tokenizer: where it is; None is CLIP's own, which comes with open_clip.
        text_config: where the config of a text tower of transformers is.
    """

    architecture: dict[str, Any]
    preprocessing: dict[str, Any]
    weights: hub.Place
    names: tuple[str, ...] = WEIGHTS
    tokenizer: hub.Place | None = None
    text_config: hub.Place | None = None


def encoder(config: configs.OpenClipConfig, accelerator: str) -> Encoder:
    """The encoder that a config names; its files are there, its weights not yet read.

    Raises:
        InputError: there is no such encoder, or its files are neither there nor to be had.
        NotStored: within `artifacts.dry`, where they would have to be fetched.
    """
    published = find(config)
    tokenizer = _tokenizer(published)
    text_config = _text_config(published)
    identity = {
        "architecture": published.architecture,
        "preprocessing": published.preprocessing,
        "files": {
            f"{kind}/{name}": hub.sha256([path])
            for kind, found in (("tokenizer", tokenizer), ("text", text_config))
            for name, path in found.items()
        },
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared("encoders.open_clip"),
        "versions": versions(*DECISIVE),
    }
    return Encoder(
        identity,
        lambda: pretrained.weights(config, lambda: [_checkpoint(published)]),
        lambda: load(config, published),
    )


def find(config: configs.OpenClipConfig) -> Published:
    """Which files `model.id` stands for.

    Raises:
        InputError: it stands for none.
    """
    if not config.id.strip():
        raise InputError("model.id is empty. Say architecture/weights, hf-hub:owner/name, or a folder.")
    remedy = f"Fetch it where there is a network: {fetch_command(config)}"
    if config.id.startswith(HUB):
        place = hub.Place(config.id.removeprefix(HUB), config.revision or None, remedy=remedy)
        return _described(place, remedy)
    if Path(config.id).is_dir():
        pretrained.unpinned(config, "model")
        place = hub.Place(config.id, folder=True, remedy="Put the files of an open_clip model there.")
        return _described(place, remedy)
    return _listed(config, remedy)


def load(config: configs.OpenClipConfig, published: Published) -> Any:
    """The encoder in memory.

    Raises:
        InputError: the weights do not fit the architecture, are cut, or would run code.
    """
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    from src.encoders.openclip import OpenClip

    random = config.weights == "random"
    with pretrained.strict(config.id), _folder(published, with_weights=not random) as folder:
        model = pretrained.seeded(
            lambda: open_clip.create_model(
                f"local-dir:{folder}",
                load_weights=not random,
                require_pretrained=not random,
                pretrained_text=False,
                weights_only=True,
            )
        )
        tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
        transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return OpenClip(model, transform, tokenizer, str(config.name or config.id), config.precision).eval()


def _listed(config: configs.OpenClipConfig, remedy: str) -> Published:
    import open_clip

    name, _, tag = config.id.partition("/")
    architecture = open_clip.get_model_config(name) if name in open_clip.list_models() else None
    known = [f"{found}/{weights}" for found, weights in open_clip.list_pretrained()]
    entry = open_clip.get_pretrained_cfg(name, tag) if architecture else {}
    if not architecture or not entry:
        near = difflib.get_close_matches(config.id, known, n=3, cutoff=0.5)
        raise InputError(
            f"model.id={config.id}: open_clip has no such architecture and weights."
            f"{' Did you mean ' + ' or '.join(near) + '?' if near else ''} It has to be architecture/weights "
            f"(python -m src.encoders list --all), {HUB}owner/name, or an existing folder."
        )
    # The other way round the list's silence proves nothing: roberta-ViT-B-32 says it in the architecture.
    if entry.get("quick_gelu") and not architecture.get("quick_gelu"):
        other = f"{name}-quickgelu"
        say = f"Say model.id={other}/{tag}." if open_clip.get_model_config(other) else "Take another."
        raise InputError(
            f"model.id={config.id}: these weights were trained with QuickGELU, the architecture "
            f"{name} has the plain GELU and would give other vectors without a word. {say}"
        )
    owner, _, file = str(entry["hf_hub"]).rpartition("/")
    names = (str(Path(file).with_suffix(".safetensors")), file) if file else WEIGHTS
    return _placed(
        architecture,
        {key: entry[key] for key in ("mean", "std", "interpolation", "resize_mode") if key in entry},
        hub.Place(owner, config.revision or None, remedy=remedy),
        names,
        remedy,
    )


def _described(place: hub.Place, remedy: str) -> Published:
    (path,) = hub.files(place, [(CONFIG,)]).values()
    try:
        described = json.loads(path.read_text("utf-8"))
        architecture = described["model_cfg"]
        text, vision = architecture["text_cfg"], architecture["vision_cfg"]
        assert isinstance(text, dict)
        assert isinstance(vision, dict)
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise InputError(
            f"{path}: not the config of an open_clip model ({brief(repr(error))}). {place.remedy}"
        ) from None
    with pretrained.strict(place.name):  # what lies deeper is of any type
        return _placed(architecture, described.get("preprocess_cfg", {}), place, WEIGHTS, remedy)


def _placed(
    architecture: dict[str, Any],
    preprocessing: dict[str, Any],
    place: hub.Place,
    names: tuple[str, ...],
    remedy: str,
) -> Published:
    """Locate what a config names beside its weights; `remedy` is of files on the hub."""
    text = architecture["text_cfg"]
    _harmless(architecture, place.name)
    of_tokenizer, of_text = text.get("hf_tokenizer_name"), text.get("hf_model_name")
    tokenizer = None
    if of_tokenizer:
        # As open_clip does: a folder brings its own, and so does the repository that it is.
        own = place.folder or of_tokenizer == place.name
        tokenizer = place if own else hub.Place(of_tokenizer, remedy=remedy)
    text_config = hub.Place(of_text, remedy=remedy) if of_text else None
    return Published(architecture, preprocessing, place, names, tokenizer, text_config)


def _harmless(architecture: dict[str, Any], name: str) -> None:
    """Refuse a config that would have code or files fetched from elsewhere when it is loaded."""
    text, vision = architecture["text_cfg"], architecture["vision_cfg"]
    odd = sorted(set(text.get("tokenizer_kwargs") or {}) - TOKENIZER_KEYS)
    tower = str(vision.get("timm_model_name") or "")
    if odd or ":" in tower:
        what = f"tokenizer_kwargs {', '.join(odd)}" if odd else f"timm_model_name {tower}"
        raise InputError(f"{name}: {CONFIG} asks for {what}, which no model of open_clip needs. Refused.")


def _checkpoint(published: Published) -> Path:
    return next(iter(hub.files(published.weights, [published.names]).values()))


def _tokenizer(published: Published) -> dict[str, Path]:
    if published.tokenizer is None:
        return {}
    return hub.files(published.tokenizer, [TOKENIZER], TOKENIZER_TOO)


def _text_config(published: Published) -> dict[str, Path]:
    if published.text_config is None:
        return {}
    found = hub.files(published.text_config, [("config.json",)])
    with pretrained.strict(published.text_config.name):
        described = json.loads(found["config.json"].read_bytes())
    if '"auto_map"' in json.dumps(described):  # however it is escaped
        raise InputError(f"{published.text_config.name}: its config names code of its own. Refused.")
    return found


@contextmanager
def _folder(published: Published, with_weights: bool) -> Iterator[Path]:
    """A folder as open_clip reads them: everything is loaded from there, nothing from elsewhere."""
    architecture = deepcopy(published.architecture)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        links = _tokenizer(published)
        if links:
            architecture["text_cfg"].setdefault("tokenizer_kwargs", {})["trust_remote_code"] = False
        if with_weights:
            path = _checkpoint(published)
            # Under the suffix by which open_clip knows how to read it.
            links[WEIGHTS[0] if path.suffix == ".safetensors" else WEIGHTS[1]] = path
        for name, path in _text_config(published).items():
            (folder / "text").mkdir()
            (folder / "text" / name).symlink_to(path.absolute())
            architecture["text_cfg"]["hf_model_name"] = str(folder / "text")
        for name, path in links.items():
            (folder / name).symlink_to(path.absolute())
        described = {"model_cfg": architecture, "preprocess_cfg": published.preprocessing}
        (folder / CONFIG).write_text(json.dumps(described))
        yield folder


def _default_name(config: configs.OpenClipConfig, choice: str) -> str:
    if choice != "open_clip":
        return choice
    # The YAML says nothing of its own; a folder is called by its last part.
    return Path(config.id).resolve().name if Path(config.id).is_dir() else config.id


FAMILY = EncoderFamily(
    name="open_clip",
    config=configs.OpenClipConfig,
    encoder=encoder,
    files=lambda config: [_checkpoint(find(config))],
    pretraining=facts.pretraining,
    facts=facts.facts,
    default_name=_default_name,
)
