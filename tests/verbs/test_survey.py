from __future__ import annotations

import numpy as np

from navi.tables import TABLE
from navi.verbs.filling import open_frame
from navi.verbs.survey import ASKED, NEW_COLUMNS, Survey, list_roles, name_new_columns

ROWS = [
    {"title": "dark city", "genre": "drama", "note": None, "cast": ["Ann"]},
    {"title": None, "genre": "comedy", "note": " ", "cast": None},
    {"title": None, "genre": None, "note": None, "cast": None},
]


def survey_rows(navi, asked=None):
    return Survey(open_frame(ROWS), navi.read(ROWS)[TABLE], asked)


def list_reasons(cells, header):
    return cells.reason[cells.column == list(ROWS[0]).index(header)].tolist()


def test_empty_cells_are_told_apart(navi):
    cells = survey_rows(navi).list_cells(known=())
    assert list_reasons(cells, "title") == [ASKED, "row has no other cell"]
    assert list_reasons(cells, "note") == ["column never filled"] * 3
    assert list_reasons(cells, "cast") == ["column holds nested or binary cells"] * 2
    assert cells.row[cells.list_asked()].tolist() == [1]


def test_columns_not_asked_for_are_left_alone(navi):
    cells = survey_rows(navi, asked={"genre"}).list_cells(known=())
    assert list_reasons(cells, "title") == ["column not asked for"] * 2
    assert list_reasons(cells, "genre") == ["row has no other cell"]


def test_a_column_never_filled_can_be_asked_for_if_it_is_known(navi):
    survey = survey_rows(navi)
    assert survey.list_new() == ["note"]
    assert list_reasons(survey.list_cells(known=["note"]), "note") == [ASKED, ASKED, "row has no other cell"]


def test_gaps_point_into_the_encoded_tables(navi):
    survey = survey_rows(navi)
    encoded = navi.encode({TABLE: ROWS, **name_new_columns(["note", "title"])})
    cells = survey.list_cells(known=["note"])
    gaps = survey.find_gaps(encoded, cells, cells.list_asked())
    headers = [encoded.headers[int(encoded.arrays.column_header[column])].as_py() for column in gaps.column]
    tables_of = [encoded.tables[encoded.arrays.column_table[column]] for column in gaps.column]
    assert headers == ["note", "title", "note"]
    assert tables_of == [NEW_COLUMNS, TABLE, NEW_COLUMNS]
    assert encoded.row_number[gaps.row].tolist() == [1, 2, 2]
    assert len(list_roles(encoded, gaps)) == 3


def test_no_new_columns_make_no_table():
    assert name_new_columns([]) == {}


def test_cells_come_row_after_row(navi):
    cells = survey_rows(navi).list_cells(known=())
    places = cells.row * 10 + cells.column
    assert (np.diff(places) > 0).all()
