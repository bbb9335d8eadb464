"""Taking dataclasses of arrays apart, and putting them together again.

What a batch of transitions needs until its learning step is such a thing: each method has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from nextclick.recommender import State


class CannotPackError(Exception):
    """There is something else than dataclasses, lists, mappings, numbers, text and arrays."""


def pack(value: object, arrays: State, name: str = "") -> Any:
    """Return a value's outline, as JSON takes it, and put its arrays beside.

    Examples
    --------
    >>> arrays = {}
    >>> outline = pack({"n": 3, "rows": [np.arange(2), None]}, arrays)
    >>> unpack(outline, arrays)
    {'n': 3, 'rows': [array([0, 1]), None]}
    """
    if isinstance(value, np.ndarray):
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name}
    if value is None or isinstance(value, bool | int | float | str):
        return {"value": value}
    if isinstance(value, list | tuple):
        return {"list": [pack(each, arrays, f"{name}/{n}") for n, each in enumerate(value)]}
    if isinstance(value, Mapping):
        inner = {key: pack(each, arrays, f"{name}/{key}") for key, each in value.items()}
        return {"mapping": inner}
    if is_dataclass(value) and type(value).__module__.partition(".")[0] == "nextclick":
        names = [field.name for field in fields(value)]
        inner = {key: pack(getattr(value, key), arrays, f"{name}/{key}") for key in names}
        return {"class": f"{type(value).__module__}:{type(value).__name__}", "fields": inner}
    raise CannotPackError(f"{type(value).__name__} at {name!r}")


def unpack(outline: Any, arrays: State) -> Any:
    """Return what `pack` was given; a tuple comes back as a list.

    Nothing but dataclasses of nextclick is made, so that a file says what values are and no more.
    """
    if "array" in outline:
        return arrays[outline["array"]]
    if "value" in outline:
        return outline["value"]
    if "list" in outline:
        return [unpack(each, arrays) for each in outline["list"]]
    if "mapping" in outline:
        return {key: unpack(each, arrays) for key, each in outline["mapping"].items()}
    module, _, name = outline["class"].partition(":")
    kind = getattr(import_module(module), name) if module.startswith("nextclick.") else None
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise CannotPackError(f"{outline['class']} is no dataclass of nextclick")
    return kind(**{key: unpack(each, arrays) for key, each in outline["fields"].items()})
