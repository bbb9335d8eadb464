"""A report as Markdown: its words and every table; figures are for the HTML report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from nextclick.experiments.report import Figure, Table, Text
from nextclick.files import new_file


def write_markdown(
    path: Path, title: str, lead: str, parts: Sequence[Text | Table | Figure], *, footer: str = ""
) -> None:
    r"""Write the words and the tables of a report to a Markdown file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "report.md"
    ...     write_markdown(file, "Title", "Words.", [Table("Numbers", ["a", "b"], [["x|y", "1"]])])
    ...     print(file.read_text(encoding="utf-8"))
    # Title
    <BLANKLINE>
    Words.
    <BLANKLINE>
    ## Numbers
    <BLANKLINE>
    | a | b |
    |---|--:|
    | x\|y | 1 |
    <BLANKLINE>
    """
    pieces = [f"# {title}", lead, *(_part(part) for part in parts), footer]
    with new_file(path) as aside:
        text = "\n\n".join(piece for piece in pieces if piece) + "\n"
        aside.write_text(text, encoding="utf-8", errors="replace")


def _part(part: Text | Table | Figure) -> str:
    if isinstance(part, Figure):
        return ""
    heading = f"## {part.title}\n\n"
    if isinstance(part, Text):
        if len(part.paragraphs) == 1:
            return heading + part.paragraphs[0]
        return heading + "\n".join(f"- {text}" for text in part.paragraphs)
    return heading + _table(part) + (f"\n\n{part.note}" if part.note else "")


def _table(table: Table) -> str:
    groups = table.groups or [""] * len(table.columns)
    heading = [
        f"{group}: {name}" if group and name else group or name
        for group, name in zip(groups, table.columns, strict=True)
    ]
    rules = ["---" if n < table.text_columns else "--:" for n in range(len(heading))]
    rows = [
        [
            f"**{_escaped(cell)}**" if (number, column) in table.strong else _escaped(cell)
            for column, cell in enumerate(row)
        ]
        for number, row in enumerate(table.rows)
    ]
    lines = [_line(map(_escaped, heading)), f"|{'|'.join(rules)}|", *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
