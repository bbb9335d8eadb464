"""How a computation is run, as opposed to what is computed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np


class Advance(Protocol):
    """What `Runtime.progress` hands out: call it after each piece of work."""

    def __call__(self, steps: float = 1, note: str = "") -> None:
        """Move the bar by `steps`, and show `note` beside it."""


def usable_cores() -> int:
    """Return how many cores this process may use: in a container, often fewer than there are.

    More threads than that would wait for each other most of the time.

    Examples
    --------
    >>> 1 <= usable_cores() <= os.cpu_count()
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Runtime:
    """Seed, threads, device and whether progress is shown.

    Two runs with the same seed, data and number of threads give the same numbers.

    Parameters
    ----------
    seed
        What all randomness is derived from.
    threads
        Threads for torch, FAISS and numba; when not given, as many as this process has cores.
    device
        `"cpu"`, `"cuda"`, or `"auto"`: CUDA where there is one.
    checkpoint
        A file in which a long `fit` leaves its last finished epoch, and from which it goes on.
    show_progress
        Whether work over two seconds shows a progress bar; by default, when standard error is a
        terminal.

    Examples
    --------
    >>> Runtime(seed=7).generator("weights").integers(10) == Runtime(seed=7).generator(
    ...     "weights"
    ... ).integers(10)
    np.True_
    """

    seed: int = 0
    threads: int = field(default_factory=usable_cores)
    device: str = "auto"
    checkpoint: Path | None = None
    show_progress: bool = field(default_factory=sys.stderr.isatty)

    def generator(self, purpose: str) -> np.random.Generator:
        """Return a random generator of its own for each purpose."""
        return np.random.default_rng([self.seed, *purpose.encode()])

    @contextmanager
    def progress(self, description: str, total: float | None) -> Iterator[Advance]:
        """Show a bar on standard error while the body runs, and hand out what moves it."""
        if not self.show_progress:
            yield _stand_still
            return
        from rich.console import Console  # noqa: PLC0415 - slow to import, seldom needed
        from rich.progress import (  # noqa: PLC0415 - the same
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(description, total=total, note="")

            def advance(steps: float = 1, note: str = "") -> None:
                bars.advance(task, steps)
                if note:
                    bars.update(task, note=note)

            yield advance


def _stand_still(steps: float = 1, note: str = "") -> None:
    """Show nothing."""
