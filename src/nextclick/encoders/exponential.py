"""An exponential that a compiled loop computes for many numbers at once."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"}, inline="always")
def exponential(x: np.float32) -> np.float32:
    """Return exp(x) for x of at most 0, to 2e-7 of it, in steps that the processor does 16 at once.

    Examples
    --------
    >>> round(float(exponential(np.float32(-1))), 5)
    0.36788
    """
    # 2^t = 2^whole 2^rest, the latter by a polynomial for rests of -0.5 to 0.5.
    t = max(x * np.float32(1.442695041), np.float32(-126))
    whole = np.floor(t + np.float32(0.5))
    rest = t - whole
    power = np.float32(1.535336188e-4)
    power = power * rest + np.float32(1.339887440e-3)
    power = power * rest + np.float32(9.618437357e-3)
    power = power * rest + np.float32(5.550332548e-2)
    power = power * rest + np.float32(2.402264791e-1)
    power = power * rest + np.float32(6.931472028e-1)
    power = power * rest + np.float32(1)
    scale = (np.int32(whole) + np.int32(127)) << np.int32(23)
    product: np.float32 = power * np.int32(scale).view(np.float32)
    return product
