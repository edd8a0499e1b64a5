"""Tests of the results folder: what was kept is found again, and a line cut off is no harm."""

from __future__ import annotations

import json

import numpy as np
import pytest

from navi.errors import ConfigError
from navi_paper.results import RESULTS_FILE, Cell, Record, Results

CELL = Cell(corpus="films", task="generative", model="bert", seed=0)


def make_record(**changes):
    return Record(**({**vars(CELL), "digest": "a", "measures": {"accuracy": 0.5}} | changes))


def test_a_folder_that_is_not_there_holds_nothing(tmp_path):
    results = Results.open(tmp_path / "none")
    assert list(results) == []
    assert not (tmp_path / "none").exists()


def test_what_was_kept_is_found_again(tmp_path):
    Results(tmp_path).add(make_record(), {"vectors": np.arange(6).reshape(2, 3), "names": np.array(["a", "b"])})
    found = Results.open(tmp_path)
    assert found.find(CELL) == make_record()
    arrays = found.load_arrays(CELL)
    assert arrays["vectors"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["names"].tolist() == ["a", "b"]


def test_a_later_line_takes_the_place_of_an_earlier_one(tmp_path):
    results = Results(tmp_path)
    results.add(make_record(error="broke", measures={}))
    results.add(make_record())
    assert list(Results.open(tmp_path)) == [make_record()]


@pytest.mark.parametrize("changes", [{"error": "broke"}, {"digest": "b"}])
def test_a_cell_that_failed_or_had_other_settings_is_not_done(tmp_path, changes):
    results = Results(tmp_path)
    results.add(make_record(**changes))
    assert results.find(CELL, "a") is None


def test_a_cell_without_arrays_has_none(tmp_path):
    results = Results(tmp_path)
    results.add(make_record())
    assert results.load_arrays(CELL) is None


def test_a_line_cut_off_while_it_was_written_is_left_out_and_writing_goes_on(tmp_path):
    Results(tmp_path).add(make_record())
    file = tmp_path / RESULTS_FILE
    with file.open("a") as lines:
        lines.write('{"corpus": "fil')
    results = Results.open(tmp_path)
    results.add(make_record(model="navi"))
    assert [record.model for record in Results.open(tmp_path)] == ["bert", "navi"]


def test_a_line_that_is_no_result_is_one_clear_error(tmp_path):
    (tmp_path / RESULTS_FILE).write_text('{"surprise": 1}\n')
    with pytest.raises(ConfigError, match=r"results.jsonl:1 is no result: .*Remove the line to go on"):
        Results.open(tmp_path)


def test_lines_are_json_that_any_program_reads(tmp_path):
    Results(tmp_path).add(make_record(about={"command": "navi evaluate"}))
    line = json.loads((tmp_path / RESULTS_FILE).read_text())
    assert line["measures"] == {"accuracy": 0.5}
    assert line["about"]["command"] == "navi evaluate"
