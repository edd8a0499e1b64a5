from __future__ import annotations

from navi.report import Bars, Code, Column, Number, Page, Section, Table, Tile, Tiles, write_markdown
from navi.report.markdown import write_table


def test_a_table_marks_the_best_and_the_second():
    columns = ("model", Column("F1", group="films", best="highest"))
    text = write_table(Table("Rows told apart.", columns, (("a", 0.5), ("b", Number(0.75, 0.01)), ("c", 0.25))))
    assert text.splitlines() == [
        "**Rows told apart.**",
        "",
        "| model | films: F1 |",
        "|---|---:|",
        "| a | *0.500* |",
        "| b | **0.750** ± 0.010 |",
        "| c | 0.250 |",
    ]


def test_bars_in_cells_do_not_break_the_table():
    assert "| a\\|b c | – |" in write_table(Table("t", ("x", "y"), (("a|b\nc", None),)))


def test_a_page_has_its_words_tables_and_commands_but_no_figures():
    figure = Bars(caption="c", categories=("g",), series={"a": (1.0,)})
    section = Section("Second", "Said first.", (Tiles((Tile("rows", "7", "of 9"),)), Code("navi demo"), figure))
    text = write_markdown(Page("Title", "Lead.", (section,)))
    assert text == "# Title\n\nLead.\n\n## Second\n\nSaid first.\n\n- rows: 7 (of 9)\n\n```\nnavi demo\n```\n"
