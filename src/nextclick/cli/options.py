"""Options that several verbs have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from nextclick.runtime import Runtime

Seed = Annotated[int, typer.Option(min=0, help="What all randomness is derived from.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads to use; if not given, one for each core.")
]
Device = Annotated[
    Literal["auto", "cpu", "cuda"], typer.Option(help="Where networks run; auto: CUDA if there is.")
]


def runtime_of(
    *,
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    checkpoint: Path | None = None,
) -> Runtime:
    """Return how to run, from the options that were given."""
    from nextclick.runtime import Runtime

    runtime = Runtime(seed=seed, device=device, checkpoint=checkpoint)
    return runtime if threads is None else replace(runtime, threads=threads)
