"""Results that are not there yet, made from others."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

First = TypeVar("First")
Second = TypeVar("Second")


def promised() -> Future[Any]:
    """Return a future whose result comes in any case: nobody can cancel it.

    Who waits for it may leave; who brings the result must not fail for that.

    Examples
    --------
    >>> promised().cancel()
    False
    """
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


def brought(result: First) -> Future[First]:
    """Return a future that has its result.

    Examples
    --------
    >>> brought(5).result()
    5
    """
    future: Future[First] = promised()
    future.set_result(result)
    return future


def then(first: Future[First], make: Callable[[First], Second]) -> Future[Second]:
    """Return a future of what `make` makes of the first one's result.

    Examples
    --------
    >>> first = Future()
    >>> second = then(first, str)
    >>> first.set_result(5)
    >>> second.result()
    '5'
    """
    second: Future[Second] = promised()

    def done(_: Future[First]) -> None:
        try:
            second.set_result(make(first.result()))
        except Exception as error:
            second.set_exception(error)

    first.add_done_callback(done)
    return second


def flat(outer: Future[Future[First]]) -> Future[First]:
    """Return a future of what the future that comes out of another one brings.

    Examples
    --------
    >>> outer, inner = Future(), Future()
    >>> result = flat(outer)
    >>> outer.set_result(inner)
    >>> inner.set_result(5)
    >>> result.result()
    5
    """
    result: Future[First] = promised()

    def hand_on(inner: Future[First]) -> None:
        try:
            result.set_result(inner.result())
        except Exception as error:
            result.set_exception(error)

    def came(_: Future[Future[First]]) -> None:
        try:
            outer.result().add_done_callback(hand_on)
        except Exception as error:
            result.set_exception(error)

    outer.add_done_callback(came)
    return result


def both(first: Future[First], second: Future[Second]) -> Future[tuple[First, Second]]:
    """Return a future of two results, or of the first error; no thread waits for the other.

    Examples
    --------
    >>> first, second = Future(), Future()
    >>> pair = both(first, second)
    >>> second.set_result(2)
    >>> first.set_result(1)
    >>> pair.result()
    (1, 2)
    """
    pair: Future[tuple[First, Second]] = promised()
    turn = threading.Lock()

    def done(_: Future[Any]) -> None:
        with turn:
            if pair.done() or not (first.done() and second.done()):
                return
            try:
                pair.set_result((first.result(), second.result()))
            except Exception as error:
                pair.set_exception(error)

    first.add_done_callback(done)
    second.add_done_callback(done)
    return pair
