"""Adapt an encoder on a server to the protocol of networks: items are sent one by one, answers are logged."""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from openai import OpenAI
from PIL import Image
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from src.api.client import format_address
from src.api.failures import SAVED, AmbiguousFailure, Unanswered
from src.api.queries import query_answers
from src.configs import ServedConfig
from src.encoders.embedding_requests import Embedding, Item, request_embedding
from src.errors import InputError
from src.storage.answer_log import AnswerLog

log = logging.getLogger(__name__)

PADDING = -1  # of the bytes of shorter sentences


class ServedNetwork(nn.Module):
    """An encoder on a server, with a log of its answers.

    Pixels are pictures at the upper left of a transparent square; tokens are the bytes of sentences. An item
    that the server cannot encode has a vector of NaN, which a warning explains.
    """

    def __init__(
        self, config: ServedConfig, model: str, width: int, answers: AnswerLog, probes: Sequence[Item]
    ) -> None:
        super().__init__()
        self._config, self._model, self._width, self._answers = config, model, width, answers
        self._text_probe, self._picture_probe = probes  # items that the server has answered
        self._unanswered: set[str] = set()  # keys of items without a vector, which are not sent again

    def transform(self, picture: Image.Image) -> UInt8[Tensor, "4 edge edge"]:
        """Return a picture, reduced to `max_edge` if an edge is longer, as RGBA on a transparent square."""
        edge = self._config.max_edge
        if max(picture.size) > edge:
            picture = picture.copy()
            picture.thumbnail((edge, edge), Image.Resampling.LANCZOS, reducing_gap=None)
        square = Image.new("RGBA", (edge, edge))
        square.paste(picture)
        return torch.from_numpy(np.array(square)).permute(2, 0, 1)

    def split_preprocessing(self) -> None:
        """Return None: the server preprocesses pictures."""

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n bytes"]:
        """Return the bytes of sentences in UTF-8, padded with `PADDING`."""
        rows = [torch.tensor([*sentence.encode()], dtype=torch.int16) for sentence in sentences]
        return pad_sequence(rows, batch_first=True, padding_value=PADDING)

    def count_relevant_tokens(self, tokens: Int[Tensor, "n bytes"]) -> Int[Tensor, " n"]:
        """Return the padded length of every sentence, so that batches are not split by length."""
        return torch.full((len(tokens),), tokens.shape[1])

    def encode_images(self, pixels: UInt8[Tensor, "n 4 edge edge"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of pictures, float32."""
        squares = [Image.fromarray(square) for square in pixels.permute(0, 2, 3, 1).cpu().numpy()]
        pictures = [square.crop(square.getchannel("A").getbbox()).convert("RGB") for square in squares]
        return self._encode([Item(picture=picture) for picture in pictures], self._picture_probe, pixels)

    def encode_texts(self, tokens: Int[Tensor, "n bytes"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of sentences, float32."""
        codes = ([code for code in row if code != PADDING] for row in tokens.tolist())
        return self._encode([Item(text=bytes(row).decode()) for row in codes], self._text_probe, tokens)

    def _encode(self, items: Sequence[Item], probe: Item, inputs: Tensor) -> Float[Tensor, "n width"]:
        known = self._answers.known
        unknown = {item.key: item for item in items if item.key not in known}
        missing = [item for key, item in unknown.items() if key not in self._unanswered]
        replies = query_answers(self._config, self._request, missing, probe) if missing else ()
        for batch in replies:
            for index, reply in batch.items():
                if isinstance(reply, Unanswered):
                    self._unanswered.add(missing[index].key)
                    log.warning("%s: no vector of %s: %s", self._config.name, missing[index], reply.reason)
                else:
                    self._answers.append({missing[index].key: pack_vector(reply.vector)})
        nan = np.full(self._width, np.nan, dtype=np.float32)
        rows = [unpack_vector(known[item.key]) if item.key in known else nan for item in items]
        return nn.functional.normalize(torch.from_numpy(np.stack(rows)).to(inputs.device), dim=-1)

    def _request(self, client: OpenAI, item: Item) -> Embedding | Unanswered | AmbiguousFailure:
        """Return the vector of an item; raise `InputError` if another model replies."""
        reply = request_embedding(self._config, client, item)
        if isinstance(reply, Embedding) and (reply.model, len(reply.vector)) != (self._model, self._width):
            raise InputError(
                f"{format_address(self._config, 'embeddings')}: expected {self._width} numbers by "
                f"{self._model}, got {len(reply.vector)} by {reply.model}. Serve one model under "
                f"model.id={self._config.id}, and run the same command again; {SAVED}"
            )
        return reply


def pack_vector(vector: np.ndarray) -> str:
    """Encode a vector for a log of answers."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def unpack_vector(text: str) -> np.ndarray:
    """Decode a vector of a log of answers, float32 [width]; raise `ValueError` if it is none."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")


def is_vector(answer: Any, width: int) -> bool:
    """Return whether a logged value is a vector of a given width.

    >>> is_vector(pack_vector(np.ones(3)), 3), is_vector("AAAA", 3), is_vector([1.0], 1)
    (True, False, False)
    """
    try:
        vector = unpack_vector(answer)
    except (TypeError, ValueError):
        return False
    return len(vector) == width and bool(np.isfinite(vector).all())
