"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

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
