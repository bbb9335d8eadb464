"""A small data set in the form of the published ones."""

from pathlib import Path

import numpy as np
import pytest

SESSIONS = 150


@pytest.fixture(scope="session")
def periods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two period files of short walks through 60 items, of which some appear late."""
    random = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("periods")
    lines = []
    for session in range(SESSIONS):
        start = random.integers(0, 30) + session // 5
        walk = (start + np.cumsum(random.integers(0, 3, size=random.integers(2, 7)))) % 60
        lines += [f"{session} {item}\n" for item in walk]
    half = len(lines) // 2
    (folder / "period_0.txt").write_text("".join(lines[:half]))
    (folder / "period_1.txt").write_text("".join(lines[half:]))
    return folder
