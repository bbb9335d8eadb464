"""Which cells the paper's evaluation is made of, by the names that users type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from nextclick.errors import BadInputError
from nextclick.experiments.cells import Cell
from nextclick.experiments.rows import (
    IN_WRONG_ORDER,
    PLUS,
    ROWS,
    Row,
    published,
    row_cell,
    row_settings,
)
from nextclick.methods import METHODS, merged

WRONG_ORDER = "item-hash/"
"""What the names of cells with sessions in item-hash order begin with."""

RATES = tuple(published()["learning_rate"]["rates"])
LOSSES = ("cross-entropy", "top1-max", "bpr-max")
NEIGHBOURS = (10, 50, 200, 400)
PROBES = (1, 16)
CODES = ("PQ8", "SQ8")

SHALLOW = {"gate": {"kind": "fixed"}}


@dataclass(frozen=True)
class Scale:
    """How much is tested.

    Parameters
    ----------
    rows
        Transitions of the rows; `None` for all.
    rates
        Transitions of the table of learning rates.
    sides
        Transitions of what goes beyond the paper.
    renew
        After how many of these all keys of the memory are encoded anew.
    epochs, batch
        How the networks are trained, if it has to be quick; as settings say, if `None`.
    """

    rows: int | None = None
    rates: int = 60_000
    sides: int = 20_000
    renew: int = 5_000
    epochs: int | None = None
    batch: int | None = None

    def limited(self, limit: int | None) -> Scale:
        """Return the same with no more than so many transitions anywhere."""
        if limit is None:
            return self
        return replace(
            self,
            rows=limit,
            rates=min(self.rates, limit),
            sides=min(self.sides, limit),
            renew=min(self.renew, max(1, limit // 4)),
        )


QUICK = Scale(rows=3_000, rates=1_000, sides=600, renew=200, epochs=3, batch=256)


def plan(data_set: str, scale: Scale, seed: int = 0) -> dict[str, Cell]:
    """Return all cells of a data set, by name; the most important first.

    Examples
    --------
    >>> cells = plan("diginetica", Scale())
    >>> cells["man-narm"].settings["memory"]["codes"], cells["ablation/man-narm-50k"].limit
    ('PQ8', None)
    """
    maker = _Maker(data_set, scale, seed)
    cells = {
        **maker.rows(),
        **maker.ablation(),
        **maker.reasons(),
        **maker.losses(),
        **maker.rates(),
        **maker.memory(),
        **(maker.wrong_order() if data_set == "diginetica" else {}),
    }
    return _shared(cells)


def rows_of(data_set: str) -> tuple[Row, ...]:
    """Return the rows of a data set."""
    return tuple(row for row in ROWS if row_settings(data_set, row.name).method in METHODS)


def chosen(cells: Mapping[str, Cell], names: Iterable[str]) -> dict[str, Cell]:
    """Return the cells that are asked for by their names, or by what their names begin with.

    Examples
    --------
    >>> cells = plan("diginetica", Scale())
    >>> list(chosen(cells, ["narm", "probes"]))
    ['narm', 'probes/1', 'probes/16']
    """
    picked: set[str] = set()
    for name in names:
        found = [cell for cell in cells if cell == name or cell.startswith(f"{name}/")]
        if not found:
            groups = {cell.split("/")[0] for cell in cells}
            near = get_close_matches(name, sorted({*cells, *groups}), n=1)
            hint = f"did you mean {near[0]}?" if near else "--list shows all there are"
            raise BadInputError(f"--only {name}: no such cell; {hint}")
        picked.update(found)
    return {name: cell for name, cell in cells.items() if name in picked}


def _shared(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """Return the cells, the shorter of those that differ only in length replaced by the longest.

    What comes later changes nothing about what was before: the first tests are the same.
    """
    longest: dict[str, Cell] = {}
    for cell in cells.values():
        known = longest.setdefault(_alike(cell), cell)
        if (cell.limit or math.inf) > (known.limit or math.inf):
            longest[_alike(cell)] = cell
    return {name: longest[_alike(cell)] for name, cell in cells.items()}


def _alike(cell: Cell) -> str:
    whole = cell if cell.on == "training" else cell.model_copy(update={"limit": None})
    return whole.model_dump_json()


@dataclass(frozen=True)
class _Maker:
    data_set: str
    scale: Scale
    seed: int

    def rows(self) -> dict[str, Cell]:
        return {row.name: self._row(row.name) for row in rows_of(self.data_set)}

    def ablation(self) -> dict[str, Cell]:
        """Return what tables 4 and 5 of the paper need, by its recipe and by ours."""
        cells = {"ablation/narm-fixed": self._row("narm-letter", parts=())}
        for row in ("man-narm", f"{PLUS}narm"):
            cells |= {
                f"ablation/{row}-fixed": self._row(row, parts=("memory",)),
                f"ablation/{row}-shallow": self._row(row, SHALLOW),
                f"ablation/{row}-50k": self._row(row, {"memory": {"size": 50_000}}),
                f"ablation/{row}-10k": self._row(row, {"memory": {"size": 10_000}}),
            }
        return cells

    def reasons(self) -> dict[str, Cell]:
        """Return what tells what the memory says of contexts the encoder was trained on."""
        return {
            f"trained-on/{row}": self._side(row, on="training")
            for row in ("man-narm", f"{PLUS}narm")
        }

    def losses(self) -> dict[str, Cell]:
        """Return GRU4Rec by each loss, with the settings that suit it."""
        cells = {}
        for loss in LOSSES:
            row = "gru4rec" if loss == "cross-entropy" else f"gru4rec-{loss}"
            cells[f"loss/{loss}"] = self._row(row)
            cells[f"loss/{loss}-validation"] = self._row(row, on="validation")
        return cells

    def rates(self) -> dict[str, Cell]:
        limit = self._at_most(self.scale.rates)
        cells = {}
        for rate in RATES:
            if float(rate) == 0:
                how: dict[str, Any] = {"parts": (), "absorb": False}
                more: dict[str, Any] = {}
            else:
                how, more = {}, {"online": {"learning_rate": float(rate)}}
            cells[f"learning-rate/{rate}"] = self._row("narm-letter", more, **how, limit=limit)
        return cells

    def memory(self) -> dict[str, Cell]:
        """Return what tells how much the memory, and how it is searched, matter."""
        row = f"{PLUS}narm"
        cells = {f"default/{row}": self._side(row), "default/man-narm": self._side("man-narm")}
        for k in NEIGHBOURS:
            cells[f"neighbours/{k}"] = self._side(row, {"memory": {"neighbours": k}})
        for probes in PROBES:
            cells[f"probes/{probes}"] = self._side(row, {"memory": {"probes": probes}})
        for codes in CODES:
            cells[f"codes/{codes}"] = self._side(row, {"memory": {"codes": codes}})
        for each in (row, "man-narm"):
            cells[f"exact/{each}"] = self._side(each, {"memory": {"kind": "exact"}})
            cells[f"renewed/{each}"] = self._side(each, renew=self.scale.renew)
            cells[f"not-absorbed/{each}"] = self._side(each, absorb=False)
        cells["default/narm"] = self._side("narm")
        cells["not-absorbed/narm"] = self._side("narm", absorb=False)
        return cells

    def wrong_order(self) -> dict[str, Cell]:
        names = [row.name for row in rows_of(self.data_set) if row.name in IN_WRONG_ORDER]
        return {f"{WRONG_ORDER}{name}": self._row(name, order="item-hash") for name in names}

    def _row(self, row: str, more: dict[str, Any] | None = None, **how: Any) -> Cell:
        how = {"limit": self.scale.rows, "seed": self.seed} | how
        cell = row_cell(self.data_set, row, more, **how)
        if self.scale.epochs is None or cell.network is None:
            return cell
        quick = {"training": {"epochs": self.scale.epochs, "batch": self.scale.batch}}
        inside = {"neural": quick} if "neural" in cell.settings else quick
        return row_cell(self.data_set, row, merged(more or {}, inside), **how)

    def _side(self, row: str, more: dict[str, Any] | None = None, **how: Any) -> Cell:
        return self._row(row, more, limit=self._at_most(self.scale.sides), **how)

    def _at_most(self, limit: int) -> int:
        return limit if self.scale.rows is None else min(limit, self.scale.rows)
