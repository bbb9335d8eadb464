"""How a service is doing: what stands in `Stats`."""

from __future__ import annotations

from nextclick.serving.keeper import Keeper
from nextclick.serving.learner import Learner
from nextclick.serving.live import Live
from nextclick.serving.messages import CurvePoint, LearnerStats, NewItem, Stats
from nextclick.serving.pupil import Pupil
from nextclick.serving.quality import MINUTE
from nextclick.serving.server import Server
from nextclick.serving.writer import Writer


def look(live: Live, writer: Writer, learner: Learner, server: Server, keeper: Keeper) -> Stats:
    """Return how the parts of a service are doing."""
    now = writer.log.clock.now()
    learning, last = learner.learning, writer.log.last
    pupil, version = learning.serving
    shadow = learning.shadow
    return Stats(
        clicks=live.clicks,
        duplicates=writer.duplicates,
        refused=writer.refused,
        recommendations=server.answered,
        sessions=len(live.sessions),
        queue=server.waiting,
        log_number=last,
        learned_number=learning.position,
        lag_clicks=max(0, last - learning.position),
        lag_seconds=learner.lag_seconds(now),
        write_every=learning.rules["write_every"],
        early_groups=learning.early_groups,
        model_version=version,
        model=_learner(pupil, now),
        shadow=None if shadow is None else _learner(shadow, now),
        curve=_curve(pupil, shadow),
        new_items=tuple(
            NewItem(item, _title(item, live, pupil), clicked, server.first_recommended.get(item))
            for item, clicked in reversed(list(learning.new_items.items()))
            if now - clicked <= 60 * MINUTE
        ),
        snapshot_number=keeper.position,
        snapshot_time=keeper.time,
        learning_error=learner.error,
        writing_error=writer.error,
        defects=tuple(
            part.worker.defect
            for part in (writer, learner, server)
            if part.worker.defect is not None
        ),
        problems=tuple(keeper.state.problems),
    )


def _learner(pupil: Pupil, now: float) -> LearnerStats:
    return LearnerStats(
        pupil.model.label,
        pupil.model.n_items,
        pupil.memory_entries,
        pupil.steps,
        pupil.quality.last_hour(now),
        pupil.quality.start,
    )


def _curve(pupil: Pupil, shadow: Pupil | None) -> tuple[CurvePoint, ...]:
    beside = {} if shadow is None else dict(shadow.quality.curve())
    return tuple(
        CurvePoint(time, MINUTE, quality, beside.get(time))
        for time, quality in pupil.quality.curve()
    )


def _title(item: str, live: Live, pupil: Pupil) -> str | None:
    if item in live.items:
        return live.items[item].title
    catalog = pupil.model.catalog
    # A model that was loaded since need not know the item.
    return catalog[int(catalog.find([item])[0])].title if item in catalog else None
