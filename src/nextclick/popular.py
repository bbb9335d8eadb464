"""How popular items are: what is recommended when nothing is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import Floats, Ints
from nextclick.growing import Growing


class PopularItems:
    """How popular each item is, recent clicks counting more.

    Parameters
    ----------
    half_life
        After how many further clicks a click counts half; `None` to count all alike.

    Examples
    --------
    >>> popular = PopularItems()
    >>> popular.resize(3)
    >>> popular.add(np.array([2, 1, 2]))
    >>> popular.top(2)[0].tolist()
    [2, 1]
    """

    def __init__(self, half_life: float | None = 100_000) -> None:
        self.half_life = half_life
        self._weights: Growing[np.float64] = Growing(np.zeros(0))
        self._unit = 1.0
        self._ranking: Ints | None = None

    def resize(self, n_items: int) -> None:
        """Make room for items up to `n_items`."""
        self._weights.resize(n_items)
        self._ranking = None

    def add(self, items: Ints) -> None:
        """Count clicks, given in time order."""
        # Growing the unit is the same as shrinking all that was counted before.
        if self.half_life is None:
            np.add.at(self._weights.values, items, 1.0)
        else:
            for start in range(0, len(items), 10_000):
                chunk = items[start : start + 10_000]
                growth = 2.0 ** (np.arange(1, len(chunk) + 1) / self.half_life)
                np.add.at(self._weights.values, chunk, self._unit * growth)
                self._unit *= float(growth[-1])
                if self._unit > 1e100:
                    self._weights.values[:] /= self._unit
                    self._unit = 1.0
        self._ranking = None

    def top(self, k: int) -> tuple[Ints, Floats]:
        """Return the `k` most popular items and their shares of all clicks."""
        weights = self._weights.values
        if self._ranking is None:
            self._ranking = np.argsort(-weights, kind="stable")
        best = self._ranking[:k]
        return best, weights[best] / max(weights.sum(), 1e-300)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the counts."""
        return {"weights": self._weights.values, "unit": np.array(self._unit)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take up what `state` returned."""
        self._weights = Growing(state["weights"])
        self._unit = float(state["unit"])
        self._ranking = None
