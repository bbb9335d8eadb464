"""What requests may be: everything else is refused before it is written anywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nextclick.catalog import check_id
from nextclick.errors import BadInputError
from nextclick.serving.messages import Ask, NewClick


def check_clicks(clicks: Sequence[NewClick]) -> None:
    """Refuse clicks that cannot be kept, naming the first such and its field.

    Examples
    --------
    >>> check_clicks([NewClick("anna", "shoes"), NewClick("anna", "")])
    Traceback (most recent call last):
        ...
    nextclick.errors.BadInputError: click 1: item: an id is empty
    """
    for place, click in enumerate(clicks):
        check_text(f"click {place}: session", click.session)
        check_text(f"click {place}: item", click.item)
        if click.event_id is not None:
            check_text(f"click {place}: event_id", click.event_id)
        timestamp = click.timestamp
        if timestamp is not None and not (
            isinstance(timestamp, int | float) and math.isfinite(timestamp)
        ):
            raise BadInputError(
                f"click {place}: timestamp is {timestamp!r}; give seconds since 1970, or leave it "
                "out for now"
            )


def check_text(what: str, value: object) -> None:
    """Refuse what is not an id."""
    if not isinstance(value, str):
        raise BadInputError(f"{what} is {value!r}; give text")
    if not value:
        raise BadInputError(f"{what}: an id is empty")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadInputError(f"{what} is {value!r}: half of a surrogate pair") from None
    try:
        check_id(value)
    except BadInputError as error:
        raise BadInputError(f"{what}: {error}") from None


def check_asks(asks: Sequence[Ask]) -> None:
    """Refuse questions that are none, naming the first such and its field."""
    for place, ask in enumerate(asks):
        if ask.k < 1:
            raise BadInputError(f"question {place}: k is {ask.k}; ask for at least one item")
