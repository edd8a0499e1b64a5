"""Reports: one HTML page of tables and charts that needs nothing from elsewhere, made of plain data."""

from navi.report.charts import place_points
from navi.report.page import (
    Cell,
    Chart,
    Code,
    Item,
    Measurement,
    Page,
    ReportColumn,
    ReportTable,
    Section,
    Tiles,
    load_page,
    save_page,
)
from navi.report.writing import show_table, write_html, write_markdown, write_report

__all__ = [
    "Cell",
    "Chart",
    "Code",
    "Item",
    "Measurement",
    "Page",
    "ReportColumn",
    "ReportTable",
    "Section",
    "Tiles",
    "load_page",
    "place_points",
    "save_page",
    "show_table",
    "write_html",
    "write_markdown",
    "write_report",
]
