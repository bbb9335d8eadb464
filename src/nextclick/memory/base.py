"""The contract of a memory: (representation, next item) pairs, found again by nearness."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numba
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from nextclick.clicks import Ints
from nextclick.errors import BadInputError
from nextclick.settings import Settings

Vectors: TypeAlias = NDArray[np.float32]
State: TypeAlias = dict[str, NDArray[Any]]

MAX_NUMBER = 2**31 - 1
"""Items and sessions take four bytes each in a memory."""


class MemorySettings(Settings):
    """Settings of a memory.

    Parameters
    ----------
    kind
        `"clustered"` keeps a code of a few bytes for every key, and looks only near the query;
        `"exact"` keeps the keys as they are and looks at all of them.
    size
        Keep the newest so many entries; `None` keeps all.
    neighbours
        How many entries a prediction is made of (the paper's K).
    normalise
        Whether keys and queries are brought to length 1: what counts is then their direction.
    clusters
        How many clusters the keys are sorted into; fewer if there are few keys to train on. The
        paper: 256. Clustered memory only, as all that follows.
    probes
        In how many clusters, those nearest to the query, is looked for neighbours; in more while
        these hold too few entries.
    codes
        How a key is written down, in the words of FAISS's `index_factory`: `"PQ8"` (the paper) is 8
        bytes a key, `"PQ16"` 16, `"SQ8"` one per dimension, `"Flat"` all of it.
        There are no more parts than dimensions.
    rotate
        Whether keys are turned before `"PQ…"` codes are made of them, so that these lose less (the
        paper: no).
    """

    kind: Literal["clustered", "exact"] = "clustered"
    size: int | None = Field(default=None, ge=1)
    neighbours: int = Field(default=100, ge=1)
    normalise: bool = True
    clusters: int = Field(default=1024, ge=1)
    probes: int = Field(default=4, ge=1)
    codes: str = "PQ16"
    rotate: bool = True


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The entries nearest to each query: arrays of shape (queries, k), nearest first.

    Parameters
    ----------
    distances
        Squared Euclidean distances, never negative; infinity where there is no entry.
    items, sessions
        What was clicked next, and in which session; -1 where there is no entry.
    ages
        How many entries were written after it; -1 where there is no entry.
    """

    distances: Vectors
    items: Ints
    sessions: Ints
    ages: Ints

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def none(cls, queries: int, k: int) -> Neighbours:
        """Return what an empty memory answers."""
        shape = (queries, k)
        return cls(
            np.full(shape, np.inf, dtype=np.float32),
            *(np.full(shape, -1, dtype=np.int64) for _ in range(3)),
        )


class Memory(ABC):
    """Entries of a key (a representation), the item clicked next, and the session it was in.

    Parameters
    ----------
    settings
        The memory's settings.
    dimension
        The length of a key.
    threads
        How many threads a search of several queries may use.

    Examples
    --------
    >>> from nextclick.memory import make_memory
    >>> memory = make_memory(MemorySettings(neighbours=2), dimension=2)
    >>> keys = np.array([[1, 0], [0, 1], [3, 3]], dtype=np.float32)
    >>> memory.add(keys, np.array([7, 8, 9]), np.array([0, 0, 1]))
    >>> memory.search(np.array([[0, 5]], dtype=np.float32)).items.tolist()
    [[8, 9]]
    """

    def __init__(self, settings: MemorySettings, dimension: int, threads: int = 1) -> None:
        self.settings = settings
        self.dimension = dimension
        self.threads = threads

    def train(self, keys: Vectors) -> None:
        """Learn how keys are distributed, once; the memory's entries stay what they are.

        Parameters
        ----------
        keys
            The representations of the training part. A memory that needs more than these says
            nothing and learns from its own entries, as soon as there are enough of them.
        """
        self._train(self._prepared(keys, "keys"))

    def add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        """Write entries, in time order; the oldest make room where the memory is bounded.

        Parameters
        ----------
        keys
            The representations, a row for each entry.
        items
            The items clicked next.
        sessions
            The sessions, -1 where not known.
        """
        if not len(keys) == len(items) == len(sessions):
            raise BadInputError(
                f"{len(keys)} keys, {len(items)} items and {len(sessions)} sessions are not "
                "entries; give as many of each"
            )
        _check_numbers("item", items, 0)
        _check_numbers("session", sessions, -1)
        newest = slice(
            0 if self.settings.size is None else max(0, len(keys) - self.settings.size), None
        )
        if len(keys):
            self._add(self._prepared(keys[newest], "keys"), items[newest], sessions[newest])

    def search(self, queries: Vectors, k: int | None = None) -> Neighbours:
        """Return the entries nearest to each query; changes nothing.

        An answer does not depend on the queries it is asked with.

        Parameters
        ----------
        queries
            Representations, a row for each.
        k
            How many entries; the setting `neighbours` by default.
        """
        k = self.settings.neighbours if k is None else k
        if k < 1:
            raise BadInputError(f"k is {k}; ask for at least one neighbour")
        checked = self._checked(queries, "queries")
        if not len(self) or not len(checked):
            return Neighbours.none(len(checked), k)
        return self._search(checked, k)

    @abstractmethod
    def __len__(self) -> int:
        """Return how many entries there are."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """How many bytes the entries, and what it takes to find them, occupy."""

    @abstractmethod
    def state(self) -> State:
        """Return everything the memory holds; an array named `…/index` is an index of FAISS."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Take up what `state` returned, so that everything goes on as if nothing had happened."""

    @abstractmethod
    def _train(self, keys: Vectors) -> None: ...

    @abstractmethod
    def _add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        """Write at least one and at most `size` entries."""

    @abstractmethod
    def _search(self, queries: Vectors, k: int) -> Neighbours:
        """Search for at least one query, not normalised yet, in a memory that is not empty."""

    def _prepared(self, vectors: Vectors, what: str) -> Vectors:
        """Return vectors as they are stored and compared."""
        checked = self._checked(vectors, what)
        return normalised(checked) if self.settings.normalise else checked

    def _checked(self, vectors: Vectors, what: str) -> Vectors:
        if vectors.ndim != 2 or vectors.shape[1] != self.dimension:
            raise BadInputError(
                f"{what} of shape {vectors.shape} do not fit a memory of dimension "
                f"{self.dimension}; give an array of shape (n, {self.dimension})"
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def normalised(vectors: Vectors) -> Vectors:
    """Return each row divided by its length; rows of zeros stay zeros.

    Examples
    --------
    >>> normalised(np.array([[3, 4], [0, 0]], dtype=np.float32)).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    unit = np.empty_like(vectors)
    fill_normalised(vectors, unit)
    return unit


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def fill_normalised(vectors: Vectors, unit: Vectors) -> None:
    """Fill in what `normalised` returns."""
    for row in range(len(vectors)):
        square = np.float32(0)
        for value in vectors[row]:
            square += value * value
        length = np.sqrt(square) if square > 0 else np.float32(1)
        for dimension in range(vectors.shape[1]):
            unit[row, dimension] = vectors[row, dimension] / length


def _check_numbers(what: str, numbers: Ints, least: int) -> None:
    if len(numbers) and not (least <= numbers.min() and numbers.max() <= MAX_NUMBER):
        raise BadInputError(
            f"{what} numbers from {numbers.min()} to {numbers.max()} do not fit a memory, which "
            f"takes {least} to {MAX_NUMBER:,}; number the {what}s densely"
        )
