"""The encoders there are, by name: every module of this package that defines one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache

import nextclick.encoders
from nextclick.encoders.base import Encoder, EncoderSettings
from nextclick.errors import BadInputError


@cache
def encoders() -> dict[str, type[Encoder]]:
    """Return the encoders of this package by name.

    Examples
    --------
    >>> sorted(encoders())
    ['gru4rec', 'narm']
    """
    for module in pkgutil.iter_modules(nextclick.encoders.__path__, "nextclick.encoders."):
        importlib.import_module(module.name)
    return {
        encoder.settings_type.model_fields["kind"].default: encoder
        for encoder in Encoder.__subclasses__()
        if not inspect.isabstract(encoder)
    }


def encoder_class(kind: str) -> type[Encoder]:
    """Return the encoder of this name."""
    if kind not in encoders():
        known = ", ".join(sorted(encoders()))
        raise BadInputError(f"no encoder is called {kind!r}; there are {known}")
    return encoders()[kind]


def build_encoder(settings: EncoderSettings) -> Encoder:
    """Make the encoder that these are the settings of."""
    build: Callable[[EncoderSettings], Encoder] = encoder_class(settings.kind)
    return build(settings)


def encoder_settings(values: object) -> EncoderSettings:
    """Make the settings of the encoder that the key `kind` names.

    Examples
    --------
    >>> encoder_settings({"kind": "narm", "hidden": 50}).hidden
    50
    """
    if isinstance(values, EncoderSettings):
        return values
    if not isinstance(values, dict):
        raise ValueError("an encoder is given by a table with the key 'kind'")
    return encoder_class(str(values.get("kind", "narm"))).settings_type.model_validate(values)
