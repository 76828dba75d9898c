"""Compare an output with the recorded one, by the tolerance of its kind."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OUTPUTS = Path(__file__).with_name("outputs")


class Recorder(NamedTuple):
    """How the output of a component is made and compared.

    Attributes:
        make: takes an empty folder, returns name -> output (arrays, numbers, texts, lists of these).
        differs: takes (recorded, computed), both plain values; returns why they differ, or "".
        single: names of outputs that are drawn in float32: processors round their last digits differently.
    """

    make: Callable[[Path], dict[str, Any]]
    differs: Callable[[Any, Any], str]
    single: frozenset[str] = frozenset()


def path_of(component: str) -> Path:
    """Return the file that records a component."""
    return OUTPUTS / f"{component}.json"


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
    component: str, recorder: Recorder, recorded: dict[str, Any], computed: dict[str, Any]
) -> list[str]:
    """Return a line per output of a component that is not what was recorded."""
    lines = []
    for name in sorted({*recorded} | {*computed}):
        if name not in recorded or name not in computed:
            lines.append(f"{component}: {name} is {'not recorded' if name in computed else 'missing'}")
            continue
        differs = float32 if name in recorder.single else recorder.differs
        if why := differs(recorded[name], computed[name]):
            lines.append(f"{component}: {name} {why}")
    return lines


def float64(recorded: Any, computed: Any) -> str:
    """Compare texts exactly and numbers to 1e-12, absolute below 1 and relative above."""
    return _close(recorded, computed, 1e-12)


def float32(recorded: Any, computed: Any) -> str:
    """Compare texts exactly and numbers to 1e-5: of networks that compute in float32."""
    return _close(recorded, computed, 1e-5)


def _close(recorded: Any, computed: Any, tolerance: float) -> str:
    first, second = dict(_leaves(recorded)), dict(_leaves(computed))
    if first.keys() != second.keys():
        return "has another shape"
    for path, old in first.items():
        new = second[path]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (old, new))
        if not numbers and (old != new or type(old) is not type(new)):
            return f"was {old!r}, is {new!r}"
        if numbers and not np.isclose(new, old, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"was {old!r}, is {new!r}, {abs(new - old):.1e} apart ({tolerance:g} allowed)"
    return ""


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the values within a plain value, with their paths; empty lists and dicts are values."""
    if not isinstance(value, dict | list) or not value:
        yield path, value
        return
    for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(entry, (*path, name))


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
    if off.max() <= 1 and (off > 0).mean() < 0.01:
        return ""
    return f"{int((off > 0).sum())} levels moved, by up to {off.max()}"


def read(component: str) -> dict[str, Any]:
    """Return what is recorded of a component: `version`, `output`."""
    recorded: dict[str, Any] = json.loads(path_of(component).read_text("utf-8"))
    return recorded


def write(component: str, version: int, output: dict[str, Any]) -> None:
    """Record the output of a component at a version."""
    OUTPUTS.mkdir(exist_ok=True)
    text = json.dumps({"part": component, "version": version, "output": output}, separators=(",", ":"))
    path_of(component).write_text(text + "\n", "utf-8")
