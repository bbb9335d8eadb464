"""The paper's whole evaluation on a data set: what is missing is computed, and all reported."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nextclick.datasets.orders import SessionOrder, SessionOrderWarning
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.preparing import PrepareSettings, prepare
from nextclick.experiments.cells import Cell
from nextclick.experiments.markdown import write_markdown
from nextclick.experiments.plan import QUICK, Scale, plan
from nextclick.experiments.report import Figure, Table, Text, write_report
from nextclick.experiments.schedule import Job, Tell, missing, work_off
from nextclick.experiments.store import Store
from nextclick.experiments.study import Study
from nextclick.experiments.tables import (
    ablation,
    claims,
    frequency,
    gate,
    learning_rate,
    losses,
    memory,
    over_time,
    overall,
    provenance,
    session_order,
    statistics,
    times,
)
from nextclick.runtime import Runtime

QUICK_SHARE = 0.05
"""How much of the sessions, the last ones, `--quick` is about."""

ORDERS: Mapping[str, tuple[SessionOrder, ...]] = {
    "diginetica": ("time", "item-hash"),
    "yoochoose": ("time",),
}

MODULES = (
    overall,
    claims,
    statistics,
    learning_rate,
    over_time,
    ablation,
    gate,
    times,
    frequency,
    losses,
    memory,
    session_order,
    provenance,
)
"""What the report shows, in this order."""


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Parameters
    ----------
    data_set
        `"diginetica"` or `"yoochoose"`.
    source
        A folder of period files; by default where `nextclick data fetch` puts them.
    quick
        Whether a twentieth of the sessions will do.
    limit
        How many transitions are tested anywhere, at most.
    seed
        What all randomness is derived from.
    """

    data_set: str
    source: Path | None = None
    quick: bool = False
    limit: int | None = None
    seed: int = 0

    @property
    def scale(self) -> Scale:
        """How much is tested."""
        return (QUICK if self.quick else Scale()).limited(self.limit)

    def cells(self) -> dict[str, Cell]:
        """Return all cells there are, by name."""
        return plan(self.data_set, self.scale, self.seed)


def open_study(request: Request, store: Store, runtime: Runtime) -> Study:
    """Prepare the data, and return what is known of it."""
    settings = {order: PrepareSettings(session_order=order) for order in ORDERS[request.data_set]}
    data: dict[str, PreparedData] = {}
    for order, setting in settings.items():
        with warnings.catch_warnings():
            # That an order gives the next item away is what is studied here.
            warnings.simplefilter("ignore", SessionOrderWarning)
            prepared = prepare(request.source or request.data_set, setting, runtime)
        data[order] = prepared.newest(QUICK_SHARE) if request.quick else prepared
    fingerprints = {order: store.keep_data(each) for order, each in data.items()}
    return Study(request.data_set, data, fingerprints, request.cells(), request.scale, store)


def left(study: Study, cells: Mapping[str, Cell]) -> list[Job]:
    """Return what is still to be computed of some cells, networks included."""
    return missing(cells, study.fingerprints, study.store)


def run(
    jobs: list[Job], study: Study, workers: int, runtime: Runtime, tell: Tell
) -> dict[str, str]:
    """Compute what is left, and return what went wrong with which."""
    return work_off(jobs, study.store, workers, runtime, tell)


def contents(study: Study) -> list[Text | Table | Figure]:
    """Return everything that the report shows."""
    return [part for module in MODULES for part in module.parts(study)]


def write(study: Study, parts: Sequence[Text | Table | Figure], folder: Path) -> list[Path]:
    """Write the report as HTML and as Markdown, and return the two files."""
    data = study.data["time"]
    title = f"MAN and its rivals on {study.data_set.upper()}"
    n_cells, n_there = len(study.cells), len(study.outcomes)
    clicks, sessions = f"{len(data.test):,}", f"{data.test.n_sessions:,}"
    lead = (
        f"The evaluation of the MAN paper (Mi and Faltings, IJCAI 2020), repeated on {clicks} "
        f"clicks of {sessions} test sessions: every click but a session's first is predicted "
        "before it is learned, in batches of 100. The paper's figure, ours, and the difference."
    )
    if n_there < n_cells:
        lead += f" Not complete: {n_there} of {n_cells} cells have been computed."
    footer = provenance.circumstances(study)
    html, markdown = folder / f"{study.data_set}.html", folder / f"{study.data_set}.md"
    write_report(html, title, lead, parts, footer=footer)
    write_markdown(markdown, title, lead, parts, footer=footer)
    return [html, markdown]
