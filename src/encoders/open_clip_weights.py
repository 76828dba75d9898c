"""Open pretrained encoders of open_clip from the hub, its cache, or a folder."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from src import configs
from src.encoders import catalogue, hub, pretrained
from src.encoders.protocol import Encoder, EncoderFamily, half_precision_versions
from src.errors import InputError, brief
from src.storage.versions import declared_versions, library_versions

CONFIG = "open_clip_config.json"
WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
# Alternative main files of a tokenizer, and its optional files.
TOKENIZER = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "vocab.txt")
TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_OPTIONAL = (TOKENIZER_CONFIG, "special_tokens_map.json", "added_tokens.json", "config.json")
HUB = "hf-hub:"
# Allowed options of tokenizers, as in open_clip's own configs. open_clip itself would pass on any option.
TOKENIZER_KEYS = {"clean", "strip_sep_token"}
LIBRARIES = (
    *("torch", "torchvision", "pillow", "open_clip_torch", "timm"),
    *("transformers", "tokenizers", "ftfy", "regex"),
)
Settings = dict[str, Any]


@dataclass(frozen=True)
class PublishedFiles:
    """Configs of an encoder in open_clip's format, and the sources of its files."""

    architecture: Settings  # open_clip's `model_cfg`
    preprocessing: Settings  # open_clip's `preprocess_cfg`
    weights: hub.Source
    weights_names: tuple[str, ...] = WEIGHTS  # alternative names of the weights, in order of preference
    tokenizer: hub.Source | None = None  # None: CLIP's tokenizer, which is included in open_clip
    text_config: hub.Source | None = None  # config of a text tower of transformers


def open_encoder(config: configs.OpenClipConfig, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights."""
    return _open(config, accelerator, find_files(config))


def _open(
    config: configs.OpenClipConfig, accelerator: str, published: PublishedFiles, language: str = ""
) -> Encoder:
    """Open an encoder; `language`: FLORES code that its tokenizer is told; empty: the tokenizer's default."""
    tokenizer = _locate_tokenizer(published)
    text_config = _locate_text_config(published)
    identity = {
        "architecture": published.architecture,
        "preprocessing": published.preprocessing,
        "files": {
            f"{kind}/{name}": hub.hash_files([path])
            for kind, paths in (("tokenizer", tokenizer), ("text", text_config))
            for name, path in paths.items()
        },
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared_versions("encoders.open_clip") | half_precision_versions(config.precision),
        "versions": library_versions(*LIBRARIES),
    }
    return Encoder(
        identity,
        lambda: pretrained.identify_weights(config, lambda: [_locate_checkpoint(published)]),
        lambda: load(config, published, language),
        partial(_find_unread, config, published, language),
        {"language": language} if language else {},
        partial(_open, config, accelerator, published) if _needs_language(tokenizer) else None,
    )


def find_files(config: configs.OpenClipConfig) -> PublishedFiles:
    """Find the configs and files of `model.id`; raise `InputError` if no such model exists."""
    if not config.id.strip():
        raise InputError("model.id is empty. Set it to architecture/weights, hf-hub:owner/name, or a folder.")
    remedy = f"Fetch it with access to the network: {pretrained.format_fetch_command(config)}"
    if config.id.startswith(HUB):
        source = hub.Source(config.id.removeprefix(HUB), config.revision or None, remedy=remedy)
        return _read_config(source, remedy)
    if hub.is_folder(config.id):
        return _read_config(pretrained.locate_source(config, "model", "model of open_clip", remedy), remedy)
    return _look_up(config, remedy)


def load(config: configs.OpenClipConfig, published: PublishedFiles, language: str = "") -> Any:
    """Load the encoder; raise `InputError` if its files are truncated or inconsistent, or would run code."""
    import open_clip
    from open_clip.transform import PreprocessCfg, image_transform_v2

    from src.encoders.openclip import OpenClip

    untrained = config.weights == "random"
    with (
        pretrained.convert_load_errors(config.id),
        _link_model_folder(published, with_weights=not untrained) as folder,
    ):
        path, options = f"local-dir:{folder}", {"pretrained_text": False, "weights_only": True}
        options |= {"load_weights": not untrained, "require_pretrained": not untrained}
        model = pretrained.build_seeded(lambda: open_clip.create_model(path, **options))
        tokenizer = _load_tokenizer(folder, language)
        transform = image_transform_v2(PreprocessCfg(**model.visual.preprocess_cfg), is_train=False)
    return OpenClip(model, transform, tokenizer, str(config.name or config.id), config.precision).eval()


def _load_tokenizer(folder: Path, language: str) -> Any:
    """Load the tokenizer of a folder; raise `InputError` if it does not know the language."""
    import open_clip

    # Not open_clip's option `language`: transformers resets what it sets to `src_lang` before each call.
    options = {"src_lang": language} if language else {}
    tokenizer: Any = open_clip.get_tokenizer(f"local-dir:{folder}", **options)
    # Transformers takes the unknown token for a language that the tokenizer lacks.
    if language and language not in tokenizer.tokenizer.get_vocab():
        raise InputError(
            f"language.flores={language}: the model's tokenizer has no such language. Set language.flores to "
            "the code of FLORES-200, such as spa_Latn."
        )
    return tokenizer


def _find_unread(
    config: configs.OpenClipConfig, published: PublishedFiles, language: str, texts: Sequence[str]
) -> dict[int, str]:
    from src.encoders.openclip import find_unread_texts

    with (
        pretrained.convert_load_errors(config.id),
        _link_model_folder(published, with_weights=False) as folder,
    ):
        return find_unread_texts(_load_tokenizer(folder, language), texts)


def _needs_language(tokenizer: Mapping[str, Path]) -> bool:
    """Return whether a tokenizer, by its files, puts the language of a text before its tokens: NLLB's."""
    path = tokenizer.get(TOKENIZER_CONFIG)
    with pretrained.convert_load_errors(str(path)):
        settings = json.loads(path.read_bytes()) if path else {}
        return str(settings.get("tokenizer_class")).startswith("NllbTokenizer")


def _look_up(config: configs.OpenClipConfig, remedy: str) -> PublishedFiles:
    """Look up architecture/weights in open_clip's list of models."""
    import open_clip

    name, _, tag = config.id.partition("/")
    architecture = open_clip.get_model_config(name) if name in open_clip.list_models() else None
    known_ids = [f"{listed}/{weights}" for listed, weights in open_clip.list_pretrained()]
    entry = open_clip.get_pretrained_cfg(name, tag) if architecture else {}
    if not architecture or not entry:
        near_ids = difflib.get_close_matches(config.id, known_ids, n=3, cutoff=0.5)
        raise InputError(
            f"model.id={config.id}: open_clip has no such architecture and weights."
            f"{' Did you mean ' + ' or '.join(near_ids) + '?' if near_ids else ''} Set it to "
            f"architecture/weights (python -m src.encoders list --all), {HUB}owner/name, or an existing "
            "folder."
        )
    # The opposite mismatch is not an error: roberta-ViT-B-32 has QuickGELU, but the entry of its weights does
    # not mention it.
    if entry.get("quick_gelu") and not architecture.get("quick_gelu"):
        quick_name = f"{name}-quickgelu"
        remedy = f"model.id={quick_name}/{tag}" if open_clip.get_model_config(quick_name) else "another model"
        raise InputError(
            f"model.id={config.id}: these weights were trained with QuickGELU, but the architecture "
            f"{name} has the plain GELU and would silently compute other vectors. Choose {remedy}."
        )
    owner, _, file = str(entry["hf_hub"]).rpartition("/")
    names = (str(Path(file).with_suffix(".safetensors")), file) if file else WEIGHTS
    keys = ("mean", "std", "interpolation", "resize_mode")
    source = hub.Source(owner, config.revision or None, remedy=remedy)
    return _locate(architecture, {key: entry[key] for key in keys if key in entry}, source, names, remedy)


def _read_config(source: hub.Source, remedy: str) -> PublishedFiles:
    """Read open_clip's config in a repository of the hub or a folder, and locate the files that it names."""
    (path,) = hub.locate_files(source, [(CONFIG,)]).values()
    try:
        content = json.loads(path.read_text("utf-8"))
        architecture = content["model_cfg"]
        assert all(isinstance(architecture[tower], dict) for tower in ("text_cfg", "vision_cfg"))
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise InputError(
            f"{path}: not the config of an open_clip model ({brief(repr(error))}). {source.remedy}"
        ) from None
    with pretrained.convert_load_errors(source.name):  # nested values may have any type
        return _locate(architecture, content.get("preprocess_cfg", {}), source, WEIGHTS, remedy)


def _locate(
    architecture: Settings, preprocessing: Settings, source: hub.Source, names: tuple[str, ...], remedy: str
) -> PublishedFiles:
    """Locate the tokenizer and the text tower's config that a config names.

    `names`: alternative names of the weights; `remedy`: remedy for files that are missing on the hub.
    """
    text, vision = architecture["text_cfg"], architecture["vision_cfg"]
    unknown_keys = sorted(set(text.get("tokenizer_kwargs") or {}) - TOKENIZER_KEYS)
    tower = str(vision.get("timm_model_name") or "")
    if unknown_keys or ":" in tower:  # libraries would fetch code or files from elsewhere
        option = f"tokenizer_kwargs {', '.join(unknown_keys)}" if unknown_keys else f"timm_model_name {tower}"
        raise InputError(
            f"{source.name}: {CONFIG} sets {option}, which could fetch files. Choose another model."
        )
    tokenizer_name, text_name = text.get("hf_tokenizer_name"), text.get("hf_model_name")
    # As in open_clip, a tokenizer is in the folder, or in the repository with its name.
    is_included = source.is_folder or tokenizer_name == source.name
    tokenizer_source = source if is_included else hub.Source(tokenizer_name, remedy=remedy)
    tokenizer = tokenizer_source if tokenizer_name else None
    text_config = hub.Source(text_name, remedy=remedy) if text_name else None
    return PublishedFiles(architecture, preprocessing, source, names, tokenizer, text_config)


def _locate_checkpoint(published: PublishedFiles) -> Path:
    return next(iter(hub.locate_files(published.weights, [published.weights_names]).values()))


def _locate_tokenizer(published: PublishedFiles) -> dict[str, Path]:
    return (
        hub.locate_files(published.tokenizer, [TOKENIZER], TOKENIZER_OPTIONAL) if published.tokenizer else {}
    )


def _locate_text_config(published: PublishedFiles) -> dict[str, Path]:
    if published.text_config is None:
        return {}
    paths = hub.locate_files(published.text_config, [("config.json",)])
    with pretrained.convert_load_errors(published.text_config.name):
        content = json.loads(paths["config.json"].read_bytes())
    if '"auto_map"' in json.dumps(content):  # re-encoded, as the file may escape it
        raise InputError(f"{published.text_config.name}: its config names custom code. Choose another model.")
    return paths


@contextmanager
def _link_model_folder(published: PublishedFiles, with_weights: bool) -> Iterator[Path]:
    """Make a temporary folder for open_clip, with links to all files that it loads."""
    architecture, links = deepcopy(published.architecture), _locate_tokenizer(published)
    text = architecture["text_cfg"]
    if links:
        text.setdefault("tokenizer_kwargs", {})["trust_remote_code"] = False
    if with_weights:
        path = _locate_checkpoint(published)
        # open_clip derives the file format from the suffix.
        links[WEIGHTS[0] if path.suffix == ".safetensors" else WEIGHTS[1]] = path
    links |= {f"text/{name}": path for name, path in _locate_text_config(published).items()}
    with pretrained.link_files(links) as folder:
        if published.text_config:
            text["hf_model_name"] = str(folder / "text")
        content = {"model_cfg": architecture, "preprocess_cfg": published.preprocessing}
        (folder / CONFIG).write_text(json.dumps(content))
        yield folder


FAMILY = EncoderFamily(
    name="open_clip",
    config=configs.OpenClipConfig,
    encoder=open_encoder,
    fetch_files=lambda config: [_locate_checkpoint(find_files(config))],
    pretraining=catalogue.pretraining_of,
    declared=catalogue.declared_facts,
    facts=catalogue.facts_of,
    architecture=catalogue.architecture_of,
    default_name=pretrained.choose_default_name,
)
