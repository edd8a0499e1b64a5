from __future__ import annotations

import copy
import dataclasses
import io
import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navi.batches import BatchBuilder
from navi.errors import ConfigError, TableError
from navi.tables import stream_tables
from navi.verbs import EmbedConfig, Navi
from navi.verbs.embedding import cut_blocks, embed_blocks

ROWS = [
    {"title": "the king", "year": 1999, "cast": [{"name": "love"}, {"name": "war"}]},
    {"title": "dark city", "genre": "drama"},
    {"year": 2001},
    {"title": "night"},
    {"genre": "comedy", "title": "old star", "year": 2010},
]
CLOSE = {"atol": 1e-5, "rtol": 0}
cells = st.dictionaries(
    st.sampled_from(["title", "year", "genre", "price"]), st.sampled_from(["king", "1999", "a red"])
)
slow = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def count_rows(navi, monkeypatch):
    """Count the rows of each batch from here on; every way through the model begins with its embeddings."""
    counted, model = [], navi.runner.model
    embed = model._embed
    monkeypatch.setattr(model, "_embed", lambda rows, table: (counted.append(rows.num_rows), embed(rows, table))[1])
    return counted


def test_each_row_has_a_vector_in_the_order_of_the_frame(navi):
    together = navi.embed_rows(ROWS)
    assert together.shape == (5, navi.hidden_size)
    assert together.dtype == np.float32
    alone = np.concatenate([navi.embed_rows([row]) for row in ROWS])
    np.testing.assert_allclose(together, alone, **CLOSE)


def test_a_row_without_cells_has_zeros_and_keeps_its_place(navi):
    found = navi.embed_rows([ROWS[0], {}, {"title": None, "year": "  "}, ROWS[1]])
    assert (found[1:3] == 0).all()
    np.testing.assert_allclose(found[[0, 3]], navi.embed_rows(ROWS[:2]), **CLOSE)


def test_one_dictionary_is_one_row(navi):
    np.testing.assert_allclose(navi.embed_rows(ROWS[1]), navi.embed_rows(ROWS[1:2]), **CLOSE)


@pytest.mark.parametrize("pooling", ["row", "cls", "mean", "values"])
def test_pandas_polars_arrow_and_dictionaries_give_the_same(navi, pooling):
    rows = [{"title": "king", "year": 1999, "genre": None}, {"title": "dark city", "year": 2001, "genre": "drama"}]
    expected = navi.embed_rows(rows, pooling=pooling)
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        np.testing.assert_allclose(navi.embed_rows(frame, pooling=pooling), expected, **CLOSE)


@slow
@given(rows=st.lists(cells, min_size=1, max_size=6), data=st.data())
def test_batches_order_neighbours_and_copies_change_nothing(navi, rows, data):
    expected = navi.embed_rows(rows)
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = [dict(data.draw(st.permutations(list(rows[place].items())))) for place in order]
    found = navi.embed_rows([*shuffled, ROWS[0], *shuffled], batch_size=data.draw(st.integers(1, 4)))
    np.testing.assert_allclose(found[: len(rows)], expected[list(order)], **CLOSE)
    np.testing.assert_allclose(found[len(rows) + 1 :], expected[list(order)], **CLOSE)


def test_permuted_columns_give_the_same_rows_and_the_same_cells_in_their_order(navi, world):
    rows = world.catalogues[0].rows[:6]
    turned = [dict(reversed(row.items())) for row in rows]
    np.testing.assert_allclose(navi.embed_rows(turned), navi.embed_rows(rows), **CLOSE)
    vectors, index = navi.embed_segments(rows, return_index=True)
    turned_vectors, turned_index = navi.embed_segments(turned, return_index=True)
    place = {(line["row"], line["header"]): number for number, line in enumerate(index.to_pylist())}
    order = [place[line["row"], line["header"]] for line in turned_index.to_pylist()]
    np.testing.assert_allclose(turned_vectors, vectors[order], **CLOSE)


def test_equal_rows_are_encoded_once(navi, monkeypatch):
    counted = count_rows(navi, monkeypatch)
    navi.embed_rows([ROWS[1], ROWS[3], dict(reversed(ROWS[1].items())), ROWS[1]])
    assert sum(counted) == 2


def test_blocks_of_rows_give_what_all_rows_give_at_once(navi, world):
    frames = {catalogue.name: [{}, *catalogue.rows[:7]] for catalogue in world.catalogues[:3]}
    told = []
    num_rows, chunks = stream_tables(frames, navi.read_config)
    blocks = cut_blocks(chunks, 10, first_rows=3)
    found = embed_blocks(navi, num_rows, blocks, EmbedConfig(), lambda *done: told.append(done))
    np.testing.assert_allclose(found, navi.embed_rows(frames), **CLOSE)
    assert told == [(3, 24), (4, 24), (7, 24), (7, 24)]


def test_tables_are_split_between_chunks_and_after_the_first_rows(navi):
    config = dataclasses.replace(navi.read_config, chunk_rows=2)
    rows = [{"title": f"Alien {number}"} for number in range(5)]
    frames = {"a": rows, "b": rows[:1]}
    for first, expected in (
        (1, [{"a": [1]}, {"a": [1, 2, 1]}, {"b": [1]}]),
        (9, [{"a": [2]}, {"a": [2, 1], "b": [1]}]),
    ):
        blocks = cut_blocks(stream_tables(frames, config)[1], 4, first)
        sizes = [{name: [chunk.num_rows for chunk in chunks] for name, chunks in block.items()} for block in blocks]
        assert sizes == expected
    assert list(cut_blocks([], 4)) == []


def test_equal_rows_share_their_segments_whatever_the_order_of_their_cells(navi, monkeypatch):
    counted = count_rows(navi, monkeypatch)
    turned = dict(reversed(ROWS[4].items()))
    found = navi.embed_segments([ROWS[4], ROWS[3], turned])
    assert sum(counted) == 2
    np.testing.assert_array_equal(found[4:], found[:3][::-1])
    np.testing.assert_allclose(found[4:], navi.embed_segments(turned), **CLOSE)


def test_several_devices_give_what_one_gives_in_the_same_order(navi, model_dir, world):
    rows = world.catalogues[0].rows[:20]
    several = Navi.from_pretrained(model_dir, device="cpu,cpu")
    assert len(several.pool.runners) == 2
    assert several.pool.runners[0].model is not several.pool.runners[1].model
    np.testing.assert_allclose(several.embed_rows(rows), navi.embed_rows(rows), **CLOSE)
    np.testing.assert_allclose(several.embed_segments(rows), navi.embed_segments(rows), **CLOSE)


def test_out_of_memory_halves_the_batch(navi, monkeypatch):
    expected = navi.embed_rows(ROWS)
    small = Navi(copy.copy(navi.pool.runners), navi.tokenizer, navi.folder, navi.prepare_config)
    counted, embed = [], navi.runner.model._embed

    def fail_when_large(rows, table):
        counted.append(rows.num_rows)
        if rows.num_rows > 2:
            raise torch.OutOfMemoryError("injected")
        return embed(rows, table)

    monkeypatch.setattr(navi.runner.model, "_embed", fail_when_large)
    monkeypatch.setattr(navi.runner, "tokens_per_batch", navi.runner.tokens_per_batch)
    np.testing.assert_allclose(small.embed_rows(ROWS), expected, **CLOSE)
    assert counted[0] == 5
    assert max(counted[2:]) <= 3


def test_a_token_budget_for_one_call_leaves_the_runner_as_it_was(navi, monkeypatch):
    budget, counted = navi.runner.tokens_per_batch, count_rows(navi, monkeypatch)
    navi.embed_rows(ROWS, tokens_per_batch=1)
    assert counted == [1] * 5
    assert navi.runner.tokens_per_batch == budget


def test_an_attribute_is_encoded_once_over_batches_and_calls(model_dir, monkeypatch):
    fresh = Navi.from_pretrained(model_dir, device="cpu")
    encoder = fresh.runner.model.attribute_encoder
    counted, forward = [], encoder.forward
    monkeypatch.setattr(encoder, "forward", lambda each: (counted.append(len(each.starts) - 1), forward(each))[1])
    fresh.embed_rows(ROWS, batch_size=1)
    assert sum(counted) == 4  # title, year, cast name, genre
    fresh.embed_rows(ROWS)
    assert sum(counted) == 4


def test_normalised_vectors_have_length_one_and_the_same_direction(navi):
    found = navi.embed_rows([*ROWS, {}], normalize=True)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 1, 1, 1, 0], atol=1e-6)
    plain = navi.embed_rows(ROWS)
    np.testing.assert_allclose(found[:5] * np.linalg.norm(plain, axis=1, keepdims=True), plain, atol=1e-5)


def test_half_precision_and_torch_come_out_where_asked(navi):
    assert navi.embed_rows(ROWS, dtype="float16").dtype == np.float16
    found = navi.embed_rows(ROWS, output="torch")
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), navi.embed_rows(ROWS), **CLOSE)


def test_the_poolings_differ(navi):
    found = [navi.embed_rows(ROWS, pooling=pooling) for pooling in ("row", "cls", "mean", "values")]
    assert not any(np.allclose(one, other, atol=1e-2) for one, other in itertools.combinations(found, 2))


def test_value_pooling_is_the_mean_of_the_values_states(navi):
    arrays = navi.encode(ROWS[:1]).arrays
    expected = navi.pool.embed(arrays, parts=("values",))["values"].mean(axis=0)
    np.testing.assert_allclose(navi.embed_rows(ROWS[:1], pooling="values")[0], expected, **CLOSE)


def test_a_row_is_its_cls_and_the_words_of_its_values_before_their_context(navi):
    arrays, model = navi.encode(ROWS[1:2]).arrays, navi.runner.model
    with torch.inference_mode():
        rows = BatchBuilder(arrays, navi.special, align=False).pack_rows(np.arange(1))
        inputs = model._embed(rows, model.embed_attributes(rows.attributes))
    values = [place for place, span in enumerate(rows.token_span.tolist()) if span in (1, 3)]
    words, cls = inputs[values].mean(dim=0).numpy(), navi.embed_rows(ROWS[1:2], pooling="cls")
    expected = (words / np.linalg.norm(words) + cls / np.linalg.norm(cls)) * np.sqrt(cls.shape[1] / 2)
    np.testing.assert_allclose(navi.embed_rows(ROWS[1:2]), expected, **CLOSE)
    np.testing.assert_allclose(navi.pool.embed(arrays, parts=("rows", "values"))["rows"], expected, **CLOSE)


def test_a_header_is_its_states_and_its_attribute(navi):
    arrays = navi.encode(ROWS[1:2]).arrays
    states = navi.pool.embed(arrays, parts=("header_states",))["header_states"]
    attributes = navi.embed_attributes(ROWS[1:2])[arrays.segment_attribute[arrays.row_segments]]
    expected = states / np.linalg.norm(states, axis=1, keepdims=True)
    expected += attributes / np.linalg.norm(attributes, axis=1, keepdims=True)
    expected *= np.sqrt(states.shape[1] / 2)
    np.testing.assert_allclose(navi.embed_headers(ROWS[1:2]), expected, **CLOSE)


def test_columns_restrict_what_is_read(navi):
    found = navi.embed_rows(ROWS, columns=["title", "cast"])
    assert (found[2] == 0).all()
    expected = [{"title": "the king", "cast": [{"name": "love"}, {"name": "war"}]}, {"title": "dark city"}]
    np.testing.assert_allclose(found[:2], navi.embed_rows(expected), **CLOSE)


def test_a_column_that_is_not_there_is_refused_with_the_nearest(navi):
    with pytest.raises(TableError, match=r"no column 'titel'. Did you mean 'title'?"):
        navi.embed_rows(ROWS, columns=["titel"])


@pytest.mark.parametrize("kind", ["segments", "headers"])
def test_each_cell_has_a_vector_with_its_place_header_and_role(navi, kind):
    embed = navi.embed_segments if kind == "segments" else navi.embed_headers
    vectors, index = embed({"films": [ROWS[1], {}, ROWS[2]], "more": [ROWS[3]]}, return_index=True)
    assert vectors.shape == (4, navi.hidden_size)
    assert index.to_pydict()["table"] == ["films", "films", "films", "more"]
    assert index.to_pydict()["row"] == [1, 1, 3, 1]
    assert index.to_pydict()["header"] == ["title", "genre", "year", "title"]
    assert set(index.to_pydict()["role"]) <= {"low", "mid", "high"}
    np.testing.assert_allclose(vectors[2], embed(ROWS[2])[0], **CLOSE)


def test_segments_and_headers_are_not_the_same(navi):
    assert not np.allclose(navi.embed_segments(ROWS), navi.embed_headers(ROWS), atol=1e-2)


def test_attributes_come_once_each_in_order_of_first_appearance(navi):
    vectors, index = navi.embed_attributes([{"releaseYear": 1, "title": "a"}, {"release_year": 2}], return_index=True)
    assert index.to_pydict()["attribute"] == ["release year", "title"]
    np.testing.assert_allclose(vectors[1], navi.embed_attributes({"Title": "king"})[0], **CLOSE)


def test_several_frames_come_one_after_the_other(navi):
    expected = navi.embed_rows(ROWS)
    np.testing.assert_allclose(navi.embed_rows({"a": ROWS[:2], "b": ROWS[2:]}), expected, **CLOSE)
    np.testing.assert_allclose(navi.embed_rows([ROWS[:2], ROWS[2:]]), expected, **CLOSE)


def test_a_progress_bar_is_drawn_on_stderr_only_when_asked_for(navi, capsys):
    navi.embed_rows(ROWS)
    assert capsys.readouterr().err == ""
    navi.embed_rows(ROWS, show_progress_bar=True)
    captured = capsys.readouterr()
    assert "Embedding rows" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("frame", [[], pd.DataFrame({"title": []}), pa.table({"title": pa.array([], pa.string())})])
def test_a_table_without_rows_is_refused(navi, frame):
    with pytest.raises(TableError, match=r"has no rows. Give one with at least one row"):
        navi.embed_rows(frame)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("batch_size", 0, "batch_size must be at least 1, got 0"),
        ("tokens_per_batch", -5, "tokens_per_batch must be at least 1, got -5"),
        ("dtype", "int8", "dtype must be one of float32, float16, got 'int8'"),
        ("output", "list", "output must be one of numpy, torch, got 'list'"),
        ("pooling", "max", "pooling must be one of row, cls, mean, values, got 'max'"),
    ],
)
def test_settings_out_of_range_are_refused(navi, setting, value, message):
    with pytest.raises(ConfigError, match=message):
        navi.embed_rows(ROWS, **{setting: value})


def test_a_pickle_and_a_deep_copy_refer_to_the_same_model(navi):
    assert copy.deepcopy(navi) is navi
    buffer = io.BytesIO()
    pickle.dump(navi, buffer)
    assert buffer.tell() < 1000
    again = pickle.loads(buffer.getvalue())
    np.testing.assert_array_equal(again.embed_rows(ROWS), navi.embed_rows(ROWS))


def test_frames_are_read_as_the_models_own_corpus_was(navi):
    assert navi.prepare_config.max_value_tokens == 8


def test_the_domain_is_that_of_the_training_rows(navi):
    assert navi.domain.headers.num_rows > 10
