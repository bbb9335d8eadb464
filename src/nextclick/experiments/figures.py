"""Figures of what evaluations found, to be shown on a light or a dark page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from nextclick.clicks import Floats
from nextclick.evaluation.prequential import Evaluation
from nextclick.experiments.comparison import Result

# Each has a contrast of at least 3 with the page, light or dark, and its own dashes besides.
STYLES = (
    ("#2f7fd6", "solid"),
    ("#d1651f", "solid"),
    ("#1c8f63", "dash"),
    ("#a35bc9", "dashdot"),
    ("#7d8590", "dot"),
)
"""Colour and dashes of the lines of a figure, the most important first."""

OLD, NEW = STYLES[0][0], STYLES[1][0]

BINS = 40


def hit_rate_over_time(results: Sequence[Result], window: int, cutoff: int = 20) -> go.Figure:
    """Draw HR@k over the last `window` tests, for each method, against the number of tests.

    Parameters
    ----------
    results
        The methods, the most important last, as in a table.
    window
        How many tests each point averages over.
    cutoff
        The k of HR@k.
    """
    figure = go.Figure()
    for result, (colour, dash) in zip(reversed(results), STYLES, strict=False):
        curve = result.evaluation.curve(window=window, cutoff=cutoff)
        whole = curve.tests >= window
        figure.add_scatter(
            x=curve.tests[whole],
            y=curve.recent_hit_rate[whole],
            name=result.label,
            mode="lines",
            line={"color": colour, "dash": dash, "width": 2},
            hovertemplate="%{y:.3f}",
        )
    figure.update_xaxes(title="clicks tested", tickformat=",")
    # Lines, not areas: methods that are close together are told apart where zero is not shown.
    figure.update_yaxes(title=f"HR@{cutoff}", tickformat=".2f")
    return _dressed(figure)


def gate_weights(evaluation: Evaluation) -> go.Figure:
    """Draw how the gate's weights are spread, for next items that are new and for all others."""
    figure = go.Figure()
    kinds = [
        ("next item in the training part", ~evaluation.new, OLD),
        ("next item new", evaluation.new, NEW),
    ]
    for name, where, colour in kinds:
        weights = evaluation.weights[where & ~np.isnan(evaluation.weights)]
        if not len(weights):
            continue
        edges, shares = _histogram(weights.astype(np.float64))
        figure.add_scatter(
            x=edges,
            y=shares,
            name=f"{name} (mean {weights.mean(dtype=np.float64):.2f})",
            mode="lines",
            line={"color": colour, "shape": "hv", "width": 2},
            fill="tozeroy",
            hovertemplate="%{y:.1f} %",
        )
    figure.update_xaxes(title="weight w of the neural part; the memory has 1 - w", range=[0, 1])
    figure.update_yaxes(title="share of the tests, %", rangemode="tozero")
    return _dressed(figure)


def _histogram(weights: Floats) -> tuple[Floats, Floats]:
    """Return the left edges of bins over (0, 1), and the percentages in them; closed by a zero."""
    counts, edges = np.histogram(weights, bins=BINS, range=(0.0, 1.0))
    return edges, np.append(100 * counts / len(weights), 0.0)


def _dressed(figure: go.Figure) -> go.Figure:
    """Leave the colours of text, lines and page to the style sheet of the page."""
    figure.update_layout(
        template="none",
        height=380,
        margin={"l": 60, "r": 12, "t": 12, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13},
        hovermode="x unified",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0},
    )
    figure.update_xaxes(
        showgrid=False, zeroline=False, ticks="outside", automargin=True, title_font_size=13
    )
    figure.update_yaxes(showgrid=True, zeroline=False, automargin=True, title_font_size=13)
    return figure
