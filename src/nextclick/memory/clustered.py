"""A memory of codes in clusters: a few bytes for every key, and a look only near the query."""

from __future__ import annotations

import faiss

from nextclick.clicks import Ints
from nextclick.memory.base import (
    Memory,
    MemorySettings,
    Neighbours,
    State,
    Vectors,
    normalised,
)
from nextclick.memory.codes import fitting_codes
from nextclick.memory.exact import ExactMemory
from nextclick.memory.inverted_file import InvertedFile

_ENOUGH = 10_000
"""With fewer keys than this all are kept and looked at: FAISS wants 39 for each of a byte's code
words, and that few are found as fast without clusters."""


class ClusteredMemory(Memory):
    """Codes in an inverted file; an exact memory until there are enough keys to train that on.

    Distances are between the query and what the code of an entry stands for. Of entries with the
    same code, the newer come first.

    Examples
    --------
    >>> import numpy as np
    >>> keys = np.random.default_rng(0).normal(size=(10_000, 8)).astype(np.float32)
    >>> memory = ClusteredMemory(MemorySettings(clusters=16, codes="SQ8"), dimension=8)
    >>> memory.train(keys)
    >>> memory.add(keys[:100], np.arange(100), np.zeros(100, dtype=np.int64))
    >>> memory.search(keys[42:43], k=1).items.tolist()
    [[42]]
    """

    def __init__(self, settings: MemorySettings, dimension: int, threads: int = 1) -> None:
        codes = fitting_codes(settings.codes, dimension)
        super().__init__(settings.model_copy(update={"codes": codes}), dimension, threads)
        self._entries: ExactMemory | InvertedFile = self._exact()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """How many bytes the entries occupy, and what it takes to read their codes."""
        return self._entries.nbytes

    def state(self) -> State:
        """Return the inverted file and the items, or the keys while there are few."""
        return self._entries.state()

    def restore(self, state: State) -> None:
        """Take up what `state` returned."""
        if InvertedFile.INDEX in state:
            self._entries = InvertedFile.restored(self.settings, state)
        else:
            self._entries = self._exact()
            self._entries.restore(state)

    def _train(self, keys: Vectors) -> None:
        if isinstance(self._entries, InvertedFile) or len(keys) < _ENOUGH:
            return
        faiss.omp_set_num_threads(self.threads)
        trained = InvertedFile.trained(self.settings, keys)
        kept = self._entries.state()
        if len(self._entries):
            trained.add(kept["keys"], kept["items"], kept["sessions"])
        self._entries = trained

    def _add(self, keys: Vectors, items: Ints, sessions: Ints) -> None:
        faiss.omp_set_num_threads(self.threads)
        self._entries.add(keys, items, sessions)
        if isinstance(self._entries, ExactMemory) and len(self._entries) >= _ENOUGH:
            self._train(self._entries.state()["keys"])

    def _search(self, queries: Vectors, k: int) -> Neighbours:
        if isinstance(self._entries, InvertedFile):
            normalise = self.settings.normalise
            return self._entries.search(queries, k, threads=self.threads, normalise=normalise)
        return self._entries.search(normalised(queries) if self.settings.normalise else queries, k)

    def _exact(self) -> ExactMemory:
        """Return a memory for keys that are normalised, where they are to be, already."""
        settings = self.settings.model_copy(update={"normalise": False})
        return ExactMemory(settings, self.dimension, self.threads)
