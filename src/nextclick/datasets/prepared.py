"""Prepared data: training, validation and test parts, and the catalog of their items."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from pydantic import ValidationError

from nextclick.catalog import Catalog, Item
from nextclick.clicks import ClickLog, Floats, Ints
from nextclick.datasets.description import Description
from nextclick.datasets.splits import validation_start
from nextclick.errors import BadInputError
from nextclick.files import check_directory, new_directory

KIND = "prepared data"
VERSION = 1

PARTS = ("train", "validation", "test")
DESCRIPTION = "description.json"
ITEMS = "items.parquet"


@dataclass(frozen=True, eq=False)
class PreparedData:
    """Clicks in three parts, one after the other in time, ready to train and evaluate on.

    Sessions are numbered by their first click over all parts, and a session is wholly in one part:
    those of `train` come first, those of `test` last. Items are numbered by their first click in
    `train`, then in `validation`, then in `test`, so that the items of `train` are the numbers
    below `n_train_items`.

    Parameters
    ----------
    train, validation, test
        The parts, each in time order.
    catalog
        The items of all parts.
    description
        Where the data comes from, and what was done to it.

    Examples
    --------
    >>> log = ClickLog.of([(s, s + click, 10 * s + click) for s in range(4) for click in range(2)])
    >>> items = [Item(name) for name in ("hat", "socks", "shoes", "tie", "belt")]
    >>> data = PreparedData.cut(log, items, validation=2, test=3)
    >>> data.train.n_sessions, data.validation.n_sessions, data.test.n_sessions
    (2, 1, 1)
    >>> data.n_train_items, data.catalog.id(4)
    (3, 'belt')
    """

    train: ClickLog
    validation: ClickLog
    test: ClickLog
    catalog: Catalog
    description: Description

    @classmethod
    def cut(
        cls,
        log: ClickLog,
        items: Sequence[Item],
        *,
        validation: int,
        test: int,
        description: Description | None = None,
    ) -> Self:
        """Cut a log into parts, and number its items.

        Parameters
        ----------
        log
            Clicks in time order, sessions numbered by their first click from zero.
        items
            What the numbers in `log` stand for; items without a click are left out.
        validation, test
            The first session of the validation part and of the test part.
        description
            What to say about the data.
        """
        part = np.searchsorted([validation, test], log.sessions, side="right")
        rows = [np.flatnonzero(part == number) for number in range(len(PARTS))]
        used = first_appearances(log.items[np.concatenate(rows)])
        numbers = np.full(len(items), -1, dtype=np.int64)
        numbers[used] = np.arange(len(used))
        logs = [ClickLog(log.sessions[r], numbers[log.items[r]], log.times[r]) for r in rows]
        catalog = _catalog(items[number] for number in used.tolist())
        train, validation_log, test_log = logs
        description = description or Description(source="", format="memory")
        return cls(train, validation_log, test_log, catalog, description)

    @property
    def n_train_items(self) -> int:
        """The number of items in the training part: those with a smaller number are in it."""
        return self.train.n_items

    @property
    def parts(self) -> dict[str, ClickLog]:
        """The parts by name."""
        return {name: getattr(self, name) for name in PARTS}

    def for_tuning(self, validation_share: float = 0.1) -> Self:
        """Return the data as it was before the test part, to choose settings on.

        The validation part takes the place of the test part, and the last sessions of the training
        part become the validation part. Nothing of the test part is left, its items included.
        """
        if not len(self.validation):
            raise BadInputError(
                "this data has no validation part to choose settings on; "
                "prepare it with a validation share above 0"
            )
        log = _merged(self.train, self.validation)
        test = int(self.validation.sessions.min())
        validation = validation_start(test, validation_share)
        split = (
            f"for tuning: the validation part ({self.validation.n_sessions:,} sessions) in the "
            f"place of the test part; of the rest, the last {test - validation:,} sessions validate"
        )
        return self.cut(
            log,
            list(self.catalog),
            validation=validation,
            test=test,
            description=self.description.model_copy(update={"split": split}),
        )

    def newest(self, share: float) -> Self:
        """Return the last share of the sessions, cut into parts of the same shares as these are.

        A small version of the data, as dense as the whole: each item has its neighbours still.
        """
        sessions = [log.n_sessions for log in self.parts.values()]
        n_sessions = max(3, round(share * sum(sessions)))
        sizes = [max(1, round(n_sessions * count / sum(sessions))) for count in sessions[1:]]
        log = _merged(self.train, self.validation, self.test)
        kept = log.sessions >= sum(sessions) - n_sessions
        log = ClickLog(
            log.sessions[kept] - (sum(sessions) - n_sessions), log.items[kept], log.times[kept]
        )
        split = f"the last {n_sessions:,} of {sum(sessions):,} sessions; {self.description.split}"
        return self.cut(
            log,
            list(self.catalog),
            validation=n_sessions - sum(sizes),
            test=n_sessions - sizes[1],
            description=self.description.model_copy(update={"split": split}),
        )

    @property
    def fingerprint(self) -> str:
        """A sum over every click and every item: the same for the same data, wherever it is."""
        digest = hashlib.sha256()
        for log in self.parts.values():
            for column in (log.sessions, log.items, log.times):
                digest.update(column.tobytes())
            digest.update(b"|")
        for item in self.catalog:
            digest.update(f"{item.id}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the data to a directory of Parquet files, whole or not at all."""
        with new_directory(Path(path), KIND, VERSION) as folder:
            for name, log in self.parts.items():
                columns = {"session": log.sessions, "item": log.items, "time": log.times}
                pl.DataFrame(columns).write_parquet(folder / f"{name}.parquet")
            items = list(self.catalog)
            pl.DataFrame(
                [(item.id, item.title, item.category) for item in items],
                schema=dict.fromkeys(("id", "title", "category"), pl.String),
                orient="row",
            ).write_parquet(folder / ITEMS)
            (folder / DESCRIPTION).write_text(
                self.description.model_dump_json(indent=1), encoding="utf-8"
            )

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; a damaged file is named, and nothing is loaded."""
        folder = Path(path)
        check_directory(folder, KIND, VERSION)
        train, validation, test = (_read_log(folder / f"{name}.parquet") for name in PARTS)
        items = (Item(*row) for row in pl.read_parquet(folder / ITEMS).iter_rows())
        try:
            description = Description.model_validate_json((folder / DESCRIPTION).read_bytes())
        except ValidationError as error:
            raise BadInputError(f"{folder / DESCRIPTION}: {error}") from error
        return cls(train, validation, test, _catalog(items), description)


def first_appearances(numbers: Ints) -> Ints:
    """Return the different numbers in the order in which they first appear.

    Examples
    --------
    >>> first_appearances(np.array([7, 3, 7, 5, 3])).tolist()
    [7, 3, 5]
    """
    values, first = np.unique(numbers, return_index=True)
    ordered: Ints = values[np.argsort(first)]
    return ordered


def _catalog(items: Iterable[Item]) -> Catalog:
    catalog = Catalog()
    for item in items:
        catalog.describe(item.id, title=item.title, category=item.category)
    return catalog


def _merged(*logs: ClickLog) -> ClickLog:
    """Return the clicks of logs in time order."""
    times: Floats = np.concatenate([log.times for log in logs])
    order = np.argsort(times, kind="stable")
    sessions = np.concatenate([log.sessions for log in logs])
    items = np.concatenate([log.items for log in logs])
    return ClickLog(sessions[order], items[order], times[order])


def _read_log(file: Path) -> ClickLog:
    table = pl.read_parquet(file)
    return ClickLog(*(table[name].to_numpy() for name in ("session", "item", "time")))
