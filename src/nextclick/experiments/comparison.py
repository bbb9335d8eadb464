"""Methods beside each other: the table of what each achieved on the same tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nextclick.evaluation.prequential import Evaluation


@dataclass(frozen=True, eq=False)
class Result:
    """What a method, as a table calls it, achieved."""

    label: str
    evaluation: Evaluation


@dataclass(frozen=True)
class Comparison:
    """A table of methods: a row each, and a column for each figure.

    Parameters
    ----------
    labels
        The methods.
    groups
        What each column is about: all items, new items, or time.
    columns
        What each column holds.
    values
        A row of figures for each method; NaN where there is none.
    """

    labels: tuple[str, ...]
    groups: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, results: Sequence[Result]) -> Comparison:
        """Put evaluations on the same tests beside each other."""
        metrics = tuple(results[0].evaluation.metrics())
        n = len(metrics)
        return cls(
            tuple(result.label for result in results),
            ("all items",) * n + ("new items",) * n + ("time",),
            (*metrics, *metrics, "ms"),
            tuple(_figures(result.evaluation) for result in results),
        )

    def cells(self) -> list[list[str]]:
        """Return the figures as they are to be read.

        Examples
        --------
        >>> table = Comparison(("A", "B"), ("all items", "time"), ("HR@5", "ms"),
        ...                    ((0.25, 1.234), (math.nan, 0.0123)))
        >>> table.cells()
        [['0.250', '1.23'], ['-', '0.0123']]
        """
        return [
            [_cell(value, column) for value, column in zip(row, self.columns, strict=True)]
            for row in self.values
        ]

    def best(self) -> list[set[int]]:
        """Return, for each column, the rows with its best figure, as far as it is shown.

        Examples
        --------
        >>> Comparison(("A", "B"), ("all items", "time"), ("HR@5", "ms"),
        ...            ((0.25, 1.2), (0.3, 0.1))).best()
        [{1}, {1}]
        """
        cells = self.cells()
        return [
            _best(
                [
                    (row[column], figures[column])
                    for row, figures in zip(cells, self.values, strict=True)
                ],
                smallest=self.columns[column] == "ms",
            )
            for column in range(len(self.columns))
        ]


def _figures(evaluation: Evaluation) -> tuple[float, ...]:
    return (
        *evaluation.metrics().values(),
        *evaluation.metrics(evaluation.new).values(),
        1000 * evaluation.seconds_per_recommendation,
    )


def _cell(value: float, column: str) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.3g}" if column == "ms" else f"{value:.3f}"


def _best(shown: Sequence[tuple[str, float]], *, smallest: bool) -> set[int]:
    numbers = [(value, cell) for cell, value in shown if not math.isnan(value)]
    if not numbers:
        return set()
    _, winner = min(numbers) if smallest else max(numbers)
    return {row for row, (cell, _) in enumerate(shown) if cell == winner}
