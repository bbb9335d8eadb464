"""Cleaning: what is left out of the clicks before they are split, counted."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from nextclick.datasets.description import Step
from nextclick.datasets.raw import ITEM, SESSION, TIME

Apply = Callable[[pl.DataFrame], pl.DataFrame]


class Cleaner:
    """Clicks that are cleaned in steps, with a count after each.

    Parameters
    ----------
    clicks
        The columns of `RawClicks.clicks`.

    Examples
    --------
    >>> clicks = pl.DataFrame({"session": [0, 0, 1], "item": [0, 0, 1], "time": [5.0, 5.0, 9.0]})
    >>> cleaner = Cleaner(clicks)
    >>> cleaner.drop_duplicates()
    >>> [(step.name, step.clicks) for step in cleaner.steps]
    [('read', 3), ('exact duplicates dropped', 2)]
    """

    def __init__(self, clicks: pl.DataFrame) -> None:
        self.clicks = clicks
        self.steps: list[Step] = []
        self._count("read")

    def drop_duplicates(self) -> None:
        """Keep one of the clicks that agree in session, item and time."""
        before = self.clicks.height
        self.clicks = self.clicks.unique([SESSION, ITEM, TIME], keep="first", maintain_order=True)
        if self.clicks.height < before:
            self._count("exact duplicates dropped")

    def sort(self) -> None:
        """Put the clicks in time order; clicks of the same time stay in the order of the file."""
        earlier = pl.col(TIME) < pl.col(TIME).shift().over(SESSION)
        out_of_order = int(self.clicks.select(earlier.sum()).item())
        self.clicks = self.clicks.sort(TIME, maintain_order=True)
        if out_of_order:
            self._count(f"{out_of_order:,} clicks put in time order within their session")

    def drop_rare(self, min_item_clicks: int, min_session_clicks: int, *, repeat: bool) -> None:
        """Leave out rare items, then short sessions: once, or until nothing changes any more."""
        while True:
            before = self.clicks.height
            self._drop(ITEM, min_item_clicks, f"items under {min_item_clicks} clicks dropped")
            self._drop(
                SESSION, min_session_clicks, f"sessions under {min_session_clicks} clicks dropped"
            )
            if not repeat or self.clicks.height == before:
                return

    def _drop(self, column: str, minimum: int, name: str) -> None:
        kept = self.clicks.filter(pl.len().over(column) >= minimum)
        if kept.height < self.clicks.height:
            self.clicks = kept
            self._count(name)

    def _count(self, name: str) -> None:
        sessions, items = self.clicks.select(
            pl.col(SESSION).n_unique(), pl.col(ITEM).n_unique().alias(ITEM)
        ).row(0)
        self.steps.append(
            Step(name=name, clicks=self.clicks.height, sessions=sessions, items=items)
        )
