"""What items are scored by, kept ready beside their embeddings, and moved in one pass over them.

A catalog's embeddings are many megabytes, and a step of learning moves them all, most of them a
little. What it costs is how often it goes through memory; so here all that is done to a row is done
while it is in the processor's nearest cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nextclick.clicks import Ints
from nextclick.encoders.item_adam import AdamState
from nextclick.encoders.sifting import ItemScores, Sifted, sift

Rows = NDArray[np.float32]
Bits = NDArray[np.uint16]

_AT_ONCE = 4096
"""Rows whose gradients are computed at once: they fit the second cache."""


@dataclass(frozen=True, eq=False)
class ItemVectors:
    """The vectors that items are scored by, on the CPU: embeddings, and a factor for each.

    Parameters
    ----------
    rows
        The embeddings, with room for more behind.
    scales
        What each row is multiplied by: 1 divided by its length if scores are cosines, else 1.
    columns
        The vectors again in bfloat16, for products of matrices: with a one behind each vector, so
        that a product also adds up, and then zeros, up to a width that the processor likes. `None`
        where bfloat16 is not used.
    cosine
        Whether scores are cosines.
    """

    rows: Tensor
    scales: Rows
    columns: Tensor | None
    cosine: bool

    @classmethod
    def of(cls, rows: Tensor, *, cosine: bool, half: bool) -> ItemVectors:
        """Make the vectors of all these embeddings.

        Examples
        --------
        >>> made = ItemVectors.of(torch.tensor([[3.0, 4.0]]), cosine=True, half=True)
        >>> made.scales.tolist(), made.columns[0, :3].tolist()
        ([0.20000000298023224], [0.6015625, 0.80078125, 1.0])
        """
        vectors = cls._empty(rows.detach(), cosine=cosine, half=half)
        vectors.lay_out(np.arange(len(rows)))
        return vectors

    @classmethod
    def _empty(cls, rows: Tensor, *, cosine: bool, half: bool) -> ItemVectors:
        width = aligned(rows.shape[1] + 1)
        columns = rows.new_empty(len(rows), width, dtype=torch.bfloat16) if half else None
        return cls(rows, np.empty(len(rows), dtype=np.float32), columns, cosine)

    def lay_out(self, places: Ints) -> None:
        """Make the vectors of these rows anew."""
        _lay_out(self.rows.numpy(), places, self.scales, self._bits(), self.cosine)

    def with_rows(self, rows: Tensor, places: Ints) -> ItemVectors:
        """Return the vectors of embeddings that differ from these in some places only."""
        columns = None if self.columns is None else self.columns.clone()
        changed = ItemVectors(rows, self.scales.copy(), columns, self.cosine)
        changed.lay_out(places)
        return changed

    def units(self, places: Ints) -> Tensor:
        """Return the vectors of some items."""
        chosen = torch.from_numpy(places)
        return self.rows[chosen] * torch.from_numpy(self.scales[places])[:, None]

    def best(self, queries: Tensor, n_items: int, k: int) -> Sifted:
        """Return the `k` best of the first items for each query, and its log-sum-exp."""
        return sift(queries, self.rows[:n_items], self.scales, k)

    def scores(self, queries: Tensor, n_items: int) -> ItemScores:
        """Return what gives the scores of any of the first items."""
        return ItemScores(queries.numpy(), self.rows.numpy()[:n_items], self.scales)

    def wide(self, n_items: int) -> Tensor:
        """Return the first items as `columns` has them; in float32 where there are none."""
        if self.columns is not None:
            return self.columns[:n_items]
        columns = wide(self.rows[:n_items], torch.float32)
        width = self.rows.shape[1]
        torch.mul(
            self.rows[:n_items],
            torch.from_numpy(self.scales[:n_items])[:, None],
            out=columns[:, :width],
        )
        return columns

    def descended(
        self,
        exponents: Tensor,
        queries: Tensor,
        extra: Extra,
        rate: float,
        spare: ItemVectors | None = None,
    ) -> ItemVectors:
        """Return the vectors after a step of plain gradient descent; these stay as they are.

        Parameters
        ----------
        exponents, queries
            (items, n) and (n, width): their product is the gradient with respect to the vectors.
        extra
            More gradients, of a few items.
        rate
            The learning rate.
        spare
            Vectors that are no longer needed: the new ones take their memory, if they fit.
        """
        moved = self._to_be_moved(spare)
        rows, new_rows, bits = self.rows.numpy(), moved.rows.numpy(), moved._bits()
        product = exponents.new_empty(_AT_ONCE, queries.shape[1])
        gradients = queries.new_empty(_AT_ONCE, queries.shape[1], dtype=torch.float32)
        for start in range(0, len(exponents), _AT_ONCE):
            stop = min(start + _AT_ONCE, len(exponents))
            torch.mm(exponents[start:stop], queries, out=product[: stop - start])
            gradients.copy_(product)
            how = start, stop, rate, self.cosine
            _descend(rows, self.scales, gradients.numpy(), how, new_rows, moved.scales, bits)
        direct = extra.of_rows + self._through(extra)
        moved.rows[torch.from_numpy(extra.items)] -= rate * direct
        moved.lay_out(extra.items)
        return moved

    def adapted(
        self,
        exponents: Tensor,
        queries: Tensor,
        extra: Extra,
        adam: AdamState,
        spare: tuple[ItemVectors | None, AdamState | None] = (None, None),
    ) -> tuple[ItemVectors, AdamState]:
        """Return the vectors, and what Adam knows, after a step of Adam; these stay as they are.

        The parameters are those of `descended`, with what Adam knows now.
        """
        n = len(exponents)
        moved, ahead = self._to_be_moved(spare[0]), adam.ahead(n, spare[1])
        rows, new_rows, bits = self.rows.numpy(), moved.rows.numpy(), moved._bits()
        direct = extra.of_rows + self._through(extra)
        product = exponents.new_empty(_AT_ONCE, queries.shape[1])
        gradients = queries.new_empty(_AT_ONCE, queries.shape[1], dtype=torch.float32)
        for start in range(0, n, _AT_ONCE):
            stop = min(start + _AT_ONCE, n)
            here = gradients[: stop - start]
            torch.mm(exponents[start:stop], queries, out=product[: stop - start])
            here.copy_(product[: stop - start])
            if self.cosine:
                _project(rows, self.scales, start, here.numpy())
            few = slice(*np.searchsorted(extra.items, (start, stop)))
            here[torch.from_numpy(extra.items[few] - start)] += direct[few]
            adam.move(rows, here.numpy(), start, ahead, new_rows)
            _lay_out(new_rows, np.arange(start, stop), moved.scales, bits, self.cosine)
        return moved, ahead

    def _to_be_moved(self, spare: ItemVectors | None) -> ItemVectors:
        if spare is not None and spare is not self and spare.rows.shape == self.rows.shape:
            return spare
        rows = torch.empty_like(self.rows)
        return ItemVectors._empty(rows, cosine=self.cosine, half=self.columns is not None)

    def _through(self, extra: Extra) -> Tensor:
        """Return gradients with respect to rows for those with respect to vectors."""
        if not self.cosine:
            return extra.of_vectors
        units = self.units(extra.items)
        along = (extra.of_vectors * units).sum(1, keepdim=True)
        scales = torch.from_numpy(self.scales[extra.items])[:, None]
        return (extra.of_vectors - along * units) * scales

    def _bits(self) -> Bits:
        """Return the columns as numbers that numba knows."""
        if self.columns is None:
            return np.empty((0, 0), dtype=np.uint16)
        return self.columns.view(torch.uint16).numpy()


@dataclass(frozen=True, eq=False)
class Extra:
    """Gradients of a few items, each of them once: of their vectors, and of their embeddings."""

    items: Ints
    of_vectors: Tensor
    of_rows: Tensor

    @classmethod
    def of(cls, clicked: Tensor, of_vectors: Tensor, seen: Tensor, of_rows: Tensor) -> Extra:
        """Add up the gradients of items that may come several times.

        Examples
        --------
        >>> clicked, seen = torch.tensor([5]), torch.tensor([3, 3])
        >>> added = Extra.of(clicked, torch.ones(1, 2), seen, torch.ones(2, 2))
        >>> added.items.tolist(), added.of_vectors.tolist(), added.of_rows.tolist()
        ([3, 5], [[0.0, 0.0], [1.0, 1.0]], [[2.0, 2.0], [0.0, 0.0]])
        """
        items, place = torch.unique(torch.cat([clicked, seen]), return_inverse=True)
        sums = of_rows.new_zeros(2, len(items), of_rows.shape[1])
        sums[0].index_add_(0, place[: len(clicked)], of_vectors)
        sums[1].index_add_(0, place[len(clicked) :], of_rows)
        return cls(items.numpy(), sums[0], sums[1])


def wide(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Return zeros of the shape that `columns` has for these rows, with its column of ones."""
    width = rows.shape[1]
    columns = rows.new_zeros(len(rows), aligned(width + 1), dtype=dtype)
    columns[:, width] = 1
    return columns


def aligned(columns: int) -> int:
    """Return the next multiple of 16: what the bfloat16 kernels like."""
    return -(-columns // 16) * 16


_FAST = {"reassoc", "contract", "nsz"}
"""Sums may be added up several terms at a time."""


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _scale(row: Rows) -> np.float32:
    square = np.float32(0)
    for dimension in range(len(row)):
        square += row[dimension] * row[dimension]
    scale: np.float32 = np.float32(1) / max(np.sqrt(square), np.float32(1e-12))
    return scale


@numba.njit(cache=True, nogil=True)
def _unit_before_ones(width: int, bits: Bits) -> Rows:
    """Return room for a vector, with what stands behind it in `columns`."""
    unit = np.zeros(max(width, bits.shape[1]), dtype=np.float32)
    if bits.shape[1]:
        unit[width] = 1
    return unit


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _multiply(row: Rows, scale: np.float32, product: Rows) -> None:
    for dimension in range(len(row)):
        product[dimension] = row[dimension] * scale


@numba.njit(cache=True, nogil=True)
def _round(whole: NDArray[np.uint32], half: Bits) -> None:
    """Round to the nearest numbers of half the bits, and of two to the even one."""
    for dimension in range(len(half)):
        value = whole[dimension]
        even = np.uint32(np.uint32(value >> np.uint32(16)) & np.uint32(1))
        nearest = np.uint32(value + np.uint32(even + np.uint32(0x7FFF)))  # not in 64 bits
        half[dimension] = np.uint16(np.uint32(nearest >> np.uint32(16)))


@numba.njit(cache=True, nogil=True)
def _lay_out(rows: Rows, places: Ints, scales: Rows, bits: Bits, cosine: bool) -> None:
    unit = _unit_before_ones(rows.shape[1], bits)
    for place in places:
        scales[place] = _scale(rows[place]) if cosine else np.float32(1)
        if len(bits):
            _multiply(rows[place], scales[place], unit)
            _round(unit.view(np.uint32), bits[place])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _project(rows: Rows, scales: Rows, start: int, gradients: Rows) -> None:
    """Make gradients of rows of those of their directions."""
    for place in range(len(gradients)):
        row, gradient = rows[start + place], gradients[place]
        scale, along = scales[start + place], np.float32(0)
        for dimension in range(len(row)):
            along += row[dimension] * gradient[dimension]
        along *= scale * scale
        for dimension in range(len(row)):
            gradient[dimension] = scale * (gradient[dimension] - along * row[dimension])


@numba.njit(cache=True, nogil=True, fastmath=_FAST)
def _descend(
    rows: Rows,
    scales: Rows,
    gradients: Rows,
    how: tuple[int, int, float, bool],
    moved: Rows,
    new_scales: Rows,
    bits: Bits,
) -> None:
    start, stop, rate, cosine = how
    unit = _unit_before_ones(rows.shape[1], bits)
    whole = unit.view(np.uint32)
    for place in range(start, stop):
        row, gradient, new = rows[place], gradients[place - start], moved[place]
        scale, along = scales[place], np.float32(0)
        if cosine:  # what is along the row does not change its direction
            for dimension in range(len(row)):
                along += row[dimension] * gradient[dimension]
            along *= scale * scale
        step = np.float32(rate) * scale
        for dimension in range(len(row)):
            new[dimension] = row[dimension] - step * (gradient[dimension] - along * row[dimension])
        new_scales[place] = _scale(new) if cosine else np.float32(1)
        if len(bits):
            _multiply(new, new_scales[place], unit)
            _round(whole, bits[place])
