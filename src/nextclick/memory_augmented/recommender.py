"""MAN: a neural encoder, a memory of all it has seen, and a gate that mixes the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nextclick.clicks import CONTEXT_LENGTH, ClickLog, Contexts, Floats, Ints, Transitions
from nextclick.encoders.prediction import Prediction
from nextclick.encoders.recommender import AT_ONCE, NeuralRecommender
from nextclick.encoders.sifting import ItemScores
from nextclick.errors import BadInputError
from nextclick.gate import (
    LEANT,
    Evidence,
    Gate,
    Leaning,
    LeaningLessons,
    LearnedGate,
    Lessons,
    evidence_features,
    make_gate,
    mix,
)
from nextclick.memory import make_memory
from nextclick.memory.base import Memory, Neighbours, Vectors
from nextclick.memory.contexts import PastContexts
from nextclick.memory.kernel import strongest_voters, voting_sessions
from nextclick.memory_augmented.compiled import LIKELY, CompiledConsultation, consult_compiled
from nextclick.memory_augmented.consultation import (
    Consultation,
    Consulted,
    Moment,
    gate_lessons,
    one_moment,
)
from nextclick.memory_augmented.holding_out import hold_out
from nextclick.memory_augmented.settings import MemoryAugmentedSettings
from nextclick.recommender import (
    LEARNING_BATCH,
    Ahead,
    Apply,
    Explanation,
    Ranked,
    Recommender,
    State,
    with_prefix,
    without_prefix,
)
from nextclick.runtime import Runtime

VOTERS = 3
"""How many of the memory entries that voted for an item an explanation names."""


class MemoryAugmented(Recommender):
    """MAN over any encoder: P = w P_N + (1 - w) P_M.

    `learn` takes a batch as the paper does: it writes the transitions to the memory (`remember`),
    takes one gradient step of the neural part, and one of the gate (`step`). What is written, and
    what the gate learns from, is how things stood when the batch was asked for: a transition is
    never found by itself.

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
    >>> model = MemoryAugmented(MemoryAugmentedSettings(neural=neural)).fit(log)
    >>> model.label
    'MAN-GRU4Rec'
    >>> model.learn_one([2, 3], "never seen before")
    >>> "never seen before" in [item.id for item in model.recommend_one([2, 3])]
    True
    """

    name = "man"
    version = 3
    settings_type = MemoryAugmentedSettings
    parts = frozenset({"neural", "gate", "memory"})

    def __init__(
        self, settings: MemoryAugmentedSettings | None = None, runtime: Runtime | None = None
    ) -> None:
        super().__init__(settings, runtime)
        self._take(NeuralRecommender(self.settings.neural, self.runtime))

    @classmethod
    def around(
        cls, neural: NeuralRecommender, settings: MemoryAugmentedSettings | None = None
    ) -> MemoryAugmented:
        """Return a MAN whose `fit` starts from a neural part that is trained already.

        Parameters
        ----------
        neural
            The neural part: trained on the same training part, without absorbing the validation
            part. It is copied.
        settings
            Those of MAN; its neural settings are replaced by the part's own.
        """
        given = (settings or cls.settings_type()).model_dump()
        model = cls(
            cls.settings_type.model_validate({**given, "neural": neural.settings}), neural.runtime
        )
        model._trained = neural
        return model

    @property
    def label(self) -> str:
        """The name in tables."""
        return f"MAN-{self._neural.label}"

    @property
    def memory_entries(self) -> int:
        """How many transitions the memory holds."""
        return len(self._memory)

    def encode_anew(self, transitions: Transitions) -> None:
        """Let these transitions, encoded as the encoder is now, take the place of the memory's.

        Keys are written as the encoder was when they were; as it goes on learning they go stale.
        The codes are fitted anew too.

        Parameters
        ----------
        transitions
            All that is to be in memory, in time order, of items that are known.
        """
        keys = self._neural.represent(transitions)
        self._empty_memory()
        self._memory.train(keys)
        self._write(keys, transitions.contexts, transitions.items)

    # The contract

    _trained: NeuralRecommender | None = None
    _compiled: tuple[LearnedGate, Leaning] | None
    """The gate and the leaning, where what the parts say is weighed in one compiled pass."""

    def _fit_and_absorb(self, log: ClickLog, validation: ClickLog | None, *, absorb: bool) -> None:
        if validation is None:
            log, validation = hold_out(log)
            absorb = True
        self._fit(log, validation)
        if validation is None:
            return
        if self.settings.gate.lessons == "static":
            tested = self._moment(validation.transitions())
            self._fit_gate([] if tested.lessons is None else [tested.lessons.lessons])
            if absorb:
                self.absorb(validation)
        else:
            rehearsal = self if absorb else self.clone()
            self._fit_gate(rehearsal._absorb_for_lessons(validation))

    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:
        if self._trained is None:
            neural = NeuralRecommender(self.settings.neural, self.runtime)
            neural.fit(log, validation=validation, catalog=self.catalog, absorb=False)
        else:
            neural = self._trained.clone()
            if neural.n_items > self.n_items:
                raise BadInputError(
                    f"the network was trained on other data: it knows {neural.n_items:,} items, "
                    f"the training part {self.n_items:,}; train it on the same part"
                )
        self._take(neural)
        if self._leaning is not None:
            self._leaning.begin(log.items, self.n_items)
        transitions = log.transitions()
        if not len(transitions):
            return
        keys = self._neural.represent(transitions)
        self._memory.train(keys)
        if self.settings.remember == "all":
            self._write(keys, transitions.contexts, transitions.items)

    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        if len(contexts) <= AT_ONCE:
            return self._ranked(self._consult(contexts, k), k)
        pieces = (contexts[some] for some in _pieces(len(contexts)))
        return _together([self._ranked(self._consult(piece, k), k) for piece in pieces])

    def _test(
        self, transitions: Transitions, k: int, *, by_part: bool
    ) -> tuple[Ranked, dict[str, Ints], Moment]:
        ranked, moments, neural, memory = [], [], [], []
        for some in _pieces(len(transitions)):
            said = self._consult(transitions.contexts[some], k)
            ranked.append(self._ranked(said, k))
            moments.append(self._moment_of(said, transitions.items[some]))
            if by_part:
                neural.append(said.top[0][:, :k])
                memory.append(said.votes.top(k))
        parts = {}
        if by_part:
            parts = {"neural": np.concatenate(neural), "memory": np.concatenate(memory)}
        return _together(ranked), parts, one_moment(moments)

    def _lessons(self, transitions: Transitions) -> Moment:
        return one_moment(
            [
                self._moment_of(self._consult(transitions.contexts[some]), transitions.items[some])
                for some in _pieces(len(transitions))
            ]
        )

    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:
        if "memory" not in parts:
            return
        if self._leaning is not None:
            self._leaning.count(transitions.items)
        contexts = self._usable(transitions.contexts)
        usable = np.flatnonzero(contexts.lengths > 0)
        keys = self._keys(transitions.contexts[usable], contexts[usable], lessons)
        self._write(keys, contexts[usable], transitions.items[usable])

    def _plan(
        self,
        transitions: Transitions,
        parts: frozenset[str],
        lessons: list[Any],
        n_items: int,
        ahead: Ahead | None,
    ) -> Apply:
        steps = []
        if ahead is not None:
            steps.append(ahead.take)
        elif "neural" in parts:
            steps.append(self._neural.plan_step(transitions, n_items))
        if "gate" in parts and lessons:
            steps.append(self._gate.plan(Lessons.together([moment.lessons for moment in lessons])))
            steps += self._plan_leaning(lessons)

        def take_steps() -> None:
            for take_step in steps:
                take_step()

        return take_steps

    def _plan_ahead(
        self, transitions: Transitions, parts: frozenset[str], n_items: int
    ) -> Apply | None:
        return self._neural.plan_step(transitions, n_items) if "neural" in parts else None

    def _plan_leaning(self, lessons: Sequence[Moment]) -> list[Apply]:
        parts = [moment.leaning for moment in lessons if moment.leaning is not None]
        if self._leaning is None or not self.settings.gate.online or not parts:
            return []
        return [self._leaning.plan(LeaningLessons.together(parts))]

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation:
        neural, memory = np.zeros(items.shape), np.zeros(items.shape)
        sessions = np.zeros(items.shape, dtype=np.int64)
        voters = np.full((*items.shape, VOTERS), -1)
        shares = np.zeros(voters.shape)
        warm = contexts.lengths > 0
        if warm.any():
            said, asked = self._consult(contexts[warm], items.shape[1]), items[warm]
            factors = self._factors(said, asked)
            neural[warm], memory[warm] = (factors * part for part in self._said(said, asked))
            sessions[warm] = voting_sessions(said.neighbours, asked)
            voters[warm], shares[warm] = strongest_voters(
                said.neighbours, said.shares, asked, VOTERS
            )
        past = self._contexts.aged(voters.ravel())
        return Explanation(neural, memory, sessions, voters, shares, past)

    def _grow(self, n_items: int) -> None:
        self._neural.know(n_items)
        if self._leaning is not None:
            self._leaning.resize(n_items)

    def _state(self) -> State:
        return {
            **with_prefix("neural", self._neural.state()),
            **with_prefix("memory", self._memory.state()),
            **with_prefix("contexts", self._contexts.state()),
            **with_prefix("gate", self._gate.state()),
            **with_prefix("leaning", {} if self._leaning is None else self._leaning.state()),
        }

    def _restore(self, state: State) -> None:
        neural = NeuralRecommender(self.settings.neural, self.runtime)
        self._take(neural.restore(self.catalog, without_prefix("neural", state)))
        self._memory.restore(without_prefix("memory", state))
        self._contexts.restore(without_prefix("contexts", state))
        self._gate.restore(without_prefix("gate", state))
        if self._leaning is not None:
            self._leaning.restore(without_prefix("leaning", state))

    # The parts together

    def _take(self, neural: NeuralRecommender) -> None:
        """Take a neural part, with an empty memory and an untrained gate beside it."""
        self._neural = neural
        self._empty_memory()
        self._gate = self._new_gate()
        learned = self.settings.gate.kind == "learned"
        self._leaning = Leaning(self.runtime.seed) if learned and self.settings.gate.lean else None
        self._compiled = None
        by_kernel = self.settings.gate.bandwidth == "learned"
        if by_kernel and isinstance(self._gate, LearnedGate) and self._leaning is not None:
            self._compiled = self._gate, self._leaning

    def _new_gate(self) -> Gate:
        return make_gate(self.settings.gate, self._neural.dimension, self.runtime)

    def _empty_memory(self) -> None:
        given = (self.settings.memory, self._neural.dimension, self.runtime.threads)
        self._memory: Memory = make_memory(*given)
        self._contexts = PastContexts()

    def _write(self, keys: Vectors, contexts: Contexts, items: Ints) -> None:
        self._memory.add(keys, items, contexts.sessions)
        self._contexts.add(contexts)
        self._contexts.keep(len(self._memory))

    def _consult(self, contexts: Contexts, k: int = 1) -> Consulted:
        width = self._width(k)
        neural = self._neural.predict(contexts, width)
        neighbours = self._memory.search(neural.representations)
        if self._compiled is not None and isinstance(neural.score, ItemScores):
            entries, (gate, leaning) = len(self._memory), self._compiled
            said = contexts.sessions, neural, neural.score, neighbours
            return consult_compiled(*said, entries, gate, leaning, k)
        top = neural.top(width)
        evidence = self._evidence(neural, top, neighbours)
        opening = self._gate.open(evidence)
        return Consultation(contexts.sessions, neural, top, neighbours, evidence, opening)

    def _evidence(
        self, neural: Prediction, top: tuple[Ints, Floats], neighbours: Neighbours
    ) -> Evidence:
        return Evidence(
            neural.representations,
            evidence_features(
                neighbours.distances, neighbours.items, top[1][:, :LIKELY], len(self._memory)
            ),
            neighbours.distances,
            np.empty((len(neighbours), 0), dtype=np.bool_),
        )

    def _width(self, k: int) -> int:
        """Return how many items are looked at to recommend `k`."""
        return min(max(k, LIKELY if self._leaning is None else LEANT), self.n_items)

    def _mixed(self, said: Consulted, k: int) -> tuple[Ints, Floats]:
        """Return the best items of P, before any leaning."""
        if isinstance(said, CompiledConsultation):
            return said.mixed[0][:, :k], said.mixed[1][:, :k]
        voted = said.votes
        return mix(
            said.opening.weights,
            (said.top[0][:, :k], said.top[1][:, :k]),
            (voted.items, said.neural.at(voted.items), voted.probabilities),
        )

    def _ranked(self, said: Consulted, k: int) -> Ranked:
        if isinstance(said, CompiledConsultation):
            return Ranked(*said.best, said.weights)
        if self._leaning is None:
            items, scores = self._mixed(said, k)
        else:
            items, scores = self._leaning.best(*self._mixed(said, self._width(k)), k)
        return Ranked(items, scores, said.opening.weights)

    def _said(self, said: Consulted, asked: Ints) -> tuple[Floats, Floats]:
        """Return of P at these items what is the neural part's, and what the memory's."""
        voted, weights = said.votes, said.opening.weights[:, None]
        named = (asked[:, :, None] == voted.items[:, None, :]) & (asked[:, :, None] >= 0)
        memory = (1 - weights) * (named * voted.probabilities[:, None, :]).sum(2)
        return weights * said.neural.at(asked), memory

    def _factors(self, said: Consulted, asked: Ints) -> Floats:
        """Return what leaning multiplies the probabilities of recommended items by."""
        if self._leaning is None:
            return np.ones(asked.shape)
        width = self._width(asked.shape[1])
        return self._leaning.factors(*self._mixed(said, width), asked)

    def _moment_of(self, said: Consulted, clicked: Ints) -> Moment:
        leaning = None
        if self._leaning is not None:
            leaning = self._leaning.lessons(*self._mixed(said, self._width(LEANT)), clicked)
        lessons = self._gate_lessons(said, clicked)
        return Moment(self.n_items, said.neural.representations, lessons, leaning)

    def _gate_lessons(self, said: Consulted, clicked: Ints) -> Lessons:
        return gate_lessons(said, clicked)

    def _keys(
        self, contexts: Contexts, known: Contexts, moment: Moment | None
    ) -> NDArray[np.float32]:
        """Return the keys of contexts as they were at that moment.

        A context that held items unknown then is encoded now, with all of them.
        """
        then = contexts.last(CONTEXT_LENGTH).known(0 if moment is None else moment.n_items).lengths
        keys = np.empty((len(contexts), self._neural.dimension), dtype=np.float32)
        same = then == known.lengths
        if moment is not None:
            keys[same] = moment.keys[same[then > 0]]
        if not same.all():
            keys[~same] = self._neural.encode(known[~same])
        return keys

    def _fit_gate(self, lessons: Sequence[Lessons]) -> None:
        if lessons:
            self._gate.fit(Lessons.together(lessons))

    def _absorb_for_lessons(self, validation: ClickLog) -> list[Lessons]:
        """Absorb the validation part, and return what the gate saw before each batch."""
        transitions = validation.transitions()
        seen = []
        without_gate = self.parts - {"gate"}
        with self.runtime.progress("Absorbing the validation part", len(transitions)) as advance:
            for batch in transitions.batches(LEARNING_BATCH):
                tested = self._moment(batch)
                if tested.lessons is not None:
                    seen.append(tested.lessons.lessons)
                    for take_step in self._plan_leaning([tested.lessons]):
                        take_step()
                self.remember(batch, tested, parts=without_gate)
                self.step(batch, [tested], parts=without_gate)
                advance(len(batch))
        return seen


def _pieces(n: int) -> Iterator[slice]:
    """Cut rows into pieces of which the scores of all items fit in memory."""
    return (slice(start, start + AT_ONCE) for start in range(0, n, AT_ONCE))


def _together(pieces: Sequence[Ranked]) -> Ranked:
    if len(pieces) == 1:
        return pieces[0]
    items, scores, weights = zip(*pieces, strict=True)
    return Ranked(np.concatenate(items), np.concatenate(scores), np.concatenate(weights))
