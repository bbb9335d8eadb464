"""Train NARM once, build MAN around it, and evaluate all of them over the whole test part.

    python benchmarks/diginetica.py --data prepared/diginetica --out results.jsonl

Every row is the same as `nextclick train` and `nextclick evaluate` with the settings it is printed
with; here the network is trained once for all. Rows that are in the file already are not computed
again, and the training goes on from its checkpoint, which is left beside the file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from nextclick.datasets.prepared import PreparedData
from nextclick.encoders.recommender import NeuralRecommender, NeuralSettings, OnlineSettings
from nextclick.evaluation.prequential import evaluate
from nextclick.memory_augmented import MemoryAugmented, MemoryAugmentedSettings, paper_settings
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime

ADAM = OnlineSettings(learning_rate=5e-4, item_learning_rate=None)
"""Adam for everything, as in the paper, whose rate on DIGINETICA is 1e-4."""

NARM_ALONE = OnlineSettings(item_learning_rate=2.5)
"""The rate that the validation part prefers for NARM without a memory."""


def main() -> None:
    """Compute the rows that are asked for and not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="what `nextclick data prepare` wrote")
    parser.add_argument("--out", type=Path, required=True, help="a file of JSON lines, added to")
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    data = PreparedData.load(arguments.data)
    known = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    done = {json.loads(line)["row"] for line in known}
    for row in arguments.rows:
        if row not in done:
            result = computed(row, data, arguments.out.with_suffix(".checkpoint"), arguments.seed)
            with arguments.out.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(json.dumps(result), flush=True)


def computed(row: str, data: PreparedData, checkpoint: Path, seed: int) -> dict[str, object]:
    """Return what came of one row."""
    online, man, parts = ROWS[row]
    settings = NeuralSettings(online=online)
    started = time.perf_counter()
    neural = NeuralRecommender(settings, Runtime(seed=seed, checkpoint=checkpoint))
    neural.fit(data.train, validation=data.validation, catalog=data.catalog, absorb=False)
    trained = time.perf_counter()
    model: Recommender = neural
    if man is None:
        neural.absorb(data.validation)
    else:
        around = MemoryAugmented.around(neural, man)
        model = around.fit(data.train, validation=data.validation, catalog=data.catalog)
    built = time.perf_counter()
    result = evaluate(model, data.test.transitions(), training=data.train, parts=parts)
    return {
        "row": row,
        "all": result.metrics(),
        "new": result.metrics(result.new),
        "weight": result.mean_weight(),
        "weight_new": result.mean_weight(result.new),
        "seconds": {
            "training": trained - started,
            "memory, gate and absorbing": built - trained,
            "evaluation": time.perf_counter() - built,
        },
        "settings": model.settings.model_dump(mode="json"),
    }


DEFAULT = OnlineSettings()
ROWS: dict[str, tuple[OnlineSettings, MemoryAugmentedSettings | None, frozenset[str] | None]] = {
    "MAN-NARM": (DEFAULT, MemoryAugmentedSettings(), None),
    "NARM": (DEFAULT, None, None),
    "NARM, Adam": (ADAM, None, None),
    "MAN-NARM, Adam": (ADAM, MemoryAugmentedSettings(), None),
    "MAN-NARM by the letter": (ADAM, paper_settings(NeuralSettings(online=ADAM)), None),
    "NARM at its own best rate": (NARM_ALONE, None, None),
    "NARM-Fixed": (DEFAULT, None, frozenset()),
    "MAN-Fixed": (DEFAULT, MemoryAugmentedSettings(), frozenset({"memory"})),
}
"""The online step, the settings of MAN (none: the neural part alone), and what learns."""


if __name__ == "__main__":
    main()
