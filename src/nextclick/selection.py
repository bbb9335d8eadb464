"""The smallest of many, in compiled code."""

from __future__ import annotations

from typing import Any

import numba
from numpy.typing import NDArray


@numba.njit(cache=True, nogil=True)
def keep_smallest(values: NDArray[Any], beside: NDArray[Any] | None, n: int, k: int) -> None:
    """Bring the `k` smallest of the first `n` values to the front, the largest of them last.

    Parameters
    ----------
    values
        Are put into another order.
    beside
        What goes with each of them, and is moved along.
    n, k
        How many there are, and how many are wanted; no more than there are.

    Examples
    --------
    >>> import numpy as np
    >>> values, beside = np.array([3, 1, 4, 2]), np.array([30, 10, 40, 20])
    >>> keep_smallest(values, beside, 4, 2)
    >>> values[:2].tolist(), beside[:2].tolist()
    ([1, 2], [10, 20])
    """
    low, high = 0, n - 1
    while low < high:
        pivot = values[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                if beside is not None:
                    beside[left], beside[right] = beside[right], beside[left]
                left += 1
                right -= 1
        if k - 1 <= right:
            high = right
        elif k - 1 >= left:
            low = left
        else:
            break
