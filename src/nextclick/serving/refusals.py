"""The one shape of every error that the service answers with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

JSON = "application/json"


class Problem(msgspec.Struct, omit_defaults=True):
    """What was wrong with a request, for programs and for people.

    Parameters
    ----------
    code
        What kind of error it is: a name that does not change.
    message
        What is wrong, and the way out.
    field
        Which field of the body, which parameter or which header is meant.
    limit
        If a limit was exceeded, its name and value.
    accepted
        How many clicks of the request were kept in spite of it.
    """

    code: str
    message: str
    field: str | None = None
    limit: dict[str, float] | None = None
    accepted: int | None = None


class ErrorBody(msgspec.Struct):
    """The body of every answer that is not a success."""

    error: Problem


class RefusalError(Exception):
    """A request is answered with an error.

    Parameters
    ----------
    status
        The HTTP status.
    code, message, field
        As in `Problem`.
    limit
        The name and the value of the limit that was exceeded.
    headers
        Further headers of the answer.
    close
        Whether the connection is closed after it, since what follows cannot be trusted or is not
        wanted.
    accepted
        How many clicks were kept all the same.

    Examples
    --------
    >>> RefusalError(404, "not_found", "there is no such page").body()
    b'{"error":{"code":"not_found","message":"there is no such page"}}'
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        limit: tuple[str, float] | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
        accepted: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        named = None if limit is None else {limit[0]: limit[1]}
        self.problem = Problem(code, message, field, named, accepted)
        self.headers = {**(headers or {}), **({"connection": "close"} if close else {})}

    def body(self) -> bytes:
        """Return the body of the answer."""
        return msgspec.json.encode(ErrorBody(self.problem))


def over_limit(
    name: str,
    value: float,
    message: str,
    *,
    status: int = 400,
    code: str = "over_limit",
    **more: Any,
) -> RefusalError:
    """Return the refusal of what exceeds a limit; the body names it."""
    return RefusalError(status, code, f"{message} (limit {name})", limit=(name, value), **more)
