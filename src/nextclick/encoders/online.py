"""Online learning: one gradient step on a batch of transitions, computed aside and taken later."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from nextclick.adam import AdamStep
from nextclick.clicks import Contexts, Ints, Mask
from nextclick.encoders.base import Encoder
from nextclick.encoders.item_adam import AdamState
from nextclick.encoders.item_vectors import Extra, ItemVectors
from nextclick.encoders.packing import Packing
from nextclick.encoders.softmax import Scratch, Softmax, cross_entropy
from nextclick.settings import Settings


class OnlineSettings(Settings):
    """How an encoder goes on learning from single batches.

    Parameters
    ----------
    learning_rate
        Adam's learning rate. Its moments start afresh where training ends.
    item_learning_rate
        The item embeddings' learning rate by plain gradient descent, which moves the items that a
        batch is about and hardly any other; `None` leaves them to Adam too, which moves all of them
        (the paper).
    new_item_pull
        Where the embedding of an item starts that is clicked for the first time: the cosine of its
        angle to the contexts that it was clicked after. At 0 it starts anywhere; at 1 these
        contexts recommend it at once, before all others.
    """

    learning_rate: float = 5e-4
    item_learning_rate: float | None = 1.5
    new_item_pull: float = Field(default=0.0, ge=0, le=1)

    def optimizer(self, encoder: Encoder) -> torch.optim.Adam:
        """Return a new optimizer of what is left to Adam."""
        by_adam = encoder.parameters() if self.item_learning_rate is None else encoder.network()
        return torch.optim.Adam(by_adam, lr=self.learning_rate, fused=True)


@dataclass(frozen=True, eq=False)
class Batch:
    """Contexts of known items, none of them empty, and the items clicked next.

    Parameters
    ----------
    contexts
        The contexts.
    packing
        The same as tensors.
    clicked
        The items clicked next, as a tensor.
    """

    contexts: Contexts
    packing: Packing
    clicked: Tensor

    @classmethod
    def of(cls, contexts: Contexts, clicked: Ints, device: torch.device) -> Batch:
        """Make the tensors of a batch."""
        return cls(contexts, Packing.of(contexts, device), torch.from_numpy(clicked).to(device))


@dataclass(eq=False)
class Spare:
    """Memory to plan a step in: to get tens of megabytes anew takes as long as a product of them.

    Parameters
    ----------
    scratch
        Where scores are computed.
    vectors, adam
        What the last step made obsolete.
    """

    scratch: Scratch = field(default_factory=Scratch)
    vectors: ItemVectors | None = None
    adam: AdamState | None = None


@dataclass(frozen=True, eq=False)
class PlannedStep:
    """What a step of an encoder leads to.

    Parameters
    ----------
    by_adam
        The step of what Adam moves.
    items
        All embeddings after the step.
    vectors
        What items are scored by then, if that is kept ready.
    adam
        What Adam knows of the embeddings then, if it moved them and `by_adam` does not.
    """

    by_adam: AdamStep
    items: Tensor
    vectors: ItemVectors | None
    adam: AdamState | None = None


def plan_step(
    encoder: Encoder,
    vectors: ItemVectors,
    optimizer: torch.optim.Adam,
    batch: Batch,
    n_items: int,
    rate: float | None,
    spare: Spare,
) -> PlannedStep:
    """Plan a step on the mean cross-entropy of a batch, on the CPU.

    The same as autograd would do with `cross_entropy`, in a few passes over the items: these move
    by plain descent or, without a rate, by Adam.
    """
    embedded = functional.embedding(batch.packing.items, vectors.rows).requires_grad_()
    queries = encoder.queries(encoder.encode_last(embedded, batch.packing))
    asked, n = queries.detach(), len(queries)
    columns = vectors.wide(n_items)
    said = Softmax.of(asked, columns, encoder.score_bound, spare.scratch)
    of_queries = (said.means - vectors.units(batch.clicked.numpy())) / n
    of_embedded, *of_network = torch.autograd.grad(
        queries, [embedded, *encoder.network()], of_queries
    )
    extra = Extra.of(batch.clicked, asked / -n, batch.packing.items, of_embedded)
    shares = (asked / (n * said.sums)).to(columns.dtype)
    by_adam = AdamStep(optimizer, of_network, parameters=encoder.network())
    if rate is not None:
        moved = vectors.descended(said.exponents, shares, extra, rate, spare.vectors)
        return PlannedStep(by_adam, moved.rows, moved)
    known = AdamState.of(optimizer, encoder.items)
    moved, ahead = vectors.adapted(
        said.exponents, shares, extra, known, (spare.vectors, spare.adam)
    )
    return PlannedStep(by_adam, moved.rows, moved, ahead)


def plan_by_autograd(
    encoder: Encoder,
    rows: Tensor,
    optimizer: torch.optim.Adam,
    batch: Batch,
    n_items: int,
    rate: float | None,
    *,
    half: bool,
) -> PlannedStep:
    """Plan the same step on any device; without a rate, by Adam for the items as well.

    `rows` are the item embeddings before the step.
    """
    items = rows[:n_items].requires_grad_()
    embedded = functional.embedding(batch.packing.items, items)
    queries = encoder.queries(encoder.encode_last(embedded, batch.packing))
    loss = cross_entropy(
        queries, encoder.vectors_of(items), batch.clicked, bound=encoder.score_bound, half=half
    )
    network = encoder.network()
    of_items, *of_network = torch.autograd.grad(loss, [items, *network])
    gradient = torch.zeros_like(rows)
    gradient[:n_items] = of_items
    if rate is not None:
        return PlannedStep(AdamStep(optimizer, of_network), rows - rate * gradient, None)
    step = AdamStep(optimizer, [gradient, *of_network], [rows, *network])
    return PlannedStep(step, step.ahead[0], None)


@torch.no_grad()
def placed(
    encoder: Encoder, rows: Tensor, batch: Batch, new: Mask, pull: float, n_items: int
) -> tuple[Tensor, Ints]:
    """Return embeddings in which new items are turned towards their contexts, and which these are.

    Parameters
    ----------
    encoder, rows
        The network, and the embeddings of its items, which stay as they are.
    batch
        What is to be learned.
    new
        Which of its transitions are to an item never clicked before.
    pull
        The cosine of an item's angle to its contexts.
    n_items
        How many items there are.
    """
    chosen = torch.from_numpy(np.flatnonzero(new)).to(rows.device)
    packing = Packing.of(batch.contexts[new], rows.device)
    queries = encoder.queries(
        encoder.encode_last(functional.embedding(packing.items, rows), packing)
    )
    items, place = torch.unique(batch.clicked[chosen], return_inverse=True)
    directions = queries.new_zeros(len(items), queries.shape[1])
    directions.index_add_(0, place, functional.normalize(queries, dim=1))
    directions = functional.normalize(directions, dim=1)
    aside = rows[items]
    aside -= (aside * directions).sum(1, keepdim=True) * directions
    turned = pull * directions + (1 - pull**2) ** 0.5 * functional.normalize(aside, dim=1)
    moved = rows.clone()
    moved[items] = turned * rows[:n_items].norm(dim=1).mean()
    return moved, items.cpu().numpy()
