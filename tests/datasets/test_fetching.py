"""Fetching from a server that does everything wrong that a server can do."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nextclick.datasets.fetching import BASE_URL, fetch
from nextclick.datasets.published import PUBLISHED, Published
from nextclick.errors import BadInputError

FILES = {f"period_{n}.txt": f"{n} click\n".encode() * 50_000 for n in range(3)}


class Server(ThreadingHTTPServer):
    """Serves FILES; `faults` says, request by request, what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults: list[str] = []
        self.requests: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/data/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.requests.append((self.path, asked))
        fault = self.server.faults.pop(0) if self.server.faults else ""
        content = FILES[self.path.rsplit("/", 1)[-1]]
        if fault.isdigit():
            self.send_error(int(fault))
            return
        if fault == "damaged":
            content = content[:-1] + b"?"
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if fault == "no range":
            start, asked = 0, None
        if fault == "416":
            self.send_error(416)
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        body = content[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setitem(PUBLISHED, "small", Published("small", "SMALL", sums, test_sessions=1))
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: Server, folder: Path) -> list[float]:
    waits: list[float] = []
    assert fetch("small", folder, base_url=server.url, wait=waits.append) == folder
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == FILES
    return waits


def test_everything_arrives_and_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    assert get(server, tmp_path / "small") == []
    assert [path for path, _ in server.requests] == [f"/data/SMALL/{name}" for name in FILES]
    get(server, tmp_path / "small")
    assert len(server.requests) == 3
    (tmp_path / "small" / "period_1.txt").write_text("damaged since")
    get(server, tmp_path / "small")
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("faults", "ranges"),
    [
        (["cut"], [None, "half"]),
        (["cut", "cut"], [None, "half", "three quarters"]),
        (["cut", "no range"], [None, "half"]),
        (["damaged"], [None, None]),
        (["cut", "damaged"], [None, "half", None]),
        (["503", "429"], [None, None, None]),
        (["cut", "416"], [None, "half", None]),
    ],
)
def test_what_may_pass_is_tried_again(
    faults: list[str], ranges: list[str | None], server: Server, tmp_path: Path
) -> None:
    server.faults = list(faults)
    waits = get(server, tmp_path / "small")
    size = len(FILES["period_0.txt"])
    starts = {
        None: None,
        "half": f"bytes={size // 2}-",
        "three quarters": f"bytes={size * 3 // 4}-",
    }
    asked = [asked for _, asked in server.requests[: len(ranges)]]
    assert asked == [starts[name] for name in ranges]
    assert waits == [2.0**n for n in range(len(ranges) - 1)]


def test_another_call_goes_on_where_one_gave_up(server: Server, tmp_path: Path) -> None:
    server.faults = ["cut"] + ["503"] * 4
    with pytest.raises(BadInputError, match=r"period_0.txt: not fetched after 5 attempts.*go on"):
        get(server, tmp_path / "small")
    assert [file.name for file in (tmp_path / "small").iterdir()] == ["period_0.txt.part"]
    get(server, tmp_path / "small")
    assert server.requests[5][1] == f"bytes={len(FILES['period_0.txt']) // 2}-"


def test_damaged_files_are_never_put_in_place(server: Server, tmp_path: Path) -> None:
    server.faults = ["damaged"] * 5
    with pytest.raises(BadInputError, match="its SHA-256 sum is not that of the published file"):
        get(server, tmp_path / "small")
    assert list((tmp_path / "small").iterdir()) == []


def test_what_will_not_pass_is_not_tried_again(server: Server, tmp_path: Path) -> None:
    server.faults = ["404"]
    with pytest.raises(BadInputError, match=r"the server answers 404 Not Found.*--base-url"):
        get(server, tmp_path / "small")
    assert len(server.requests) == 1


def test_no_server_at_all(server: Server, tmp_path: Path) -> None:
    server.server_close()
    with pytest.raises(BadInputError, match=r"Connection refused\); what arrived is kept"):
        fetch("small", tmp_path / "small", base_url=server.url, wait=lambda _: None)


def test_a_folder_that_cannot_be(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((BadInputError, NotADirectoryError)):
        fetch("small", tmp_path / "file" / "small", base_url=server.url)


def test_names_there_are_not(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="'amazon'; there are diginetica, yoochoose"):
        fetch("amazon", tmp_path)


def test_the_default_address_is_the_authors() -> None:
    url = f"{BASE_URL}/{PUBLISHED['diginetica'].folder}/period_0.txt"
    assert url.endswith("/DoubleMuL/ADER/master/data/DIGINETICA/period_0.txt")
