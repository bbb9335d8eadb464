"""The contract of an encoder: a network that represents contexts and scores items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from nextclick.encoders.packing import Packing
from nextclick.encoders.unit_rows import unit_rows
from nextclick.settings import Settings


class EncoderSettings(Settings):
    """What every encoder can be told.

    Parameters
    ----------
    kind
        Which encoder: the name by which it is registered.
    embedding
        Dimension of the item embeddings.
    hidden
        Units of the recurrent layer.
    scores
        `"inner"`: an item's score is the inner product of the decoded representation and the item's
        embedding. `"cosine"`: both are normalised first, and the product is multiplied by `scale`.
    scale
        What a cosine is multiplied by: the inverse temperature of the softmax.
    embedding_dropout, representation_dropout
        Share of the entries that training sets to zero.
    """

    kind: str
    embedding: int = 100
    hidden: int = 100
    scores: Literal["inner", "cosine"] = "cosine"
    scale: float = 14.0
    embedding_dropout: float = 0.25
    representation_dropout: float = 0.25


class Encoder(nn.Module, ABC):
    """A session encoder over a catalog that grows.

    A subclass says how embedded clicks become representations (`_encode`) and which `dimension`
    these have; scoring the catalog is the same for all: the representation is decoded by a matrix
    into the space of the item embeddings (NARM's bilinear decoder) and compared with each of them.
    Subclasses are made from their settings alone.

    Encoding is causal: the representation at a position depends on nothing after it. So one pass
    over a whole session gives the representation after every click, and padding behind is harmless.
    """

    settings_type: ClassVar[type[EncoderSettings]]
    label: ClassVar[str]
    """What tables call the encoder."""

    dimension: int

    def __init__(self, settings: EncoderSettings, dimension: int) -> None:
        super().__init__()
        self.settings = settings
        self.dimension = dimension
        self.n_items = 0
        self.temperature = 1.0
        """What scores are divided by, so that their softmax is made of probabilities."""
        self.items = nn.Parameter(torch.empty(0, settings.embedding))
        self.decoder = nn.Linear(dimension, settings.embedding, bias=False)
        self.embedding_dropout = nn.Dropout(settings.embedding_dropout)
        self.representation_dropout = nn.Dropout(settings.representation_dropout)

    def network(self) -> list[nn.Parameter]:
        """Return all parameters but the item embeddings."""
        return [parameter for parameter in self.parameters() if parameter is not self.items]

    @abstractmethod
    def _encode(self, embedded: Tensor) -> Tensor:
        """Turn (batch, length, embedding) into (batch, length, dimension), causally."""

    def forward(self, items: Tensor) -> Tensor:
        """Return the representation after every click of (batch, length) item numbers."""
        return self._encode(self.embedding_dropout(functional.embedding(items, self.items)))

    @abstractmethod
    def encode_last(self, embedded: Tensor, packing: Packing) -> Tensor:
        """Return the representations of packed contexts, of which (clicks, embedding) is given."""

    def queries(self, representations: Tensor) -> Tensor:
        """Return vectors whose inner products with `vectors` are the scores of the items."""
        queries: Tensor = self.decoder(self.representation_dropout(representations))
        if self.settings.scores == "cosine":
            return functional.normalize(queries, dim=-1) * (self.settings.scale / self.temperature)
        return queries if self.temperature == 1 else queries / self.temperature

    def vectors(self) -> Tensor:
        """Return the vector that each item of the catalog is scored by."""
        return self.vectors_of(self.items[: self.n_items])

    def vectors_of(self, embeddings: Tensor) -> Tensor:
        """Return the vectors that items with these embeddings are scored by."""
        return unit_rows(embeddings) if self.settings.scores == "cosine" else embeddings

    @property
    def score_bound(self) -> float | None:
        """What no score can exceed, if there is such a number."""
        bound = self.settings.scale / self.temperature
        return bound if self.settings.scores == "cosine" else None

    @property
    def new_item_spread(self) -> float:
        """The standard deviation that embeddings start with: unit length on average."""
        return float(self.settings.embedding**-0.5)
