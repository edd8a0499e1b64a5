"""Reports: one HTML page of tables and figures that needs nothing from elsewhere, made of plain data."""

from navi.report.figures import Bars, Bin, Distribution, Figure, Lines, Map, Reliability
from navi.report.markdown import write_markdown
from navi.report.page import Code, Item, Page, Section, Tile, Tiles
from navi.report.storage import load_page, save_page
from navi.report.tables import Cell, Column, Number, Table
from navi.report.writing import write_html, write_report

__all__ = [
    "Bars",
    "Bin",
    "Cell",
    "Code",
    "Column",
    "Distribution",
    "Figure",
    "Item",
    "Lines",
    "Map",
    "Number",
    "Page",
    "Reliability",
    "Section",
    "Table",
    "Tile",
    "Tiles",
    "load_page",
    "save_page",
    "write_html",
    "write_markdown",
    "write_report",
]
