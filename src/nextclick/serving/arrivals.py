"""What other threads finish, brought to the event loop: one wake-up for all that is done."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Arrivals:
    """Makes futures of other threads awaitable.

    `asyncio.wrap_future` wakes the loop once for each future, by a write to a pipe and a context
    switch; answers come in groups, and here the first of a group wakes the loop for all.

    Parameters
    ----------
    loop
        The event loop.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> async def wait():
    ...     arrivals = Arrivals(asyncio.get_running_loop())
    ...     with ThreadPoolExecutor() as pool:
    ...         return await arrivals.wait(pool.submit(lambda: 42))
    >>> asyncio.run(wait())
    42
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._done: deque[tuple[Future[Any], asyncio.Future[Any]]] = deque()
        self._woken = False

    def wait(self, future: Future[T]) -> asyncio.Future[T]:
        """Return an awaitable for a future that another thread will finish."""
        waiting: asyncio.Future[T] = self._loop.create_future()
        future.add_done_callback(lambda done: self._arrived(done, waiting))
        return waiting

    def _arrived(self, future: Future[Any], waiting: asyncio.Future[Any]) -> None:
        self._done.append((future, waiting))
        # Appended before the look: either this wakes the loop, or what woke it has not looked yet.
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._done:
            future, waiting = self._done.popleft()
            if waiting.done():  # nobody waits any more
                continue
            error = future.exception()
            if error is None:
                waiting.set_result(future.result())
            else:
                waiting.set_exception(error)
