"""Files that are whole, and hold what nobody expects: JSON, YAML, Parquet, safetensors, archives."""

import io
import json
import stat
import tarfile
import warnings
import zipfile
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

from tests.fuzz.mutations import CELLS, mutated

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 2**31, 2**70, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *(
        [],
        {},
        [[]],
        [None],
        {"a": None},
        {"": ""},
        ["a", 1],
        [["a", "b"]],
        {"word_map": {"a": "b"}},
        "\ud800",
    ),
)
NAMES = (
    *(
        "../up",
        "/tmp/up",
        "..\\up",
        "C:/up",
        "a/../../up",
        "./a",
        "a//b",
        "",
        ".",
        "..",
        "/",
        "a" * 300,
        "\ud800",
    ),
    *("Set/images", "Set/images/1.jpg/x", "Set/ratings.csv", "Set/images/\x00", "b" + "/b" * 2000, "é\n"),
)


def json_changed(content: bytes, random: Random, separators: str) -> bytes:
    """A JSON in which some nodes are something else; now and then bytes are."""
    return _nodes(content, random, separators, json.loads, lambda node: json.dumps(node).encode())


def yaml_changed(content: bytes, random: Random, separators: str) -> bytes:
    """The same of a YAML."""
    return _nodes(
        content, random, separators, yaml.safe_load, lambda node: yaml.dump(node, allow_unicode=True).encode()
    )


def _nodes(content: bytes, random: Random, separators: str, read: Any, write: Any) -> bytes:
    try:
        node = read(content.decode())
        for _ in range(random.choice((1, 1, 2, 4))):
            node = _changed(node, random)
        made: bytes = write(node)
    except (ValueError, yaml.YAMLError, RecursionError, AttributeError, TypeError):
        return mutated(content, random, separators)
    return made if random.random() < 0.6 else mutated(made, random, separators)


def _changed(node: Any, random: Random, depth: int = 0) -> Any:
    if isinstance(node, dict) and node and random.random() < 0.9 - 0.1 * depth:
        key = random.choice(list(node))
        said = random.random()
        rest = {name: value for name, value in node.items() if name != key}
        if said < 0.1:
            return rest
        if said < 0.2:
            return rest | {random.choice(CELLS): node[key]}
        return node | {key: _changed(node[key], random, depth + 1)}
    if isinstance(node, list) and node and random.random() < 0.9 - 0.1 * depth:
        place = random.randrange(len(node))
        said = random.random()
        if said < 0.1:
            return node[:place] + node[place + 1 :]
        if said < 0.2:
            return [*node, node[place]]
        return [*node[:place], _changed(node[place], random, depth + 1), *node[place + 1 :]]
    return random.choice(VALUES) if random.random() < 0.7 else random.choice(CELLS)


def parquet_changed(content: bytes, random: Random, separators: str) -> bytes:
    """A Parquet whose columns have other types, names, cells or numbers of rows."""
    try:
        table = pq.read_table(io.BytesIO(content))
        for column in table.columns:
            column.to_pylist()  # bytes that are no text are seen here only
    except (OSError, ValueError, pa.ArrowException):
        return mutated(content, random, separators)
    if random.random() < 0.2 or not table.num_columns:
        return mutated(content, random, separators)
    for _ in range(random.choice((1, 1, 2))):
        place = random.randrange(table.num_columns)
        said = random.random()
        if said < 0.1 and table.num_columns > 1:
            table = table.remove_column(place)
        elif said < 0.2:
            table = table.append_column(random.choice(table.column_names), table.column(place))
        elif said < 0.3:
            table = table.slice(0, random.randrange(table.num_rows + 1))
        else:
            column = _column(table.column(place).to_pylist(), random)
            table = table.set_column(place, table.column_names[place], column)
    if random.random() < 0.5:
        table = table.replace_schema_metadata(
            {"pandas": random.choice(["{", "[]", "{}", '{"index_columns": 5}'])}
        )
    made = io.BytesIO()
    try:
        pq.write_table(table, made)
    except pa.ArrowException:
        return mutated(content, random, separators)
    return made.getvalue()


def _column(cells: list[Any], random: Random) -> pa.Array:
    rows = len(cells)
    if random.random() < 0.5:  # single cells
        for _ in range(random.choice((1, 1, rows or 1))):
            if cells:
                cells[random.randrange(rows)] = random.choice(
                    [None, *(cell for cell in CELLS if cell.isprintable())]
                )
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
    made = (
        lambda: pa.array(range(rows)), lambda: pa.nulls(rows), lambda: pa.array([[1, 2]] * rows),
        lambda: pa.array([b"\xff\xfe"] * rows), lambda: pa.array([{"a": 1}] * rows),
        lambda: pa.array(["a"] * rows).dictionary_encode(), lambda: pa.array([date(2001, 1, 1)] * rows),
        lambda: pa.array([Decimal("0.5")] * rows), lambda: pa.array([True] * rows),
        lambda: pa.array([float("nan")] * rows), lambda: pa.array(np.linspace(-1, 2, rows)),
        lambda: pa.array([{"a": [None]}] * rows), lambda: pa.array([10**18] * rows, pa.timestamp("ns")),
        lambda: pa.array(["x" * 20_000] * rows), lambda: pa.array(["same"] * rows),
        lambda: pa.array([0.5] * rows, pa.float16()), lambda: pa.array([1] * rows, pa.duration("s")),
    )  # fmt: skip
    return random.choice(made)()


def tensors_changed(content: bytes, random: Random, separators: str) -> bytes:
    """Safetensors of another type, shape, name or content."""
    try:
        found = load(content)
    except (SafetensorError, ValueError, KeyError, RuntimeError):
        return mutated(content, random, separators)
    if random.random() < 0.2 or not found:
        return mutated(content, random, separators)
    name = random.choice(sorted(found))
    tensor = found.pop(name)
    kinds = (
        torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.uint8,
        torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64, torch.uint16,
    )  # fmt: skip
    said = random.random()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if said < 0.4:
            tensor = tensor.to(random.choice(kinds))
        elif said < 0.7 and tensor.numel():
            flat = tensor.float().flatten().clone()
            flat[random.randrange(len(flat))] = random.choice([float("nan"), float("inf"), 1e38, 0.0, -2.0])
            tensor = flat.reshape(tensor.shape)
        elif said < 0.9:
            shapes = ([0], [0, 4], [4, 0], [], [1], [6, 1], [6, 1, 4], [6, 2, 2, 2], [7, 4], [1, 6, 4])
            tensor = torch.ones(random.choice(shapes))
        else:
            name = random.choice(["Embedding", "", "é", "a" * 1000])
    return save({**found, name: tensor.contiguous()})


def archive_changed(content: bytes, random: Random, separators: str) -> bytes:
    """An archive whose members are called, linked or sized as no publisher would."""
    if random.random() < 0.3:
        return mutated(content, random, separators)
    names = ["Set/ratings.csv", "Set/images/1.jpg", *random.choices(NAMES, k=random.randint(1, 3))]
    random.shuffle(names)
    made = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _zip(made, names, random) if content[:2] == b"PK" else _tar(made, names, random, content)
        except (ValueError, UnicodeError, OSError):
            return mutated(content, random, separators)
    return made.getvalue() if random.random() < 0.8 else mutated(made.getvalue(), random, separators)


def _zip(made: io.BytesIO, names: list[str], random: Random) -> None:
    with zipfile.ZipFile(
        made, "w", random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2))
    ) as packed:
        for name in names:
            info = zipfile.ZipInfo(name.replace("\ud800", "?"))
            info.compress_type = packed.compression
            kind = random.choice(
                (0, 0, 0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR)
            )
            info.external_attr = (kind | 0o644) << 16
            packed.writestr(info, b"../../etc/passwd" if kind == stat.S_IFLNK else _size(random))


def _tar(made: io.BytesIO, names: list[str], random: Random, content: bytes) -> None:
    kinds = (
        *[tarfile.REGTYPE] * 6, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE,
        tarfile.CHRTYPE, tarfile.CONTTYPE, b"Z",
    )  # fmt: skip
    mode = {b"\x1f\x8b": "w:gz", b"BZ": "w:bz2", b"\xfd7": "w:xz"}.get(content[:2], "w")
    form = random.choice((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT))
    with tarfile.open(fileobj=made, mode=mode, format=form, errors="surrogatepass") as packed:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = random.choice(kinds), "../../../etc/passwd"
            body = _size(random)
            info.size = random.choice((len(body), len(body), len(body), 0, 2**40))
            if random.random() < 0.2:
                info.pax_headers = {"path": name + "\0/x", "size": random.choice(("-1", "x", "9" * 30))}
            packed.addfile(info, io.BytesIO(body.ljust(min(info.size, 4096), b"x")) if info.isreg() else None)


def _size(random: Random) -> bytes:
    return b"\0" * random.choice((0, 1, 600, 2_000_000))
