"""Open encoders behind a server with OpenAI's `/v1/embeddings`: vLLM, infinity and others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import numpy as np
from httpx2 import Response
from openai import OpenAI
from PIL import Image

from src import configs
from src.api.client import choose_headers, format_address, make_client, send
from src.api.failures import AmbiguousFailure, Unanswered, decode, is_transient
from src.encoders.catalogue import UNKNOWN
from src.encoders.embedding_requests import Embedding, Item, encode_picture, request_embedding
from src.encoders.protocol import Encoder, EncoderFamily
from src.encoders.served_network import ServedNetwork, is_vector, pack_vector, unpack_vector
from src.errors import InputError, brief, redact
from src.storage.answer_log import AnswerLog
from src.storage.cache import fingerprint
from src.storage.versions import declared_versions, library_versions

log = logging.getLogger(__name__)

# Settings that determine vectors: those of requests, and `revision`, the user's label of the weights.
SENT = ("id", "dialect", "prompt", "picture_text", "padding", "max_edge", "revision")
# Fields of a model in the server's list of models that may affect vectors; others change with each start.
REPORTED = ("root", "revision", "backend", "dtype", "embedding_dtype", "max_model_len")
# Cosine of two vectors of the same probe below which the weights count as changed. Half precision and the
# composition of a server's batches move it by about 1e-3.
MIN_COSINE = 0.99
PROBE_TEXT, PROBE_EDGE = "a photo of a cat", 64


@dataclass(frozen=True)
class Report:
    """Report of a server on its model, with its vectors of two probes: a text and a picture."""

    fields: dict[str, str]  # `model`, `width`, `version` and those of `REPORTED` that the server states
    probes: tuple[Item, Item]
    vectors: tuple[np.ndarray, np.ndarray]


# Config -> report, or the error of a server that gave none, so that it is asked only once per process.
_reports: dict[str, Report | InputError] = {}


def open_encoder(config: configs.ServedConfig, accelerator: str) -> Encoder:  # noqa: ARG001 - the server's
    """Open the encoder of a config: ask its server for two vectors and for what it reports of itself.

    Raises `InputError` if the settings contradict each other, or the server does not embed both texts and
    pictures.
    """
    _check(config)
    report = _fetch_report(config)
    identity = {
        "architecture": "served",
        "settings": {name: getattr(config, name) for name in SENT},
        "server": report.fields,
        "parts": declared_versions("encoders.served"),
        "versions": library_versions("pillow"),
    }
    weights = {
        "revision": config.revision or report.fields.get("revision", UNKNOWN),
        "sha256": "unknown: served",
        **{name: report.fields[name] for name in ("model", "version")},
    }
    return Encoder(identity, lambda: weights, lambda: _load(config, report, fingerprint(identity)))


def _check(config: configs.ServedConfig) -> None:
    if not config.id.strip():
        raise InputError("model.id is empty. Set it to the name of the model on the server.")
    names = [name for name in ("prompt", "picture_text") if getattr(config, name)]
    if names and config.dialect != "messages":
        raise InputError(
            f"model.{names[0]}: model.dialect={config.dialect} has no place for it. "
            "Leave it out, or use model.dialect=messages."
        )


def _fetch_report(config: configs.ServedConfig) -> Report:
    key = repr(config)
    if key not in _reports:
        try:
            _reports[key] = _ask_server(config)
        except InputError as error:
            _reports[key] = error
    report = _reports[key]
    if isinstance(report, InputError):
        raise InputError(str(report))
    return report


def _ask_server(config: configs.ServedConfig) -> Report:
    probes = (Item(PROBE_TEXT), Item(picture=draw_probe()))
    with make_client(config) as client:
        first, second = (_probe(config, client, item) for item in probes)
        if len(first.vector) != len(second.vector) or first.model != second.model:
            raise InputError(
                f"{format_address(config, 'embeddings')}: expected vectors of texts and pictures in one "
                f"space, got {len(first.vector)} numbers by {first.model} for a text and "
                f"{len(second.vector)} by {second.model} for a picture. Choose another model.id."
            )
        _check_reads_pictures(config, client, second)
        fields = {"model": first.model, "width": str(len(first.vector))}
        fields |= {"version": _find_version(config, client), **_find_entry(config, client)}
    log.info("%s: %s", config.id, ", ".join(f"{name} {value}" for name, value in fields.items()))
    return Report(fields, probes, (first.vector, second.vector))


def draw_probe() -> Image.Image:
    """Draw a small picture of three gradients."""
    ramp = np.linspace(0, 255, PROBE_EDGE).astype(np.uint8)
    down, across = np.meshgrid(ramp, ramp, indexing="ij")
    return Image.fromarray(np.stack([down, across, down[::-1]], axis=-1))


def _probe(config: configs.ServedConfig, client: OpenAI, item: Item) -> Embedding:
    """Return the vector of a probe; raise `InputError` if the server gives none."""
    reply = request_embedding(config, client, item)
    if isinstance(reply, Unanswered):
        kind = "text" if item.picture is None else "picture"
        raise InputError(
            f"{format_address(config, 'embeddings')}: no vector of a plain {kind} ({reply.reason}). "
            "Choose another model.id or server."
        )
    if isinstance(reply, AmbiguousFailure):
        if item.picture is None or reply.transient:
            raise reply.error
        raise InputError(
            f"{format_address(config, 'embeddings')}: embeds a text, but not a picture ({reply.reason}). "
            f"Choose a multimodal model.id, or the server's model.dialect (now {config.dialect})."
        )
    return reply


def _check_reads_pictures(config: configs.ServedConfig, client: OpenAI, picture: Embedding) -> None:
    """Raise `InputError` if a server embeds the characters of a picture's data as a text."""
    if config.dialect != "input":
        return
    reply = request_embedding(config, client, Item(encode_picture(draw_probe())))
    if isinstance(reply, Embedding) and _compute_cosine(reply.vector, picture.vector) > MIN_COSINE:
        raise InputError(
            f"{format_address(config, 'embeddings')}: the server reads the data of a picture as a text. "
            "Use model.dialect=messages, or a multimodal model.id."
        )


def _find_entry(config: configs.ServedConfig, client: OpenAI) -> dict[str, str]:
    """Return the fields of `REPORTED` that the server's list of models states for the model."""
    content = _fetch_page(config, client, "/models")
    entries = content.get("data") if isinstance(content, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == config.id:
            return {name: brief(entry[name]) for name in REPORTED if isinstance(entry.get(name), str | int)}
    return {}


def _find_version(config: configs.ServedConfig, client: OpenAI) -> str:
    """Return the server's version: vLLM's page `/version`, or the description of the API (infinity)."""
    parts = urlsplit(config.url)
    root = parts.path.rstrip("/").removesuffix("/v1")
    content = _fetch_page(config, client, urlunsplit(parts._replace(path=f"{root}/version")))
    if isinstance(content, dict) and isinstance(content.get("version"), str):
        return brief(content["version"])
    content = _fetch_page(config, client, "/openapi.json")
    info = content.get("info") if isinstance(content, dict) else None
    if isinstance(info, dict) and isinstance(info.get("version"), str):
        return brief(f"{info.get('title', '')} {info['version']}".strip())
    return UNKNOWN


def _fetch_page(config: configs.ServedConfig, client: OpenAI, page: str) -> Any:
    """Return the content of a page, after all retries; None if the server does not have it."""
    address = redact(page)

    def parse(response: Response) -> Any:
        status, content = decode(response)
        if is_transient(status):
            log.warning("%s: %d. It is left out of what the server reports of its model.", address, status)
        return content if status < 300 else None

    options: Any = {"headers": choose_headers(client)}
    reply = send(config, address, lambda: client.get(page, cast_to=Response, options=options), parse)
    if isinstance(reply, AmbiguousFailure):
        raise reply.error
    return reply


def _load(config: configs.ServedConfig, report: Report, name: str) -> ServedNetwork:
    """Open the log of answers, check that the weights are those of its vectors, and return the network."""
    width = int(report.fields["width"])
    answers = AnswerLog(
        Path(config.answers) / f"{name}.jsonl", partial(is_vector, width=width), "model.answers"
    )
    for item, vector in zip(report.probes, report.vectors, strict=True):
        if item.key not in answers.known:
            answers.append({item.key: pack_vector(vector)})
        cosine = _compute_cosine(unpack_vector(answers.known[item.key]), vector)
        if cosine < MIN_COSINE:
            raise InputError(
                f"{format_address(config, 'embeddings')}: expected the weights that {answers.path} was made "
                f"with, got others under the same name {report.fields['model']} (cosine {cosine:.3f} of the "
                "same input). Set model.revision=NAME to a new name to measure them as another model."
            )
    return ServedNetwork(config, report.fields["model"], width, answers, report.probes).eval()


def _compute_cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second) if len(first) == len(second) else 0.0


def _choose_name(config: configs.ServedConfig, choice: str) -> str:
    return config.id if choice == config.family else choice


FAMILY = EncoderFamily(
    name="served",
    config=configs.ServedConfig,
    encoder=open_encoder,
    pretraining=lambda config: config.pretraining or UNKNOWN,
    default_name=_choose_name,
    instruction=("prompt", "picture_text"),
)
