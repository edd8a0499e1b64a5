"""Reports written to a folder of results."""

from __future__ import annotations

from pathlib import Path

from navi.report.page import Page
from navi.report.rendering import render_page
from navi.report.storage import save_page, write_whole

REPORT_FILE = "report.html"
"""The page of a results folder that a browser opens."""


def write_report(page: Page, folder: str | Path) -> Path:
    """Write a page's content and the page itself into a folder, and return the page's file.

    The content comes first: if the page cannot be drawn for want of an extra, `navi report` can still do it later.
    """
    save_page(page, folder)
    return write_html(page, folder)


def write_html(page: Page, folder: str | Path) -> Path:
    """Write the page alone into a folder, and return its file."""
    file = Path(folder) / REPORT_FILE
    write_whole(file, render_page(page))
    return file
