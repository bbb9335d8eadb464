"""A thread that works on what is put into its mailbox, and whose end by a defect is seen."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Generic

from nextclick.serving.mailbox import Letter, Mailbox
from nextclick.serving.messages import ClosedError, DefectError

_log = logging.getLogger(__name__)


class Worker(Generic[Letter]):
    """A thread and its mailbox.

    An error that `handle` lets out is a defect, and ends the thread. Then nobody must wait for it:
    what it had in hand and what is in its mailbox is refused, and what comes later at once.

    Parameters
    ----------
    name
        Of the thread.
    handle
        Works on letters; given none when `patience` has run out.
    refuse
        Tells who waits for a letter that nothing comes of it.
    at_once
        How many letters are handled together at most.
    patience
        Returns for how many seconds to wait for a letter; `None` for ever.

    Examples
    --------
    >>> worker = Worker("adder", lambda letters: print(sum(letters)), refuse=print)
    >>> worker.start()
    >>> worker.mailbox.put(5)
    >>> worker.close()
    5
    """

    def __init__(
        self,
        name: str,
        handle: Callable[[Sequence[Letter]], None],
        refuse: Callable[[Letter, Exception], None],
        at_once: int = 1,
        patience: Callable[[], float | None] = lambda: None,
    ) -> None:
        self.mailbox: Mailbox[Letter] = Mailbox()
        self.defect: str | None = None
        """What ended the thread, if a defect did."""
        self._handle = handle
        self._refuse = refuse
        self._at_once = at_once
        self._patience = patience
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin, with what is in the mailbox already."""
        self._thread.start()

    def close(self) -> None:
        """Take nothing in any more, work on what is there, and end."""
        self.mailbox.close()
        self._thread.join()

    def _run(self) -> None:
        letters: Sequence[Letter] = ()
        try:
            while True:
                letters = ()
                try:
                    letters = self.mailbox.get(self._at_once, self._patience())
                except ClosedError:
                    return
                self._handle(letters)
        except BaseException as error:  # whatever it was, nobody may wait for this thread
            self._give_up(letters, error)

    def _give_up(self, letters: Sequence[Letter], error: BaseException) -> None:
        name = self._thread.name
        self.defect = f"the {name} ended at a defect: {type(error).__name__}: {error}"
        _log.error("the %s ended at a defect", name, exc_info=error)
        for letter in (*letters, *self.mailbox.abandon(self._refusal)):
            try:
                self._refuse(letter, self._refusal())
            except Exception:
                _log.exception("nobody could be told what became of %r", letter)

    def _refusal(self) -> DefectError:
        return DefectError(f"{self.defect}; start the service again")
