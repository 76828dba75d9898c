"""Write valid files with unexpected content: JSON, YAML, Parquet, safetensors."""

import io
import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load, save

from tests.fuzz.mutations import CELLS, mutate

PRINTABLE = [None, *(cell for cell in CELLS if cell.isprintable())]
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**70, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *([], {}, [[]], [None], {"a": None}, {"": ""}, ["a", 1], [["a", "b"]], {"word_map": {"a": "b"}}),
    "\ud800",
)
SCALARS = ([1, 2], b"\xff\xfe", {"a": 1}, date(2001, 1, 1), Decimal("0.5"), True, float("nan"), {"a": [None]})
SCALARS += ("x" * 20_000, "same")


Change = Callable[[bytes, Random, str], bytes]
UNREADABLE = (OSError, ValueError, AttributeError, TypeError, KeyError, RuntimeError)
UNREADABLE += (pa.ArrowException, SafetensorError, yaml.YAMLError)


def or_bytes(change: Callable[[bytes, Random], bytes]) -> Change:
    """Return a change that mutates bytes instead where `change` fails, and in some other cases, too."""

    def changed(content: bytes, random: Random, separators: str) -> bytes:
        if random.random() < 0.8:
            with warnings.catch_warnings(), suppress(*UNREADABLE):
                warnings.simplefilter("ignore")
                content = change(content, random)
                if random.random() < 0.75:
                    return content
        return mutate(content, random, separators)

    return changed


@or_bytes
def json_changed(content: bytes, random: Random) -> bytes:
    """Replace nodes of a JSON."""
    return json.dumps(_nodes(json.loads(content.decode()), random)).encode()


@or_bytes
def yaml_changed(content: bytes, random: Random) -> bytes:
    """Replace nodes of a YAML."""
    return yaml.dump(_nodes(yaml.safe_load(content.decode()), random)).encode()


def _nodes(node: Any, random: Random) -> Any:
    for _ in range(random.choice((1, 1, 2, 4))):
        node = _changed(node, random)
    return node


def _changed(node: Any, random: Random, depth: int = 0) -> Any:
    """Drop, rename, double or replace an item at a random depth."""
    if isinstance(node, dict | list) and node and random.random() < 0.9 - 0.1 * depth:
        items = list(node.items() if isinstance(node, dict) else enumerate(node))
        place, roll = random.randrange(len(items)), random.random()
        key, value = items.pop(place)
        if roll >= 0.2:
            items.insert(place, (key, _changed(value, random, depth + 1)))
        elif roll >= 0.1:
            items += [(random.choice(CELLS), value), (key, value)][: 1 + isinstance(node, list)]
        return dict(items) if isinstance(node, dict) else [item for _, item in items]
    return random.choice(VALUES) if random.random() < 0.7 else random.choice(CELLS)


@or_bytes
def parquet_changed(content: bytes, random: Random) -> bytes:
    """Write a Parquet whose columns have other types, names, cells or numbers of rows."""
    table = pq.read_table(io.BytesIO(content))
    for column in table.columns:
        column.to_pylist()  # raises an error if bytes are no text
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(table.num_columns)
        roll = random.random()
        if roll < 0.1 and table.num_columns > 1:
            table = table.remove_column(place)
        elif roll < 0.2:
            table = table.append_column(random.choice(table.column_names), table.column(place))
        elif roll < 0.3:
            table = table.slice(0, random.randrange(table.num_rows + 1))
        else:
            column = _column(table.column(place).to_pylist(), random)
            table = table.set_column(place, table.column_names[place], column)
    if random.random() < 0.5:
        metadata = random.choice(["{", "[]", "{}", '{"index_columns": 5}'])
        table = table.replace_schema_metadata({"pandas": metadata})
    output = io.BytesIO()
    pq.write_table(table, output)
    return output.getvalue()


def _column(cells: list[Any], random: Random) -> pa.Array:
    rows = len(cells)
    if random.random() < 0.5:  # single cells
        for _ in range(random.choice((1, 1, rows or 1))):
            if cells:
                cells[random.randrange(rows)] = random.choice(PRINTABLE)
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    columns = (
        pa.array(range(rows)), pa.nulls(rows), pa.array(["a"] * rows).dictionary_encode(),
        pa.array(np.linspace(-1, 2, rows)), pa.array([10**18] * rows, pa.timestamp("ns")),
        pa.array([0.5] * rows, pa.float16()), pa.array([1] * rows, pa.duration("s")),
        *(pa.array([cell] * rows) for cell in SCALARS),
    )  # fmt: skip
    return random.choice(columns)


@or_bytes
def tensors_changed(content: bytes, random: Random) -> bytes:
    """Write safetensors of another type, shape, name or content."""
    tensors = load(content)
    name = random.choice(sorted(tensors))
    tensor = tensors.pop(name)
    dtypes = (
        torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.uint8,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.uint16,
    )  # fmt: skip
    roll = random.random()
    if roll < 0.4:
        tensor = tensor.to(random.choice(dtypes))
    elif roll < 0.7:
        flat = tensor.float().flatten().clone()
        flat[random.randrange(len(flat))] = random.choice([float("nan"), float("inf"), 1e38, 0.0, -2.0])
        tensor = flat.reshape(tensor.shape)
    elif roll < 0.9:
        shapes = ([0], [0, 4], [4, 0], [], [1], [6, 1], [6, 1, 4], [6, 2, 2, 2], [7, 4], [1, 6, 4])
        tensor = torch.ones(random.choice(shapes))
    else:
        name = random.choice(["Embedding", "", "é", "a" * 1000])
    return save({**tensors, name: tensor.contiguous()})
