"""All results of a data set that are there, beside the paper's figures: what tables are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from nextclick.datasets.prepared import PreparedData
from nextclick.evaluation.prequential import Evaluation
from nextclick.evaluation.significance import Difference, paired_bootstrap
from nextclick.experiments.cells import Cell
from nextclick.experiments.plan import WRONG_ORDER, Scale, rows_of
from nextclick.experiments.rows import PLUS, Row, published, row_named
from nextclick.experiments.store import Outcome, Store

METRICS = ("HR@5", "MRR@5", "HR@20", "MRR@20")


@dataclass(frozen=True, eq=False)
class Study:
    """What is known of a data set.

    Parameters
    ----------
    data_set
        Its name.
    data
        The prepared data, by session order.
    fingerprints
        Those of the data.
    cells
        All that there is to know, by name.
    scale
        How much of it was tested.
    store
        Where results are kept.
    """

    data_set: str
    data: Mapping[str, PreparedData]
    fingerprints: Mapping[str, str]
    cells: Mapping[str, Cell]
    scale: Scale
    store: Store

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """The results that are there, by the names of their cells."""
        keys = {name: self.key(name) for name in self.cells}
        there = {key: self.store.result(key) for key in set(keys.values()) if self._has(key)}
        return {name: there[key] for name, key in keys.items() if key in there}

    @cached_property
    def paper(self) -> dict[str, Any]:
        """The paper's figures."""
        return published()

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the overall table."""
        return rows_of(self.data_set)

    def key(self, name: str) -> str:
        """Return what a cell's result is kept under."""
        cell = self.cells[name]
        return cell.key(self.fingerprints[cell.order])

    def evaluation(self, name: str, first: int | None = None) -> Evaluation | None:
        """Return a result, or the first tests of it; `None` if it is not there yet."""
        outcome = self.outcomes.get(name)
        if outcome is None:
            return None
        evaluation = outcome.evaluation
        return evaluation if first is None else evaluation.first(min(first, len(evaluation)))

    def figures(self, name: str, first: int | None = None) -> dict[str, float] | None:
        """Return the metrics of a cell; `None` if it is not there yet."""
        evaluation = self.evaluation(name, first)
        return None if evaluation is None else evaluation.metrics()

    def overall(self, paper_row: str | None) -> list[float] | None:
        """Return the four metrics of a row of the paper, if there is such a row."""
        figures: dict[str, list[float]] = self.paper["overall"][self.data_set]
        return None if paper_row is None else figures[paper_row]

    def best(self, *, plus: bool, prefix: str = "") -> Row | None:
        """Return the row best in HR@20: of those by the project's recipe, or of all others.

        Rows that are not there yet do not count.
        """
        rows = [
            row
            for row in self.rows
            if row.name.startswith(PLUS) == plus and f"{prefix}{row.name}" in self.outcomes
        ]

        def hit_rate(row: Row) -> float:
            return self.outcomes[f"{prefix}{row.name}"].evaluation.metrics()["HR@20"]

        return max(rows, key=hit_rate, default=None)

    def difference(self, one: str, other: str) -> dict[str, Difference] | None:
        """Return how sure it is that one cell is better than another; `None` if one is missing."""
        if one not in self.outcomes or other not in self.outcomes:
            return None
        a, b = (self.outcomes[name].evaluation for name in (one, other))
        n = min(len(a), len(b))
        a, b = a.first(n), b.first(n)
        text = f"{self.key(one)} {self.key(other)}"

        def make() -> dict[str, Any]:
            return {m: asdict(d) for m, d in paired_bootstrap(a, b).items()}

        kept = self.store.comparison(hashlib.sha256(text.encode()).hexdigest()[:24], make)
        return {metric: Difference(**values) for metric, values in kept.items()}

    def network_facts(self, name: str) -> dict[str, Any] | None:
        """Return what was written down about the training of a cell's network."""
        cell = self.cells[name]
        network = cell.network
        if network is None:
            return None
        key = network.key(self.fingerprints[cell.order])
        return self.store.network_facts(key) if self.store.has_network(key) else None

    def in_wrong_order(self, row: str) -> str:
        """Return the name of a row's cell with sessions in item-hash order."""
        return f"{WRONG_ORDER}{row}"

    def label(self, row: str) -> str:
        """Return what tables call a row."""
        return row_named(row).label

    def _has(self, key: str) -> bool:
        return self.store.has_result(key)
