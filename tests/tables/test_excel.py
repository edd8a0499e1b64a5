import datetime as dt
import importlib
import zipfile

import pytest

from navi.errors import MissingExtraError, TableError
from navi.tables.readreport import BEYOND_HEADER, DAMAGED, EMPTY_FILE

openpyxl = pytest.importorskip("openpyxl")


def write(path, *sheets):
    workbook = openpyxl.Workbook()
    workbook.remove(workbook.active)
    for number, rows in enumerate(sheets, 1):
        sheet = workbook.create_sheet(f"Sheet{number}")
        for row in rows:
            sheet.append(row)
    workbook.save(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "movies.xlsx"


@pytest.mark.parametrize("chunk_rows", [1, 1000])
def test_cells_of_all_types_are_written_as_text(path, read, chunk_rows):
    write(
        path,
        [
            ["title", 2020, None, "title", "seen", "score"],
            ["Heat", 1, "x", "y", dt.datetime(2020, 1, 2), 8.5],
            [],
            [" Ran ", True, None, None, dt.datetime(2021, 1, 2), 8],
        ],
    )
    rows, losses = read(path, chunk_rows=chunk_rows)
    assert rows == [
        {"title": "Heat", "2020": "1", "column_3": "x", "title (2)": "y", "seen": "2020-01-02", "score": "8.5"},
        {"title": "Ran", "2020": "true", "seen": "2021-01-02", "score": "8"},
    ]
    assert losses.read == 2


def test_the_first_sheet_that_is_not_empty_is_read_and_the_others_are_named(path, read):
    write(path, [], [["a"], [1]], [["b"], [2]])
    rows, losses = read(path)
    assert rows == [{"a": "1"}]
    assert losses.notes == ["sheet 'Sheet2' is read, not read: 'Sheet1', 'Sheet3'"]


def test_cells_beyond_the_header_are_counted(path, read):
    # A workbook written in one go does not tell its width, so rows are as long as they are.
    workbook = openpyxl.Workbook(write_only=True)
    sheet = workbook.create_sheet("Sheet1")
    sheet.append(["a", "b"])
    sheet.append([1, 2, 3])
    workbook.save(path)
    rows, losses = read(path)
    assert rows == [{"a": "1", "b": "2"}]
    assert losses.cells == {BEYOND_HEADER: 1}
    assert losses.places == {BEYOND_HEADER: [f"{path}:2: 3 cells, the header has 2"]}


def test_a_column_without_a_name_is_numbered(path, read):
    write(path, [["a", "b"], [1, 2, 3]])
    assert read(path)[0] == [{"a": "1", "b": "2", "column_3": "3"}]


def test_a_workbook_without_anything_is_empty(path, read):
    write(path, [], [])
    rows, losses = read(path)
    assert rows == []
    assert losses.places == {EMPTY_FILE: [f"{path}: no sheet has anything in it"]}


def test_a_missing_extra_is_named(path, read, monkeypatch):
    write(path, [["a"], [1]])

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtraError, match=r"movies\.xlsx needs an extra: pip install 'navi-tables\[excel\]'"):
        read(path)


def test_a_zip_that_is_no_workbook_is_one_clear_error(path, read):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(TableError, match=r"Cannot read .*movies\.xlsx as an Excel workbook: "):
        read(path)


def test_of_a_damaged_sheet_the_rows_before_the_damage_stay(path, read, tmp_path):
    write(path, [["a"], *([f"row {number}"] for number in range(100))])
    damaged = tmp_path / "damaged.xlsx"
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(damaged, "w") as copy:
        for name in whole.namelist():
            data = whole.read(name)
            copy.writestr(name, data[: len(data) // 2] if "sheet1" in name else data)
    rows, losses = read(damaged)
    assert rows == [{"a": f"row {number}"} for number in range(len(rows))]
    assert len(rows) > 20
    assert len(losses.places[DAMAGED]) == 1
    with pytest.raises(TableError, match=r"damaged\.xlsx:\d+: damaged file: "):
        read(damaged, strict=True)
