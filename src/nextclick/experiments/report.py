"""A report as one HTML file: it needs no network, and fits phones, dark rooms and printers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

from nextclick.files import new_file


@dataclass(frozen=True)
class Text:
    """Paragraphs under a heading."""

    title: str
    paragraphs: Sequence[str]


@dataclass(frozen=True)
class Table:
    """A table under a heading.

    Parameters
    ----------
    title, note
        What stands above it, and below.
    columns, rows
        The headings and the cells.
    groups
        What runs of columns have in common, above their headings; empty for columns on their own.
    strong
        The (row, column) of cells to emphasise.
    text_columns
        How many of the first columns are text; the others are numbers, and set right.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    groups: Sequence[str] = ()
    strong: frozenset[tuple[int, int]] = frozenset()
    text_columns: int = 1


@dataclass(frozen=True)
class Figure:
    """A figure under a heading."""

    title: str
    figure: go.Figure
    note: str = ""


def write_report(
    path: Path, title: str, lead: str, parts: Sequence[Text | Table | Figure], *, footer: str = ""
) -> None:
    """Write a report to an HTML file that holds all it needs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "report.html"
    ...     write_report(file, "A <report>", "", [Table("Numbers", ["a", "b"], [["one", "1"]])])
    ...     "<h1>A &lt;report&gt;</h1>" in file.read_text(encoding="utf-8")
    True
    """
    with new_file(path) as aside:
        page = _page(title, lead, parts, footer)
        # Ids may hold half a surrogate pair, which UTF-8 does not have.
        aside.write_text(page, encoding="utf-8", errors="replace")


def _page(title: str, lead: str, parts: Sequence[Text | Table | Figure], footer: str) -> str:
    has_figures = any(isinstance(part, Figure) for part in parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{STYLE}</style>
{f"<script>{get_plotlyjs()}</script>" if has_figures else ""}
</head>
<body>
<main>
<header>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
</header>
{"".join(f"<section>{_section(part)}</section>" for part in parts)}
<footer>{escape(footer)}</footer>
</main>
</body>
</html>
"""


def _section(part: Text | Table | Figure) -> str:
    heading = f"<h2>{escape(part.title)}</h2>\n"
    if isinstance(part, Text):
        return heading + "".join(f"<p>{escape(text)}</p>\n" for text in part.paragraphs)
    body = _table(part) if isinstance(part, Table) else _figure(part)
    return heading + body + (f'<p class="note">{escape(part.note)}</p>\n' if part.note else "")


def _table(table: Table) -> str:
    rows = "".join(_row(table, number, row) for number, row in enumerate(table.rows))
    name = escape(table.title)
    return f"""<div class="scroll" tabindex="0" role="group" aria-label="{name}"><table>
<thead>{_groups(table)}{_headings(table)}</thead>
<tbody>{rows}</tbody>
</table></div>
"""


def _groups(table: Table) -> str:
    if not any(table.groups):
        return ""
    cells = []
    for number, group in enumerate(table.groups):
        if number and group == table.groups[number - 1]:
            continue
        span = next(
            (i for i, other in enumerate(table.groups[number:]) if other != group),
            len(table.groups) - number,
        )
        cells.append(f'<th scope="colgroup" colspan="{span}">{escape(group)}</th>')
    return f"<tr>{''.join(cells)}</tr>\n"


def _headings(table: Table) -> str:
    cells = (
        f'<th scope="col"{_kind(table, number)}>{escape(name)}</th>'
        for number, name in enumerate(table.columns)
    )
    return f"<tr>{''.join(cells)}</tr>"


def _row(table: Table, number: int, row: Sequence[str]) -> str:
    cells = []
    for column, cell in enumerate(row):
        shown = (
            f"<strong>{escape(cell)}</strong>" if (number, column) in table.strong else escape(cell)
        )
        tag = 'th scope="row"' if column == 0 else "td"
        cells.append(f"<{tag}{_kind(table, column)}>{shown}</{tag[:2]}>")
    return f"<tr>{''.join(cells)}</tr>\n"


def _kind(table: Table, column: int) -> str:
    return "" if column < table.text_columns else ' class="number"'


def _figure(part: Figure) -> str:
    html: str = plotly.io.to_html(
        part.figure,
        full_html=False,
        include_plotlyjs=False,
        config={"displayModeBar": False, "responsive": True},
    )
    return f'<div class="figure" role="img" aria-label="{escape(part.title)}">{html}</div>\n'


# Plotly writes colours into the figures; where the page decides, it has to be !important.
STYLE = """
:root { --page: #ffffff; --ink: #1c2026; --soft: #5b6470; --line: #dde1e6; --band: #f5f7f9;
  --accent: #1f6fc4; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171c; --ink: #e8ebef; --soft: #a0a9b4; --line: #333a43; --band: #1c2128;
    --accent: #6fb1f5; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .75rem; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { font-size: 1.1rem; color: var(--soft); }
.note, footer { font-size: .875rem; color: var(--soft); }
footer { margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .65rem; text-align: left; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
thead th[colspan] { border-bottom: 0; padding-bottom: 0; color: var(--ink); }
tbody th { font-weight: 500; position: sticky; left: 0; background: var(--page); }
tbody tr:hover > * { background: var(--band); }
.number { text-align: right; }
strong { color: var(--accent); font-weight: 700; }
.figure { width: 100%; min-height: 380px; }
.figure text { fill: var(--ink) !important; }
.figure .gridlayer path { stroke: var(--line) !important; }
.figure .xlines-above, .figure .ylines-above, .figure .xtick path, .figure path.xtick,
.figure path.ytick { stroke: var(--soft) !important; }
.figure .hoverlayer path.bg, .figure .hoverlayer .bg { fill: var(--page) !important;
  stroke: var(--line) !important; fill-opacity: .95 !important; }
.figure .hoverlayer .legend rect.bg { fill: var(--page) !important; }
.figure path.hoverline, .figure .spikeline { stroke: var(--soft) !important; }
@media (max-width: 40rem) {
  main { padding: 1.25rem .75rem 3rem; }
  h1 { font-size: 1.5rem; }
  th, td { padding: .35rem .5rem; }
}
@media print { main { max-width: none; } section { break-inside: avoid; } }
"""
