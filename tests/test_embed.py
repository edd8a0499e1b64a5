"""What a user embeds: rows, segments, headers and attributes of frames and files, in Python and on the command line."""

from __future__ import annotations

import copy
import io
import itertools
import json
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from navi import Navi
from navi.corpus.tokens import TextTokenizer
from navi.errors import ConfigError, ModelError, TableError
from navi.tables import read_chunks
from navi.verbs import EmbedConfig, embed_files
from navi.verbs.embed import embed_frames
from navi.verbs.vector_files import FILE_ROWS

ROWS = [
    {"title": "the king", "year": 1999, "cast": [{"name": "love"}, {"name": "war"}]},
    {"title": "dark city", "genre": "drama"},
    {"year": 2001},
    {"title": "night"},
    {"genre": "comedy", "title": "old star", "year": 2010},
]
CLOSE = {"atol": 1e-5, "rtol": 0}
POOLINGS = ["text", "cls", "mean", "values"]
# Some of the headers have the same tokens, and some the same in another order.
cells = st.dictionaries(
    st.sampled_from(["title", "Title", "year", "title year", "year title"]),
    st.sampled_from(["king", "1999", "a red", "red a"]),
)
slow = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def watch(navi):
    """Have a function told how many rows each batch has before it is encoded: every row begins with one [CLS]."""
    hooks = []

    def register(function):
        def look(_, given):
            if num_rows := int((given[0] == navi.special.cls).sum()):  # attributes are read with the same words
                function(num_rows)

        hooks.append(navi.runner.model.embeddings.word_embeddings.register_forward_pre_hook(look))

    yield register
    for hook in hooks:
        hook.remove()


def test_each_row_has_a_vector_in_the_order_of_the_frame(navi):
    together = navi.embed_rows(ROWS)
    assert together.shape == (5, navi.hidden_size)
    assert together.dtype == np.float32
    alone = np.concatenate([navi.embed_rows(row) for row in ROWS])  # one dictionary is one row
    np.testing.assert_allclose(together, alone, **CLOSE)


def test_a_row_without_cells_has_zeros_and_keeps_its_place(navi):
    found = navi.embed_rows([ROWS[0], {}, {"title": None, "year": "  "}, ROWS[1]])
    assert (found[1:3] == 0).all()
    np.testing.assert_allclose(found[[0, 3]], navi.embed_rows(ROWS[:2]), **CLOSE)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pandas_polars_arrow_and_dictionaries_give_the_same(navi, pooling):
    rows = [{"title": "king", "year": 1999, "genre": None}, {"title": "dark city", "year": 2001, "genre": "drama"}]
    expected = navi.embed_rows(rows, pooling=pooling)
    for frame in (pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        np.testing.assert_allclose(navi.embed_rows(frame, pooling=pooling), expected, **CLOSE)


@pytest.mark.parametrize("pooling", ["text", "cls"])
@slow
@given(rows=st.lists(cells, min_size=1, max_size=6), data=st.data())
def test_batches_order_neighbours_and_copies_change_nothing(navi, pooling, rows, data):
    expected = navi.embed_rows(rows, pooling=pooling)
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = [dict(data.draw(st.permutations(list(rows[place].items())))) for place in order]
    batch_size = data.draw(st.integers(1, 4))
    found = navi.embed_rows([*shuffled, ROWS[0], *shuffled], pooling=pooling, batch_size=batch_size)
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


@pytest.mark.parametrize("pooling", ["text", "cls"])
def test_equal_rows_are_encoded_once(navi, watch, pooling):
    counted = []
    watch(counted.append)
    navi.embed_rows([ROWS[1], ROWS[3], dict(reversed(ROWS[1].items())), ROWS[1]], pooling=pooling)
    assert sum(counted) == 2


def test_several_devices_give_what_one_gives_in_the_same_order(navi, model_dir, world):
    rows = world.catalogues[0].rows[:40]
    several = Navi.from_pretrained(model_dir, device="cpu,cpu")
    for pooling in ("text", "cls"):
        found, expected = (
            several.embed_rows(rows, pooling=pooling, batch_size=7),
            navi.embed_rows(rows, pooling=pooling),
        )
        np.testing.assert_allclose(found, expected, **CLOSE)
    np.testing.assert_allclose(several.embed_segments(rows, batch_size=7), navi.embed_segments(rows), **CLOSE)


@pytest.mark.parametrize("pooling", ["text", "cls"])
def test_a_batch_that_does_not_fit_in_memory_is_tried_again_in_halves(model_dir, navi, watch, caplog, pooling):
    expected, tried = navi.embed_rows(ROWS, pooling=pooling), []

    def fail_when_large(num_rows):
        tried.append(num_rows)
        if num_rows > 2:
            raise torch.OutOfMemoryError("injected")

    watch(fail_when_large)
    budget = navi.runner.tokens_per_batch
    try:
        np.testing.assert_allclose(navi.embed_rows(ROWS, pooling=pooling), expected, **CLOSE)
    finally:
        navi.runner.tokens_per_batch = budget
    assert tried[0] == 5
    assert max(tried[2:]) <= 3
    assert "trying again with half as many" in caplog.text


def test_a_row_that_does_not_fit_in_memory_alone_is_an_error_that_says_what_to_do(navi, watch):
    def fail(num_rows):
        raise torch.OutOfMemoryError("injected")

    watch(fail)
    with pytest.raises(ModelError, match=r"One row of 5 tokens does not fit in the memory of cpu. Lower max_tokens"):
        navi.embed_rows({"title": "king"})


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
    found = [navi.embed_rows(ROWS, pooling=pooling) for pooling in POOLINGS]
    assert not any(np.allclose(one, other, atol=1e-2) for one, other in itertools.combinations(found, 2))


def test_a_row_is_read_as_a_text_but_in_a_model_of_the_papers_preset_which_has_cls(navi, monkeypatch):
    np.testing.assert_array_equal(navi.embed_rows(ROWS), navi.embed_rows(ROWS, pooling="text"))
    monkeypatch.setattr(navi.runner.model.config, "row_words", False)
    np.testing.assert_array_equal(navi.embed_rows(ROWS), navi.embed_rows(ROWS, pooling="cls"))


def test_a_row_as_a_text_is_the_sentence_of_its_cells_in_any_order_of_columns(navi):
    row, other = {"title": "the king", "year": "1999"}, {"year": "1999", "title": "the king"}
    found = navi.embed_rows([row, other, {}, {"title": "dark city " * 200}], pooling="text")
    sentences = ["title: the king, year: 1999", "year: 1999, title: the king"]
    read = navi.runner.embed_texts(TextTokenizer(navi.tokenizer).tokenise(sentences, 64))
    assert min(np.abs(found[0] - each).max() for each in read) < 1e-4
    np.testing.assert_allclose(found[0], found[1], **CLOSE)
    assert (found[2] == 0).all()
    assert np.isfinite(found[3]).all()


def test_columns_restrict_what_is_read(navi):
    found = navi.embed_rows(ROWS, columns=["title", "cast"])
    assert (found[2] == 0).all()
    expected = [{"title": "the king", "cast": [{"name": "love"}, {"name": "war"}]}, {"title": "dark city"}]
    np.testing.assert_allclose(found[:2], navi.embed_rows(expected), **CLOSE)


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
    assert embed(ROWS, columns=["title"], dtype="float16", normalize=True).shape == (4, navi.hidden_size)


def test_attributes_beyond_what_the_model_reads_at_once_have_vectors_too(navi):
    assert len(navi.embed_attributes({f"field {number:03}": "night" for number in range(300)})) == 300


def test_attributes_come_once_each_in_order_of_first_appearance(navi):
    vectors, index = navi.embed_attributes([{"releaseYear": 1, "title": "a"}, {"release_year": 2}], return_index=True)
    assert index.to_pydict()["attribute"] == ["release year", "title"]
    np.testing.assert_allclose(vectors[1], navi.embed_attributes({"Title": "king"})[0], **CLOSE)


def test_a_progress_bar_is_drawn_on_stderr_only_when_asked_for(navi, capsys):
    navi.embed_rows(ROWS)
    assert capsys.readouterr().err == ""
    navi.embed_rows(ROWS, show_progress_bar=True)
    captured = capsys.readouterr()
    assert "Embedding rows" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("batch_size", 0, "batch_size must be at least 1, got 0"),
        ("dtype", "int8", "dtype must be one of float32, float16, got 'int8'"),
        ("output", "list", "output must be one of numpy, torch, got 'list'"),
        ("pooling", "row", "pooling must be one of text, cls, mean, values, got 'row'"),
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
    # Float32 rounds otherwise where another test has set the number of threads.
    np.testing.assert_allclose(again.embed_rows(ROWS), navi.embed_rows(ROWS), atol=1e-5)


@pytest.fixture
def folder(tmp_path):
    """Two files of tables; one row of the first has no cells."""
    folder = tmp_path / "in"
    folder.mkdir()
    films = [{"title": f"film {n}", "kind": "movie", "year": 1990 + n} for n in range(7)]
    write_rows(folder / "films.jsonl", [*films[:3], {}, *films[3:]])
    write_rows(folder / "songs.jsonl", [{"name": "night"}, {"name": "day", "kind": "old"}])
    return folder


def write_rows(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def read_vectors(path):
    table = pq.read_table(path)
    return table, np.stack(table["embedding"].to_numpy(zero_copy_only=False))


def test_rows_of_files_are_written_with_table_and_number_in_the_order_of_the_files(navi, folder, tmp_path):
    written = embed_files(navi, [folder], tmp_path / "OUT.PARQUET")
    table, vectors = read_vectors(tmp_path / "OUT.PARQUET")
    assert table["table"].to_pylist() == ["films"] * 7 + ["songs"] * 2
    assert table["row"].to_pylist() == [1, 2, 3, 5, 6, 7, 8, 1, 2]
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), navi.hidden_size)
    np.testing.assert_allclose(vectors[7], navi.embed_rows({"name": "night"})[0], atol=1e-5)
    assert written.num_vectors == 9


@pytest.mark.parametrize("kind", ["segments", "headers"])
def test_cells_of_files_are_written_with_header_and_role(navi, folder, tmp_path, kind):
    embed_files(navi, [folder], tmp_path / "out.parquet", kind=kind)
    table, vectors = read_vectors(tmp_path / "out.parquet")
    assert table.column_names == ["table", "row", "header", "role", "embedding"]
    assert table["header"].to_pylist()[:3] == ["title", "kind", "year"]
    assert table["role"].to_pylist()[:3] == ["high", "low", "high"]
    embed = navi.embed_segments if kind == "segments" else navi.embed_headers
    np.testing.assert_allclose(vectors[:3], embed({"title": "film 0", "kind": "movie", "year": 1990}), atol=1e-5)


def test_files_in_parts_give_what_they_give_at_once_roles_too(navi, folder, tmp_path, monkeypatch):
    embed_files(navi, [folder], tmp_path / "whole.parquet", kind="segments")
    monkeypatch.setitem(FILE_ROWS, "segments", 1)
    done = []
    embed_files(navi, [folder], tmp_path / "parts.parquet", kind="segments", progress=lambda *rows: done.append(rows))
    whole, parts = (read_vectors(tmp_path / name) for name in ("whole.parquet", "parts.parquet"))
    assert parts[0].drop_columns("embedding") == whole[0].drop_columns("embedding")
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-5)
    assert done == [("films", 1)] * 7 + [("songs", 1)] * 2


def test_a_column_first_met_after_the_rows_that_decide_on_roles_has_none(navi, tmp_path, monkeypatch):
    monkeypatch.setattr("navi.verbs.vector_files.ROLE_ROWS", 2)
    monkeypatch.setitem(FILE_ROWS, "segments", 1)
    file = write_rows(tmp_path / "films.jsonl", [{"a": "king"}, {"a": "king"}, {"b": "war"}])
    embed_files(navi, [file], tmp_path / "out.parquet", kind="segments")
    assert pq.read_table(tmp_path / "out.parquet")["role"].to_pylist() == ["low", "low", None]


def test_memory_does_not_grow_with_a_file(navi, tmp_path, monkeypatch):
    monkeypatch.setitem(FILE_ROWS, "rows", 2)
    file = write_rows(tmp_path / "films.jsonl", [{"title": f"film {n}"} for n in range(40)])
    read, written = [], []

    def read_and_count(*given):
        for chunk in read_chunks(*given):
            read.append(chunk.num_rows)
            assert len(read) - len(written) <= 4, "chunks pile up in memory"
            yield chunk

    monkeypatch.setattr("navi.verbs.vector_files.read_chunks", read_and_count)
    embed_files(navi, [file], tmp_path / "out.parquet", progress=lambda table, rows: written.append(rows))
    assert read == written == [2] * 20


def test_blocks_beside_a_gpu_give_what_all_rows_give_at_once(navi, world, monkeypatch):
    frames = {catalogue.name: pd.DataFrame([{}, *catalogue.rows[:7]]) for catalogue in world.catalogues[:3]}
    expected, done = navi.embed_rows(frames), []
    monkeypatch.setattr(navi.runner, "device", torch.device("cuda"))
    monkeypatch.setattr("navi.verbs.embed.FIRST_ROWS", 3)
    monkeypatch.setattr("navi.verbs.embed.BLOCK_ROWS", 10)
    found = embed_frames(navi, frames, None, EmbedConfig(), lambda *rows: done.append(rows))
    np.testing.assert_allclose(found, expected, **CLOSE)
    assert sum(rows for rows, _ in done) == 21
    assert {total for _, total in done} == {24}


def test_rows_of_a_lazy_frame_go_through_the_model_in_blocks(navi, monkeypatch):
    rows = [{"title": f"film {number}", "year": 1950 + number % 60} for number in range(50)]
    expected, sizes = navi.embed_rows(rows), []
    embed = navi.runner.embed
    monkeypatch.setattr("navi.verbs.embed.BLOCK_ROWS", 20)
    monkeypatch.setattr(Navi, "read_config", replace(navi.read_config, chunk_rows=10))
    monkeypatch.setattr(
        navi.runner, "embed", lambda arrays, **given: sizes.append(arrays.num_rows) or embed(arrays, **given)
    )
    np.testing.assert_allclose(navi.embed_rows(pl.LazyFrame(rows)), expected, **CLOSE)
    assert sum(sizes) == 50
    assert max(sizes) <= 20


def test_an_earlier_result_stays_until_the_new_one_is_whole(navi, folder, tmp_path):
    out = tmp_path / "to" / "out.parquet"
    out.parent.mkdir()
    out.write_text("earlier")
    (tmp_path / "empty.csv").write_text("title\n")
    with pytest.raises(TableError, match=r"has any row. .*empty.csv: it has a header and no rows"):
        embed_files(navi, [tmp_path / "empty.csv"], out, overwrite=True)
    assert [file.name for file in out.parent.iterdir()] == ["out.parquet"]
    assert out.read_text() == "earlier"
    with pytest.raises(ConfigError, match=r"Cannot embed 'cells'. Expected one of rows, segments, headers, attributes"):
        embed_files(navi, [folder], out, kind="cells")
    with pytest.raises(ConfigError, match=r"out\.parquet exists\. Replace it with --overwrite"):
        embed_files(navi, [folder], out)
    embed_files(navi, [folder], out, overwrite=True)
    assert pq.read_table(out).num_rows == 9


@pytest.fixture
def small_shards(monkeypatch):
    """Groups of one file, blocks of two rows, shards of two blocks."""
    monkeypatch.setattr("navi.verbs.vector_files.GROUP_BYTES", 1)
    monkeypatch.setattr("navi.verbs.vector_files.SHARD_BLOCKS", 2)
    monkeypatch.setitem(FILE_ROWS, "rows", 2)
    monkeypatch.setitem(FILE_ROWS, "segments", 2)


def read_folder(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("kind", ["rows", "segments"])
def test_shards_have_what_one_file_has_in_the_same_order(navi, folder, tmp_path, small_shards, kind):
    one = embed_files(navi, [folder], tmp_path / "one.parquet", kind=kind)
    many = embed_files(navi, [folder], tmp_path / "many", kind=kind)
    names = sorted(file.name for file in (tmp_path / "many").iterdir())
    assert names == ["00000-00000.parquet", "00000-00001.parquet", "00001-00000.parquet", "_navi.json"]
    assert (many.num_vectors, many.reports) == (one.num_vectors, one.reports)
    whole, parts = (read_vectors(tmp_path / name) for name in ("one.parquet", "many"))
    assert parts[0].drop_columns("embedding") == whole[0].drop_columns("embedding")
    np.testing.assert_allclose(parts[1], whole[1], atol=1e-5)


def test_a_run_that_ends_anywhere_goes_on_to_the_same_bytes(navi, folder, tmp_path, small_shards, watch):
    embed_files(navi, [folder], tmp_path / "whole")
    expected, passes = read_folder(tmp_path / "whole"), []
    watch(passes.append)
    for last, already in zip(range(1, 6), (0, 0, 2, 2, 4), strict=True):
        del passes[:]

        def stop(table, rows, last=last):
            if len(passes) == last:
                raise KeyboardInterrupt

        out = tmp_path / f"out{last}"
        with pytest.raises(KeyboardInterrupt):
            embed_files(navi, [folder], out, progress=stop)
        assert not (out / "_navi.json").exists()
        del passes[:]
        done = embed_files(navi, [folder], out)
        assert len(passes) == 5 - already
        assert read_folder(out) == expected
        assert done.reports["films"].read == 8


def test_shards_that_are_damaged_complete_foreign_or_begun_otherwise_are_refused(navi, folder, tmp_path, small_shards):
    out = tmp_path / "out"

    def stop(table, rows):
        if table == "songs":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed_files(navi, [folder], out, progress=stop)
    with pytest.raises(ConfigError, match=r"out was begun with other normalize\. Give another folder, or --overwrite"):
        embed_files(navi, [folder], out, config=EmbedConfig(normalize=True))
    shard = out / "00000-00001.parquet"
    shard.write_bytes(shard.read_bytes()[:-7])
    with pytest.raises(ConfigError, match=r"00000-00001.parquet is damaged or not there. Remove it and run again."):
        embed_files(navi, [folder], out)
    shard.unlink()
    assert embed_files(navi, [folder], out).num_vectors == 9
    with pytest.raises(ConfigError, match=r"out is complete\. Replace it with --overwrite"):
        embed_files(navi, [folder], out)
    assert embed_files(navi, [folder], out, config=EmbedConfig(normalize=True), overwrite=True).num_vectors == 9
    with pytest.raises(ConfigError, match=r"in has files that are no shards of vectors"):
        embed_files(navi, [folder / "films.jsonl"], folder)
    with pytest.raises(ConfigError, match="Attributes come once each, so they go to one file"):
        embed_files(navi, [folder], tmp_path / "attributes", kind="attributes")


def test_the_command_writes_a_vector_for_every_row_and_says_so(navi_command, model_dir, folder, tmp_path):
    out = tmp_path / "rows.parquet"
    said = navi_command("embed", "--model", model_dir, folder, "-o", out).stdout
    assert "rows.parquet: 9 vectors of 32 numbers" in said.replace("\n", "")
    assert "9 rows of 2 tables" in said
    assert pq.read_table(out).column_names == ["table", "row", "embedding"]
    assert navi_command("embed", "--model", model_dir, folder, "-o", out, "--overwrite", "--quiet").output == ""


@pytest.mark.parametrize("kind", ["segments", "headers", "attributes"])
def test_the_command_embeds_other_things_and_answers_in_json(navi_command, model_dir, folder, tmp_path, kind):
    out = tmp_path / "out.parquet"
    flags = ("--kind", kind, "--dtype", "float16", "--normalize", "--json")
    said = json.loads(navi_command("embed", "--model", model_dir, folder, "-o", out, *flags).stdout)
    written = pq.read_table(out)
    assert said["vectors"] == written.num_rows > 0
    assert (said["size"], said["path"]) == (32, str(out))
    assert str(written.schema.field("embedding").type.value_type) == "halffloat"


def test_the_command_says_what_was_lost_in_reading(navi_command, model_dir, tmp_path):
    (tmp_path / "shop.jsonl").write_text('{"name": "red"}\n{broken\n')
    said = navi_command("embed", "--model", model_dir, tmp_path / "shop.jsonl", "-o", tmp_path / "out.parquet").stdout
    assert "1 row: broken row" in said
    assert "shop.jsonl:2" in said


@pytest.mark.parametrize("name", ["rows.csv", "no/out.parquet"])
def test_the_command_refuses_a_file_that_it_cannot_write_before_any_work(navi_command, folder, tmp_path, name):
    result = navi_command("embed", "--model", tmp_path / "nowhere", folder, "-o", tmp_path / name, code=2)
    assert len(result.stderr.splitlines()) == 1
    assert "Let it end in .parquet" in result.stderr or "there is no folder" in result.stderr
    assert not (tmp_path / name).exists()
