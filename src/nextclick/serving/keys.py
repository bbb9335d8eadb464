"""API keys: made once, shown once, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nextclick.errors import BadInputError
from nextclick.files import new_file

SCOPES = ("read", "write", "admin")
"""`read`: recommendations, sessions, figures; `write`: clicks, items; `admin`: models."""

FILE = "keys.json"


@dataclass(frozen=True)
class Key:
    """An API key, of which the service knows only the hash.

    Parameters
    ----------
    name
        What people call it.
    scopes
        What it opens.
    sha256
        The hash. Keys have 256 random bits: a slow hash would protect them no better.
    """

    name: str
    scopes: frozenset[str]
    sha256: str


class Keys:
    """The keys in a service's state; a file that was changed is read again.

    Parameters
    ----------
    state
        The service's state directory.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> keys = Keys(Path(folder.name))
    >>> secret = keys.add("shop", ["read", "write"])
    >>> keys.find(secret).name, keys.find("something else")
    ('shop', None)
    >>> folder.cleanup()
    """

    def __init__(self, state: Path) -> None:
        self.file = state / FILE
        self._keys: list[Key] = []
        self._read_at: tuple[int, int] | None = None
        self.refresh()

    @property
    def required(self) -> bool:
        """Whether requests need a key: as soon as there is a file of keys, be it empty."""
        return self._read_at is not None

    def __iter__(self) -> Any:
        return iter(self._keys)

    def refresh(self) -> None:
        """Read the file again if it was changed."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            # A file that is gone while the service runs does not open it to everybody.
            self._keys = []
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp != self._read_at:
            self._keys = _parsed(self.file)
            self._read_at = stamp

    def find(self, secret: str) -> Key | None:
        """Return the key that this is; takes as long for a wrong one as for a right one."""
        digest = hashlib.sha256(secret.encode(errors="replace")).hexdigest()
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def add(self, name: str, scopes: Collection[str]) -> str:
        """Make a key, and return it: it cannot be shown again."""
        if not name or len(name) > 100 or not name.isprintable():
            raise BadInputError("a key's name is 1 to 100 printable characters")
        if any(key.name == name for key in self._keys):
            raise BadInputError(
                f"{self.file}: there is a key named {name!r} already; remove it, or choose another"
            )
        unknown = set(scopes) - set(SCOPES)
        if unknown or not scopes:
            raise BadInputError(
                f"a key needs some of the scopes {', '.join(SCOPES)}"
                + (f", not {', '.join(sorted(unknown))}" if unknown else "")
            )
        secret = f"nck_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        self._write([*self._keys, Key(name, frozenset(scopes), digest)])
        return secret

    def remove(self, name: str) -> None:
        """Take a key away; requests with it are refused from now on."""
        left = [key for key in self._keys if key.name != name]
        if len(left) == len(self._keys):
            raise BadInputError(f"{self.file}: there is no key named {name!r}")
        self._write(left)

    def _write(self, keys: Collection[Key]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"name": key.name, "scopes": sorted(key.scopes), "sha256": key.sha256} for key in keys
        ]
        with new_file(self.file) as aside:
            aside.touch(mode=0o600)
            aside.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        self.refresh()


def _parsed(file: Path) -> list[Key]:
    try:
        rows = json.loads(file.read_bytes())
        return [Key(str(row["name"]), frozenset(row["scopes"]), str(row["sha256"])) for row in rows]
    except (ValueError, TypeError, KeyError):
        raise BadInputError(
            f"{file}: not a file of keys; move it away, and make the keys again with "
            "`nextclick keys add`"
        ) from None
