"""The methods by the names that users type, and their settings by the keys that users write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from nextclick.errors import BadInputError
from nextclick.recommender import Recommender
from nextclick.runtime import Runtime
from nextclick.settings import Settings


@dataclass(frozen=True)
class Method:
    """A recommender, and the settings that make it the method of this name.

    Parameters
    ----------
    summary
        What it does, in one line.
    recommender
        Its class, as ``module:name``: torch, FAISS and numba are loaded by those who use them.
    preset
        The settings that make it this method.
    """

    summary: str
    recommender: str
    preset: Mapping[str, Any] = field(default_factory=dict)

    def load(self) -> type[Recommender]:
        """Import the recommender's class."""
        module, name = self.recommender.split(":")
        recommender: type[Recommender] = getattr(import_module(module), name)
        return recommender

    def matches(self, model: Recommender) -> bool:
        """Whether a recommender is this method."""
        kind = type(model)
        settings = model.settings.model_dump(mode="json")
        return (
            self.recommender == f"{kind.__module__}:{kind.__name__}"
            and merged(settings, self.preset) == settings
        )


_NEURAL = "nextclick.encoders.recommender:NeuralRecommender"
_SESSION_KNN = "nextclick.baselines.session_knn:SessionKNN"

METHODS: Mapping[str, Method] = {
    "man": Method(
        "a neural encoder, a memory of past clicks, and a gate between them",
        "nextclick.memory_augmented.recommender:MemoryAugmented",
    ),
    "man-mix": Method(
        "MAN, and session kNN beside it: the gate weighs them all", "nextclick.mixture:Mixture"
    ),
    "narm": Method("the NARM encoder on its own", _NEURAL, {"encoder": {"kind": "narm"}}),
    "gru4rec": Method("the GRU4Rec encoder on its own", _NEURAL, {"encoder": {"kind": "gru4rec"}}),
    "s-sknn": Method(
        "the nearest past sessions, later clicks weighing more", _SESSION_KNN, {"kind": "s-sknn"}
    ),
    "sknn": Method("the nearest past sessions", _SESSION_KNN, {"kind": "sknn"}),
    "v-sknn": Method(
        "the nearest past sessions, later clicks and rare items weighing more",
        "nextclick.baselines.v_sknn:VSKNN",
    ),
    "stan": Method(
        "the nearest past sessions, near in sequence and time", "nextclick.baselines.stan:STAN"
    ),
    "vstan": Method("STAN with the votes of V-SKNN", "nextclick.baselines.stan:VSTAN"),
    "item-knn": Method(
        "what was clicked together with the last item", "nextclick.baselines.item_knn:ItemKNN"
    ),
    "ct": Method(
        "a context tree: what followed the same last clicks, experts weighed as they predict",
        "nextclick.baselines.context_tree:ContextTree",
    ),
    "popularity": Method("what is clicked most", "nextclick.baselines.popularity:Popularity"),
}


def create(
    name: str,
    settings: Mapping[str, Any] | None = None,
    runtime: Runtime | None = None,
    *,
    source: str = "settings",
) -> Recommender:
    """Return a recommender that has learned nothing yet.

    Parameters
    ----------
    name
        One of `METHODS`.
    settings
        Those that differ from the method's own, nested as in a TOML file.
    runtime
        Seed, threads, device and progress.
    source
        Where the settings come from, for error messages.

    Examples
    --------
    >>> create("popularity", {"half_life": 1000}).settings
    PopularitySettings(half_life=1000.0)
    >>> create("popularity", {"half_live": 1000})
    Traceback (most recent call last):
        ...
    nextclick.errors.BadInputError: settings: half_live: unknown key; did you mean 'half_life'?
    """
    method = find(name)
    recommender = method.load()
    wanted = merged(method.preset, settings or {})
    return recommender(validated(recommender.settings_type, wanted, source=source), runtime)


def find(name: str) -> Method:
    """Return the method of this name, or say which there are."""
    if name not in METHODS:
        raise BadInputError(f"no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]


def name_of(model: Recommender) -> str:
    """Return the name under which `create` makes a recommender like this one.

    Examples
    --------
    >>> name_of(create("popularity"))
    'popularity'
    """
    for name, method in METHODS.items():
        if method.matches(model):
            return name
    raise BadInputError(f"{type(model).__name__} has no name in nextclick.methods")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which those of `over` take the place of those of `base`, key by key.

    Examples
    --------
    >>> merged({"memory": {"kind": "exact", "size": 9}}, {"memory": {"size": 5}})
    {'memory': {'kind': 'exact', 'size': 5}}
    """
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both_nested = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(below, value) if both_nested else value  # type: ignore[arg-type] # both_nested says so
    return result


def validated(type_: type[Settings], settings: Mapping[str, Any], *, source: str) -> Settings:
    """Return settings of this type, or say which key is wrong, and in what way."""
    try:
        return type_.model_validate(settings)
    except ValidationError as error:
        complaints = _complaints(error, settings, _keys(type_))
        raise BadInputError("\n".join(f"{source}: {c}" for c in complaints)) from None
    except BadInputError as error:
        raise BadInputError(f"{source}: {error}") from None


def _complaints(
    error: ValidationError, settings: Any, keys: set[str], above: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield a line for each thing that is wrong; settings inside settings included."""
    for detail in error.errors():
        path, value = _path(settings, detail["loc"])
        inner = detail.get("ctx", {}).get("error")
        if isinstance(inner, ValidationError):
            yield from _complaints(inner, value, keys, (*above, *path))
        else:
            yield _complaint((*above, *path), detail, keys)


def _complaint(path: tuple[str, ...], detail: ErrorDetails, keys: set[str]) -> str:
    key = ".".join(path)
    if detail["type"] == "extra_forbidden":
        near = get_close_matches(path[-1], sorted(keys), n=1)
        return f"{key}: unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
    reason = detail["msg"].removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    if isinstance(detail["input"], str | int | float | bool):
        reason += f", not {detail['input']!r}"
    return f"{key}: {reason}" if key else reason


def _path(settings: Any, location: tuple[int | str, ...]) -> tuple[tuple[str, ...], Any]:
    """Return where an error lies, without the variants of unions in between, and what is there."""
    path = []
    for step in location:
        inside = isinstance(settings, Mapping) and step in settings
        if inside or step == location[-1]:
            path.append(str(step))
        if inside:
            settings = settings[step]
    return tuple(path), settings


def _keys(type_: type[BaseModel]) -> set[str]:
    """Return every key that these settings have at any depth."""
    keys = set(type_.model_fields)
    for definition in type_.model_json_schema().get("$defs", {}).values():
        keys.update(definition.get("properties", {}))
    return keys
