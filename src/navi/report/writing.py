"""A page written as one HTML file that needs nothing from elsewhere, or as Markdown."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from navi.errors import ConfigError, escape_controls
from navi.files import check_target, write_file
from navi.report.cards import make_pages
from navi.report.charts import bundle_vega
from navi.report.page import Cell, Chart, Code, Item, Measurement, Page, ReportColumn, ReportTable, Tiles, save_page
from navi.version import VERSION

if TYPE_CHECKING:
    from markupsafe import Markup

REPORT_FILE = "report.html"
"""The page of a results folder that a browser opens."""
GENERATOR = '<meta name="generator" content="navi '
"""What every page of ours says."""


def write_report(page: Page, folder: str | Path) -> Path:
    """Write a page's content and the page itself into a folder, and return the page's file.

    The content comes first: if the page cannot be drawn for want of an extra, `navi report` can still do it later.
    """
    save_page(page, folder)
    return write_html(page, folder)


def write_html(page: Page, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write the page alone into a folder: it loads nothing from elsewhere, and its own scripts alone may run.

    It replaces an earlier page; a file of another's making it replaces only with `overwrite`.
    """
    pages = make_pages()
    pages.filters.update(paragraphs=split_paragraphs, code=mark_code, kind=lambda item: type(item).__name__)
    pages.filters["table"] = show_table
    files = resources.files("navi.report") / "template"
    base, style, script = ((files / name).read_text(encoding="utf-8") for name in ("base.css", "page.css", "page.js"))
    style = base + style
    has_charts = any(isinstance(item, Chart) for section in page.sections for item in section.items)
    scripts = [bundle_vega(), script] if has_charts else [script]
    # The policy allows these scripts and this style by their hashes, and no request at all.
    policy = f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {' '.join(map(_hash, scripts))}"
    file = Path(folder) / REPORT_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    is_ours = file.is_file() and GENERATOR in file.read_text(encoding="utf-8", errors="replace")
    check_target(file, overwrite=overwrite or is_ours)
    try:
        html = pages.get_template("page.html").render(
            page=page, style=style, scripts=scripts, policy=policy, version=VERSION
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"Cannot draw the page for {folder}: {error!r}. Make the results again.") from error
    with write_file(file) as aside:
        aside.write_text(html, encoding="utf-8")
    return file


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def split_paragraphs(text: str) -> list[Markup]:
    """Return the paragraphs of a text; what stands between backticks is code."""
    return [mark_code(part) for part in re.split(r"\n\s*\n", text.strip()) if part]


def mark_code(text: str) -> Markup:
    """Return a text with its code marked.

    >>> mark_code("type `a < b`")
    Markup('type <code>a &lt; b</code>')
    """
    from markupsafe import Markup, escape

    pieces = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else escape(piece) for place, piece in enumerate(pieces)
    )


@dataclass(frozen=True, kw_only=True)
class ShownCell:
    """A cell as a reader sees it; `key` is what it is sorted by, None for nothing, which always comes last."""

    text: str
    key: str | None
    deviation: str = ""
    change: str = ""
    mark: str = ""
    bar: float | None = None
    is_best_change: bool = False

    @property
    def markdown(self) -> str:
        """The cell in a table of Markdown: the best figure of a column bold, the second italic."""
        text = {"best": f"**{self.text}**", "second": f"*{self.text}*"}.get(self.mark, self.text)
        text += (f" ± {self.deviation}" if self.deviation else "") + (f" ({self.change})" if self.change else "")
        return _escape_cell(text)


def show_table(table: ReportTable) -> dict[str, Any]:
    """Return what is shown of a table: which columns are numeric, groups of headers, rows of cells."""
    columns = table.described_columns
    values = list(zip(*table.rows, strict=True)) or [()] * len(columns)
    groups = [(name, len(list(members))) for name, members in groupby(column.group for column in columns)]
    return {
        "columns": columns,
        "numeric": [
            all(cell is None or _measure(cell) for cell in cells) and any(map(_measure, cells)) for cells in values
        ],
        "groups": groups if any(name for name, _ in groups) else [],
        "rows": list(zip(*map(_show_column, columns, values), strict=True)),
        "has_marks": any(column.best for column in columns),
    }


def _show_column(column: ReportColumn, cells: Sequence[Cell]) -> list[ShownCell]:
    """Return the cells of a column, the best and second-best figure marked; what reads alike is marked alike."""
    numbers = [_measure(cell) for cell in cells]
    figures = [None if number is None else round(number.value, column.digits) for number in numbers]
    ranked = sorted({each for each in figures if each is not None}, reverse=column.best == "highest")
    marks: dict[float | None, str] = dict(zip(ranked, ("best", "second"), strict=False)) if column.best else {}
    shown = [show_cell(cell, column, marks.get(figure, "")) for cell, figure in zip(cells, figures, strict=True)]
    changes = [each and each.change and round(each.change, max(column.digits, 3)) for each in numbers]
    best = max((change for change in changes if change), default=None) if column.best_change else None
    return [
        replace(cell, is_best_change=bool(best) and change == best) for cell, change in zip(shown, changes, strict=True)
    ]


def show_cell(cell: Cell, column: ReportColumn, mark: str = "") -> ShownCell:
    """Return one cell as it is shown.

    >>> shown = show_cell(Measurement(0.87304, 0.013, -0.071), ReportColumn("F1"))
    >>> shown.text, shown.key, shown.deviation, shown.change
    ('0.873', '0.87304', '0.013', '−7.1 %')
    """
    if cell is None:
        return ShownCell(text="–", key=None)
    if isinstance(cell, bool):
        return ShownCell(text="yes" if cell else "no", key=str(int(cell)), mark="yes" if cell else "no")
    number = _measure(cell)
    if number is None:
        return ShownCell(text=str(cell), key=str(cell))
    change = "" if number.change is None else f"{100 * number.change:+.{max(column.digits - 2, 1)}f} %"
    return ShownCell(
        text=format_number(number.value, column),
        key=repr(number.value),
        deviation="" if number.deviation is None else format_number(float(number.deviation), column),
        change=change.replace("-", "\N{MINUS SIGN}"),
        mark=mark,
        bar=round(100 * min(max(number.value, 0.0), 1.0), 1) if column.bar else None,
    )


def format_number(value: float, column: ReportColumn) -> str:
    """Return a figure as its column shows it: whole ones with their thousands set apart."""
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.{column.digits}f}"
    if column.percent:
        text = f"{100 * value:.{max(column.digits - 2, 0)}f} %"
    return text.replace("-", "\N{MINUS SIGN}")


def _measure(cell: Cell) -> Measurement | None:
    """Return a cell that is a figure as a measurement."""
    if cell is None or isinstance(cell, str | bool):
        return None
    return cell if isinstance(cell, Measurement) else Measurement(cell)


def write_markdown(page: Page) -> str:
    """Return a page's words and tables, without its charts; the best figure of a column is bold, the second italic."""
    parts = [_escape(f"# {page.title}"), _escape(page.lead)]
    for section in page.sections:
        parts += [_escape(f"## {section.title}"), _escape(section.text), *map(_write_item, section.items)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _escape(text: str) -> str:
    """Return a text in which nothing is HTML, an image or a link: names and cells come from anybody's tables."""
    return html.escape(escape_controls(text), quote=False).replace("](", "]\\(")


def _escape_cell(text: str) -> str:
    return _escape(text).replace("|", "\\|").replace("\n", " ")


def _write_item(item: Item) -> str:
    if isinstance(item, Code):
        fence = "`" * (1 + max((len(run) for run in re.findall("``+", item.text)), default=2))
        return f"{fence}\n{escape_controls(item.text)}\n{fence}"
    if isinstance(item, Tiles):
        return _escape("\n".join(f"- {label}: {figure}" for label, figure in item.figures.items()))
    if isinstance(item, Chart):
        return ""
    shown = show_table(item)
    names = [f"{column.group}: {column.name}" if column.group else column.name for column in shown["columns"]]
    sides = ["---:" if numeric else "---" for numeric in shown["numeric"]]
    lines = [f"| {' | '.join(map(_escape_cell, names))} |", f"|{'|'.join(sides)}|"]
    lines += [f"| {' | '.join(cell.markdown for cell in row)} |" for row in shown["rows"]]
    return "\n\n".join(part for part in (_escape(f"**{item.caption}**"), "\n".join(lines), _escape(item.note)) if part)
