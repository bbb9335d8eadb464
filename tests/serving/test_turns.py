from __future__ import annotations

import threading
import time

from nextclick.serving.turns import Turns


def test_who_waits_is_next() -> None:
    turns, stop = Turns(), threading.Event()
    done = {"greedy": 0}

    def greedy() -> None:
        while not stop.is_set():
            with turns:
                time.sleep(0.01)
                done["greedy"] += 1

    thread = threading.Thread(target=greedy)
    thread.start()
    try:
        for _ in range(10):
            time.sleep(0.005)
            before = done["greedy"]
            with turns:
                # It was in the middle of one, and got no further.
                assert done["greedy"] <= before + 1
    finally:
        stop.set()
        thread.join()
    assert done["greedy"] >= 9


def test_one_at_a_time() -> None:
    turns, inside, most = Turns(), [0], [0]

    def work() -> None:
        for _ in range(200):
            with turns:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
