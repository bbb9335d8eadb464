"""Published data sets from where their authors keep them: resumed, retried, checked."""

from __future__ import annotations

import errno
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO

from nextclick.datasets.published import PUBLISHED, Published
from nextclick.errors import BadInputError
from nextclick.files import sha256, sync
from nextclick.runtime import Runtime

BASE_URL = "https://raw.githubusercontent.com/DoubleMuL/ADER/master/data"
"""The data published with ADER (RecSys 2020)."""

ATTEMPTS = 5
FIRST_WAIT = 1.0
TIMEOUT = 30.0
BLOCK = 1 << 16

PARTIAL = ".part"
PARTIAL_CONTENT, RANGE_REFUSED = 206, 416
TEMPORARY = frozenset({408, 425, 429, 500, 502, 503, 504})


class DamagedDownloadError(Exception):
    """A file has arrived whole, and is not the one that was published."""


def fetch(
    name: str,
    folder: str | Path,
    *,
    base_url: str = BASE_URL,
    runtime: Runtime | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> Path:
    """Download a published data set; what is there already, whole, is kept.

    A download that breaks off goes on from where it was, in this call or the next; a file appears
    under its name only when its SHA-256 sum is the published one.

    Parameters
    ----------
    name
        `"diginetica"` or `"yoochoose"`.
    folder
        Where the files go.
    base_url
        Where the data sets are, each in a folder of its own: for mirrors.
    runtime
        Whether progress is shown.
    wait
        What to wait with before another attempt.

    Returns
    -------
    Path
        The folder, ready for `prepare`.
    """
    published, folder = find_published(name), Path(folder)
    with (runtime or Runtime()).progress(f"Fetching {name}", len(published.sums)) as advance:
        for file, expected in published.sums.items():
            path = folder / file
            if not path.is_file() or sha256(path) != expected:
                url = f"{base_url.rstrip('/')}/{published.folder}/{file}"
                _fetch_file(url, path, expected, wait)
            advance(note=file)
    return folder


def find_published(name: str) -> Published:
    """Return the published data set of this name, or say which ones there are."""
    if name not in PUBLISHED:
        raise BadInputError(f"no published data set {name!r}; there are {', '.join(PUBLISHED)}")
    return PUBLISHED[name]


def _fetch_file(url: str, path: Path, expected: str, wait: Callable[[float], None]) -> None:
    """Fetch one file, trying again after what may pass."""
    partial = path.with_name(path.name + PARTIAL)
    path.parent.mkdir(parents=True, exist_ok=True)
    last: Exception | None = None
    for attempt in range(ATTEMPTS):
        if attempt:
            wait(FIRST_WAIT * 2 ** (attempt - 1))
        try:
            _download(url, partial)
            _place(partial, path, expected)
        except (OSError, http.client.HTTPException, DamagedDownloadError) as error:
            _give_up_if_final(url, path, error)
            if isinstance(error, urllib.error.HTTPError) and error.code == RANGE_REFUSED:
                partial.unlink(missing_ok=True)
            last = error
        else:
            return
    raise BadInputError(
        f"{url}: not fetched after {ATTEMPTS} attempts ({_reason(last)}); what arrived is kept: "
        "run the command again to go on"
    ) from last


def _download(url: str, partial: Path) -> None:
    """Fetch what is missing of a file, behind what has arrived of it already."""
    there = partial.stat().st_size if partial.exists() else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "nextclick"}
    if there:
        headers["Range"] = f"bytes={there}-"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        goes_on = response.status == PARTIAL_CONTENT and _begins_at(response, there)
        with partial.open("ab" if goes_on else "wb") as file:
            _copy(response, file)


def _begins_at(response: http.client.HTTPResponse, there: int) -> bool:
    """Tell whether a partial answer begins where it was asked to."""
    return (response.getheader("Content-Range") or "").startswith(f"bytes {there}-")


def _copy(response: http.client.HTTPResponse, file: IO[bytes]) -> None:
    """Write an answer to a file; an answer that breaks off is an error, what came of it is kept."""
    missing = response.length
    while block := response.read(BLOCK):
        file.write(block)
        missing = None if missing is None else missing - len(block)
    if missing:
        raise http.client.IncompleteRead(b"", missing)


def _place(partial: Path, path: Path, expected: str) -> None:
    """Give a whole file its name; anything else is thrown away."""
    if sha256(partial) != expected:
        partial.unlink()
        raise DamagedDownloadError
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def _give_up_if_final(url: str, path: Path, error: Exception) -> None:
    """Raise what to tell the user if trying again cannot help."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        if error.code in TEMPORARY or error.code == RANGE_REFUSED:
            return
        raise BadInputError(
            f"{url}: the server answers {error.code} {error.reason}; is the address right? "
            "A mirror is given with --base-url"
        ) from error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES):
        raise BadInputError(f"{path}: cannot be written: {error.strerror}") from error


def _reason(error: Exception | None) -> str:
    if isinstance(error, DamagedDownloadError):
        return "its SHA-256 sum is not that of the published file"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke off"
    return str(getattr(error, "reason", error)) or type(error).__name__
