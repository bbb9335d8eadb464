"""MAN+-mix: one gate over any number of predictors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from nextclick.baselines.compiled import NOTHING, compiled, hash_table, slot_of
from nextclick.baselines.context_tree import ContextTree, ContextTreeSettings
from nextclick.baselines.predictor import Predictor
from nextclick.baselines.session_knn import SessionKNN, SessionKNNSettings
from nextclick.baselines.stan import VSTAN, VSTANSettings
from nextclick.clicks import ClickLog, Contexts, Floats, Ints, Transitions
from nextclick.gate import CERTAINTY, FEATURES, Gate, LearnedGate, Lessons, certainty
from nextclick.memory_augmented import LIKELY, MemoryAugmented, MemoryAugmentedSettings
from nextclick.memory_augmented.consultation import Consultation, Consulted, gate_lessons
from nextclick.recommender import Explanation, Recommendations, State, with_prefix, without_prefix
from nextclick.runtime import Runtime
from nextclick.settings import Settings

PREDICTORS: Mapping[str, type[Predictor]] = {
    "s_sknn": SessionKNN,
    "vstan": VSTAN,
    "ct": ContextTree,
}
"""What can be mixed with the neural part and the memory, by the keys of the settings."""


class PredictorSettings(Settings):
    """Which predictors are mixed with the neural part and the memory, and their settings.

    `None`, in a settings file `"none"`, leaves one out.
    """

    s_sknn: SessionKNNSettings | None = SessionKNNSettings()
    vstan: VSTANSettings | None = VSTANSettings()
    ct: ContextTreeSettings | None = None

    def chosen(self) -> dict[str, Settings]:
        """Return the settings of those that are mixed.

        Examples
        --------
        >>> list(PredictorSettings(s_sknn=None).chosen())
        ['vstan']
        """
        every = {name: getattr(self, name) for name in PREDICTORS}
        return {name: settings for name, settings in every.items() if settings is not None}


class MixtureSettings(MemoryAugmentedSettings):
    """Settings of the mixture, besides those of MAN.

    Parameters
    ----------
    predictors
        What is mixed with the neural part and the memory.
    candidates
        How many of each predictor's best items are looked at, at least.
    """

    predictors: PredictorSettings = PredictorSettings()
    candidates: int = Field(default=100, ge=LIKELY)

    @model_validator(mode="after")
    def _weighable(self) -> MixtureSettings:
        if self.gate.kind != "learned":
            raise ValueError('the weights of a mixture are learned: gate.kind is "learned" here')
        if self.gate.inputs == "context":
            raise ValueError(
                "the weights of a mixture follow from the predictors' evidence: gate.inputs is "
                '"evidence" or "both" here'
            )
        return self


@dataclass(frozen=True, eq=False)
class MixtureConsultation(Consultation):
    """What all parts say about some contexts, and how the gate weighs it.

    Parameters
    ----------
    contexts
        Of known items, none of them empty.
    candidates
        What may be recommended for each: all that memory names and the best of every other part;
        -1 behind.
    """

    contexts: Contexts
    candidates: Ints


class Mixture(MemoryAugmented):
    """MAN with more parts: P = Σ_p w_p P_p over the neural part, the memory, and any others.

    The weights are a softmax of the gate's outputs; it sees how certain each further predictor is
    beside what MAN's gate sees, and is trained as that is. All predictors learn as they do alone,
    when the memory is written.

    What is recommended is the best of the candidates: the `candidates` best items of the neural
    part and of each further predictor, and all that memory names.

    Examples
    --------
    >>> from nextclick.encoders.gru4rec import Gru4RecSettings
    >>> from nextclick.encoders.recommender import NeuralSettings
    >>> from nextclick.encoders.training import TrainingSettings
    >>> log = ClickLog.of([(s, (s + i) % 7, 10 * s + i) for s in range(60) for i in range(4)])
    >>> neural = NeuralSettings(
    ...     encoder=Gru4RecSettings(embedding=16, hidden=16),
    ...     training=TrainingSettings(epochs=2, batch=32),
    ... )
    >>> model = Mixture(MixtureSettings(neural=neural)).fit(log)
    >>> model.label
    'MAN-GRU4Rec-mix'
    >>> 4 in model.recommend(Contexts.of([[2, 3]]), k=3).items
    True
    """

    name = "man-mix"
    settings_type = MixtureSettings

    def __init__(
        self, settings: MixtureSettings | None = None, runtime: Runtime | None = None
    ) -> None:
        super().__init__(settings, runtime)
        self._predictors: dict[str, Predictor] = {}

    @property
    def label(self) -> str:
        """The name in tables."""
        return f"{super().label}-mix"

    def _new_gate(self) -> Gate:
        others = len(self.settings.predictors.chosen())
        return LearnedGate(
            self.settings.gate,
            self._neural.dimension,
            self.runtime,
            others=others,
            features=FEATURES + CERTAINTY * others,
        )

    def _new_predictors(self) -> dict[str, Predictor]:
        return {
            name: PREDICTORS[name](settings, self.runtime)
            for name, settings in self.settings.predictors.chosen().items()
        }

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:
        super()._fit(log, validation)
        self._predictors = self._new_predictors()
        for predictor in self._predictors.values():
            predictor.fit(log, catalog=self.catalog)

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:
        super()._remember(transitions, parts, lessons)
        for predictor in self._predictors.values():
            predictor.learn(transitions, parts=parts)

    def _consult(self, contexts: Contexts, k: int = 1) -> MixtureConsultation:
        width = self._width(k)
        neural = self._neural.predict(contexts, width)
        neighbours = self._memory.search(neural.representations)
        top = neural.top(width)
        named = [top[0], neighbours.items]
        evidence = self._evidence(neural, top, neighbours)
        facts, silent = [evidence.features], []
        for predictor in self._predictors.values():
            best = predictor.recommend(contexts, width)
            named.append(best.items)
            facts.append(certainty(best.scores[:, :LIKELY]))
            silent.append(best.scores[:, 0] <= 0)
        evidence = replace(
            evidence,
            features=np.concatenate(facts, axis=1),
            silent=np.stack(silent, axis=1) if silent else evidence.silent,
        )
        return MixtureConsultation(
            contexts.sessions,
            neural,
            top,
            neighbours,
            evidence,
            self._gate.open(evidence),
            contexts,
            different(np.concatenate(named, axis=1)),
        )

    def _said(self, said: Consulted, items: Ints) -> tuple[Floats, Floats]:
        """Return of P at these items what is the neural part's, and what the rest's."""
        assert isinstance(said, MixtureConsultation)
        voted, opening = said.votes, said.opening
        rest = opening.memory[:, None] * probabilities_of(voted.items, voted.probabilities, items)
        for weights, given in zip(opening.others.T, self._given(said.contexts, items), strict=True):
            rest += weights[:, None] * given
        return opening.weights[:, None] * said.neural.at(items), rest

    def _given(self, contexts: Contexts, items: Ints) -> list[Floats]:
        """Return what each further predictor gives to items."""
        return [one.probabilities(contexts, items) for one in self._predictors.values()]

    def _width(self, k: int) -> int:
        return super()._width(max(k, self.settings.candidates))

    def _mixed(self, said: Consulted, k: int) -> tuple[Ints, Floats]:
        assert isinstance(said, MixtureConsultation)
        neural, rest = self._said(said, said.candidates)
        return best_of(said.candidates, neural + rest, k)

    def _gate_lessons(self, said: Consulted, clicked: Ints) -> Lessons:
        assert isinstance(said, MixtureConsultation)
        given = self._given(said.contexts, clicked[:, None])
        others = np.concatenate([np.empty((len(clicked), 0)), *given], axis=1)
        return replace(gate_lessons(said, clicked), others=others)

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation:
        why = super()._explain(contexts, items)
        nothing = np.zeros(items.shape)
        asked = Recommendations(items, nothing, contexts.lengths == 0, nothing[:, 0])
        # A predictor that counts without sessions has its counts from one at least.
        voting = np.maximum(why.sessions, why.memory > 0)
        for predictor in self._predictors.values():
            alone = predictor.explain(contexts, asked)
            voting = voting if alone is None else np.maximum(voting, alone.sessions)
        return replace(why, sessions=voting)

    def _state(self) -> State:
        state = super()._state()
        for name, predictor in self._predictors.items():
            state |= with_prefix(name, predictor.state())
        return state

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self._predictors = self._new_predictors()
        for name, predictor in self._predictors.items():
            predictor.restore(self.catalog, without_prefix(name, state))


def different(named: Ints) -> Ints:
    """Return the different items of each row as they first appear, filled up with -1.

    Examples
    --------
    >>> different(np.array([[4, 7, 4, -1, 5]])).tolist()
    [[4, 7, 5, -1, -1]]
    """
    items = np.full(named.shape, NOTHING, dtype=np.int64)
    _different(np.ascontiguousarray(named), items)
    return items


def probabilities_of(items: Ints, probabilities: Floats, asked: Ints) -> Floats:
    """Return the probabilities of the items asked about, 0 for those that are not among `items`.

    Examples
    --------
    >>> probabilities_of(np.array([[4, 7, -1]]), np.array([[0.3, 0.7, 0]]), np.array([[7, -1, 5]]))
    array([[0.7, 0. , 0. ]])
    """
    answer = np.zeros(asked.shape)
    _probabilities_of(items, probabilities, np.ascontiguousarray(asked), answer)
    return answer


def best_of(candidates: Ints, scores: Floats, k: int) -> tuple[Ints, Floats]:
    """Return the `k` candidates with the highest scores, by falling score, then by number.

    Examples
    --------
    >>> best_of(np.array([[4, 7, 5, -1]]), np.array([[0.1, 0.6, 0.1, 0.0]]), 2)
    (array([[7, 4]]), array([[0.6, 0.1]]))
    """
    scores = np.where(candidates >= 0, scores, -np.inf)
    order = np.lexsort((candidates, -scores), axis=1)[:, :k]
    return np.take_along_axis(candidates, order, axis=1), np.take_along_axis(scores, order, axis=1)


@compiled
def _different(named: Ints, items: Ints) -> None:
    for row in range(len(named)):
        seen = hash_table(named.shape[1])
        n = 0
        for item in named[row]:
            if item == NOTHING:
                continue
            slot = slot_of(seen, item)
            if seen[slot] == NOTHING:
                seen[slot] = item
                items[row, n] = item
                n += 1


@compiled
def _probabilities_of(items: Ints, probabilities: Floats, asked: Ints, answer: Floats) -> None:
    for row in range(len(items)):
        for place, item in enumerate(items[row]):
            if item == NOTHING:
                break
            for column in range(asked.shape[1]):
                if asked[row, column] == item:
                    answer[row, column] = probabilities[row, place]
