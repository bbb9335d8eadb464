"""What a result depends on, described: all of it, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from nextclick import methods
from nextclick.datasets.orders import SessionOrder
from nextclick.encoders.recommender import NeuralRecommender
from nextclick.settings import Settings


class Network(Settings):
    """A neural part as training leaves it, before it learns online; many cells share one.

    Parameters
    ----------
    encoder, training
        The settings that decide what training leads to.
    order
        What orders the clicks of a session.
    seed
        What all randomness is derived from.
    """

    encoder: dict[str, Any]
    training: dict[str, Any]
    order: SessionOrder = "time"
    seed: int = 0

    def key(self, fingerprint: str) -> str:
        """Return the name that this network, trained on this data, is kept under."""
        return _key(self, fingerprint, NeuralRecommender.version)


class Cell(Settings):
    """One result: a method with settings, evaluated on a part of a data set.

    Parameters
    ----------
    method
        A name of `nextclick.methods`.
    settings
        All of the method's settings, as `Cell.of` fills them in.
    order
        What orders the clicks of a session.
    seed
        What all randomness is derived from.
    parts
        Which of the method's parts learn; `None` for all, none for a method that stays as it is.
    absorb
        Whether the validation part is learned before the test.
    on
        What is tested on: the test part; the validation part, after the training part alone; or
        the end of the training part, as it was learned and without learning any more.
    limit
        How many transitions are tested; all by default.
    renew
        After how many tests all keys of the memory are encoded anew; never by default.
    """

    method: str
    settings: dict[str, Any]
    order: SessionOrder = "time"
    seed: int = 0
    parts: tuple[str, ...] | None = None
    absorb: bool = True
    on: Literal["test", "validation", "training"] = "test"
    limit: int | None = Field(default=None, ge=1)
    renew: int | None = Field(default=None, ge=1)

    @classmethod
    def of(
        cls,
        method: str,
        settings: Mapping[str, Any] | None = None,
        *,
        source: str = "settings",
        **how: Any,
    ) -> Cell:
        """Describe a result by what differs from a method's own settings.

        Examples
        --------
        >>> Cell.of("sknn", {"k": 50}, limit=10).settings["k"]
        50
        """
        found = methods.find(method)
        wanted = methods.merged(found.preset, settings or {})
        complete = methods.validated(found.load().settings_type, wanted, source=source)
        return cls(method=method, settings=complete.model_dump(mode="json"), **how)

    @property
    def network(self) -> Network | None:
        """The trained network that this method is built around, if it has one."""
        neural = self.settings.get("neural", self.settings)
        if "encoder" not in neural:
            return None
        return Network(
            encoder=neural["encoder"],
            training=neural["training"],
            order=self.order,
            seed=self.seed,
        )

    def key(self, fingerprint: str) -> str:
        """Return the name that this result on this data is kept under."""
        versions = [methods.find(self.method).load().version]
        if self.network:
            versions.append(NeuralRecommender.version)
        return _key(self, fingerprint, *versions)


def _key(description: Settings, fingerprint: str, *versions: int) -> str:
    """Return a sum over a description, the data, and the versions of the methods at work."""
    text = f"{description.model_dump_json()}\n{fingerprint}\n{versions}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]
