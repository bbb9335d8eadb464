"""Products of matrices in float32."""

from __future__ import annotations

import torch
from torch import Tensor


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``left @ right.T``, plus a bias for each column; not for gradients.

    What torch takes for float32 on the CPU uses half of what an AMD with AVX-512 can do; oneDNN,
    which it takes for other things, uses it all.

    Examples
    --------
    >>> product(torch.ones(1, 2), torch.ones(3, 2), torch.tensor([0.0, 1.0, 2.0])).tolist()
    [[2.0, 3.0, 4.0]]
    """
    if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call] # no types in torch
        made: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
        return made
    return torch.nn.functional.linear(left, right, bias)
