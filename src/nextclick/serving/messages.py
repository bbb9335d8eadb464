"""What goes into a service and what comes out of it, in external ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from nextclick.errors import BadInputError


class ServiceError(Exception):
    """A request that is in order could not be carried out."""


class DiskFullError(ServiceError):
    """There is no space now, and nothing was kept; try again later. Recommendations go on."""


class ClosedError(ServiceError):
    """The service is stopping, or has stopped."""


class LogFailedError(ServiceError):
    """The disk failed while clicks were written; the service takes no more until started anew.

    Whether these clicks were kept, nobody knows until then: send them again with the same event id.
    """


class LogBusyError(ServiceError):
    """Another program holds the click log for itself; try again."""


class DefectError(ServiceError):
    """A thread of the service has ended at a defect; the rest goes on until it is started anew.

    Of clicks in hand then, nobody knows whether they were kept: send them again, likewise.
    """


class DamagedLogError(BadInputError):
    """A record of the click log is not what was written."""


@dataclass(frozen=True, slots=True)
class NewClick:
    """A click to be kept and learned.

    Parameters
    ----------
    session, item
        External ids, neither of them empty.
    timestamp
        When it happened, in seconds since 1970; `None` for now. It is kept and handed to methods
        that look at times; what counts as before and after is the order in which clicks arrive.
    event_id
        A name that makes a retry harmless: of clicks with the same session and event id, only the
        first is taken.
    """

    session: str
    item: str
    timestamp: float | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a click: it is on disk, under this number.

    Parameters
    ----------
    number
        The number of its record in the log.
    duplicate
        Whether it had been kept before, under this number; then nothing was done.
    """

    number: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class SessionClick:
    """A click of a session, as it was kept."""

    number: int
    item: str
    timestamp: float | None
    arrived: float
    event_id: str | None


@dataclass(frozen=True, slots=True)
class Ask:
    """A question for recommendations.

    Parameters
    ----------
    session
        For whom: a session by its id; one that is not open has no clicks.
    items
        Or for a list of clicked items, oldest first; with `session` too, these come after what that
        session clicked.
    k
        How many items.
    exclude
        Items not to recommend.
    exclude_seen
        Whether to leave out what is in the session, or in the list.
    categories
        If given, recommend items of these categories only.
    explain
        Whether to say where scores came from, and which past contexts voted.
    """

    session: str | None = None
    items: Sequence[str] = ()
    k: int = 20
    exclude: frozenset[str] = frozenset()
    exclude_seen: bool = False
    categories: frozenset[str] | None = None
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Voter:
    """A past context that voted for an item.

    Parameters
    ----------
    items
        What had been clicked then, most recent last; `None` if the model was made by a version that
        did not write it down.
    seconds
        How long ago the recommended item was clicked after it; `None` if that was not here (but in
        training), or too long ago to be in the log.
    share
        Its share of what the memory says.
    number
        The number of the click's record in the log; `None` likewise.
    """

    items: tuple[str, ...] | None
    seconds: float | None
    share: float
    number: int | None = None


class AnsweredItem(msgspec.Struct, frozen=True, gc=False):
    """A recommended item; a struct, as a service makes tens of thousands of them a second.

    Parameters
    ----------
    id, title, category
        What is known of the item.
    score
        The model's score.
    neural, memory
        How much of the score came from the neural part and from memory, if asked to explain and the
        method has these parts.
    sessions
        How many past sessions voted for the item; likewise.
    voters
        Those past contexts that voted most; likewise.
    """

    id: str
    title: str | None
    category: str | None
    score: float
    neural: float | None = None
    memory: float | None = None
    sessions: int | None = None
    voters: tuple[Voter, ...] = ()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """Recommendations, best first.

    Parameters
    ----------
    items
        At most as many as asked for; fewer only where the method or the filters leave no more.
    cold
        Whether nothing in the context was known, so that these are what is popular now.
    weight
        The gate's weight of the neural part; `None` where there is no gate.
    model
        The version of the model: 1 to start with, one more with each that is loaded.
    """

    items: tuple[AnsweredItem, ...]
    cold: bool
    weight: float | None
    model: int


@dataclass(frozen=True, slots=True)
class Item:
    """What is known of an item besides its clicks."""

    id: str
    title: str | None = None
    category: str | None = None
    available: bool = True


@dataclass(frozen=True, slots=True)
class Figures:
    """How good recommendations were: `None` where there was nothing to average."""

    tests: int
    hit_rate: float | None
    reciprocal_rank: float | None


@dataclass(frozen=True, slots=True)
class Quality:
    """HR@20 and MRR@20 of a model over some stretch of time.

    Parameters
    ----------
    model
        Of what the model recommended just before each click.
    neural, memory
        Of what these parts would have recommended alone; `None` where the method has no parts.
    new
        Of the model, on items that it did not know when it was loaded.
    weight_old, weight_new
        The gate's mean weight of the neural part, on old and on new items.
    """

    model: Figures
    neural: Figures | None
    memory: Figures | None
    new: Figures
    weight_old: float | None
    weight_new: float | None


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A stretch of time on the curves: when it began, and the figures of the clicks in it."""

    time: float
    seconds: float
    quality: Quality
    shadow: Quality | None


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item first clicked within the last hour.

    Parameters
    ----------
    id, title
        Which.
    first_clicked
        When its first click arrived.
    seconds_to_recommended
        How long after that it was first in an answer; `None` if it was not yet.
    """

    id: str
    title: str | None
    first_clicked: float
    seconds_to_recommended: float | None


@dataclass(frozen=True, slots=True)
class LearnerStats:
    """A model that learns, and how well it does.

    Parameters
    ----------
    label
        The method, as tables call it.
    items
        How many items it knows.
    memory_entries
        How many transitions its memory holds; `None` where it has none.
    steps
        How many learning steps it took since it was loaded.
    hour, start
        Quality over the last hour, and since the model was loaded.
    """

    label: str
    items: int
    memory_entries: int | None
    steps: int
    hour: Quality
    start: Quality


@dataclass(frozen=True, slots=True)
class Stats:
    """How a service is doing.

    Parameters
    ----------
    clicks, duplicates, refused
        Clicks in the log since the state began; duplicates and refusals since this start.
    recommendations
        Answers since this start.
    sessions
        Open sessions.
    queue
        Questions waiting for an answer.
    log_number
        The number of the last record on disk.
    learned_number
        The number of the last record that the learner took.
    lag_clicks, lag_seconds
        How far learning is behind the log: in records, and in seconds since the oldest click that
        no recommendation can know of yet.
    write_every, early_groups
        How many transitions are tested together; how many such groups were closed before they were
        full, since this start, lest they wait too long.
    model_version
        As in `Answer.model`.
    model, shadow
        The model that serves, and the one that only learns beside it.
    curve
        Figures by the minute, oldest first.
    new_items
        Items first clicked in the last hour, newest first.
    snapshot_number, snapshot_time
        The last record that the newest snapshot holds, and when it was written.
    learning_error, writing_error
        What stopped the learner, or the writer, if something did; recommendations go on meanwhile.
    defects
        Which threads have ended at a defect: the service is to be started again.
    problems
        What else went wrong, and did not stop anything: a damaged snapshot that was passed over, a
        snapshot that could not be written, a damaged record that was learned long ago.
    """

    clicks: int
    duplicates: int
    refused: int
    recommendations: int
    sessions: int
    queue: int
    log_number: int
    learned_number: int
    lag_clicks: int
    lag_seconds: float
    write_every: int
    early_groups: int
    model_version: int
    model: LearnerStats
    shadow: LearnerStats | None
    curve: tuple[CurvePoint, ...]
    new_items: tuple[NewItem, ...]
    snapshot_number: int | None
    snapshot_time: float | None
    learning_error: str | None = None
    writing_error: str | None = None
    defects: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
