"""A page as Markdown: its words and tables, without its figures."""

from __future__ import annotations

from collections.abc import Iterable

from navi.report.cells import ShownCell, ShownTable, show_table
from navi.report.page import Code, Item, Page, Section, Tiles
from navi.report.tables import Table

MARKS = {"best": "**{}**", "second": "*{}*"}
"""How the best and the second-best figure of a column are set."""


def write_markdown(page: Page) -> str:
    """Return a page's words and tables; the best figure of a column is bold, the second italic."""
    parts = [f"# {page.title}", page.lead, *(_write_section(section) for section in page.sections)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def write_table(table: Table) -> str:
    """Return one table.

    >>> print(write_table(Table("F1", ("model", "films"), (("navi", 0.5),))))
    **F1**
    <BLANKLINE>
    | model | films |
    |---|---:|
    | navi | 0.500 |
    """
    shown = show_table(table)
    sides = ["---:" if numeric else "---" for numeric in shown.numeric]
    lines = [_join(_name_columns(shown)), f"|{'|'.join(sides)}|"]
    lines += [_join(_write_cell(cell) for cell in row) for row in shown.rows]
    parts = [f"**{table.caption}**", "\n".join(lines), table.note]
    return "\n\n".join(part for part in parts if part)


def _write_section(section: Section) -> str:
    parts = [f"## {section.title}", section.text, *(_write_item(item) for item in section.items)]
    return "\n\n".join(part for part in parts if part)


def _write_item(item: Item) -> str:
    if isinstance(item, Table):
        return write_table(item)
    if isinstance(item, Code):
        return f"```\n{item.text}\n```"
    if isinstance(item, Tiles):
        return "\n".join(f"- {tile.label}: {tile.value}{f' ({tile.note})' if tile.note else ''}" for tile in item.tiles)
    return ""


def _name_columns(shown: ShownTable) -> list[str]:
    return [f"{column.group}: {column.name}" if column.group else column.name for column in shown.columns]


def _write_cell(cell: ShownCell) -> str:
    text = MARKS.get(cell.mark, "{}").format(cell.text)
    deviation = f" ± {cell.deviation}" if cell.deviation else ""
    change = f" ({cell.change})" if cell.change else ""
    return text + deviation + change


def _join(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
