"""A model as a directory: settings, catalog, weights and memory, and a manifest of checksums.

====================  ==========================================================================
file                  what it holds
====================  ==========================================================================
``config.json``       the method, its settings, the seed, and the version of nextclick
``catalog.json``      the items' external ids, titles and categories, in the order of their numbers
``state.safetensors``  everything learned, as named arrays
``*.faiss``           each FAISS index of the memory, as FAISS writes it
``manifest.json``     the length and the SHA-256 sum of each of these; written last
====================  ==========================================================================

Nothing is unpickled: a model from a stranger can be wrong, but runs no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from safetensors.numpy import save as to_safetensors

from nextclick import __version__, files
from nextclick.catalog import Catalog, Item
from nextclick.files import check_directory, new_directory
from nextclick.methods import create, name_of
from nextclick.recommender import Recommender, State
from nextclick.runtime import Runtime

KIND = "model"
VERSION = 1
"""The format's version: raised when an older nextclick could not read what this one writes."""

CONFIG = "config.json"
CATALOG = "catalog.json"
STATE = "state.safetensors"


def save(model: Recommender, path: Path | str) -> None:
    """Write a model to a directory, which appears whole or not at all.

    A model that is there already is replaced, and stays if the new one cannot be written; anything
    else at `path` is refused.

    Examples
    --------
    >>> import tempfile
    >>> from nextclick.catalog import Catalog
    >>> from nextclick.clicks import ClickLog
    >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3)])
    >>> model = create("popularity").fit(log, catalog=Catalog(["shoes", "socks"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "model")
    ...     loaded = load(Path(folder) / "model")
    >>> [recommended.id for recommended in loaded.recommend_one(["shoes"], k=1)]
    ['socks']
    """
    with new_directory(Path(path), KIND, VERSION) as folder:
        Picture.of(model).write(folder)


@dataclass(frozen=True, eq=False)
class Picture:
    """A model as it is at a moment, to be written while it goes on.

    Parameters
    ----------
    config
        The method, its settings, the seed, and the version of nextclick.
    items
        The catalog's items.
    state
        Everything learned.
    """

    config: dict[str, Any]
    items: Sequence[Item]
    state: State

    @classmethod
    def of(cls, model: Recommender, *, copy: bool = False) -> Picture:
        """Take a picture of a model; a `copy` stays as it is while the model learns."""
        state = model.state()
        config = {
            "method": name_of(model),
            "settings": model.settings.model_dump(mode="json"),
            "seed": model.runtime.seed,
            "nextclick": __version__,
            "indexes": {name: _index_file(name) for name in state if _is_index(name, state)},
        }
        if copy:
            state = {name: array.copy() for name, array in state.items()}
        return cls(config, list(model.catalog), state)

    def fingerprint(self) -> str:
        """Return a checksum of everything that makes this model what it is."""
        outline = {**self.config, "nextclick": None}
        sum_ = hashlib.sha256(json.dumps([outline, _catalog_columns(self.items)]).encode())
        for name in sorted(self.state):
            array = self.state[name]
            sum_.update(f"{name} {array.dtype} {array.shape}".encode())
            sum_.update(array.tobytes())
        return sum_.hexdigest()

    def write(self, folder: Path) -> None:
        """Write the files of a model; a manifest of them is for the caller to write."""
        indexes = self.config["indexes"]
        (folder / CONFIG).write_text(json.dumps(self.config, indent=1) + "\n")
        (folder / CATALOG).write_text(json.dumps(_catalog_columns(self.items)))
        for name, file in indexes.items():
            self.state[name].tofile(folder / file)
        write_arrays(
            folder / STATE,
            {name: array for name, array in self.state.items() if name not in indexes},
        )


def write_arrays(path: Path, arrays: State) -> None:
    """Write arrays in the format of safetensors."""
    # Not `save_file`: it reports a full disk as a defect of the format.
    path.write_bytes(
        to_safetensors({name: np.asarray(array, order="C") for name, array in arrays.items()})
    )


def load(path: Path | str, runtime: Runtime | None = None) -> Recommender:
    """Read a model that `save` wrote; it goes on as if it had never been away.

    Parameters
    ----------
    path
        The model's directory.
    runtime
        Threads, device and progress; the seed is the one that the model was made with.
    """
    check_directory(Path(path), KIND, VERSION)
    return read(Path(path), runtime)


def read(folder: Path, runtime: Runtime | None = None) -> Recommender:
    """Read a model's files, which the caller has checked."""
    config: dict[str, Any] = json.loads((folder / CONFIG).read_bytes())
    model = create(
        config["method"],
        config["settings"],
        replace(runtime or Runtime(), seed=config["seed"]),
        source=str(folder / CONFIG),
    )
    state: State = load_file(folder / STATE)
    for name, file in config["indexes"].items():
        state[name] = np.fromfile(folder / file, dtype=np.uint8)
    return model.restore(_catalog(json.loads((folder / CATALOG).read_bytes())), state)


def check_target(path: Path) -> None:
    """Refuse what `save` would refuse to write to: good to know before hours of training."""
    files.check_target(path, KIND)


def read_config(path: Path) -> dict[str, Any]:
    """Check every file of a model, and return its method, settings, seed and version."""
    check_directory(path, KIND, VERSION)
    config: dict[str, Any] = json.loads((path / CONFIG).read_bytes())
    return config


def _is_index(name: str, state: State) -> bool:
    return name.rpartition("/")[2] == "index" and state[name].dtype == np.uint8


def _index_file(name: str) -> str:
    return f"{name.removesuffix('/index').replace('/', '-')}.faiss"


def _catalog_columns(items: Sequence[Item]) -> dict[str, list[str | None]]:
    return {
        "ids": [item.id for item in items],
        "titles": [item.title for item in items],
        "categories": [item.category for item in items],
    }


def _catalog(columns: dict[str, Any]) -> Catalog:
    catalog = Catalog()
    for row in zip(columns["ids"], columns["titles"], columns["categories"], strict=True):
        item = Item(*row)
        catalog.describe(item.id, title=item.title, category=item.category)
    return catalog
