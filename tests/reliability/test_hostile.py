"""Hostile input: refused with a 4xx or closed, never a 5xx, never a dead process, memory flat."""

from __future__ import annotations

import json
import math
import random
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

NAUGHTY = [
    "", "\0", "\ud800", "a" * 5_000, "é" * 800, "../../etc/passwd", "%00", "\u202e", "\r\nx: y",
    "'; DROP TABLE records; --", "{{7*7}}", "null", "NaN", "-1", "1e999", "🦊" * 300,
]  # fmt: skip
NUMBERS = [math.nan, math.inf, -math.inf, -1, 1e308, 2**63, -(2**64), 0, -0.0, 1.5, 10**400]
FIELDS = [
    "session_id", "item_id", "timestamp", "event_id", "items", "contexts", "k", "exclude", "path",
    "exclude_seen", "categories", "explain", "title", "category", "available",
]  # fmt: skip
PATHS = [
    ("POST", "/v1/clicks"), ("POST", "/v1/recommendations"), ("POST", "/v1/sessions/a/clicks"),
    ("PUT", "/v1/items/a"), ("POST", "/v1/admin/model"), ("POST", "/v1/clicks/import"),
]  # fmt: skip
TYPES = ["application/json", "application/x-ndjson", "text/plain", "application/json; x=y", ""]

leaves = (
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.sampled_from(NAUGHTY)
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=30)
)
bodies = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=30,
)


@pytest.fixture(scope="module")
def service(zygote: Any, saved: Callable[[str], Path], tmp_path_factory: Any) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("hostile")
    options = folder / "serve.toml"
    options.write_text("rate = 1_000_000\n[limits]\nrequest_seconds = 2.0\n")
    service = zygote.serve(
        str(saved("man")), "--state", str(folder / "state"), "--settings", str(options)
    )
    service.wait_until_ready()
    yield service
    service.stop()  # in order, with exit code 0
    assert '"event":"defect"' not in zygote.log.read_text(), zygote.log.read_text()


@pytest.fixture
def http(service: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as http:
        yield http


def check(answer: httpx.Response) -> None:
    assert answer.status_code < 500, (answer.request.content[:500], answer.text)
    if answer.status_code >= 400 and answer.request.method != "HEAD":
        assert set(answer.json()) == {"error"}


def relaxed(examples: float) -> Any:
    return settings(
        max_examples=int(examples),
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def test_what_the_openapi_document_allows_and_forbids(service: Any, amount: Any, tell: Any) -> None:
    """Requests made from the document, in order and not; answers must be what it says."""
    examples = amount("examples", 3, 400)
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    statuses: Counter[str] = Counter()
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path == "/v1/clicks/import":
            continue  # its body is lines, which the next test makes from the same document
        for mode in schemathesis.GenerationMode:
            if operation.path == "/v1/admin/snapshot" and examples > 100:
                continue  # each takes its time
            strategy = operation.as_strategy(generation_mode=mode)

            @relaxed(examples)
            @given(case=strategy)
            def run(case: Any) -> None:
                answer = case.call()
                statuses[f"{answer.status_code // 100}xx"] += 1
                assert answer.status_code < 500, answer.text
                case.validate_response(
                    answer,
                    checks=[
                        status_code_conformance,
                        content_type_conformance,
                        response_schema_conformance,
                    ],
                )

            try:
                run()
            except Exception as error:
                if "Unsatisfiable" not in type(error).__name__:
                    raise
    assert statuses["2xx"] > 10
    assert statuses["4xx"] > 10
    tell(**statuses)


def is_one_click(body: Any) -> bool:
    """Whether a body is no list, and the integers in it are written as such: 1.0 is none here."""
    return isinstance(body, dict) and not any(
        isinstance(body[name], float) for name in ("session_id", "item_id")
    )


def test_lines_that_the_openapi_document_allows_and_forbids(
    service: Any, http: httpx.Client, amount: Any, tell: Any
) -> None:
    """Imports of lines in order and not, cut into pieces anywhere: each line is accounted for."""
    document = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    positive = schemathesis.GenerationMode.POSITIVE
    requests = document["/v1/clicks"]["POST"].as_strategy(generation_mode=positive)
    one = requests.map(lambda case: case.body).filter(is_one_click)
    texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
    clicks = one | st.fixed_dictionaries(
        {"session_id": texts, "item_id": texts}, optional={"event_id": st.sampled_from("abc")}
    )
    good = clicks.map(lambda click: json.dumps(click).encode())
    bad = st.one_of(
        bodies.filter(lambda body: not isinstance(body, dict)).map(json.dumps).map(str.encode),
        clicks.map(lambda click: json.dumps({**click, "path": 1}).encode()),
        clicks.map(lambda click: json.dumps(click)[:-1].encode()),
        st.binary(min_size=1, max_size=50).filter(lambda line: b"\n" not in line and line.strip()),
    )
    lines = st.lists(st.tuples(good, st.just(True)) | st.tuples(bad, st.just(False)), max_size=30)
    told: Counter[str] = Counter()

    @relaxed(amount("imports", 25, 4_000))
    @given(lines=lines, blanks=st.lists(st.integers(0, 30)), piece=st.integers(1, 300))
    def send(lines: list[tuple[bytes, bool]], blanks: list[int], piece: int) -> None:
        rows = list(lines)
        for place in blanks:
            rows.insert(place, (b" ", True))
        body = b"\n".join(line for line, _ in rows)
        pieces = (body[start : start + piece] for start in range(0, len(body), piece))
        answer = http.post(
            "/v1/clicks/import", content=pieces, headers={"content-type": "application/x-ndjson"}
        )
        assert answer.status_code == 200, answer.text
        found = answer.json()
        refused = [number for number, (_, fine) in enumerate(rows, start=1) if not fine]
        assert [each["line"] for each in found["errors"]] == refused, found["errors"]
        assert found["refused"] == len(refused)
        kept = sum(fine and line != b" " for line, fine in rows)
        assert found["accepted"] + found["duplicates"] == kept
        told.update({name: found[name] for name in ("accepted", "duplicates", "refused")})

    send()
    assert told["accepted"] > told["duplicates"] > 0
    tell(**told)


def test_bodies_of_any_shape(http: httpx.Client, amount: Any, tell: Any) -> None:
    statuses: Counter[int] = Counter()

    @relaxed(amount("bodies", 150, 20_000))
    @given(where=st.sampled_from(PATHS), body=bodies, kind=st.sampled_from(TYPES))
    def send(where: tuple[str, str], body: Any, kind: str) -> None:
        text = json.dumps(body, ensure_ascii=True).encode()
        answer = http.request(where[0], where[1], content=text, headers={"content-type": kind})
        check(answer)
        statuses[answer.status_code] += 1

    send()

    @relaxed(amount("bodies", 150, 20_000) // 3)
    @given(where=st.sampled_from(PATHS), body=st.binary(max_size=200))
    def send_bytes(where: tuple[str, str], body: bytes) -> None:
        kind = "application/x-ndjson" if "import" in where[1] else "application/json"
        check(http.request(*where, content=body, headers={"content-type": kind}))

    send_bytes()
    for text in NAUGHTY:
        for path in ("/v1/sessions/{}", "/v1/items/{}", "/v1/sessions/{}/recommendations"):
            named = path.format(quote(text.encode("utf-8", "surrogatepass"), safe=""))
            check(http.get(named))
        query = quote(text.encode("utf-8", "surrogatepass"))
        check(http.get(f"/v1/sessions/a/recommendations?exclude={query}&k={query}"))
    assert http.get("/health/ready").status_code == 200
    tell(**{str(status): count for status, count in sorted(statuses.items())})


def hostile_round(service: Any, chance: random.Random) -> None:
    """Send what is too long, too deep, in a wrong encoding, and half of what was announced."""
    with httpx.Client(base_url=service.url, timeout=30) as http:
        as_json = {"content-type": "application/json"}
        for content in (
            b"[" * 500_000,
            b'{"a":' * 200_000,
            b" " * 3_000_000,
            b'{"items": [' + b'"x",' * 200_000 + b'"x"]}',
            b'{"k": ' + b"9" * 900_000 + b"}",
            '{"items": ["a"]}'.encode("utf-32"),
            b'{"items": ["\xed\xa0\x80"]}',
            chance.randbytes(100_000),
        ):
            check(http.post("/v1/recommendations", content=content, headers=as_json))
        lines = {"content-type": "application/x-ndjson"}
        for line in (b"x" * 2_000_000, b"\n" * 2_000_000, chance.randbytes(300_000)):
            check(http.post("/v1/clicks/import", content=line, headers=lines))
        for n in range(100):  # ever other queries, each nearly as long as may be
            many = "&".join(f"exclude={n}{i}" + "y" * 500 for i in range(40))
            check(http.get(f"/v1/sessions/{n}/recommendations?{many}"))
    for head in (
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000,
        b"POST /v1/clicks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: 500000\r\n\r\n" + b"[" * 100_000,
        b"POST /v1/clicks/import HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-ndjson"
        b"\r\ntransfer-encoding: chunked\r\n\r\n" + b"3e8\r\n" + b"x" * 700,
        chance.randbytes(5_000),
    ):
        for ending in ("left open", "half closed", "reset"):
            with socket.create_connection(("127.0.0.1", service.port), timeout=10) as one:
                try:
                    one.sendall(head)
                    if ending == "half closed":
                        one.shutdown(socket.SHUT_WR)
                        while one.recv(65_536):
                            pass
                    elif ending == "reset":
                        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                except OSError:
                    continue


def test_memory_is_flat(service: Any, amount: Any, tell: Any) -> None:
    rounds = int(amount("hostile_rounds", 4, 300))
    chance = random.Random(1)
    hostile_round(service, chance)
    hostile_round(service, chance)
    before = service.resident
    for _ in range(rounds):
        hostile_round(service, chance)
    after = service.resident
    assert after - before < 40_000_000
    assert httpx.get(f"{service.url}/health/ready").status_code == 200
    tell(rounds=rounds, resident_before=before, resident_after=after)


def test_many_open_connections(service: Any, amount: Any, tell: Any) -> None:
    """Idle ones, slow ones and half closed ones together; others are answered meanwhile."""
    number = int(amount("connections", 300, 10_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < number + 300:
        pytest.skip(f"{number:,} connections need as many open files; ulimit -Hn allows {hard:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = service.resident
    asked = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
    slow = b"POST /v1/clicks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n"
    opened: list[socket.socket] = []
    worst = 0.0
    try:
        for n in range(number):
            one = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            opened.append(one)
            one.sendall((asked, slow, b"", asked)[n % 4])
            if n % 4 == 3:
                one.shutdown(socket.SHUT_WR)
        most = service.resident
        with httpx.Client(base_url=service.url, timeout=30) as http:
            until = time.monotonic() + 3
            while time.monotonic() < until:
                started = time.monotonic()
                assert http.get("/v1/sessions/x/recommendations").status_code == 200
                worst = max(worst, time.monotonic() - started)
        told: Counter[bytes] = Counter()
        for n, one in enumerate(opened):
            one.settimeout(10)
            answer = one.recv(4_096)
            told[answer[9:12]] += 1
            assert (answer[9:12] == b"200") == (n % 4 in (0, 3)), (n, answer)
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert most - before < 20_000_000 + 30_000 * number
    assert httpx.get(f"{service.url}/health/ready").status_code == 200
    tell(
        connections=number,
        bytes_each=(most - before) // number,
        slowest_answer_meanwhile=round(worst, 3),
        **{status.decode(): count for status, count in told.items()},
    )
