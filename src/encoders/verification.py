"""Compare an encoder with the scores that its publisher states, and store the outcome."""

import json
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from PIL import Image
from torch import Tensor

from src.configs import GoldenConfig
from src.encoders.protocol import Encoder
from src.errors import InputError
from src.stimuli import download, pictures
from src.storage.cache import file_hash, fingerprint

VERIFIED, FAILED, NOT_VERIFIED = "verified", "failed", "not verified"
SIZE_LIMITS = (1, 50_000_000)  # bytes of a picture


@dataclass(frozen=True)
class Comparison:
    """Measured and published scores of texts."""

    measured: Sequence[float]
    golden: GoldenConfig

    @property
    def differences(self) -> list[float]:
        """Return measured minus published scores."""
        return [ours - theirs for ours, theirs in zip(self.measured, self.golden.scores, strict=True)]

    @property
    def largest(self) -> float:
        """Return the largest absolute difference; infinite if a score is not a number."""
        return max(abs(value) if math.isfinite(value) else math.inf for value in self.differences)

    @property
    def agrees(self) -> bool:
        """Return whether all differences are within the tolerance."""
        return self.largest <= self.golden.tolerance


def check_golden(golden: GoldenConfig, name: str) -> GoldenConfig:
    """Return the published scores of a model; raise `InputError` if it has none, or they are inconsistent."""
    if not golden.picture:
        raise InputError(
            f"{name}: its YAML states no published scores (golden), so it cannot be verified. Add them from "
            "its publisher's page (docs/models.md), or verify another model (python -m src.encoders list)."
        )
    if not golden.texts or len(golden.texts) != len(golden.scores):
        raise InputError(
            f"{name}: model.golden: expected a score for each text, got {len(golden.texts)} texts and "
            f"{len(golden.scores)} scores. Correct its YAML."
        )
    return golden


def locate_picture(golden: GoldenConfig, folder: Path, file: str = "") -> tuple[Path, str]:
    """Return the path and the SHA-256 of the picture of published scores; fetch it if there is no `file`.

    Raises `InputError` if it is unavailable, or not the published picture.
    """
    name = Path(urlsplit(golden.picture).path).name
    path = Path(file) if file else folder / "pictures" / f"{fingerprint(golden.picture)[:8]}-{name}"
    if file and not path.is_file():
        raise InputError(f"picture={file}: no such file. Give the picture of {golden.picture}.")
    if not path.is_file():
        _fetch_picture(golden, path)
    digest = file_hash(path)
    if golden.sha256 and digest != golden.sha256.lower():
        remedy = f"Give that of {golden.picture}" if file else "Delete it, and run the same command again"
        raise InputError(f"{path}: expected a picture of SHA-256 {golden.sha256}, got {digest}. {remedy}.")
    return path, digest


def _fetch_picture(golden: GoldenConfig, path: Path) -> None:
    """Download the picture of published scores."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        download.download(golden.picture, path, SIZE_LIMITS, golden.sha256 or None, lambda **_: None)
    except OSError as error:
        raise InputError(
            f"{path.parent}: cannot be written ({error.strerror}). "
            "Set store.verifications to a writable folder."
        ) from None
    except InputError as error:
        raise InputError(f"{error} With the picture as a file: picture=FILE.") from None


def read_picture(path: Path) -> Image.Image:
    """Read a picture as upright 8-bit RGB; raise `InputError` if it is not a picture."""
    try:
        return pictures.read(path)
    except Exception as error:  # decoders raise exceptions of any type
        raise InputError(
            f"{path}: expected a picture, got what cannot be read ({error}). Give another picture=FILE."
        ) from None


def compare(network: Any, picture: Image.Image, golden: GoldenConfig) -> Comparison:
    """Compare the scores of a network with published ones."""
    return compare_tokens(network, picture, network.tokenize(golden.texts), golden)


@torch.inference_mode()
def compare_tokens(network: Any, picture: Image.Image, tokens: Tensor, golden: GoldenConfig) -> Comparison:
    """Compare the scores of a network with published ones, given the tokens of the texts."""
    images = network.encode_images(network.transform(picture)[None])[0]
    cosines = images @ network.encode_texts(tokens).T
    if cosines.dim() == 2:  # several vectors per picture
        cosines = cosines.amax(dim=0)
    return Comparison(_compute_scores(network, cosines, golden.kind).tolist(), golden)


def _compute_scores(network: Any, cosines: Tensor, kind: str) -> Tensor:
    """Compute scores from cosines, with the logit scale and bias of the checkpoint where they are needed."""
    if kind == "cosine":
        return cosines
    model = getattr(network, "model", None)
    scale, bias = getattr(model, "logit_scale", None), getattr(model, "logit_bias", None)
    if scale is None:
        raise InputError(
            f"golden.kind={kind}: {type(model).__name__} has no logit_scale. Only golden.kind=cosine can be "
            "verified."
        )
    logits: Tensor = cosines * scale.float().exp() + (0.0 if bias is None else bias.float())
    if kind == "softmax":
        return logits.softmax(dim=-1)
    return logits.sigmoid() if kind == "sigmoid" else logits


def store_outcome(folder: Path, encoder: Encoder, facts: Mapping[str, Any], comparison: Comparison) -> str:
    """Store the outcome of a comparison under the encoder's weights and identity; return its status."""
    status = VERIFIED if comparison.agrees else FAILED
    content = {"status": status, "sha256": encoder.identify_weights()["sha256"], **facts}
    content |= {"published": [*comparison.golden.scores], "measured": [*comparison.measured]}
    content |= {"tolerance": comparison.golden.tolerance, "source": comparison.golden.source}
    path = _outcome_path(folder, encoder)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InputError(
            f"{folder}: cannot be written ({error.strerror}). Set store.verifications to a writable folder."
        ) from None
    return status


def read_status(folder: Path, encoder: Encoder) -> str:
    """Return whether an encoder agreed with its published scores: verified, failed or not verified."""
    return str(_read_outcome(_outcome_path(folder, encoder)).get("status", NOT_VERIFIED))


def list_statuses(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of weights -> status, of all stored outcomes; failed if any outcome is."""
    statuses: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        content = _read_outcome(path)
        if content and statuses.get(content["sha256"]) != FAILED:
            statuses[content["sha256"]] = content["status"]
    return statuses


def _outcome_path(folder: Path, encoder: Encoder) -> Path:
    """Return the path of an outcome; its key has what determines the vectors, except the device."""
    identity = {name: value for name, value in encoder.identity.items() if name != "accelerator"}
    return folder / f"{fingerprint([identity, encoder.identify_weights()['sha256']])}.json"


def _read_outcome(path: Path) -> dict[str, str]:
    """Return a stored outcome; empty if it does not exist or is damaged."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where a folder cannot be read
            return {}
        content = json.loads(path.read_text("utf-8"))
        if content["status"] in (VERIFIED, FAILED) and isinstance(content["sha256"], str):
            return dict(content)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return {}
