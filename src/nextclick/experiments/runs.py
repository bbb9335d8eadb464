"""Evaluating models on prepared data, and what is written down about it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection
from dataclasses import replace
from importlib import metadata
from typing import Any

from nextclick import __version__
from nextclick.clicks import Ints
from nextclick.datasets.prepared import PreparedData
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import Evaluation
from nextclick.evaluation.prequential import evaluate as evaluate_prequentially
from nextclick.evaluation.translate import align
from nextclick.methods import name_of
from nextclick.recommender import LEARNING_BATCH, PARTS, Recommender

UNMET = 2**30
"""What session numbers of a test part begin at."""

LIBRARIES = ("faiss-cpu", "numba", "numpy", "polars", "torch")
"""Those whose version can change a result."""


def evaluate_on(
    data: PreparedData,
    model: Recommender,
    *,
    parts: Collection[str] | None = None,
    batch: int = LEARNING_BATCH,
    write: int | None = None,
    limit: int | None = None,
    by_part: bool = False,
    after: Callable[[Ints], None] | None = None,
) -> Evaluation:
    """Evaluate a model prequentially on the test part of prepared data; it learns from it.

    The model may have been trained on other data: items are matched by their external ids.

    Examples
    --------
    >>> from nextclick.catalog import Item
    >>> from nextclick.clicks import ClickLog
    >>> from nextclick.methods import create
    >>> log = ClickLog.of([(s, click, 2 * s + click) for s in range(4) for click in range(2)])
    >>> data = PreparedData.cut(log, [Item("hat"), Item("tie")], validation=2, test=3)
    >>> model = create("popularity").fit(data.train, catalog=data.catalog)
    >>> evaluate_on(data, model).metrics()["HR@5"]
    1.0
    """
    if not len(data.test):
        raise BadInputError("the data has no test part to evaluate on; prepare it with one")
    training = align(model.catalog, data.catalog, data.train)
    test = align(model.catalog, data.catalog, data.test)
    # The model has met no session of the test part, though other data may number theirs alike.
    test = replace(test, sessions=test.sessions + UNMET)
    return evaluate_prequentially(
        model,
        test.transitions(),
        training=training,
        parts=parts,
        batch=batch,
        write=write,
        limit=limit,
        by_part=by_part,
        after=after,
    )


def parts_named(update: str, model: Recommender) -> tuple[str, ...]:
    """Return the parts of a model that are to learn, from what a user wrote.

    Examples
    --------
    >>> from nextclick.methods import create
    >>> popularity = create("popularity")
    >>> parts_named("all", popularity), parts_named("none", popularity)
    (('memory',), ())
    >>> parts_named("gate", popularity)
    Traceback (most recent call last):
        ...
    nextclick.errors.BadInputError: update: Popularity has no 'gate'; there are: all, none, memory
    """
    own = tuple(part for part in PARTS if part in model.parts)
    if update == "all":
        return own
    if update == "none":
        return ()
    wanted = [part.strip() for part in update.split(",")]
    for part in wanted:
        if part not in own:
            raise BadInputError(
                f"update: {model.label} has no {part!r}; there are: all, none, " + ", ".join(own)
            )
    return tuple(part for part in own if part in wanted)


def record(
    evaluation: Evaluation,
    model: Recommender,
    data: PreparedData,
    *,
    parts: Collection[str],
    write: int | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return all there is to know about an evaluation, for `json.dumps`."""
    return {
        "method": name_of(model),
        "label": model.label,
        "settings": model.settings.model_dump(mode="json"),
        "seed": model.runtime.seed,
        "updated": list(parts),
        "write": write,
        "limit": limit,
        **evaluation.to_json(),
        "data": data.description.model_dump(mode="json"),
        "versions": versions(),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
            "threads": model.runtime.threads,
            "device": model.runtime.device,
        },
    }


def versions() -> dict[str, str]:
    """Return the versions of everything that can change a result.

    Examples
    --------
    >>> sorted(versions())
    ['faiss-cpu', 'nextclick', 'numba', 'numpy', 'polars', 'python', 'torch']
    """
    return {
        "nextclick": __version__,
        "python": platform.python_version(),
        **{library: metadata.version(library) for library in LIBRARIES},
    }
