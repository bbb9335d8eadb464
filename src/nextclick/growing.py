"""An array that grows geometrically."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


class Growing(Generic[Scalar]):
    """A numpy array whose first axis grows, at a cost per element that does not grow with it.

    Parameters
    ----------
    initial
        The values to start with; they give the type and the shape of a row.
    fill
        What new rows hold until they are written.

    Examples
    --------
    >>> counts = Growing(np.zeros(2, dtype=np.int64))
    >>> counts.resize(5)
    >>> counts.values[4] = 7
    >>> counts.append(np.array([8, 9]))
    >>> counts.values.tolist()
    [0, 0, 0, 0, 7, 8, 9]
    """

    def __init__(self, initial: NDArray[Scalar], *, fill: float = 0) -> None:
        self._buffer = initial
        self._length = len(initial)
        self._fill = fill

    @classmethod
    def empty(cls, dtype: DTypeLike, *row: int, fill: float = 0) -> Growing[Any]:
        """Return an array of no rows."""
        return Growing(np.empty((0, *row), dtype=dtype), fill=fill)

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> NDArray[Scalar]:
        """The rows there are: a view that is good until the array next grows."""
        return self._buffer[: self._length]

    def resize(self, length: int) -> None:
        """Grow to `length` rows, new ones filled; never shrinks."""
        if length <= self._length:
            return
        if length > len(self._buffer):
            capacity = max(length, 2 * len(self._buffer), 16)
            buffer = np.full((capacity, *self._buffer.shape[1:]), self._fill, self._buffer.dtype)
            buffer[: self._length] = self.values
            self._buffer = buffer
        else:
            self._buffer[self._length : length] = self._fill
        self._length = length

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows at the end."""
        start = self._length
        self.resize(start + len(rows))
        self._buffer[start : self._length] = rows
