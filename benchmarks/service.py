"""Measure the service under load: each visitor clicks and gets 20 recommendations, in one request.

A real `nextclick serve` in a process of its own, on loopback; MAN-NARM over a catalog of
DIGINETICA's size, with as many entries in memory as DIGINETICA's training and validation parts,
learning from every click. Requests arrive at times fixed in advance (see load.py); latencies count
from then.

    python benchmarks/service.py --data prepared/diginetica --rates 250 500 1000
    python benchmarks/service.py --data prepared/diginetica --find
    python benchmarks/service.py --data prepared/diginetica --rates 500 --recover
    python benchmarks/service.py --data prepared/diginetica --rates 200 --snapshots
    python benchmarks/service.py --items 100000 --rates 250

With --data, visitors click as in the test part, and the memory holds the transitions before it;
without, both are made up. The network is untrained unless a --model is given: weights do not matter
to the time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from load import Load, apply, arrival_times, click_request, processor_seconds

K = 20
START = 300
"""Seconds that a service may take to start."""

AIM = 50.0
"""Milliseconds that nine of ten answers are to stay within (--find)."""

SNAPSHOT_PAUSE = 1.0
"""Seconds between two snapshots (--snapshots)."""

BEHIND = 1.0
"""Seconds that learning may be behind the clicks, for a rate to count as kept up with (--find)."""


class Running:
    """A service in a process of its own."""

    def __init__(self, state: Path, model: Path | None, arguments: argparse.Namespace) -> None:
        options = ["--state", str(state), "--port", "0", "--json", *arguments.serve]
        if arguments.threads is not None:
            options += ["--threads", str(arguments.threads)]
        begun = time.perf_counter()
        self.errors = (state.parent / "service.log").open("ab")
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "nextclick",
                "serve",
                *([str(model)] if model else []),
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        assert self.process.stdout is not None
        said = b""
        while b"}" not in said:  # several lines of JSON
            said += (line := self.process.stdout.readline())
            if not line:
                raise SystemExit((state.parent / "service.log").read_text())
        self.url = json.loads(said)["address"]
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        self.address = (host, int(port))
        while time.perf_counter() - begun < START:
            with contextlib.suppress(urllib.error.URLError):  # nobody listens, or not yet ready
                self.get("/health/ready")
                break
            time.sleep(0.02)
        self.seconds_to_start = time.perf_counter() - begun

    def get(self, path: str) -> dict[str, Any]:
        """Return what stands at an address."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            got: dict[str, Any] = json.load(answer)
            return got

    def wait_until_learned(self) -> float:
        """Wait until learning is no longer behind; return how many seconds that took."""
        begun = time.perf_counter()
        while self.get("/v1/stats")["lag_clicks"] > 0:
            time.sleep(0.05)
        return time.perf_counter() - begun

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop it, in order or not."""
        self.process.send_signal(number)
        self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="what `nextclick data prepare` wrote")
    parser.add_argument("--model", type=Path, help="a MAN trained on it")
    parser.add_argument("--items", type=int, default=43_136, help="of a made-up catalog")
    parser.add_argument("--entries", type=int, default=561_680, help="of a made-up memory")
    parser.add_argument("--rates", type=float, nargs="*", default=[500], help="pairs a second")
    parser.add_argument("--seconds", type=float, default=30, help="of each load, after a warm-up")
    parser.add_argument("--warm-up", type=float, default=5)
    parser.add_argument("--find", action="store_true", help="the highest rate with p90 < 50 ms")
    parser.add_argument("--recover", action="store_true", help="time a start and a replay")
    parser.add_argument(
        "--snapshots",
        action="store_true",
        help="each load again while one snapshot follows the other",
    )
    parser.add_argument("--without-learning", action="store_true")
    parser.add_argument("--threads", type=int, help="of the service")
    parser.add_argument("--work", type=Path, help="where to keep model and state between runs")
    parser.add_argument("--json", type=Path, help="add what is measured to this file")
    parser.add_argument("serve", nargs="*", help="after --: more options for `nextclick serve`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() if arguments.work is None else _kept(arguments.work) as work:
        measure(Path(work), arguments)


def measure(work: Path, arguments: argparse.Namespace) -> None:
    """Run a service, and apply loads to it."""
    model = arguments.model or work / "model"
    if not model.exists():
        _write_model(model, arguments)
    visits = _visits(arguments)
    state = work / "state"
    shutil.rmtree(state, ignore_errors=True)
    if arguments.without_learning:
        settings = work / "serve.toml"
        settings.write_text("[engine]\nlearn = []\n")
        arguments.serve += ["--settings", str(settings)]
    running = Running(state, model, arguments)
    try:
        stats = running.get("/v1/stats")["model"]
        learning = "without learning" if arguments.without_learning else "learning"
        print(
            f"{stats['label']}, {stats['items']:,} items, {stats['memory_entries']:,} memory "
            f"entries, {learning}; each request a click and {K} recommendations"
        )
        print(HEADINGS)
        if arguments.find:
            _find(running, visits, arguments)
        else:
            for rate in arguments.rates:
                _load(running, visits, rate, arguments)
                if arguments.snapshots:
                    with _snapshots(running):
                        _load(running, visits, rate, arguments)
        if arguments.recover:
            running = _recover(running, state, arguments)
    finally:
        running.stop()


HEADINGS = (
    "   rate    p50    p90    p99  p99.9    max   errors  cores: service  generator"
    "   late p99   behind"
)


def _load(
    running: Running, visits: Iterator[tuple[str, str]], rate: float, arguments: argparse.Namespace
) -> tuple[Load, float]:
    """Apply one load, print what came of it, and return it and how far learning is behind."""
    times = arrival_times(rate, arguments.warm_up + arguments.seconds)
    host = running.url.removeprefix("http://")
    requests = [click_request(host, *visit, K) for visit in islice(visits, len(times))]
    load = apply(
        running.address,
        requests,
        times,
        process=running.process.pid,
        rate=rate,
        warm_up=arguments.warm_up,
    )
    behind = float(running.get("/v1/stats")["lag_seconds"])
    figures = [load.percentile(percent) for percent in (50, 90, 99, 99.9, 100)]
    late = 1e3 * float(np.percentile(load.late, 99, method="higher"))
    print(
        f"{rate:7.0f} "
        + " ".join(f"{figure:6.1f}" for figure in figures)
        + f" {sum(load.errors.values()):8} {load.cores[0]:15.2f} {load.cores[1]:10.2f}"
        + f" {late:10.1f} {behind:8.2f}",
        flush=True,
    )
    for what, number in load.errors.items():
        print(f"          {number} times: {what}")
    if arguments.json:
        _note(arguments, load, figures, behind)
    running.wait_until_learned()
    return load, behind


@contextlib.contextmanager
def _snapshots(running: Running) -> Iterator[None]:
    """Let the service take snapshots, one after the other with a pause between."""
    done, seconds = threading.Event(), []

    def take() -> None:
        while not done.wait(SNAPSHOT_PAUSE):
            asked = urllib.request.Request(running.url + "/v1/admin/snapshot", method="POST")
            with urllib.request.urlopen(asked, timeout=60) as answer:
                seconds.append(json.load(answer)["seconds"])

    taker = threading.Thread(target=take)
    taker.start()
    try:
        yield
    finally:
        done.set()
        taker.join()
    told = ", ".join(f"{each:.2f}" for each in seconds)
    print(f"          {len(seconds)} snapshots meanwhile, each written in (s): {told}", flush=True)


def _find(
    running: Running, visits: Iterator[tuple[str, str]], arguments: argparse.Namespace
) -> None:
    """Find the highest rate, to 5 %, at which p90 stays within the aim and learning keeps up."""

    def holds(rate: float) -> bool:
        load, behind = _load(running, visits, rate, arguments)
        return not load.errors and load.percentile(90) < AIM and behind < BEHIND

    good, rate = 0.0, max(arguments.rates)
    while holds(rate):
        good, rate = rate, 1.3 * rate
    bad = rate
    while not good:
        rate /= 1.5
        if holds(rate):
            good = rate
        else:
            bad = rate
    while bad / good > 1.05:
        rate = (good * bad) ** 0.5
        if holds(rate):
            good = rate
        else:
            bad = rate
    print(
        f"{good:.0f} a second: the highest rate with p90 < {AIM:g} ms, no error, and learning at "
        f"most {BEHIND:g} s behind"
    )


def _recover(running: Running, state: Path, arguments: argparse.Namespace) -> Running:
    """Time the start after a kill, the replay of the log, and the start from a new snapshot."""
    stats = running.get("/v1/stats")
    running.stop(signal.SIGKILL)
    running = Running(state, None, arguments)
    ready = running.seconds_to_start
    position = running.get("/v1/stats")
    behind = position["lag_clicks"]
    began_cores = processor_seconds(running.process.pid)
    seconds = running.wait_until_learned()
    cores = (processor_seconds(running.process.pid) - began_cores) / max(seconds, 1e-9)
    print(
        f"killed at record {stats['log_number']:,}; ready after {ready:.1f} s, and "
        f"{behind:,} clicks learned anew in {seconds:.1f} s: {behind / max(seconds, 1e-9):,.0f} "
        f"clicks a second, {cores:.2f} cores"
    )
    running.stop()
    running = Running(state, None, arguments)
    print(f"stopped with a snapshot; ready after {running.seconds_to_start:.1f} s")
    return running


def _visits(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Yield clicks, as session and item: those of the test part, or made up ones."""
    if arguments.data:
        from nextclick.datasets.prepared import PreparedData  # noqa: PLC0415 - slow to import

        data = PreparedData.load(arguments.data)
        ids = [data.catalog.id(item) for item in range(len(data.catalog))]
        clicks = list(zip(data.test.sessions.tolist(), data.test.items.tolist(), strict=True))
        for turn in count():
            for session, item in clicks:
                yield f"{session}-{turn}", ids[item]
    from recommendation import THEMES, themes  # noqa: PLC0415 - it imports torch

    generator = np.random.default_rng(2)
    of_themes = themes(arguments.items)
    visitors = [(0, 0, 0)] * 1_000  # number, theme, clicks left
    for number in count():
        place = int(generator.integers(len(visitors)))
        visitor, theme, left = visitors[place]
        if not left:
            visitor, theme = number, int(generator.integers(THEMES))
            left = int(generator.geometric(0.2))
        visitors[place] = (visitor, theme, left - 1)
        yield str(visitor), str(generator.choice(of_themes[theme]))


def _write_model(path: Path, arguments: argparse.Namespace) -> None:
    from recommendation import filled, made_up  # noqa: PLC0415 - it imports torch

    from nextclick import persistence  # noqa: PLC0415 - the same
    from nextclick.clicks import Contexts, Transitions  # noqa: PLC0415 - the same

    if arguments.data:
        from nextclick.datasets.prepared import PreparedData  # noqa: PLC0415 - the same

        data = PreparedData.load(arguments.data)
        parts = [data.train.transitions(), data.validation.transitions()]
        known = max(int(part.items.max()) for part in parts) + 1
        transitions = Transitions(
            Contexts.of(
                [context for part in parts for context in part.contexts],
                sessions=np.concatenate([part.contexts.sessions for part in parts]),
            ),
            np.concatenate([part.items for part in parts]),
            np.concatenate([part.times for part in parts]),
        )
        model = filled(data.catalog.copy(known), transitions, 1)
    else:
        from nextclick.catalog import Catalog  # noqa: PLC0415 - the same

        catalog = Catalog(range(arguments.items))
        model = filled(catalog, made_up(arguments.items, arguments.entries), 1)
    persistence.save(model, path)


def _note(arguments: argparse.Namespace, load: Load, figures: list[float], behind: float) -> None:
    names = ("p50", "p90", "p99", "p99.9", "max")
    line = {
        "rate": load.rate,
        "seconds": arguments.seconds,
        "learning": not arguments.without_learning,
        **dict(zip(names, figures, strict=True)),
        "errors": load.errors,
        "cores": load.cores,
        "connections": load.connections,
        "behind": behind,
        "load_average": os.getloadavg()[0],
    }
    with arguments.json.open("a") as file:
        file.write(json.dumps(line) + "\n")


@contextlib.contextmanager
def _kept(path: Path) -> Iterator[Path]:
    path.mkdir(parents=True, exist_ok=True)
    yield path


if __name__ == "__main__":
    main()
