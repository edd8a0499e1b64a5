"""What tables or a corpus look like, column by column: `inspect_corpus`, `inspect_paths` and `navi inspect`."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import openpyxl
import pytest

from navi.corpus import inspect_corpus, inspect_paths, prepare


@pytest.fixture
def inspected(film_tables, prepare_config):
    """The report on three tables."""
    return inspect_paths([film_tables], prepare_config)


def find_column(report, table, header):
    columns = {each.name: each.columns for each in report.tables}[table]
    return next(column for column in columns if column.header == header)


def test_report_is_ready_for_json_and_has_tables_and_totals(inspected):
    assert json.loads(json.dumps(inspected.as_dict(), allow_nan=False)) == inspected.as_dict()
    assert [(table.name, table.rows, len(table.columns)) for table in inspected.tables] == [
        ("amber", 60, 3),
        ("birch", 40, 3),
        ("cedar", 20, 2),
    ]
    assert inspected.totals["rows"] == 120


def test_column_is_described(inspected):
    column = find_column(inspected, "birch", "releaseYear")
    assert column.attribute == "release year"
    assert (column.fill, column.distinct, column.role) == (1.0, 5, "mid")
    assert 0 < column.entropy < 1
    assert column.examples == ["1990", "1991", "1992"]
    assert column.trouble == []


def test_trouble_is_named(inspected, prepare_config, write_tables, tmp_path):
    assert find_column(inspected, "birch", "colour").trouble == ["constant"]
    assert find_column(inspected, "amber", "title").trouble == ["all different"]
    rows = [{"id": str(number)} for number in range(30)]
    rows[0] |= {"rare": "x", "foreign": "漢字漢字"}
    rows[1] |= {"plot": "the film " * 20}
    source = write_tables(tmp_path / "in", {"amber": rows})
    report = inspect_paths([source], replace(prepare_config, max_unknown_share=None))
    assert find_column(report, "amber", "rare").trouble[:2] == ["mostly empty", "constant"]
    assert "many [UNK]" in find_column(report, "amber", "foreign").trouble
    assert "often cut" in find_column(report, "amber", "plot").trouble
    (example,) = find_column(report, "amber", "plot").examples
    assert len(example) == 60
    assert example.endswith("…")


@pytest.mark.parametrize(("trains", "trouble"), [(True, "one cell that trains"), (False, "no row that trains")])
def test_column_with_too_few_cells_that_train_has_no_entropy(prepare_config, write_tables, tmp_path, trains, trouble):
    rows = [{"id": str(number), "same": "x"} for number in range(30)]
    source = write_tables(tmp_path / "in", {"amber": [{**rows[0], "rare": "x"}, *rows[1:]], "birch": rows})
    for seed in range(50):
        corpus = prepare([source], tmp_path / f"out{seed}", replace(prepare_config, seed=seed))
        if (corpus.row_split[0] == 0) == trains:
            break
    report = inspect_corpus(corpus)
    rare, same = find_column(report, "amber", "rare"), find_column(report, "amber", "same")
    assert (rare.entropy, rare.trouble[-1]) == (None, trouble)
    assert (same.entropy, same.trouble) == (0.0, ["constant"])
    assert find_column(report, "birch", "same") == same


def test_tables_left_out_are_listed(film_tables, prepare_config):
    report = inspect_paths([film_tables], replace(prepare_config, largest_tables=2))
    assert [(table.name, table.dropped) for table in report.left_out] == [
        ("cedar", {"table not among the largest": 20})
    ]


# The command


@pytest.fixture
def shop(tmp_path):
    """A table with a broken line, a constant column and something like markup."""
    folder = tmp_path / "shop"
    folder.mkdir()
    lines = [json.dumps({"price": str(n % 3), "currency": "usd", "[b]name": f"red {n}"}) for n in range(8)]
    (folder / "shop.jsonl").write_text("\n".join([*lines, "{broken"]) + "\n")
    return folder


@pytest.fixture
def corpus(film_tables, prepare_config, tmp_path):
    """A corpus of three tables."""
    return prepare([film_tables], tmp_path / "corpus", prepare_config).path


def test_columns_are_shown_with_what_is_known_of_them(shop, prepare_config, navi_command):
    printed = navi_command("inspect", shop, "--backbone", prepare_config.backbone).stdout
    shown = ("shop: 8 rows, 3 columns", "[b]name", "constant", "dropped: broken row (1)", "shop.jsonl:9: ")
    for part in (*shown, "In all 1 table, 8 rows, 24 cells, 3 columns"):
        assert part in printed
    assert "undecided" not in printed


def test_corpus_is_inspected_like_the_tables_it_was_made_of(corpus, film_tables, prepare_config, navi_command):
    of_corpus = json.loads(navi_command("inspect", corpus, "--json").stdout)
    flags = ("--backbone", prepare_config.backbone, "--json")
    assert of_corpus == json.loads(navi_command("inspect", film_tables, *flags).stdout)
    assert {"header", "attribute", "fill", "distinct", "entropy", "role"} <= set(of_corpus["tables"][0]["columns"][0])


def test_one_table_may_be_chosen(corpus, navi_command):
    printed = navi_command("inspect", corpus, "--table", "birch").stdout
    assert "birch: " in printed
    assert "amber: " not in printed
    result = navi_command("inspect", corpus, "--table", "nowhere", code=2)
    assert result.stderr == "navi: There is no table 'nowhere'. Expected one of amber, birch, cedar.\n"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_each_column_is_one_line_with_its_trouble_however_wide_the_terminal(width, corpus, navi_command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    *lines, _ = navi_command("inspect", corpus).stdout.splitlines()
    assert width == 60 or sum(" % " in line for line in lines) == 8
    assert all(len(line) <= width for line in lines)
    assert "constant" in next(line for line in reversed(lines) if "colour" in line)
    assert "entropy" not in navi_command("inspect", corpus, "--short").stdout


def test_columns_stand_in_the_order_of_the_file_and_those_without_a_name_are_flagged(prepare_config, tmp_path):
    (tmp_path / "a.csv").write_text("year,,title,plot\n1995,x,,\n1985,y,Ran,\n")
    (tmp_path / "b.csv").write_text("title,year\nHeat,1995\n")
    found = inspect_paths([tmp_path], prepare_config).tables
    assert [[column.header for column in table.columns] for table in found] == [
        ["year", "column_2", "title"],
        ["title", "year"],
    ]
    assert "unnamed" in found[0].columns[1].trouble
    assert found[0].notes == ["columns without a name: column_2", "columns without any cell: plot"]


def test_rows_that_look_like_a_header_or_like_sums_are_noted_and_kept(prepare_config, tmp_path):
    (tmp_path / "a.csv").write_text(
        "title;year;vhs;price\nHeat;1995;a;5\ntitle;year;vhs;price\nRan;1985;b;7\nSumme:;;;12\n\n"
    )
    (found,) = inspect_paths([tmp_path], prepare_config).tables
    assert found.rows == 4
    assert [note.replace(str(tmp_path / "a.csv"), "a.csv") for note in found.notes if note.startswith("row ")] == [
        "row 3 of a.csv looks like a repeated header",
        "row 5 of a.csv, the last, looks like sums of the others",
    ]


def test_one_sheet_of_a_workbook_may_be_chosen(prepare_config, tmp_path, navi_command):
    book = openpyxl.Workbook()
    for name in ("Films", "Prices"):
        sheet = book.create_sheet(name)
        for row in (["title", name], *([f"film {number}", number] for number in range(5))):
            sheet.append(row)
    book.save(tmp_path / "book.xlsx")
    flags = ("--backbone", prepare_config.backbone, "--short")
    printed = navi_command("inspect", tmp_path / "book.xlsx", *flags).stdout
    assert "book/Films" in printed
    assert "book/Prices" in printed
    printed = navi_command("inspect", tmp_path, "--sheet", "Prices", *flags).stdout
    assert "title, Prices" in printed
    assert "title, Films" not in printed
    result = navi_command("inspect", tmp_path / "book.xlsx", "--sheet", "None", *flags, code=2)
    assert "has no sheet 'None' with anything in it. Expected one of Films, Prices." in result.stderr


def test_a_file_whose_name_is_not_utf_8_is_a_table_like_others(prepare_config, tmp_path, navi_command):
    with open(os.fsencode(tmp_path) + b"/caf\xe9.csv", "w") as file:  # noqa: PTH123
        file.write("title,year\n" + "red night,1979\n" * 9 + ",\n")
    printed = navi_command("inspect", tmp_path, "--backbone", prepare_config.backbone).stdout
    assert r"caf\xe9: 9 rows" in printed
    assert r"caf\xe9.csv:11" in printed


def test_what_a_terminal_would_act_on_is_shown_escaped(prepare_config, tmp_path, navi_command):
    nasty = "\x1b[31mred\x9b0m\u202eback\x07"
    row = json.dumps({f"{nasty}head": f"{nasty}cell", "b": 1}) + "\n"
    (tmp_path / f"{nasty}.jsonl").write_text(row * 9 + "{broken\n")
    for flags in ((), ("--json",), ("--short",)):
        result = navi_command("inspect", tmp_path, "--backbone", prepare_config.backbone, *flags)
        assert not set("\x1b\x9b\u202e\x07") & set(result.stdout + result.stderr)
        if not flags:
            assert r"\x1b[31mred\x9b0m\u202eback\x07" in result.stdout
        if flags == ("--json",):
            assert json.loads(result.stdout)["tables"][0]["columns"][0]["header"] == f"{nasty}head"
    result = navi_command("inspect", tmp_path / f"{nasty}.xyz", code=2)
    assert not set("\x1b\x9b\u202e\x07") & set(result.stdout + result.stderr)


def test_table_too_small_for_roles_says_so(prepare_config, tmp_path, navi_command):
    (tmp_path / "one.csv").write_text("title,year\nred night,1979\n")
    printed = navi_command("inspect", tmp_path / "one.csv", "--backbone", prepare_config.backbone).stdout
    assert printed.count(" undecided ") == 2
    assert "0.000" not in printed
    assert "undecided: fewer than two cells to train on; add rows to tell entropy and role" in printed


def test_columns_beyond_max_tokens_are_counted_and_named(prepare_config, tmp_path, navi_command):
    headers = [f"field {number:03}" for number in range(300)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(headers), *[",".join(["night"] * 300)] * 9]) + "\n")
    report = inspect_paths([tmp_path], prepare_config).tables[0]
    assert [column.header for column in report.columns] + report.beyond == headers
    printed = " ".join(navi_command("inspect", tmp_path, "--backbone", prepare_config.backbone).stdout.split())
    assert "wide: 9 rows, 300 columns" in printed
    beyond = f"{len(report.beyond)} columns"
    assert f"{beyond} beyond max_tokens in every row: {report.beyond[0]}, {report.beyond[1]}," in printed
    assert f"{beyond} more beyond max_tokens." in printed
