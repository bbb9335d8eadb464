"""Reports hold all they need, say what they were told, and can be read in any light."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

from nextclick.errors import BadInputError
from nextclick.evaluation.prequential import Evaluation
from nextclick.experiments.comparison import Comparison, Result
from nextclick.experiments.figures import STYLES, gate_weights, hit_rate_over_time
from nextclick.experiments.report import STYLE, Figure, Table, Text, write_report


class Page(HTMLParser):
    """What a browser would make of a page: its tags, what it fetches, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "br", "link", "img"):
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data.strip())


def evaluation(n: int = 400, *, gate: bool = True) -> Evaluation:
    random = np.random.default_rng(1)
    return Evaluation(
        ranks=random.integers(0, 21, size=n).astype(np.int16),
        items=np.arange(n),
        sessions=np.arange(n),
        weights=(random.random(n) if gate else np.full(n, np.nan)).astype(np.float32),
        cold=np.zeros(n, dtype=np.bool_),
        frequencies=np.arange(n) % 5,
        k=20,
        batch=100,
        recommend_seconds=np.full(n // 100, 0.01),
        learn_seconds=np.full(n // 100, 0.01),
    )


@pytest.fixture
def html(tmp_path: Path) -> str:
    results = [Result("A", evaluation()), Result("B & C", evaluation())]
    write_report(
        tmp_path / "report.html",
        "Of <mice> & men",
        "A lead.",
        [
            Text("Words", ["One.", "<script>alert(1)</script>"]),
            Table(
                "Numbers",
                ["name", "x", "y", "z"],
                [["a & b", "1", "2", "3"], ["\ud800", "4", "5", "6"]],
                groups=["", "first", "first", "second"],
                strong=frozenset({(1, 2)}),
                note="A note.",
            ),
            Figure("Over time", hit_rate_over_time(results, window=100)),
            Figure("The gate", gate_weights(evaluation())),
        ],
        footer="The end.",
    )
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_it_is_whole_and_needs_no_network(html: str) -> None:
    page = Page(html)
    assert page.open == []
    assert page.fetched == []
    assert "@import" not in STYLE
    assert "url(" not in STYLE
    assert html.count("plotly.js v") == 1, "plotly's code is there once"
    assert len(re.findall(r"Plotly\.newPlot\(", html.split("</head>")[1])) == 2


def test_it_says_what_it_was_told(html: str) -> None:
    page = Page(html)
    for text in ("Of <mice> & men", "A lead.", "Words", "<script>alert(1)</script>", "a & b"):
        assert text in page.text
    assert page.tags.count("table") == 1
    assert '<th scope="colgroup" colspan="2">first</th>' in html
    assert '<td class="number"><strong>5</strong></td>' in html
    assert page.tags.count("strong") == 1


def test_it_is_fit_for_phones_and_dark_rooms(html: str) -> None:
    assert 'name="viewport" content="width=device-width, initial-scale=1"' in html
    assert "@media (prefers-color-scheme: dark)" in html
    assert '<html lang="en">' in html


def test_without_figures_it_is_small(tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", "Title", "", [Text("Words", ["Few."])])
    assert (tmp_path / "report.html").stat().st_size < 10_000


def test_it_is_not_written_over_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is a directory"):
        write_report(tmp_path, "Title", "", [])


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_told_from_the_page() -> None:
    """What WCAG asks: 4.5 for text, 3 for lines."""
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w+)", theme)) for theme in STYLE.split("@media", 1)
    )
    for theme in (light, {**light, **dark}):
        for text in ("ink", "soft", "accent"):
            assert contrast(theme[text], theme["page"]) >= 4.5, text
        for colour, _ in STYLES:
            assert contrast(colour, theme["page"]) >= 3, colour
    assert light["page"] != dict(re.findall(r"--(\w+): (#\w+)", STYLE.split("@media")[1]))["page"]


def test_lines_can_be_told_apart_without_colour() -> None:
    figure = hit_rate_over_time([Result(str(i), evaluation()) for i in range(5)], 100)
    assert len({line.line.dash for line in figure.data[2:]}) == 3
    assert len({line.line.color for line in figure.data}) == 5


def test_hit_rates_are_those_of_the_last_tests() -> None:
    result = evaluation()
    (line,) = hit_rate_over_time([Result("A", result)], window=100).data
    assert min(line.x) >= 100
    expected = [(result.ranks[x - 100 : x] > 0).mean() for x in line.x]
    np.testing.assert_allclose(line.y, expected)


def test_gate_weights_are_shares() -> None:
    result = evaluation()
    figure = gate_weights(result)
    assert [line.name.split(" (")[0] for line in figure.data] == [
        "next item in the training part",
        "next item new",
    ]
    for line, where in zip(figure.data, (~result.new, result.new), strict=True):
        assert sum(line.y) == pytest.approx(100)
        assert f"(mean {result.weights[where].mean():.2f})" in line.name
        inside = (result.weights[where] >= 0.5) & (result.weights[where] < 0.525)
        assert line.y[20] == pytest.approx(100 * inside.mean())


def test_figures_have_titles_on_their_axes() -> None:
    figures: list[go.Figure] = [hit_rate_over_time([Result("A", evaluation())], 100)]
    figures.append(gate_weights(evaluation()))
    for figure in figures:
        assert figure.layout.xaxis.title.text
        assert figure.layout.yaxis.title.text


def test_without_a_gate_there_is_nothing_to_draw() -> None:
    assert len(gate_weights(evaluation(gate=False)).data) == 0


def test_a_comparison_is_what_was_found() -> None:
    result = evaluation()
    table = Comparison.of([Result("A", result), Result("B", evaluation(200))])
    assert table.labels == ("A", "B")
    assert table.columns[:4] == ("HR@5", "MRR@5", "HR@20", "MRR@20") == table.columns[4:8]
    assert table.values[0][:4] == tuple(result.metrics().values())
    assert table.values[0][4:8] == tuple(result.metrics(result.new).values())
    assert table.values[0][8] == pytest.approx(0.1)
    for column, rows in enumerate(table.best()):
        shown = [float(cells[column]) for cells in table.cells()]
        wanted = min(shown) if column == 8 else max(shown)
        assert rows == {row for row, value in enumerate(shown) if value == wanted}
