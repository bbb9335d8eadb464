"""An array that grows at its end and is forgotten from its beginning."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nextclick.growing import Growing


class Window:
    """Rows in the order they came: appended behind, dropped in front, each at a constant cost.

    Examples
    --------
    >>> window = Window(np.empty(0, np.int32))
    >>> window.append(np.array([4, 5, 6]))
    >>> window.drop(2)
    >>> window.append(np.array([7]))
    >>> window.values.tolist()
    [6, 7]
    """

    def __init__(self, rows: NDArray[Any]) -> None:
        self._rows: Growing[Any] = Growing(rows)
        self._dropped = 0

    @classmethod
    def empty(cls, dtype: DTypeLike, *row: int) -> Window:
        """Return a window of no rows."""
        return cls(np.empty((0, *row), dtype=dtype))

    def __len__(self) -> int:
        return len(self._rows) - self._dropped

    @property
    def values(self) -> NDArray[Any]:
        """The rows there are: a view that is good until the window next changes."""
        return self._rows.values[self._dropped :]

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows behind."""
        self._rows.append(rows)

    def drop(self, count: int) -> None:
        """Forget the first rows."""
        self._dropped += count
        # Moving what is left only when it is the smaller part keeps the cost per row constant.
        if self._dropped > len(self):
            self._rows = Growing(self.values.copy())
            self._dropped = 0
