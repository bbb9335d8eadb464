"""A disk that is cut off: what may be on it, from a record of what was done to its files.

What was not synced may be there, in part, or not: every write by itself, down to sectors. So may
the entries of a directory that was not synced: those of each directory up to some change.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
_HEAD = struct.Struct("<cIIqQ")


class Step(NamedTuple):
    """Something that a process did: one letter, as in ``recorder.c``."""

    op: str
    path: str
    other: str
    number: int
    data: bytes


def steps(recorded: Path) -> Iterator[Step]:
    """Read what was recorded."""
    content = recorded.read_bytes()
    at = 0
    while at < len(content):
        op, one, other, number, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        ends = (at + one, at + one + other, at + one + other + length)
        path, second = content[at : ends[0]].decode(), content[ends[0] : ends[1]].decode()
        yield Step(op.decode(), path, second, number, content[ends[1] : ends[2]])
        at = ends[2]


@dataclass(eq=False)
class File:
    durable: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes (where, what), and truncations (to, nothing), since it was synced."""


@dataclass(eq=False)
class Folder:
    durable: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)

    @property
    def now(self) -> dict[str, Node]:
        return self.after(len(self.pending))

    def after(self, changes: int) -> dict[str, Node]:
        entries = dict(self.durable)
        for change in self.pending[:changes]:
            for name, node in change.items():
                if node is None:
                    entries.pop(name, None)
                else:
                    entries[name] = node
        return entries


Node = File | Folder


class Disk:
    """What was done to the files under a directory, of which some is on disk for good."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.top = Folder()

    def take(self, step: Step) -> None:
        """Follow a step."""
        if step.op == "N" or step.path.endswith("-shm"):
            return  # what is shared between processes is made anew by the first
        folder, name = self._find(step.path)
        node = folder.now.get(name) if name else folder
        if step.op in "CD":
            folder.pending.append({name: File() if step.op == "C" else Folder()})
        elif step.op == "U":
            folder.pending.append({name: None})
        elif step.op == "R":
            other, to = self._find(step.other)
            assert other is folder
            swapped = folder.now[to] if step.number else None
            folder.pending.append({name: swapped, to: folder.now[name]})
        elif isinstance(node, Folder):
            assert step.op == "S"
            node.durable, node.pending = node.now, []
        elif isinstance(node, File) and step.op == "S":
            node.durable, node.pending = step.data, []
        elif isinstance(node, File):
            node.pending.append((step.number, step.data if step.op == "W" else None))

    def write(self, to: Path, mode: str, chance: random.Random) -> None:
        """Write what may be on the disk after a power loss.

        Parameters
        ----------
        to
            An empty directory.
        mode
            `synced`: only what was synced; `all`: everything; `torn`: everything, but the last
            write to each file only in part; `mixed`: any of what was not synced.
        """
        self._write(self.top, to, mode, chance)

    def _write(self, folder: Folder, to: Path, mode: str, chance: random.Random) -> None:
        kept = len(folder.pending)
        if mode == "synced":
            kept = 0
        elif mode == "mixed":
            kept = chance.randint(0, kept)
        for name, node in folder.after(kept).items():
            if isinstance(node, Folder):
                (to / name).mkdir()
                self._write(node, to / name, mode, chance)
            else:
                (to / name).write_bytes(_content(node, mode, chance))

    def _find(self, path: str) -> tuple[Folder, str]:
        *parts, name = path.removeprefix(self._root).strip("/").split("/")
        folder = self.top
        for part in parts:
            inner = folder.now[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name


def _content(file: File, mode: str, chance: random.Random) -> bytes:
    content = bytearray(file.durable)
    for place, (where, what) in enumerate(file.pending):
        last = place == len(file.pending) - 1
        if what is None:
            if mode in ("all", "torn") or (mode == "mixed" and chance.random() < 0.5):
                del content[where:]
                content.extend(bytes(where - len(content)))
            continue
        for start in range(0, len(what), SECTOR):
            if mode == "synced" or (mode == "mixed" and chance.random() < 0.5):
                continue
            if mode == "torn" and last and start >= len(what) // 2:
                continue
            sector = what[start : start + SECTOR]
            at = where + start
            content.extend(bytes(max(0, at - len(content))))
            content[at : at + len(sector)] = sector
    return bytes(content)
