"""What is in the bodies of requests and answers."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

LAST_SECOND = 253_402_300_799
"""The end of the year 9999: a later timestamp is in milliseconds."""

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]
Id: TypeAlias = Text | Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""An id is text; an integer is taken as its decimal digits."""

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=LAST_SECOND)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=1_000)]
Categories: TypeAlias = Annotated[list[Text], Meta(max_length=100)]
Items: TypeAlias = Annotated[list[Id], Meta(max_length=1_000)]


class Asked(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Anything that a request may send: unknown fields are refused."""


class ClickBody(Asked, frozen=True):
    """A click: in which session, on which item, when (seconds since 1970; now if left out).

    Of clicks with the same session and `event_id`, only the first is taken: that makes a retry
    harmless.
    """

    session_id: Id
    item_id: Id
    timestamp: Seconds | None = None
    event_id: Text | None = None


class SessionClickBody(Asked, frozen=True):
    """A click of the session that the address names."""

    item_id: Id
    timestamp: Seconds | None = None
    event_id: Text | None = None


class ContextBody(Asked, frozen=True):
    """What was clicked, oldest first."""

    items: Items


class AskBody(Asked, frozen=True):
    """A question for recommendations: for one list of `items`, or for up to 100 `contexts`.

    `exclude` names items not to recommend, `exclude_seen` leaves out what is in the list,
    `categories` allows items of these categories only, and `explain` asks where the scores came
    from.
    """

    items: Items | None = None
    contexts: Annotated[list[ContextBody], Meta(max_length=100)] | None = None
    k: Count = 20
    exclude: Items = []
    exclude_seen: bool = False
    categories: Categories | None = None
    explain: bool = False


class ItemBody(Asked, frozen=True):
    """What is known of an item. What is left out is not known; an item is available."""

    title: Annotated[str, Meta(max_length=1024)] | None = None
    category: Text | None = None
    available: bool = True


class ModelBody(Asked, frozen=True):
    """Which model to load: its directory, on the machine of the service."""

    path: Annotated[str, Meta(min_length=1, max_length=4096)]


class RecommendOptions(Asked, frozen=True):
    """How to recommend: `exclude` and `category` may be given more than once."""

    k: Count = 20
    exclude: tuple[Text, ...] = ()
    exclude_seen: bool = False
    category: tuple[Text, ...] = ()
    explain: bool = False


class ClickOptions(Asked, frozen=True):
    """`recommend` says how many recommendations to answer with; the rest is how."""

    recommend: Annotated[int, Meta(ge=0, le=1_000)] = 0
    exclude: tuple[Text, ...] = ()
    exclude_seen: bool = False
    category: tuple[Text, ...] = ()
    explain: bool = False


class StatsOptions(Asked, frozen=True):
    """`since`: only the samples after this moment; `curve`: the figures of each minute of the day.

    Times are seconds since 1970.
    """

    since: Seconds = 0.0
    curve: bool = False


class NoOptions(Asked, frozen=True):
    """There is nothing to choose."""


class KeptAnswer(msgspec.Struct):
    """How many clicks are on disk now, and how many of the request had been before."""

    accepted: int
    duplicates: int


class BadLine(msgspec.Struct):
    """A line of an import that is not a click, and why."""

    line: int
    message: str


class ImportAnswer(msgspec.Struct):
    """What became of an import; of the lines that are not clicks, the first 100 are listed."""

    accepted: int
    duplicates: int
    refused: int
    errors: list[BadLine]


class VoterAnswer(msgspec.Struct, omit_defaults=True):
    """A past context that voted for an item: what had been clicked, and how long ago."""

    share: float
    items: list[str] | None = None
    seconds: float | None = None


class RecommendedAnswer(msgspec.Struct, omit_defaults=True):
    """A recommended item; with `explain`, how much of the score came from which part."""

    item_id: str
    score: float
    title: str | None = None
    category: str | None = None
    neural: float | None = None
    memory: float | None = None
    sessions: int | None = None
    voters: list[VoterAnswer] | None = None


class RecommendationsAnswer(msgspec.Struct, omit_defaults=True):
    """Recommendations, best first; `cold` if they are what is popular, for want of known clicks.

    `weight` is the gate's weight of the neural part, `model` the version of the model: one more
    with each that is loaded.
    """

    items: list[RecommendedAnswer]
    cold: bool
    model: int
    weight: float | None = None


class BulkAnswer(msgspec.Struct):
    """An answer for each context, in their order."""

    answers: list[RecommendationsAnswer]


class ClickedAnswer(msgspec.Struct, omit_defaults=True):
    """Whether the click had been kept before; and recommendations, if they were asked for."""

    duplicate: bool
    recommendations: RecommendationsAnswer | None = None


class SessionClickAnswer(msgspec.Struct, omit_defaults=True):
    """A click of a session."""

    item_id: str
    timestamp: float
    event_id: str | None = None


class SessionAnswer(msgspec.Struct):
    """The clicks of a session, oldest first."""

    session_id: str
    clicks: list[SessionClickAnswer]


class ItemAnswer(msgspec.Struct):
    """An item as it is known now."""

    item_id: str
    title: str | None
    category: str | None
    available: bool


class SnapshotAnswer(msgspec.Struct):
    """The last record that the snapshot holds, and how long it took."""

    number: int
    seconds: float


class ModelAnswer(msgspec.Struct):
    """The model that serves now."""

    model: int
    label: str


class HealthAnswer(msgspec.Struct):
    """How the service is."""

    status: str
