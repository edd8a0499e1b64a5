from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from navi_paper.bench import BenchConfig
from navi_paper.tasks.generative import _find_modes, _list_training_cells, _spell, run


def list_scores(measures, ending):
    return {name: value for name, value in measures.items() if name.endswith(ending) and "frequent" not in name}


def test_who_knows_everything_gets_everything(bench, encoders):
    measures = run(encoders.oracle, bench).measures
    for ending in ("_token", "_exact"):
        scores = list_scores(measures, ending)
        assert len(scores) == 2 * 6
        assert set(scores.values()) == {1.0}


def test_who_reads_the_order_loses_when_columns_are_permuted(bench, encoders):
    measures = run(encoders.order_reader, bench).measures
    assert measures["test_header_blind_exact"] == 1.0
    assert measures["test_header_blind_permuted_exact"] < 0.5


def test_every_encoder_is_asked_for_the_same_cells(bench, encoders):
    asked = []

    class Recorder(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            asked.append((hidden.part, hidden.blind, hidden.cells.tobytes(), arrays.row_segments.tobytes()))
            return super().predict(arrays, rows, hidden)

    run(Recorder(), bench)
    first, asked = asked, []
    run(Recorder(), bench)
    assert first == asked
    assert {(part, blind) for part, blind, *_ in first} == {("value", False), ("header", False), ("header", True)}


def test_a_quarter_of_each_row_is_hidden(bench, encoders):
    hidden_cells = []

    class Recorder(encoders.Oracle):
        def predict(self, arrays, rows, hidden):
            hidden_cells.append((int(hidden.cells.sum()), arrays.num_rows))
            return super().predict(arrays, rows, hidden)

    run(Recorder(), bench)
    # Five cells a row in known tables, four in the unseen one: one of them is hidden.
    assert all(hidden == rows for hidden, rows in hidden_cells)


def test_the_most_frequent_value_of_a_column_is_known_where_it_is_constant(bench, encoders):
    everything = replace(bench, config=BenchConfig(rows=1000, hidden_share=1.0))
    measures = run(encoders.oracle, everything).measures
    # language and color are constant; of the other columns no value is more frequent than a third.
    assert 0.2 <= measures["test_value_frequent_exact"] <= 0.4
    # date and genre have headers that known tables have, film and size have not.
    assert measures["unseen_value_frequent_exact"] <= 0.25


def test_modes_are_the_most_frequent_members_of_groups():
    rng = np.random.default_rng(0)
    group, member = rng.integers(0, 6, 200), rng.integers(0, 9, 200)
    modes = _find_modes(group, member, 7)
    for number in range(6):
        counted = Counter(member[group == number].tolist())
        best = max(counted.values())
        assert modes[number] == min(each for each, count in counted.items() if count == best)
    assert modes[6] == -1


def test_a_guess_is_spelled_out_as_far_as_it_goes():
    offsets, tokens = np.array([0, 2, 5]), np.array([7, 8, 1, 2, 3], np.int32)
    spelled = _spell(np.array([1, 0, -1]), np.array([2, 3, 1]), offsets, tokens)
    assert spelled.tolist() == [1, 2, 7, 8, -1, -1]


def test_a_corpus_without_unseen_tables_is_measured_on_its_own_rows(bench, encoders, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.generative.SPLITS", ("test",))
    assert not any(name.startswith("unseen") for name in run(encoders.oracle, bench).measures)


@pytest.mark.parametrize("split", ["test", "unseen"])
def test_a_split_is_sampled_down_to_the_rows_asked_for(bench, encoders, split):
    assert run(encoders.oracle, bench).measures[f"{split}_rows"] == bench.config.rows


def test_nothing_but_training_rows_tells_what_is_frequent(bench):
    columns, segments = _list_training_cells(bench)
    assert len(columns) == len(segments) == 5 * len(bench.corpus.rows_of("train"))
    assert "gamma" not in {bench.corpus.tables[table] for table in bench.corpus.arrays.column_table[columns]}
