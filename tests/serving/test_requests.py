"""What a request leaves behind."""

from __future__ import annotations

import gc
import socket
import tracemalloc

import pytest

from nextclick.errors import BadInputError
from nextclick.serving.process import listen
from nextclick.serving.requests import parse_options
from nextclick.serving.schemas import RecommendOptions


def test_long_queries_are_not_kept() -> None:
    """Ever other ones, of which each would take ten kilobytes and more."""
    tracemalloc.start()
    try:
        for n in range(600):
            if n == 100:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
            query = "&".join(f"exclude={n}-{i}{'y' * 250}" for i in range(30))
            options = parse_options(query.encode(), RecommendOptions)
            assert len(options.exclude) == 30
        del options, query
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 500_000
    finally:
        tracemalloc.stop()


def test_a_port_is_open_before_its_address_is_told() -> None:
    with listen("127.0.0.1", 0) as listening:
        host, port = listening.getsockname()
        socket.create_connection((host, port), timeout=5).close()
        with pytest.raises(BadInputError, match="give another --port"):
            listen(host, port)
