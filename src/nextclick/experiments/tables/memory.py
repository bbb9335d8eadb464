"""Beyond the paper: how much of the memory counts, how it is searched, and its keys going stale."""

from __future__ import annotations

from nextclick.experiments.plan import CODES, NEIGHBOURS, PROBES
from nextclick.experiments.report import Table
from nextclick.experiments.rows import PLUS
from nextclick.experiments.study import METRICS, Study
from nextclick.experiments.tables.layout import NONE, plain

ROW = f"{PLUS}narm"
COLUMNS = [*METRICS, "new HR@20", "ms"]


def parts(study: Study) -> list[Table]:
    """Return the table of the memory's settings, and that of learning the validation part."""
    memory = study.cells[f"default/{ROW}"].settings["memory"]
    cells = {f"default/{ROW}": f"K {memory['neighbours']}, {_index(memory)}"}
    cells |= {f"neighbours/{k}": f"K {k}" for k in NEIGHBOURS}
    cells |= {f"probes/{n}": f"{n} probes" for n in PROBES}
    cells |= {f"codes/{codes}": f"codes {codes}" for codes in CODES}
    cells |= {f"exact/{ROW}": "exact search", f"renewed/{ROW}": "keys encoded anew"}
    letter = {
        "default/man-narm": "as in the paper",
        "exact/man-narm": "exact search",
        "renewed/man-narm": "keys encoded anew",
    }
    note = (
        f"The first {study.scale.sides:,} transitions. The first row of each is the row of the "
        "overall table; the others differ from it in nothing but what they say. Keys encoded anew: "
        f"after every {study.scale.renew:,} tests all of the memory's keys are those of the "
        "network as it is then, and its codes are fitted anew; the difference is what keys lose "
        "by going stale. ms: a recommendation's share of a batch."
    )
    return [
        _table(study, "The memory of MAN+-NARM", cells, note),
        _table(study, "The memory of MAN-NARM, the paper's recipe", letter, note),
        _absorbing(study),
    ]


def _absorbing(study: Study) -> Table:
    cells = {}
    for name in ("narm", "man-narm", ROW):
        label = study.label(name)
        cells[f"default/{name}"] = f"{label}, learned"
        cells[f"not-absorbed/{name}"] = f"{label}, not learned"
    return _table(
        study,
        "Learning the validation part before the test, or not",
        cells,
        f"The first {study.scale.sides:,} transitions, where it matters most.",
    )


def _table(study: Study, title: str, cells: dict[str, str], note: str) -> Table:
    rows = []
    for name, label in cells.items():
        evaluation = study.evaluation(name, study.scale.sides)
        values = None
        if evaluation is not None:
            new = evaluation.metrics(evaluation.new)["HR@20"]
            milliseconds = 1000 * evaluation.seconds_per_recommendation
            values = evaluation.metrics() | {"new HR@20": new, "ms": milliseconds}
        rows.append(([label], values))
    table = plain(title, [""], COLUMNS, rows, note)
    # The best time is the shortest, and times are told apart by fewer digits.
    strong = frozenset((row, column) for row, column in table.strong if column < len(COLUMNS))
    shown = [
        [*row[:-1], row[-1] if row[-1] in (NONE, "…") else f"{float(row[-1]):.3g}"]
        for row in table.rows
    ]
    return Table(title, table.columns, shown, strong=strong, note=table.note)


def _index(memory: dict[str, object]) -> str:
    return f"{memory['probes']} probes, {memory['codes']}"
