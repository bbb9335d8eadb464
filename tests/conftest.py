"""What all tests share."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from nextclick.catalog import Item
from nextclick.clicks import ClickLog
from nextclick.datasets.prepared import PreparedData
from nextclick.methods import create
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

# The first example may compile a kernel, and the machine may be busy.
settings.register_profile("nextclick", deadline=None)
settings.load_profile("nextclick")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real data sets."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("NEXTCLICK_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"the real data sets are not at {folder}; NEXTCLICK_DATA can name the folder")
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted only by root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


NETWORK: dict[str, Any] = {
    "encoder": {"embedding": 16, "hidden": 16},
    "training": {"epochs": 2, "batch": 64},
}
TINY: dict[str, dict[str, Any]] = {
    "man": {"neural": NETWORK, "gate": {"epochs": 5}, "memory": {"neighbours": 20}},
    "man-mix": {"neural": NETWORK, "gate": {"epochs": 5}, "memory": {"neighbours": 20}},
    "narm": NETWORK,
    "gru4rec": NETWORK,
}
"""Settings that make the large methods small."""


@pytest.fixture(scope="session")
def tiny_data() -> PreparedData:
    """Sessions that walk in small steps through 40 items, of which few are popular."""
    random = np.random.default_rng(1)
    starts = random.zipf(1.5, size=300) % 40
    walks = (starts[:, None] + np.cumsum(random.integers(0, 3, size=(300, 4)), axis=1)) % 40
    sessions = np.repeat(np.arange(300), 4)
    log = ClickLog(sessions, walks.ravel(), np.arange(1200.0))
    items = [Item(f"item {number}", title=f"The {number}th") for number in range(40)]
    return PreparedData.cut(log, items, validation=200, test=240)


@pytest.fixture(scope="session")
def make_tiny(tiny_data: PreparedData) -> Callable[..., Recommender]:
    """Train a method on the tiny data: ``make_tiny(name, memory={"size": 50})``."""

    def make(name: str, *, validated: bool = True, **given: Any) -> Recommender:
        model = create(name, TINY.get(name, {}) | given, Runtime(seed=3, threads=1))
        validation = tiny_data.validation if validated else None
        return model.fit(tiny_data.train, validation=validation, catalog=tiny_data.catalog)

    return make


@pytest.fixture(scope="session")
def tiny(make_tiny: Callable[..., Recommender]) -> Callable[[str], Recommender]:
    """Return a method trained on the tiny data, to do with what one likes."""
    trained = cache(make_tiny)
    return lambda name: trained(name).clone()
