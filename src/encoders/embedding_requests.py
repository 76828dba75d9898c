"""Send a picture or a text to a server's `/embeddings`, and parse its vector."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import numpy as np
from httpx2 import Response
from jaxtyping import Float32
from openai import OpenAI
from PIL import Image

from src.api.client import choose_headers, format_address, send
from src.api.failures import SAVED, AmbiguousFailure, Unanswered, decode, explain_failure, quote_reply
from src.configs import ServedConfig
from src.errors import InputError

# Field of a request that a server may not know -> setting to change.
REMEDIES = {
    "padding": "model.padding=none",
    "modality": "model.dialect=messages",
    "messages": "model.dialect=input",
    "input": "model.dialect=messages",
}


@dataclass(frozen=True)
class Item:
    """A picture or a text to embed."""

    text: str = ""
    picture: Image.Image | None = None  # RGB; None for a text

    def __repr__(self) -> str:
        if self.picture is None:
            return repr(self.text)
        return f"a picture of {self.picture.width} x {self.picture.height} pixels"

    @cached_property
    def key(self) -> str:
        """Hash the content: the text, or the size and the pixels."""
        if self.picture is None:
            return hashlib.sha256(f"text {self.text}".encode()).hexdigest()
        header = f"picture {self.picture.width} x {self.picture.height} "
        return hashlib.sha256(header.encode() + self.picture.tobytes()).hexdigest()


@dataclass(frozen=True)
class Embedding:
    """A reply of the server to an item."""

    vector: Float32[np.ndarray, " width"]  # of unit length
    model: str  # name of the model in the reply


def request_embedding(
    config: ServedConfig, client: OpenAI, item: Item
) -> Embedding | Unanswered | AmbiguousFailure:
    """Send an item and return its vector, after all retries.

    Raises:
        InputError: see `explain_failure`.
    """
    url = format_address(config, "embeddings")
    body, headers = build_request(config, item), choose_headers(client)
    return send(
        config,
        url,
        lambda: client.post("/embeddings", cast_to=Response, body=body, options={"headers": headers}),
        lambda response: parse_embedding(response, config, url),
    )


def build_request(config: ServedConfig, item: Item) -> dict[str, Any]:
    """Build the content of a request in the dialect of a server (docs/models.md, "Encoders on a server")."""
    request: dict[str, Any] = {"model": config.id, "encoding_format": "float"}
    if config.padding != "none":
        request["padding"] = config.padding
    if config.dialect == "input":
        if item.picture is None:
            return request | {"input": [item.text]}
        return request | {"input": [encode_picture(item.picture)], "modality": "image"}
    content: list[dict[str, Any]] = [{"type": "text", "text": item.text}]
    if item.picture is not None:
        content = [{"type": "text", "text": config.picture_text}] if config.picture_text else []
        content.insert(0, {"type": "image_url", "image_url": {"url": encode_picture(item.picture)}})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if config.prompt:
        messages.insert(0, {"role": "system", "content": config.prompt})
    return request | {"messages": messages}


def encode_picture(picture: Image.Image) -> str:
    """Encode a picture as the data URI of a PNG, which keeps every pixel."""
    file = BytesIO()
    picture.save(file, "PNG", compress_level=1)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def parse_embedding(
    response: Response, config: ServedConfig, url: str
) -> Embedding | Unanswered | AmbiguousFailure:
    """Parse the reply to an item; messages contain `url`, which has no password.

    Raises:
        InputError: see `explain_failure`.
    """
    status, content = decode(response)
    if status >= 300:
        sent = build_request(config, Item("a"))
        names = {*sent, "modality"} if config.dialect == "input" else {*sent}
        remedies = {name: setting for name, setting in REMEDIES.items() if name in names}
        return explain_failure(response, config, url, remedies)
    try:
        (entry,) = content["data"]
        numbers, model = entry["embedding"], content["model"]
        are_numbers = isinstance(numbers, list) and all(type(number) in (int, float) for number in numbers)
        if entry["index"] != 0 or not numbers or not are_numbers or not isinstance(model, str):
            raise ValueError
        values = np.array(numbers, dtype=np.float64)
    except (KeyError, TypeError, ValueError, OverflowError):
        got = quote_reply(response, config, 120)
        return _describe_unusable("no embedding", f"expected one embedding, got ({got!r})", url)
    if not np.isfinite(values).all():
        return _describe_unusable("NaN or infinity in the vector", "vectors contain NaN or infinity", url)
    if not values.any():
        return _describe_unusable("a vector of zeros", "vectors contain only zeros", url)
    values /= np.abs(values).max()  # squares of very large or small values would overflow
    return Embedding((values / np.linalg.norm(values)).astype(np.float32), model)


def _describe_unusable(reason: str, problem: str, url: str) -> AmbiguousFailure:
    error = InputError(f"{url}: {problem}. Correct model.url, model.dialect or the server's model; {SAVED}")
    return AmbiguousFailure(reason, error, transient=True)
