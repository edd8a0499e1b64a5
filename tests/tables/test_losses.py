import pickle
from dataclasses import replace

import pytest

from navi.errors import TableError
from navi.tables.readreport import BROKEN_ROW, EMPTY_FILE, FAMILY_LIMIT, MAX_PLACES, WRONG_ENCODING, ReadReport


def test_rows_read_are_those_kept_and_those_dropped():
    losses = ReadReport(source="a.csv", read=10)
    ledger = losses
    ledger.drop(BROKEN_ROW, 3, "no end")
    ledger.drop(BROKEN_ROW, 7, num_rows=4)
    assert (losses.read, losses.kept, losses.dropped) == (15, 10, {BROKEN_ROW: 5})
    assert losses.places == {BROKEN_ROW: ["a.csv:3: no end", "a.csv:7"]}


def test_cells_are_counted_apart_from_rows():
    losses = ReadReport(source="a.csv")
    losses.change(WRONG_ENCODING, 2, "byte e9", num_cells=3)
    assert (losses.read, losses.cells) == (0, {WRONG_ENCODING: 3})


def test_the_list_of_places_is_bounded_but_the_count_is_not():
    losses = ReadReport(source="a.csv")
    ledger = losses
    for line in range(MAX_PLACES + 5):
        ledger.drop(BROKEN_ROW, line)
    assert losses.dropped[BROKEN_ROW] == MAX_PLACES + 5
    assert len(losses.places[BROKEN_ROW]) == MAX_PLACES


def test_a_note_is_said_once():
    losses = ReadReport(source="a.csv")
    ledger = losses
    ledger.note("read as cp1252")
    ledger.note("read as cp1252")
    assert losses.notes == ["read as cp1252"]


def test_trouble_with_a_file_is_listed_and_noted():
    losses = ReadReport(source="a.csv")
    losses.trouble(EMPTY_FILE, "there is nothing in it")
    assert losses.notes == ["empty file: there is nothing in it"]
    assert losses.places == {EMPTY_FILE: ["a.csv: there is nothing in it"]}


def test_a_strict_ledger_makes_a_loss_an_error_with_file_and_line():
    ledger = ReadReport(source="a.csv", strict=True)
    with pytest.raises(TableError, match=r"^a\.csv:3: broken row: no end\. Mend the source, or read it without strict"):
        ledger.drop(BROKEN_ROW, 3, "no end")
    with pytest.raises(TableError, match=r"^a\.csv:4: another encoding: byte e9"):
        ledger.change(WRONG_ENCODING, 4, "byte e9")
    with pytest.raises(TableError, match=r"^a\.csv: empty file: nothing"):
        ledger.trouble(EMPTY_FILE, "nothing")


def test_a_strict_ledger_lets_a_chosen_limit_pass():
    losses = ReadReport(source="a.csv")
    replace(losses, strict=True).change(FAMILY_LIMIT, 1, "actors", num_cells=2)
    assert losses.cells == {FAMILY_LIMIT: 2}


def test_losses_travel_between_processes():
    losses = ReadReport(source="a.csv", read=2)
    losses.drop(BROKEN_ROW, 1)
    assert pickle.loads(pickle.dumps(losses)) == losses
