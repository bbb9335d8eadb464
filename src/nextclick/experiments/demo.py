"""The main job on an embedded default: a shop, five methods, one table, one report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from nextclick import __version__, persistence
from nextclick.catalog import Item
from nextclick.datasets.prepared import PreparedData
from nextclick.datasets.synthetic import ShopSettings, synthetic_shop
from nextclick.encoders.recommender import NeuralRecommender
from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import Evaluation
from nextclick.experiments.comparison import Comparison, Result
from nextclick.experiments.figures import gate_weights, hit_rate_over_time
from nextclick.experiments.report import Figure, Table, Text, write_report
from nextclick.experiments.runs import evaluate_on
from nextclick.memory_augmented import MemoryAugmented
from nextclick.methods import create
from nextclick.recommender import Recommended, Recommender
from nextclick.runtime import Runtime

Model = TypeVar("Model", bound=Recommender)

LEAST_SESSIONS = 500
"""With fewer there is next to nothing to learn, and next to nothing to test."""


@dataclass(frozen=True, eq=False)
class Demo:
    """What the demonstration found, and where it left it.

    Parameters
    ----------
    data
        The synthetic shop.
    results
        What each method achieved; MAN is the last.
    clicked, recommended
        A session of the test part, and what MAN recommended for it before it learned any of it.
    folder
        Where the report, the data and the model are.
    """

    data: PreparedData
    results: list[Result]
    clicked: list[Item]
    recommended: list[Recommended]
    folder: Path

    @property
    def shop(self) -> Path:
        """The prepared data."""
        return self.folder / "shop"

    @property
    def model(self) -> Path:
        """MAN as it was trained, before it learned from the test part."""
        return self.folder / "model"

    @property
    def report(self) -> Path:
        """The report."""
        return self.folder / "report.html"

    @property
    def comparison(self) -> Comparison:
        """The methods beside each other."""
        return Comparison.of(self.results)


def run(folder: Path, sessions: int, runtime: Runtime) -> Demo:
    """Make a shop, train and evaluate on it, and write the data, the model and the report.

    Parameters
    ----------
    folder
        Where to write; what the demonstration left there before is replaced.
    sessions
        The size of the shop.
    runtime
        Seed, threads, device and progress.
    """
    if sessions < LEAST_SESSIONS:
        raise BadInputError(f"sessions is {sessions}; the demonstration needs {LEAST_SESSIONS}")
    folder.mkdir(parents=True, exist_ok=True)
    data = synthetic_shop(ShopSettings(sessions=sessions), runtime)
    *others, man = _trained(data, runtime)
    clicked = sample_session(data, man)
    recommended = man.recommend_one([item.id for item in clicked], 10)
    demo = Demo(data, _evaluated([*others, man], data), clicked, recommended, folder)
    data.save(demo.shop)
    persistence.save(man, demo.model)
    _write(demo, runtime)
    return demo


def _trained(data: PreparedData, runtime: Runtime) -> list[Recommender]:
    """Train the methods on the same parts, NARM once: MAN, the last, is built around it."""
    popularity = _fitted(create("popularity", runtime=runtime), data)
    session_knn = _fitted(create("s-sknn", runtime=runtime), data)
    narm = _fitted(NeuralRecommender(runtime=runtime), data, absorb=False)
    man = _fitted(MemoryAugmented.around(narm), data)
    narm.absorb(data.validation)
    return [popularity, session_knn, narm, man]


def _fitted(model: Model, data: PreparedData, *, absorb: bool = True) -> Model:
    return model.fit(data.train, validation=data.validation, catalog=data.catalog, absorb=absorb)


def _evaluated(models: list[Recommender], data: PreparedData) -> list[Result]:
    """Evaluate copies of the models; NARM twice, once without learning."""
    results = []
    for model in models:
        if model.label == "NARM":
            results.append(Result("NARM-Fixed", evaluate_on(data, model.clone(), parts=())))
        results.append(Result(model.label, evaluate_on(data, model.clone())))
    return results


def sample_session(data: PreparedData, model: Recommender) -> list[Item]:
    """Return the clicks but the last of the first test session that is worth looking at.

    That is one of three to six different items, all of which the model knows.
    """
    fallback = None
    for session in data.test.whole_sessions():
        clicks = [data.catalog[item] for item in session[:-1].tolist()]
        if not all(item.id in model.catalog for item in clicks):
            continue
        fallback = fallback or clicks
        if 3 <= len(clicks) <= 6 and len({item.id for item in clicks}) == len(clicks):
            return clicks
    return fallback or [model.catalog[0]]


def _write(demo: Demo, runtime: Runtime) -> None:
    test, best = demo.data.test, demo.results[-1].evaluation
    window = _window(best)
    write_report(
        demo.report,
        "nextclick: five recommenders on a synthetic shop",
        f"Each of {len(best):,} clicks of the test part was predicted before it was learned. "
        f"{int(best.new.sum()):,} of them ({best.new.mean():.0%}) are on items that the training "
        "part does not have.",
        [
            _comparison_table(demo.comparison),
            Figure(
                "HR@20 over time",
                hit_rate_over_time(demo.results, window),
                "How often the next item was among the 20 that were recommended, over the "
                f"{window:,} clicks before each point.",
            ),
            Figure(
                f"What the gate of {demo.results[-1].label} relies on",
                gate_weights(best),
                "The gate cannot know what is clicked next: it goes by the session so far, and by "
                "what the two parts say about it.",
            ),
            *_sample(demo),
            _data_table(demo.data),
        ],
        footer=f"nextclick {__version__}, seed {runtime.seed}, {test.n_sessions:,} test sessions, "
        f"batches of {best.batch}, threads: {runtime.threads}.",
    )


def _window(evaluation: Evaluation) -> int:
    return 100 * max(1, round(len(evaluation) / 1000))


def _comparison_table(comparison: Comparison) -> Table:
    columns = enumerate(comparison.best(), start=1)
    return Table(
        "The methods",
        ["method", *comparison.columns],
        [
            [label, *cells]
            for label, cells in zip(comparison.labels, comparison.cells(), strict=True)
        ],
        groups=["", *comparison.groups],
        strong=frozenset((row, column) for column, rows in columns for row in rows),
        note="HR@k: how often the next item was among the first k. MRR@k: the mean of one over its "
        "place there. New items: clicks on items that are not in the training part. ms: the time "
        "of one recommendation, in batches. NARM-Fixed is NARM without learning. The best of each "
        "column stands out.",
    )


def _sample(demo: Demo) -> list[Text | Table]:
    clicked = "; ".join(_named(item) for item in demo.clicked)
    parts = [
        [
            one.id,
            one.title or "",
            *map(_number, (one.score, one.neural, one.memory)),
            str(one.sessions),
        ]
        for one in demo.recommended
    ]
    return [
        Text("A session", [f"These items were clicked, one after the other: {clicked}."]),
        Table(
            f"What {demo.results[-1].label} recommends next",
            ["item", "title", "score", "neural", "memory", "sessions"],
            parts,
            text_columns=2,
            note="The score is the sum of what the neural part and the memory give it; sessions is "
            "how many past sessions in memory voted for the item.",
        ),
    ]


def _named(item: Item) -> str:
    return f"{item.title} ({item.id})" if item.title else item.id


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _data_table(data: PreparedData) -> Table:
    return Table(
        "The data",
        ["part", "sessions", "clicks", "items"],
        [
            [name, f"{log.n_sessions:,}", f"{len(log):,}", f"{len(np.unique(log.items)):,}"]
            for name, log in data.parts.items()
        ],
        note=f"{data.description.source}; {data.description.split}.",
    )
