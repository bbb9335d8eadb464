"""NARM: a recurrent network with attention over the session (Li and others, CIKM 2017)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from nextclick.encoders.base import Encoder, EncoderSettings
from nextclick.encoders.packing import Packing
from nextclick.encoders.recurrence import states_of


class NarmSettings(EncoderSettings):
    """Settings of NARM: those of every encoder."""

    kind: Literal["narm"] = "narm"


class Narm(Encoder):
    """The last state of a GRU, beside an attention-weighted sum of all its states.

    With h_j the GRU's state after click j, the representation after click t is

        c_t = [h_t ; Σ_{j≤t} α_tj h_j],    α_tj = v · σ(A₁ h_t + A₂ h_j)

    The weights are not normalised over j, as in the original.
    """

    settings_type = NarmSettings
    label = "NARM"

    def __init__(self, settings: NarmSettings) -> None:
        hidden = settings.hidden
        super().__init__(settings, dimension=2 * hidden)
        self.gru = nn.GRU(settings.embedding, hidden, batch_first=True)
        self.now = nn.Linear(hidden, hidden, bias=False)  # A1
        self.past = nn.Linear(hidden, hidden, bias=False)  # A2
        self.weight = nn.Linear(hidden, 1, bias=False)  # v

    def _encode(self, embedded: Tensor) -> Tensor:
        states, _ = self.gru(embedded)
        now, past = self.now(states), self.past(states)
        pairs = torch.sigmoid(now.unsqueeze(2) + past.unsqueeze(1))  # (batch, t, j, hidden)
        attention = self.weight(pairs).squeeze(-1).tril()
        return torch.cat([states, attention @ states], dim=-1)

    def encode_last(self, embedded: Tensor, packing: Packing) -> Tensor:
        """Return the representations of packed contexts, of which (clicks, embedding) is given."""
        states = states_of(self.gru, embedded, packing)
        state = states[packing.last]
        pairs = torch.sigmoid(self.now(state)[packing.owners] + self.past(states))
        recalled = torch.zeros_like(state).index_add(0, packing.owners, self.weight(pairs) * states)
        return torch.cat([state, recalled], dim=-1)
