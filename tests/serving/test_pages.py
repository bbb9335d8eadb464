"""The live page and the API's page, in a headless Chromium."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nextclick.cli import main
from nextclick.client import Client

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 30_000
"""Milliseconds to wait for what ought to appear: the machine may be busy."""

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; Debian's, as `.ci/run` installs it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("there is no chromium here: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def look(chromium: Any) -> Callable[..., Any]:
    """Open a page: ``with look(url, width=375, color_scheme="dark") as page``."""

    @contextmanager
    def opened(url: str, *, width: int = 1280, **more: Any) -> Iterator[Any]:
        context = chromium.new_context(viewport={"width": width, "height": 800}, **more)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
        page.on("request", lambda sent: _note_outside(sent.url, url, wrong))
        page.goto(url)
        yield page
        assert wrong == []
        context.close()

    return opened


def _note_outside(asked: str, url: str, wrong: list[str]) -> None:
    host = "/".join(url.split("/")[:3])
    if not asked.startswith((host, "data:")):
        wrong.append(f"asked another host: {asked}")


@pytest.fixture(scope="module")
def shop(
    serving: Any, man_model: Path, popularity_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A service with a shadow, visitors who click all the time, and a new item every second."""
    folder = tmp_path_factory.mktemp("shop")
    arguments = [str(man_model), "--state", str(folder / "s"), "--shadow", str(popularity_model)]
    done = threading.Event()

    def visit(url: str) -> None:
        with Client(url) as client:
            client.put_item("item 3", title=HOSTILE)
            for n in range(100_000):
                if done.wait(0.05):
                    return
                client.click(f"visitor {n // 4}", f"item {3 * n % 40}", recommend=20)
                if n % 20 == 0:
                    client.click(f"visitor {n // 4}", f"new {n}", recommend=20)

    with serving(folder, *arguments) as running:
        visitor = threading.Thread(target=visit, args=(running.url,))
        visitor.start()
        yield running
        done.set()
        visitor.join()


def test_the_page_shows_how_well_it_goes(look: Any, shop: Any) -> None:
    with look(shop.url) as page:
        page.wait_for_selector("#hit-rate path.s3")
        for chart, lines in (
            ("hit-rate", 4),
            ("reciprocal-rank", 4),
            ("traffic", 2),
            ("latency", 3),
        ):
            page.wait_for_selector(f"#{chart} path")
            assert page.locator(f"#{chart} path").count() == lines, chart
            assert page.locator(f"#{chart} .legend > span").count() == lines
        page.wait_for_selector("#gate dd.gate >> nth=1")
        page.wait_for_selector("#new-items td:has-text('new ')")
        page.wait_for_selector("#new-items td:has-text('after')")
        told = page.locator("#figures").inner_text()
        for row in (
            "The model",
            "Its neural part alone",
            "Its memory alone",
            "The shadow: Popularity",
        ):
            assert row in told
        tiles = page.locator("#tiles").inner_text()
        for name in ("HR@20", "MRR@20", "Clicks", "Recommendations", "p99", "Memory entries"):
            assert name in tiles
        assert "MAN-NARM" in page.locator("#subtitle").inner_text()
        page.get_by_role("button", name="A day").click()
        page.wait_for_selector("#explained:has-text('a minute or more')")


def test_the_shop_window_by_keyboard(look: Any, shop: Any) -> None:
    with look(shop.url) as page:
        page.wait_for_selector("#recommended button")
        assert page.locator("#offer").inner_text() == "Popular now"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")  # New visit
        page.keyboard.press("Tab")  # the item's id
        page.keyboard.type("item 4")
        page.keyboard.press("Enter")
        page.wait_for_selector("#path li:has-text('The 4th')")
        page.wait_for_selector("#offer:has-text('Recommended next')")
        page.keyboard.press("Tab")  # its button
        page.keyboard.press("Tab")  # the first recommendation
        chosen = page.evaluate("document.activeElement.dataset.item")
        before = page.locator("#recommended").inner_text()
        page.keyboard.press("Enter")
        page.wait_for_selector("#path li:nth-child(2)")
        after = page.locator("#recommended").inner_text()
        assert before != after
        assert "from memory" in after or "neural part" in after
        assert "The gate gives the neural part" in page.locator("#basis").inner_text()
        assert page.evaluate("document.activeElement.closest('#recommended') !== null")
        visit = page.evaluate("JSON.parse(sessionStorage.getItem('visit')).visit")
        with Client(shop.url) as client:
            kept = [click["item_id"] for click in client.session(visit)["clicks"]]
        assert kept == ["item 4", chosen]
        page.reload()
        page.wait_for_selector("#path li:nth-child(2)")
        page.get_by_role("button", name="New visit").click()
        page.wait_for_selector("#offer:has-text('Popular now')")
        assert page.locator("#path li").count() == 0


def test_titles_are_text(look: Any, shop: Any) -> None:
    with look(shop.url) as page:
        page.fill("#item", "item 1")
        page.keyboard.press("Enter")
        page.wait_for_selector("#path li")
        page.fill("#item", "item 3")
        page.keyboard.press("Enter")
        page.wait_for_selector("#path li:nth-child(2)")
        assert page.locator("img").count() == 0


CONTRAST = """() => {
  const parts = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const eye = [0.2126, 0.7152, 0.0722];
  const light = (text) => parts(text).reduce((sum, value, at) => sum + value * eye[at], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  const shown = "h1, h2, h3, p, dt, dd, td, th, small, button, a, li, figcaption, strong, code";
  return [...document.querySelectorAll(shown)]
    .filter((element) => element.offsetParent && element.innerText.trim())
    .map((element) => {
      const [one, other] = [light(getComputedStyle(element).color), light(ground(element))];
      return [(Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05), element.innerText];
    })
    .filter(([ratio]) => ratio < 4.5);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_can_be_read(look: Any, shop: Any, scheme: str) -> None:
    with look(shop.url, width=360, color_scheme=scheme) as page:
        page.wait_for_selector("#hit-rate path")
        page.wait_for_selector("#recommended button")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate(CONTRAST) == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(246, 247, 247)") == (scheme == "light")
        heights = page.evaluate(
            "[...document.querySelectorAll('button')].map((each) => each.offsetHeight)"
        )
        assert min(height for height in heights if height) >= 32
    with look(f"{shop.url}/docs", width=360, color_scheme=scheme) as page:
        page.wait_for_selector(".endpoint")
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.evaluate(CONTRAST) == []


def test_the_page_asks_for_a_key_and_says_when_the_service_is_gone(
    look: Any,
    launch: Any,
    popularity_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = str(tmp_path / "s")
    assert main(["keys", "add", "shop", "--state", state]) == 0
    key = capsys.readouterr().out.strip()
    running = launch(tmp_path, str(popularity_model), "--state", state)
    with look(running.url) as page:
        page.wait_for_selector("#unlock")
        page.fill("#key", "nck_wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#notice:has-text('not known')")
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("#recommended button")
        assert page.locator("#unlock").is_hidden()
        page.locator("#recommended button").first.click()
        page.wait_for_selector("#path li")
        assert running.stop() == 0
        page.wait_for_selector("#notice:has-text('does not answer')")


def test_the_api_page_describes_everything_and_tries_it(look: Any, shop: Any) -> None:
    with look(f"{shop.url}/docs") as page:
        page.wait_for_selector(".endpoint")
        told = page.locator("#endpoints").inner_text()
        paths = shop.http.get("/openapi.json").json()["paths"]
        for path in paths:
            assert path in told
        for place in page.locator("summary").all():
            place.click()
        form = page.locator("details:has(code:text-is('/v1/recommendations')) form")
        form.locator("textarea").fill('{"items": ["item 4"], "k": 2}')
        form.get_by_role("button").click()
        page.wait_for_selector("pre:has-text('200 POST /v1/recommendations')")
        limits = page.locator("#limits").inner_text()
        assert "body_bytes" in limits


def test_the_page_is_fast(look: Any, shop: Any) -> None:
    with look(shop.url) as page:
        page.wait_for_selector("#recommended button")
        sizes = [len(shop.http.get(path).content) for path in ("/", "/pages/page.js")]
        assert sum(sizes) < 50_000
        started = time.perf_counter()
        page.reload()
        page.wait_for_selector("#tiles dd")
        assert time.perf_counter() - started < 5  # a tenth of that on a machine that is not busy


@pytest.mark.parametrize(
    ("values", "axis"),
    [
        ([0, 0], ["0", "0.25", "0.5", "0.75", "1"]),
        ([0.5, 0.96], ["0", "0.25", "0.5", "0.75", "1"]),
        ([3, 24], ["0", "10", "20", "30"]),
    ],
)
def test_an_axis_fits_what_is_on_it(
    values: list[float], axis: list[str], service: Any, look: Callable[..., Any]
) -> None:
    """Where nothing happens there is an axis too, and that of shares ends at 1."""
    draw = """async (points) => {
      const place = document.createElement("div");
      const charts = await import("/pages/charts.js");
      charts.lines(place, [{ name: "it", points }], String, "it");
      return [...place.querySelectorAll("text[text-anchor=end]")].map((tick) => tick.textContent);
    }"""
    with look(service.url) as page:
        ticks = page.evaluate(draw, [[10 * n, value] for n, value in enumerate(values)])
    assert ticks[: len(axis)] == axis
