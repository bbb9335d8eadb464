"""The sessions that were learned, by the callers' ids for them."""

from __future__ import annotations

import numpy as np

from nextclick.clicks import Ints
from nextclick.growing import Growing


class SessionNumbers:
    """Number sessions as they come; one without an id (-1) is new each time.

    Parameters
    ----------
    ids
        The ids of the sessions that have a number already.

    Examples
    --------
    >>> numbers = SessionNumbers()
    >>> numbers.add(np.array([70, -1, 70, -1])).tolist()
    [0, 1, 0, 2]
    >>> numbers.find(np.array([70, 71, -1])).tolist()
    [0, -1, -1]
    """

    def __init__(self, ids: Ints | None = None) -> None:
        self._ids: Growing[np.int64] = Growing(np.zeros(0, np.int64) if ids is None else ids.copy())
        self._number = {id_: number for number, id_ in enumerate(self.ids.tolist()) if id_ >= 0}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> Ints:
        """The id of each session, -1 for none."""
        return self._ids.values

    def find(self, ids: Ints) -> Ints:
        """Return the number of each session, -1 for those that have none."""
        return np.array([self._number.get(id_, -1) for id_ in ids.tolist()], dtype=np.int64)

    def add(self, ids: Ints) -> Ints:
        """Return the number of each session; those that have none yet get the next ones."""
        numbers = np.empty(len(ids), dtype=np.int64)
        new: list[int] = []
        for i, id_ in enumerate(ids.tolist()):
            number = self._number.get(id_)
            if number is None:
                number = len(self._ids) + len(new)
                new.append(id_)
                if id_ >= 0:
                    self._number[id_] = number
            numbers[i] = number
        self._ids.append(np.array(new, dtype=np.int64))
        return numbers
