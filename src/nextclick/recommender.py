"""The contract of everything that recommends.

A method is a subclass with a few small hooks: `_fit`, `_recommend`, `_remember`, `_plan`, and its
state. What is the same for all (checks, cold contexts, growth, absorbing the validation part) is
here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nextclick.catalog import Catalog
from nextclick.clicks import CONTEXT_LENGTH, ClickLog, Contexts, Floats, Ints, Mask, Transitions
from nextclick.errors import BadInputError
from nextclick.popular import PopularItems
from nextclick.runtime import Runtime
from nextclick.settings import Settings

State: TypeAlias = dict[str, NDArray[Any]]
"""Everything a fitted recommender knows, as named arrays."""

Apply: TypeAlias = Callable[[], None]
"""Takes a step that was planned: short, and called once."""

PARTS: Final = ("neural", "gate", "memory")
"""What can learn online; every recommender has some of them."""


class Ahead(NamedTuple):
    """What of a step was planned before its batch was tested, and for how many items."""

    take: Apply
    n_items: int


LEARNING_BATCH = 100
"""How many transitions are learned at a time (the paper's schedule)."""


@dataclass(frozen=True, eq=False)
class Recommendations:
    """The best items for each context, best first.

    Parameters
    ----------
    items, scores
        Arrays of shape (contexts, k), filled up with -1 and 0 where a method has nothing to say.
    cold
        True for the contexts that held nothing known, and got what is popular instead.
    weights
        The gate's weight of the neural part for each context, NaN where there is no gate.
    """

    items: Ints
    scores: Floats
    cold: Mask
    weights: Floats

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Where the scores of recommendations came from; arrays of the recommendations' shape.

    Parameters
    ----------
    neural, memory
        How much of each score came from the neural part and from memory: they add up to it.
    sessions
        How many different past sessions voted for the item in memory.
    voters
        For each item the memory entries that voted most for it, (contexts, k, n), as how many were
        written after each of them; -1 where there are no more. `None` if the method has no memory.
    shares
        How much of the memory's prediction came from each of these.
    past
        What had been clicked before each of these, as far as it is known: a context for each of
        `voters.ravel()`.
    """

    neural: Floats
    memory: Floats
    sessions: Ints
    voters: Ints | None = None
    shares: Floats | None = None
    past: Contexts | None = None


@dataclass(frozen=True)
class Recommended:
    """One recommended item, by its external id; what is not known of it is `None`."""

    id: str
    title: str | None
    score: float
    neural: float | None = None
    memory: float | None = None
    sessions: int | None = None


@dataclass(frozen=True, eq=False)
class Tested:
    """What was recommended just before some clicks, and what learning them needs of that moment.

    Parameters
    ----------
    recommendations
        The model's, for each context.
    by_part
        What each of the method's parts would have recommended alone, (contexts, k), if it was
        asked for and the method has parts.
    lessons
        The method's own: to be handed back to `remember` and `step`.
    n_items
        How many items the model knew.
    """

    recommendations: Recommendations
    by_part: Mapping[str, Ints]
    lessons: Any
    n_items: int


class Ranked(NamedTuple):
    """What a method's `_recommend` returns: arrays of shape (contexts, k), and gate weights."""

    items: Ints
    scores: Floats
    weights: Floats | None = None


class Recommender(ABC):
    """Something that recommends the next item of a session, and learns from every click.

    Parameters
    ----------
    settings
        The method's own settings.
    runtime
        Seed, threads, device and progress.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[Settings]]
    version: ClassVar[int] = 1
    """Raised when the same settings, seed and data come to give other recommendations."""
    parts: ClassVar[frozenset[str]]
    """Which of `PARTS` this method has."""

    @property
    def label(self) -> str:
        """What tables call this method."""
        return self.name

    def __init__(self, settings: Settings | None = None, runtime: Runtime | None = None) -> None:
        self.settings: Any = self.settings_type() if settings is None else settings
        self.runtime = Runtime() if runtime is None else runtime
        self.catalog = Catalog()
        self.n_items = 0
        self._popular = PopularItems()

    # What callers use

    def fit(
        self,
        log: ClickLog,
        *,
        validation: ClickLog | None = None,
        catalog: Catalog | None = None,
        absorb: bool = True,
    ) -> Self:
        """Learn from past clicks, from the beginning.

        Parameters
        ----------
        log
            The training part.
        validation
            Clicks after those of `log`: for stopping early and for fitting the gate. It is learned
            as well afterwards, in online steps, unless `absorb` is false.
        catalog
            The items' external ids. Without it, an item's id is its number. The recommender keeps a
            copy with the items of these two parts.
        absorb
            Whether the validation part is learned before this returns, as a shop would do it.

        Returns
        -------
        Self
            The recommender itself.
        """
        if not len(log):
            raise BadInputError("there are no clicks to train on")
        n_items = max(log.n_items, validation.n_items if validation is not None else 0)
        self.catalog = Catalog(range(n_items)) if catalog is None else catalog.copy(n_items)
        self._popular = PopularItems()
        self.n_items = 0
        self.know(log.n_items)
        self._popular.add(log.items)
        self._fit_and_absorb(log, validation, absorb=absorb)
        return self

    def recommend(self, contexts: Contexts, k: int = 20) -> Recommendations:
        """Return the `k` best next items for each context; changes nothing.

        A context's clicks on items that the recommender does not know are passed over. A context in
        which nothing is left gets the most popular items.
        """
        usable = self._usable(contexts)
        return self._answer(usable, k, lambda warm, width: self._recommend(usable[warm], width))

    def explain(self, contexts: Contexts, recommended: Recommendations) -> Explanation | None:
        """Say where the scores of these recommendations came from, if the method has parts."""
        return self._explain(self._usable(contexts), recommended.items)

    def test(self, transitions: Transitions, k: int = 20, *, by_part: bool = False) -> Tested:
        """Return what is recommended just before these clicks; changes nothing.

        The same recommendations as `recommend` gives, with what `remember` and `step` need to know
        of this moment, so that nothing is computed twice.

        Parameters
        ----------
        transitions
            What is about to be learned; the next items are not looked at to recommend.
        k
            How many recommendations to give.
        by_part
            Whether to say what each part of the method would have recommended alone.
        """
        usable = self._usable(transitions.contexts)
        parts: dict[str, Ints] = {}
        lessons: list[Any] = [None]

        def tested(warm: Mask, width: int) -> Ranked:
            asked = Transitions(usable, transitions.items, transitions.times)[warm]
            ranked, alone, lessons[0] = self._test(asked, width, by_part=by_part)
            for part, items in alone.items():
                parts[part] = np.full((len(warm), k), -1, dtype=np.int64)
                parts[part][warm, : items.shape[1]] = items
            return ranked

        return Tested(self._answer(usable, k, tested), parts, lessons[0], self.n_items)

    def learn(self, transitions: Transitions, *, parts: Collection[str] | None = None) -> None:
        """Learn a batch of transitions, online.

        Items seen for the first time are known afterwards. What "a batch" means (one gradient step,
        say) each method's documentation says. It is `remember` and then `step`.

        Parameters
        ----------
        transitions
            What happened, in time order.
        parts
            Which of the method's `parts` learn; all of them by default.
        """
        learning = self._learning(transitions, parts)
        if not learning:
            return
        tested = self._moment(transitions)
        self.remember(transitions, tested, parts=learning)
        self.step(transitions, [tested], parts=learning)

    def remember(
        self, transitions: Transitions, tested: Tested, *, parts: Collection[str] | None = None
    ) -> None:
        """Learn what needs no gradient, at once: the catalog grows, the memory is written.

        Parameters
        ----------
        transitions
            What happened, in time order.
        tested
            What `test` returned for them just before.
        parts
            Which of the method's `parts` learn; all of them by default.
        """
        learning = self._learning(transitions, parts)
        if not learning:
            return
        self.know(transitions.n_items)
        self._popular.add(transitions.items)
        self._remember(transitions, learning, tested.lessons)

    def step(
        self,
        transitions: Transitions,
        tested: Sequence[Tested],
        *,
        parts: Collection[str] | None = None,
    ) -> None:
        """Take a gradient step on transitions that were remembered since the last one.

        It is what `plan` returns, called at once.

        Parameters
        ----------
        transitions
            The batch: all that were remembered, in order.
        tested
            What `test` returned for them, piece by piece.
        parts
            Which of the method's `parts` learn; all of them by default.
        """
        self.plan(transitions, tested, parts=parts)()

    def plan(
        self,
        transitions: Transitions,
        tested: Sequence[Tested],
        *,
        parts: Collection[str] | None = None,
        ahead: Ahead | None = None,
    ) -> Apply:
        """Compute a gradient step, and return the function that takes it.

        This is the long part of `step`, and changes nothing: in other threads the model may be
        asked, tested, and even told to `remember` meanwhile. The function is the short part, a
        fraction of a millisecond: nothing else may go on in the model while it runs. It is called
        once, before the next step is planned.

        The step is about the items known when the batch was remembered. Items that become known
        later, before this is called, while it computes, or before the step is taken, keep what
        they began with. So it makes no difference to the weights when that is. (It does to what is
        remembered: a key is what the weights made of the context when it was tested.)

        The parameters are those of `step`, and what `plan_ahead` returned for the same batch.

        Examples
        --------
        >>> from nextclick.baselines.popularity import Popularity
        >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3)])
        >>> model = Popularity().fit(log)
        >>> tested = model.test(log.transitions())
        >>> take_step = model.plan(log.transitions(), [tested])
        >>> take_step()
        """
        learning = self._learning(transitions, parts)
        if not learning:
            return nothing_to_apply
        lessons = [one.lessons for one in tested if one.lessons is not None]
        known = max([transitions.n_items, *(one.n_items for one in tested)])
        if ahead is not None and ahead.n_items != known:
            ahead = None
        return self._plan(transitions, learning, lessons, known, ahead)

    def plan_ahead(
        self, transitions: Transitions, *, parts: Collection[str] | None = None
    ) -> Ahead | None:
        """Compute what of `plan` needs nothing that `test` returns, if there is anything.

        It makes no difference to the step. While the last piece of a batch is tested and
        remembered, another thread may do this: then the step is ready sooner.

        Parameters
        ----------
        transitions
            The batch.
        parts
            Which of the method's `parts` learn; all of them by default.
        """
        learning = self._learning(transitions, parts)
        # Items that are new in this batch are known only when it is remembered.
        if not learning or transitions.n_items > self.n_items:
            return None
        n_items = self.n_items
        take = self._plan_ahead(transitions, learning, n_items)
        return None if take is None else Ahead(take, n_items)

    def recommend_one(self, clicked: Iterable[str | int], k: int = 20) -> list[Recommended]:
        """Return recommendations for one session, given and answered by external ids.

        Examples
        --------
        >>> from nextclick.baselines.popularity import Popularity
        >>> log = ClickLog.of([(0, 0, 1), (0, 1, 2), (1, 1, 3)])
        >>> model = Popularity().fit(log, catalog=Catalog(["shoes", "socks"]))
        >>> [r.id for r in model.recommend_one(["shoes"], k=1)]
        ['socks']
        """
        numbers = self.catalog.find(clicked)
        contexts = Contexts.of([numbers[numbers >= 0]])
        answer = self.recommend(contexts, k)
        why = self.explain(contexts, answer)
        return [
            Recommended(
                self.catalog.id(item),
                self.catalog[item].title,
                float(answer.scores[0, rank]),
                neural=None if why is None else float(why.neural[0, rank]),
                memory=None if why is None else float(why.memory[0, rank]),
                sessions=None if why is None else int(why.sessions[0, rank]),
            )
            for rank, item in enumerate(answer.items[0].tolist())
            if item >= 0
        ]

    def learn_one(self, clicked: Iterable[str | int], next_item: str | int) -> None:
        """Learn that after these clicks, given by external ids, came that one."""
        context = self.catalog.add(clicked)
        item = self.catalog.add([next_item])
        self.learn(Transitions(Contexts.of([context]), item, np.full(1, np.nan)))

    def state(self) -> State:
        """Return everything that was learned, as named arrays."""
        return {
            "recommender/n_items": np.array(self.n_items),
            **with_prefix("popular", self._popular.state()),
            **with_prefix("method", self._state()),
        }

    def restore(self, catalog: Catalog, state: State) -> Self:
        """Take up what `state` returned, so that everything goes on as if nothing had happened."""
        self.catalog = catalog
        self.n_items = int(state["recommender/n_items"])
        self._popular.restore(without_prefix("popular", state))
        self._restore(without_prefix("method", state))
        return self

    def clone(self, runtime: Runtime | None = None) -> Self:
        """Return a copy that learns apart from this one."""
        copy = type(self)(self.settings, runtime or self.runtime)
        state = {name: array.copy() for name, array in self.state().items()}
        return copy.restore(self.catalog.copy(), state)

    # What a method implements

    @abstractmethod
    def _fit(self, log: ClickLog, validation: ClickLog | None) -> None:
        """Learn the training part; look at the validation part only to choose."""

    @abstractmethod
    def _recommend(self, contexts: Contexts, k: int) -> Ranked:
        """Return the `k` best items for contexts of known items, none of them empty."""

    @abstractmethod
    def _remember(self, transitions: Transitions, parts: frozenset[str], lessons: Any) -> None:
        """Learn what needs no gradient; `n_items` covers the items already.

        The lessons are what `_lessons` returned before; `None` if no context was known then.
        """

    def _plan(
        self,
        transitions: Transitions,  # noqa: ARG002 - the contract's
        parts: frozenset[str],  # noqa: ARG002 - the contract's
        lessons: list[Any],  # noqa: ARG002 - the contract's
        n_items: int,  # noqa: ARG002 - the contract's
        ahead: Ahead | None,  # noqa: ARG002 - the contract's
    ) -> Apply:
        """Compute a gradient step on a batch that was remembered in one or more pieces.

        It is about the first `n_items` items; there may be more by now. Most methods take none.
        """
        return nothing_to_apply

    def _plan_ahead(
        self,
        transitions: Transitions,  # noqa: ARG002 - the contract's
        parts: frozenset[str],  # noqa: ARG002 - the contract's
        n_items: int,  # noqa: ARG002 - the contract's
    ) -> Apply | None:
        """Compute what of a step needs no lessons, if there is anything."""
        return None

    def _lessons(self, transitions: Transitions) -> Any:  # noqa: ARG002 - the contract's
        """Return what learning needs of how things stand; contexts known, none of them empty."""
        return None

    def _test(
        self,
        transitions: Transitions,
        k: int,
        *,
        by_part: bool,  # noqa: ARG002 - the contract's
    ) -> tuple[Ranked, dict[str, Ints], Any]:
        """Return what `_recommend` and `_lessons` return, and what each part says alone."""
        return self._recommend(transitions.contexts, k), {}, self._lessons(transitions)

    @abstractmethod
    def _state(self) -> State:
        """Return what this method learned."""

    @abstractmethod
    def _restore(self, state: State) -> None:
        """Take up what `_state` returned; `n_items` is set already."""

    def _explain(self, contexts: Contexts, items: Ints) -> Explanation | None:  # noqa: ARG002 - the contract's
        """Say where the scores of these items come from; contexts may be empty here."""
        return None

    def _grow(self, n_items: int) -> None:  # noqa: B027 - most methods have nothing to do
        """Make room for items up to `n_items`; called before `n_items` changes."""

    def _fit_and_absorb(self, log: ClickLog, validation: ClickLog | None, *, absorb: bool) -> None:
        self._fit(log, validation)
        if absorb and validation is not None:
            self.absorb(validation)

    def absorb(self, validation: ClickLog) -> None:
        """Learn a log as a test stream would be learned: in order, a batch at a time."""
        transitions = validation.transitions()
        with self.runtime.progress("Absorbing the validation part", len(transitions)) as advance:
            for batch in transitions.batches(LEARNING_BATCH):
                self.learn(batch)
                advance(len(batch))

    def _usable(self, contexts: Contexts) -> Contexts:
        """Return what a method sees of contexts: the last clicks on items that it knows."""
        return contexts.last(CONTEXT_LENGTH).known(self.n_items)

    def _learning(self, transitions: Transitions, parts: Collection[str] | None) -> frozenset[str]:
        if not len(transitions):
            return frozenset()
        return self.parts if parts is None else self.parts.intersection(parts)

    def _moment(self, transitions: Transitions) -> Tested:
        """Return of `test` what learning needs, without recommending anything."""
        usable = self._usable(transitions.contexts)
        warm = usable.lengths > 0
        lessons = None
        if warm.any():
            lessons = self._lessons(Transitions(usable, transitions.items, transitions.times)[warm])
        nothing = np.empty((len(transitions), 0))
        none = Recommendations(nothing.astype(np.int64), nothing, ~warm, nothing[:, :0])
        return Tested(none, {}, lessons, self.n_items)

    def _answer(
        self, usable: Contexts, k: int, ranked: Callable[[Mask, int], Ranked]
    ) -> Recommendations:
        """Return what is popular for cold contexts, and what the method says for the others."""
        if k < 1:
            raise BadInputError(f"k is {k}; ask for at least one recommendation")
        cold = usable.lengths == 0
        width = min(k, self.n_items)
        items = np.full((len(usable), k), -1, dtype=np.int64)
        scores = np.zeros((len(usable), k))
        weights = np.full(len(usable), np.nan)
        if cold.any():
            items[cold, :width], scores[cold, :width] = self._popular.top(width)
        warm = ~cold
        if warm.any():
            answer = ranked(warm, width)
            items[warm, :width], scores[warm, :width] = answer.items, answer.scores
            if answer.weights is not None:
                weights[warm] = answer.weights
        return Recommendations(items, scores, cold, weights)

    def know(self, n_items: int) -> None:
        """Make room for items up to `n_items`; `learn` does so by itself."""
        if n_items > self.n_items:
            self._grow(n_items)
            self._popular.resize(n_items)
            self.n_items = n_items


def nothing_to_apply() -> None:
    """Take no step."""


def with_prefix(prefix: str, state: State) -> State:
    """Return the state under names that begin with ``prefix/``."""
    return {f"{prefix}/{name}": array for name, array in state.items()}


def without_prefix(prefix: str, state: State) -> State:
    """Return the part of the state whose names begin with ``prefix/``, without it.

    Examples
    --------
    >>> sorted(without_prefix("a", with_prefix("a", {"x": np.zeros(1)})))
    ['x']
    """
    start = f"{prefix}/"
    return {
        name.removeprefix(start): array for name, array in state.items() if name.startswith(start)
    }
