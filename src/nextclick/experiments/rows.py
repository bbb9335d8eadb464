"""The rows of the tables: which methods, with which settings, compared with what."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from pydantic import Field

from nextclick.experiments.cells import Cell
from nextclick.memory_augmented import paper_settings
from nextclick.methods import merged, validated
from nextclick.settings import Settings

DATA_SETS = ("diginetica", "yoochoose")

PLUS = "man-plus-"
"""What the names of the rows by the project's own recipe begin with."""


@dataclass(frozen=True)
class Row:
    """A method with its settings, as the tables call it.

    Parameters
    ----------
    name
        What its cell, and its file of settings, are called.
    label
        What tables call it.
    paper
        The row of the paper that it is compared with.
    base
        The row that it is built on: the same network, without a memory.
    """

    name: str
    label: str
    paper: str | None = None
    base: str | None = None


ROWS = (
    Row("item-knn", "Item-KNN", "Item-KNN"),
    Row("gru4rec-letter", "GRU4Rec by the letter", "GRU4Rec"),
    Row("gru4rec", "GRU4Rec", "GRU4Rec"),
    Row("sknn", "SKNN", "SKNN"),
    Row("s-sknn", "S-SKNN", "S-SKNN"),
    Row("ct", "CT", "CT"),
    Row("man-gru4rec", "MAN-GRU4Rec", "MAN-GRU4Rec", base="gru4rec-letter"),
    Row("narm-letter", "NARM by the letter", "NARM"),
    Row("narm", "NARM", "NARM"),
    Row("man-narm", "MAN-NARM", "MAN-NARM", base="narm-letter"),
    Row("v-sknn", "V-SKNN"),
    Row("stan", "STAN"),
    Row("vstan", "VSTAN"),
    Row("man-plus-gru4rec", "MAN+-GRU4Rec", base="gru4rec"),
    Row("man-plus-narm", "MAN+-NARM", base="narm"),
    Row("man-plus-mix", "MAN+-mix", base="narm"),
)

IN_WRONG_ORDER = (
    "sknn",
    "s-sknn",
    "ct",
    "gru4rec-letter",
    "narm-letter",
    "man-gru4rec",
    "man-narm",
    "man-plus-narm",
    "man-plus-mix",
)
"""The rows that are computed in item-hash order as well."""


class RowSettings(Settings):
    """The settings of a row on a data set, and where they come from.

    Parameters
    ----------
    method
        A name of `nextclick.methods`.
    recipe
        What the settings differ from: the method's defaults, or the paper's recipe of MAN.
    settings
        Those that differ.
    chosen
        How they were chosen, in words.
    study
        The summary of the study that chose them, if `nextclick tune` did.
    """

    method: str
    recipe: Literal["default", "paper"] = "default"
    settings: dict[str, Any] = Field(default_factory=dict)
    chosen: str
    study: dict[str, Any] | None = None

    def complete(self) -> dict[str, Any]:
        """Return the settings over those of the recipe."""
        if self.recipe == "default":
            return self.settings
        return merged(paper_settings().model_dump(mode="json"), self.settings)


def row_named(name: str) -> Row:
    """Return the row of this name.

    Examples
    --------
    >>> row_named("man-narm").label
    'MAN-NARM'
    """
    return next(row for row in ROWS if row.name == name)


def row_settings(data_set: str, row: str) -> RowSettings:
    """Return the settings of a row, from its file.

    Examples
    --------
    >>> row_settings("diginetica", "man-narm").recipe
    'paper'
    """
    file = resources.files("nextclick.experiments") / "settings" / data_set / f"{row}.toml"
    values = tomllib.loads(file.read_text(encoding="utf-8"))
    return validated(RowSettings, values, source=f"{data_set}/{row}.toml")  # type: ignore[return-value] # of this type


def row_cell(data_set: str, row: str, more: Mapping[str, Any] | None = None, **how: Any) -> Cell:
    """Return the cell of a row, with `more` settings over its own.

    Examples
    --------
    >>> row_cell("diginetica", "man-narm", {"memory": {"size": 10_000}}).settings["memory"]["size"]
    10000
    """
    settings = row_settings(data_set, row)
    return Cell.of(
        settings.method,
        merged(settings.complete(), more or {}),
        source=f"{data_set}/{row}.toml",
        **how,
    )


def published() -> dict[str, Any]:
    """Return the paper's figures.

    Examples
    --------
    >>> published()["overall"]["diginetica"]["SKNN"][0]
    0.262
    """
    file = resources.files("nextclick.experiments") / "published.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))
