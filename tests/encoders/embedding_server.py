"""Serve vectors of pictures and texts on 127.0.0.1, as vLLM and infinity do."""

import base64
from io import BytesIO

import numpy as np
from PIL import Image

from src.encoders.embedding_requests import Item, encode_picture
from src.encoders.served import PROBE_TEXT, draw_probe
from tests.served import serve_json

WIDTH, MODEL = 12, "lab/encoder"
PAGES = {
    "/v1/models": {
        "data": [{"id": "other"}, {"id": MODEL, "created": 1, "root": "weights", "max_model_len": 77}]
    },
    "/version": {"version": "0.9.1"},
}
RANDOM = np.random.default_rng(0).normal(size=(2, 256, WIDTH))


def read_item(request):
    """Return the text of a request, or the pixels [H, W, 3] of its picture."""
    if "messages" in request:
        first = request["messages"][-1]["content"][0]
        is_picture = first["type"] == "image_url"
        content = first["image_url"]["url"] if is_picture else first["text"]
    else:
        (content,) = request["input"]
        is_picture = request.get("modality") == "image"
    if not is_picture:
        return content
    header, _, data = content.partition(",")
    assert header == "data:image/png;base64"
    picture = Image.open(BytesIO(base64.b64decode(data)))
    assert (picture.format, picture.mode) == ("PNG", "RGB")
    return np.asarray(picture)


def embed(item):
    """Compute the vector of a text from its bytes, of a picture from its histogram: not of unit length."""
    values = np.frombuffer(item.encode(), dtype=np.uint8) if isinstance(item, str) else item[::4, ::4].ravel()
    counts = np.bincount(values, minlength=256) / len(values)
    return (counts @ RANDOM[int(isinstance(item, str))]).tolist()


def reply(vector, model=MODEL, **changes):
    return {"object": "list", "model": model, "data": [{"index": 0, "embedding": vector, **changes}]}


def answer(_, request):
    return 200, reply(embed(read_item(request)))


PROBES = (PROBE_TEXT, np.asarray(draw_probe()), encode_picture(draw_probe()))


def is_probe(request):
    item = read_item(request)
    return any(type(item) is type(probe) and np.array_equal(item, probe) for probe in PROBES)


def serve_vectors(behave=answer, pages=PAGES):
    """Serve vectors; `behave` answers all requests but those of the probes."""
    return serve_json(lambda *arguments: (answer if is_probe(arguments[1]) else behave)(*arguments), pages)


def sent_items(server):
    """Return the keys of the items that were sent, without probes."""
    items = [read_item(request) for request in server.requests if not is_probe(request)]
    return [
        (Item(item) if isinstance(item, str) else Item(picture=Image.fromarray(item))).key for item in items
    ]
