"""GRU4Rec: a recurrent network over the clicks (Hidasi and others, ICLR 2016; CIKM 2018)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from nextclick.encoders.base import Encoder, EncoderSettings
from nextclick.encoders.packing import Packing
from nextclick.encoders.recurrence import states_of


class Gru4RecSettings(EncoderSettings):
    """Settings of GRU4Rec: those of every encoder."""

    kind: Literal["gru4rec"] = "gru4rec"


class Gru4Rec(Encoder):
    """The state of a GRU after each click: c_t = h_t.

    Items are scored by their input embeddings (the "constrained embedding" of the authors' later
    work), through the decoder that all encoders here share.
    """

    settings_type = Gru4RecSettings
    label = "GRU4Rec"

    def __init__(self, settings: Gru4RecSettings) -> None:
        super().__init__(settings, dimension=settings.hidden)
        self.gru = nn.GRU(settings.embedding, settings.hidden, batch_first=True)

    def _encode(self, embedded: Tensor) -> Tensor:
        states: Tensor = self.gru(embedded)[0]
        return states

    def encode_last(self, embedded: Tensor, packing: Packing) -> Tensor:
        """Return the representations of packed contexts, of which (clicks, embedding) is given."""
        return states_of(self.gru, embedded, packing)[packing.last]
