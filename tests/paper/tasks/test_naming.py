from dataclasses import replace

import numpy as np
import pytest

from navi.errors import ModelError
from navi_paper.bench import BenchConfig
from navi_paper.columns import list_gold_columns, sample_cells
from navi_paper.encoder import list_cells
from navi_paper.tasks.naming import list_candidates, run, score_columns


def make_namer(bench, encoders, header_of):
    """Return an encoder that finds a header (by text) from `header_of(arrays, segment, rank)`."""
    names = {name: number for number, name in enumerate(bench.corpus.headers.to_pylist())}
    whole = bench.corpus.arrays

    class Namer(encoders.Oracle):
        asked = ()

        def predict_log(self, arrays, rows, hidden, tokens):
            assert hidden.blind
            _, segments = list_cells(arrays, rows)
            rank_C = np.concatenate([np.arange(count) for count in np.diff(arrays.row_offsets)[rows]])
            self.asked += (int(hidden.cells.sum()),)
            lengths = np.diff(arrays.header_offsets)[arrays.segment_header[segments[hidden.cells]]]
            logged = []
            for segment, rank, length in zip(segments[hidden.cells], rank_C[hidden.cells], lengths, strict=True):
                header = names[header_of(arrays, segment, rank)]
                start, end = whole.header_offsets[header : header + 2]
                spelled = whole.header_tokens[start:end]
                for place in range(length):
                    right = len(spelled) == length and spelled[place]
                    logged.append(np.where(tokens == right, 0.0, -9.0))
            return np.array(logged, np.float32)

    return Namer()


def read_value(bench, arrays, segment):
    return bench.corpus.values[int(arrays.segment_value[segment])].as_py()


@pytest.fixture
def by_value(bench):
    def find(arrays, segment, _):
        value = read_value(bench, arrays, segment)
        return "title" if value.startswith("film") else "year" if value.isdigit() else "genre"

    return find


def test_who_knows_values_names_every_column(bench, encoders, by_value):
    measures = run(make_namer(bench, encoders, by_value), bench).measures
    assert measures["columns"] == 3
    assert measures["top1"] == measures["permuted_top1"] == 1.0
    assert measures["top5"] == measures["permuted_top5"] == 1.0


def test_who_reads_the_order_loses_when_columns_are_permuted(bench, encoders):
    namer = make_namer(bench, encoders, lambda arrays, segment, rank: ("title", "year", "genre", "language")[rank])
    measures = run(namer, bench).measures
    assert measures["top1"] == 1.0
    assert measures["permuted_top1"] < 1.0


def test_a_column_may_be_called_by_any_header_of_its_concept(bench, encoders, by_value):
    other = {"title": "name", "year": "date", "genre": "kind"}
    namer = make_namer(bench, encoders, lambda *cell: other[by_value(*cell)])
    assert run(namer, bench).measures["top1"] == 1.0


def test_who_names_every_column_alike_is_right_once(bench, encoders):
    measures = run(make_namer(bench, encoders, lambda *_: "genre"), bench).measures
    assert measures["top1"] == pytest.approx(1 / 3)


def test_one_header_a_row_is_hidden_in_no_more_rows_than_asked_for(bench, encoders, by_value):
    namer = make_namer(bench, encoders, by_value)
    few = replace(bench, config=BenchConfig(column_rows=4))
    run(namer, few)
    lengths = {len(tokens) for tokens in list_candidates(few).tokens}
    assert namer.asked == (3 * 4,) * (2 * len(lengths))


def test_candidates_are_headers_of_known_tables(bench, monkeypatch):
    monkeypatch.setattr("navi_paper.tasks.naming.LONGEST", 4)
    candidates = list_candidates(bench)
    spelled = {
        tuple(bench.corpus.tokenizer.encode(header, add_special_tokens=False).ids)
        for header in ("title", "year", "genre", "country", "language", "name", "date", "kind", "color")
    }
    short = {tokens for tokens in spelled if len(tokens) <= 4}
    assert set(candidates.tokens) == short
    assert candidates.too_long == len(spelled) - len(short)
    assert candidates.nameable == {"title", "year", "genre", "country"}
    # country is the one header that both known tables have.
    assert candidates.concepts[0] == {"country"}


def test_columns_whose_concept_no_known_table_has_are_counted_apart(bench, encoders, by_value):
    gold = replace(bench.gold, concepts={**bench.gold.concepts, ("gamma", "size"): "size"})
    measures = run(make_namer(bench, encoders, by_value), replace(bench, gold=gold)).measures
    assert measures["unnameable"] == 1
    assert measures["top1"] == 1.0


def test_a_model_names_columns(bench, navi_tables):
    measures = run(navi_tables, bench).measures
    assert measures["permuted_top1"] == measures["top1"]
    assert 0 <= measures["top1"] <= measures["top5"] <= 1


def test_an_encoder_that_tells_no_probabilities_is_refused(bench, encoders):
    with pytest.raises(ModelError, match="oracle cannot tell how likely a token is"):
        run(encoders.oracle, bench)


def test_a_candidate_scores_the_mean_of_its_tokens(bench, encoders):
    columns = list_gold_columns(bench)
    wanted = sample_cells(bench, "unseen", columns.number, 2, 0)
    columns = columns.keep(columns.table == "gamma")
    candidates = list_candidates(bench)
    namer = make_namer(bench, encoders, lambda *_: "genre")
    scores = score_columns(namer, bench.corpus.arrays, wanted, columns, candidates)
    assert scores.shape == (3, len(candidates.tokens))
    assert max(map(len, candidates.tokens)) > 1
    right = candidates.tokens.index(tuple(bench.corpus.tokenizer.encode("genre", add_special_tokens=False).ids))
    assert np.all(scores[:, right] == 0.0)
    assert np.all(np.delete(scores, right, axis=1) == -9.0)


def test_a_header_of_several_concepts_is_strictly_what_most_tables_make_of_it(bench, encoders):
    # country is in both known tables: a year in one, a title in the other, so strictly a title.
    concepts = {**bench.gold.concepts, ("alpha", "country"): "year", ("beta", "country"): "title"}
    changed = replace(bench, gold=replace(bench.gold, concepts=concepts))
    measures = run(make_namer(bench, encoders, lambda *_: "country"), changed).measures
    assert measures["top1"] == pytest.approx(2 / 3)
    assert measures["top1_strict"] == pytest.approx(1 / 3)
    assert measures["top5_strict"] <= measures["top5"]
