"""`navi report`: the page of a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from navi.cli.console import Screen
from navi.cli.options import Json, Quiet

EXAMPLES = ("navi report navi-demo", "navi report results --open", "navi report results --tables tables.md")


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder of results.", show_default=False)],
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    tables: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write words and tables as Markdown, too.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the results of a demo or an evaluation as one HTML page that opens anywhere, offline."""
    from navi.files import write_file
    from navi.report import load_page, write_html, write_markdown

    screen = Screen(quiet=quiet, as_json=as_json)
    page = load_page(results)
    screen.note(f"Drawing {page.title!r}.")
    if tables is not None:
        with write_file(tables) as aside:
            aside.write_text(write_markdown(page), encoding="utf-8")
    file = write_html(page, results)
    screen.answer_json({"page": file, "tables": tables, "sections": [section.title for section in page.sections]})
    screen.summarise(f"Written: {file}" + (f" and {tables}" if tables is not None else ""))
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
