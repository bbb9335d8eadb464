"""How contexts and transitions are handed to the compiled parts."""

from __future__ import annotations

from typing import NamedTuple

from nextclick.clicks import Ints


class Questions(NamedTuple):
    """Contexts, none of them empty, and the number of each one's own session, -1 if not known.

    A context's own session is no neighbour of it.
    """

    items: Ints
    starts: Ints
    ends: Ints
    own: Ints


class Answers(NamedTuple):
    """Transitions, and the number of each one's session."""

    items: Ints
    starts: Ints
    ends: Ints
    sessions: Ints
    targets: Ints
