"""Compare outputs with recorded outputs, within the tolerance of their kind."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

OUTPUTS = Path(__file__).with_name("outputs")


class Recorder(NamedTuple):
    """Describe how the output of a component is computed and compared.

    Attributes:
        compute: takes an empty folder, returns name -> output (arrays, numbers, texts, lists of these).
        compare: takes (recorded, computed), both JSON values; returns how they differ, or "".
        float32_names: outputs compared in float32: processors round their last digits differently.
    """

    compute: Callable[[Path], dict[str, Any]]
    compare: Callable[[Any, Any], str]
    float32_names: frozenset[str] = frozenset()


def output_path(component: str) -> Path:
    """Return the path of the recorded output of a component."""
    return OUTPUTS / f"{component}.json"


def to_json(output: Any) -> Any:
    """Convert an output to values of JSON; floats keep every digit."""
    if isinstance(output, dict):
        return {str(name): to_json(value) for name, value in output.items()}
    if isinstance(output, list | tuple):
        return [to_json(value) for value in output]
    if hasattr(output, "numpy"):
        output = output.numpy()
    return output.tolist() if isinstance(output, np.ndarray | np.generic) else output


def differences(
    component: str, recorder: Recorder, recorded: dict[str, Any], computed: dict[str, Any]
) -> list[str]:
    """Return a message for each output of a component that differs from the recorded one."""
    messages = []
    for name in sorted({*recorded} | {*computed}):
        if name not in recorded or name not in computed:
            messages.append(f"{component}: {name} is {'not recorded' if name in computed else 'missing'}")
            continue
        compare = compare_float32 if name in recorder.float32_names else recorder.compare
        if difference := compare(recorded[name], computed[name]):
            messages.append(f"{component}: {name} {difference}")
    return messages


def compare_float64(recorded: Any, computed: Any) -> str:
    """Compare texts exactly, numbers within 1e-12 + 1e-12 |recorded|."""
    return _close(recorded, computed, 1e-12)


def compare_float32(recorded: Any, computed: Any) -> str:
    """Compare texts exactly, numbers within 1e-5 + 1e-5 |recorded|, the rounding of float32 networks."""
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
    """Yield (path, value) of each leaf of a JSON value; empty lists and dicts are leaves."""
    if not isinstance(value, dict | list) or not value:
        yield path, value
        return
    for name, entry in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(entry, (*path, name))


def compare_half_rows(recorded: Any, computed: Any) -> str:
    """Compare rows of vectors in bf16, which processors round differently: 1 - cosine is at most 1e-4."""
    return compare_rows(recorded, computed, 1e-4)


def compare_rows(recorded: Any, computed: Any, tolerance: float = 1e-6) -> str:
    """Compare rows of vectors: 1 - cosine is at most `tolerance`, the difference of lengths at most 1e-6."""
    if not isinstance(recorded, list) or not isinstance(recorded[0], list):
        return compare_float64(recorded, computed)
    old, new = np.asarray(recorded, float), np.asarray(computed, float)
    if old.shape != new.shape:
        return f"had shape {old.shape}, has {new.shape}"
    lengths = [np.linalg.norm(rows, axis=-1) for rows in (old, new)]
    distance = float((1 - (old * new).sum(-1) / (lengths[0] * lengths[1])).max())
    length = float(np.abs(lengths[0] - lengths[1]).max())
    is_close = distance <= tolerance and length <= 1e-6
    return "" if is_close else f"moved: 1 - cosine {distance:.1e}, length {length:.1e}"


def compare_pixels(recorded: Any, computed: Any) -> str:
    """Compare 8-bit pixel values: all within 1, fewer than 1% different."""
    old, new = np.asarray(recorded, int), np.asarray(computed, int)
    if old.shape != new.shape:
        return f"had shape {old.shape}, has {new.shape}"
    change = np.abs(old - new)
    if change.max() <= 1 and (change > 0).mean() < 0.01:
        return ""
    return f"{int((change > 0).sum())} pixel values changed, by up to {change.max()}"


def read(component: str) -> dict[str, Any]:
    """Read the record of a component: `version`, `output`."""
    recorded: dict[str, Any] = json.loads(output_path(component).read_text("utf-8"))
    return recorded


def write(component: str, version: int, output: dict[str, Any]) -> None:
    """Write the output of a component, with its version."""
    OUTPUTS.mkdir(exist_ok=True)
    text = json.dumps({"part": component, "version": version, "output": output}, separators=(",", ":"))
    output_path(component).write_text(text + "\n", "utf-8")
