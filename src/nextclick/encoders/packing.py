"""Contexts of different lengths without anything to fill them up, as a recurrent layer reads them.

The longest context of a batch has 20 clicks, all together have 4 on average: filled up to the
longest, four of five clicks would be computed in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import torch
from torch import Tensor

from nextclick.clicks import Contexts, Ints


@dataclass(frozen=True, eq=False)
class Packing:
    """The clicks of contexts, none of them empty: all first ones, all second ones, and so on.

    Each time the contexts come in the same order, the longest first.

    Parameters
    ----------
    items
        The clicks, as tensors like all that follows but the sizes.
    owners
        The context of each click.
    last
        Where each context's last click is.
    sizes
        How many first clicks there are, how many second ones, and so on.

    Examples
    --------
    >>> packing = Packing.of(Contexts.of([[7], [4, 5, 6]]), torch.device("cpu"))
    >>> packing.items.tolist(), packing.owners.tolist(), packing.sizes.tolist()
    ([4, 7, 5, 6], [1, 0, 1, 1], [2, 1, 1])
    >>> packing.last.tolist()
    [1, 3]
    """

    items: Tensor
    owners: Tensor
    last: Tensor
    sizes: Ints

    @classmethod
    def of(cls, contexts: Contexts, device: torch.device) -> Packing:
        """Pack contexts for a device."""
        lengths = contexts.lengths
        order = np.argsort(-lengths, kind="stable")
        sizes = np.zeros(lengths.max(initial=0), dtype=np.int64)
        packed = np.empty((2, lengths.sum()), dtype=np.int64)
        last = np.empty(len(contexts), dtype=np.int64)
        _pack(contexts.items, contexts.starts, lengths, order, sizes, packed, last)
        items, owners = torch.from_numpy(packed).to(device)
        return cls(items, owners, torch.from_numpy(last).to(device), sizes)


@numba.njit(cache=True, nogil=True)
def _pack(
    items: Ints, starts: Ints, lengths: Ints, order: Ints, sizes: Ints, packed: Ints, last: Ints
) -> None:
    place, longest = 0, len(order)
    for time in range(len(sizes)):
        while lengths[order[longest - 1]] <= time:
            longest -= 1
        sizes[time] = longest
        for context in order[:longest]:
            packed[0, place] = items[starts[context] + time]
            packed[1, place] = context
            last[context] = place
            place += 1
