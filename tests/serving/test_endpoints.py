"""Every endpoint, by HTTP."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest

ODD = "a/b c?d=é&#靴%2F"


@pytest.fixture
def http(service: Any) -> httpx.Client:
    return service.http


def error_of(answer: httpx.Response) -> dict[str, object]:
    """Check the one shape of errors, and return what is in it."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    error: dict[str, object] = body["error"]
    assert {"code", "message"} <= set(error) <= {"code", "message", "field", "limit", "accepted"}
    return error


def click(http: httpx.Client, session: str, *items: str) -> None:
    clicks = [{"session_id": session, "item_id": item} for item in items]
    answer = http.post("/v1/clicks", json=clicks)
    assert answer.json() == {"accepted": len(items), "duplicates": 0}


def until_learned(http: httpx.Client) -> None:
    """Wait until the clicks of other tests change nothing any more."""
    for _ in range(100):
        time.sleep(1.1)  # figures are not older than a second
        stats = http.get("/v1/stats").json()
        if stats["lag_clicks"] == 0 and stats["lag_seconds"] == 0:
            return
    raise AssertionError(stats)


def test_a_click_is_kept_once(http: httpx.Client) -> None:
    one = {"session_id": "once", "item_id": "item 1", "timestamp": 1e9, "event_id": "e1"}
    assert http.post("/v1/clicks", json=one).json() == {"accepted": 1, "duplicates": 0}
    assert http.post("/v1/clicks", json=one).json() == {"accepted": 0, "duplicates": 1}
    assert http.get("/v1/sessions/once").json() == {
        "session_id": "once",
        "clicks": [{"item_id": "item 1", "timestamp": 1e9, "event_id": "e1"}],
    }


def test_clicks_come_back_in_order(http: httpx.Client) -> None:
    items = [f"item {n}" for n in (5, 3, 5, 9)]
    click(http, "ordered", *items)
    clicks = http.get("/v1/sessions/ordered").json()["clicks"]
    assert [each["item_id"] for each in clicks] == items
    assert all(abs(each["timestamp"] - time.time()) < 60 for each in clicks)


def test_a_number_is_an_id_as_its_digits(http: httpx.Client) -> None:
    http.post("/v1/clicks", json={"session_id": 17, "item_id": 4711})
    assert http.get("/v1/sessions/17").json()["clicks"][0]["item_id"] == "4711"


def test_any_text_is_an_id(http: httpx.Client) -> None:
    click(http, ODD, ODD, "item 3")
    assert http.get(f"/v1/sessions/{quote(ODD, safe='')}").json()["session_id"] == ODD
    put = http.put(f"/v1/items/{quote(ODD, safe='')}", json={"title": "Odd"})
    assert put.json()["item_id"] == ODD
    answer = http.get(f"/v1/sessions/{quote(ODD, safe='')}/recommendations?k=3").json()
    assert not answer["cold"]
    assert len(answer["items"]) == 3


def test_an_import_keeps_what_is_in_order_and_names_the_rest(http: httpx.Client) -> None:
    lines = [
        '{"session_id": "bulk", "item_id": "item 1", "event_id": "1"}',
        "",
        "nonsense",
        '{"session_id": "bulk", "item_id": "item 2"}',
        '{"session_id": "bulk", "item_id": "item 1", "event_id": "1"}',
        '{"session_id": "bulk"}',
        '{"session_id": "bulk", "item_id": "' + 20_000 * "x" + '"}',
    ]
    answer = http.post(
        "/v1/clicks/import",
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
    )
    told = answer.json()
    assert (told["accepted"], told["duplicates"], told["refused"]) == (2, 1, 3)
    assert [each["line"] for each in told["errors"]] == [3, 6, 7]
    assert "item_id" in told["errors"][1]["message"]
    assert "line_bytes" in told["errors"][2]["message"]


def test_a_long_import_streams(http: httpx.Client) -> None:
    def lines() -> object:
        for n in range(2_500):
            yield b'{"session_id": "stream %d", "item_id": "item %d"}\n' % (n // 5, n % 40)

    answer = http.post(
        "/v1/clicks/import",
        content=lines(),  # type: ignore[arg-type] # a generator of bytes
        headers={"content-type": "application/x-ndjson"},
    )
    assert answer.json()["accepted"] == 2_500


def test_a_session_gets_recommendations(http: httpx.Client) -> None:
    click(http, "visit", "item 4", "item 5")
    answer = http.get("/v1/sessions/visit/recommendations?k=5").json()
    assert len(answer["items"]) == 5
    assert not answer["cold"]
    assert 0 < answer["weight"] < 1
    scores = [item["score"] for item in answer["items"]]
    assert scores == sorted(scores, reverse=True)
    assert "neural" not in answer["items"][0]
    assert answer["model"] == 1


def test_a_stranger_gets_what_is_popular_and_is_told(http: httpx.Client) -> None:
    answer = http.get("/v1/sessions/stranger/recommendations").json()
    assert answer["cold"]
    assert len(answer["items"]) == 20
    assert http.post("/v1/recommendations", json={"items": []}).json()["cold"]


def test_a_click_and_recommendations_in_one(http: httpx.Client) -> None:
    answer = http.post(
        "/v1/sessions/both/clicks?recommend=3&exclude_seen=true", json={"item_id": "item 7"}
    ).json()
    assert not answer["duplicate"]
    told = answer["recommendations"]
    assert len(told["items"]) == 3
    assert not told["cold"]
    assert "item 7" not in [item["item_id"] for item in told["items"]]
    assert http.post("/v1/sessions/both/clicks", json={"item_id": "item 8"}).json() == {
        "duplicate": False
    }


def test_what_is_excluded_stays_out(http: httpx.Client) -> None:
    body = {"items": ["item 4", "item 5"], "k": 10}
    first = [i["item_id"] for i in http.post("/v1/recommendations", json=body).json()["items"]]
    body |= {"exclude": first[:3], "exclude_seen": True}
    then = [i["item_id"] for i in http.post("/v1/recommendations", json=body).json()["items"]]
    assert len(then) == 10
    assert not set(then) & {*first[:3], "item 4", "item 5"}
    click(http, "excluding", "item 4", "item 5")
    query = "&".join(f"exclude={quote(item)}" for item in first[:3])
    answer = http.get(f"/v1/sessions/excluding/recommendations?k=10&exclude_seen=true&{query}")
    told = [i["item_id"] for i in answer.json()["items"]]
    assert len(told) == 10
    assert not set(told) & {*first[:3], "item 4", "item 5"}


def test_categories_and_availability(http: httpx.Client) -> None:
    for n in range(20, 26):
        http.put(f"/v1/items/item {n}", json={"category": "hats", "title": f"Hat {n}"})
    body = {"items": ["item 19"], "k": 20, "categories": ["hats"]}
    hats = http.post("/v1/recommendations", json=body).json()["items"]
    assert {hat["category"] for hat in hats} == {"hats"}
    assert len(hats) == 6
    gone = hats[0]["item_id"]
    http.put(f"/v1/items/{gone}", json={"category": "hats", "available": False})
    assert gone not in [
        hat["item_id"] for hat in http.post("/v1/recommendations", json=body).json()["items"]
    ]
    assert http.get(f"/v1/items/{gone}").json() == {
        "item_id": gone,
        "title": None,
        "category": "hats",
        "available": False,
    }


def test_why_adds_up(http: httpx.Client) -> None:
    click(http, "asker", "item 10", "item 11")
    answer = http.get("/v1/sessions/asker/recommendations?explain=true").json()
    for item in answer["items"]:
        assert item["neural"] + item["memory"] == pytest.approx(item["score"], rel=1e-4, abs=1e-7)
    voted = [item for item in answer["items"] if item.get("sessions")]
    assert voted
    voters = [voter for item in voted for voter in item["voters"]]
    assert all(voter["share"] >= 0 and voter["items"] for voter in voters)


def test_past_contexts_that_voted_are_named(http: httpx.Client) -> None:
    click(http, "before", "item 20", "item 21", "unlikely")
    until_learned(http)
    body = {"items": ["item 20", "item 21"], "k": 40, "explain": True}
    items = http.post("/v1/recommendations", json=body).json()["items"]
    (unlikely,) = [item for item in items if item["item_id"] == "unlikely"]
    assert unlikely["sessions"] == 1
    (voter,) = unlikely["voters"]
    assert voter["items"] == ["item 20", "item 21"]
    assert 0 < voter["seconds"] < 600


def test_a_long_session_is_told_whole(http: httpx.Client) -> None:
    items = [f"item {n % 40}" for n in range(2_500)]
    for start in range(0, len(items), 1_000):
        click(http, "long", *items[start : start + 1_000])
    clicks = http.get("/v1/sessions/long").json()["clicks"]
    assert [each["item_id"] for each in clicks] == items


def test_many_contexts_at_once(http: httpx.Client) -> None:
    until_learned(http)
    contexts = [{"items": [f"item {n}"]} for n in range(30)]
    answers = http.post("/v1/recommendations", json={"contexts": contexts, "k": 4}).json()
    assert len(answers["answers"]) == 30
    alone = http.post("/v1/recommendations", json={"items": ["item 7"], "k": 4}).json()
    for one, other in zip(answers["answers"][7]["items"], alone["items"], strict=True):
        assert one["item_id"] == other["item_id"]
        assert one["score"] == pytest.approx(other["score"], rel=1e-5)
    assert http.post("/v1/recommendations", json={"contexts": []}).json() == {"answers": []}


def test_a_click_is_reflected_within_a_second(http: httpx.Client) -> None:
    for n in range(12):
        click(http, f"fresh {n}", "item 30", "never seen before", "item 31")
    until = time.monotonic() + 5
    started = time.monotonic()
    while time.monotonic() < until:
        body = {"items": ["item 30"], "k": 20}
        told = [i["item_id"] for i in http.post("/v1/recommendations", json=body).json()["items"]]
        if "never seen before" in told:
            break
        time.sleep(0.05)
    assert "never seen before" in told
    assert time.monotonic() - started < 2  # a second, and another one for a busy machine


def test_the_figures(http: httpx.Client) -> None:
    click(http, "figures", "item 1", "item 2", "item 3")
    time.sleep(1.5)
    stats = http.get("/v1/stats").json()
    assert stats["clicks"] > 0
    assert stats["model"]["label"] == "MAN-NARM"
    assert stats["model"]["start"]["model"]["tests"] > 0
    assert "curve" not in stats
    assert isinstance(http.get("/v1/stats?curve=true").json()["curve"], list)
    text = http.get("/metrics").text
    for name in ("clicks_total", "memory_entries", "live_hr20", "queue", "request_seconds_bucket"):
        assert f"nextclick_{name}" in text, name
    assert 'nextclick_live_tests{model="served",over="start",part="all"}' in text


def test_health_and_pages(http: httpx.Client) -> None:
    assert http.get("/health/live").json() == {"status": "live"}
    assert http.get("/health/ready").json() == {"status": "ready"}
    for path in ("/", "/docs"):
        page = http.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "//" not in page.text.replace("<!doctype", "").replace("http://", "!!")
    assert http.head("/health/live").content == b""
    assert http.get("/pages/page.js").headers["content-type"].startswith("text/javascript")


def test_a_snapshot_now(http: httpx.Client) -> None:
    answer = http.post("/v1/admin/snapshot")
    assert answer.status_code == 200
    assert answer.json()["number"] > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code", "field"),
    [
        ("GET", "/nowhere", None, 404, "not_found", None),
        ("GET", "/v1/sessions/nobody", None, 404, "unknown_session", None),
        ("GET", "/v1/items/nothing", None, 404, "unknown_item", None),
        ("GET", "/pages/secret", None, 404, "not_found", None),
        ("DELETE", "/v1/clicks", None, 405, "method_not_allowed", None),
        ("GET", "/v1/sessions/a/recommendations?k=0", None, 400, "invalid", "k"),
        ("GET", "/v1/sessions/a/recommendations?k=1001", None, 400, "over_limit", "k"),
        ("GET", "/v1/sessions/a/recommendations?k=many", None, 400, "invalid", "k"),
        ("GET", "/v1/sessions/a/recommendations?k=1&k=2", None, 400, "invalid", "k"),
        ("GET", "/v1/sessions/a/recommendations?explain=perhaps", None, 400, "invalid", "explain"),
        ("GET", "/v1/sessions/a/recommendations?kk=1", None, 400, "invalid", None),
        ("GET", "/v1/sessions/a/recommendations?exclude=%FF", None, 400, "bad_query", None),
        ("GET", "/v1/sessions/%FF", None, 400, "invalid", "session_id"),
        ("GET", "/v1/sessions/" + 1025 * "x", None, 400, "over_limit", "session_id"),
        ("POST", "/v1/clicks", {"session_id": "a"}, 400, "invalid", None),
        ("POST", "/v1/clicks", [{"session_id": "a", "item_id": ""}], 400, "invalid", "[0].item_id"),
        ("POST", "/v1/clicks", {"session_id": "a", "item_id": 1.5}, 400, "invalid", "item_id"),
        (
            "POST",
            "/v1/clicks",
            {"session_id": "a", "item_id": 1025 * "x"},
            400,
            "over_limit",
            "item_id",
        ),
        (
            "POST",
            "/v1/clicks",
            {"session_id": "a", "item_id": 600 * "é"},
            400,
            "over_limit",
            "item_id",
        ),
        (
            "POST",
            "/v1/clicks",
            {"session_id": "a", "item_id": "b", "timestamp": 1.7e12},
            400,
            "over_limit",
            "timestamp",
        ),
        (
            "POST",
            "/v1/clicks",
            1001 * [{"session_id": "a", "item_id": "b"}],
            400,
            "over_limit",
            None,
        ),
        ("POST", "/v1/recommendations", {}, 400, "invalid", "items"),
        ("POST", "/v1/recommendations", {"items": [], "contexts": []}, 400, "invalid", "items"),
        ("POST", "/v1/recommendations", {"items": 1001 * ["a"]}, 400, "over_limit", "items"),
        (
            "POST",
            "/v1/recommendations",
            {"contexts": 101 * [{"items": []}]},
            400,
            "over_limit",
            "contexts",
        ),
        ("POST", "/v1/admin/model", {"path": "no/such/model"}, 400, "invalid", None),
        ("POST", "/v1/admin/model", {"path": "a\0b"}, 400, "invalid", "path"),
    ],
)
def test_what_is_refused(
    http: httpx.Client,
    method: str,
    path: str,
    body: object,
    status: int,
    code: str,
    field: str | None,
) -> None:
    answer = http.request(method, path, json=body)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error.get("field")) == (status, code, field), error
    if code == "over_limit":
        assert error["limit"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe{}",
        b'{"session_id": "\xff", "item_id": "a"}',
        b'{"session_id": "\\ud800", "item_id": "a"}',
        b'{"session_id": "a", "item_id": "b", "timestamp": NaN}',
        b'{"session_id": "a", "item_id": "b", "timestamp": 1e999}',
        b'{"session_id": "a", "item_id": 1' + 5_000 * b"0" + b"}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"null",
        '{"session_id": "a", "item_id": "b"}'.encode("utf-16"),
    ],
)
def test_what_is_no_click_is_refused(http: httpx.Client, body: bytes) -> None:
    answer = http.post("/v1/clicks", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    error_of(answer)


def test_a_body_has_a_type_and_a_size(http: httpx.Client) -> None:
    plain = http.post("/v1/clicks", content=b"{}", headers={"content-type": "text/plain"})
    assert (plain.status_code, error_of(plain)["code"]) == (415, "wrong_content_type")
    large = http.post(
        "/v1/clicks", content=1_000_001 * b" ", headers={"content-type": "application/json"}
    )
    assert large.status_code == 413
    assert error_of(large)["limit"] == {"body_bytes": 1_000_000}

    def pieces() -> object:
        for _ in range(30):
            yield 50_000 * b" "

    streamed = http.post(
        "/v1/clicks",
        content=pieces(),  # type: ignore[arg-type] # a generator of bytes
        headers={"content-type": "application/json"},
    )
    assert streamed.status_code == 413
