"""Open pretrained encoders of open_clip from the hub, its cache, or a folder."""

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
from src.errors import InputError, brief
from src.storage.versions import declared, versions

CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
# Alternative files of a tokenizer, and further files that it may have.
TOKENIZER = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt")
TOKENIZER_OPTIONAL = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
HUB = "hf-hub:"
# Options of tokenizers that open_clip's own configs set; open_clip would pass on any option.
TOKENIZER_KEYS = {"clean", "strip_sep_token"}
LIBRARIES = (
    *("torch", "torchvision", "pillow", "open_clip_torch", "timm"),
    *("transformers", "tokenizers", "ftfy", "regex"),
)


@dataclass(frozen=True)
class Published:
    """Files of an encoder, in the form of open_clip's folders."""

    architecture: dict[str, Any]  # open_clip's `model_cfg`
    preprocessing: dict[str, Any]  # open_clip's `preprocess_cfg`
    weights: hub.Place
    names: tuple[str, ...] = WEIGHTS  # alternative names of the weights, preferred first
    tokenizer: hub.Place | None = None  # None: CLIP's, which is included in open_clip
    text_config: hub.Place | None = None  # config of a text tower of transformers


def encoder(config: configs.OpenClipConfig, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights."""
    published = find(config)
    tokenizer = _tokenizer(published)
    text_config = _text_config(published)
    identity = {
        "architecture": published.architecture,
        "preprocessing": published.preprocessing,
        "files": {
            f"{kind}/{name}": hub.sha256([path])
            for kind, paths in (("tokenizer", tokenizer), ("text", text_config))
            for name, path in paths.items()
        },
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared("encoders.open_clip"),
        "versions": versions(*LIBRARIES),
    }
    return Encoder(
        identity,
        lambda: pretrained.weights(config, lambda: [_checkpoint(published)]),
        lambda: load(config, published),
    )


def find(config: configs.OpenClipConfig) -> Published:
    """Return the files that `model.id` refers to; raise `InputError` if it refers to no model."""
    if not config.id.strip():
        raise InputError("model.id is empty. Set it to architecture/weights, hf-hub:owner/name, or a folder.")
    remedy = f"Fetch it where there is a network: {pretrained.fetch_command(config)}"
    if config.id.startswith(HUB):
        place = hub.Place(config.id.removeprefix(HUB), config.revision or None, remedy=remedy)
        return _read_config(place, remedy)
    if Path(config.id).is_dir():
        pretrained.refuse_revision(config, "model")
        place = hub.Place(config.id, folder=True, remedy="Put the files of an open_clip model there.")
        return _read_config(place, remedy)
    return _look_up(config, remedy)


def load(config: configs.OpenClipConfig, published: Published) -> Any:
    """Load the encoder; raise `InputError` if the weights do not fit, are truncated, or would run code."""
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    from src.encoders.openclip import OpenClip

    random = config.weights == "random"
    with pretrained.strict(config.id), _folder(published, with_weights=not random) as folder:
        place, options = f"local-dir:{folder}", {"pretrained_text": False, "weights_only": True}
        options |= {"load_weights": not random, "require_pretrained": not random}
        model = pretrained.seeded(lambda: open_clip.create_model(place, **options))
        tokenizer = open_clip.get_tokenizer(place)
        transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return OpenClip(model, transform, tokenizer, str(config.name or config.id), config.precision).eval()


def _look_up(config: configs.OpenClipConfig, remedy: str) -> Published:
    import open_clip

    name, _, tag = config.id.partition("/")
    architecture = open_clip.get_model_config(name) if name in open_clip.list_models() else None
    known = [f"{listed}/{weights}" for listed, weights in open_clip.list_pretrained()]
    entry = open_clip.get_pretrained_cfg(name, tag) if architecture else {}
    if not architecture or not entry:
        near = difflib.get_close_matches(config.id, known, n=3, cutoff=0.5)
        raise InputError(
            f"model.id={config.id}: open_clip has no such architecture and weights."
            f"{' Did you mean ' + ' or '.join(near) + '?' if near else ''} Set it to architecture/weights "
            f"(python -m src.encoders list --all), {HUB}owner/name, or an existing folder."
        )
    # The converse is no error: roberta-ViT-B-32 has QuickGELU, which its weights' entry does not mention.
    if entry.get("quick_gelu") and not architecture.get("quick_gelu"):
        other = f"{name}-quickgelu"
        remedy = f"model.id={other}/{tag}" if open_clip.get_model_config(other) else "another model"
        raise InputError(
            f"model.id={config.id}: these weights were trained with QuickGELU, but the architecture "
            f"{name} has the plain GELU and would silently compute other vectors. Choose {remedy}."
        )
    owner, _, file = str(entry["hf_hub"]).rpartition("/")
    names = (str(Path(file).with_suffix(".safetensors")), file) if file else WEIGHTS
    keys = ("mean", "std", "interpolation", "resize_mode")
    place = hub.Place(owner, config.revision or None, remedy=remedy)
    return _locate(architecture, {key: entry[key] for key in keys if key in entry}, place, names, remedy)


def _read_config(place: hub.Place, remedy: str) -> Published:
    (path,) = hub.files(place, [(CONFIG,)]).values()
    try:
        content = json.loads(path.read_text("utf-8"))
        architecture = content["model_cfg"]
        assert all(isinstance(architecture[tower], dict) for tower in ("text_cfg", "vision_cfg"))
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise InputError(
            f"{path}: not the config of an open_clip model ({brief(repr(error))}). {place.remedy}"
        ) from None
    with pretrained.strict(place.name):  # nested values may have any type
        return _locate(architecture, content.get("preprocess_cfg", {}), place, WEIGHTS, remedy)


def _locate(
    architecture: dict[str, Any],
    preprocessing: dict[str, Any],
    place: hub.Place,
    names: tuple[str, ...],
    remedy: str,
) -> Published:
    """Locate the other files that a config names; `remedy` is for missing files on the hub."""
    text = architecture["text_cfg"]
    _reject_fetching(architecture, place.name)
    tokenizer_name, text_name = text.get("hf_tokenizer_name"), text.get("hf_model_name")
    # As in open_clip: a folder, or the repository of that name, contains the tokenizer.
    included = place.folder or tokenizer_name == place.name
    tokenizer_place = place if included else hub.Place(tokenizer_name, remedy=remedy)
    tokenizer = tokenizer_place if tokenizer_name else None
    text_config = hub.Place(text_name, remedy=remedy) if text_name else None
    return Published(architecture, preprocessing, place, names, tokenizer, text_config)


def _reject_fetching(architecture: dict[str, Any], name: str) -> None:
    """Reject a config that would fetch code or files from elsewhere when it is loaded."""
    text, vision = architecture["text_cfg"], architecture["vision_cfg"]
    odd = sorted(set(text.get("tokenizer_kwargs") or {}) - TOKENIZER_KEYS)
    tower = str(vision.get("timm_model_name") or "")
    if odd or ":" in tower:
        option = f"tokenizer_kwargs {', '.join(odd)}" if odd else f"timm_model_name {tower}"
        raise InputError(f"{name}: {CONFIG} sets {option}, which could fetch files. Choose another model.")


def _checkpoint(published: Published) -> Path:
    return next(iter(hub.files(published.weights, [published.names]).values()))


def _tokenizer(published: Published) -> dict[str, Path]:
    return hub.files(published.tokenizer, [TOKENIZER], TOKENIZER_OPTIONAL) if published.tokenizer else {}


def _text_config(published: Published) -> dict[str, Path]:
    if published.text_config is None:
        return {}
    paths = hub.files(published.text_config, [("config.json",)])
    with pretrained.strict(published.text_config.name):
        content = json.loads(paths["config.json"].read_bytes())
    if '"auto_map"' in json.dumps(content):  # re-encoded, as the file may escape it
        raise InputError(f"{published.text_config.name}: its config names custom code. Choose another model.")
    return paths


@contextmanager
def _folder(published: Published, with_weights: bool) -> Iterator[Path]:
    """Make a temporary folder for open_clip, with links to all files that it loads."""
    architecture = deepcopy(published.architecture)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        links = _tokenizer(published)
        if links:
            architecture["text_cfg"].setdefault("tokenizer_kwargs", {})["trust_remote_code"] = False
        if with_weights:
            path = _checkpoint(published)
            # open_clip derives the file format from the suffix.
            links[WEIGHTS[0] if path.suffix == ".safetensors" else WEIGHTS[1]] = path
        for name, path in _text_config(published).items():
            (folder / "text").mkdir()
            (folder / "text" / name).symlink_to(path.absolute())
            architecture["text_cfg"]["hf_model_name"] = str(folder / "text")
        for name, path in links.items():
            (folder / name).symlink_to(path.absolute())
        content = {"model_cfg": architecture, "preprocess_cfg": published.preprocessing}
        (folder / CONFIG).write_text(json.dumps(content))
        yield folder


def _default_name(config: configs.OpenClipConfig, choice: str) -> str:
    if choice != "open_clip":
        return choice
    # The YAML has no name for it; a folder is named by its last component.
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
