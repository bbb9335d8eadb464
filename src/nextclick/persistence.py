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

import json
from dataclasses import replace
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
        state = model.state()
        indexes = {name: _index_file(name) for name in state if _is_index(name, state)}
        config = {
            "method": name_of(model),
            "settings": model.settings.model_dump(mode="json"),
            "seed": model.runtime.seed,
            "nextclick": __version__,
            "indexes": indexes,
        }
        (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n")
        (folder / CATALOG).write_text(json.dumps(_catalog_columns(model.catalog)))
        for name, file in indexes.items():
            state[name].tofile(folder / file)
        arrays = {
            name: np.asarray(array, order="C")
            for name, array in state.items()
            if name not in indexes
        }
        # Not `save_file`: it reports a full disk as a defect of the format.
        (folder / STATE).write_bytes(to_safetensors(arrays))


def load(path: Path | str, runtime: Runtime | None = None) -> Recommender:
    """Read a model that `save` wrote; it goes on as if it had never been away.

    Parameters
    ----------
    path
        The model's directory.
    runtime
        Threads, device and progress; the seed is the one that the model was made with.
    """
    folder = Path(path)
    config = read_config(folder)
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


def _catalog_columns(catalog: Catalog) -> dict[str, list[str | None]]:
    items = list(catalog)
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
