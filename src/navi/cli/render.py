"""Numbers, tables and closing words as a reader likes them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def format_count(count: float) -> str:
    """Return a count with its thousands set apart; small rates keep a digit behind the point.

    >>> format_count(12345), format_count(7.25), format_count(7)
    ('12,345', '7.2', '7')
    """
    return f"{count:,.1f}" if isinstance(count, float) and count < 100 else f"{round(count):,}"


def format_share(share: float | None) -> str:
    """Return a share in percent; a dash where there is none.

    >>> format_share(0.256), format_share(None)
    ('25.6 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"


def format_loss(loss: float | None) -> str:
    """Return a loss with three digits behind the point; a dash where there is none."""
    return "–" if loss is None else f"{loss:.3f}"


def format_duration(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> format_duration(8.24), format_duration(187), format_duration(7322)
    ('8.2 s', '3 min 07 s', '2 h 02 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def shorten(text: str, length: int = 40) -> str:
    """Return a text, its end left out where it is longer.

    >>> shorten("The Rainy Kiss of Chicago", 12)
    'The Rainy K…'
    """
    return text if len(text) <= length else f"{text[: length - 1]}…"


def count_things(count: int, thing: str) -> str:
    """Return a count and what is counted, in the plural where that is right.

    >>> count_things(1, "table"), count_things(1200, "row")
    ('1 table', '1,200 rows')
    """
    return f"{format_count(count)} {thing}{'' if count == 1 else 's'}"


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, right: Sequence[str] = ()
) -> Table:
    """Return a table; the columns named in `right` are flush right."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def make_heading(text: str) -> Text:
    """Return a line that stands out."""
    from rich.text import Text

    return Text(text, style="bold")


def tell_next(command: str, why: str) -> str:
    """Return the line that says what to type next."""
    return f"Next, {why}:  {command}"


def quote(path: Path | str) -> str:
    """Return a path as a shell takes it."""
    return shlex.quote(str(path))
