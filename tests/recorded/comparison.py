"""Compare an output with the recorded one, by the tolerance of its kind."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OUTPUTS = Path(__file__).with_name("outputs")


class Recorder(NamedTuple):
    """How the output of a part is made and compared.

    Attributes:
        make: takes an empty folder, returns name -> output (arrays, numbers, texts, lists of these).
        differs: takes (recorded, computed), both plain values; returns why they differ, or "".
        single: names of outputs that are drawn in float32: processors round their last digits differently.
    """

    make: Callable[[Path], dict[str, Any]]
    differs: Callable[[Any, Any], str]
    single: frozenset[str] = frozenset()


def path_of(part: str) -> Path:
    """Return the file that records a part."""
    return OUTPUTS / f"{part}.json"


def plain(output: Any) -> Any:
    """Return an output as JSON holds it; floats keep every digit."""
    if isinstance(output, dict):
        return {str(name): plain(value) for name, value in output.items()}
    if isinstance(output, list | tuple):
        return [plain(value) for value in output]
    if hasattr(output, "numpy"):
        output = output.numpy()
    return output.tolist() if isinstance(output, np.ndarray | np.generic) else output


def differences(
    part: str, recorder: Recorder, recorded: dict[str, Any], computed: dict[str, Any]
) -> list[str]:
    """Return a line per output of a part that is not what was recorded."""
    names = sorted({*recorded} | {*computed})
    lines = []
    for name in names:
        if name not in recorded or name not in computed:
            lines.append(f"{part}: {name} is {'not recorded' if name in computed else 'gone'}")
        elif why := (float32 if name in recorder.single else recorder.differs)(
            recorded[name], computed[name]
        ):
            lines.append(f"{part}: {name} {why}")
    return lines


def float64(recorded: Any, computed: Any) -> str:
    """Compare texts exactly and numbers to 1e-12, absolute below 1 and relative above."""
    return _close(recorded, computed, 1e-12)


def float32(recorded: Any, computed: Any) -> str:
    """Compare texts exactly and numbers to 1e-5: of networks that compute in float32."""
    return _close(recorded, computed, 1e-5)


def _close(recorded: Any, computed: Any, tolerance: float) -> str:
    if _shape(recorded) != _shape(computed):
        return "has another shape"
    first, second = _leaves(recorded), _leaves(computed)
    for old, new in zip(first, second, strict=True):
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
        if not numbers and (old != new or type(old) is not type(new)):
            return f"was {old!r}, is {new!r}"
        if numbers and not np.isclose(new, old, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"was {old!r}, is {new!r}, {abs(new - old):.1e} apart ({tolerance:g} allowed)"
    return ""


def vectors(recorded: Any, computed: Any) -> str:
    """Compare rows of unit vectors: 1 - cosine at most 1e-6, lengths to 1e-6."""
    if not isinstance(recorded, list) or not isinstance(recorded[0], list):
        return float64(recorded, computed)
    old, new = np.asarray(recorded, float), np.asarray(computed, float)
    if old.shape != new.shape:
        return f"had shape {old.shape}, has {new.shape}"
    lengths = [np.linalg.norm(rows, axis=-1) for rows in (old, new)]
    apart = float((1 - (old * new).sum(-1) / (lengths[0] * lengths[1])).max())
    longer = float(np.abs(lengths[0] - lengths[1]).max())
    return "" if apart <= 1e-6 and longer <= 1e-6 else f"moved: 1 - cosine {apart:.1e}, length {longer:.1e}"


def levels(recorded: Any, computed: Any) -> str:
    """Compare 8-bit pixels: no level off by more than 1, and fewer than 1 in 100 off."""
    old, new = np.asarray(recorded, int), np.asarray(computed, int)
    if old.shape != new.shape:
        return f"had shape {old.shape}, has {new.shape}"
    off = np.abs(old - new)
    return (
        ""
        if off.max() <= 1 and (off > 0).mean() < 0.01
        else f"{int((off > 0).sum())} levels moved, by up to {off.max()}"
    )


def read(part: str) -> dict[str, Any]:
    """Return what is recorded of a part: `version`, `output`."""
    recorded: dict[str, Any] = json.loads(path_of(part).read_text("utf-8"))
    return recorded


def write(part: str, version: int, output: dict[str, Any]) -> None:
    """Record the output of a part at a version."""
    OUTPUTS.mkdir(exist_ok=True)
    text = json.dumps({"part": part, "version": version, "output": output}, separators=(",", ":"))
    path_of(part).write_text(text + "\n", "utf-8")


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shape(entry) for name, entry in value.items()}
    return [_shape(entry) for entry in value] if isinstance(value, list) else None


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for entry in value.values() for leaf in _leaves(entry)]
    return [leaf for entry in value for leaf in _leaves(entry)] if isinstance(value, list) else [value]
