"""`navi report`: the page of a folder of results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from navi.cli.console import Screen
from navi.cli.options import Json, Quiet

EXAMPLES = ("navi report navi-demo", "navi report results --open")


def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder of results.", show_default=False)],
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write the results of a demo or an evaluation as one HTML page that opens anywhere, offline."""
    from navi.report import load_page, write_html

    screen = Screen(quiet=quiet, as_json=as_json)
    page = load_page(results)
    screen.note(f"Drawing {page.title!r}.")
    file = write_html(page, results)
    screen.answer_json({"page": file, "sections": [section.title for section in page.sections]})
    screen.summarise(f"Written: {file}")
    if show:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
