"""Tables in memory to rows of segments and tokens: what a model is given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from navi.corpus import PrepareConfig, RowEncoder
from navi.corpus.hashing import hash_text, hash_texts, mix
from navi.corpus.tokens import TextTokenizer
from navi.errors import ModelError

HEADERS = st.sampled_from(["title", "Title", "year", "a.0.b", "a.1.b"])
VALUES = st.sampled_from(["drama", "the film", "1999", "漢字", "no  [SEP]", "film"])
ROWS = st.lists(st.dictionaries(HEADERS, VALUES, min_size=1), min_size=1, max_size=10)
TABLES = st.dictionaries(
    st.sampled_from(["amber", "birch", "cedar"]), st.lists(ROWS, min_size=1, max_size=3), min_size=1
)
SIGNS = "ab1|¦.,$^`~_-<é́ 漢\t\v\x1c\u00a0[]SEPÉİΣ\u200b"
TEXTS = st.lists(st.text(alphabet=st.sampled_from(SIGNS), max_size=40), max_size=12)


@pytest.fixture(scope="session")
def encode(word_tokenizer, make_chunk):
    """Encode tables, given as lists of rows or, chunk by chunk, as lists of such lists."""

    def run(tables, config=None):
        chunks = {
            name: [make_chunk(rows) for rows in (parts if parts and isinstance(parts[0], list) else [parts])]
            for name, parts in tables.items()
        }
        return RowEncoder(word_tokenizer, config).encode(chunks)

    return run


def read_rows(encoded):
    arrays = encoded.arrays
    rows = []
    for begin, end in zip(arrays.row_offsets[:-1], arrays.row_offsets[1:], strict=True):
        segments = arrays.row_segments[begin:end]
        headers = encoded.headers.take(arrays.segment_header[segments]).to_pylist()
        rows.append(dict(zip(headers, encoded.values.take(arrays.segment_value[segments]).to_pylist(), strict=True)))
    return rows


@settings(max_examples=40)
@given(TABLES)
def test_every_row_can_be_read_back(encode, tables):
    encoded = encode(tables)
    assert read_rows(encoded) == [row for chunks in tables.values() for rows in chunks for row in rows]
    names = [encoded.tables[table] for table in encoded.arrays.row_table]
    assert names == [name for name, chunks in tables.items() for rows in chunks for _ in rows]


@settings(max_examples=40)
@given(TABLES)
def test_nothing_is_there_twice_and_everything_is_used(encode, tables):
    encoded = encode(tables)
    arrays = encoded.arrays
    for texts in (encoded.headers, encoded.values, encoded.attributes):
        assert len(set(texts.to_pylist())) == len(texts)
    triples = np.stack([arrays.segment_attribute, arrays.segment_header, arrays.segment_value])
    assert len(np.unique(triples, axis=1).T) == arrays.num_segments
    for used, texts in zip(triples, (encoded.attributes, encoded.headers, encoded.values), strict=True):
        assert set(used.tolist()) == set(range(len(texts)))
    assert set(arrays.row_segments.tolist()) == set(range(arrays.num_segments))


@settings(max_examples=40)
@given(TABLES)
def test_every_cell_belongs_to_the_column_of_its_table_and_header(encode, tables):
    encoded = encode(tables)
    arrays, headers = encoded.arrays, encoded.headers.to_pylist()
    columns = list(zip(arrays.column_table.tolist(), arrays.column_header.tolist(), strict=True))
    assert columns == sorted(columns)
    named = [(encoded.tables[table], headers[header]) for table, header in columns]
    cells = [(name, header) for name, chunks in tables.items() for rows in chunks for row in rows for header in row]
    assert [named[column] for column in arrays.cell_column] == cells
    assert set(named) == set(cells)
    assert arrays.find_columns(arrays.column_table, arrays.column_header).tolist() == list(range(len(columns)))


@settings(max_examples=40)
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_chunks_of_a_table_give_what_one_chunk_gives(encode, chunks):
    apart, whole = encode({"amber": chunks}), encode({"amber": [[row for rows in chunks for row in rows]]})
    assert read_rows(apart) == read_rows(whole)
    assert apart.row_hash.tolist() == whole.row_hash.tolist()
    order_apart, order_whole = (np.argsort(each.headers.to_pylist()) for each in (apart, whole))
    for fact in ("entropy", "fill", "distinct", "mean_tokens", "unknown", "cut"):
        np.testing.assert_array_equal(
            getattr(apart.columns, fact)[order_apart], getattr(whole.columns, fact)[order_whole]
        )
    assert apart.arrays.column_role[order_apart].tolist() == whole.arrays.column_role[order_whole].tolist()


def test_tables_that_are_encoded_together_are_as_each_alone(encode):
    rows = [{"title": "the king", "year": "1999"}, {"title": "love"}, {"year": "war of love"}, {"genre": "drama"}]
    tables = {"amber": [rows[:1], rows[1:]], "birch": [], "cedar": [rows[::-1] * 9000]}
    whole = encode(tables)
    assert whole.tables == ("amber", "birch", "cedar")
    for number, name in enumerate(whole.tables):
        alone = encode({name: tables[name]})
        own = np.flatnonzero(whole.arrays.row_table == number)
        assert whole.arrays.count_row_tokens()[own].tolist() == alone.arrays.count_row_tokens().tolist()
        assert whole.row_hash[own].tolist() == alone.row_hash.tolist()


def test_long_row_keeps_its_first_whole_segments_and_nothing_of_the_others(encode):
    # Each segment has a header of two tokens (h and its digit), a colon, a value of two tokens and [SEP].
    short = PrepareConfig(max_tokens=20, max_header_tokens=8, max_value_tokens=8)
    encoded = encode({"amber": [{f"h{number}": f"film {number}" for number in range(9)}, {"h0": "drama"}]}, short)
    assert encoded.values.to_pylist() == ["film 0", "film 1", "film 2", "drama"]
    assert encoded.headers.to_pylist() == ["h0", "h1", "h2"]
    assert encoded.arrays.count_row_tokens().tolist() == [19, 6]
    exact = encode({"amber": [{f"h{number}": "the film" for number in range(4)}]}, replace(short, max_tokens=25))
    assert exact.arrays.count_row_tokens().tolist() == [25]


def test_hash_of_a_row_is_that_of_its_cells_whatever_their_order_and_the_settings(encode):
    rows = [{"a": "b"}, {"b": "a"}, {"a": "b", "b": "a"}, {"a": "a", "b": "b"}, {"b": "a", "a": "b"}]
    hashes = encode({"amber": rows}).row_hash.tolist()
    assert len(set(hashes)) == 4
    assert hashes[2] == hashes[4]
    short = PrepareConfig(max_value_tokens=1, max_header_tokens=1, max_tokens=5)
    assert encode({"amber": rows}, short).row_hash.tolist() == hashes


def test_hashes_never_change(encode):
    assert hash_texts(["drama", "", "é"]).tolist() == [13222706444115469365, 13020603013274838756, 3394012004367669963]
    assert hash_text("drama") == 13222706444115469365
    assert mix(hash_texts(["title"]), hash_texts(["drama"])).tolist() == [12662642736577480760]
    assert mix(hash_texts(["drama"]), hash_texts(["title"])).tolist() != [12662642736577480760]
    assert encode({"amber": [{"title": "drama", "year": "1999"}, {"title": "drama"}]}).row_hash.tolist() == [
        9755264624545638137,
        4541077208030284558,
    ]


def read_lists(lists):
    return [lists.tokens[begin:end].tolist() for begin, end in zip(lists.offsets[:-1], lists.offsets[1:], strict=True)]


@pytest.mark.parametrize(
    ("text", "tokens", "cut"),
    [
        ("film " * 500, ["film"] * 4, True),
        ("the " + "\u200b" * 400 + " film " * 5, ["the", "film", "film", "film"], True),
        ("x" * 500, ["[UNK]"], False),
        ("the film the film", ["the", "film", "the", "film"], False),
        ("", ["[UNK]"], False),
        ("\u200b", ["[UNK]"], False),
        ("漢", ["[UNK]"], False),
        ("[SEP]", ["[", "s", "##e", "##p"], True),
    ],
)
def test_text_is_cut_or_unknown_and_said_to_be(word_tokenizer, text, tokens, cut):
    lists = TextTokenizer(word_tokenizer).tokenise([text], 4)
    assert [word_tokenizer.id_to_token(token) for token in lists.tokens] == tokens
    assert (lists.cut.tolist(), lists.unknown.tolist()) == ([cut], [tokens.count("[UNK]")])


def encode_plainly(tokenizer, text):
    """Return the tokens of a text as the library gives them, special tokens read as plain text."""
    other = Tokenizer.from_str(tokenizer.to_str())
    other.encode_special_tokens = True
    return other.encode(text, add_special_tokens=False).ids


@given(TEXTS, st.booleans())
@example(["[SEP]", "a [SEP] b", "|", "a | b", "", "Drama,comedy"], True)
@example(["Drama, drama"], False)
def test_texts_get_the_tokens_that_the_tokenizer_gives_them_whole(word_tokenizer, texts, lowercase):
    other = Tokenizer.from_str(word_tokenizer.to_str())
    other.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    expected = [encode_plainly(other, text)[:7] or [other.token_to_id("[UNK]")] for text in texts]
    tokenizer = TextTokenizer(other)
    for _ in range(2):
        assert read_lists(tokenizer.tokenise(texts, 7)) == expected


def test_tokenizers_of_other_kinds_get_whole_texts(word_tokenizer):
    spaced = Tokenizer(models.BPE({"<unk>": 0, "▁a": 1, "▁b": 2, "a": 3, "b": 4, "▁": 5}, [], unk_token="<unk>"))
    spaced.pre_tokenizer = pre_tokenizers.Metaspace()
    assert read_lists(TextTokenizer(spaced).tokenise(["b a", ""], 9)) == [encode_plainly(spaced, "b a"), [0]]
    added = Tokenizer.from_str(word_tokenizer.to_str())
    added.add_tokens(["C++"])
    (found,) = read_lists(TextTokenizer(added).tokenise(["the C++ film"], 9))
    assert len(found) == 3
    assert found == encode_plainly(added, "the C++ film")


def test_tokenizer_without_unknown_is_refused():
    with pytest.raises(ModelError, match="has no token for the unknown"):
        TextTokenizer(Tokenizer(models.BPE({"a": 0}, [])))
